//! containerd: its lines, their configuration, and which one a Kubernetes minor takes.

use mullion_spec::version::Minor;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::number::Number;

/// `containerd.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainerdFile {
    pub(crate) release: Vec<ContainerdRelease>,
    pub(crate) line: Vec<ContainerdLine>,
    pub(crate) kubernetes: Vec<ContainerdNeed>,
}

/// One release of containerd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerdRelease {
    /// Its version.
    pub version: Number,
    /// The hcsshim that it asks for: the Windows shim is built from that module.
    pub hcsshim: String,
    /// Where this was read.
    pub source: String,
}

/// What holds for every release of a line such as `2.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerdLine {
    /// The line.
    pub line: Number,
    /// The Go module it is built from.
    pub module: String,
    /// The configuration format that we write.
    pub config_version: u8,
    /// The configuration format that it writes itself.
    pub native_config_version: u8,
    /// The TOML table with the network plugins' folders.
    pub cni_table: String,
    /// The TOML key of the sandbox image.
    pub sandbox_key: String,
    /// The key of the folder with network plugins: setting the other one as well is fatal.
    pub bin_key: BinKey,
    /// The pause tag that it takes when told nothing.
    pub default_pause: Number,
    /// Where this was read.
    pub source: String,
}

/// How containerd's configuration names the folder with network plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinKey {
    /// `bin_dir`, one folder as text.
    BinDir,
    /// `bin_dirs`, a list of folders.
    BinDirs,
}

/// What a Kubernetes minor needs of containerd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerdNeed {
    /// The Kubernetes minor.
    pub minor: Minor,
    /// The first good version of each line that upstream lists.
    pub minimum: Vec<Number>,
    /// The version that we take.
    pub take: Number,
    /// Why that one.
    pub take_reason: String,
    /// Where this was read.
    pub source: String,
}

impl BinKey {
    /// The key as the configuration spells it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::BinDir => "bin_dir",
            Self::BinDirs => "bin_dirs",
        }
    }
}

impl ContainerdNeed {
    /// The first good version of a release's line; none where upstream does not list the line for this minor.
    pub fn minimum_of(&self, version: &Number) -> Option<&Number> {
        self.minimum
            .iter()
            .find(|minimum| minimum.line() == version.line())
    }
}

impl Catalog {
    /// The containerd that a Kubernetes minor takes; none for a minor that the catalog does not know.
    pub fn containerd_for(&self, minor: Minor) -> Option<&ContainerdRelease> {
        self.containerd(&self.containerd_need(minor)?.take)
    }

    /// What a Kubernetes minor needs of containerd.
    pub fn containerd_need(&self, minor: Minor) -> Option<&ContainerdNeed> {
        self.containerd
            .kubernetes
            .iter()
            .find(|need| need.minor == minor)
    }

    /// An exact release of containerd.
    pub fn containerd(&self, version: &Number) -> Option<&ContainerdRelease> {
        self.containerd
            .release
            .iter()
            .find(|release| release.version == *version)
    }

    /// The line that a version of containerd belongs to.
    pub fn containerd_line(&self, version: &Number) -> Option<&ContainerdLine> {
        self.containerd
            .line
            .iter()
            .find(|line| line.line == version.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proven_containerd_serves_the_minors_that_list_its_line() {
        let catalog = Catalog::builtin();
        let taken = |minor| {
            catalog
                .containerd_for(Minor::one(minor))
                .map(|found| found.version.to_string())
        };
        assert_eq!(taken(36).as_deref(), Some("2.2.2"));
        assert_eq!(
            taken(34).as_deref(),
            Some("2.1.9"),
            "2.2 is not listed for 1.34"
        );
        assert_eq!(taken(99), None);
    }

    #[test]
    fn the_folder_key_changed_with_2_1() {
        let key = |version: &str| {
            let line = Catalog::builtin()
                .containerd_line(&version.parse().unwrap())
                .unwrap();
            (line.config_version, line.bin_key.key())
        };
        assert_eq!(key("1.7.30"), (2, "bin_dir"));
        assert_eq!(key("2.0.7"), (3, "bin_dir"));
        assert_eq!(key("2.2.2"), (3, "bin_dirs"));
    }
}
