//! What a developer runs: `cargo xtask up`, `test`, `bench`, `shims` and `gen`.
//!
//! Each command is a module. [`steps`] gives long commands their headings and times, [`tools`] finds
//! cargo and installs what a command needs, [`table`] lines up columns. The tidy tests, which hold the
//! architecture, live in this package's `tests` folder: they read the whole repository.
//!
//! Two invariants:
//! - A command that needs a tool installs it, at one exact version; a developer needs the toolchain only.
//! - What `gen` writes is a pure function of the library crates, so that a test can find drift.
//!
//! # Current limitations
//!
//! - Made for Linux. On Windows a running `xtask` could not be rebuilt by the `test` command.
//! - Peak memory is read from `/proc`; elsewhere `bench` says that it is not measured, and fails.
//! - Packages are installed on Debian and Ubuntu; elsewhere `mullion doctor` names them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a program for a terminal; its library exists so that tests can call it"
)]

pub mod bench;
mod beside;
mod cache;
mod error;
pub mod fuzz;
pub mod generate;
pub mod shims;
mod stand_in;
pub mod steps;
pub mod table;
pub mod test;
pub mod tools;
pub mod up;
pub mod windows_agent;
mod windows_runner;
pub mod windows_tests;

pub use error::XtaskError;
pub use generate::generated;
