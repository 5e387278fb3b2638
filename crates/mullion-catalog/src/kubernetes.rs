//! Kubernetes: which versions there are, what each wants, and which Windows releases it supports.

use std::fmt::{self, Display, Formatter};

use mullion_spec::version::{Minor, Patch, VersionWish};
use mullion_spec::words::WindowsVersion;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::number::Number;
use crate::total::Total;

/// `kubernetes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KubernetesFile {
    pub(crate) default: Patch,
    pub(crate) release: Vec<KubernetesRelease>,
    pub(crate) minor: Vec<KubernetesMinor>,
    pub(crate) windows: Total<WindowsVersion, WindowsListing>,
    pub(crate) fix: Vec<Fix>,
}

/// One patch release and the images that its kubeadm asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesRelease {
    /// Its version.
    pub version: Patch,
    /// The tag of etcd's image, such as `3.6.8-0`.
    pub etcd: String,
    /// `CoreDNS`' version, without the `v` of its tag.
    pub coredns: Number,
    /// The tag of the pause image that kubeadm names.
    pub pause: Number,
    /// The tag of the agnhost image that its tests use.
    pub agnhost: Number,
    /// Where this was read.
    pub source: String,
}

/// What holds for every patch of a minor release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesMinor {
    /// Its version.
    pub minor: Minor,
    /// The patch that a wish for the minor alone becomes.
    pub take: Patch,
    /// Why that one.
    pub take_reason: String,
    /// The `apiVersion` of kubeadm's configuration.
    pub kubeadm_api: String,
    /// The first patch with every Windows fix that was brought to this minor, where one is known.
    pub windows_minimum: Option<Patch>,
    /// Where that was read.
    pub windows_minimum_source: Option<String>,
    /// Kubelet knows `--pod-infra-container-image`, and kubeadm writes it.
    pub pod_infra_flag: bool,
    /// kube-log-runner has its rotation and flush flags.
    pub log_runner_rotates: bool,
    /// `KubeletConfiguration` fields that stop a Windows kubelet when they are set.
    pub windows_fatal_fields: Vec<String>,
    /// Where this was read.
    pub source: String,
}

/// The minors whose documentation names a Windows release. An end that is missing is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsListing {
    /// The first minor that names it.
    pub first: Option<Minor>,
    /// The last minor that names it.
    pub last: Option<Minor>,
    /// Where this was read.
    pub source: String,
}

/// A fault of Windows nodes, and where it is mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// A short name.
    pub name: String,
    /// What one sees without the fix.
    pub symptom: String,
    /// The first good patch of each minor that had the fault and got the fix.
    pub fixed_in: Vec<Patch>,
    /// The pull requests against kubernetes/kubernetes.
    pub pulls: Vec<u32>,
    /// Where this was read.
    pub source: String,
}

/// Whether upstream supports a Windows release with a Kubernetes minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "support", rename_all = "kebab-case")]
pub enum Support<'a> {
    /// Its documentation names the release.
    Supported {
        /// Where that was read.
        source: &'a str,
    },
    /// Its documentation names the release no more.
    Unsupported {
        /// The last minor that did.
        last_good: Minor,
        /// Where that was read.
        source: &'a str,
    },
    /// Its documentation does not name the release yet.
    NotYet {
        /// The first minor that does.
        first_good: Minor,
        /// Where that was read.
        source: &'a str,
    },
}

/// The catalog does not know the version that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnknownVersion {
    /// What was asked for.
    pub asked: VersionWish,
    /// The newest known patch of the minor that was asked for; none when the minor is not known either.
    pub newest_of_minor: Option<Patch>,
    /// The minors that are known, oldest first.
    pub known_minors: Vec<Minor>,
}

/// The pause image's tag for a set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseChoice<'a> {
    /// The tag.
    pub tag: &'a Number,
    /// What asked for it: kubeadm's own choice, or the Windows release that needs a newer one.
    pub because_of: Option<WindowsVersion>,
    /// Where that was read.
    pub source: &'a str,
}

impl KubernetesRelease {
    /// The version of etcd, without the revision of its image: `3.6.8` of `3.6.8-0`.
    pub fn etcd_version(&self) -> &str {
        self.etcd.split('-').next().unwrap_or(&self.etcd)
    }
}

