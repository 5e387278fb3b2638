//! Which artifacts a cluster needs, with versions, addresses, digests and builds filled in.

use std::collections::BTreeSet;

use mullion_spec::version::Patch;
use mullion_spec::words::{Cni, Os, WindowsVersion};

use crate::artifacts::{
    ArtifactKind, ArtifactRef, ArtifactRow, Build, BuildRow, CBuild, GoBuild, GoModule, Purpose,
    VersionSource,
};
use crate::catalog::Catalog;
use crate::digest::Digest;
use crate::kubernetes::KubernetesRelease;
use crate::patches;

/// What a cluster is made of, as far as artifacts depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactWish {
    /// The network plugin.
    pub cni: Cni,
    /// Whether `NetworkPolicy` is enforced.
    pub network_policy: bool,
    /// The systems of its machines.
    pub systems: BTreeSet<Os>,
    /// The Windows releases of its machines.
    pub windows: BTreeSet<WindowsVersion>,
    /// Whether machines of it run Windows.
    pub runs_windows: bool,
    /// Whether machines of it stand in for Windows.
    pub stands_in: bool,
    /// What the artifacts are for.
    pub purposes: BTreeSet<Purpose>,
}

/// A version as templates use it.
struct Filled {
    version: String,
    tag: String,
}

impl Filled {
    fn same(version: &(impl ToString + ?Sized)) -> Self {
        let version = version.to_string();
        Self {
            tag: version.clone(),
            version,
        }
    }

    fn fill(&self, template: &str, kubernetes: Patch) -> String {
        template
            .replace("{version}", &self.version)
            .replace("{tag}", &self.tag)
            .replace("{major}", &kubernetes.minor.major.to_string())
            .replace("{minor}", &kubernetes.minor.minor.to_string())
            .replace("{patch}", &kubernetes.patch.to_string())
    }
}

/// One question: a release and the rest of the wish.
struct Ask<'a> {
    catalog: &'a Catalog,
    release: &'a KubernetesRelease,
    windows: Vec<WindowsVersion>,
}

