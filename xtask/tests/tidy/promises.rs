//! Promises: what Mullion keeps when it runs as root, each shown by a test that has its number.

use crate::files::{Breach, File};

/// What is promised, by number: root and files (1 to 3), the last control plane (4), `down --purge` (5), newer labels and
/// state (6), processes (7), the host's firewall and kernel (8), identity (9), digests (10), serving certificates (11),
/// what is shown (12), isolation (13).
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=13;

/// Where they are written for readers.
const PAGE: &str = "docs/security.md";

/// Where `cargo xtask test` looks for tests that are ignored unless they are asked for.
const ASKED: [&str; 4] = [
    "crates/mullion/tests/real/",
    "crates/mullion/tests/cli/",
    "crates/mullion-machines/tests/real/",
    "crates/mullion-artifacts/tests/real/",
];

/// A promise's test that is ignored lies where `cargo xtask test` runs it, so that it is not run with `--slow` alone.
pub(crate) fn asked_for(files: &[File]) -> Vec<Breach> {
    let strays = files
        .iter()
        .filter(|file| file.is_rust() && !file.path.starts_with("xtask/"))
        .filter(|file| !ASKED.iter().any(|folder| file.path.starts_with(folder)));
    strays
        .flat_map(|file| {
            let lines: Vec<_> = file.text.lines().map(str::trim).collect();
            let ignored = lines.iter().enumerate();
            let ignored = ignored.filter(|(_, line)| line.starts_with("#[ignore"));
            let promises = ignored.filter_map(|(at, _)| {
                let name = lines[at..].iter().find(|line| line.contains("fn "))?;
                name.contains("fn promise_").then_some((at, *name))
            });
            let promises = promises.map(|(at, name)| Breach {
                path: file.path.clone(),
                line: at + 1,
                what: format!(
                    "`cargo xtask test` does not run `{name}`: move it below `{}`",
                    ASKED[0]
                ),
            });
            promises.collect::<Vec<_>>()
        })
        .collect()
}

/// Every promise has a test that is named after it: `promise_04_…`.
pub(crate) fn tested(files: &[File]) -> Vec<Breach> {
    let breach = |number: u8| Breach {
        path: PAGE.into(),
        line: 1,
        what: format!("promise {number} has no test: no `fn promise_{number:02}_…` was found"),
    };
    let is_tested = |number: &u8| {
        let name = format!("fn promise_{number:02}_");
        files
            .iter()
            // This file names them without being one.
            .filter(|file| file.is_rust() && !file.path.starts_with("xtask/tests/tidy/"))
            .any(|file| file.text.contains(&name))
    };
    NUMBERS
        .filter(|number| !is_tested(number))
        .map(breach)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_promise_that_only_slow_runs_is_found() {
        let text = "#[test]\n#[ignore = \"needs root\"]\nfn promise_05_holds() {}\n";
        let told = asked_for(&[File::new("crates/mullion-kube/tests/live/main.rs", text)]);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].line, 2);
        let usual = File::new("crates/mullion/tests/real/purge.rs", text);
        let runs = text.replace("#[ignore = \"needs root\"]\n", "");
        assert!(asked_for(&[usual, File::new("crates/mullion-kube/src/x.rs", &runs)]).is_empty());
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let all = NUMBERS.map(|number| format!("#[test]\nfn promise_{number:02}_holds() {{}}\n"));
        let all = all.collect::<Vec<_>>().concat();
        let file = |text: &str| File::new("crates/mullion/src/x.rs", text);
        assert!(tested(&[file(&all)]).is_empty());
        let without = all.replace("promise_07_", "promise_7_");
        let told: Vec<_> = tested(&[file(&without)])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            ["docs/security.md:1: promise 7 has no test: no `fn promise_07_…` was found"]
        );
        let own = File::new("xtask/tests/tidy/x.rs", &all);
        assert_eq!(tested(&[own]).len(), 13);
    }
}
