//! `cargo xtask gen`: reference files that are written by the code they describe.
//!
//! To add a file: write a function that gives its text, in a module below this one, and add a row to
//! [`generated`]. The function must be pure, so that the drift test finds every difference and only those.

mod commands;
mod environment;
mod errors;
mod fields;

use std::path::Path;

use crate::{XtaskError, tools};

/// One file that is written by code.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Where it stands, from the repository's root, with `/` between folders.
    pub path: String,
    /// All of its text.
    pub text: String,
}

impl Generated {
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }
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
pub fn generated() -> Vec<Generated> {
    let reference = |name: &str| format!("docs/reference/{name}");
    let mut files = vec![
        Generated::new(
            reference("cluster.yaml"),
            mullion_spec::reference::reference(),
        ),
        Generated::new(
            reference("cluster.schema.json"),
            json(&mullion_spec::schema()),
        ),
        Generated::new(
            reference("facts.schema.json"),
            json(&mullion_plan::facts_schema()),
        ),
        Generated::new(reference("errors.md"), errors::render()),
        Generated::new(reference("fields.md"), fields::render()),
        Generated::new(reference("environment.md"), environment::render()),
        Generated::new(reference("cli.md"), commands::reference()),
    ];
    for (kind, schema) in mullion::views::schemas::all() {
        let path = reference(&format!("json/{}.schema.json", kind.to_lowercase()));
        files.push(Generated::new(path, json(&schema)));
    }
    for (name, page) in commands::manual() {
        files.push(Generated::new(reference(&format!("man/{name}.1")), page));
    }
    files
}

fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Writes or compares every generated file.
pub fn run(mode: Mode) -> Result<(), XtaskError> {
    let root = tools::repository();
    let files = generated();
    let changed = drifted(&root, &files)?;
    match mode {
        Mode::Check if changed.is_empty() => {}
        Mode::Check => {
            return Err(XtaskError::Drift(
                changed.iter().map(|file| file.path.clone()).collect(),
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
        files.len(),
        changed.len()
    );
    Ok(())
}

/// The files whose text on disk is not what their generator gives; a missing file is one of them.
pub fn drifted<'a>(root: &Path, files: &'a [Generated]) -> Result<Vec<&'a Generated>, XtaskError> {
    let mut changed = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        let is_same = path.is_file() && fs_err::read(&path)? == file.text.as_bytes();
        if !is_same {
            changed.push(file);
        }
    }
    Ok(changed)
}

fn write(root: &Path, file: &Generated) -> Result<(), XtaskError> {
    let path = root.join(&file.path);
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(path, &file.text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths<'a>(files: &[&'a Generated]) -> Vec<&'a str> {
        files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn missing_and_edited_files_are_drift_until_they_are_written() {
        let files = [
            Generated::new("docs/reference/a.md", "a\n"),
            Generated::new("b.json", "{}\n"),
        ];
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        assert_eq!(
            paths(&drifted(root, &files).unwrap()),
            ["docs/reference/a.md", "b.json"]
        );
        for file in &files {
            write(root, file).unwrap();
        }
        assert!(drifted(root, &files).unwrap().is_empty());
        fs_err::write(root.join("b.json"), "{} \n").unwrap();
        assert_eq!(paths(&drifted(root, &files).unwrap()), ["b.json"]);
    }

    #[test]
    fn no_two_rows_write_one_file() {
        let mut seen = std::collections::BTreeSet::new();
        for file in generated() {
            assert!(!file.text.is_empty(), "`{}` is empty", file.path);
            assert!(
                seen.insert(file.path.clone()),
                "`{}` is there twice",
                file.path
            );
        }
    }
}
