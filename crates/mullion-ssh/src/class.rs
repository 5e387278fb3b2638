//! What kind of failure it is, what is done about it, and what a person can do.

use mullion_plan::{ErrorClass, StepError};

use crate::error::TransportError;

/// What kind of failure it is. The one place that decides what may be tried again is
/// [`TransportError::step_class`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// No connection came to be: nothing was begun.
    Unreachable,
    /// The connection ended in the middle: nobody knows what was done.
    Lost,
    /// The machine is there, and will not have us (or is not the one we know): trying again changes nothing.
    Refused,
    /// The machine did what it was asked, and that failed.
    Failed,
    /// It took longer than it may.
    Late,
    /// Whoever ordered it called it off.
    CalledOff,
}

impl TransportError {
    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => Class::Unreachable,
            Self::Jump { source, .. } => source.class(),
            Self::Lost { .. } => Class::Lost,
            Self::NoForwarding { .. }
            | Self::HostKey { .. }
            | Self::UnknownHost { .. }
            | Self::BadHostKey { .. }
            | Self::Protocol { .. }
            | Self::Denied { .. }
            | Self::KeyFile { .. }
            | Self::BadKey { .. }
            | Self::KeyEncrypted { .. }
            | Self::KeyInMemory { .. }
            | Self::Agent { .. }
            | Self::AgentEmpty { .. }
            | Self::SudoPassword { .. }
            | Self::Sudo { .. }
            | Self::Channel { .. } => Class::Refused,
            Self::Signal { .. }
            | Self::Failed { .. }
            | Self::Digest { .. }
            | Self::Write { .. }
            | Self::Source { .. }
            | Self::NoFile { .. }
            | Self::TooLarge { .. }
            | Self::Read { .. }
            | Self::Path { .. }
            | Self::Words { .. }
            | Self::Threads { .. } => Class::Failed,
            Self::Deadline { .. } => Class::Late,
            Self::CalledOff { .. } => Class::CalledOff,
        }
    }

    /// The class of a step that failed by this, which decides whether it is tried again:
    ///
    /// - no connection, or a lost one: [`ErrorClass::Unreachable`], tried again. Steps are idempotent, so it does not
    ///   matter that a lost one may have been done;
    /// - another machine than the known one answers: [`ErrorClass::NotOurs`], never;
    /// - a command that is late: [`ErrorClass::NotYet`], tried again;
    /// - called off: [`ErrorClass::Interrupted`];
    /// - everything else: [`ErrorClass::Refused`], never in this run.
    pub fn step_class(&self) -> ErrorClass {
        match self {
            Self::HostKey { .. } => return ErrorClass::NotOurs,
            Self::Jump { source, .. } => return source.step_class(),
            _ => {}
        }
        match self.class() {
            Class::Unreachable | Class::Lost => ErrorClass::Unreachable,
            Class::Refused | Class::Failed => ErrorClass::Refused,
            Class::Late => ErrorClass::NotYet,
            Class::CalledOff => ErrorClass::Interrupted,
        }
    }

    /// What a person can do about it, if there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                "is the machine on, is its SSH server running, and does a firewall let the port through?".into()
            }
            Self::Jump { source, .. } => match source.as_ref() {
                // Its key has a place of its own in the file.
                Self::HostKey { place, offered, .. } | Self::UnknownHost { place, offered, .. } => {
                    let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
                    format!(
                        "compare it with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` says there, then write `hostKeys: {{\"{host}\": {offered}}}`"
                    )
                }
                _ => return source.hint(),
            },
            Self::NoForwarding { .. } => {
                "allow it in that machine's sshd_config: `AllowTcpForwarding yes`".into()
            }
            Self::HostKey { offered, .. } => format!(
                "if the machine was set up anew, replace its key by `hostKey: {offered}`; if not, somebody may stand in between"
            ),
            Self::UnknownHost { offered, .. } => format!(
                "compare it with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` says on the machine, then write `hostKey: {offered}`"
            ),
            Self::BadHostKey { .. } => {
                "take a line such as `ssh-ed25519 AAAA…` from /etc/ssh/ssh_host_ed25519_key.pub of the machine".into()
            }
            Self::Denied { .. } => {
                "is the public key in the user's ~/.ssh/authorized_keys, and may the user log in?".into()
            }
            Self::KeyEncrypted { .. } => {
                "add it to an SSH agent (`ssh-add FILE`) and name no key: the agent's are used then".into()
            }
            Self::AgentEmpty { .. } => "add a key with `ssh-add FILE`, or name a key file".into(),
            Self::Agent { .. } => "start one (`eval $(ssh-agent)`), or name a key file".into(),
            Self::SudoPassword { user, .. } => format!(
                "write `{user} ALL=(ALL) NOPASSWD: ALL` into /etc/sudoers.d/{user} on the machine"
            ),
            Self::Sudo { .. } => "log in as root, or install sudo and allow the user to use it".into(),
            Self::Lost { .. } => "run it again: what is done already is found and not done twice".into(),
            _ => return None,
        })
    }

    /// The last lines of a command that failed.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::Failed { tail, .. } => tail,
            _ => &[],
        }
    }
}

