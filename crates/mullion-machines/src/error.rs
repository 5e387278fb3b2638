//! Why a driver could not do what it was asked.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::Ipv4Net;
use mullion_plan::{ErrorClass, MAKE_ROOM, Obstacle, Trouble, is_disk_full};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::duration::shown;

/// Why a driver could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// It was called off.
    #[error("the work was called off")]
    CalledOff,
    /// The machine is not there.
    #[error("cluster `{cluster}` has no machine `{machine}`")]
    NoMachine {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
    },
    /// The machine's making was never finished.
    #[error("machine `{machine}` of cluster `{cluster}` was never finished")]
    NotWhole {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
    },
    /// A machine of that name is there already, and is another one.
    #[error("machine `{machine}` of cluster `{cluster}` is there already, with another {what}")]
    Different {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
        /// What differs.
        what: &'static str,
    },
    /// The machine ended right after its start.
    #[error("machine `{machine}` of cluster `{cluster}` ended while it started")]
    Ended {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
        /// The last lines of its console.
        tail: Vec<String>,
    },
    /// The machine's first process did not appear in time, and what carries the machine still lived.
    #[error(
        "machine `{machine}` of cluster `{cluster}` did not start within {}: this computer is slow",
        shown(*limit)
    )]
    Slow {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
        /// The time that it had.
        limit: std::time::Duration,
        /// The last lines of its console.
        tail: Vec<String>,
    },
    /// The machine did not end.
    #[error("machine `{machine}` of cluster `{cluster}` does not end")]
    DoesNotEnd {
        /// The cluster.
        cluster: ClusterName,
        /// The machine.
        machine: MachineName,
    },
    /// The cluster's network is not there.
    #[error("cluster `{0}` has no machine network")]
    NoNetwork(ClusterName),
    /// The cluster has another network.
    #[error("cluster `{cluster}` has the machine network {there} already, not {wanted}")]
    OtherNetwork {
        /// The cluster.
        cluster: ClusterName,
        /// The network it has.
        there: Ipv4Net,
        /// The network that is wanted.
        wanted: Ipv4Net,
    },
    /// The network still has machines.
    #[error("the machine network of cluster `{0}` still carries machines")]
    NetworkInUse(ClusterName),
    /// Addresses of the network are somebody else's.
    #[error("the network {network} overlaps {taken} on `{interface}`")]
    Taken {
        /// The network that is wanted.
        network: Ipv4Net,
        /// The network that is there.
        taken: String,
        /// The interface that has it.
        interface: String,
    },
    /// The network is too small for machines.
    #[error("the network {0} has no room for machines")]
    TooSmall(Ipv4Net),
    /// The address is not one that a machine of the network can have.
    #[error("the address {address} is not one for a machine of {network}")]
    BadAddress {
        /// The address.
        address: std::net::Ipv4Addr,
        /// The network.
        network: Ipv4Net,
    },
    /// Something of the name we need belongs to somebody else.
    #[error("{what} `{name}` is not ours")]
    NotOurs {
        /// What kind of thing it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something of the cluster's name must be left as it is.
    #[error("{}", obstacle(machine.as_ref(), trouble).words())]
    LeftAlone {
        /// The machine; none where it is the network.
        machine: Option<MachineName>,
        /// Why.
        trouble: Trouble,
    },
    /// Something else is mounted in a folder that was to be removed.
    #[error("cannot remove `{folder}`: something is mounted at `{mount}`")]
    Mounted {
        /// The folder.
        folder: PathBuf,
        /// The mount.
        mount: PathBuf,
    },
    /// The template is not there.
    #[error("there is no template in `{0}`")]
    NoTemplate(PathBuf),
    /// The folder for machines cannot carry them.
    #[error("`{folder}` cannot carry machines: {why}")]
    BadPlace {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The user may not.
    #[error("making machines on this computer needs root")]
    NeedsRoot,
    /// A program of this computer is missing.
    #[error("`{0}` is not installed on this computer")]
    MissingProgram(String),
    /// A program of this computer failed.
    #[error("`{command}` failed: {tail}")]
    Program {
        /// The command.
        command: String,
        /// The last lines it wrote.
        tail: String,
    },
    /// A program of this computer did not end in time.
    #[error("`{command}` did not end within {} and was ended", shown(*.limit))]
    TooSlow {
        /// The command.
        command: String,
        /// The time that it had.
        limit: Duration,
    },
    /// A program of this computer said what we do not understand.
    #[error("`{command}` said what we do not understand")]
    Answer {
        /// The command.
        command: String,
        /// What is wrong with it.
        #[source]
        cause: serde_json::Error,
    },
    /// The record of what this computer's kernel settings were cannot be read.
    #[error("`{path}`, the record of this computer's kernel settings, cannot be read")]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: serde_json::Error,
    },
    /// A file or folder could not be worked on.
    #[error("a file of a machine could not be worked on")]
    File(#[from] std::io::Error),
    /// A key could not be made.
    #[error("a host key for machine `{machine}` could not be made")]
    Key {
        /// The machine.
        machine: MachineName,
        /// Why.
        #[source]
        cause: mullion_ssh::TransportError,
    },
    /// A controller that holds machines to their size does not reach their groups.
    #[error(
        "`{controller}` is not passed on by the control group `{group}`: machines would not be held to their size"
    )]
    NotPassedOn {
        /// The controller.
        controller: &'static str,
        /// The group that keeps it.
        group: PathBuf,
        /// What the kernel said.
        #[source]
        cause: Option<std::io::Error>,
    },
    /// Something is left of what was removed.
    #[error("`{0}` is still there after its removal")]
    Left(String),
    /// This driver cannot do that.
    #[error("this driver cannot {0}")]
    Cannot(&'static str),
}

