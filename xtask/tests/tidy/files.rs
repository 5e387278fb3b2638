//! The files of the repository, and what a rule says about one of them.

use std::cell::OnceCell;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::process::Command;

use crate::rust::{Source, Token};

/// One file: its path from the repository's root, with `/` between folders, and its text.
///
/// The text of a file that is not UTF-8 is empty: only its name can be judged.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    source: OnceCell<Source>,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
            source: OnceCell::new(),
        }
    }

    /// The Rust source in this file: every rule uses what the first one read.
    pub(crate) fn source(&self) -> &Source {
        let read = || Source::new(&self.text);
        self.source
            .get_or_init(|| read().unwrap_or_else(|error| panic!("{}: {error}", self.path)))
    }

    /// The tokens of the Rust source in this file, test code included.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        self.source().tokens(&self.text)
    }

    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "rs")
    }

    /// The crate that the file belongs to: the folder below `crates`, or `xtask`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        match self.path.strip_prefix("crates/") {
            Some(rest) => rest.split_once('/').map(|(name, _)| name),
            None => self.path.starts_with("xtask/").then_some("xtask"),
        }
    }
}

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Breach {
    pub(crate) fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl Display for Breach {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Something that a rule lets pass, and why. One that lets nothing pass any more is itself a breach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exception {
    /// What is let pass; each rule says what it compares this with.
    pub(crate) subject: &'static str,
    pub(crate) reason: &'static str,
}

/// Breaches for exceptions that have no reason or are no longer needed.
pub(crate) fn stale(
    listed_in: &str,
    exceptions: &[Exception],
    is_used: impl Fn(&Exception) -> bool,
) -> Vec<Breach> {
    let breach = |exception: &Exception, what: &str| Breach {
        path: listed_in.into(),
        line: 1,
        what: format!("the exception for `{}` {what}", exception.subject),
    };
    let mut found = Vec::new();
    for exception in exceptions {
        if exception.reason.trim().is_empty() {
            found.push(breach(exception, "has no reason"));
        }
        if !is_used(exception) {
            found.push(breach(exception, "is no longer needed: remove it"));
        }
    }
    found
}

/// The breaches that no exception covers, and one for each exception that is not needed. Each is for a file.
pub(crate) fn with_exceptions(
    listed_in: &str,
    exceptions: &[Exception],
    found: Vec<Breach>,
) -> Vec<Breach> {
    let covers = |exception: &Exception, breach: &Breach| exception.subject == breach.path;
    let unneeded = stale(listed_in, exceptions, |exception| {
        found.iter().any(|breach| covers(exception, breach))
    });
    let is_bad = |breach: &Breach| !exceptions.iter().any(|it| covers(it, breach));
    found.into_iter().filter(is_bad).chain(unneeded).collect()
}

/// The line, counted from one, of a place in a text.
pub(crate) fn line_of(text: &str, place: usize) -> usize {
    1 + text[..place].matches('\n').count()
}

/// Every file that git tracks or would track; without git, every file outside `target` and `.git`.
pub(crate) fn of_repository(root: &Path) -> Vec<File> {
    let mut paths = listed_by_git(root).unwrap_or_else(|| walk(root));
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        // Git still lists a file that was deleted and not yet staged.
        .filter(|path| root.join(path).is_file())
        .map(|path| {
            let bytes = fs_err::read(root.join(&path)).expect("a listed file can be read");
            File::new(&path, &String::from_utf8(bytes).unwrap_or_default())
        })
        .collect()
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = text.split_terminator('\0').map(String::from).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).expect("a folder of the repository can be read") {
            let path = entry.expect("an entry can be read").path();
            let relative = path
                .strip_prefix(root)
                .expect("it was found below the root");
            let text = relative.to_string_lossy().replace('\\', "/");
            if path.is_dir() && !path.is_symlink() {
                if text != "target" && text != ".git" {
                    folders.push(path);
                }
            } else {
                paths.push(text);
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_folders_are_walked() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for (path, text) in [
            ("a/b.rs", "b".as_bytes()),
            ("target/c.rs", b"c"),
            ("d.bin", b"\xff"),
        ] {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        }
        let mut paths = walk(root);
        paths.sort();
        assert_eq!(paths, ["a/b.rs", "d.bin"]);
        let text_of = |name: &str| {
            let files = of_repository(root);
            files
                .into_iter()
                .find(|file| file.path == name)
                .map(|file| file.text)
        };
        assert_eq!(text_of("a/b.rs").as_deref(), Some("b"));
        assert_eq!(text_of("d.bin").as_deref(), Some(""), "not text");
    }

    #[test]
    fn a_file_knows_its_crate() {
        assert_eq!(
            File::new("crates/mullion-spec/src/lib.rs", "").crate_name(),
            Some("mullion-spec")
        );
        assert_eq!(
            File::new("xtask/src/lib.rs", "").crate_name(),
            Some("xtask")
        );
        assert_eq!(File::new("docs/architecture.md", "").crate_name(), None);
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_use() {
        let exceptions = [
            Exception {
                subject: "used",
                reason: "because",
            },
            Exception {
                subject: "bare",
                reason: " ",
            },
            Exception {
                subject: "old",
                reason: "because",
            },
        ];
        let found = stale("list.rs", &exceptions, |exception| {
            exception.subject != "old"
        });
        let told: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "list.rs:1: the exception for `bare` has no reason",
                "list.rs:1: the exception for `old` is no longer needed: remove it",
            ]
        );
    }
}
