//! Every time-out and size of the transport, each with its reason.

use std::time::Duration;

/// How long a machine may take to accept a connection. A machine in the same room needs a millisecond, one at the
/// other end of the world a third of a second; three lost first packets fit in too.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// How long the exchange of versions and keys may take: a machine whose processors are all busy needs seconds.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(15);

/// How long a login may take: servers that look up names and directories are known to need ten seconds.
pub(crate) const AUTHENTICATE: Duration = Duration::from_secs(30);

/// How long a server is silent before it is asked whether it is still there.
pub(crate) const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// How many such questions may stay unanswered: with the third a dead server is noticed, 15 seconds after it died.
pub(crate) const KEEPALIVE_MISSES: usize = 2;

/// How long sending may stand still. Questions cannot be sent either while it does, so this is the only thing that
/// notices a server that dies during an upload. Longer than the questions need, so that an idle line never meets it.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(20);

/// How long a server may take to open a channel in a connection that stands. Longer than keepalives need to notice
/// that it does not stand any more: they know why.
pub(crate) const CHANNEL: Duration = Duration::from_secs(20);

/// How long a server that has too many channels of ours is asked again: one of them is given up, or used by another
/// call.
pub(crate) const CHANNEL_BUSY: Duration = Duration::from_mins(1);
/// How often it is asked.
pub(crate) const CHANNEL_BUSY_EVERY: Duration = Duration::from_millis(50);

/// How long a read-only command may take. They all answer at once.
pub(crate) const PROBE: Duration = Duration::from_secs(30);

/// How long a file may take to be read: those that are read are small, and a line may be slow.
pub(crate) const READ: Duration = Duration::from_mins(5);

/// How long may be spent on removing what a failed upload left.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(5);

/// How long a command that was given up may take to end before it is killed.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// How long whoever gave it up waits for its end. Most end at once; a person at Ctrl-C is not kept.
pub(crate) const PARTING: Duration = Duration::from_secs(3);

/// How often whoever ordered the work is asked whether it is called off: soon enough for a person at Ctrl-C.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(100);

/// How often progress is told: more often than an eye can follow is wasted.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Threads of the runtime. Each connection's encryption is the work of one thread at a time, so a few serve many
/// connections; more would only take processors from what the user builds meanwhile.
pub(crate) const THREADS: usize = 4;

/// Channels of one connection at once. OpenSSH allows 10 sessions by default (`MaxSessions`).
pub(crate) const CHANNELS: usize = 8;

/// What a server may send before we say that we have read it. 2 MiB is OpenSSH's own; more keeps a far line full.
pub(crate) const WINDOW: u32 = 8 * 1024 * 1024;

/// The largest packet that a server may send us: russh's own upper bound.
pub(crate) const PACKET: u32 = 65_535;

/// Reads of a new connection that the kernel is to confirm at once: enough for the handshake, the login and a command.
pub(crate) const PROMPT_READS: u32 = 100;

/// What is read from a connection at once: two of the largest packets.
pub(crate) const READ_BUFFER: usize = 128 * 1024;

/// Packets of a channel that wait for whoever reads its output. When they are full the whole connection waits, so
/// there is room for a reader that is busy for a moment.
pub(crate) const QUEUE: usize = 4096;

/// The longest line that is handed on whole; what is behind it is counted and left out. An agent's facts are a
/// single line, of some kilobytes.
pub const LINE: usize = 1024 * 1024;

/// The most output that is collected when somebody wants it in one piece.
pub(crate) const COLLECTED: usize = 4 * 1024 * 1024;

/// Last lines of a failed command that are kept for the person who reads of it.
pub(crate) const TAIL: usize = 20;

/// Bytes that are read from a source at once.
pub(crate) const PIECE: usize = 256 * 1024;
/// How many such pieces wait to be sent.
pub(crate) const PIECES: usize = 8;

/// SFTP: the largest packet of OpenSSH's server.
pub(crate) const SFTP_PACKET: u32 = 256 * 1024;
/// SFTP: the writes that wait for their answers. Four megabytes on their way hide the delay of any line on which
/// uploading is sensible.
pub(crate) const SFTP_WRITES: usize = 16;

/// How long one SFTP write may wait for its answer, in seconds: all that wait before it, over a slow line. A dead
/// server is noticed long before, by keepalives.
pub(crate) const SFTP_ANSWER_SECONDS: u64 = 300;

/// After so many minutes an unfinished upload of an earlier run is removed when the same file is put again.
pub(crate) const STALE_PART_MINUTES: u32 = 60;
