//! Promises: what Mullion keeps when it runs as root, each shown by a test that has its number.

use crate::files::{Breach, File};

/// What is promised, by number: root and files (1 to 3), the last control plane (4), `down --purge` (5), newer labels and
/// state (6), processes (7), the host's firewall and kernel (8), identity (9), digests (10), serving certificates (11),
/// what is shown (12), isolation (13).
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=13;

/// Where they are listed for readers.
const PAGE: &str = "docs/security.md";

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