/// The words and the way out are the plan's.
fn obstacle(machine: Option<&MachineName>, trouble: &Trouble) -> Obstacle {
    Obstacle::LeftAlone {
        machine: machine.cloned(),
        trouble: trouble.clone(),
    }
}

impl DriverError {
    /// What kind of failure it is for the engine.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::CalledOff => ErrorClass::Interrupted,
            Self::NotOurs { .. } | Self::Taken { .. } | Self::LeftAlone { .. } => {
                ErrorClass::NotOurs
            }
            // The engine tries again within its patience: a loaded computer may be less loaded then.
            Self::Slow { .. } => ErrorClass::NotYet,
            // A machine that shuts down, or was killed in the middle, may be gone the next time.
            Self::DoesNotEnd { .. } | Self::Left(_) | Self::TooSlow { .. } => ErrorClass::Conflict,
            _ => ErrorClass::Refused,
        }
    }

    /// What a person can do about it, where one thing helps.
    pub fn hint(&self) -> Option<String> {
        if is_disk_full(self, None) {
            return Some(MAKE_ROOM.into());
        }
        match self {
            Self::LeftAlone { machine, trouble } => {
                Some(obstacle(machine.as_ref(), trouble).hint())
            }
            Self::Mounted { mount, .. } => Some(format!(
                "unmount it with `umount {}`, then run it again",
                mount.display()
            )),
            Self::NeedsRoot => Some("run it with sudo".into()),
            Self::MissingProgram(_) => Some("`mullion doctor --fix` installs it".into()),
            Self::Taken { .. } | Self::OtherNetwork { .. } => {
                Some("choose another network with `network.machineCIDR` in the file; without that line a new cluster takes a free one".into())
            }
            Self::BadPlace { .. } => {
                Some("give machines a folder on a local disk, such as ext4, xfs or btrfs".into())
            }
            Self::File(cause) if cause.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Some(
                "the disk can only be read: see with `dmesg` whether it is damaged, and mount it for writing".into(),
            ),
            Self::File(_) => Some(
                "see that the file can be read and written by root and that nothing else holds it, then run it again"
                    .into(),
            ),
            Self::NoTemplate(_) | Self::NoNetwork(_) | Self::NotWhole { .. } => {
                Some("`mullion up` makes it".into())
            }
            Self::NotOurs { name, .. } => Some(format!(
                "remove `{name}` if nobody needs it, or give the cluster another `metadata.name` in the file"
            )),
            Self::Slow { machine, .. } => Some(format!(
                "see with `top` what else this computer does, or give it more time with `--patience 3`; `mullion console \
                 {machine}` shows how far the machine came"
            )),
            Self::Ended { machine, .. } => Some(format!(
                "the last lines of its console tell why; `mullion console {machine}` shows more of them"
            )),
            Self::TooSlow { command, .. } => Some(format!(
                "run `{command}` as root to see what it waits for, then run it again"
            )),
            Self::Record { path, .. } => Some(format!(
                "a newer version of Mullion may have written it: use that one; or remove `{}`, and the settings stay as they are",
                path.display()
            )),
            Self::Left(_) | Self::DoesNotEnd { .. } => {
                Some("end the processes that still use it, then run it again".into())
            }
            Self::NotPassedOn { group, .. } => Some(format!(
                "processes that are in `{}` itself keep it: move them into a group below, or run this where systemd runs the computer",
                group.display()
            )),
            _ => None,
        }
    }

    /// The last lines of the right log.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::Ended { tail, .. } | Self::Slow { tail, .. } => tail,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn what_a_person_can_cure_has_a_hint() {
        let (cluster, machine): (ClusterName, MachineName) =
            ("dev".parse().unwrap(), "cp1".parse().unwrap());
        let hint = |error: DriverError| error.hint().unwrap();
        assert_eq!(
            hint(DriverError::File(ErrorKind::StorageFull.into())),
            MAKE_ROOM
        );
        let read_only = DriverError::File(ErrorKind::ReadOnlyFilesystem.into());
        assert!(hint(read_only).contains("only be read"));
        assert!(hint(DriverError::File(ErrorKind::NotFound.into())).contains("root"));
        assert!(hint(DriverError::NoTemplate("/x".into())).contains("mullion up"));
        let taken = DriverError::NotOurs {
            what: "the bridge",
            name: "mul1".into(),
        };
        assert!(hint(taken).contains("`mul1`"));
        let ended = DriverError::Ended {
            cluster,
            machine,
            tail: Vec::new(),
        };
        assert!(hint(ended).contains("mullion console cp1"));
        assert!(hint(DriverError::Left("/x".into())).contains("processes"));
        let slow = DriverError::Slow {
            cluster: "dev".parse().unwrap(),
            machine: "cp1".parse().unwrap(),
            limit: std::time::Duration::from_mins(1),
            tail: vec!["systemd starts".into()],
        };
        assert_eq!(slow.class(), ErrorClass::NotYet);
        assert_eq!(slow.tail(), ["systemd starts"]);
        assert!(slow.to_string().contains("within 1 min"), "{slow}");
        assert!(hint(slow).contains("--patience"));
    }
}
