//! Linux releases that machines are made of.

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;

/// `linux.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinuxFile {
    pub(crate) root: RootPackages,
    pub(crate) stand_in: StandInRoot,
    pub(crate) release: Vec<LinuxRelease>,
}

/// The packages of a machine that we make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootPackages {
    /// Their names, the same in every release.
    pub packages: Vec<String>,
    /// Where this was read.
    pub source: String,
}

/// The Linux inside what stands in for Windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandInRoot {
    /// The suite of its package archive.
    pub suite: String,
    /// The names of its packages.
    pub packages: Vec<String>,
    /// Where this was read.
    pub source: String,
}

/// A Linux release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinuxRelease {
    /// Its name.
    pub name: String,
    /// Its version, as the file names it.
    pub version: String,
    /// The suite of its package archive.
    pub suite: String,
    /// Its Python interpreter.
    pub python: String,
    /// Whether a cluster was brought up on it here.
    pub proven: bool,
    /// The least memory of a worker, in MiB.
    pub memory_mib: u64,
    /// The least memory of a control plane, in MiB.
    pub control_plane_memory_mib: u64,
    /// The fewest CPUs of a control plane.
    pub control_plane_cpus: u32,
    /// The memory advised, in MiB.
    pub advised_memory_mib: u64,
    /// The smallest disk, in GiB.
    pub disk_gib: u64,
    /// Where this was read.
    pub source: String,
}

impl Catalog {
    /// A Linux release by its version (`12`, `24.04`) or its suite (`bookworm`).
    pub fn linux(&self, name: &str) -> Option<&LinuxRelease> {
        self.linux_releases()
            .find(|release| release.version == name || release.suite == name)
    }

    /// The packages of a machine that we make.
    pub fn root_packages(&self) -> &RootPackages {
        &self.linux.root
    }

    /// The Linux inside what stands in for Windows.
    pub fn stand_in_root(&self) -> &StandInRoot {
        &self.linux.stand_in
    }

    /// Every Linux release.
    pub fn linux_releases(&self) -> impl Iterator<Item = &LinuxRelease> {
        self.linux.release.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_by_version_and_by_suite() {
        let suite = |name| {
            Catalog::builtin()
                .linux(name)
                .map(|found| found.suite.as_str())
        };
        assert_eq!(suite("12"), Some("bookworm"));
        assert_eq!(suite("24.04"), Some("noble"));
        assert_eq!(suite("trixie"), Some("trixie"));
        assert_eq!(suite("11"), None);
    }
}
