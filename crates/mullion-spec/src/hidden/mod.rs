//! What of a file must not be shown, decided before any rule looks at it.
//!
//! Three things are looked for: values at or below a key whose name says secret ([`names`]), in the
//! tree where there is one ([`tree`]) and line by line where there is none ([`lines`]); and what
//! stands before the `@` of an address ([`login`]), everywhere. When in doubt a text is hidden: a
//! reader can open the file, but nobody can take a secret back out of a log.
//!
//! [`Hidden::source`] gives the text with stars in every byte of a secret; [`Hidden::words`] is the
//! last line of defence for messages, whose makers never put a secret into words in the first place.

mod lines;
pub(crate) mod login;
mod names;
mod tree;

pub(crate) use names::is_variable;

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::source::{MAX_BYTES, Node, Source, Span};

/// Whether a command line seems to hold a secret that is not the shell's to fill in.
pub(crate) fn in_command(run: &str) -> bool {
    let mut ranges = lines::in_words(run);
    ranges.extend(login::in_words(run));
    ranges
        .into_iter()
        .any(|range| !run[range].trim_start_matches(['"', '\'']).starts_with('$'))
}

/// What a secret is in a message.
const MASK: &str = "***";
/// The shortest text that is sought in messages: a shorter one is found in every other word.
const SHORTEST: usize = 3;
/// The longest text in back-ticks that a message repeats.
const LONGEST_ECHO: usize = 60;
/// The longest text in back-ticks that a hint gives to copy.
const LONGEST_REMEDY: usize = 400;

/// What of a file must not be shown.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// In ascending order, none touching another.
    spans: Vec<Span>,
    /// In ascending order, each once.
    texts: Vec<String>,
    /// Which bytes a text begins with.
    beginnings: Vec<u8>,
}

/// What was found so far, in any order.
#[derive(Debug, Default)]
struct Found {
    spans: Vec<Span>,
    texts: Vec<String>,
}

impl Found {
    fn text(&mut self, text: &str) {
        let text = text.trim();
        if text.len() >= SHORTEST {
            self.texts.push(text.to_owned());
        }
        if text.contains('\n') {
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| line.len() >= SHORTEST);
            self.texts.extend(lines.map(Into::into));
        }
    }

    /// Hides a range of the file's text.
    fn range(&mut self, text: &str, start: usize, end: usize) {
        if start < end {
            self.spans.push(Span { start, end });
            self.text(text.get(start..end).unwrap_or_default());
        }
    }
}

impl Hidden {
    /// Looks through a file, by its values where it could be read.
    pub(crate) fn of(source: &Source, root: Option<&Node>) -> Self {
        let text = source.text();
        let mut found = Found::default();
        // Such files are refused as a whole. Between NUL bytes no word can be told from another.
        if text.len() > MAX_BYTES || text.contains('\0') {
            found.spans.push(Span {
                start: 0,
                end: text.len(),
            });
        } else if let Some(root) = root {
            tree::search(text, root, &mut found);
        } else {
            lines::search(text, 0, &mut names::Names::default(), &mut found);
        }
        Self::new(found)
    }

