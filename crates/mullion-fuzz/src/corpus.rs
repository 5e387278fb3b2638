//! The committed inputs: real documents, hostile ones, and what once failed.

use std::io;
use std::path::{Path, PathBuf};

/// The folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// The inputs of a target, by the order of their names.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    read_folder(&folder(target))
}

/// Copies the inputs of a target.
pub fn copy(target: &str, to: &Path) -> io::Result<()> {
    fs_err::create_dir_all(to)?;
    for entry in fs_err::read_dir(folder(target))? {
        let entry = entry?;
        fs_err::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The inputs in a folder, by the order of their names.
pub fn read_folder(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(fs_err::read).collect()
}
