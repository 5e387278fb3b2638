//! Proof that the data files agree with each other.
//!
//! Types hold each file by itself; what one file says of another is held here.

use std::collections::BTreeSet;
use std::fmt::Debug;

use mullion_spec::words::{Cni, Os};

use crate::artifacts::{ArtifactKind, BuildRow, Purpose};
use crate::catalog::Catalog;
use crate::digest::Digest;
use crate::needs::ArtifactWish;

fn unique<Item: Ord + Debug>(what: &str, items: impl IntoIterator<Item = Item>) {
    let mut seen = BTreeSet::new();
    for item in items {
        let shown = format!("{item:?}");
        assert!(seen.insert(item), "{what} {shown} stands twice");
    }
}

fn catalog() -> &'static Catalog {
    Catalog::builtin()
}

#[test]
fn no_key_stands_twice() {
    unique(
        "Kubernetes",
        catalog().kubernetes.release.iter().map(|row| row.version),
    );
    unique(
        "minor",
        catalog().kubernetes.minor.iter().map(|row| row.minor),
    );
    unique("fix", catalog().kubernetes.fix.iter().map(|row| &row.name));
    unique(
        "containerd",
        catalog().containerd.release.iter().map(|row| &row.version),
    );
    unique(
        "line",
        catalog().containerd.line.iter().map(|row| &row.line),
    );
    unique(
        "need",
        catalog().containerd.kubernetes.iter().map(|row| row.minor),
    );
    unique(
        "kube-proxy",
        catalog().kube_proxy.minor.iter().map(|row| row.minor),
    );
    unique(
        "flag",
        catalog()
            .kube_proxy
            .windows_flag
            .iter()
            .map(|row| &row.flag),
    );
    unique(
        "disc",
        catalog()
            .windows
            .media
            .iter()
            .map(|row| (row.release, row.revision)),
    );
    unique(
        "base",
        catalog().container_os.base.iter().map(|row| row.build),
    );
    unique("image", catalog().windows_images().map(|image| image.name));
    unique(
        "Linux",
        catalog()
            .linux
            .release
            .iter()
            .flat_map(|row| [&row.version, &row.suite]),
    );
    unique("port", catalog().firewall.port.iter().map(|row| &row.name));
    unique(
        "module",
        catalog()
            .modules
            .pin
            .iter()
            .map(|row| (&row.module, &row.version)),
    );
    let artifacts = catalog().artifacts.artifact.iter();
    unique(
        "artifact",
        artifacts.map(|row| (row.os, row.kind, &row.name)),
    );
    for (cni, release) in &catalog().cni.cni {
        unique(
            &format!("{cni} backend"),
            release.backend.iter().map(|row| row.backend),
        );
        unique(
            &format!("{cni} windows"),
            release.windows.iter().map(|row| row.release),
        );
    }
}

#[test]
fn versions_stand_in_order() {
    assert!(
        catalog()
            .kubernetes
            .release
            .is_sorted_by_key(|row| row.version)
    );
    assert!(catalog().kubernetes.minor.is_sorted_by_key(|row| row.minor));
    assert!(
        catalog()
            .containerd
            .release
            .is_sorted_by_key(|row| &row.version)
    );
    assert!(catalog().container_os.long_term.is_sorted());
}

#[test]
fn every_kubernetes_version_has_all_that_belongs_to_it() {
    assert!(
        catalog()
            .kubernetes_release(catalog().default_kubernetes())
            .is_some()
    );
    for release in catalog().kubernetes_releases() {
        let minor = release.version.minor;
        assert!(
            catalog().kubernetes_minor(minor).is_some(),
            "{}",
            release.version
        );
        assert!(
            catalog().containerd_for(minor).is_some(),
            "{}",
            release.version
        );
        assert!(catalog().kube_proxy(minor).is_some(), "{}", release.version);
    }
    for minor in catalog().kubernetes_minors() {
        assert_eq!(minor.take.minor, minor.minor);
        assert!(
            catalog().kubernetes_release(minor.take).is_some(),
            "{}",
            minor.take
        );
        assert_eq!(
            minor.windows_minimum.is_some(),
            minor.windows_minimum_source.is_some(),
            "{}",
            minor.minor
        );
        if let Some(minimum) = minor.windows_minimum {
            assert_eq!(minimum.minor, minor.minor);
            assert!(
                minor.take >= minimum,
                "{} is taken, Windows wants {minimum}",
                minor.take
            );
            assert!(catalog().kubernetes_release(minimum).is_some(), "{minimum}");
        }
    }
    for fixed in catalog()
        .kubernetes
        .fix
        .iter()
        .flat_map(|fix| &fix.fixed_in)
    {
        assert!(catalog().kubernetes_release(*fixed).is_some(), "{fixed}");
    }
    for (windows, listing) in catalog().kubernetes.windows.iter() {
        for minor in [listing.first, listing.last].into_iter().flatten() {
            assert!(
                catalog().kubernetes_minor(minor).is_some(),
                "{windows} names {minor}"
            );
        }
    }
}