impl Fix {
    /// Whether the patch still has the fault: its minor got the fix, in a later patch.
    pub fn is_missing_in(&self, version: Patch) -> bool {
        self.fixed_in
            .iter()
            .any(|fixed| fixed.minor == version.minor && version < *fixed)
    }
}

impl Display for UnknownVersion {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "the catalog does not know Kubernetes {}", self.asked)?;
        if let Some(newest) = self.newest_of_minor {
            return write!(out, "; the newest it knows of that minor is {newest}");
        }
        let known: Vec<_> = self.known_minors.iter().map(Minor::to_string).collect();
        write!(out, "; it knows {}", known.join(", "))
    }
}

impl Catalog {
    /// The release that a wish becomes.
    ///
    /// `latest` is the newest known. A minor alone is the patch that the catalog takes for it, which is the
    /// newest one unless an older one is proven. An exact version is itself.
    pub fn resolve_kubernetes(
        &self,
        wish: VersionWish,
    ) -> Result<&KubernetesRelease, UnknownVersion> {
        let found = match wish {
            VersionWish::Latest => self
                .kubernetes
                .release
                .iter()
                .max_by_key(|release| release.version),
            VersionWish::Minor(minor) => self
                .kubernetes_minor(minor)
                .and_then(|minor| self.kubernetes_release(minor.take)),
            VersionWish::Patch(patch) => self.kubernetes_release(patch),
        };
        found.ok_or_else(|| UnknownVersion {
            asked: wish,
            newest_of_minor: match wish {
                VersionWish::Latest => None,
                VersionWish::Minor(minor) | VersionWish::Patch(Patch { minor, .. }) => {
                    self.newest_patch(minor)
                }
            },
            known_minors: self.kubernetes_minors().map(|minor| minor.minor).collect(),
        })
    }

    /// The version that a file without one gets.
    pub fn default_kubernetes(&self) -> Patch {
        self.kubernetes.default
    }

    /// An exact release.
    pub fn kubernetes_release(&self, version: Patch) -> Option<&KubernetesRelease> {
        self.kubernetes
            .release
            .iter()
            .find(|release| release.version == version)
    }

    /// Every release, oldest first.
    pub fn kubernetes_releases(&self) -> impl Iterator<Item = &KubernetesRelease> {
        self.kubernetes.release.iter()
    }

    /// What holds for a minor release.
    pub fn kubernetes_minor(&self, minor: Minor) -> Option<&KubernetesMinor> {
        self.kubernetes
            .minor
            .iter()
            .find(|known| known.minor == minor)
    }

    /// Every minor, oldest first.
    pub fn kubernetes_minors(&self) -> impl Iterator<Item = &KubernetesMinor> {
        self.kubernetes.minor.iter()
    }

    /// The newest known patch of a minor.
    pub fn newest_patch(&self, minor: Minor) -> Option<Patch> {
        let patches = self
            .kubernetes
            .release
            .iter()
            .map(|release| release.version);
        patches.filter(|patch| patch.minor == minor).max()
    }

