//! The text of a file, and places in it.
//!
//! Holds text only: reading it from disk is the command line's work.

mod parse;
mod path;
mod tree;

pub use parse::{MAX_BYTES, MAX_DEPTH, parse};
pub use path::{Path, PathSet, Segment};
pub use tree::{Entry, Kind, Mapping, Node};

/// A range of bytes in a source's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A file's name and text.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
    /// How many characters begin before each `STRIDE`th byte: counting from a line's start would be
    /// quadratic in a file that is one long line.
    counts: Vec<usize>,
}

/// How far apart characters are counted.
const STRIDE: usize = 512;

/// A line and a column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Source {
    /// A text under the name that messages shall call it by.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        let counts = text
            .as_bytes()
            .chunks(STRIDE)
            .scan(0, |count, chunk| {
                let before = *count;
                *count += beginnings(chunk);
                Some(before)
            })
            .collect();
        Self {
            name: name.into(),
            text,
            lines,
            counts,
        }
    }

    /// The same file with other text of the same length; its lines begin where they did.
    pub(crate) fn with_text(&self, text: String) -> Self {
        Self::new(self.name.clone(), text)
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line and column of a byte.
    pub fn position(&self, byte: usize) -> Position {
        let line = self.lines.partition_point(|start| *start <= byte).max(1);
        let start = self.lines[line - 1];
        let column = if byte > self.text.len() {
            0
        } else {
            self.characters_before(byte) - self.characters_before(start)
        };
        Position {
            line,
            column: column + 1,
        }
    }

    fn characters_before(&self, byte: usize) -> usize {
        let stride = (byte / STRIDE).min(self.counts.len().saturating_sub(1));
        let from = stride * STRIDE;
        let rest = self.text.as_bytes().get(from..byte).unwrap_or_default();
        self.counts.get(stride).copied().unwrap_or(0) + beginnings(rest)
    }

    /// The byte at which a character begins, by the character's number from 0.
    pub(crate) fn byte_of(&self, character: usize) -> usize {
        let stride = self.counts.partition_point(|count| *count <= character);
        let from = stride.saturating_sub(1) * STRIDE;
        let mut ahead = character - self.counts.get(stride.saturating_sub(1)).unwrap_or(&0);
        for (at, byte) in self.text.as_bytes()[from..].iter().enumerate() {
            if is_beginning(*byte) {
                if ahead == 0 {
                    return from + at;
                }
                ahead -= 1;
            }
        }
        self.text.len()
    }

    /// The text of the lines that a span touches, the number of the first, and the byte where it begins.
    pub fn lines_of(&self, span: Span) -> (usize, usize, &str) {
        let line = self
            .lines
            .partition_point(|start| *start <= span.start)
            .max(1);
        let start = self.lines[line - 1];
        // Bytes, not text: a span made from a parser's mistake need not end between characters.
        let bytes = self.text.as_bytes();
        let last = (span.end.max(span.start + 1) - 1).min(bytes.len());
        let end = bytes[last..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), |rest| last + rest);
        let text = self.text.get(start..end.max(start)).unwrap_or("");
        // The line end of a file from Windows is no part of the line.
        (line, start, text.strip_suffix('\r').unwrap_or(text))
    }
}

const fn is_beginning(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// How many characters begin in some bytes.
fn beginnings(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| is_beginning(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_start_at_one() {
        let source = Source::new("f", "ä: 1\nb: 2");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.position(2), Position { line: 1, column: 2 });
        assert_eq!(source.position(6), Position { line: 2, column: 1 });
        assert_eq!(source.position(99), Position { line: 2, column: 1 });
    }

    #[test]
    fn characters_are_found_far_into_a_line() {
        let text = "aß漢🦀".repeat(1000);
        let source = Source::new("f", text.clone());
        for (number, (byte, _)) in text.char_indices().enumerate() {
            assert_eq!(source.byte_of(number), byte);
            assert_eq!(source.position(byte).column, number + 1);
        }
        assert_eq!(source.byte_of(4000), text.len());
        assert_eq!(Source::new("f", "").byte_of(7), 0);
    }

    #[test]
    fn the_line_end_of_windows_is_not_shown() {
        let source = Source::new("f", "one\r\ntwo\r\n");
        assert_eq!(source.lines_of(Span { start: 0, end: 1 }), (1, 0, "one"));
    }

    #[test]
    fn the_lines_of_a_span_are_whole() {
        let source = Source::new("f", "one\ntwo\nthree\n");
        assert_eq!(source.lines_of(Span { start: 5, end: 7 }), (2, 4, "two"));
        assert_eq!(
            source.lines_of(Span { start: 5, end: 9 }),
            (2, 4, "two\nthree")
        );
        assert_eq!(source.lines_of(Span { start: 14, end: 14 }), (4, 14, ""));
    }
}
