//! `cargo xtask gen`: reference files that are written by the code they describe.
//!
//! To add a file: write a function that gives its text, in a module below this one, and add a row to
//! [`generated`]. The function must be pure, so that the drift test finds every difference and only those.

use std::path::Path;

use crate::{XtaskError, tools};

/// One file that is written by code.
#[derive(Debug, Clone, Copy)]
pub struct Generated {
    /// Where it stands, from the repository's root, with `/` between folders.
    pub path: &'static str,
    /// Gives all of its text.
    pub render: fn() -> String,
}

/// Whether [`run`] writes or only compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bring every file up to date.
    Write,
    /// Write nothing, and fail when a file is not up to date.
    Check,
}

/// Every generated file of the repository.
pub fn generated() -> &'static [Generated] {
    &[]
}

/// Writes or compares every generated file.
pub fn run(mode: Mode) -> Result<(), XtaskError> {
    let root = tools::repository();
    let changed = drifted(&root, generated())?;
    match mode {
        Mode::Check if changed.is_empty() => {}
        Mode::Check => {
            return Err(XtaskError::Drift(
                changed.iter().map(|file| file.path).collect(),
            ));
        }
        Mode::Write => {
            for file in &changed {
                write(&root, file)?;
                println!("wrote {}", file.path);
            }
        }
    }
    println!(
        "{} generated files, {} were out of date",
        generated().len(),
        changed.len()
    );
    Ok(())
}

/// The files whose text on disk is not what their generator gives; a missing file is one of them.
pub fn drifted(root: &Path, files: &[Generated]) -> Result<Vec<Generated>, XtaskError> {
    let mut changed = Vec::new();
    for file in files {
        let path = root.join(file.path);
        let is_same = path.is_file() && fs_err::read(&path)? == (file.render)().into_bytes();
        if !is_same {
            changed.push(*file);
        }
    }
    Ok(changed)
}

fn write(root: &Path, file: &Generated) -> Result<(), XtaskError> {
    let path = root.join(file.path);
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(path, (file.render)())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[Generated] = &[
        Generated {
            path: "docs/reference/a.md",
            render: || "a\n".into(),
        },
        Generated {
            path: "b.json",
            render: || "{}\n".into(),
        },
    ];

    fn paths(files: &[Generated]) -> Vec<&str> {
        files.iter().map(|file| file.path).collect()
    }

    #[test]
    fn missing_and_edited_files_are_drift_until_they_are_written() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        assert_eq!(
            paths(&drifted(root, FILES).unwrap()),
            ["docs/reference/a.md", "b.json"]
        );
        for file in FILES {
            write(root, file).unwrap();
        }
        assert!(drifted(root, FILES).unwrap().is_empty());
        fs_err::write(root.join("b.json"), "{} \n").unwrap();
        assert_eq!(paths(&drifted(root, FILES).unwrap()), ["b.json"]);
    }

    #[test]
    fn no_two_rows_write_one_file() {
        let mut seen = std::collections::BTreeSet::new();
        for file in generated() {
            assert!(seen.insert(file.path), "`{}` is there twice", file.path);
        }
    }
}