    fn new(found: Found) -> Self {
        let Found {
            mut spans,
            mut texts,
        } = found;
        spans.sort_by_key(|span| (span.start, span.end));
        spans.dedup_by(|next, before| {
            let touches = next.start <= before.end;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        texts.sort_unstable();
        texts.dedup();
        let mut beginnings: Vec<u8> = texts.iter().map(|text| text.as_bytes()[0]).collect();
        beginnings.dedup();
        Self {
            spans,
            texts,
            beginnings,
        }
    }

    /// The file with stars for secrets; every other byte keeps its place.
    pub(crate) fn source(&self, source: &Source) -> Source {
        if self.spans.is_empty() {
            return source.clone();
        }
        let mut bytes = source.text().as_bytes().to_vec();
        for span in &self.spans {
            for byte in bytes.get_mut(span.start..span.end).unwrap_or_default() {
                if !matches!(*byte, b'\n' | b'\r') {
                    *byte = b'*';
                }
            }
        }
        source.with_text(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A message or a label without secrets, and without the bulk of long values.
    pub(crate) fn words(&self, words: &str) -> String {
        shortened(&self.masked(words), LONGEST_ECHO)
    }

    /// A hint without secrets. What it gives to copy is left whole within reason.
    pub(crate) fn remedy(&self, words: &str) -> String {
        shortened(&self.masked(words), LONGEST_REMEDY)
    }

    /// A key of the file without secrets.
    pub(crate) fn key(&self, key: &str) -> String {
        self.masked(key).into_owned()
    }

    fn masked<'a>(&self, words: &'a str) -> Cow<'a, str> {
        let mut masked = String::new();
        // What is kept of `words` so far.
        let mut kept = 0;
        let mut at = 0;
        while let Some(byte) = words.as_bytes().get(at) {
            let is_candidate = self.beginnings.binary_search(byte).is_ok();
            let found = is_candidate.then(|| self.longest_at(words, at)).flatten();
            match found.filter(|text| !is_own_word(text)) {
                Some(text) => {
                    masked.push_str(&words[kept..at]);
                    masked.push_str(MASK);
                    at += text.len();
                    kept = at;
                }
                None => at += 1,
            }
        }
        let masked = if kept == 0 {
            Cow::Borrowed(words)
        } else {
            masked.push_str(&words[kept..]);
            Cow::Owned(masked)
        };
        let logins = login::in_words(&masked);
        if logins.is_empty() {
            return masked;
        }
        let mut text = masked.into_owned();
        for login in logins.into_iter().rev() {
            text.replace_range(login, MASK);
        }
        Cow::Owned(text)
    }

    /// The longest hidden text that stands at a place.
    fn longest_at(&self, words: &str, at: usize) -> Option<&str> {
        let mut rest = &words.as_bytes()[at..];
        // The greatest text that is not above the rest either begins it, or parts from it somewhere;
        // what begins the rest beyond that point would be greater still.
        loop {
            let above = self.texts.partition_point(|text| text.as_bytes() <= rest);
            let candidate = &self.texts[..above].last()?;
            let common = candidate
                .bytes()
                .zip(rest)
                .take_while(|(one, other)| one == *other)
                .count();
            if common == candidate.len() {
                return Some(candidate);
            }
            if common < SHORTEST {
                return None;
            }
            rest = &rest[..common];
        }
    }
}

/// Whether a text is a part of Mullion's own words. Blanking those would not hide it but point at it.
fn is_own_word(text: &str) -> bool {
    static OWN: OnceLock<String> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let rules = crate::rules::all().flat_map(|rule| [rule.title, rule.remedy]);
        let fields = crate::shape::field_names().iter().map(String::as_str);
        let words: Vec<_> = fields.chain(rules).collect();
        words.join("\n")
    });
    own.contains(text)
}

/// A text in which what stands in back-ticks is no longer than some characters.
fn shortened(words: &str, longest: usize) -> String {
    if words.len() <= longest {
        return words.to_owned();
    }
    let parts: Vec<_> = words
        .split('`')
        .enumerate()
        .map(|(place, part)| {
            // Every other part stands in back-ticks. A value may hold some itself, so the rest has its
            // end too, at more than any sentence of ours needs.
            let most = if place % 2 == 1 { longest } else { 1000 };
            match part.char_indices().nth(most) {
                Some((cut, _)) => Cow::Owned(format!("{}…", &part[..cut])),
                None => Cow::Borrowed(part),
            }
        })
        .collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(texts: &[&str]) -> Hidden {
        let mut found = Found::default();
        for text in texts {
            found.text(text);
        }
        Hidden::new(found)
    }

    #[test]
    fn the_longest_text_that_stands_there_is_masked() {
        let hidden = hidden(&["abc", "abcdef", "abcx", "zz", "ab"]);
        assert_eq!(
            hidden.words("`abcdef` `abcde` `abd`"),
            "`***` `***de` `abd`"
        );
        assert_eq!(hidden.words("zz ab"), "zz ab");
    }

    #[test]
    fn own_words_are_not_masked() {
        assert_eq!(hidden(&["windows"]).words("`windows.rdp`"), "`windows.rdp`");
    }

    #[test]
    fn logins_are_masked_whoever_wrote_them() {
        let hidden = hidden(&[]);
        assert_eq!(hidden.words("`u:p@host` is bad"), "`***@host` is bad");
        assert_eq!(hidden.words("`app:1@sha256:00`"), "`app:1@sha256:00`");
    }

    #[test]
    fn long_values_are_cut_and_sentences_are_not() {
        let long = "x".repeat(5000);
        let text = hidden(&[]).words(&format!("`a` does not take `{long}`"));
        assert_eq!(text, format!("`a` does not take `{}…`", "x".repeat(60)));
        let sentence = "of many words ".repeat(10);
        assert_eq!(hidden(&[]).words(&sentence), sentence);
    }

    #[test]
    fn stars_take_as_many_bytes_as_what_they_hide() {
        let text = "machines: {linux: 1}\npassword: äöü # é\nkind: ü\n";
        let source = Source::new("f", text);
        let (root, _) = crate::source::parse(&source);
        let shown = Hidden::of(&source, root.as_ref()).source(&source);
        assert_eq!(shown.text().len(), text.len());
        assert!(shown.text().ends_with("\nkind: ü\n"));
        assert!(!shown.text().contains('ö') && !shown.text().contains('é'));
    }
}
