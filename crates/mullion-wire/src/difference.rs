//! How a machine differs from a blueprint: one entry for each change that an apply would make.

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;

/// Longer texts, as JSON writes them, are told by their size and digest.
pub const LONGEST_TEXT: u64 = 256 * 1024;

/// Differences are sent in lines of about this length at most, since transports cut off lines of more than 1 MiB. The two
/// sides of one difference fit.
pub const LONGEST_DIFFERENCES: usize = 640 * 1024;

/// One change that an apply of the blueprint would make.
///
/// The agent finds it by rehearsing the apply, so that a later apply of the same blueprint reports the same changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What kind of thing it is.
    pub kind: DifferenceKind,
    /// Its name: a path, the name of a service, `HKLM\…\name`.
    pub name: String,
    /// What the apply reports once it has made the change, word for word: see [`Event::Changed`](crate::Event::Changed).
    pub what: String,
    /// What is there now. None where nothing is, or where the system does not tell.
    #[serde(default)]
    pub now: Option<Side>,
    /// What will be there. None where nothing will be.
    #[serde(default)]
    pub after: Option<Side>,
    /// Whether the apply can make this change only after the machine was restarted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_restart: bool,
}

/// What kind of thing differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A file.
    File,
    /// A folder: whether it is there, and its permissions.
    Folder,
    /// A package of the distribution.
    Package,
    /// A kernel module.
    KernelModule,
    /// A kernel setting.
    KernelSetting,
    /// A group of firewall rules.
    Firewall,
    /// A service: how it is defined, whether it starts with the machine, whether it runs.
    Service,
    /// An optional feature of Windows.
    Feature,
    /// A value of the registry, variables of the machine's environment among them.
    RegistryValue,
    /// A folder of the machine's `Path`.
    PathFolder,
    /// A root authority that the machine trusts.
    Authority,
    /// The permissions of a file that is not the blueprint's own.
    Permissions,
    /// The host name.
    HostName,
    /// The time zone.
    TimeZone,
    /// A range of dynamic ports.
    DynamicPorts,
    /// A network of HNS.
    Network,
    /// A kind that a newer agent names and this side does not know.
    #[serde(other)]
    Other,
}

impl DifferenceKind {
    /// The kind as a word for people: `kernel setting`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Package => "package",
            Self::KernelModule => "kernel module",
            Self::KernelSetting => "kernel setting",
            Self::Firewall => "firewall",
            Self::Service => "service",
            Self::Feature => "feature",
            Self::RegistryValue => "registry value",
            Self::PathFolder => "folder of the Path",
            Self::Authority => "trusted authority",
            Self::Permissions => "permissions",
            Self::HostName => "host name",
            Self::TimeZone => "time zone",
            Self::DynamicPorts => "dynamic ports",
            Self::Network => "network",
            Self::Other => "other",
        }
    }
}

/// One side of a difference: what is there, or what will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// What it holds.
    pub holds: Holding,
    /// Permissions, of files and folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// What one side of a difference holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Holding {
    /// Text of any number of lines, as it is: whoever shows it must make control characters visible. Secrets that the
    /// agent knows by their form are replaced.
    Text(String),
    /// A state in a few words: `running`, `a link`.
    State(String),
    /// Bytes that are no text, or too many to be sent.
    Bytes {
        /// Their digest.
        sha256: Sha256Digest,
        /// How many.
        size: u64,
    },
    /// Contents that do not leave the machine: not everyone on it may read them.
    Private,
}

impl Side {
    /// A state in a few words.
    pub fn state(words: impl Into<String>) -> Self {
        Self {
            holds: Holding::State(words.into()),
            mode: None,
        }
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            holds: Holding::Text(text.into()),
            mode: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_a_newer_agent_is_read_as_another_one() {
        let line = r#"{"kind":"moon-phase","name":"a","what":"moon a"}"#;
        let read: Difference = serde_json::from_str(line).unwrap();
        assert_eq!(read.kind, DifferenceKind::Other);
        assert_eq!((read.now, read.after), (None, None));
    }

    #[test]
    fn a_kind_is_written_as_its_word_is() {
        for (kind, written) in [
            (DifferenceKind::KernelSetting, "\"kernel-setting\""),
            (DifferenceKind::RegistryValue, "\"registry-value\""),
            (DifferenceKind::File, "\"file\""),
        ] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), written);
            assert_eq!(kind.word().replace(' ', "-"), written.trim_matches('"'));
        }
    }
}
