//! Nothing is left for later without saying why.

use crate::files::{Breach, File, line_of};
use crate::rust::{Source, attribute, tokens};

/// Macros that stand for code that is missing.
const MACROS: &[&str] = &["todo", "unimplemented"];

/// The word by which comments put something off.
const PUT_OFF: &str = "FIXME";

/// An ignored test states its reason, and no code is left to be written, in tests too.
pub(crate) fn finished(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let source = Source::new(&file.text);
        let mut found = ignored_without_reason(&source);
        let tokens = tokens(&source.code);
        for window in tokens.windows(3) {
            let is_call = window[1].text == "!" && window[2].text != "=";
            if is_call && MACROS.contains(&window[0].text) {
                found.push((window[0].place, format!("`{}!` is left", window[0].text)));
            }
        }
        let comments = source.comments.match_indices(PUT_OFF);
        found.extend(comments.map(|(place, _)| {
            (
                place,
                format!("`{PUT_OFF}` is left: repair it or open an issue"),
            )
        }));
        found.sort();
        breaches.extend(
            found
                .into_iter()
                .map(|(place, what)| Breach::new(file, line_of(&file.text, place), what)),
        );
    }
    breaches
}

fn ignored_without_reason(source: &Source) -> Vec<(usize, String)> {
    let tokens = tokens(&source.code);
    let mut found = Vec::new();
    for index in 0..tokens.len() {
        let Some(attribute) = attribute(&tokens, index) else {
            continue;
        };
        let texts: Vec<_> = attribute.tokens.iter().map(|token| token.text).collect();
        let has_reason = match texts[..] {
            ["ignore"] => false,
            // The reason's text stands between its quotes, in the literals.
            ["ignore", "=", ..] => {
                let start = attribute.tokens[0].place;
                let end = tokens
                    .get(attribute.next - 1)
                    .map_or(source.literals.len(), |token| token.place);
                !source.literals[start..end].trim().is_empty()
            }
            _ => true,
        };
        if !has_reason {
            found.push((
                attribute.start,
                "an ignored test states no reason".to_owned(),
            ));
        }
    }
    found
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
