//! A crate's documentation ends with what the crate does not do yet.

use std::collections::BTreeMap;

use crate::files::{Breach, File};

const HEADING: &str = "# Current limitations";

/// The last heading of a crate's documentation is "Current limitations", and text follows it.
pub(crate) fn limitations(files: &[File]) -> Vec<Breach> {
    let mut roots: BTreeMap<&str, &File> = BTreeMap::new();
    for file in files {
        let Some(name) = file.crate_name() else {
            continue;
        };
        let folder = if name == "xtask" {
            name.to_owned()
        } else {
            format!("crates/{name}")
        };
        let is = |end: &str| file.path == format!("{folder}/src/{end}");
        // A crate that is a library and a program documents the library.
        if is("lib.rs") || (is("main.rs") && !roots.contains_key(name)) {
            roots.insert(name, file);
        }
    }
    roots
        .values()
        .filter_map(|file| limitation_breach(file))
        .collect()
}

fn limitation_breach(file: &File) -> Option<Breach> {
    // Fenced examples may hold lines that look like headings.
    let mut is_fenced = false;
    let mut last_heading = None;
    let mut has_text = false;
    let mut last_line = 1;
    for (index, line) in file.text.lines().enumerate() {
        let Some(text) = line.strip_prefix("//!").map(str::trim) else {
            if line.trim().is_empty() || line.starts_with("//") {
                continue;
            }
            break;
        };
        last_line = index + 1;
        if text.starts_with("```") {
            is_fenced = !is_fenced;
        } else if text.starts_with('#') && !is_fenced {
            last_heading = Some(text);
            has_text = false;
            continue;
        }
        has_text |= !text.is_empty();
    }
    let what = match last_heading {
        Some(HEADING) if has_text => return None,
        Some(HEADING) => format!("nothing stands below `{HEADING}`"),
        _ => format!("the crate's documentation does not end with `{HEADING}`"),
    };
    Some(Breach::new(file, last_line, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[File]) -> Vec<String> {
        limitations(files).iter().map(ToString::to_string).collect()
    }

    fn of(text: &str) -> Vec<String> {
        told(&[File::new("crates/mullion-spec/src/lib.rs", text)])
    }

    #[test]
    fn the_heading_must_be_there_last_and_followed_by_text() {
        assert!(
            of("//! Does x.\n//!\n//! # Current limitations\n//!\n//! Not y.\n\npub mod a;\n")
                .is_empty()
        );
        let absent = [
            "crates/mullion-spec/src/lib.rs:1: the crate's documentation does not end with `# Current limitations`",
        ];
        assert_eq!(of("//! Does x.\npub mod a;\n"), absent);
        assert_eq!(of(""), absent);
        assert_eq!(
            of("//! # Current limitations\n//! Not y.\n//! # Then\n//! z\n").len(),
            1
        );
        assert_eq!(
            of("//! # Current limitations\n//!\npub mod a;\n"),
            ["crates/mullion-spec/src/lib.rs:2: nothing stands below `# Current limitations`"]
        );
        assert_eq!(
            of("//! a\npub mod b;\n//! # Current limitations\n//! c\n").len(),
            1,
            "not at the top"
        );
    }

    #[test]
    fn an_example_holds_no_heading() {
        assert!(
            of("//! # Current limitations\n//! a\n//! ```\n//! # hidden();\n//! ```\n").is_empty()
        );
    }

    #[test]
    fn the_library_speaks_for_a_crate_that_has_one() {
        let good = "//! # Current limitations\n//! a\n";
        let library = File::new("crates/mullion/src/lib.rs", good);
        let program = File::new("crates/mullion/src/main.rs", "//! The program.\n");
        assert!(told(&[library.clone(), program.clone()]).is_empty());
        assert!(told(&[program.clone(), library]).is_empty());
        assert_eq!(told(&[program]).len(), 1);
        assert_eq!(told(&[File::new("xtask/src/main.rs", "")]).len(), 1);
        assert!(told(&[File::new("crates/mullion/src/plan/lib.rs", "")]).is_empty());
    }
}
