//! Files that one can hold in mind.

use crate::files::{Breach, File};

/// Above this a file needs a reason.
const MOST: usize = 700;

/// What to aim for. Longer files are named when another one is too long, and are no breach by themselves.
const AIM: usize = 500;

/// How a file states its reason, within its first lines.
const REASON: &str = "// tidy: long because ";
const FIRST_LINES: usize = 5;

/// No Rust file above 700 lines without a stated reason, and no reason without need.
pub(crate) fn short_files(files: &[File]) -> Vec<Breach> {
    let rust = || {
        files
            .iter()
            .filter(|file| file.is_rust())
            .map(|file| (file, file.text.lines().count()))
    };
    let mut breaches: Vec<_> = rust()
        .filter_map(|(file, length)| {
            let reason = stated_reason(&file.text);
            if length > MOST && reason.is_none_or(str::is_empty) {
                Some(Breach::new(
                    file,
                    length,
                    format!("has {length} lines and no `{REASON}…` at its top"),
                ))
            } else if length <= MOST && reason.is_some() {
                Some(Breach::new(
                    file,
                    1,
                    format!("has {length} lines: it needs no reason for being long"),
                ))
            } else {
                None
            }
        })
        .collect();
    if !breaches.is_empty() {
        let long = rust().filter(|(_, length)| (AIM + 1..=MOST).contains(length));
        breaches.extend(long.map(|(file, length)| {
            Breach::new(
                file,
                length,
                format!("has {length} lines: allowed, but the aim is {AIM}"),
            )
        }));
    }
    breaches
}

fn stated_reason(text: &str) -> Option<&str> {
    text.lines()
        .take(FIRST_LINES)
        .find_map(|line| line.strip_prefix(REASON.trim_end()))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, first: &str, lines: usize) -> File {
        File::new(path, &format!("{first}\n{}", "x\n".repeat(lines - 1)))
    }

    fn told(files: &[File]) -> Vec<String> {
        short_files(files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        assert!(told(&[file("a.rs", "", 700)]).is_empty());
        assert_eq!(
            told(&[file("a.rs", "", 701)]),
            ["a.rs:701: has 701 lines and no `// tidy: long because …` at its top"]
        );
        assert!(told(&[file("a.rs", "// tidy: long because it is one table", 701)]).is_empty());
        assert_eq!(
            told(&[file("a.rs", "// tidy: long because ", 701)]).len(),
            1
        );
        assert!(told(&[file("a.md", "", 2000)]).is_empty());
    }

    #[test]
    fn a_reason_that_is_not_needed_is_found() {
        let told = told(&[file("a.rs", "// tidy: long because it is one table", 40)]);
        assert_eq!(
            told,
            ["a.rs:1: has 40 lines: it needs no reason for being long"]
        );
    }

    #[test]
    fn files_near_the_limit_are_named_only_beside_one_above_it() {
        assert!(told(&[file("b.rs", "", 600)]).is_empty());
        assert_eq!(
            told(&[
                file("a.rs", "", 701),
                file("b.rs", "", 600),
                file("c.rs", "", 500)
            ])[1..],
            ["b.rs:600: has 600 lines: allowed, but the aim is 500"]
        );
    }
}
