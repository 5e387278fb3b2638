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
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(folder(target))? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(fs_err::read).collect()
}
