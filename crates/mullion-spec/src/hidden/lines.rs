//! Secrets in text that is not, or not yet, known by its values: a file that cannot be read, a
//! comment, a command line.

use std::ops::Range;

use super::names::{self, Names};
use super::{Found, login};

/// Looks through text that could not be read as YAML, and begins somewhere in a file.
///
/// Nothing is known about it but its lines, so that after a name that says secret the rest of the line
/// is hidden, and every line after it that goes on with it.
pub(super) fn search(text: &str, offset: usize, names: &mut Names, found: &mut Found) {
    let mut open: Option<Open> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let end = line.trim_end().len();
        let mut hide = |start: usize| {
            let range = offset + at + start..offset + at + end;
            found.spans.push(crate::source::Span {
                start: range.start,
                end: range.end,
            });
            found.text(&line[start..end]);
        };
        if open.as_ref().is_some_and(|open| open.goes_on(line)) {
            if indent < end {
                hide(indent);
            }
        } else {
            open = after_name(line, names);
            if let Some(open) = &open
                && open.value < end
            {
                hide(open.value);
            }
            if let Some(login) = login_of(line) {
                found.range(line, login.start, login.end);
                if let Some(span) = found.spans.last_mut() {
                    span.start += offset + at;
                    span.end += offset + at;
                }
            }
        }
        at += line.len();
    }
}

/// A secret that may go on in the lines below.
struct Open {
    /// Where its key or its private key's block begins in the line.
    column: usize,
    /// Where its value begins in the line.
    value: usize,
    /// Whether nothing stands there yet.
    is_empty: bool,
    is_private_key: bool,
}

impl Open {
    fn goes_on(&self, line: &str) -> bool {
        let rest = line.trim_start();
        let indent = line.len() - rest.len();
        if rest.is_empty() || indent > self.column {
            return true;
        }
        if self.is_private_key {
            return !has_key(rest);
        }
        let is_item = rest.starts_with("- ");
        if is_item && self.is_empty && indent == self.column {
            return true;
        }
        // A line that begins nothing goes on with what stands above it, however it is indented.
        !is_item && !rest.starts_with(['#', '}', ']', '%']) && !is_marker(rest) && !has_key(rest)
    }
}

fn is_marker(rest: &str) -> bool {
    matches!(rest.trim_end(), "---" | "..." | "-") || rest.starts_with("--- ")
}

fn has_key(rest: &str) -> bool {
    let word = words(rest).next();
    word.is_some_and(|word| {
        let before = &rest[..word.start];
        let after = rest[word.end..].trim_start_matches(['"', '\'', ' ', '\t']);
        before.chars().all(|c| matches!(c, '"' | '\''))
            && after
                .strip_prefix(':')
                .is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace))
    })
}

/// The words of a line that can be names.
fn words(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].find(is_letter)?;
        at = line[start..]
            .find(|c| !is_letter(c))
            .map_or(line.len(), |length| start + length);
        Some(start..at)
    })
}

/// Where the value after a word begins, and whether a sign stands between.
fn after(line: &str, word: &Range<usize>) -> (usize, bool) {
    let rest = &line[word.end..];
    let unquoted = rest.trim_start_matches(['"', '\'']).trim_start();
    let signed = unquoted.strip_prefix([':', '=']);
    let value = signed.unwrap_or(unquoted).trim_start();
    (line.len() - value.len(), signed.is_some())
}

/// The first name of a line that says secret and is not followed by something harmless.
fn after_name(line: &str, names: &mut Names) -> Option<Open> {
    let indent = line.len() - line.trim_start().len();
    if line.contains("-----BEGIN") && line.contains("PRIVATE") {
        return Some(Open {
            column: indent,
            value: indent,
            is_empty: false,
            is_private_key: true,
        });
    }
    for word in words(line) {
        let name = &line[word.clone()];
        let (value, is_signed) = after(line, &word);
        let says_secret = if is_signed {
            names.says_secret(name)
        } else {
            names::says_secret(name)
        };
        if !says_secret || is_harmless(&line[value..]) {
            continue;
        }
        let before = &line[..word.start];
        let is_first = before
            .chars()
            .all(|c| matches!(c, ' ' | '-' | '?' | '"' | '\''));
        let rest = line[value..].trim();
        return Some(Open {
            column: if is_first { word.start } else { indent },
            value,
            is_empty: rest.is_empty() || rest.starts_with('#'),
            is_private_key: false,
        });
    }
    None
}

