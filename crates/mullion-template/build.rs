//! Tells the crate its own form: what its source says of a template's inside.
//!
//! A number in the source would have to be raised by hand with every unit and script that changes, and whoever forgot
//! it would test new code over an old template.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let mut files = Vec::new();
    gather(Path::new("src"), &mut files)?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    println!(
        "cargo::rustc-env=TEMPLATE_FORM={:.8}",
        format!("{:016x}", hasher.finish())
    );
    println!("cargo::rerun-if-changed=src");
    Ok(())
}

/// The names and contents of all files below a folder.
fn gather(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else {
            files.push((path.display().to_string(), fs_err::read(&path)?));
        }
    }
    Ok(())
}
