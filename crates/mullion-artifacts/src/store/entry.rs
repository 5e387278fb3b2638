//! One item of the cache while its lock is held: everything that writes it.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_plan::Attend;
use mullion_rights::sync_folder;
use mullion_wire::Sha256Digest;

use super::{NEW, RECORD, Store, StoreError, read_record, write_record};
use crate::digest::hash_file;
use crate::item::Item;
use crate::record::{Draft, Modified, Origin, Record, Witness};

/// A lock that is held; it ends with this value, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(super) _file: fs::File,
}

/// An item whose lock is held.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(super) store: &'a Store,
    pub(crate) folder: PathBuf,
    pub(crate) item: Item,
    pub(super) _lock: Lock,
}

/// What a record says of something that was fetched.
pub(crate) struct Fetched {
    pub(crate) sha256: Sha256Digest,
    pub(crate) witness: Witness,
    pub(crate) from: String,
    pub(crate) scope: Option<String>,
}

impl Entry<'_> {
    /// What is there already.
    pub(crate) fn current(&self) -> Option<Record> {
        let record = self.store.sound(&self.item)?;
        let kept = read_record(&self.record_path());
        if kept.is_some_and(|kept| kept.modified != record.modified) {
            // Only saves hashing it the next time; a cache that may not be written is as good.
            let _ = write_record(&self.folder, &record);
        }
        Some(record)
    }

    /// Where its record is.
    pub(crate) fn record_path(&self) -> PathBuf {
        self.folder.join(RECORD)
    }

    /// The digest of what was fetched here once, what vouched for it and where it came from, whatever became of the file
    /// since.
    pub(crate) fn pinned(&self) -> Option<Fetched> {
        let record = read_record(&self.record_path())?;
        if !self.store.is_in_scope(&record) {
            return None;
        }
        let (Origin::Upstream { witness, address } | Origin::Mirror { witness, address }) =
            record.origin
        else {
            return None;
        };
        (record.item == self.item).then_some(Fetched {
            sha256: record.sha256,
            witness,
            from: address,
            scope: record.scope,
        })
    }

    /// Where a new file is written. The name is this process's own: a tool that outlived the process that started it
    /// may still be writing under another.
    pub(crate) fn temporary(&self, file: &str) -> Result<PathBuf, StoreError> {
        self.make_folder()?;
        let ours = format!(".{}{NEW}", std::process::id());
        let path = self.folder.join(format!("{file}{ours}"));
        self.sweep(&ours);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.store.broken(error)),
            _ => Ok(path),
        }
    }

    fn make_folder(&self) -> Result<(), StoreError> {
        super::make_folder(&self.folder).map_err(|error| self.store.broken(error))
    }

    /// Removes what other processes left half done. They do not hold the lock, so nobody waits for it.
    fn sweep(&self, ours: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(NEW) && !name.ends_with(ours) {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Where a download goes on.
    pub(crate) fn partial(&self, file: &str) -> Result<PathBuf, StoreError> {
        self.make_folder()?;
        Ok(self.folder.join(format!("{file}.partial")))
    }

    /// Hashes a finished file and keeps it.
    pub(crate) fn hash_and_keep(
        &self,
        new: &Path,
        draft: Draft,
        attendant: &dyn Attend,
    ) -> Result<PathBuf, StoreError> {
        let (sha256, size) = hash_file(new, &mut |_| !attendant.is_called_off())
            .map_err(|error| self.store.broken(error))?
            .ok_or(StoreError::CalledOff)?;
        self.keep(new, draft.finish(sha256, size))
    }

    /// Gives a finished file its name, then writes its record.
    pub(crate) fn keep(&self, new: &Path, record: Record) -> Result<PathBuf, StoreError> {
        self.keep_inner(new, record)
            .map_err(|error| self.store.broken(error))
    }

    fn keep_inner(&self, new: &Path, mut record: Record) -> io::Result<PathBuf> {
        let path = self.folder.join(&record.file);
        // Whoever takes it out of a bundle says what vouched for that.
        if record.carried_by.is_none() {
            record.scope = self.store.scope(&record.origin);
        }
        if let Some(part) = record.item.part()
            && part.kind == mullion_plan::PartKind::Program
        {
            set_executable(new)?;
        }
        // An older record must not vouch for the new file, should this end between the two renames.
        match fs::remove_file(self.folder.join(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs::File::open(new)?;
        file.sync_all()?;
        fs::rename(new, &path)?;
        sync_folder(&self.folder)?;
        record.modified = Modified::of(&fs::metadata(&path)?);
        write_record(&self.folder, &record)?;
        Ok(path)
    }
}

fn set_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}
