//! A root file system that is being made, reached through one descriptor.
//!
//! A distribution's files hold links, and an archive from elsewhere may hold any. A path that this process resolves by
//! itself would follow them on this computer: `etc -> /` would make `etc/hosts` the computer's own. Here every path
//! resolves as it does inside the machine (`openat2` with `RESOLVE_IN_ROOT`), so that nothing outside is ever reached.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timestamps, Uid};
use rustix::io::Errno;

/// A root file system that is being made.
#[derive(Debug)]
pub(crate) struct Tree {
    fd: OwnedFd,
    path: PathBuf,
}

/// Who owns something, what may be done with it, and when it was last changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) mode: u32,
    /// User and group, where they are to be set.
    pub(crate) owner: Option<(u32, u32)>,
    /// In seconds since 1970.
    pub(crate) modified: i64,
}

impl Tree {
    /// The tree in a folder.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = fs_err::canonicalize(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { fd, path })
    }

    /// The folder itself, as this computer names it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        Ok(rustix::fs::openat2(
            &self.fd,
            path,
            flags,
            Mode::empty(),
            within,
        )?)
    }

    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Makes a folder and those around it; one that is there, by a link too, is taken.
    pub(crate) fn make_folder(&self, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
        let path = inner(path.as_ref())?;
        match self.folder(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            folder => return folder,
        }
        let (above, name) = (path.parent(), path.file_name());
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        let above = self.make_folder(above.unwrap_or(Path::new("")))?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.folder(&path)
    }

    /// The folder that a path is in, made where it is not there, and the last name.
    fn place(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let path = inner(path)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = self.make_folder(path.parent().unwrap_or(Path::new("")))?;
        Ok((above, PathBuf::from(name)))
    }

    /// Makes a file that nobody else has open; what was there, a link too, is replaced.
    pub(crate) fn create(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (above, name) = self.place(path.as_ref())?;
        unlink(above.as_fd(), &name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&above, &name, flags, Mode::from_raw_mode(0o600))?;
        let file = File::from(fd);
        set_mode(file.as_fd(), mode)?;
        Ok(file)
    }

    /// Writes a file.
    pub(crate) fn write(
        &self,
        path: impl AsRef<Path>,
        bytes: impl AsRef<[u8]>,
        mode: u32,
    ) -> io::Result<()> {
        self.create(path, mode)?.write_all(bytes.as_ref())
    }

    /// Adds to the end of a file.
    pub(crate) fn append(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        let path = path.as_ref();
        match self.resolve(path, OFlags::WRONLY | OFlags::APPEND) {
            Ok(fd) => File::from(fd).write_all(text.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write(path, text, 0o644),
            Err(error) => Err(error),
        }
    }

    /// Opens a file to read it.
    pub(crate) fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let fd = self.resolve(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK)?;
        let file = File::from(fd);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file"));
        }
        Ok(file)
    }

    /// Reads a file.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Makes a link; what was there is replaced.
    pub(crate) fn link(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<()> {
        let (above, name) = self.place(path.as_ref())?;
        unlink(above.as_fd(), &name)?;
        Ok(rustix::fs::symlinkat(target.as_ref(), &above, &name)?)
    }

    /// Gives a file of the tree a second name.
    pub(crate) fn hard_link(&self, existing: &Path, path: &Path) -> io::Result<()> {
        let existing = inner(existing)?;
        let old = existing.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let old_above = self.folder(existing.parent().unwrap_or(Path::new("")))?;
        let (above, name) = self.place(path)?;
        unlink(above.as_fd(), &name)?;
        Ok(rustix::fs::linkat(
            &old_above,
            old,
            &above,
            &name,
            AtFlags::empty(),
        )?)
    }

    /// Whether there is something of that name, be it a link to nothing.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        self.resolve(path.as_ref(), flags).is_ok()
    }

    /// Whether a path leads to a file.
    pub(crate) fn has_file(&self, path: impl AsRef<Path>) -> bool {
        self.open_file(path).is_ok()
    }

    /// Where a path of the tree leads, as this computer names it.
    pub(crate) fn real(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd as _;
        let fd = self.resolve(path.as_ref(), OFlags::PATH)?;
        let real = fs_err::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if real.starts_with(&self.path) {
            Ok(real)
        } else {
            Err(io::Error::other("it was moved out of the tree"))
        }
    }

    /// The names in a folder, sorted; none where it is not there.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let folder = match self.folder(path.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder?,
        };
        let names = entries(folder.as_fd())?.into_iter();
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Removes something with everything below it; what is not there is removed already. No link is followed.
    pub(crate) fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = inner(path.as_ref())?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        match self.folder(path.parent().unwrap_or(Path::new(""))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            above => remove(above?.as_fd(), name),
        }
    }

    /// Sets what may be done with something.
    pub(crate) fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let fd = self.resolve(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK)?;
        set_mode(fd.as_fd(), mode)
    }

    /// Sets the traits of what a path leads to.
    pub(crate) fn set_traits(&self, path: &Path, traits: Traits) -> io::Result<()> {
        let fd = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        apply(fd.as_fd(), traits)
    }

    /// Sets the owner and the time of a link.
    pub(crate) fn set_link_traits(&self, path: &Path, traits: Traits) -> io::Result<()> {
        let (above, name) = self.place(path)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        if let Some((user, group)) = traits.owner {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            rustix::fs::chownat(&above, &name, Some(user), Some(group), flags)?;
        }
        Ok(rustix::fs::utimensat(
            &above,
            &name,
            &times(traits.modified),
            flags,
        )?)
    }
}

/// Sets the traits of an open file or folder.
pub(crate) fn apply(fd: BorrowedFd<'_>, traits: Traits) -> io::Result<()> {
    if let Some((user, group)) = traits.owner {
        rustix::fs::fchown(fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    // After the owner: a new owner takes the right to run as the owner away.
    set_mode(fd, traits.mode)?;
    Ok(rustix::fs::futimens(fd, &times(traits.modified))?)
}

fn times(modified: i64) -> Timestamps {
    let time = rustix::fs::Timespec {
        tv_sec: modified,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o7777))?)
}

/// A path below the root; one that goes up is refused, since no honest archive has any.
fn inner(path: &Path) -> io::Result<PathBuf> {
    let mut inner = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                let words = format!("`{}` leads out of the root file system", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
        }
    }
    Ok(inner)
}

fn unlink(above: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(above, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn entries(folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn remove(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let found = match rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(above, name, AtFlags::empty())?);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(above, name, flags, Mode::empty())?;
    for inner in entries(folder.as_fd())? {
        remove(folder.as_fd(), OsStr::from_bytes(inner.to_bytes()))?;
    }
    Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?)
}
