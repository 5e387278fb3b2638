//! Removes a folder with all that is in it, and nothing that is only mounted in it.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::mounts;
use crate::error::DriverError;

/// Removes a file, or a folder with all that is in it. What is not there is success.
///
/// Where something is mounted in the folder, nothing is removed. No link is followed, and a mount that appears meanwhile
/// is not entered: the kernel refuses both.
pub(super) fn erase(path: &Path) -> Result<(), DriverError> {
    let meta = match fs_err::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if let Some(mount) = mounts::inside(path)? {
        return Err(DriverError::Mounted {
            folder: path.to_owned(),
            mount,
        });
    }
    if !meta.is_dir() {
        return Ok(fs_err::remove_file(path)?);
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(DriverError::Left(path.display().to_string()));
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let removed = rustix::fs::open(above, flags, Mode::empty()).and_then(|above| {
        empty(&enter(&above, name)?)?;
        rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR)
    });
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => {
            let cause = io::Error::from(error);
            let words = format!("cannot remove `{}`: {cause}", path.display());
            Err(io::Error::new(cause.kind(), words).into())
        }
    }
}

/// Opens a folder in another: itself, not what a link leads to or what is mounted there.
fn enter(above: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(above, name, flags, Mode::empty(), resolve)
}

fn empty(folder: &OwnedFd) -> rustix::io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if [&b"."[..], b".."].contains(&name.to_bytes()) {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Directory => true,
            // Not every file system tells.
            FileType::Unknown => {
                let meta = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(meta.st_mode) == FileType::Directory
            }
            _ => false,
        };
        let how = if is_folder {
            empty(&enter(folder, name)?)?;
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match rustix::fs::unlinkat(folder, name, how) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_links_and_not_with_what_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let machine = folder.path().join("machine");
        fs_err::create_dir_all(machine.join("a/b/c")).unwrap();
        fs_err::create_dir(&outside).unwrap();
        fs_err::write(outside.join("file"), "kept").unwrap();
        fs_err::write(machine.join("a/b/file"), "").unwrap();
        fs_err::os::unix::fs::symlink(&outside, machine.join("a/link")).unwrap();
        fs_err::os::unix::fs::symlink("/nowhere", machine.join("dangling")).unwrap();
        erase(&machine).unwrap();
        erase(&machine).unwrap();
        assert!(!machine.exists());
        // A folder that is itself a link is a link.
        fs_err::os::unix::fs::symlink(&outside, &machine).unwrap();
        erase(&machine).unwrap();
        assert!(fs_err::symlink_metadata(&machine).is_err());
        assert_eq!(
            fs_err::read_to_string(outside.join("file")).unwrap(),
            "kept"
        );
    }
}
