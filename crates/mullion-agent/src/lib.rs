//! The node agent: makes one machine what its blueprint says, and tells what the machine is.
//!
//! # Flow
//!
//! The controller brings the program to a machine and runs `mullion-agent serve` as root. [`serve`] reads one request
//! from standard input, fulfils it through a [`System`](system::System), and writes events; the last of them is
//! `Done` or `Failed`. A program is run for each request: nothing stays behind on the machine but files, and on Windows
//! the services of flannel and kube-proxy, which are this program too ([`attend`]).
//!
//! - *apply*: compare everything; write down what is there and what will be restarted; stage and verify every file
//!   beside its place; swap them all; then kernel modules, settings, firewall, on Windows features, registry and the
//!   like; and only those services whose files or definitions changed.
//! - *compare*: the same apply, on a system that reads the machine and keeps every change in memory
//!   (`system/rehearsal.rs`). The answer lists each change with both sides: what the machine has, and what it will have.
//! - *kubeadm*: its configuration exists in memory-backed files while it runs; half-made work of a killed run is
//!   cleared first.
//! - *resume*: on Windows an apply that waits for a start of the machine is kept, and a task runs the agent at that start
//!   to go on with it. Whoever is second, the task or the controller, waits for the first and finds it done.
//! - *revert*: the way back, from what was written down.
//!
//! # Invariants
//!
//! - Logic knows an operating system only through [`system::System`]; `cfg(unix)` and `cfg(windows)` are in its adapters.
//! - Killed at any single operation, the same request sent again ends in the same state as if nothing had happened,
//!   and services whose files changed are restarted after the last change.
//! - A second apply of a blueprint changes nothing.
//! - No large file is ever whole in memory, and no program runs without a deadline.
//! - Nothing that a program writes reaches the controller before secrets in it are hidden.
//! - What the agent did not make it does not wipe: a control plane or node of others is refused.
//!
//! # Current limitations
//!
//! - Packages are installed by `apt-get` alone, and stay installed after a revert.
//! - A firewall group opens ports where nothing else closes them: the kernel asks every table, and what another one
//!   drops (`firewalld`, `ufw`) stays dropped.
//! - A comparison does not know what only the system knows: services that a package would start, programs that it would
//!   bring (the answer has no firewall where `nft` is not installed yet), whether an optional feature needs a
//!   restart (it is taken to need one), and which services Windows starts at that restart.
//! - Kernel modules that were loaded stay loaded after a revert; they are only no longer loaded at the next start.
//! - A reset does not unmount volumes of pods itself: `kubeadm reset` does, where it is there and runs.
//! - On Windows optional features stay enabled after a revert. A service that was there before gets back its command
//!   line, dependencies, start, recovery, environment and account; one of an account with a password is not taken over.
//! - On Windows owners of files are not compared, and there are two modes only: private and inherited.

mod apply;
mod attend;
mod certificates;
mod change;
mod commands;
mod compare;
mod digests;
mod entry;
mod facts;
mod failure;
#[cfg(unix)]
#[doc(hidden)]
pub mod fuzz;
mod images;
mod kubeadm;
mod logs;
mod pem;
mod report;
mod resume;
mod revert;
mod serve;
mod state;
pub mod system;
#[cfg(test)]
mod tests;
mod work;

pub use attend::{Attendance, Standing, attend};
pub use failure::AgentError;
pub use resume::resume;
pub use serve::{Outcome, serve};

/// The agent's version, without the digest of its program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
