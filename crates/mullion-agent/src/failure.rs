//! Why a request was not fulfilled, and what a person can do about it.

use std::time::Duration;

use mullion_wire::{Event, RequestError, Sha256Digest, error_chain, mask_output};

use crate::system::{Ended, Kind, Starved, System, SystemError};

/// What helps a machine whose memory ran out.
const MORE_MEMORY: &str = "more memory (`memory` of its group in the cluster file, where the file makes the machine), then \
                           run `mullion up` again: it goes on where it was";

/// How a program ended that did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself, or by somebody else.
    Ended(Ended),
    /// By the agent, after so long.
    TooLong(Duration),
}

impl How {
    /// How a run that was begun ended; nothing where all went well.
    pub(crate) fn of(ran: Result<Ended, SystemError>) -> Result<Option<Self>, SystemError> {
        match ran {
            Ok(ended) if ended.is_well() => Ok(None),
            Ok(ended) => Ok(Some(Self::Ended(ended))),
            Err(SystemError::TooLong { deadline, .. }) => Ok(Some(Self::TooLong(deadline))),
            Err(error) => Err(error),
        }
    }

    fn ended(self) -> Option<Ended> {
        match self {
            Self::Ended(ended) => Some(ended),
            Self::TooLong(_) => None,
        }
    }
}

impl std::fmt::Display for How {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(ended) => ended.fmt(out),
            Self::TooLong(deadline) => write!(
                out,
                "was ended: it took longer than {} s",
                deadline.as_secs()
            ),
        }
    }
}

