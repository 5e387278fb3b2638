//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mullion_wire::Sha256Digest;
use mullion_wire::duration::shown;
use mullion_wire::text::one_line;

/// What a library below us said. Its own types stay hidden: they change with each of its releases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    /// What somebody said, on one line and without control sequences: the other side of a connection chooses the words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(one_line(&words.into()).into_owned())
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
    #[error("{place} did not answer within {} while {doing}", shown(*.after))]
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
    #[error("`{command}` at {place} did not end within {}", shown(*.after))]
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
    /// A command cannot be said in one line.
    #[error("`{command}` cannot be said in one line, and a line is all that a shell there reads")]
    Words {
        /// The command.
        command: String,
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
