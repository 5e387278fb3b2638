//! A connection as a transport.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use mullion_plan::{Attend, Unattended};
use mullion_wire::text::one_line;

use super::Engine;
use super::channel::{Ending, Gate, Watch};
use super::link::Link;
use crate::command::{Command, Exit, Put, Stdin, Stream, Upload};
use crate::error::{Cause, TransportError};
use crate::limits;
use crate::lines::Lines;
use crate::login::{Login, Sudo};
use crate::port::{ReadTransport, Transport};
use crate::probe::Probe;
use crate::shell::Shell;

/// A connection to a machine. A handle to it is cheap to clone, and all of them use it at once; it ends with the last.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    // Before the engine: a connection is dropped while its threads are still there.
    link: Arc<Link>,
    engine: Arc<Engine>,
    place: String,
    user: String,
    sudo: Sudo,
    shell: Shell,
    /// Found out by the first command.
    rise: OnceLock<Rise>,
    gate: Gate,
    /// Set once the server has said that it has no SFTP.
    is_without_sftp: AtomicBool,
}

/// What becomes root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rise {
    /// Nothing: we are, or need not be.
    Not,
    /// `sudo`.
    Sudo,
}

impl Session {
    pub(super) fn new(engine: Arc<Engine>, link: Arc<Link>, login: &Login) -> Self {
        let inner = Inner {
            link,
            engine,
            place: login.place(),
            user: login.user.clone(),
            sudo: login.sudo,
            shell: login.shell.clone(),
            rise: OnceLock::new(),
            gate: Gate::new(),
            is_without_sftp: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Whether the connection still stands, as far as is known.
    pub fn is_open(&self) -> bool {
        self.inner.link.is_open()
    }

    pub(super) fn at(&self) -> &str {
        &self.inner.place
    }

    pub(super) fn shell(&self) -> &Shell {
        &self.inner.shell
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(super) fn link(&self) -> &Link {
        &self.inner.link
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    pub(super) fn is_without_sftp(&self) -> &AtomicBool {
        &self.inner.is_without_sftp
    }

    /// Whether commands go through `sudo`, and whether that works: asked once.
    pub(super) fn rise(&self) -> Result<Rise, TransportError> {
        if let Some(rise) = self.inner.rise.get() {
            return Ok(*rise);
        }
        let may_ask = *self.shell() == Shell::Posix && self.inner.sudo == Sudo::WhenNotRoot;
        let rise = if may_ask && self.inner.user != "root" {
            self.try_sudo()?
        } else {
            Rise::Not
        };
        Ok(*self.inner.rise.get_or_init(|| rise))
    }

    fn try_sudo(&self) -> Result<Rise, TransportError> {
        let line = Command::script(MAY_RISE, [""; 0]).line();
        let watch = Watch::new("sudo -n -- true", &Unattended, Some(limits::PROBE));
        let mut out = Vec::new();
        let mut err = Vec::new();
        let ending = self.run_line(&line, None, &watch, &mut |stream, bytes| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        })?;
        let said = String::from_utf8_lossy(&err).trim().to_owned();
        match ending {
            Ending::Status(0) if out.starts_with(b"root") => Ok(Rise::Not),
            Ending::Status(0) => Ok(Rise::Sudo),
            _ if said.lines().any(wants_password) => Err(self.wants_password()),
            _ => Err(TransportError::Sudo {
                place: self.at().to_owned(),
                user: self.inner.user.clone(),
                said: one_line(&said).into_owned(),
            }),
        }
    }

    fn wants_password(&self) -> TransportError {
        TransportError::SudoPassword {
            place: self.at().to_owned(),
            user: self.inner.user.clone(),
        }
    }

    /// What stands before a command, once it is known.
    pub(super) fn prefix(&self) -> &'static str {
        match self.inner.rise.get() {
            Some(Rise::Sudo) => "sudo -n -- ",
            Some(Rise::Not) | None => "",
        }
    }

    /// Runs a command that reads `stdin`, and hands on its bytes.
    pub(super) fn run_bytes(
        &self,
        command: &Command,
        stdin: Option<&mut dyn Read>,
        attendant: &dyn Attend,
        on_bytes: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Exit, TransportError> {
        let doing = command.to_string();
        let watch = Watch::new(&doing, attendant, command.deadline);
        self.run_watched(command, stdin, &watch, on_bytes)
    }

    /// The same, under a watch that is there already.
    pub(super) fn run_watched(
        &self,
        command: &Command,
        stdin: Option<&mut dyn Read>,
        watch: &Watch<'_>,
        on_bytes: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Exit, TransportError> {
        watch.check(self.at())?;
        self.rise()?;
        let line = format!("{}{}", self.prefix(), self.shell().line(command)?);
        let ending = self.run_line(&line, stdin, watch, on_bytes)?;
        self.exit(ending, watch.doing)
    }

    /// The status of a command that ended by itself.
    pub(super) fn exit(&self, ending: Ending, doing: &str) -> Result<Exit, TransportError> {
        match ending {
            Ending::Status(status) => Ok(Exit { status }),
            Ending::Signal(signal) => Err(TransportError::Signal {
                place: self.at().to_owned(),
                command: doing.to_owned(),
                signal,
            }),
        }
    }

    fn run_lines(
        &self,
        command: &Command,
        attendant: &dyn Attend,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        let mut out = Lines::default();
        let mut err = Lines::default();
        let mut asked = false;
        let mut bytes = match &command.stdin {
            Stdin::Empty => None,
            Stdin::Bytes(bytes) => Some(bytes.as_slice()),
        };
        let stdin = bytes.as_mut().map(|bytes| bytes as &mut dyn Read);
        let result = self.run_bytes(
            command,
            stdin,
            attendant,
            &mut |stream, bytes| match stream {
                Stream::Out => out.take(bytes, &mut |line| on_line(stream, line)),
                Stream::Err => err.take(bytes, &mut |line| {
                    asked |= wants_password(line);
                    on_line(stream, line);
                }),
            },
        );
        out.finish(&mut |line| on_line(Stream::Out, line));
        err.finish(&mut |line| on_line(Stream::Err, line));
        let exit = result?;
        // A permission that was there when we asked may have ended.
        if asked && exit.status == 1 && self.inner.rise.get() == Some(&Rise::Sudo) {
            return Err(self.wants_password());
        }
        Ok(exit)
    }
}

/// Who are we, and if not root: may we become root?
const MAY_RISE: &str =
    "if [ \"$(id -u)\" = 0 ]; then echo root; else LC_ALL=C exec sudo -n -- true; fi";

/// What `sudo -n` says where it would have to ask.
fn wants_password(line: &str) -> bool {
    line.starts_with("sudo")
        && ["password is required", "authentication is required"]
            .iter()
            .any(|words| line.contains(words))
}

/// The status by which a script says that there is no file.
const NO_FILE: i32 = 44;

/// Reads the first bytes of a file.
const READ: &str = "[ -e \"$1\" ] || exit 44; exec head -c \"$2\" < \"$1\"";

impl ReadTransport for Session {
    fn place(&self) -> &str {
        self.at()
    }

    fn probe(
        &self,
        probe: &Probe,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        self.run_lines(&probe.command(self.shell()), &Unattended, on_line)
    }

    fn read_file(&self, path: &str, limit: u64) -> Result<Vec<u8>, TransportError> {
        let place = || self.at().to_owned();
        let path = self.shell().absolute(path)?;
        if let Shell::Cmd { .. } = self.shell() {
            return self.read_by_sftp(&path, limit);
        }
        // One byte more tells a file that is too large from one that just fits.
        let most = limit.saturating_add(1);
        let command = Command::script(READ, [path.clone(), most.to_string()]).within(limits::READ);
        let mut found = Vec::new();
        let mut said = Vec::new();
        let exit = self.run_bytes(
            &command,
            None,
            &Unattended,
            &mut |stream, bytes| match stream {
                Stream::Out => found.extend_from_slice(bytes),
                Stream::Err => said.extend_from_slice(bytes),
            },
        )?;
        match exit.status {
            0 if found.len() as u64 > limit => Err(TransportError::TooLarge {
                place: place(),
                path,
                limit,
            }),
            0 => Ok(found),
            NO_FILE => Err(TransportError::NoFile {
                place: place(),
                path,
            }),
            _ => Err(TransportError::Read {
                place: place(),
                path,
                source: Cause::new(String::from_utf8_lossy(&said).trim()),
            }),
        }
    }
}

impl Transport for Session {
    fn run(
        &self,
        command: &Command,
        attendant: &dyn Attend,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        self.run_lines(command, attendant, on_line)
    }

    fn put(
        &self,
        upload: &Upload,
        source: &mut dyn Read,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError> {
        match self.shell() {
            Shell::Posix => self.upload(upload, source, attendant),
            Shell::Cmd { agent } => self.upload_to_windows(agent, upload, source, attendant),
        }
    }
}
