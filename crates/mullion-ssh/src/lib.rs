//! The way to a machine: SSH.

mod collect;
mod command;
pub mod conform;
mod error;
mod keys;
mod limits;
mod lines;
mod login;
pub mod memory;
mod openssh;
mod port;
mod probe;
mod quote;
mod ssh;

pub use command::{Command, Exit, Output, Put, Stdin, Stream, Upload};
pub use error::{Cause, Class, TransportError};
pub use keys::{KeyPair, fingerprint, generate_key, public_key};
pub use login::{Key, Login, Sudo};
pub use openssh::{known_hosts, known_hosts_line, openssh_arguments};
pub use port::{ReadTransport, Transport};
pub use probe::Probe;
pub use ssh::{Session, Ssh};