/// Whether what follows a name is one of the words or references that are no secret.
fn is_harmless(rest: &str) -> bool {
    let rest = rest.split(" #").next().unwrap_or(rest).trim();
    let word = rest.trim_end_matches(['}', ']', ',']);
    if rest.is_empty() {
        return false;
    }
    if names::is_harmless(word) || word == "null" {
        return true;
    }
    if !rest.contains('}') {
        return false;
    }
    let reference = word.trim_start_matches("{key:").trim();
    let reference = reference.strip_prefix('{').unwrap_or_default();
    match reference.split_once(": ") {
        Some(("env", name)) => names::is_variable(name.trim()),
        Some(("file", path)) => {
            names::is_path(path) && !path.contains([',', ':', '"', '\'', ' ', '{', '['])
        }
        _ => false,
    }
}

/// The login in a line of which nothing is known but that it may begin with a key.
fn login_of(line: &str) -> Option<Range<usize>> {
    if !line.contains('@') {
        return None;
    }
    let value = line.find(": ").map_or(0, |colon| colon + 2);
    let address = login::in_address(&line[value..]);
    address.map(|range| value + range.start..value + range.end)
}

/// The values after names that say secret, in words that are no file: a comment, a command line.
///
/// `--password x`, `password=x` and `password: x` are such; "the password" is not.
pub(super) fn in_words(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = line.trim_end().len();
        for word in words(line) {
            let name = &line[word.clone()];
            let (value, is_signed) = after(line, &word);
            let is_option = name.starts_with("--") || name.starts_with("-p");
            if (is_signed || is_option)
                && value < end
                && names::says_secret(name)
                && !is_harmless(&line[value..])
            {
                found.push(at + value..at + end);
                break;
            }
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut found = Found::default();
        search(text, 0, &mut Names::default(), &mut found);
        let source = crate::source::Source::new("f", text);
        let shown = super::super::Hidden::new(found).source(&source);
        shown.text().to_owned()
    }

    #[test]
    fn a_secret_goes_on_until_something_else_begins() {
        assert_eq!(
            shown("a: 1\nkey: |\n  one\n\n  two\nb: 2\n"),
            "a: 1\nkey: *\n  ***\n\n  ***\nb: 2\n"
        );
        assert_eq!(
            shown("- password: x y\n  user: z\n"),
            "- password: ***\n  user: z\n"
        );
        assert_eq!(
            shown("token:\n- one\n- two\nb: 2\n"),
            "token:\n*****\n*****\nb: 2\n"
        );
        assert_eq!(
            shown("password: \"one\ntwo\"\nb: 2\n"),
            "password: ****\n****\nb: 2\n"
        );
        assert_eq!(shown("password hunter2\n"), "password *******\n");
        assert_eq!(shown("w: {licence: x, r: 1\n"), "w: {licence: *******\n");
    }

    #[test]
    fn references_and_harmless_words_stay() {
        for text in [
            "password: generated\nb: [\n",
            "w: {licence: evaluation}\nb: [\n",
            "password: {env: NAME}\nb: [\n",
            "key: {file: ~/.ssh/id}  # mine\nb: [\n",
            "hostKey: ssh-ed25519 AAAA\nb: [\n",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn a_private_key_is_hidden_wherever_it_stands() {
        assert_eq!(
            shown("a:\n-----BEGIN X PRIVATE KEY-----\nAAAA\n-----END X-----\nb: 1\n"),
            "a:\n*****************************\n****\n***************\nb: 1\n"
        );
    }

    #[test]
    fn words_before_a_value_need_a_sign() {
        let found = |text: &str| {
            in_words(text)
                .into_iter()
                .map(|at| text[at].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("app --password x y"), ["x y"]);
        assert_eq!(found("app?token=abc"), ["abc"]);
        assert_eq!(found("# the password of old"), Vec::<String>::new());
    }
}
