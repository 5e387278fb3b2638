//! How to log in to a machine.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use mullion_wire::Secret;

use crate::shell::Shell;

/// How to log in to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Its address or name.
    pub address: String,
    /// The port that its SSH server listens on.
    pub port: u16,
    /// The user there.
    pub user: String,
    /// What proves that we are that user.
    pub key: Key,
    /// The key by which the machine is known again: an OpenSSH line (`ssh-ed25519 AAAA…`) or a fingerprint
    /// (`SHA256:…`). Without one nothing is ever sent to it.
    pub host_key: Option<String>,
    /// The machine to go through first, if it cannot be reached directly.
    pub jump: Option<Box<Login>>,
    /// Whether commands are run as root by `sudo`.
    pub sudo: Sudo,
    /// What reads commands there.
    pub shell: Shell,
}

/// What proves that we are a machine's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A private key in this file, without a passphrase.
    File(PathBuf),
    /// This private key, without a passphrase.
    Pem(Secret),
    /// Any key of the SSH agent that listens here.
    Agent {
        /// The socket, as `SSH_AUTH_SOCK` names it; a named pipe on Windows.
        socket: PathBuf,
    },
}

/// Whether commands are run as root by `sudo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sudo {
    /// As the user who logs in.
    Never,
    /// By `sudo -n`, unless that user is root.
    #[default]
    WhenNotRoot,
}

impl Login {
    /// A login on the usual port, to a machine that is reached directly and whose host key is still to be given.
    pub fn new(user: impl Into<String>, address: impl Into<String>, key: Key) -> Self {
        Self {
            address: address.into(),
            port: 22,
            user: user.into(),
            key,
            host_key: None,
            jump: None,
            sudo: Sudo::default(),
            shell: Shell::default(),
        }
    }

    /// On another port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// With the host key to expect.
    #[must_use]
    pub fn host_key(mut self, host_key: impl Into<String>) -> Self {
        self.host_key = Some(host_key.into());
        self
    }

    /// Through another machine.
    #[must_use]
    pub fn jump(mut self, jump: Login) -> Self {
        self.jump = Some(Box::new(jump));
        self
    }

    /// With or without `sudo`.
    #[must_use]
    pub fn sudo(mut self, sudo: Sudo) -> Self {
        self.sudo = sudo;
        self
    }

    /// To a machine with another shell.
    #[must_use]
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = shell;
        self
    }

    /// The machine and user as people write them: `root@192.0.2.7:22`.
    pub fn place(&self) -> String {
        format!("{}@{}", self.user, self.address_and_port())
    }

    /// The address and port as one word: `192.0.2.7:22`, `[2001:db8::7]:22`.
    pub(crate) fn address_and_port(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}

impl Display for Key {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "the key in {}", path.display()),
            Self::Pem(_) => out.write_str("the key in memory"),
            Self::Agent { socket } => write!(out, "the agent at {}", socket.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_people_write_it() {
        let key = Key::Pem(Secret::new("secret"));
        let login = Login::new("root", "192.0.2.7", key.clone());
        assert_eq!(login.place(), "root@192.0.2.7:22");
        let login = Login::new("me", "2001:db8::7", key).port(2222);
        assert_eq!(login.place(), "me@[2001:db8::7]:2222");
    }

    #[test]
    fn a_login_is_shown_without_its_key() {
        let login = Login::new("root", "a", Key::Pem(Secret::new("hunter2")));
        assert!(!format!("{login:?}").contains("hunter2"));
    }
}
