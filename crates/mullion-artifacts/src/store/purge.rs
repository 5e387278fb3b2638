//! Empties the cache.

use std::io;
use std::path::PathBuf;

use fs_err as fs;

use super::mark::{self, MARK, Standing};
use super::removal::Folder;
use super::{
    GO_CACHES, LAYERS, LOCKS, Lock, PARTS, RECORD, ROOTS, Store, StoreError, TOOLCHAINS, WORK,
    read_record,
};

impl Store {
    /// Whether [`Store::purge`] may remove anything here: the folder is a cache of this computer. Changes nothing.
    pub fn check_purge(&self) -> Result<(), StoreError> {
        match self.check_use() {
            // Others may write to it: root takes nothing from it. Only what Mullion makes is removed, so root may empty it,
            // but a mark that was copied from another cache does not make it one of this computer.
            Err(StoreError::Exposed { folder, .. }) => {
                if self.counts(&self.standing()?) {
                    Ok(())
                } else {
                    Err(StoreError::Elsewhere { folder })
                }
            }
            result => result,
        }
    }

    /// Removes everything that Mullion put there, and the folder itself where nothing else is in it. Gives what stays:
    /// files that Mullion does not make, and other file systems. Refused while an item is being got, and in a folder
    /// that is not marked as a cache.
    pub fn purge(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.check_purge()?;
        if self.standing()? == Standing::Unused {
            // The folder may be the user's own: this program may not have made it.
            return Ok(Vec::new());
        }
        // From here on the mark is what vouches for the folder.
        self.make_cache()?;
        let _locks = self.lock_all()?;
        let folder = Folder::open(&self.folder).map_err(|error| self.broken(error))?;
        let Some(folder) = folder else {
            return Ok(Vec::new());
        };
        let mut stays = Vec::new();
        empty(&folder, &mut stays).map_err(|error| self.broken(error))?;
        if stays.is_empty() {
            // Only what is empty but for the mark: whatever else is there keeps its cache's mark.
            let _ = fs::remove_dir(&self.folder);
        }
        Ok(stays)
    }

    /// Takes every lock that there is, without waiting.
    fn lock_all(&self) -> Result<Vec<Lock>, StoreError> {
        let mut locks = Vec::new();
        for entry in fs::read_dir(self.folder.join(LOCKS)).into_iter().flatten() {
            let entry = entry.map_err(|error| self.broken(error))?;
            let kind = entry.file_type().map_err(|error| self.broken(error))?;
            if !kind.is_file() {
                continue;
            }
            let file = fs::File::open(entry.path()).map_err(|error| self.broken(error))?;
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

/// Removes what is ours in a marked folder.
fn empty(folder: &Folder, stays: &mut Vec<PathBuf>) -> io::Result<()> {
    // The locks go last.
    let top: [(&str, &Remover); 7] = [
        (PARTS, &parts),
        (ROOTS, &items),
        (LAYERS, &items),
        (TOOLCHAINS, &|folder, stays| {
            trees(folder, &mark::is_go, stays)
        }),
        (GO_CACHES, &|folder, stays| {
            trees(folder, &mark::is_go_cache, stays)
        }),
        (WORK, &|folder, stays| trees(folder, &mark::is_work, stays)),
        (LOCKS, &|folder, stays| files(folder, &mark::is_lock, stays)),
    ];
    for (name, remove) in top {
        if let Some(inner) = folder.enter(name)? {
            remove(&inner, stays)?;
            folder.remove_empty(name);
        }
    }
    let mut rest = folder.list()?;
    // A disk's own folder belongs to the disk.
    rest.retain(|found| found.name != MARK && found.name != "lost+found");
    for found in &rest {
        let path = folder.path(&found.name);
        if mark::is_half_mark(&found.name) && found.is_file {
            folder.remove(&found.name, stays)?;
        } else if !stays.iter().any(|stays| stays.starts_with(&path)) {
            stays.push(path);
        }
    }
    if stays.is_empty() {
        folder.remove(MARK, stays)?;
    }
    Ok(())
}

/// What removes a folder's own content.
type Remover = dyn Fn(&Folder, &mut Vec<PathBuf>) -> io::Result<()>;

fn parts(folder: &Folder, stays: &mut Vec<PathBuf>) -> io::Result<()> {
    each(folder, &mark::is_system, stays, &|system, stays| {
        each(system, &mark::is_kind, stays, &items)
    })
}

/// Goes into each folder of a name that is ours.
fn each(
    folder: &Folder,
    is_ours: &dyn Fn(&str) -> bool,
    stays: &mut Vec<PathBuf>,
    remove: &Remover,
) -> io::Result<()> {
    for found in folder.list()? {
        let inner = if is_ours(&found.name) {
            folder.enter(&found.name)?
        } else {
            None
        };
        match inner {
            Some(inner) => {
                remove(&inner, stays)?;
                folder.remove_empty(&found.name);
            }
            None => stays.push(folder.path(&found.name)),
        }
    }
    Ok(())
}

/// Items: the record, the file that it names, and what was under way.
fn items(folder: &Folder, stays: &mut Vec<PathBuf>) -> io::Result<()> {
    each(folder, &|_| true, stays, &|item, stays| {
        let record = read_record(&item.path(RECORD));
        let is_ours = |name: &str| {
            name == RECORD
                || mark::is_under_way(name)
                || record.as_ref().is_some_and(|record| record.file == name)
        };
        files(item, &is_ours, stays)
    })
}

fn files(
    folder: &Folder,
    is_ours: &dyn Fn(&str) -> bool,
    stays: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for found in folder.list()? {
        if found.is_file && is_ours(&found.name) {
            folder.remove(&found.name, stays)?;
        } else {
            stays.push(folder.path(&found.name));
        }
    }
    Ok(())
}

/// Folders that tools fill as they like.
fn trees(
    folder: &Folder,
    is_ours: &dyn Fn(&str) -> bool,
    stays: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for found in folder.list()? {
        if found.is_folder && is_ours(&found.name) {
            folder.remove(&found.name, stays)?;
        } else {
            stays.push(folder.path(&found.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
