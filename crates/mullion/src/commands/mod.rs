//! One module a command: from its arguments to an exit code.

pub mod catalog;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod init;
pub mod plan;
pub mod validate;
pub mod version;
