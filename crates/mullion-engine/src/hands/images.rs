//! Images for machines that exist already: those that we make have them from their template.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mullion_artifacts::part_of;
use mullion_catalog::ArtifactKind;
use mullion_plan::{Attend, ErrorClass, StepError};
use mullion_rights::Opened;
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_template::Source;
use mullion_wire::{ImageArchive, Request, Sha256Digest};

use super::Hands;

impl Hands<'_> {
    /// A Linux machine that exists already has the images that its node needs, whether it reaches a registry or not.
    pub(super) fn bring_images(
        &self,
        machine: &MachineName,
        duty: Duty,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let is_made = self
            .group(machine)
            .is_none_or(|group| group.carrier.is_made());
        if is_made || self.os(machine) == Os::Windows {
            return Ok(());
        }
        let files = self.image_archives(duty)?;
        let archives: Vec<_> = files.iter().map(|(archive, _)| archive.clone()).collect();
        let request = Request::MissingImages {
            archives: archives.clone(),
        };
        let find = |sha256: &Sha256Digest| {
            let mut files = files.iter();
            let found = files.find(|(archive, _)| archive.sha256 == *sha256);
            found.map(|(_, file)| file.clone())
        };
        self.send_missing(machine, &request, find, attendant)?;
        self.ask(machine, &Request::Import { archives }, attendant)?;
        Ok(())
    }

    /// The archives of a node's images, with their files on this computer: the cluster's own, then the user's.
    fn image_archives(&self, duty: Duty) -> Result<Vec<(ImageArchive, Opened)>, StepError> {
        let mut archives = Vec::new();
        let images = self.model.artifacts().iter().filter(|artifact| {
            artifact.kind == ArtifactKind::Image
                && artifact.os == Os::Linux
                && (duty == Duty::ControlPlane || !artifact.control_plane)
        });
        for artifact in images {
            let Some(part) = part_of(artifact) else {
                continue;
            };
            let path = self.stored(&part)?;
            let known = self.store.digest(&part);
            let file = Opened::by_default(&path).map_err(|error| unread(&path, &error))?;
            let archive = look_at(&file, artifact.address.clone(), known);
            archives.push((archive.map_err(|error| unread(&path, &error))?, file));
        }
        for file in &self.outfit.images {
            let known = file.digest().cloned();
            let file = file.opened()?;
            let archive = look_at(file, None, known);
            let archive = archive.map_err(|error| unread(file.path(), &error))?;
            archives.push((archive, file.clone()));
        }
        Ok(archives)
    }
}

/// The archive in a file, read where its digest is not known.
fn look_at(
    file: &Opened,
    reference: Option<String>,
    known: Option<Sha256Digest>,
) -> io::Result<ImageArchive> {
    let (sha256, size) = match known {
        Some(sha256) => (sha256, file.size()),
        None => Sha256Digest::of_reader(file.reader())?,
    };
    Ok(ImageArchive {
        reference,
        sha256,
        size,
    })
}

impl super::UserArchive {
    /// An archive at a path, or why it cannot be read.
    pub fn new(path: PathBuf, opened: io::Result<Opened>) -> Self {
        Self {
            path,
            opened,
            digest: OnceLock::new(),
        }
    }

    /// Its digest. One that cannot be read has none: the step that needs it says why.
    pub(super) fn digest(&self) -> Option<&Sha256Digest> {
        let digest = self.digest.get_or_init(|| {
            let opened = self.opened.as_ref().ok()?;
            // One that grows meanwhile is cut.
            let whole = opened.reader().take(opened.size());
            Sha256Digest::of_reader(whole)
                .ok()
                .map(|(sha256, _)| sha256)
        });
        digest.as_ref()
    }

    /// The archive for a template. A template's id holds the digest, so only what has that digest may go in.
    pub(super) fn source(&self) -> Result<Source, StepError> {
        let opened = self.opened()?;
        let digest = self.digest().ok_or_else(|| {
            let cause = io::Error::other("its SHA-256 could not be computed");
            unread(&self.path, &cause)
        })?;
        Ok(Source::planned(opened.clone(), digest.clone()))
    }

    /// The archive, where it could be opened.
    pub(super) fn opened(&self) -> Result<&Opened, StepError> {
        self.opened
            .as_ref()
            .map_err(|error| unread(&self.path, error))
    }
}

fn unread(path: &Path, error: &io::Error) -> StepError {
    let words = format!("the images in {} could not be read", path.display());
    StepError::new(ErrorClass::Refused, words).because(error)
}

#[cfg(test)]
mod tests {
    use super::super::UserArchive;
    use super::*;

    #[test]
    fn an_archive_is_held_to_the_digest_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        fs_err::write(&path, "planned").unwrap();
        let archive = UserArchive::new(path.clone(), Opened::by_thread(&path));
        assert_eq!(archive.digest(), Some(&Sha256Digest::of(b"planned")));
        fs_err::write(&path, "another").unwrap();
        let source = archive.source().unwrap();
        assert_eq!(source.sha256, Some(Sha256Digest::of(b"planned")));
    }
}
