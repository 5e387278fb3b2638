//! Digests of large files, remembered as long as the files look the same.
//!
//! Kept in `digests.json` of the state folder, so that programs of hundreds of megabytes are read once and not at every
//! request; a template brings one for the programs in it. A file counts as unchanged while its size, time and number
//! are. The document is only ever a help: without it everything is read anew.

use mullion_wire::{KNOWN_FILES as NAME, KnownFile, KnownFiles, Sha256Digest};

use crate::system::{Look, System, SystemError};

/// Smaller files are read faster than looked up.
const SMALLEST: u64 = 4 * 1024;

/// What is known of large files, by path.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: KnownFiles,
    is_changed: bool,
}

fn nothing_of(look: &Look) -> KnownFile {
    KnownFile {
        size: look.size,
        modified: look.modified,
        number: look.number,
        sha256: None,
        version: None,
    }
}

fn is_of(known: &KnownFile, look: &Look) -> bool {
    (known.size, known.modified, known.number) == (look.size, look.modified, look.number)
}

impl Digests {
    /// What is known; nothing where it cannot be read.
    pub(crate) fn load(system: &dyn System) -> Self {
        let read = system.read(&path(system)).ok().flatten();
        let known = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            known: known.unwrap_or_default(),
            is_changed: false,
        }
    }

    /// The digest of a file that looks so.
    pub(crate) fn of(
        &mut self,
        system: &dyn System,
        path: &str,
        look: &Look,
    ) -> Result<Sha256Digest, SystemError> {
        if let Some(sha256) = self.find(path, look).and_then(|known| known.sha256.clone()) {
            return Ok(sha256);
        }
        let sha256 = system.digest(path)?;
        self.remember(path, look, sha256.clone());
        Ok(sha256)
    }

    /// Remembers the digest of a file that looks so.
    pub(crate) fn remember(&mut self, path: &str, look: &Look, sha256: Sha256Digest) {
        if look.size >= SMALLEST {
            self.note(path, look).sha256 = Some(sha256);
        }
    }

    /// What a program said of its version, where it still looks so.
    pub(crate) fn version(&self, path: &str, look: &Look) -> Option<&str> {
        self.find(path, look)?.version.as_deref()
    }

    /// Remembers what a program said of its version.
    pub(crate) fn remember_version(&mut self, path: &str, look: &Look, version: &str) {
        self.note(path, look).version = Some(version.to_owned());
    }

    fn find(&self, path: &str, look: &Look) -> Option<&KnownFile> {
        let known = self.known.files.get(path);
        known.filter(|known| is_of(known, look))
    }

    /// The entry of a file that looks so; an older one is forgotten.
    fn note(&mut self, path: &str, look: &Look) -> &mut KnownFile {
        self.is_changed = true;
        let entry = self.known.files.entry(path.to_owned());
        let known = entry.or_insert_with(|| nothing_of(look));
        if !is_of(known, look) {
            *known = nothing_of(look);
        }
        known
    }

    /// Writes down what is new, where the agent has a state folder; forgets files that are gone.
    pub(crate) fn save(&mut self, system: &dyn System) -> Result<(), SystemError> {
        if !self.is_changed || system.look(&system.paths().state)?.is_none() {
            return Ok(());
        }
        self.known
            .files
            .retain(|path, _| matches!(system.look(path), Ok(Some(_))));
        let Ok(bytes) = serde_json::to_vec(&self.known) else {
            return Ok(());
        };
        let path = path(system);
        // Each process has a file of its own to prepare: two agents may read at once.
        let new = format!("{path}.new-{}", std::process::id());
        system.write(&new, &bytes, 0o600)?;
        system.rename(&new, &path)?;
        self.is_changed = false;
        Ok(())
    }
}

fn path(system: &dyn System) -> String {
    format!("{}/{NAME}", system.paths().state)
}

/// Removes what killed agents left of writing it down.
pub(crate) fn tidy(system: &dyn System) -> Result<(), SystemError> {
    remove_where(system, &|name| name != NAME)
}

/// Removes all of it.
pub(crate) fn remove(system: &dyn System) -> Result<(), SystemError> {
    remove_where(system, &|_| true)
}

fn remove_where(system: &dyn System, is_doomed: &dyn Fn(&str) -> bool) -> Result<(), SystemError> {
    let folder = &system.paths().state;
    for name in system.list(folder)? {
        if name.starts_with(NAME) && is_doomed(&name) {
            system.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}
