//! One builder a template, and the folders it works on.

use std::fs::TryLockError;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::File;
use mullion_plan::Attend;

use crate::error::TemplateError;

/// How long a waiting builder sleeps between two looks: short beside a build, long beside a look.
const PAUSE: Duration = Duration::from_millis(100);

/// The right to build, remove or sweep one template. The system frees it when the process ends, however it does.
#[derive(Debug)]
pub(crate) struct Lock {
    folder: String,
    path: PathBuf,
    // Locked as long as it is open.
    _file: File,
}

impl Lock {
    /// Waits until the lock is free, or the work is called off.
    pub(crate) fn wait(
        place: &Path,
        folder: &str,
        attendant: &dyn Attend,
    ) -> Result<Self, TemplateError> {
        loop {
            if attendant.is_called_off() {
                return Err(TemplateError::CalledOff);
            }
            if let Some(lock) = Self::try_now(place, folder)? {
                return Ok(lock);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_now(place: &Path, folder: &str) -> Result<Option<Self>, TemplateError> {
        let path = place.join(format!("{folder}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)?;
        match file.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // Whoever had it may have removed the file meanwhile: then this lock is on a file that nobody else sees.
        let is_same = fs_err::metadata(&path)
            .is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()));
        Ok(is_same.then(|| Self {
            folder: folder.into(),
            path,
            _file: file,
        }))
    }

    /// Whether it is the lock of that template's folder.
    pub(crate) fn is_of(&self, folder: &str) -> bool {
        self.folder == folder
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is held: whoever waits for this file looks again. One that cannot be removed does no harm.
        let _ = fs_err::remove_file(&self.path);
    }
}

/// Removes a folder with everything in it. One that is not there is success.
pub(crate) fn remove_tree(path: &Path) -> Result<(), TemplateError> {
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes everything on a folder's file system last through a power cut.
pub(crate) fn sync_everything(path: &Path) -> Result<(), TemplateError> {
    let folder = File::open(path)?;
    Ok(rustix::fs::syncfs(folder.file()).map_err(std::io::Error::from)?)
}

#[cfg(test)]
mod tests {
    use mullion_plan::{News, Unattended};

    use super::*;

    #[test]
    fn one_holds_the_lock_and_the_next_gets_it_after_release() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::try_now(folder.path(), "a").unwrap().unwrap();
        assert!(Lock::try_now(folder.path(), "a").unwrap().is_none());
        assert!(Lock::try_now(folder.path(), "b").unwrap().is_some());
        drop(first);
        let second = Lock::wait(folder.path(), "a", &Unattended).unwrap();
        drop(second);
        assert!(!folder.path().join("a.lock").exists());
    }

    #[test]
    fn a_file_that_a_killed_holder_left_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("a.lock"), "").unwrap();
        assert!(Lock::try_now(folder.path(), "a").unwrap().is_some());
    }

    #[test]
    fn waiting_ends_when_it_is_called_off() {
        struct Off;
        impl Attend for Off {
            fn hear(&self, _news: News) {}
            fn is_called_off(&self) -> bool {
                true
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let _held = Lock::try_now(folder.path(), "a").unwrap().unwrap();
        assert!(matches!(
            Lock::wait(folder.path(), "a", &Off),
            Err(TemplateError::CalledOff)
        ));
    }
}