impl Ask<'_> {
    /// The version that a subject has for this release. None only where the catalog lacks the subject's row, which
    /// the reference test rules out for every release in it.
    fn version(&self, source: &VersionSource) -> Option<Filled> {
        let catalog = self.catalog;
        let containerd = || catalog.containerd_for(self.release.version.minor);
        Some(match source {
            VersionSource::Kubernetes => Filled {
                version: self.release.version.to_string(),
                tag: format!("v{}", self.release.version),
            },
            VersionSource::Etcd => Filled {
                version: self.release.etcd_version().into(),
                tag: self.release.etcd.clone(),
            },
            VersionSource::Coredns => Filled {
                version: self.release.coredns.to_string(),
                tag: format!("v{}", self.release.coredns),
            },
            VersionSource::Pause => Filled::same(&self.release.pause),
            VersionSource::WindowsPause => {
                Filled::same(catalog.pause_for(self.release, &self.windows).tag)
            }
            VersionSource::Agnhost => Filled::same(&self.release.agnhost),
            VersionSource::Containerd => Filled::same(&containerd()?.version),
            VersionSource::Hcsshim => Filled::same(&containerd()?.hcsshim),
            VersionSource::CniPlugins => Filled::same(&catalog.cni_plugins().version),
            VersionSource::Flannel => Filled::same(&catalog.cni(Cni::Flannel)?.version),
            VersionSource::KubeRouter => Filled::same(&catalog.policy_agent().version),
            VersionSource::Distribution => Filled::same("distribution"),
            VersionSource::Fixed(version) => Filled::same(version),
        })
    }

    fn module(&self, recipe: &str) -> Option<GoModule> {
        let row = self.catalog.recipes.recipe.get(recipe)?;
        let filled = self.version(&row.version)?;
        let version = filled.fill(&row.module_version, self.release.version);
        let pin = self.catalog.module(&row.module, &version);
        Some(GoModule {
            sum: pin.map_or(Digest::Unknown, |pin| pin.sum.clone()),
            // A module that nobody pinned is left to the database's judgement.
            in_checksum_database: pin.is_none_or(|pin| pin.database),
            path: row.module.clone(),
            version,
            replace: row.replace,
            staging_version: row
                .staging_version
                .as_ref()
                .map(|template| filled.fill(template, self.release.version)),
        })
    }

    fn build(&self, os: Os, row: &BuildRow, version: &Filled) -> Option<Build> {
        Some(match row {
            BuildRow::Go(go) => {
                let recipe = self.catalog.recipes.recipe.get(&go.recipe)?;
                let ldflags = go.ldflags.as_ref().unwrap_or(&recipe.ldflags);
                let built = self.version(&recipe.version)?;
                Build::Go(GoBuild {
                    module: self.module(&go.recipe)?,
                    package: go.package.clone(),
                    goos: os,
                    cgo: go.cgo,
                    tags: recipe.tags.clone(),
                    ldflags: built.fill(ldflags, self.release.version),
                    test_binary: go.test_binary,
                    patches: (go.patches.iter())
                        .map(|name| self.catalog.patch(name).cloned())
                        .collect::<Option<_>>()?,
                    tried: go.tried && recipe.tried_versions.contains(&built.version),
                })
            }
            BuildRow::C(c) => {
                let recipe = self.catalog.recipes.recipe.get(&c.recipe)?;
                let built = self.version(&recipe.version)?;
                let flags = c.flags.iter();
                Build::C(CBuild {
                    module: self.module(&c.recipe)?,
                    file: c.file.clone(),
                    flags: flags
                        .map(|flag| version.fill(flag, self.release.version))
                        .collect(),
                    tried: c.tried && recipe.tried_versions.contains(&built.version),
                })
            }
            BuildRow::Image(image) => Build::Image(image.clone()),
            BuildRow::Parts(programs) => Build::Parts {
                programs: programs.clone(),
            },
        })
    }

    fn resolve(&self, row: &ArtifactRow) -> Option<ArtifactRef> {
        let version = self.version(&row.version)?;
        let filled = |template: &Option<String>| {
            template
                .as_ref()
                .map(|template| version.fill(template, self.release.version))
        };
        let address = filled(&row.address);
        let build = row
            .build
            .as_ref()
            .and_then(|build| self.build(row.os, build, &version));
        let file = match (row.kind, row.os) {
            _ if row.file.is_some() => row.file.clone(),
            (ArtifactKind::Program, Os::Linux) => Some(row.name.clone()),
            (ArtifactKind::Program, Os::Windows) => Some(format!("{}.exe", row.name)),
            (ArtifactKind::Archive, _) => address
                .as_ref()
                .and_then(|address| address.rsplit('/').next().map(str::to_owned)),
            (ArtifactKind::Image | ArtifactKind::Package, _) => None,
        };
        Some(ArtifactRef {
            name: row.name.clone(),
            kind: row.kind,
            os: row.os,
            file,
            checksum: filled(&row.checksum),
            digest: row.digest.clone(),
            source: row.source.clone(),
            version: match &build {
                Some(Build::Go(go)) if !go.patches.is_empty() => {
                    format!("{}+{}", version.version, patches::fingerprint(&go.patches))
                }
                _ => version.version,
            },
            build,
            address,
            control_plane: row.control_plane,
        })
    }
}

impl ArtifactWish {
    fn covers(&self, row: &ArtifactRow) -> bool {
        self.systems.contains(&row.os)
            && (row.when.cni.is_empty() || row.when.cni.contains(&self.cni))
            && (self.network_policy || !row.when.policy)
            && match row.when.stand_in {
                None => true,
                Some(true) => self.stands_in,
                Some(false) => self.runs_windows,
            }
            && self.purposes.contains(&row.when.purpose)
    }
}

