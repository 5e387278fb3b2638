//! Files that were opened with the invoking user's rights, and are read from then on by what was opened.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::{as_default, as_invoker};

/// A regular file, open for reading. Whatever its path leads to later, this stays the file that was opened.
#[derive(Debug, Clone)]
pub struct Opened {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
}

impl Opened {
    /// Opens a file that the cluster file or the user names, with the invoking user's rights.
    ///
    /// Pipes, devices and folders are refused, and nothing waits for them.
    pub fn by_invoker(path: impl Into<PathBuf>) -> io::Result<Self> {
        let _rights = as_invoker();
        Self::open(path.into())
    }

    /// Opens a file of ours, such as one of the cache, with the rights that threads have by default.
    pub fn by_default(path: impl Into<PathBuf>) -> io::Result<Self> {
        let _rights = as_default();
        Self::open(path.into())
    }

    /// Opens a file with the rights that this thread has.
    pub fn by_thread(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::open(path.into())
    }

    fn open(path: PathBuf) -> io::Result<Self> {
        // Opening a pipe or a device may wait, or change something: it is looked at first, by a descriptor that does
        // neither, and that descriptor leads to the same file again.
        let found = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let status = fstat(&found)?;
        let kind = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => None,
            FileType::Directory => Some("a folder"),
            FileType::Fifo => Some("a pipe"),
            FileType::Socket => Some("a socket"),
            _ => Some("a device"),
        };
        if let Some(kind) = kind {
            return Err(io::Error::other(format!("it is {kind}, not a file")));
        }
        let same = format!("/proc/self/fd/{}", found.as_raw_fd());
        let file = open(same, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            path,
            file: Arc::new(file.into()),
            size: u64::try_from(status.st_size).unwrap_or_default(),
        })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A path that leads to what was opened as long as this value lives, also for a program that root starts.
    pub fn address(&self) -> PathBuf {
        let (process, number) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{process}/fd/{number}").into()
    }

    /// Refuses a file that somebody else wrote, or may write or read: only the invoking user, or root, may have it.
    pub fn private(&self) -> io::Result<()> {
        let status = fstat(&*self.file)?;
        let own = crate::invoker().map_or_else(
            || rustix::process::geteuid().as_raw(),
            |invoker| invoker.user,
        );
        if status.st_uid != own && status.st_uid != 0 {
            let words = format!("user {} owns it, and not you", status.st_uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        if status.st_mode & 0o077 != 0 {
            let words = format!(
                "others may use it (its mode is {:o}, and 600 is needed)",
                status.st_mode & 0o777
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        Ok(())
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> impl Read + use<> {
        Reader {
            file: Arc::clone(&self.file),
            at: 0,
        }
    }

    /// All of it; one of more than `limit` bytes is refused.
    pub fn bytes(&self, limit: u64) -> io::Result<Vec<u8>> {
        self.at_most(limit)?;
        let mut bytes = Vec::new();
        // It may have grown since it was opened.
        self.reader().take(limit + 1).read_to_end(&mut bytes)?;
        match u64::try_from(bytes.len()) {
            Ok(read) if read <= limit => Ok(bytes),
            _ => Err(too_large(&format!("more than {limit}"), limit)),
        }
    }

    /// Refuses a file that had more than `limit` bytes when it was opened.
    pub fn at_most(&self, limit: u64) -> io::Result<()> {
        if self.size <= limit {
            return Ok(());
        }
        Err(too_large(&self.size.to_string(), limit))
    }

    /// All of it as text; one of more than `limit` bytes is refused.
    pub fn text(&self, limit: u64) -> io::Result<String> {
        String::from_utf8(self.bytes(limit)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }
}

fn too_large(size: &str, limit: u64) -> io::Error {
    let words = format!("it has {size} bytes, and at most {limit} are read");
    io::Error::new(io::ErrorKind::FileTooLarge, words)
}

/// Reads without moving the offset that all users of one descriptor share.
struct Reader {
    file: Arc<File>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_02_what_was_opened_is_read_whatever_the_path_leads_to_later() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        fs_err::write(&file, "first").unwrap();
        let opened = Opened::by_invoker(&file).unwrap();
        fs_err::write(&other, "second").unwrap();
        fs_err::rename(&other, &file).unwrap();
        assert_eq!(opened.text(10).unwrap(), "first");
        assert_eq!(
            opened.text(10).unwrap(),
            "first",
            "from its beginning again"
        );
        assert_eq!(fs_err::read_to_string(opened.address()).unwrap(), "first");
        assert_eq!((opened.size(), opened.path()), (5, file.as_path()));
        let error = opened.text(4).unwrap_err();
        let told = "it has 5 bytes, and at most 4 are read";
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn promise_02_a_file_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = fs_err::File::create(&path).unwrap();
        file.set_len(20 << 30).unwrap();
        let opened = Opened::by_invoker(&path).unwrap();
        let begun = std::time::Instant::now();
        for refused in [opened.bytes(10).map(drop), opened.at_most(20 << 20)] {
            let told = refused.unwrap_err().to_string();
            assert!(told.starts_with("it has 21474836480 bytes"), "{told}");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
        opened.at_most(20 << 30).unwrap();
        // One that grows after it was opened.
        file.set_len(1).unwrap();
        let opened = Opened::by_invoker(&path).unwrap();
        file.set_len(20).unwrap();
        let told = opened.bytes(10).unwrap_err().to_string();
        assert!(told.contains("more than 10 bytes"), "{told}");
    }

    #[test]
    fn promise_02_pipes_devices_and_folders_are_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let kind = FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, Mode::RUSR, 0).unwrap();
        for (path, word) in [
            (pipe.as_path(), "a pipe"),
            (folder.path(), "a folder"),
            (Path::new("/dev/null"), "a device"),
        ] {
            let error = Opened::by_invoker(path).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        let missing = Opened::by_invoker(folder.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
