//! What the agent remembers between requests: what it changed, what was there before, what it still owes.
//!
//! Written down *before* each change, so that a kill at any point loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Firewall, KubeadmPhase, Mark, Sha256Digest};
use serde::{Deserialize, Serialize};

use crate::failure::AgentError;
use crate::system::{Kind, System, SystemError};

mod windows;

pub(crate) use windows::{KeptValue, WindowsApplied, WindowsState};

/// The version of the state's form.
const VERSION: u32 = 1;

/// Everything that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    pub(crate) version: u32,
    /// The machine that blueprints were for.
    pub(crate) machine: Option<String>,
    /// What the controller wrote down with the blueprint that was begun last.
    pub(crate) claim: Option<Mark>,
    /// The blueprint that is wholly applied; none from the first change of an apply until its end.
    pub(crate) applied: Option<Applied>,
    /// What an apply owes.
    pub(crate) pending: Pending,
    /// Files that were laid down, and what was there before.
    pub(crate) files: BTreeMap<String, Original>,
    /// Folders that were made for them.
    pub(crate) folders: BTreeSet<String>,
    /// Packages that were installed.
    pub(crate) packages: BTreeSet<String>,
    /// Services that blueprints named, and how they were before.
    pub(crate) services: BTreeMap<String, Before>,
    /// The files by which services are restarted, also where one is taken away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) causes: BTreeMap<String, BTreeSet<String>>,
    /// Services that ran before a blueprint named them and that none names any more: they may still read files of ours.
    pub(crate) released: BTreeSet<String>,
    /// Settings that were changed, and their values before.
    pub(crate) settings: BTreeMap<String, String>,
    /// Our firewall group.
    pub(crate) firewall: Option<String>,
    /// Marks of the user's commands that ran, by list.
    pub(crate) ran: BTreeMap<String, BTreeSet<String>>,
    /// Archives whose images were imported.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) images: BTreeMap<Sha256Digest, Imported>,
    /// How far kubeadm came.
    pub(crate) kubeadm: Option<KubeadmRecord>,
    /// A renewal of the control plane's certificates that has not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) renewal: Option<Renewal>,
    /// Files with secrets that exist only while a program runs.
    pub(crate) secrets: BTreeSet<String>,
    /// What waits for a start of the machine, and the start in which that was found.
    pub(crate) restarts: BTreeMap<String, String>,
    /// What only Windows has.
    #[serde(skip_serializing_if = "WindowsState::is_empty")]
    pub(crate) windows: WindowsState,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            machine: None,
            claim: None,
            applied: None,
            pending: Pending::default(),
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            packages: BTreeSet::new(),
            services: BTreeMap::new(),
            causes: BTreeMap::new(),
            released: BTreeSet::new(),
            settings: BTreeMap::new(),
            firewall: None,
            ran: BTreeMap::new(),
            images: BTreeMap::new(),
            kubeadm: None,
            renewal: None,
            secrets: BTreeSet::new(),
            restarts: BTreeMap::new(),
            windows: WindowsState::default(),
        }
    }
}

/// A blueprint that is wholly applied, and by what that is seen again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Applied {
    pub(crate) blueprint: Sha256Digest,
    pub(crate) mark: Mark,
    pub(crate) files: BTreeMap<String, Laid>,
    pub(crate) running: BTreeSet<String>,
    /// Services that kubeadm starts.
    #[serde(default)]
    pub(crate) enabled: BTreeSet<String>,
    pub(crate) settings: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) folders: BTreeSet<String>,
    /// What was wanted of the firewall, also where nothing could be set at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) firewall: Option<Firewall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) windows: Option<WindowsApplied>,
}

/// A file as it should be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Laid {
    pub(crate) sha256: Sha256Digest,
    pub(crate) mode: u32,
}

/// What an apply that was cut off still owes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Pending {
    /// Services whose files changed.
    pub(crate) restarts: BTreeSet<String>,
    /// Whether definitions of services changed.
    pub(crate) reload: bool,
    /// Paths beside which a staged file may lie.
    pub(crate) staged: BTreeSet<String>,
}