/// Why a request was not fulfilled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No request came.
    #[error("no request came")]
    NoRequest,
    /// Who asked went away while another agent was at work.
    #[error("{what} was not begun: whoever asked for it is gone")]
    Deserted {
        /// What was asked for.
        what: &'static str,
    },
    /// The request is longer than any that makes sense.
    #[error("the request is longer than {limit} bytes")]
    TooLong {
        /// The most that is read.
        limit: u64,
    },
    /// The request could not be received.
    #[error("the request cannot be received")]
    NotReceived(#[source] std::io::Error),
    /// The request or its blueprint is of a version that this agent does not know.
    #[error(
        "the {what} speaks version {found}, and this agent ({agent}) speaks up to version {known}"
    )]
    Newer {
        /// `request`, `blueprint` or `state`.
        what: &'static str,
        /// Theirs.
        found: u32,
        /// Ours.
        known: u32,
        /// The agent's own version.
        agent: &'static str,
    },
    /// The request is of the right version and still unreadable.
    #[error("the request cannot be understood")]
    Unreadable(#[source] RequestError),
    /// The request is one that this agent does not know.
    #[error("this agent ({agent}) does not know the request")]
    UnknownRequest {
        /// The agent's own version.
        agent: &'static str,
    },
    /// The blueprint is for another machine.
    #[error("the blueprint is for `{wanted}` and this machine is `{found}`")]
    OtherMachine {
        /// Whose it is.
        wanted: String,
        /// The host name here.
        found: String,
    },
    /// The blueprint contradicts itself.
    #[error("the blueprint cannot be: {0}")]
    Impossible(String),
    /// A content is nowhere on the machine.
    #[error("the content of `{path}` is not on this machine (sha256 {sha256})")]
    NoContent {
        /// Where it should go.
        path: String,
        /// What is missing.
        sha256: Sha256Digest,
    },
    /// The import of an archive replaced images that the cluster file does not name with it.
    #[error(
        "the archive of `{archive}` replaced images that the cluster file does not name with it: {}",
        images.join(", ")
    )]
    Replaced {
        /// The image that the cluster file names with the archive, or the digest of the archive.
        archive: String,
        /// The images.
        images: Vec<String>,
    },
    /// A file that was just written does not have the bytes that it should have.
    #[error("`{path}` was written, and has sha256 {found} instead of {wanted}")]
    Damaged {
        /// The file.
        path: String,
        /// What it should be.
        wanted: Sha256Digest,
        /// What it is.
        found: Sha256Digest,
    },
    /// Something of another kind is in the way.
    #[error("`{path}` is in the way: it is {what}")]
    InTheWay {
        /// Where.
        path: String,
        /// What it is not: `no folder`.
        what: &'static str,
    },
    /// A folder of ours leads elsewhere.
    #[error("`{0}` leads elsewhere, and services of the system would run what is there")]
    LeadsElsewhere(String),
    /// Something in a folder that the system's services read is of somebody who is no administrator.
    #[error(
        "`{path}` belongs to a user who is no administrator, and services of the system would read it"
    )]
    OfStranger {
        /// Where it is.
        path: String,
        /// What it is.
        kind: Kind,
    },
    /// A service cannot be brought into its state.
    #[error("the service `{name}` could not be {verb}")]
    Service {
        /// Its name.
        name: String,
        /// `started`, `restarted`, `stopped`.
        verb: &'static str,
        /// Why.
        #[source]
        source: Box<SystemError>,
        /// Its last lines.
        log: Vec<String>,
    },
    /// A service is somebody else's, and runs under an account whose password only they know.
    #[error("the service `{name}` is there already and runs as `{account}`")]
    OthersAccount {
        /// Its name.
        name: String,
        /// Who it runs as.
        account: String,
    },
    /// A service was started and does not run.
    #[error("the service `{name}` was started and does not run")]
    NotRunning {
        /// Its name.
        name: String,
        /// Its last lines.
        log: Vec<String>,
    },
    /// A kernel module cannot be loaded.
    #[error("the kernel module `{name}` cannot be loaded")]
    Module {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<SystemError>,
    },
    /// A setting cannot be set.
    #[error("the kernel setting `{name}` cannot be set to `{value}`")]
    Setting {
        /// Its name.
        name: String,
        /// What it should be.
        value: String,
        /// Why.
        #[source]
        source: Box<SystemError>,
    },
    /// Something that only Windows has cannot be made as it should be.
    #[error("it could not be made so: {what}")]
    Windows {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<SystemError>,
    },
    /// Packages cannot be installed.
    #[error("packages cannot be installed: {}", names.join(", "))]
    Packages {
        /// Which.
        names: Vec<String>,
        /// Why.
        #[source]
        source: Box<SystemError>,
    },
    /// The state file is damaged.
    #[error("the agent's own state in `{path}` cannot be read")]
    State {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// kubeadm failed.
    #[error("`kubeadm {step}` {how}")]
    Kubeadm {
        /// `init` or `join`.
        step: &'static str,
        /// How it ended.
        how: How,
        /// Its last lines, and kubelet's where that is not well.
        tail: Vec<String>,
    },
    /// kubeadm was told to ignore everything.
    #[error("preflight errors are ignored by name, never `{0}`")]
    IgnoresAll(String),
    /// The folder of patches is not where kubeadm would look for it.
    #[error("the folder of patches `{folder}` {why}")]
    Patches {
        /// The folder.
        folder: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A control plane or a node is here that this agent did not make.
    #[error("Kubernetes is on this machine already, and not by this agent: `{found}` is there")]
    NotOurs {
        /// What was found.
        found: String,
    },
    /// A finished control plane or node lacks something.
    #[error("this machine is a finished node, and `{missing}` is missing from it")]
    Incomplete {
        /// What is missing.
        missing: String,
    },
    /// The machine is a node of another cluster.
    #[error("this machine is a node of another cluster (its authority has sha256 {found})")]
    OtherCluster {
        /// The digest of that cluster's authority.
        found: Sha256Digest,
    },
    /// What should be there after kubeadm is not.
    #[error("`{0}` is not there")]
    Absent(String),
    /// kubeadm came to its end and renewed nothing.
    #[error("kubeadm did not renew `{0}`")]
    NotRenewed(String),
    /// A program of the control plane was ended and did not come back.
    #[error("kubelet did not start {program} again")]
    StaticPod {
        /// The program.
        program: &'static str,
        /// What kubelet complained of last.
        tail: Vec<String>,
    },
    /// Something of Kubernetes is left after a reset.
    #[error("the reset left `{0}` behind")]
    LeftBehind(String),
    /// A command of the user's failed.
    #[error("command {number} of `{list}` {how}")]
    Command {
        /// Its place, from 1.
        number: usize,
        /// The list.
        list: String,
        /// How it ended.
        how: How,
        /// Its last lines.
        tail: Vec<String>,
    },
    /// Something failed, and programs were ended for want of memory meanwhile.
    #[error("memory ran out on {machine}")]
    MemoryRanOut {
        /// The machine.
        machine: String,
        /// What failed.
        #[source]
        source: Box<AgentError>,
    },
    /// A program was killed, and the system does not tell why.
    #[error(
        "a program on {machine} was ended by signal 9, as the system does where memory runs out"
    )]
    Killed {
        /// The machine.
        machine: String,
        /// What failed.
        #[source]
        source: Box<AgentError>,
    },
    /// The system did not do it.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl AgentError {
    /// What a person can do.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Newer { what: "state", .. } => {
                "a newer agent worked here: use the `mullion` that it came with, or a newer one"
            }
            Self::Newer { .. } | Self::UnknownRequest { .. } => {
                "run `mullion up` again: it brings the agent that belongs to it to the machine"
            }
            Self::OtherMachine { .. } => {
                "check the machine's address in the cluster file: it was prepared as another machine"
            }
            Self::NoContent { .. } => "run it again: what is missing is brought first",
            Self::Replaced { .. } => {
                "save only the images that the cluster file names, or name the others with this archive in `images`; the \
                 replaced images were removed from the machine: `mullion up` or kubelet brings them again"
            }
            Self::State { .. } => {
                "remove that file and run it again; what was there before can then not be put back"
            }
            Self::NotOurs { .. } | Self::OtherCluster { .. } | Self::Incomplete { .. } => {
                "`mullion node reset` empties the machine of Kubernetes; what is on it is lost"
            }
            Self::NotRenewed(_) => {
                "see `kubeadm certs check-expiration` on the machine: kubeadm renews only what it has the authority's key for"
            }
            Self::StaticPod { .. } => {
                "see `journalctl -u kubelet` on the machine, then run `mullion up` again: it goes on with the renewal"
            }
            Self::OthersAccount { .. } => {
                "remove the service, or let it run as LocalSystem: its password could not be put back"
            }
            Self::InTheWay { path, .. } => return Some(format!("move `{path}` away")),
            Self::LeadsElsewhere(path) => {
                return Some(format!(
                    "put a folder in the place of `{path}`: what leads elsewhere can be led to another place later"
                ));
            }
            Self::OfStranger { path, kind } => return Some(given_up(path, *kind)),
            Self::Setting { source, .. } if matches!(**source, SystemError::NoSetting(_)) => {
                "the kernel module that brings the setting is not loaded, or not to be had here"
            }
            Self::System(SystemError::NoLibrary { .. }) => {
                "install the part of Windows that brings the library, or leave out what needs it"
            }
            Self::System(SystemError::Busy { .. }) => "wait until it has ended, and run it again",
            Self::Packages { .. } => {
                "check that the machine reaches its package sources, through the proxy where there is one"
            }
            Self::MemoryRanOut { machine, source } => {
                let more = format!("give {machine} {MORE_MEMORY}");
                let is_killed = source.ended().is_some_and(Ended::is_killed);
                // It may have been a pod of the machine's that it ran out for.
                let own = source.hint().filter(|_| !is_killed);
                return Some(match own {
                    Some(own) => format!("{own}; or {more}"),
                    None => more,
                });
            }
            Self::Killed { machine, .. } => {
                return Some(format!("if nobody killed it, give {machine} {MORE_MEMORY}"));
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The last lines of what failed.
    fn tail(&self) -> Vec<String> {
        match self {
            Self::NotRunning { log, .. } => log.clone(),
            Self::Service { source, log, .. } => source.tail().iter().chain(log).cloned().collect(),
            Self::Kubeadm { tail, .. }
            | Self::Command { tail, .. }
            | Self::StaticPod { tail, .. } => tail.clone(),
            Self::Packages { source, .. }
            | Self::Module { source, .. }
            | Self::Windows { source, .. }
            | Self::Setting { source, .. } => source.tail().to_vec(),
            Self::MemoryRanOut { source, .. } | Self::Killed { source, .. } => source.tail(),
            Self::System(source) => source.tail().to_vec(),
            _ => Vec::new(),
        }
    }

    /// How the program ended that failed, where one did.
    fn ended(&self) -> Option<Ended> {
        match self {
            Self::Kubeadm { how, .. } | Self::Command { how, .. } => how.ended(),
            Self::Service { source, .. }
            | Self::Packages { source, .. }
            | Self::Module { source, .. }
            | Self::Setting { source, .. } => source.ended(),
            Self::System(source) => source.ended(),
            _ => None,
        }
    }

    /// The same, with what became of memory since an earlier look.
    pub(crate) fn starved(self, system: &dyn System, earlier: &Starved) -> Self {
        let machine = system
            .host_name()
            .unwrap_or_else(|_| "this machine".to_owned());
        let is_killed = self.ended().is_some_and(Ended::is_killed);
        let source = Box::new(self);
        if system.starved().is_more_than(earlier) {
            Self::MemoryRanOut { machine, source }
        } else if is_killed {
            Self::Killed { machine, source }
        } else {
            *source
        }
    }

    /// The failure as the controller hears it.
    pub(crate) fn event(&self) -> Event {
        let mut chain = self.chain().into_iter();
        Event::Failed {
            words: chain.next().unwrap_or_default(),
            causes: chain.collect(),
            hint: self.hint(),
            tail: self.tail().iter().map(|line| masked(line)).collect(),
        }
    }

    /// What failed, and then its causes, without secrets.
    pub(crate) fn chain(&self) -> Vec<String> {
        error_chain(self).iter().map(|told| masked(told)).collect()
    }
}

