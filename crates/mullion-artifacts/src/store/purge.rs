//! The cache emptied.

use std::io;

use fs_err as fs;

use super::{GO_CACHES, LAYERS, LOCKS, Lock, PARTS, ROOTS, Store, StoreError, TOOLCHAINS, WORK};

/// Every folder of ours, the locks last.
const ALL: [&str; 7] = [PARTS, ROOTS, LAYERS, TOOLCHAINS, GO_CACHES, WORK, LOCKS];

impl Store {
    /// Removes everything of ours, and the folder itself where nothing else is in it. Refused while an item is being got.
    pub fn purge(&self) -> Result<(), StoreError> {
        let _locks = self.lock_all()?;
        for name in ALL {
            match fs::remove_dir_all(self.folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.broken(error));
                }
                _ => {}
            }
        }
        // The user's, where anything of theirs is in it.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// Takes every lock that there is, without waiting.
    fn lock_all(&self) -> Result<Vec<Lock>, StoreError> {
        let mut locks = Vec::new();
        for entry in fs::read_dir(self.folder.join(LOCKS)).into_iter().flatten() {
            let path = entry.map_err(|error| self.broken(error))?.path();
            let file = fs::File::open(path).map_err(|error| self.broken(error))?;
            match file.file().try_lock() {
                Ok(()) => locks.push(Lock { _file: file }),
                Err(std::fs::TryLockError::WouldBlock) => {
                    let folder = self.folder.clone();
                    return Err(StoreError::Busy { folder });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(self.broken(error)),
            }
        }
        Ok(locks)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mullion_plan::Unattended;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_purge_takes_what_is_ours_and_leaves_what_is_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("projects");
        let store = Store::open(&place).unwrap();
        for name in ALL {
            fs::create_dir_all(place.join(name).join("a/b")).unwrap();
        }
        fs::remove_dir_all(place.join(LOCKS).join("a")).unwrap();
        fs::write(place.join("thesis.tex"), "years of work").unwrap();
        store.purge().unwrap();
        assert_eq!(names(&place), ["thesis.tex"]);
        fs::remove_file(place.join("thesis.tex")).unwrap();
        store.purge().unwrap();
        assert!(!place.exists());
        store.purge().unwrap();
    }

    #[test]
    fn what_is_being_got_is_not_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let lock = store.lock_named("go", "Go", &Unattended).unwrap();
        assert!(matches!(store.purge(), Err(StoreError::Busy { .. })));
        assert!(folder.path().join(PARTS).is_dir());
        drop(lock);
        store.purge().unwrap();
    }
}
