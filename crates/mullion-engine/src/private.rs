//! Files and folders that nobody but their owner can read.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;

/// Makes a folder and those above it, where they are missing.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// Makes a folder that was not there.
pub(crate) fn new_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Makes a file that was not there, to be added to.
pub(crate) fn new_private_file(path: &Path) -> io::Result<fs_err::File> {
    let mut options = fs_err::OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}

/// Comes back when the names in a folder have reached the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs_err::File::open(folder)?.sync_all()
}

/// Puts a file in another's place: its readers see all of the old text or all of the new.
pub(crate) fn replace(target: &Path, text: &str) -> io::Result<()> {
    let mut beside = target.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    let write = || {
        let mut options = fs_err::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs_err::rename(beside, target)
    };
    let written = write();
    if written.is_err() {
        // What is left of it is nobody's; that it may not even exist is no second failure.
        let _ = fs_err::remove_file(beside);
    }
    written
}
