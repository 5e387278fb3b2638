//! Digests of large files, remembered as long as the files look the same.
//!
//! Kept in `digests.json` of the state folder, so that programs of hundreds of megabytes are read once and not at every
//! request. A file counts as unchanged while its size, time and number are. The file is only ever a help: without it
//! everything is read anew.

use std::collections::BTreeMap;

use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::system::{Look, System, SystemError};

const NAME: &str = "digests.json";

/// Smaller files are read faster than looked up.
const SMALLEST: u64 = 4 * 1024;

/// What is known of large files, by path.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Digests {
    files: BTreeMap<String, Known>,
    #[serde(skip)]
    is_changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i64,
    /// The file's own number.
    number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<Sha256Digest>,
    /// What the program said of its version, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl Known {
    fn new(look: &Look) -> Self {
        Self {
            size: look.size,
            modified: look.modified,
            number: look.number,
            sha256: None,
            version: None,
        }
    }

    fn is_of(&self, look: &Look) -> bool {
        (self.size, self.modified, self.number) == (look.size, look.modified, look.number)
    }
}

impl Digests {
    /// What is known; nothing where it cannot be read.
    pub(crate) fn load(system: &dyn System) -> Self {
        let read = system.read(&path(system)).ok().flatten();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
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

    fn find(&self, path: &str, look: &Look) -> Option<&Known> {
        self.files.get(path).filter(|known| known.is_of(look))
    }

    /// The entry of a file that looks so; an older one is forgotten.
    fn note(&mut self, path: &str, look: &Look) -> &mut Known {
        self.is_changed = true;
        let known = self
            .files
            .entry(path.to_owned())
            .or_insert_with(|| Known::new(look));
        if !known.is_of(look) {
            *known = Known::new(look);
        }
        known
    }

    /// Writes down what is new, where the agent has a state folder; forgets files that are gone.
    pub(crate) fn save(&mut self, system: &dyn System) -> Result<(), SystemError> {
        if !self.is_changed || system.look(&system.paths().state)?.is_none() {
            return Ok(());
        }
        self.files
            .retain(|path, _| matches!(system.look(path), Ok(Some(_))));
        let Ok(bytes) = serde_json::to_vec(self) else {
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
