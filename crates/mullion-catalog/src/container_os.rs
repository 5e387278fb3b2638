//! Which Windows containers run on which Windows host.

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;

/// `container_os.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainerOsFile {
    pub(crate) first_flexible: u32,
    pub(crate) long_term: Vec<u32>,
    pub(crate) source: String,
    pub(crate) base: Vec<ContainerBase>,
    pub(crate) image: Vec<WindowsImage>,
}

/// An image that holds Windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsImage {
    /// Its name, whole; a `*` in its tag stands for any text.
    pub name: String,
    /// The Windows builds in its list of manifests.
    pub builds: Vec<u32>,
    /// Whether Linux is in that list too.
    #[serde(default)]
    pub linux: bool,
    /// The port of the server that it runs by itself.
    pub serves: Option<u16>,
    /// Where this was read.
    pub source: String,
}

/// A family of Windows base images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerBase {
    /// Its name, such as `ltsc2022`.
    pub name: String,
    /// The Windows build inside.
    pub build: u32,
    /// The images, under `mcr.microsoft.com/windows/`.
    pub tags: Vec<String>,
    /// Where this was read.
    pub source: String,
}

impl Catalog {
    /// Whether a host of one build runs a container of another, in process isolation.
    ///
    /// Revisions never matter, and `HostProcess` containers need no match at all. Both builds are of Windows 10.0.
    pub fn container_runs(&self, host_build: u32, container_build: u32) -> bool {
        let rule = &self.container_os;
        if host_build < rule.first_flexible {
            return container_build == host_build;
        }
        let oldest = rule
            .long_term
            .iter()
            .copied()
            .filter(|build| *build < host_build)
            .max();
        (oldest.unwrap_or(rule.first_flexible)..=host_build).contains(&container_build)
    }

    /// Where the rule of [`Self::container_runs`] was read.
    pub fn container_rule_source(&self) -> &str {
        &self.container_os.source
    }

    /// The images that are known to hold Windows, base images included.
    pub fn windows_images(&self) -> impl Iterator<Item = WindowsImage> {
        let of_base = |base: &ContainerBase| {
            let (build, source) = (base.build, base.source.clone());
            let image = move |tag: &String| WindowsImage {
                name: format!("mcr.microsoft.com/windows/{tag}"),
                builds: vec![build],
                linux: false,
                serves: None,
                source: source.clone(),
            };
            base.tags.iter().map(image).collect::<Vec<_>>()
        };
        let own = self.container_os.image.iter().cloned();
        own.chain(self.container_os.base.iter().flat_map(of_base))
    }

    /// The families of Windows base images, oldest first.
    pub fn container_bases(&self) -> impl Iterator<Item = &ContainerBase> {
        self.container_os.base.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_runs_its_own_build_and_from_2025_on_the_release_before() {
        let builds = [17763, 20348, 25398, 26100, 26200, 30000];
        let runs =
            |host| builds.map(|container| Catalog::builtin().container_runs(host, container));
        assert_eq!(
            runs(17763),
            [true, false, false, false, false, false],
            "2019"
        );
        assert_eq!(
            runs(20348),
            [false, true, false, false, false, false],
            "2022"
        );
        assert_eq!(
            runs(25398),
            [false, true, true, false, false, false],
            "23H2"
        );
        assert_eq!(runs(26100), [false, true, true, true, false, false], "2025");
        assert_eq!(
            runs(30000),
            [false, false, false, true, true, true],
            "after 2025"
        );
    }

    #[test]
    fn images_are_known_by_whole_names_and_by_builds_of_bases() {
        let images: Vec<_> = Catalog::builtin().windows_images().collect();
        let nano = images
            .iter()
            .find(|image| image.name.ends_with("nanoserver:ltsc2022"));
        assert_eq!(nano.unwrap().builds, [20348]);
        let bases: Vec<_> = Catalog::builtin().container_bases().collect();
        for image in &images {
            let (_, tag) = image.name.rsplit_once(':').unwrap();
            assert!(!tag.contains('/'), "{} has no tag", image.name);
            assert!(image.name.matches('*').count() <= 1, "{}", image.name);
            assert!(!image.builds.is_empty(), "{}", image.name);
            for build in &image.builds {
                let is_known = bases.iter().any(|base| base.build == *build);
                assert!(is_known, "{}: {build}", image.name);
            }
        }
    }

    /// One that is missing would count as an image of Linux alone, and stand in for nothing.
    #[test]
    fn every_agnhost_and_pause_of_a_kubernetes_release_is_known_to_hold_windows() {
        let catalog = Catalog::builtin();
        let images: Vec<_> = catalog.windows_images().collect();
        let releases = catalog.kubernetes_releases().flat_map(|release| {
            let pause = format!("registry.k8s.io/pause:{}", release.pause);
            let agnhost = format!(
                "registry.k8s.io/e2e-test-images/agnhost:{}",
                release.agnhost
            );
            [pause, agnhost]
        });
        let names: std::collections::BTreeSet<_> = releases.collect();
        assert!(names.len() > 2, "{names:?}");
        for name in names {
            let known = images.iter().find(|image| image.name == name);
            assert!(known.is_some_and(|image| image.linux), "{name}");
        }
    }

    #[test]
    fn a_container_never_runs_on_an_older_host() {
        for host in (17000..30000).step_by(37) {
            assert!(Catalog::builtin().container_runs(host, host), "{host}");
            assert!(!Catalog::builtin().container_runs(host, host + 1), "{host}");
        }
    }
}