impl Catalog {
    /// Every artifact, with the versions that a release gives it: what lists show.
    pub(crate) fn all_artifacts(&self, release: &KubernetesRelease) -> Vec<ArtifactRef> {
        let ask = Ask {
            catalog: self,
            release,
            windows: self
                .windows_releases()
                .map(|(version, _)| version)
                .collect(),
        };
        let rows = self.artifacts.artifact.iter();
        rows.filter_map(|row| ask.resolve(row)).collect()
    }

    /// The artifacts that a cluster of a release of this catalog needs, in the order of the data.
    ///
    /// Where an archive and the programs inside it both come from upstream, both are listed: the archive's build
    /// names the programs that take its place.
    pub fn artifacts_for(
        &self,
        release: &KubernetesRelease,
        wish: &ArtifactWish,
    ) -> Vec<ArtifactRef> {
        let ask = Ask {
            catalog: self,
            release,
            windows: wish.windows.iter().copied().collect(),
        };
        let rows = self.artifacts.artifact.iter();
        rows.filter(|row| wish.covers(row))
            .filter_map(|row| ask.resolve(row))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(systems: &[Os], windows: &[WindowsVersion]) -> ArtifactWish {
        ArtifactWish {
            cni: Cni::Flannel,
            network_policy: true,
            systems: systems.iter().copied().collect(),
            windows: windows.iter().copied().collect(),
            runs_windows: true,
            stands_in: false,
            purposes: BTreeSet::from([Purpose::Cluster]),
        }
    }

    fn needs(version: &str, wish: &ArtifactWish) -> Vec<ArtifactRef> {
        let catalog = Catalog::builtin();
        catalog.artifacts_for(
            catalog
                .resolve_kubernetes(version.parse().unwrap())
                .unwrap(),
            wish,
        )
    }

    fn find<'a>(all: &'a [ArtifactRef], name: &str, os: Os) -> Option<&'a ArtifactRef> {
        all.iter()
            .find(|found| found.name == name && found.os == os)
    }

    #[test]
    fn a_program_has_its_address_and_its_build() {
        let all = needs(
            "1.36.4",
            &wish(&[Os::Linux, Os::Windows], &[WindowsVersion::V2022]),
        );
        let kubelet = find(&all, "kubelet", Os::Windows).unwrap();
        assert_eq!(kubelet.file.as_deref(), Some("kubelet.exe"));
        assert_eq!(
            kubelet.address.as_deref(),
            Some("https://dl.k8s.io/release/v1.36.4/bin/windows/amd64/kubelet.exe")
        );
        assert_eq!(kubelet.digest, Digest::Unknown);
        let Some(Build::Go(build)) = &kubelet.build else {
            panic!("{kubelet:?}");
        };
        assert_eq!(
            build.module.sum.to_string(),
            "h1:08GT0ZOMtyCcRnslyvnpWurf1wm20KHbC/aRS+0LxSo="
        );
        assert_eq!(build.module.staging_version.as_deref(), Some("v0.36.4"));
        assert!(
            build.ldflags.contains("gitVersion=v1.36.4 ") && build.ldflags.contains("gitMinor=36")
        );
        let containerd = find(&all, "containerd", Os::Linux).unwrap();
        let Some(Build::Go(build)) = &containerd.build else {
            panic!("{containerd:?}");
        };
        let version = format!("/v2/version.Version={}", containerd.version);
        assert!(build.ldflags.ends_with(&version), "{}", build.ldflags);
    }

    #[test]
    fn a_stand_in_needs_a_kubelet_of_its_own_and_windows_the_real_one() {
        let mut mixed = wish(&[Os::Linux, Os::Windows], &[WindowsVersion::V2022]);
        let has =
            |wish: &ArtifactWish, name| find(&needs("1.36.4", wish), name, Os::Windows).is_some();
        assert!(has(&mixed, "kubelet") && has(&mixed, "pause-image"));
        assert!(!has(&mixed, "kubelet-stand-in"));
        mixed.stands_in = true;
        assert!(has(&mixed, "kubelet") && has(&mixed, "kubelet-stand-in"));
        mixed.runs_windows = false;
        assert!(!has(&mixed, "kubelet") && !has(&mixed, "pause-image"));
        assert!(has(&mixed, "kubelet-stand-in") && has(&mixed, "kubeadm"));
    }

    #[test]
    fn what_is_built_with_patches_has_them_in_its_version() {
        let mut stand_in = wish(&[Os::Windows], &[]);
        stand_in.stands_in = true;
        let all = needs("1.36.4", &stand_in);
        let kubelet = find(&all, "kubelet-stand-in", Os::Windows).unwrap();
        assert_eq!(kubelet.file.as_deref(), Some("kubelet.exe"));
        let Some(Build::Go(build)) = &kubelet.build else {
            panic!("{kubelet:?}");
        };
        assert!(!build.patches.is_empty());
        // The program says the version that it is of; the cache knows it by its patches too.
        assert!(build.ldflags.contains("gitVersion=v1.36.4 "));
        let expected = format!("1.36.4+{}", patches::fingerprint(&build.patches));
        assert_eq!(kubelet.version, expected);
        let kubeadm = find(&all, "kubeadm", Os::Windows).unwrap();
        assert_eq!(kubeadm.version, "1.36.4");
    }

    #[test]
    fn images_carry_the_tags_that_kubeadm_asks_for() {
        let all = needs("1.33.5", &wish(&[Os::Linux], &[]));
        let address = |name| {
            find(&all, name, Os::Linux)
                .unwrap()
                .address
                .clone()
                .unwrap()
        };
        assert_eq!(address("etcd-image"), "registry.k8s.io/etcd:3.5.21-0");
        assert_eq!(
            address("coredns-image"),
            "registry.k8s.io/coredns/coredns:v1.12.0"
        );
        assert_eq!(
            address("kube-apiserver-image"),
            "registry.k8s.io/kube-apiserver:v1.33.5"
        );
    }

    #[test]
    fn the_pause_image_of_windows_follows_its_release() {
        let both = [Os::Linux, Os::Windows];
        let all = needs("1.34", &wish(&both, &[WindowsVersion::V2025]));
        assert_eq!(
            find(&all, "pause-image", Os::Windows).unwrap().version,
            "3.10.2"
        );
        assert_eq!(
            find(&all, "pause-image", Os::Linux).unwrap().version,
            "3.10.1"
        );
    }

    #[test]
    fn what_a_cluster_does_not_need_is_left_out() {
        let linux = needs("1.36", &wish(&[Os::Linux], &[]));
        assert!(linux.iter().all(|found| found.os == Os::Linux));
        assert!(find(&linux, "agnhost", Os::Linux).is_none());
        let mut plain = wish(&[Os::Linux], &[]);
        plain.network_policy = false;
        assert!(find(&linux, "kube-router", Os::Linux).is_some());
        assert!(find(&needs("1.36", &plain), "kube-router", Os::Linux).is_none());
        plain.cni = Cni::None;
        assert!(find(&needs("1.36", &plain), "flanneld", Os::Linux).is_none());
    }

    #[test]
    fn a_module_outside_the_checksum_database_says_so() {
        let all = needs("1.36.4", &wish(&[Os::Linux], &[]));
        let Some(Build::Go(flannel)) = &find(&all, "flanneld", Os::Linux).unwrap().build else {
            panic!("flanneld is built by Go");
        };
        assert!(flannel.cgo && !flannel.module.in_checksum_database);
        assert!(flannel.ldflags.contains("-extldflags -static"));
    }

    #[test]
    fn only_versions_that_were_built_here_count_as_tried() {
        let tried = |version| {
            let all = needs(version, &wish(&[Os::Linux], &[]));
            let build = find(&all, "kubelet", Os::Linux).unwrap().build.clone();
            matches!(build, Some(Build::Go(GoBuild { tried: true, .. })))
        };
        assert!(tried("1.36.4"));
        assert!(!tried("1.33.13"));
    }
}
