//! The blueprint: everything one machine should be, as one document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::windows::{Definition, Windows};

/// Everything one machine should be. What it does not name is left alone.
///
/// An agent is given files whose contents are at hand ([`Content`]). A plan shows files whose contents are named
/// ([`Named`]), since programs may not have been fetched or built when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blueprint<C = Content> {
    /// The version of this document's form: [`crate::VERSION`] when it was written.
    pub version: u32,
    /// The machine it is for: an agent that was given one for another machine refuses it.
    pub machine: String,
    /// Packages of the distribution that are present. Those that are there already are not touched.
    #[serde(default)]
    pub packages: Vec<Package>,
    /// Kernel modules that are loaded, now and after a start.
    #[serde(default)]
    pub modules: BTreeSet<String>,
    /// Kernel settings, now and after a start: `net.ipv4.ip_forward` to `1`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// Folders that are there, whatever is in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<Folder>,
    /// Files, whole.
    #[serde(default = "Vec::new")]
    pub files: Vec<File<C>>,
    /// Services. Their order follows from `after`, not from their place here.
    #[serde(default)]
    pub services: Vec<Service>,
    /// What may come in from outside; no firewall of ours when none is named.
    #[serde(default)]
    pub firewall: Option<Firewall>,
    /// What only Windows has; none for any other system. Left out where it is not there, so that blueprints without it
    /// keep their identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

/// A package of the distribution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// Its name in the distribution.
    pub name: String,
    /// A program that comes with it: where that is found, the package counts as present, however it came.
    pub program: Option<String>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File<C = Content> {
    /// Where, absolute.
    pub path: String,
    /// What is in it.
    pub content: C,
    /// Permissions. On Windows there are two: `0600` lets the system and administrators in and nobody else, and `0644`
    /// whoever the folder lets in.
    pub mode: u32,
}

/// A folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// Where, absolute.
    pub path: String,
    /// Permissions. On Linux one that is there already keeps its own. On Windows there are two, which it gets wherever it
    /// comes from, and so does what comes to be in it: `0700` lets the system and administrators in and nobody else, and
    /// `0755` lets others read and run what is in it.
    pub mode: u32,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// This text.
    Text(String),
    /// Bytes that are brought to the agent's store beforehand, unless the file has them already.
    Stored {
        /// Their digest, and their name in the store.
        sha256: Sha256Digest,
        /// How many.
        size: u64,
    },
}

impl Content {
    /// The digest of the file's bytes.
    pub fn sha256(&self) -> Sha256Digest {
        match self {
            Self::Text(text) => Sha256Digest::of(text.as_bytes()),
            Self::Stored { sha256, .. } => sha256.clone(),
        }
    }
}

/// What will be in a file, by name where it is not text of ours: what a plan shows and compares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// This text. Machines of one cluster have most texts in common: copies share it.
    Text(Arc<str>),
    /// A program for one system (`linux` or `windows`), of one version. Its digest is known once it was fetched or built.
    Program {
        /// Its name.
        name: String,
        /// The system.
        os: String,
        /// Its version.
        version: String,
    },
    /// A file of the user's, by its digest: what is in it may be a secret.
    UserFile {
        /// Its digest.
        sha256: Sha256Digest,
        /// Its size in bytes.
        size: u64,
    },
}

/// A service of the system's service manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Its name, without an ending: `containerd`.
    pub name: String,
    /// Services of this blueprint that run before it is started.
    #[serde(default)]
    pub after: BTreeSet<String>,
    /// Files of this blueprint whose change restarts it; its own definition among them.
    #[serde(default)]
    pub restarted_by: BTreeSet<String>,
    /// What it should be.
    pub state: ServiceState,
    /// How the service manager is told of it, where no file does that: on Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Definition>,
}

/// What a service should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceState {
    /// Running, now and after a start of the machine.
    Running,
    /// Started with the machine; now it is left to whoever starts it first (kubelet, which kubeadm starts), but
    /// restarted where it runs and its files changed.
    Enabled,
    /// Stopped, and not started with the machine.
    Stopped,
}

/// What may come in from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firewall {
    /// Named so that ours are told from others.
    pub group: String,
    /// The ports.
    pub open: Vec<OpenPort>,
}

/// Ports that may be reached from outside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenPort {
    /// What they are for.
    pub name: String,
    /// Over what.
    pub protocol: Protocol,
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// What carries packets to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl<C: Serialize> Blueprint<C> {
    /// Its identity: the digest of its JSON.
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::of_json(self)
    }
}

impl<C> Blueprint<C> {
    /// The same blueprint with other contents of its files, or the first error that `bind` gives.
    pub fn bind<D, E>(&self, mut bind: impl FnMut(&C) -> Result<D, E>) -> Result<Blueprint<D>, E> {
        let files = self.files.iter().map(|file| {
            Ok(File {
                path: file.path.clone(),
                content: bind(&file.content)?,
                mode: file.mode,
            })
        });
        Ok(Blueprint {
            version: self.version,
            machine: self.machine.clone(),
            packages: self.packages.clone(),
            modules: self.modules.clone(),
            sysctls: self.sysctls.clone(),
            folders: self.folders.clone(),
            files: files.collect::<Result<_, E>>()?,
            services: self.services.clone(),
            firewall: self.firewall.clone(),
            windows: self.windows.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Blueprint {
        Blueprint {
            version: crate::VERSION,
            machine: "lin1".into(),
            packages: vec![],
            modules: ["overlay".to_owned()].into(),
            sysctls: [("net.ipv4.ip_forward".to_owned(), "1".to_owned())].into(),
            files: vec![File {
                path: "/etc/motd".into(),
                content: Content::Text("hello\n".into()),
                mode: 0o644,
            }],
            folders: vec![],
            services: vec![],
            firewall: None,
            windows: None,
        }
    }

    #[test]
    fn a_blueprint_survives_being_sent() {
        let text = serde_json::to_string(&sample()).unwrap();
        let back: Blueprint = serde_json::from_str(&text).unwrap();
        assert_eq!(back, sample());
        assert_eq!(back.digest(), sample().digest());
    }

    #[test]
    fn any_change_changes_its_identity() {
        let mut other = sample();
        other.files[0].mode = 0o600;
        assert_ne!(other.digest(), sample().digest());
    }

    #[test]
    fn a_blueprint_without_windows_keeps_the_identity_it_had_before_windows_came() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert!(!text.contains("windows"), "{text}");
        assert!(!text.contains("folders"), "{text}");
        let old = r#"{"version":1,"machine":"win1","windows":{"timeZone":"UTC"}}"#;
        let read: Blueprint = serde_json::from_str(old).unwrap();
        let windows = read.windows.unwrap();
        assert_eq!(windows.time_zone.as_deref(), Some("UTC"));
        assert!(windows.registry.is_empty());
    }

    #[test]
    fn values_of_the_registry_are_told_apart_by_their_type() {
        use crate::windows::{RegistryData, RegistryValue};
        let value = |data| RegistryValue {
            key: r"HKLM\SOFTWARE\Mullion".into(),
            name: "a".into(),
            data,
            restart: false,
        };
        let values = [
            value(RegistryData::Dword(7)),
            value(RegistryData::String("7".into())),
            value(RegistryData::Expandable("7".into())),
            value(RegistryData::MultiString(vec!["7".into()])),
        ];
        let text = serde_json::to_string(&values).unwrap();
        assert!(text.contains(r#""data":{"multi-string":["7"]}"#), "{text}");
        let back: Vec<RegistryValue> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, values);
    }
}