#[test]
fn every_containerd_that_is_named_is_known() {
    for release in &catalog().containerd.release {
        assert!(
            catalog().containerd_line(&release.version).is_some(),
            "{}",
            release.version
        );
    }
    let recipe = &catalog().recipes.recipe["containerd"];
    for need in &catalog().containerd.kubernetes {
        assert!(
            catalog().kubernetes_minor(need.minor).is_some(),
            "{}",
            need.minor
        );
        let minimum = need.minimum_of(&need.take);
        assert!(
            minimum.is_some_and(|minimum| need.take >= *minimum),
            "{} takes {}",
            need.minor,
            need.take
        );
        for minimum in &need.minimum {
            assert!(catalog().containerd_line(minimum).is_some(), "{minimum}");
        }
        let line = catalog().containerd_line(&need.take).unwrap();
        assert_eq!(
            line.module, recipe.module,
            "the recipe builds another module than {}",
            need.take
        );
    }
    for release in &catalog().containerd.release {
        let module = &catalog().containerd_line(&release.version).unwrap().module;
        assert!(
            catalog()
                .module(module, &format!("v{}", release.version))
                .is_some(),
            "{}",
            release.version
        );
    }
}

#[test]
fn a_backend_that_windows_cannot_use_says_why_and_one_it_can_names_its_network() {
    for release in catalog().cni.cni.values() {
        for backend in &release.backend {
            assert_eq!(
                backend.on_windows,
                backend.refusal.is_none(),
                "{}",
                backend.backend
            );
            assert_eq!(
                backend.on_windows,
                backend.network.is_some(),
                "{}",
                backend.backend
            );
            assert_eq!(
                backend.on_windows,
                backend.hns_network.is_some(),
                "{}",
                backend.backend
            );
        }
    }
}

#[test]
fn every_windows_reference_resolves() {
    for value in &catalog().windows.registry {
        assert!(!value.releases.is_empty(), "{}", value.name);
    }
    for bad in catalog().known_bad_updates() {
        assert!(bad.first_bad < bad.first_good, "{bad:?}");
    }
    for (_, release) in catalog().windows_releases() {
        let mut bases = catalog().container_bases();
        assert!(
            bases.any(|base| base.build == release.build),
            "{}",
            release.product
        );
    }
    for port in &catalog().firewall.port {
        assert!(
            port.range().is_some_and(|(first, last)| first <= last),
            "{}",
            port.name
        );
    }
}

#[test]
fn every_recipe_and_program_that_an_artifact_names_is_known() {
    let rows = &catalog().artifacts.artifact;
    let program = |os: Os, name: &str| {
        rows.iter()
            .any(|row| row.kind == ArtifactKind::Program && row.os == os && row.name == *name)
    };
    for row in rows {
        match &row.build {
            Some(BuildRow::Go(build)) => {
                assert!(
                    catalog().recipes.recipe.contains_key(&build.recipe),
                    "{}",
                    row.name
                );
            }
            Some(BuildRow::C(build)) => assert!(
                catalog().recipes.recipe.contains_key(&build.recipe),
                "{}",
                row.name
            ),
            Some(BuildRow::Image(build)) => {
                assert!(program(row.os, &build.program), "{}", row.name);
            }
            Some(BuildRow::Parts(parts)) => {
                for part in parts {
                    assert!(program(row.os, part), "{} names {part}", row.name);
                }
            }
            None => assert!(
                row.address.is_some() || row.kind == ArtifactKind::Package,
                "{}",
                row.name
            ),
        }
    }
    for plugin in &catalog().cni_plugins().linux {
        assert!(program(Os::Linux, plugin), "{plugin}");
    }
    for plugin in &catalog().cni_plugins().windows {
        assert!(program(Os::Windows, plugin), "{plugin}");
    }
}

/// A download that nothing vouches for is taken as it comes the first time: no more of these without a look for a
/// checksum file.
#[test]
fn a_download_has_a_digest_or_a_checksum_file() {
    let rows = catalog().artifacts.artifact.iter();
    let is_file = |kind| kind != ArtifactKind::Image;
    let alone: Vec<_> = rows
        .filter(|row| row.address.is_some() && is_file(row.kind))
        .filter(|row| row.digest == Digest::Unknown && row.checksum.is_none())
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(alone, ["flannel-archive"]);
}

