//! Why a template could not be made.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use mullion_plan::{ErrorClass, MAKE_ROOM, is_disk_full};
use mullion_wire::Sha256Digest;
use mullion_wire::duration::shown;

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
    /// A file that the template is made of could not be opened.
    #[error("`{path}`, which the template is made of, could not be opened")]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// The root file system could not be unpacked.
    #[error("the root file system `{path}` could not be unpacked")]
    Unpack {
        /// The archive.
        path: PathBuf,
        /// What the archive or the disk said.
        #[source]
        cause: std::io::Error,
    },
    /// A file of the cache is not the one that was recorded.
    #[error("`{}` has the SHA-256 {found}, but {expected} is recorded", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The recorded digest.
        expected: Sha256Digest,
        /// The digest of what was read.
        found: Sha256Digest,
    },
    /// A file of the user's own is not the one that the plan was made with.
    #[error("`{}` changed after the plan was made", .0.display())]
    Rewritten(PathBuf),
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
    /// A program did not do its work in time.
    #[error("timed out after {} waiting for {what}: {tail}", shown(*.limit))]
    TooSlow {
        /// What was waited for.
        what: String,
        /// The time that it had.
        limit: Duration,
        /// The last lines that the program wrote.
        tail: String,
    },
    /// containerd ended before it took the images.
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
    /// The import of an archive replaced an image that the cluster file does not name with it.
    #[error(
        "the image archive `{path}` replaced the image `{image}`, and the cluster file does not name that image with it"
    )]
    Replaced {
        /// The archive.
        path: PathBuf,
        /// The image.
        image: String,
    },
    /// The images could not be listed or labelled.
    #[error("`ctr {command}` failed: {tail}")]
    Ctr {
        /// What was asked.
        command: String,
        /// The last lines it wrote.
        tail: String,
    },
    /// Wine did not initialise its prefix.
    #[error("Wine could not be initialised ({status}): {tail}")]
    Wine {
        /// How its last program ended. Where that is well, its registry was not written.
        status: ExitStatus,
        /// The last lines it wrote.
        tail: String,
    },
    /// A file of a drive would lie elsewhere.
    #[error("`{0}` is not a path on drive C:")]
    NotOnDrive(String),
}

impl TemplateError {
    /// What kind of failure it is for the engine.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::CalledOff => ErrorClass::Interrupted,
            // The engine tries again within its patience: a loaded computer may be less loaded then.
            Self::TooSlow { .. } => ErrorClass::NotYet,
            _ => ErrorClass::Refused,
        }
    }

    /// What a person can do about it, where one thing helps.
    pub fn hint(&self) -> Option<String> {
        if is_disk_full(self, None) {
            return Some(MAKE_ROOM.into());
        }
        match self {
            Self::Start { .. } => Some("`mullion doctor --fix` installs what is missing".into()),
            Self::Changed { .. }
            | Self::Unpack { .. }
            | Self::NotBootable { .. }
            | Self::MissingProgram(_) => Some(
                "`mullion artifacts verify` tells what in the cache is damaged; what is removed there is made anew"
                    .into(),
            ),
            Self::Rewritten(_) => {
                Some("wait until no program writes to the file, then run the command again".into())
            }
            Self::Image { path, .. } => Some(format!(
                "see whether `{}` is whole and an archive as `docker save` writes it; if it is in the cache, remove it \
                 and run it again",
                path.display()
            )),
            Self::Replaced { image, .. } => Some(format!(
                "save only the images that the file names, or add `ref: {image}` with this archive to `images`"
            )),
            Self::TooSlow { .. } => {
                Some("on a slow computer, give it more time with `--patience 3`".into())
            }
            Self::Wine { .. } => {
                Some("run it again; a computer that does much else may keep Wine from starting".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_full_disk_is_known_by_whoever_met_it() {
        let full = || Error::from(ErrorKind::StorageFull);
        let path = PathBuf::from("a.tar");
        for error in [
            TemplateError::File(full()),
            TemplateError::Unpack {
                path: path.clone(),
                cause: full(),
            },
            TemplateError::Image {
                path,
                tail: "ctr: write /x: no space left on device".into(),
            },
        ] {
            assert_eq!(error.hint().as_deref(), Some(MAKE_ROOM), "{error}");
        }
    }

    #[test]
    fn what_a_person_can_cure_has_a_hint() {
        let missing = TemplateError::Start {
            program: "setpriv".into(),
            cause: ErrorKind::NotFound.into(),
        };
        assert!(missing.hint().unwrap().contains("doctor --fix"));
        let damaged = TemplateError::Image {
            path: "a.tar".into(),
            tail: "unrecognized image format".into(),
        };
        assert!(damaged.hint().unwrap().contains("`a.tar`"));
        assert_eq!(TemplateError::CalledOff.class(), ErrorClass::Interrupted);
        assert_eq!(missing.class(), ErrorClass::Refused);
        let slow = TemplateError::TooSlow {
            what: "containerd to answer".into(),
            limit: Duration::from_mins(1),
            tail: "it said nothing".into(),
        };
        assert!(slow.hint().unwrap().contains("--patience"));
        assert_eq!(slow.class(), ErrorClass::NotYet);
    }
}
