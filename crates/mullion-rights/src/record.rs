//! Reads small files of state: what is there and cannot be read is never taken for missing.

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;

/// No file of state is longer.
const LONGEST: u64 = 64 << 20;

/// The bytes of a file; nothing where nothing has that name.
///
/// A folder, a pipe, a device, a link that leads nowhere and a file that is too long are errors that name the file.
/// Opening never waits: a pipe is refused, whether someone writes into it or not.
pub fn read_record(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_record(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(wrong(path, "is too long"));
    }
    Ok(Some(bytes))
}

/// Opens a file to read it, as [`read_record`] does.
pub fn open_record(path: &Path) -> io::Result<Option<fs_err::File>> {
    let opened = fs_err::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs_err::symlink_metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
                Ok(_) => Err(wrong(path, "is a link that leads nowhere")),
            };
        }
        opened => opened?,
    };
    let meta = file.metadata()?;
    let kind = meta.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "is a folder"
        } else if kind.is_fifo() {
            "is a pipe"
        } else {
            "is not a regular file"
        };
        return Err(wrong(path, what));
    }
    Ok(Some(file))
}

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("`{}` {what}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn promise_06_what_is_there_and_cannot_be_read_is_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(read_record(&at("none")).unwrap(), None);
        fs_err::write(at("file"), "text").unwrap();
        assert_eq!(read_record(&at("file")).unwrap().unwrap(), b"text");
        fs_err::create_dir(at("folder")).unwrap();
        fs_err::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        fs_err::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let made = Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        for (name, why) in [
            ("folder", "is a folder"),
            ("dangling", "is a link that leads nowhere"),
            ("pipe", "is a pipe"),
            ("loop", "loop"),
        ] {
            let error = read_record(&at(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(why), "{error}");
        }
    }
}
