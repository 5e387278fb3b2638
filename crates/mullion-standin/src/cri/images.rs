//! Which Windows images there are, and which image of the Linux runtime stands in for each.
//!
//! The table is a file:
//!
//! ```toml
//! [[image]]
//! name = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
//! local = "mullion.dev/stand-in/nanoserver:ltsc2022"   # the name itself where it is missing
//! os-version = "10.0.20348.3807"                       # any host where it is missing, as for HostProcess base images
//! user = "ContainerUser"                               # whom the image runs as
//! command = ["/bin/sh"]                                # what runs where a pod names neither command nor arguments
//!
//! [[image]]
//! name = "registry.k8s.io/coredns/coredns:v1.14.2"
//! linux = true                                         # there is nothing for Windows in it
//! ```
//!
//! An image for several builds has several entries of one name. A `*` in a tag stands for any text; an entry without one
//! goes first. What is not in the table is judged by its own manifests, see `platforms`.

use serde::Deserialize;
use thiserror::Error;

use super::version::OsVersion;

/// One Windows image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    name: String,
    local: Option<String>,
    os_version: Option<OsVersion>,
    user: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    linux: bool,
}

/// A table that is not as it should be.
#[derive(Debug, Error)]
#[error("the table of images is not as it should be")]
pub struct ImagesError(#[from] toml::de::Error);

/// A Windows image, with what stands in for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Its name, whole: registry, repository, tag or digest.
    pub(super) name: String,
    /// The Linux runtime's name of what stands in for it.
    pub(super) local: String,
    /// The Windows version that it is for.
    pub(super) version: Option<OsVersion>,
    /// Whom it runs as.
    pub(super) user: Option<String>,
    /// What runs where a pod names nothing; what stands in has its own where this is empty.
    pub(super) command: Vec<String>,
    /// Where this is known from.
    pub(super) origin: Origin,
}

/// Where it is known from what an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The table, which says that it holds Windows.
    Table,
    /// The table, which says that it holds none.
    LinuxOnly,
    /// The manifests of the image itself, which may be another tomorrow.
    Manifests,
}

/// What a reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// An image that this host runs.
    Fits(&'a Image),
    /// An image for other hosts only: one of its entries.
    OtherBuild(&'a Image),
    /// An image with nothing for Windows.
    LinuxOnly,
    /// Nothing that is known.
    Unknown,
}

/// The table.
#[derive(Debug, Clone, Default)]
pub struct Images {
    images: Vec<Image>,
}

impl Images {
    /// Reads the table.
    pub fn parse(text: &str) -> Result<Self, ImagesError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(default)]
            image: Vec<Row>,
        }
        let table: Table = toml::from_str(text)?;
        let image = |row: Row| {
            let name = whole(&row.name);
            Image {
                local: row.local.as_deref().map_or_else(|| name.clone(), whole),
                version: row.os_version,
                user: row.user,
                command: row.command,
                origin: if row.linux {
                    Origin::LinuxOnly
                } else {
                    Origin::Table
                },
                name,
            }
        };
        Ok(Self {
            images: table.image.into_iter().map(image).collect(),
        })
    }

    /// What a reference leads to on a host. Of several entries that fit, the newest.
    pub(super) fn find(&self, reference: &str, host: OsVersion) -> Found<'_> {
        let wanted = whole(reference);
        let mut named: Vec<_> = self.images.iter().filter(|it| it.name == wanted).collect();
        if named.is_empty() {
            let is_meant = |image: &&Image| is_of_pattern(&image.name, &wanted);
            named = self.images.iter().filter(is_meant).collect();
        }
        let windows = || {
            let named = named.iter().copied();
            named.filter(|image| image.origin != Origin::LinuxOnly)
        };
        let fits = windows()
            .filter(|image| image.version.is_none_or(|version| host.runs(version)))
            .max_by_key(|image| image.version.map(OsVersion::build));
        match (fits, windows().next()) {
            (Some(image), _) => Found::Fits(image),
            (None, Some(image)) => Found::OtherBuild(image),
            (None, None) if named.is_empty() => Found::Unknown,
            (None, None) => Found::LinuxOnly,
        }
    }

    /// Whether nobody but an image's own manifests can say what it holds.
    pub(super) fn is_judged_by_manifests(&self, reference: &str) -> bool {
        let wanted = whole(reference);
        let is_named = |image: &&Image| image.name == wanted || is_of_pattern(&image.name, &wanted);
        let mut named = self.images.iter().filter(is_named);
        named.all(|image| image.origin == Origin::Manifests)
    }

    /// The table with what an image's manifests say: the versions of Windows that it is for.
    pub(super) fn with_judged(&self, reference: &str, versions: &[Option<OsVersion>]) -> Self {
        let name = whole(reference);
        let mut images = self.images.clone();
        images.retain(|image| image.origin != Origin::Manifests || image.name != name);
        images.extend(versions.iter().map(|version| Image {
            local: name.clone(),
            name: name.clone(),
            version: *version,
            user: None,
            command: Vec::new(),
            origin: Origin::Manifests,
        }));
        Self { images }
    }

    /// The images that fit a host and that an image of the Linux runtime stands in for, by that one's name.
    pub(super) fn standing_behind(&self, local: &str, host: OsVersion) -> Vec<&Image> {
        let local = whole(local);
        self.images
            .iter()
            .filter(|image| image.local == local && !image.name.contains(ANYTHING))
            .filter(|image| self.find(&image.name, host) == Found::Fits(image))
            .collect()
    }

    /// The Windows name of an image that the Linux runtime names: by tag, or by digest.
    pub(super) fn windows_name(&self, local: &str, host: OsVersion) -> Option<String> {
        if let Some(image) = self.standing_behind(local, host).first() {
            return Some(image.name.clone());
        }
        let (repository, digest) = local.split_once('@')?;
        let is_of = |image: &&Image| self::repository(&image.local) == repository;
        let image = self.images.iter().find(is_of)?;
        Some(format!("{}@{digest}", self::repository(&image.name)))
    }
}