/// How a person gives something of a user's to administrators. The owner alone is not enough: what the user was granted
/// stays granted until the list is made anew.
fn given_up(path: &str, kind: Kind) -> String {
    let path = path.replace('/', "\\");
    let (take, reset) = match kind {
        // Both would go on to what it leads to.
        Kind::Link => return "look at where it leads; then remove it".to_owned(),
        Kind::Folder => (" /r /d y", " /t"),
        Kind::File | Kind::Other => ("", ""),
    };
    // One line each: the PowerShell that comes with Windows knows no `&&`.
    format!(
        "look at what it is; then remove it, or give it to administrators: `takeown /a /f \"{path}\"{take}`, and then \
         `icacls \"{path}\" /reset{reset}`"
    )
}

fn masked(text: &str) -> String {
    mask_output(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_user_s_is_given_up_with_all_that_is_in_it() {
        let error = AgentError::OfStranger {
            path: "C:/etc/theirs".into(),
            kind: Kind::Folder,
        };
        let hint = error.hint().unwrap();
        let take = r#"`takeown /a /f "C:\etc\theirs" /r /d y`"#;
        let reset = r#"`icacls "C:\etc\theirs" /reset /t`"#;
        assert!(
            hint.ends_with(&format!("{take}, and then {reset}")),
            "{hint}"
        );
    }
}
