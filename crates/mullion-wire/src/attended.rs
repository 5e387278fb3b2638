//! A program that a service of the agent's starts when its time has come.
//!
//! flannel and kube-proxy can run only once a machine is a node, and kube-proxy not before flannel has made the
//! machine's network; flannel knows nothing of Windows' services besides. So the agent is their service: it waits,
//! starts them, and ends them where what they need goes.

use serde::{Deserialize, Serialize};

/// What such a service is told, as a file of the blueprint.
///
/// In arguments and texts, `$(share)`, `$(gateway)`, `$(source-vip)` and `$(first-pod)` stand for the machine's share of
/// the pods' addresses and for its first, second and third address: who names one waits until the share is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attended {
    /// The version of this document's form: [`crate::VERSION`] when it was written.
    pub version: u32,
    /// The name of the service.
    pub service: String,
    /// The file in which flannel writes the machine's share down.
    pub share: String,
    /// The program.
    pub program: AttendedProgram,
    /// Files that are there while what they wait for is.
    #[serde(default)]
    pub files: Vec<AttendedFile>,
    /// Logs that this service keeps from growing, its own program's or another's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<AttendedLog>,
}

/// A program that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttendedProgram {
    /// What has to be there.
    pub awaits: Awaited,
    /// A service that takes it along: where that was started anew, however it ended, the program is too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_with: Option<String>,
    /// Where it is.
    pub path: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A file that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttendedFile {
    /// What has to be there.
    pub awaits: Awaited,
    /// Where it is.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A log whose writer only ever appends to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttendedLog {
    /// Where it is.
    pub path: String,
    /// From this size on, in bytes, what is in it is set aside.
    pub aside_from: u64,
    /// So many seconds later that is removed.
    pub removed_after_s: u64,
}

/// What has to be there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Awaited {
    /// Files.
    pub files: Vec<String>,
    /// A network of HNS, by its name.
    pub network: Option<String>,
}
