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
}

/// A program that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttendedProgram {
    /// What has to be there.
    pub awaits: Awaited,
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

/// What has to be there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Awaited {
    /// Files.
    pub files: Vec<String>,
    /// A network of HNS, by its name.
    pub network: Option<String>,
}
