//! The way to a machine: commands and files over SSH, known machines only, and no outcome that was not seen.
//!
//! ```text
//! Login ─► Ssh::connect ─► Session ──┬─► Transport::run, put      (whoever changes)
//!          │ pinned host key         └─► ReadTransport::probe, …  (whoever only looks)
//!          │ jump, jump, …
//!          └─ private runtime; every public call blocks
//! ```
//!
//! [`Transport`] and [`ReadTransport`] are the ports, with their contracts; [`Session`] is SSH behind them. The suite in
//! `mullion-testkit` holds it, and a machine in memory with faults, to the contracts. [`TransportError`] says
//! what failed, [`TransportError::class`] what kind of failure it is, and [`TransportError::step_class`] whether a step
//! is tried again. For the system's own `ssh` program there are [`openssh_arguments`] and [`known_hosts`].
//!
//! What holds always:
//! - **Only known machines.** A host key is pinned before the first word is sent. Another key, or none to compare with,
//!   is a refusal that names what was shown; nothing is ever trusted because it came first.
//! - **No invented success.** A channel is read until it is closed. Closed without an exit status, or not closed at all,
//!   is [`TransportError::Lost`]; a signal is [`TransportError::Signal`]; a status is a value.
//! - **No half file.** Uploads are compared by digest on the machine and then renamed.
//! - **Whoever only looks cannot change:** [`ReadTransport`] has no verb for it.
//! - **A server gets nothing from us:** whatever it wants to open is refused. russh is hidden, its types leave this
//!   crate nowhere.
//! - **Time-outs and sizes** stand in one module with their reasons; a dead peer is noticed within about 15 seconds,
//!   during an upload within about 20.
//! - **Secrets** are in no [`Debug`](std::fmt::Debug) output, no error and no argument list.
//!
//! How files travel: by SFTP, with many writes on their way at once; where the server has none, or where `sudo` is
//! needed (SFTP cannot become root), through `cat`. In both cases the file is private until it is in place.
//!
//! # Current limitations
//!
//! - Machines are expected to have a POSIX `sh` and the core utilities (`sha256sum`, `head`, `find`), or to be Windows
//!   machines with SFTP and an agent of ours ([`Shell::Cmd`]).
//! - On Windows a command that is given up ends with its channel, as Windows' OpenSSH server sees to; nothing else
//!   ends it.
//! - Calls block, so they must not be made from within an async runtime.
//! - Keys with a passphrase work through an SSH agent only. Passwords and further factors are not offered.
//! - Host certificates are not asked for: a machine is known by its key.
//! - A command that was given up before it could say which process it is may run on.
//! - A connection that was lost is not made anew by itself: whoever made it connects again.

mod class;
mod collect;
mod command;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod keys;
mod limits;
mod lines;
mod login;
mod openssh;
mod port;
mod probe;
mod quote;
mod shell;
mod short_number;
mod ssh;

pub use class::Class;
pub use command::{Command, Exit, Output, Put, Stdin, Stream, Upload};
pub use error::{Cause, TransportError};
pub use keys::{KeyPair, fingerprint, generate_key, public_key};
pub use limits::LINE as LONGEST_LINE;
pub use lines::Lines;
pub use login::{Key, Login, Sudo};
pub use openssh::{known_hosts, known_hosts_line, openssh_arguments};
pub use port::{ReadTransport, Transport};
pub use probe::Probe;
pub use quote::quoted;
pub use shell::{NO_PROGRAM, Shell};
pub use ssh::{ASIDE, Session, Ssh};
