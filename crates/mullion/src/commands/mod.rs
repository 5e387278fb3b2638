//! One module a command: from its arguments to an exit code.

pub mod artifacts;
pub mod catalog;
pub mod completions;
pub mod doctor;
pub mod down;
pub mod explain;
pub mod init;
pub mod kubeconfig;
pub mod kubectl;
pub mod machine_console;
pub mod node;
pub mod plan;
pub mod restore_network;
pub mod runs;
pub mod ssh;
pub mod status;
pub mod up;
pub mod validate;
pub mod version;
