//! Files that go into a template, each held to its digest while it is read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mullion_rights::Opened;
use mullion_wire::{Hashing, Sha256Digest};

use crate::error::TemplateError;

/// A file of this computer that goes into a template.
///
/// It lies in a cache that the user may write to, and so may whatever runs as the user. It is opened once, and what is
/// read from it is held to the digest: what was looked at is what is taken.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// The digest that it must have; none where it is not known.
    pub sha256: Option<Sha256Digest>,
    /// A file of the user's own, opened with their rights before anything was planned.
    opened: Option<Opened>,
    /// The image that the cluster file names with an archive of the user's own.
    image: Option<String>,
}

impl Source {
    /// A file that must have a digest.
    pub fn held_to(path: impl Into<PathBuf>, sha256: Sha256Digest) -> Self {
        Self {
            path: path.into(),
            sha256: Some(sha256),
            opened: None,
            image: None,
        }
    }

    /// A file of the user's own that was read for the plan, and must still have the digest that it had then.
    pub fn planned(opened: Opened, sha256: Sha256Digest) -> Self {
        Self {
            path: opened.path().to_owned(),
            sha256: Some(sha256),
            opened: Some(opened),
            image: None,
        }
    }

    /// The same, as an archive that may replace an image under a name: the cluster file names that image with it.
    #[must_use]
    pub fn naming(mut self, image: &str) -> Self {
        self.image = Some(image.to_owned());
        self
    }

    /// The image that the cluster file names with it.
    pub(crate) fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Whether it is a file of the user's own and not one of the cache.
    pub(crate) fn is_users(&self) -> bool {
        self.opened.is_some()
    }

    /// Opens it. The cache is the invoking user's: what they could not read is not read for them.
    pub(crate) fn open(&self) -> Result<Opened, TemplateError> {
        if let Some(opened) = &self.opened {
            return Ok(opened.clone());
        }
        Opened::by_default(&self.path).map_err(|cause| TemplateError::Input {
            path: self.path.clone(),
            cause,
        })
    }

    /// Copies it; what was copied is of no use where this fails.
    pub(crate) fn copy(&self, to: &mut impl Write) -> Result<(), TemplateError> {
        let mut reader = Hashing::new(self.open()?.reader());
        io::copy(&mut reader, to)?;
        self.check(reader)
    }

    /// Reads on to the end and sees that everything that was read is what it should be.
    pub(crate) fn check(&self, mut reader: Hashing<impl Read>) -> Result<(), TemplateError> {
        io::copy(&mut reader, &mut io::sink())?;
        let (_, found, _) = reader.finish();
        match &self.sha256 {
            Some(expected) if *expected != found && self.is_users() => {
                Err(TemplateError::Rewritten(self.path.clone()))
            }
            Some(expected) if *expected != found => Err(TemplateError::Changed {
                path: self.path.clone(),
                expected: expected.clone(),
                found,
            }),
            _ => Ok(()),
        }
    }
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Self {
        Self {
            path,
            sha256: None,
            opened: None,
            image: None,
        }
    }
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_rewritten_since_the_plan_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        fs_err::write(&path, "planned").unwrap();
        let opened = Opened::by_thread(&path).unwrap();
        let source = Source::planned(opened, Sha256Digest::of(b"planned"));
        let mut copy = Vec::new();
        source.copy(&mut copy).unwrap();
        assert_eq!(copy, b"planned");
        // In place or at its end: the opened file is the same.
        for text in ["another", "planned and more"] {
            fs_err::write(&path, text).unwrap();
            let error = source.copy(&mut Vec::new()).unwrap_err();
            assert!(
                matches!(&error, TemplateError::Rewritten(file) if *file == path),
                "{error:?}"
            );
            let hint = error.hint().unwrap();
            assert!(hint.contains("run the command again"), "{hint}");
        }
    }
}