#[test]
fn every_patch_that_a_build_names_is_there_and_every_patch_is_named() {
    let mut named = BTreeSet::new();
    for row in &catalog().artifacts.artifact {
        if let Some(BuildRow::Go(go)) = &row.build {
            for patch in &go.patches {
                assert!(catalog().patch(patch).is_some(), "{}: {patch}", row.name);
                named.insert(patch.as_str());
            }
        }
    }
    for patch in catalog().patches() {
        assert!(named.contains(patch.name.as_str()), "{}", patch.name);
    }
}

/// Every release, with every network plugin, gives each artifact a version and leaves no brace unfilled.
#[test]
fn every_artifact_of_every_release_is_filled_in() {
    let purposes = BTreeSet::from([
        Purpose::Cluster,
        Purpose::Verify,
        Purpose::E2e,
        Purpose::Install,
    ]);
    for release in catalog().kubernetes_releases() {
        let mut seen = BTreeSet::new();
        for cni in catalog().cni.cni.keys() {
            let wish = ArtifactWish {
                cni: *cni,
                network_policy: true,
                systems: BTreeSet::from([Os::Linux, Os::Windows]),
                windows: catalog()
                    .windows_releases()
                    .map(|(version, _)| version)
                    .collect(),
                runs_windows: true,
                stands_in: true,
                purposes: purposes.clone(),
            };
            for found in catalog().artifacts_for(release, &wish) {
                let shown = format!("{found:?}");
                for brace in ["{version}", "{tag}", "{major}", "{minor}", "{patch}"] {
                    assert!(!shown.contains(brace), "{shown}");
                }
                seen.insert((found.os, found.kind, found.name));
            }
        }
        assert_eq!(
            seen.len(),
            catalog().artifacts.artifact.len(),
            "{}",
            release.version
        );
    }
}

#[test]
fn what_the_default_cluster_is_built_from_is_pinned() {
    for minor in catalog().kubernetes_minors() {
        let release = catalog().kubernetes_release(minor.take).unwrap();
        let containerd = catalog().containerd_for(minor.minor).unwrap();
        for (module, version) in [
            ("k8s.io/kubernetes", release.version.to_string()),
            (
                "go.etcd.io/etcd/server/v3",
                release.etcd_version().to_owned(),
            ),
            ("github.com/coredns/coredns", release.coredns.to_string()),
            (
                "github.com/containerd/containerd/v2",
                containerd.version.to_string(),
            ),
            ("github.com/Microsoft/hcsshim", containerd.hcsshim.clone()),
        ] {
            assert!(
                catalog().module(module, &format!("v{version}")).is_some(),
                "{module} {version}"
            );
        }
    }
}

/// The promise of the crate: a new Kubernetes version is a change of the data and of nothing else.
#[test]
fn a_new_kubernetes_version_is_a_change_of_data_only() {
    let text = include_str!("../data/kubernetes.toml");
    let newest = catalog().kubernetes_releases().last().unwrap();
    let next = "1.36.77";
    let row = format!(
        "release = [\n{{ version = \"{next}\", etcd = \"9.9.9-0\", coredns = \"9.9.9\", pause = \"{}\", \
         agnhost = \"9.9\", source = \"test\" }},",
        newest.pause
    );
    let mut grown = Catalog::read().unwrap();
    grown.kubernetes = toml::from_str(&text.replacen("release = [", &row, 1)).unwrap();
    let release = grown.resolve_kubernetes(next.parse().unwrap()).unwrap();
    let wish = ArtifactWish {
        cni: Cni::Flannel,
        network_policy: false,
        systems: BTreeSet::from([Os::Linux]),
        windows: BTreeSet::new(),
        runs_windows: false,
        stands_in: false,
        purposes: BTreeSet::from([Purpose::Cluster]),
    };
    let images = grown.artifacts_for(release, &wish);
    assert!(
        images
            .iter()
            .any(|image| image.address.as_deref() == Some("registry.k8s.io/etcd:9.9.9-0"))
    );
}

/// Holds the other half of the promise: no code names a version, tests excepted.
#[test]
fn no_code_names_a_kubernetes_version() {
    let files = [
        include_str!("artifacts.rs"),
        include_str!("catalog.rs"),
        include_str!("cni.rs"),
        include_str!("containerd.rs"),
        include_str!("kube_proxy.rs"),
        include_str!("kubernetes.rs"),
        include_str!("listing.rs"),
        include_str!("needs.rs"),
        include_str!("patches.rs"),
        include_str!("windows.rs"),
        include_str!("why/mod.rs"),
        include_str!("why/rules.rs"),
    ];
    for file in files {
        let code = file.split("#[cfg(test)]").next().unwrap_or(file);
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            for minor in catalog().kubernetes_minors() {
                assert!(!line.contains(&minor.minor.to_string()), "{line}");
                assert!(
                    !line.contains(&format!("one({})", minor.minor.minor)),
                    "{line}"
                );
            }
        }
    }
}
