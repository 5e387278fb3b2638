//! SSH against a real OpenSSH server, which each test starts on loopback with keys and settings of its own.
//!
//! Needs Debian's `openssh-server` (for `/usr/sbin/sshd`; nothing of it has to run) and `openssh-client`. Runs as any
//! user; what needs root is ignored unless `cargo xtask test` runs it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod commands;
mod faults;
mod files;
mod jump;
mod login;
mod server;
mod speed;
mod sudo;
