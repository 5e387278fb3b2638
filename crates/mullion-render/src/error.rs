//! Why a document cannot be written.

use std::path::PathBuf;

use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_spec::version::Minor;

/// Why a document cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The file has no such machine, or nobody said where it is.
    #[error("machine `{0}` is not in the setting")]
    UnknownMachine(MachineName),
    /// The document is for machines that do something else.
    #[error("machine `{machine}` is no {wanted:?}")]
    OtherDuty {
        /// The machine.
        machine: MachineName,
        /// What it would have to do.
        wanted: Duty,
    },
    /// Only Linux machines have such a document so far.
    #[error("machine `{0}` has no Linux")]
    NotLinux(MachineName),
    /// Only Windows machines have such a document.
    #[error("machine `{0}` has no Windows")]
    NotWindows(MachineName),
    /// What the machine stands on is not in the setting.
    #[error("what machine `{0}` stands on is not known")]
    UnknownGround(MachineName),
    /// A program that the machine needs has no version in the setting.
    #[error("program `{0}` is not among the cluster's artifacts")]
    NoProgram(String),
    /// The contents of a file of the user's are not in the setting.
    #[error("the contents of `{}` were not given", .0.display())]
    NoContents(PathBuf),
    /// Two files would have one path on a machine.
    #[error("two files would be `{path}` on machine `{machine}`")]
    SamePath {
        /// The path on the machine.
        path: String,
        /// The machine.
        machine: MachineName,
    },
    /// The path of a patch has no file name.
    #[error("`{}` names no file", .0.display())]
    Nameless(PathBuf),
    /// The model has no such image.
    #[error("image `{0}` is not among the cluster's artifacts")]
    NoImage(String),
    /// The catalog does not know what this minor release needs.
    #[error("the catalog has no {what} for Kubernetes {minor}")]
    Uncatalogued {
        /// What is missing.
        what: &'static str,
        /// The minor release.
        minor: Minor,
    },
    /// The catalog names a flag of kube-proxy's whose value nobody knows here.
    #[error("nothing is known of kube-proxy's flag `{0}`")]
    UnknownFlag(String),
    /// The network of services has no tenth address, which the cluster's DNS has.
    #[error("the service network `{0}` is too small for the cluster's DNS")]
    NoDnsAddress(ipnet::Ipv4Net),
}