    /// Whether upstream supports a Windows release with a Kubernetes minor, known here or not.
    pub fn windows_support(&self, minor: Minor, windows: WindowsVersion) -> Support<'_> {
        let listing = self.kubernetes.windows.get(windows);
        let source = listing.source.as_str();
        match (listing.first, listing.last) {
            (_, Some(last_good)) if minor > last_good => Support::Unsupported { last_good, source },
            (Some(first_good), _) if minor < first_good => Support::NotYet { first_good, source },
            _ => Support::Supported { source },
        }
    }

    /// The faults of Windows nodes that a release still has although its minor got the fix.
    pub fn missing_fixes(&self, version: Patch) -> Vec<&Fix> {
        let fixes = self.kubernetes.fix.iter();
        fixes.filter(|fix| fix.is_missing_in(version)).collect()
    }

    /// The pause image that a node of each of these Windows releases can start: kubeadm's own, or a newer one.
    ///
    /// With no Windows release it is kubeadm's own.
    pub fn pause_for<'a>(
        &'a self,
        release: &'a KubernetesRelease,
        windows: &[WindowsVersion],
    ) -> PauseChoice<'a> {
        let mut choice = PauseChoice {
            tag: &release.pause,
            because_of: None,
            source: &release.source,
        };
        for version in windows {
            let facts = self.windows(*version);
            if facts.first_pause > *choice.tag {
                choice = PauseChoice {
                    tag: &facts.first_pause,
                    because_of: Some(*version),
                    source: &facts.pause_source,
                };
            }
        }
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(wish: &str) -> Result<String, UnknownVersion> {
        Catalog::builtin()
            .resolve_kubernetes(wish.parse().unwrap())
            .map(|release| release.version.to_string())
    }

    #[test]
    fn a_wish_becomes_the_release_it_means() {
        assert_eq!(resolve("1.36.4").unwrap(), "1.36.4");
        assert_eq!(resolve("1.36").unwrap(), "1.36.4", "the proven one");
        assert_eq!(resolve("1.33").unwrap(), "1.33.13", "the newest one");
        assert_eq!(resolve("latest").unwrap(), "1.36.5");
        assert_eq!(
            Catalog::builtin().default_kubernetes().to_string(),
            "1.36.4"
        );
    }

    #[test]
    fn an_unknown_patch_names_the_newest_of_its_minor() {
        let error = resolve("1.36.99").unwrap_err();
        assert_eq!(error.newest_of_minor, Some("1.36.5".parse().unwrap()));
        assert_eq!(
            error.to_string(),
            "the catalog does not know Kubernetes 1.36.99; the newest it knows of that minor is 1.36.5"
        );
    }

    #[test]
    fn an_unknown_minor_names_the_known_ones() {
        let error = resolve("1.20").unwrap_err();
        assert_eq!(error.newest_of_minor, None);
        assert_eq!(
            error.to_string(),
            "the catalog does not know Kubernetes 1.20; it knows 1.32, 1.33, 1.34, 1.35, 1.36"
        );
    }

    #[test]
    fn server_2019_is_supported_up_to_1_34_and_2025_from_1_35_on() {
        let support =
            |minor, windows| Catalog::builtin().windows_support(Minor::one(minor), windows);
        assert!(matches!(
            support(34, WindowsVersion::V2019),
            Support::Supported { .. }
        ));
        for minor in [35, 36, 99] {
            let found = support(minor, WindowsVersion::V2019);
            assert!(
                matches!(found, Support::Unsupported { last_good, .. } if last_good == Minor::one(34))
            );
        }
        let found = support(34, WindowsVersion::V2025);
        assert!(
            matches!(found, Support::NotYet { first_good, .. } if first_good == Minor::one(35))
        );
        for minor in [1, 32, 36, 99] {
            assert!(matches!(
                support(minor, WindowsVersion::V2022),
                Support::Supported { .. }
            ));
        }
    }

    #[test]
    fn the_recommended_windows_patch_is_the_first_that_lacks_no_fix() {
        let catalog = Catalog::builtin();
        for minor in catalog.kubernetes_minors() {
            let minimum = minor.windows_minimum.unwrap();
            assert_eq!(
                catalog.missing_fixes(minimum),
                Vec::<&Fix>::new(),
                "{minimum}"
            );
            if let Some(before) = minimum.patch.checked_sub(1) {
                let before = Patch {
                    patch: before,
                    ..minimum
                };
                assert!(!catalog.missing_fixes(before).is_empty(), "{before}");
            }
        }
    }

    #[test]
    fn server_2025_raises_the_pause_image_and_2022_does_not() {
        let catalog = Catalog::builtin();
        let old = catalog.resolve_kubernetes("1.34".parse().unwrap()).unwrap();
        assert_eq!(catalog.pause_for(old, &[]).tag.to_string(), "3.10.1");
        assert_eq!(
            catalog
                .pause_for(old, &[WindowsVersion::V2022])
                .tag
                .to_string(),
            "3.10.1"
        );
        let both = catalog.pause_for(old, &[WindowsVersion::V2022, WindowsVersion::V2025]);
        assert_eq!(
            (both.tag.to_string().as_str(), both.because_of),
            ("3.10.2", Some(WindowsVersion::V2025))
        );
        let new = catalog.resolve_kubernetes("1.36".parse().unwrap()).unwrap();
        assert_eq!(
            catalog.pause_for(new, &[WindowsVersion::V2025]).because_of,
            None
        );
    }
}
