//! Files that go into a template, each held to its digest while it is read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mullion_rights::Opened;
use mullion_wire::Sha256Digest;

use crate::error::TemplateError;

/// A file of this computer that goes into a template.
///
/// It lies in a cache that the user may write to, and so may whatever runs as the user. It is opened once, and what is
/// read from it is held to the digest: what was looked at is what is taken.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// What it must be; none for a file of the user's own, of which nobody knows a digest.
    pub sha256: Option<Sha256Digest>,
    /// A file of the user's own, opened with their rights before anything was planned.
    opened: Option<Opened>,
}

impl Source {
    /// A file that must have a digest.
    pub fn held_to(path: impl Into<PathBuf>, sha256: Sha256Digest) -> Self {
        Self {
            path: path.into(),
            sha256: Some(sha256),
            opened: None,
        }
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
    pub(crate) fn check(&self, reader: Hashing<impl Read>) -> Result<(), TemplateError> {
        let found = reader.finish()?;
        match &self.sha256 {
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
        }
    }
}

impl From<Opened> for Source {
    fn from(opened: Opened) -> Self {
        Self {
            path: opened.path().to_owned(),
            sha256: None,
            opened: Some(opened),
        }
    }
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

/// A reader that hashes what goes through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hash: sha2::Sha256,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            hash: sha2::Digest::new(),
        }
    }

    /// The digest of everything, the rest that nobody read included.
    fn finish(mut self) -> io::Result<Sha256Digest> {
        use std::fmt::Write as _;
        io::copy(&mut self, &mut io::sink())?;
        let mut text = String::with_capacity(64);
        for byte in sha2::Digest::finalize(self.hash) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.parse().map_err(io::Error::other)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        sha2::Digest::update(&mut self.hash, &buffer[..read]);
        Ok(read)
    }
}
