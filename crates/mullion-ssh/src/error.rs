//! What can go wrong, and what kind of failure it is.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mullion_plan::{ErrorClass, StepError};
use mullion_wire::Sha256Digest;

/// What a library below us said. Its own types stay hidden: they change with each of its releases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    /// What somebody said.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// Why a machine could not be reached, asked or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Nothing answers there, or it hangs up at once.
    #[error("cannot reach {place}")]
    Unreachable {
        /// The machine.
        place: String,
        /// Why.
        source: Cause,
    },
    /// It took too long while a connection was made.
    #[error("{place} did not answer within {} s while {doing}", .after.as_secs())]
    TimedOut {
        /// The machine.
        place: String,
        /// What was going on.
        doing: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The machine to go through could not be reached or logged in to.
    #[error("the way to {place} leads through {via}, which failed")]
    Jump {
        /// The machine that was wanted.
        place: String,
        /// The machine to go through.
        via: String,
        /// What failed there.
        source: Box<TransportError>,
    },
    /// The machine to go through does not let anybody through.
    #[error("{via} does not forward connections to {place}")]
    NoForwarding {
        /// The machine that was wanted.
        place: String,
        /// The machine to go through.
        via: String,
        /// What it said.
        source: Cause,
    },
    /// Another machine answers than the one that is known, or its key was changed.
    #[error("{place} shows the host key {found}, expected was {expected}")]
    HostKey {
        /// The machine.
        place: String,
        /// The fingerprint of the key that is pinned.
        expected: String,
        /// The fingerprint of the key that was shown.
        found: String,
        /// The key that was shown, as an OpenSSH line.
        offered: String,
    },
    /// No host key is pinned, so nothing tells this machine from another one.
    #[error(
        "no host key is given for {place}; it shows this one, of fingerprint {fingerprint}: `hostKey: {offered}`"
    )]
    UnknownHost {
        /// The machine.
        place: String,
        /// The fingerprint of the key that was shown.
        fingerprint: String,
        /// The key that was shown, as an OpenSSH line.
        offered: String,
    },
    /// The host key to expect cannot be read.
    #[error(
        "the host key that is given for {place} is neither an OpenSSH public key nor a SHA256 fingerprint: `{text}`"
    )]
    BadHostKey {
        /// The machine.
        place: String,
        /// What was given.
        text: String,
    },
    /// What answers is not an SSH server, or not one that we have an algorithm in common with.
    #[error("{place} does not speak SSH as we do")]
    Protocol {
        /// The machine.
        place: String,
        /// Why.
        source: Cause,
    },
    /// The machine does not let us in.
    #[error("{place} refuses {key}")]
    Denied {
        /// The machine.
        place: String,
        /// What was shown to it.
        key: String,
        /// What it said.
        source: Cause,
    },
    /// A key file cannot be read.
    #[error("cannot read a private key")]
    KeyFile {
        /// Why; it names the file.
        source: io::Error,
    },
    /// A key is not one.
    #[error("{key} is not a private key that can be used")]
    BadKey {
        /// The key, by its place.
        key: String,
        /// Why.
        source: Cause,
    },
    /// A key needs a passphrase.
    #[error("{key} is protected by a passphrase")]
    KeyEncrypted {
        /// The key, by its place.
        key: String,
    },
    /// A key has no file that another program could be given.
    #[error("the key for {place} is in memory only, and `ssh` needs a file")]
    KeyInMemory {
        /// The machine.
        place: String,
    },
    /// The SSH agent does not answer.
    #[error("the SSH agent at {} does not answer", .socket.display())]
    Agent {
        /// Its socket.
        socket: PathBuf,
        /// Why.
        source: Cause,
    },
    /// The SSH agent holds no key.
    #[error("the SSH agent at {} holds no key", .socket.display())]
    AgentEmpty {
        /// Its socket.
        socket: PathBuf,
    },
    /// `sudo` wants a password, and there is nobody to type it.
    #[error("sudo asks for a password at {place}; allow {user} to run without one")]
    SudoPassword {
        /// The machine.
        place: String,
        /// The user.
        user: String,
    },
    /// The user may not become root at all.
    #[error("{user} cannot become root at {place}: {said}")]
    Sudo {
        /// The machine.
        place: String,
        /// The user.
        user: String,
        /// What the machine said.
        said: String,
    },
    /// The connection ended before the outcome was known: what was begun may or may not have been done.
    #[error("the connection to {place} was lost during `{doing}`")]
    Lost {
        /// The machine.
        place: String,
        /// What was going on.
        doing: String,
        /// Why.
        source: Cause,
    },
    /// The server opens no channel, or runs no commands.
    #[error("{place} does not run `{doing}`")]
    Channel {
        /// The machine.
        place: String,
        /// What was wanted.
        doing: String,
        /// What it said.
        source: Cause,
    },
    /// A command was ended by a signal.
    #[error("`{command}` at {place} was ended by the signal {signal}")]
    Signal {
        /// The machine.
        place: String,
        /// The command.
        command: String,
        /// The signal, without `SIG`.
        signal: String,
    },
    /// A command did not end in its time.
    #[error("`{command}` at {place} did not end within {} s", .after.as_secs_f64())]
    Deadline {
        /// The machine.
        place: String,
        /// The command.
        command: String,
        /// Its time.
        after: Duration,
    },
    /// Whoever ordered it called it off.
    #[error("`{doing}` at {place} was called off")]
    CalledOff {
        /// The machine.
        place: String,
        /// What was going on.
        doing: String,
    },
    /// A command that had to succeed did not.
    #[error("`{command}` at {place} ended with {status}")]
    Failed {
        /// The machine.
        place: String,
        /// The command.
        command: String,
        /// Its exit status.
        status: i32,
        /// Its last lines.
        tail: Vec<String>,
    },
    /// What arrived is not what was to arrive.
    #[error("{path} at {place} would have the digest {found}, expected was {expected}")]
    Digest {
        /// The machine.
        place: String,
        /// The file.
        path: String,
        /// The digest it should have.
        expected: Sha256Digest,
        /// What it has.
        found: String,
    },
    /// A file could not be written.
    #[error("cannot write {path} at {place}")]
    Write {
        /// The machine.
        place: String,
        /// The file.
        path: String,
        /// What the machine said.
        source: Cause,
    },
    /// What was to be sent could not be read here.
    #[error("cannot read what should become {path} at {place}")]
    Source {
        /// The machine.
        place: String,
        /// The file there.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// There is no such file.
    #[error("there is no file {path} at {place}")]
    NoFile {
        /// The machine.
        place: String,
        /// The file.
        path: String,
    },
    /// A file is larger than whoever reads it wants.
    #[error("{path} at {place} is larger than {limit} bytes")]
    TooLarge {
        /// The machine.
        place: String,
        /// The file.
        path: String,
        /// The most that was wanted.
        limit: u64,
    },
    /// A file could not be read.
    #[error("cannot read {path} at {place}")]
    Read {
        /// The machine.
        place: String,
        /// The file.
        path: String,
        /// What the machine said.
        source: Cause,
    },
    /// A path is not absolute.
    #[error("`{path}` is not an absolute path")]
    Path {
        /// The path.
        path: String,
    },
    /// This computer gives us no threads.
    #[error("cannot start the threads that carry connections")]
    Threads {
        /// Why.
        source: io::Error,
    },
}

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
            Self::Jump { source, .. } => return source.hint(),
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
    use mullion_plan::Retry;

    use super::*;

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
