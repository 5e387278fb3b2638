//! Why a template could not be made.

use std::path::PathBuf;

/// Why a template could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It was called off.
    #[error("making the template was called off")]
    CalledOff,
    /// A file or folder could not be worked on.
    #[error("a file of the template could not be worked on")]
    File(#[from] std::io::Error),
    /// The root file system could not be unpacked.
    #[error("the root file system `{path}` could not be unpacked")]
    Unpack {
        /// The archive.
        path: PathBuf,
        /// What the archive or the disk said.
        #[source]
        cause: std::io::Error,
    },
    /// The root file system lacks what a machine needs.
    #[error(
        "the root file system `{path}` has no `{missing}`: it is not one that a machine can boot"
    )]
    NotBootable {
        /// The archive.
        path: PathBuf,
        /// The file that is missing.
        missing: &'static str,
    },
    /// A program that fills the store is not in the template.
    #[error("images are to be put into the template, and `{0}` is not among its programs")]
    MissingProgram(&'static str),
    /// A program of this computer could not be started.
    #[error("`{program}` could not be started")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// containerd ended or did not answer in time.
    #[error("containerd did not come up to take the images: {tail}")]
    Store {
        /// The last lines it wrote.
        tail: String,
    },
    /// An image archive was refused.
    #[error("the image archive `{path}` could not be put into the template: {tail}")]
    Image {
        /// The archive.
        path: PathBuf,
        /// The last lines that were said about it.
        tail: String,
    },
    /// The images could not be listed or labelled.
    #[error("`ctr {command}` failed: {tail}")]
    Ctr {
        /// What was asked.
        command: String,
        /// The last lines it wrote.
        tail: String,
    },
}
