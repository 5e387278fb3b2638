//! Removes files and folders by descriptor: no link is followed, and no other file system is entered.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A folder that is held open, and the path by which messages name it.
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Something in a folder.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) is_folder: bool,
    pub(super) is_file: bool,
}

impl Folder {
    /// Opens a folder by its path; none where there is none.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self {
                fd,
                path: path.to_owned(),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder in this one; none where it is a link, another file system's, no folder, or not there.
    pub(super) fn enter(&self, name: &str) -> io::Result<Option<Self>> {
        Ok(enter(self.fd.as_fd(), OsStr::new(name))?.map(|fd| Self {
            fd,
            path: self.path.join(name),
        }))
    }

    /// What is in it, sorted.
    pub(super) fn list(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for name in names(self.fd.as_fd())? {
            let Ok(seen) = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let kind = FileType::from_raw_mode(seen.st_mode);
            found.push(Found {
                name: name.to_string_lossy().into_owned(),
                is_folder: kind == FileType::Directory,
                is_file: kind == FileType::RegularFile,
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Where something in it is, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes something in it, with everything below. What lies on another file system is added to `stays`.
    pub(super) fn remove(&self, name: &str, stays: &mut Vec<PathBuf>) -> io::Result<()> {
        let path = self.path.join(name);
        remove(self.fd.as_fd(), OsStr::new(name), &path, stays)
    }

    /// Removes a folder in it that is empty; one that is not stays.
    pub(super) fn remove_empty(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }
}

fn enter(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(above, name, flags, Mode::empty(), within) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<std::ffi::CString>> {
    let is_self = |name: &CStr| matches!(name.to_bytes(), b"." | b"..");
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !is_self(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn remove(
    above: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    stays: &mut Vec<PathBuf>,
) -> io::Result<()> {
    match rustix::fs::unlinkat(above, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // A folder; which of the two it is depends on the file system.
        Err(Errno::ISDIR | Errno::PERM) => {}
        // Something is mounted on it.
        Err(Errno::BUSY) => {
            stays.push(path.to_owned());
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let Some(folder) = enter(above, name)? else {
        stays.push(path.to_owned());
        return Ok(());
    };
    // Go makes folders of modules that nobody may write to.
    let _ = rustix::fs::fchmod(&folder, Mode::RWXU);
    for inner in names(folder.as_fd())? {
        let inner = OsStr::from_bytes(inner.to_bytes());
        remove(folder.as_fd(), inner, &path.join(inner), stays)?;
    }
    match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
        // What keeps it full is among what stays.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(Errno::BUSY) => {
            stays.push(path.to_owned());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
