//! Names that say what is inside.

use std::collections::BTreeSet;

use crate::files::{Breach, File, line_of};

/// Words that tell a reader nothing about what a file holds.
const EMPTY_WORDS: &[&str] = &[
    "util",
    "utils",
    "utilities",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
];

/// No folder, file or module is named after nothing.
pub(crate) fn telling_names(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut told = BTreeSet::new();
    for file in files {
        let mut end = 0;
        for part in file.path.split('/') {
            end += part.len();
            // A folder is told once, however many files it holds.
            if let Some(word) = empty_word(part)
                && told.insert(&file.path[..end])
            {
                let path = file.path[..end].to_owned();
                breaches.push(Breach {
                    path,
                    line: 1,
                    what: format!("`{word}` does not say what is inside"),
                });
            }
            end += 1;
        }
        if file.is_rust() {
            breaches.extend(modules_in(file));
        }
    }
    breaches
}

/// Modules that are written inside a file; one with a file of its own is told by that file's name.
fn modules_in(file: &File) -> Vec<Breach> {
    file.tokens()
        .windows(3)
        .filter(|window| window[0].text == "mod" && window[2].text == "{")
        .filter_map(|window| {
            let word = empty_word(window[1].text)?;
            let line = line_of(&file.text, window[1].place);
            Some(Breach::new(
                file,
                line,
                format!("module: `{word}` does not say what is inside"),
            ))
        })
        .collect()
}

/// The empty word in a name, if it has one: `fs_utils.rs` has `utils`.
fn empty_word(name: &str) -> Option<&'static str> {
    let stem = name
        .split('.')
        .find(|part| !part.is_empty())
        .unwrap_or(name);
    EMPTY_WORDS
        .iter()
        .find(|word| {
            stem.split(['_', '-'])
                .any(|part| part.eq_ignore_ascii_case(word))
        })
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        telling_names(&[File::new(path, text)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn empty_names_are_found_in_folders_files_and_modules() {
        assert_eq!(
            told("crates/a/src/utils.rs", ""),
            ["crates/a/src/utils.rs:1: `utils` does not say what is inside"]
        );
        assert_eq!(
            told("crates/a/tests/common/mod.rs", ""),
            ["crates/a/tests/common:1: `common` does not say what is inside"]
        );
        assert_eq!(told("scripts/fs-helpers.sh", "").len(), 1);
        assert_eq!(
            told("crates/a/src/lib.rs", "mod plan {}\nmod misc {\n}\n"),
            ["crates/a/src/lib.rs:2: module: `misc` does not say what is inside"]
        );
    }

    #[test]
    fn a_folder_is_told_once() {
        let files = [
            File::new("src/manager/a.rs", ""),
            File::new("src/manager/b.rs", ""),
        ];
        assert_eq!(telling_names(&files).len(), 1);
    }

    #[test]
    fn telling_names_are_fine() {
        assert!(
            told(
                "crates/a/src/commonality.rs",
                "mod tests {}\n// mod utils {\n"
            )
            .is_empty()
        );
        assert!(told(".editorconfig", "").is_empty());
    }
}