/// Stands for any text in a tag of the table.
const ANYTHING: char = '*';

/// Whether a name is one that an entry's name with a `*` stands for.
fn is_of_pattern(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once(ANYTHING) else {
        return false;
    };
    let between = name
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    between.is_some_and(|between| !between.contains(['/', ':', '@']))
}

/// Whether a reference is an image's own number instead of a name.
pub(super) fn is_number(reference: &str) -> bool {
    let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.len() == 64 && is_hex
}

/// A reference's registry and repository.
///
/// Read by hand: names in the table of images may hold a `*`, which no reader of references takes.
pub(super) fn repository(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        // A port of the registry is no tag.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

/// A reference with what people leave out: `nginx` is `docker.io/library/nginx:latest`.
pub(super) fn whole(reference: &str) -> String {
    let has_registry = reference.split_once('/').is_some_and(|(first, _)| {
        first.contains('.') || first.contains(':') || first == "localhost"
    });
    let named = match (has_registry, reference.contains('/')) {
        (true, _) => reference.to_owned(),
        (false, true) => format!("docker.io/{reference}"),
        (false, false) => format!("docker.io/library/{reference}"),
    };
    let has_end = repository(&named).len() < named.len();
    if let Some((_, digest)) = named.split_once('@') {
        // The runtime leaves out a tag beside a digest.
        format!("{}@{digest}", repository(&named))
    } else if has_end {
        named
    } else {
        format!("{named}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[image]]
        name = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
        local = "mullion.dev/nano:2022"
        os-version = "10.0.20348.3807"

        [[image]]
        name = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
        local = "mullion.dev/agnhost:1"
        os-version = "10.0.20348.1"
        user = "ContainerAdministrator"

        [[image]]
        name = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
        local = "mullion.dev/agnhost:2"
        os-version = "10.0.26100.1"

        [[image]]
        name = "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0"

        [[image]]
        name = "mcr.microsoft.com/dotnet/aspnet:*-nanoserver-1809"
        local = "mullion.dev/nano:1809"
        os-version = "10.0.17763.0"

        [[image]]
        name = "r.io/dns:1"
        linux = true

        [[image]]
        name = "web"
        local = "localhost:5000/web"
        os-version = "10.0.17763.1"
    "#;

    fn found(reference: &str, build: u32) -> String {
        let images = Images::parse(TABLE).unwrap();
        match images.find(reference, OsVersion::of_build(build, 1)) {
            Found::Fits(image) => format!("fits {}", image.local),
            Found::OtherBuild(image) => format!("other {}", image.local),
            Found::LinuxOnly => "linux".into(),
            Found::Unknown => "unknown".into(),
        }
    }

    #[test]
    fn a_reference_leads_to_what_the_host_runs() {
        let agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
        let nano = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
        for (reference, build, expected) in [
            (nano, 20_348, "fits mullion.dev/nano:2022"),
            (nano, 26_100, "fits mullion.dev/nano:2022"),
            (nano, 17_763, "other mullion.dev/nano:2022"),
            (agnhost, 20_348, "fits mullion.dev/agnhost:1"),
            (agnhost, 26_100, "fits mullion.dev/agnhost:2"),
            (agnhost, 17_763, "other mullion.dev/agnhost:1"),
            ("web", 17_763, "fits localhost:5000/web:latest"),
            (
                "docker.io/library/web:latest",
                17_763,
                "fits localhost:5000/web:latest",
            ),
            ("web:1", 17_763, "unknown"),
            ("nginx", 20_348, "unknown"),
            ("r.io/dns:1", 20_348, "linux"),
            (
                "mcr.microsoft.com/dotnet/aspnet:9.0-nanoserver-1809",
                20_348,
                "other mullion.dev/nano:1809",
            ),
            (
                "mcr.microsoft.com/dotnet/aspnet:x/y-nanoserver-1809",
                17_763,
                "unknown",
            ),
            ("", 20_348, "unknown"),
        ] {
            assert_eq!(found(reference, build), expected, "{reference} on {build}");
        }
        let base =
            "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0";
        assert_eq!(found(base, 17_763), format!("fits {base}"));
    }

    #[test]
    fn the_linux_runtimes_names_are_given_back_as_windows_ones() {
        let images = Images::parse(TABLE).unwrap();
        let host = OsVersion::of_build(20_348, 1);
        let digest = format!("sha256:{}", "0".repeat(64));
        for (local, expected) in [
            (
                "mullion.dev/agnhost:1",
                Some("registry.k8s.io/e2e-test-images/agnhost:2.63.0".to_owned()),
            ),
            ("mullion.dev/agnhost:2", None),
            (
                &format!("mullion.dev/nano@{digest}"),
                Some(format!("mcr.microsoft.com/windows/nanoserver@{digest}")),
            ),
            ("docker.io/library/nginx:latest", None),
            (&digest, None),
        ] {
            assert_eq!(images.windows_name(local, host), expected, "{local}");
        }
    }

    #[test]
    fn what_manifests_say_holds_until_they_say_another_thing() {
        let images = Images::parse(TABLE).unwrap();
        let versions = |builds: &[u32]| -> Vec<_> {
            let version = |build: &u32| Some(OsVersion::of_build(*build, 1));
            builds.iter().map(version).collect()
        };
        let host = OsVersion::of_build(20_348, 1);
        let found = |images: &Images| match images.find("own/app", host) {
            Found::Fits(image) => format!("fits {}", image.local),
            other => format!("{other:?}").chars().take(5).collect(),
        };
        assert!(images.is_judged_by_manifests("own/app"));
        assert!(!images.is_judged_by_manifests("r.io/dns:1"));
        assert!(
            !images.is_judged_by_manifests("mcr.microsoft.com/dotnet/aspnet:8-nanoserver-1809")
        );
        let old = images.with_judged("own/app", &versions(&[17_763]));
        assert_eq!(found(&old), "Other");
        assert!(old.is_judged_by_manifests("own/app"));
        let new = old.with_judged("docker.io/own/app:latest", &versions(&[20_348, 17_763]));
        assert_eq!(found(&new), "fits docker.io/own/app:latest");
        assert_eq!(found(&new.with_judged("own/app", &[])), "Unkno");
    }

    #[test]
    fn references_are_completed() {
        for (reference, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("a/b", "docker.io/a/b:latest"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("localhost/x:1", "localhost/x:1"),
            ("r.io/x@sha256:ab", "r.io/x@sha256:ab"),
            ("r.io:5/x:1@sha256:ab", "r.io:5/x@sha256:ab"),
        ] {
            assert_eq!(whole(reference), expected);
        }
        assert!(is_number(&"a".repeat(64)) && is_number(&format!("sha256:{}", "0".repeat(64))));
        assert!(!is_number("nginx") && !is_number("sha256:"));
    }

    #[test]
    fn a_wrong_table_is_an_error() {
        for text in [
            "[[image]]",
            "[[image]]\nname = \"a\"\nos-version = \"x\"",
            "a = 1",
        ] {
            assert!(Images::parse(text).is_err(), "{text}");
        }
        assert!(Images::parse("").unwrap().images.is_empty());
    }
}
