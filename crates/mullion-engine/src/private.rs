//! Folders and files of a run, which only their owner can read.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;

/// Makes a folder that was not there.
pub(crate) fn new_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Makes a file that was not there, to be added to.
pub(crate) fn new_private_file(path: &Path) -> io::Result<fs_err::File> {
    let mut options = fs_err::OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}
