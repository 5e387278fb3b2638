//! Unsafe code stands where Windows is called, and nowhere else.

use crate::files::{Breach, File, line_of};

/// The adapter that calls Windows.
const ADAPTER: &str = "crates/mullion-agent/src/system/windows";

/// How unsafe code begins, and how the lint against it is named.
const WORDS: &[&str] = &["unsafe", "unsafe_code"];

/// No file but those of the adapter holds unsafe code or allows it.
pub(crate) fn in_its_place(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let is_adapter = |path: &str| {
        path.strip_prefix(ADAPTER)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    for file in files {
        if !file.is_rust() || is_adapter(&file.path) {
            continue;
        }
        for token in file.tokens() {
            if WORDS.contains(&token.text) {
                let line = line_of(&file.text, token.place);
                let what = format!("`{}` is for `{ADAPTER}` alone", token.text);
                breaches.push(Breach::new(file, line, what));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> usize {
        in_its_place(&[File::new(path, text)]).len()
    }

    #[test]
    fn unsafe_code_is_found_outside_the_adapter() {
        let text = "#![allow(unsafe_code)]\nfn f() { unsafe { g() } }\n";
        assert_eq!(told("crates/mullion-agent/src/state.rs", text), 2);
        assert_eq!(
            told("crates/mullion-agent/src/system/windows_like.rs", text),
            2
        );
        for path in [
            "crates/mullion-agent/src/system/windows.rs",
            "crates/mullion-agent/src/system/windows/files.rs",
        ] {
            assert_eq!(told(path, text), 0, "{path}");
        }
    }

    #[test]
    fn its_mention_is_left_alone() {
        let text = "// unsafe is denied\nlet a = \"unsafe\"; let safe = 1;";
        assert_eq!(told("xtask/src/lib.rs", text), 0);
    }
}
