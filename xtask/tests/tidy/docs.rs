//! Documents name only what exists.

use std::path::Path;

use crate::crates::TABLE;
use crate::files::{Breach, Exception, File, stale};

/// Tokens that look like paths of the repository and are something else.
const EXCEPTIONS: &[Exception] = &[Exception {
    subject: "cluster.yaml",
    reason: "the file that a user writes, in a folder of their own",
}];

const LISTED_IN: &str = "xtask/tests/tidy/docs.rs";

const ENDINGS: &[&str] = &["rs", "md", "toml", "yaml", "json"];

/// Every back-ticked path in the README, CONTRIBUTING and `docs` exists.
pub(crate) fn paths_exist(files: &[File]) -> Vec<Breach> {
    with_exceptions(files, EXCEPTIONS)
}

fn with_exceptions(files: &[File], exceptions: &[Exception]) -> Vec<Breach> {
    let found: Vec<_> = documents(files)
        .flat_map(|file| {
            ticked(&file.text)
                .into_iter()
                .map(move |(line, token)| (file, line, token))
        })
        .filter(|(_, _, token)| is_path(token) && !exists(files, token))
        .collect();
    let mut breaches: Vec<_> = found
        .iter()
        .filter(|(_, _, token)| {
            exceptions
                .iter()
                .all(|exception| exception.subject != *token)
        })
        .map(|(file, line, token)| Breach::new(file, *line, format!("`{token}` does not exist")))
        .collect();
    breaches.extend(stale(LISTED_IN, exceptions, |exception| {
        found
            .iter()
            .any(|(_, _, token)| *token == exception.subject)
    }));
    breaches
}

/// Every back-ticked crate name in the same documents is in the table.
pub(crate) fn crates_exist(files: &[File]) -> Vec<Breach> {
    let is_crate = |token: &str| {
        token.starts_with("mullion-")
            && token
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-')
    };
    documents(files)
        .flat_map(|file| {
            ticked(&file.text)
                .into_iter()
                .map(move |(line, token)| (file, line, token))
        })
        .filter(|(_, _, token)| is_crate(token) && !TABLE.contains(token))
        .map(|(file, line, token)| {
            Breach::new(
                file,
                line,
                format!("`{token}` is not in the table of crates"),
            )
        })
        .collect()
}

fn documents(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| {
        let is_page = Path::new(&file.path)
            .extension()
            .is_some_and(|extension| extension == "md");
        matches!(file.path.as_str(), "README.md" | "CONTRIBUTING.md")
            || (file.path.starts_with("docs/") && is_page)
    })
}

/// The back-ticked tokens of a page, with their lines. Fenced blocks hold examples and are left out.
fn ticked(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let inside = line.split('`').skip(1).step_by(2);
            found.extend(inside.map(|token| (index + 1, token)));
        }
    }
    found
}

/// Whether a back-ticked token is meant as a path of the repository.
fn is_path(token: &str) -> bool {
    let foreign_start = ["/", "~", "./", "../", "C:", "-", "target/"];
    let foreign_sign =
        |letter: char| letter.is_whitespace() || "<>*{}$=\"()|[]…,:\\%@&".contains(letter);
    if foreign_start.iter().any(|start| token.starts_with(start)) || token.contains(foreign_sign) {
        return false;
    }
    let first = token.split('/').next().unwrap_or(token);
    let has_ending = Path::new(token)
        .extension()
        .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    if has_ending {
        // An ending by itself is no file.
        return !token.starts_with('.') || token.contains('/');
    }
    token.contains('/') && !is_domain(first) && !is_network(token)
}

/// `kubernetes.io`, the first part of `kubernetes.io/os`.
fn is_domain(text: &str) -> bool {
    text.split_once('.').is_some_and(|(name, rest)| {
        !name.is_empty()
            && rest
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter))
    })
}

/// `10.244.0.0/16`
fn is_network(token: &str) -> bool {
    token.split_once('/').is_some_and(|(address, length)| {
        address.parse::<std::net::IpAddr>().is_ok() && length.parse::<u8>().is_ok()
    })
}

fn exists(files: &[File], token: &str) -> bool {
    let path = token.trim_end_matches('/');
    files.iter().any(|file| {
        file.path
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(breaches: &[Breach]) -> Vec<String> {
        breaches.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let files = [
            File::new(
                "README.md",
                "See `docs/architecture.md`,\n`xtask/` and `deny.toml`.\n",
            ),
            File::new("docs/architecture.md", "`crates/gone/src` and `gone.rs`\n"),
            File::new("xtask/src/lib.rs", ""),
            File::new("notes.md", "`nowhere.md`"),
        ];
        assert_eq!(
            told(&with_exceptions(&files, &[])),
            [
                "README.md:2: `deny.toml` does not exist",
                "docs/architecture.md:1: `crates/gone/src` does not exist",
                "docs/architecture.md:1: `gone.rs` does not exist",
            ]
        );
    }

    #[test]
    fn a_part_of_a_name_is_not_a_folder() {
        let files = [
            File::new("README.md", "`docs/arch`"),
            File::new("docs/architecture.md", ""),
        ];
        assert_eq!(with_exceptions(&files, &[]).len(), 1);
    }

    #[test]
    fn what_is_no_path_is_left_alone() {
        for token in [
            "mullion plan",
            "https://kubernetes.io/docs",
            "/etc/kubernetes",
            "~/.cargo/bin",
            "./cluster.yaml",
            "C:/k",
            "crates/<name>/src",
            "crates/*",
            "kubernetes.io/os",
            "node-role.kubernetes.io/control-plane",
            "mullion.dev/v1alpha1",
            "10.244.0.0/16",
            "--out",
            "target/release/mullion",
            ".json",
            "E0101",
        ] {
            assert!(!is_path(token), "{token}");
        }
        for token in [
            "xtask/",
            "deny.toml",
            ".cargo/config.toml",
            ".ci/run",
            "crates/mullion-spec",
            "a/b.rs",
        ] {
            assert!(is_path(token), "{token}");
        }
    }

    #[test]
    fn fenced_examples_are_not_read() {
        let text = "`a.rs`\n```sh\n`b.rs`\n```\n`c.rs` and `d.rs`\n";
        assert_eq!(ticked(text), [(1, "a.rs"), (5, "c.rs"), (5, "d.rs")]);
    }

    #[test]
    fn an_exception_covers_its_token_and_must_be_needed() {
        let files = [File::new("README.md", "`cluster.yaml` and `other.yaml`")];
        let exceptions = ["cluster.yaml", "old.yaml"].map(|subject| Exception {
            subject,
            reason: "the user's",
        });
        assert_eq!(
            told(&with_exceptions(&files, &exceptions)),
            [
                "README.md:1: `other.yaml` does not exist",
                "xtask/tests/tidy/docs.rs:1: the exception for `old.yaml` is no longer needed: remove it",
            ]
        );
    }

    #[test]
    fn a_crate_that_is_neither_there_nor_coming_is_found() {
        let text = "`mullion-spec`, `mullion-kube`, `mullion-agent.exe`,\n`mullion-extra`";
        assert_eq!(
            told(&crates_exist(&[File::new("docs/a.md", text)])),
            ["docs/a.md:2: `mullion-extra` is not in the table of crates"]
        );
    }
}
