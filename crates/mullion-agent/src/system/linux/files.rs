//! Files and folders of Linux.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use fs_err::os::unix::fs as unix;
use mullion_wire::Sha256Digest;

use super::super::pour::pour;
use super::super::{Files, Kind, Look, Owner, Removed, SystemError};
use super::{Linux, create, if_there};

/// The largest file that is read whole. Configurations and certificates are far below it.
const LARGEST: u64 = 4 * 1024 * 1024;

impl Files for Linux {
    fn look(&self, path: &str) -> Result<Option<Look>, SystemError> {
        let found = if_there(fs_err::symlink_metadata(self.real(path)))?;
        Ok(found.map(|found| {
            let kind = found.file_type();
            Look {
                kind: if kind.is_file() {
                    Kind::File
                } else if kind.is_dir() {
                    Kind::Folder
                } else if kind.is_symlink() {
                    Kind::Link
                } else {
                    Kind::Other
                },
                size: found.len(),
                mode: found.mode() & 0o7777,
                modified: found
                    .mtime()
                    .saturating_mul(1_000_000_000)
                    .saturating_add(found.mtime_nsec()),
                number: found.ino(),
                owner: if found.uid() == rustix::process::geteuid().as_raw() {
                    Owner::Agent
                } else {
                    Owner::Other
                },
            }
        }))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SystemError> {
        let path = self.real(path);
        let Some(file) = if_there(fs_err::File::open(&path))? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(SystemError::File)?;
        if bytes.len() as u64 > LARGEST {
            let words = format!("`{}` is larger than {LARGEST} bytes", path.display());
            return Err(SystemError::File(io::Error::other(words)));
        }
        Ok(Some(bytes))
    }

    fn digest(&self, path: &str) -> Result<Sha256Digest, SystemError> {
        let file = fs_err::File::open(self.real(path)).map_err(SystemError::File)?;
        let (digest, _) = Sha256Digest::of_reader(file).map_err(SystemError::File)?;
        Ok(digest)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, SystemError> {
        let Some(entries) = if_there(fs_err::read_dir(self.real(folder)))? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(SystemError::File)?;
            // A name that is no text was not made by anything that we know.
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn make_folder(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let path = self.real(path);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
        match builder.create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let words = format!("failed to create directory `{}`: {error}", path.display());
                return Err(SystemError::File(io::Error::new(error.kind(), words)));
            }
        }
        // The mask of the process may have taken something away.
        set_permissions(&path, mode)
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SystemError> {
        let path = self.real(path);
        let write = || -> io::Result<()> {
            let mut file = create(&path, mode)?;
            file.write_all(bytes)?;
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.sync_data()
        };
        write().map_err(SystemError::File)
    }

    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), SystemError> {
        let (from, to) = (self.real(from), self.real(to));
        let copy = || -> io::Result<()> {
            let source = fs_err::File::open(&from)?;
            let file = create(&to, mode)?;
            // Between two plain files the kernel copies by itself.
            io::copy(&mut source.file(), &mut file.file())?;
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.sync_data()
        };
        copy().map_err(SystemError::File)
    }

    fn pour(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let (from, to) = (self.real(from), self.real(to));
        let mut options = fs_err::OpenOptions::new();
        let source = options.read(true).write(true).open(from);
        let mut source = source.map_err(SystemError::File)?;
        let found = source.metadata().map_err(SystemError::File)?;
        let mut file = create(&to, 0o600).map_err(SystemError::File)?;
        let poured = file.set_permissions(found.permissions());
        let poured = poured.and_then(|()| pour(source.file_mut(), file.file_mut()));
        if poured.is_err() {
            // What is the matter is told; half of a file says less.
            let _ = fs_err::remove_file(&to);
        }
        poured.map_err(SystemError::File)
    }

    fn twin(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let (from, to) = (self.real(from), self.real(to));
        let twin = || -> io::Result<()> {
            let found = fs_err::symlink_metadata(&from)?;
            if found.file_type().is_symlink() {
                let target = fs_err::read_link(&from)?;
                match fs_err::remove_file(&to) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                return unix::symlink(target, &to);
            }
            let source = fs_err::File::open(&from)?;
            let file = create(&to, 0o600)?;
            io::copy(&mut source.file(), &mut file.file())?;
            // The owner first: changing it takes special bits from the mode.
            std::os::unix::fs::fchown(file.file(), Some(found.uid()), Some(found.gid()))?;
            file.set_permissions(found.permissions())?;
            let times = std::fs::FileTimes::new().set_modified(found.modified()?);
            file.file().set_times(times)?;
            file.sync_data()
        };
        twin().map_err(SystemError::File)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), SystemError> {
        fs_err::rename(self.real(from), self.real(to)).map_err(SystemError::File)
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let path = self.real(path);
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        unix::lchown(&path, Some(user), Some(group)).map_err(SystemError::File)?;
        set_permissions(&path, mode)
    }

    fn remove(&self, path: &str) -> Result<Removed, SystemError> {
        let path = self.real(path);
        let Some(found) = if_there(fs_err::symlink_metadata(&path))? else {
            return Ok(Removed::Nothing);
        };
        let removed = if found.is_dir() {
            fs_err::remove_dir_all(&path)
        } else {
            fs_err::remove_file(&path)
        };
        Ok(if_there(removed)?.map_or(Removed::Nothing, |()| Removed::Gone))
    }

    fn remove_empty(&self, folder: &str) -> Result<Removed, SystemError> {
        match fs_err::remove_dir(self.real(folder)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(Removed::Nothing),
            // Somebody mounted something there.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(Removed::Nothing),
            removed => Ok(if_there(removed)?.map_or(Removed::Nothing, |()| Removed::Gone)),
        }
    }
}

fn set_permissions(path: &std::path::Path, mode: u32) -> Result<(), SystemError> {
    let permissions = std::fs::Permissions::from_mode(mode);
    fs_err::set_permissions(path, permissions).map_err(SystemError::File)
}
