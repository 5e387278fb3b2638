//! The parts of a stand-in: what makes a system container with Wine look like a Windows machine from outside.
//!
//! ```text
//! SSH ──► sshd ──┬─► shell ─► Wine's cmd.exe
//!                └─► sftp ──► drive C:, a folder
//! ```
//!
//! - [`shell`] is the login shell: `cmd`, with its quoting, its exit codes, its line ends.
//! - [`sftp`] is the subsystem: Windows paths, names without regard to case, nothing but the drive.
//!
//! [`path`] reads Windows paths, [`drive`] finds them in the drive's folder, [`settings`] is the file of the first two.
//! What a stand-in shows is no proof about Windows.
//!
//! # Current limitations
//!
//! - There is drive `C:` only. Other drives, shares and named pipes are refused.
//! - Exit codes have eight bits, as every program of a Unix has.

pub mod drive;
pub mod path;
pub mod settings;
pub mod sftp;
pub mod shell;