/// What was at a path before the agent's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Original {
    /// Nothing.
    Absent,
    /// The same bytes with another mode.
    Mode { mode: u32 },
    /// Something else, kept under this name; with this mode, where its twin has ours already.
    Kept { name: String, mode: Option<u32> },
}

/// A renewal of certificates that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Renewal {
    /// Certificates that ended at this time or before were to be renewed, in seconds since 1970.
    pub(crate) expires: u64,
    /// Whether kubeadm has issued all the new ones: what is left is to let the control plane use them.
    pub(crate) is_issued: bool,
}

/// An archive of images.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Imported {
    /// The references that came with it.
    pub(crate) references: BTreeSet<String>,
    /// Those that were there before, until it is known what came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<BTreeSet<String>>,
    /// The digests of images that it may not replace, until a check found them unchanged. Those that it replaced stay here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) protected: BTreeMap<String, String>,
    /// The references that came with archives which it replaced.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) former: BTreeSet<String>,
}

/// How a service was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Before {
    pub(crate) is_enabled: bool,
    pub(crate) is_running: bool,
}

/// How far kubeadm came on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeadmRecord {
    pub(crate) phase: KubeadmPhase,
    /// The authority of the cluster, once it is known.
    pub(crate) authority: Option<Sha256Digest>,
}

#[derive(Deserialize)]
struct OnlyVersion {
    version: u32,
}

impl State {
    /// Whether kubeadm is done with this machine.
    pub(crate) fn is_of_cluster(&self) -> bool {
        let phase = self.kubeadm.as_ref().map(|record| record.phase);
        phase == Some(KubeadmPhase::Finished)
    }

    /// What was written down, or nothing.
    pub(crate) fn load(system: &dyn System) -> Result<Self, AgentError> {
        let path = path(system);
        // What is there and is no file of ours is never taken for missing: what was there before could not be put back.
        match system.look(&path)? {
            None => return Ok(Self::default()),
            Some(look) if look.kind == Kind::File => {}
            Some(look) => {
                return Err(AgentError::InTheWay {
                    path,
                    what: match look.kind {
                        Kind::Folder => "a folder",
                        Kind::Link => "a link",
                        _ => "not a file",
                    },
                });
            }
        }
        let Some(bytes) = system.read(&path)? else {
            return Ok(Self::default());
        };
        let unreadable = |source| AgentError::State {
            path: path.clone(),
            source,
        };
        let OnlyVersion { version } = serde_json::from_slice(&bytes).map_err(unreadable)?;
        if version > VERSION {
            return Err(AgentError::Newer {
                what: "state",
                found: version,
                known: VERSION,
                agent: crate::VERSION,
            });
        }
        serde_json::from_slice(&bytes).map_err(unreadable)
    }

    /// Writes it down, wholly or not at all.
    pub(crate) fn save(&self, system: &dyn System) -> Result<(), AgentError> {
        let path = path(system);
        // Text, numbers and maps by text: JSON holds them all.
        let bytes = serde_json::to_vec(self).map_err(|source| AgentError::State {
            path: path.clone(),
            source,
        })?;
        make_state_folder(system)?;
        let new = format!("{path}.new");
        system.write(&new, &bytes, 0o600)?;
        system.rename(&new, &path)?;
        Ok(())
    }

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The state's file.
pub(crate) fn path(system: &dyn System) -> String {
    format!("{}/state.json", system.paths().state)
}

/// The folder of contents that were brought.
pub(crate) fn store(system: &dyn System) -> String {
    format!("{}/store", system.paths().state)
}

/// The folder of what was there before.
pub(crate) fn originals(system: &dyn System) -> String {
    format!("{}/originals", system.paths().state)
}

/// Makes the state folder where it is missing; nobody but root sees into it.
pub(crate) fn make_state_folder(system: &dyn System) -> Result<(), SystemError> {
    let folder = &system.paths().state;
    if system.look(folder)?.is_some() {
        return Ok(());
    }
    let mut missing = vec![folder.as_str()];
    while let Some(parent) = missing.last().and_then(|path| crate::system::parent(path)) {
        if system.look(parent)?.is_some() {
            break;
        }
        missing.push(parent);
    }
    for path in missing.into_iter().rev() {
        let mode = if path == folder { 0o700 } else { 0o755 };
        system.make_folder(path, mode)?;
    }
    Ok(())
}
