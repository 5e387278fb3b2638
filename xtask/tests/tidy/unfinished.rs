//! Nothing is left for later without saying why.

use crate::files::{Breach, File, line_of};
use crate::rust::{Token, macro_calls};

/// Macros that stand for code that is missing.
const MACROS: &[&str] = &["todo", "unimplemented"];

/// The word by which comments put something off.
const PUT_OFF: &str = "FIXME";

/// An ignored test states its reason, and no code is left to be written, in tests too.
pub(crate) fn finished(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let tokens = file.tokens();
        let calls = macro_calls(&tokens, MACROS).into_iter();
        let mut found: Vec<_> = calls
            .map(|(place, call)| (place, format!("`{call}` is left")))
            .collect();
        let texts: Vec<_> = tokens.iter().map(|token| token.text).collect();
        for (index, token) in tokens.iter().enumerate() {
            let has_reason = match texts[index..] {
                ["#", "[", "ignore", "]", ..] | ["#", "!", "[", "ignore", "]", ..] => false,
                ["#", "[", "ignore", "=", text, ..] | ["#", "!", "[", "ignore", "=", text, ..] => {
                    let mut parts = text.split('"');
                    parts.nth(1).is_some_and(|reason| !reason.trim().is_empty())
                }
                _ => true,
            };
            if !has_reason {
                let what = "an ignored test states no reason";
                found.push((token.place, what.to_owned()));
            }
        }
        for (place, _) in file.text.match_indices(PUT_OFF) {
            let is_in =
                |token: &Token<'_>| (token.place..token.place + token.text.len()).contains(&place);
            if !tokens.iter().any(is_in) {
                let what = format!("`{PUT_OFF}` is left: repair it or open an issue");
                found.push((place, what));
            }
        }
        found.sort();
        breaches.extend(
            found
                .into_iter()
                .map(|(place, what)| Breach::new(file, line_of(&file.text, place), what)),
        );
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        finished(&[File::new("a.rs", text)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_ignored_test_needs_a_reason() {
        assert_eq!(
            told("#[test]\n#[ignore]\nfn a() {}"),
            ["a.rs:2: an ignored test states no reason"]
        );
        assert_eq!(told("#[ignore = \"\"]\nfn a() {}").len(), 1);
        assert_eq!(told("#[ignore = \" \"]\nfn a() {}").len(), 1);
        assert!(told("#[ignore = \"boots a machine\"]\nfn a() {}").is_empty());
    }

    #[test]
    fn code_that_is_missing_is_found_and_its_mention_is_not() {
        assert_eq!(
            told("fn a() { todo!() }\nfn b() { unimplemented!(\"later\") }\n"),
            [
                "a.rs:1: `todo!` is left",
                "a.rs:2: `unimplemented!` is left"
            ]
        );
        assert!(told("// todo! is denied\nlet a = \"todo!()\"; let b = todo != c;").is_empty());
    }

    #[test]
    fn a_comment_that_puts_off_is_found_and_a_string_is_not() {
        assert_eq!(
            told("let a = 1; // FIXME: b\n"),
            ["a.rs:1: `FIXME` is left: repair it or open an issue"]
        );
        assert!(told("let a = \"FIXME\";").is_empty());
    }
}
