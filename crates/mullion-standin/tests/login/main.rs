//! A login as on Windows: the shell and SFTP, by themselves and through a real OpenSSH server on loopback.
//!
//! Needs Debian's `openssh-server` (for `/usr/sbin/sshd`; nothing of it has to run) and `openssh-client`. In place of Wine
//! stands a script that keeps what it gets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod machine;
mod shell;
mod upload;