impl From<TransportError> for StepError {
    fn from(error: TransportError) -> Self {
        let mut step = Self::new(error.step_class(), error.to_string());
        if let Some(cause) = std::error::Error::source(&error) {
            step = step.because(cause);
        }
        if let Some(hint) = error.hint() {
            step = step.hint(hint);
        }
        step.tail(error.tail().iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mullion_plan::Retry;

    use super::*;
    use crate::error::Cause;

    fn wrong_key() -> TransportError {
        TransportError::HostKey {
            place: "root@a:22".into(),
            expected: "SHA256:one".into(),
            found: "SHA256:two".into(),
            offered: "ssh-ed25519 AAAA".into(),
        }
    }

    #[test]
    fn a_wrong_host_key_is_never_tried_again() {
        assert_eq!(wrong_key().class(), Class::Refused);
        assert_eq!(wrong_key().step_class().retry(), Retry::Never);
        let jump = TransportError::Jump {
            place: "root@b:22".into(),
            via: "root@a:22".into(),
            source: Box::new(wrong_key()),
        };
        assert_eq!(jump.step_class().retry(), Retry::Never);
    }

    #[test]
    fn no_answer_and_a_lost_connection_are_tried_again() {
        let place = || "root@a:22".to_owned();
        let errors = [
            TransportError::Unreachable {
                place: place(),
                source: Cause::new("connection refused"),
            },
            TransportError::TimedOut {
                place: place(),
                doing: "connecting",
                after: Duration::from_secs(1),
            },
            TransportError::Lost {
                place: place(),
                doing: "true".into(),
                source: Cause::new("end of file"),
            },
        ];
        for error in errors {
            assert_eq!(error.step_class(), ErrorClass::Unreachable, "{error}");
            assert_eq!(error.step_class().retry(), Retry::Later);
        }
    }

    #[test]
    fn a_step_keeps_class_words_causes_hint_and_last_lines() {
        let error = TransportError::Failed {
            place: "root@a:22".into(),
            command: "kubeadm init".into(),
            status: 1,
            tail: vec!["no swap".into()],
        };
        let step = StepError::from(error);
        assert_eq!(step.words, "`kubeadm init` at root@a:22 ended with 1");
        assert_eq!(step.tail, ["no swap"]);
        let lost = StepError::from(TransportError::Lost {
            place: "root@a:22".into(),
            doing: "true".into(),
            source: Cause::new("end of file"),
        });
        assert_eq!(lost.causes, ["end of file"]);
        assert_eq!(lost.hints.len(), 1);
    }

    #[test]
    fn sudo_says_what_to_allow() {
        let error = TransportError::SudoPassword {
            place: "me@a:22".into(),
            user: "me".into(),
        };
        assert_eq!(
            error.to_string(),
            "sudo asks for a password at me@a:22; allow me to run without one"
        );
        assert!(error.hint().unwrap().contains("me ALL=(ALL) NOPASSWD: ALL"));
    }
}
