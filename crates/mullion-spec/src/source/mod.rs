//! The text of a file, and places in it.
//!
//! Holds text only: reading it from disk is the command line's work.

mod parse;
mod tree;

pub use parse::{MAX_BYTES, MAX_DEPTH, parse};
pub use tree::{Entry, Kind, Node};

use std::fmt::{self, Display, Formatter};

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
}

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
        Self {
            name: name.into(),
            text,
            lines,
        }
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
        let column = self
            .text
            .get(start..byte)
            .map_or(0, |text| text.chars().count());
        Position {
            line,
            column: column + 1,
        }
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
        (
            line,
            start,
            self.text.get(start..end.max(start)).unwrap_or(""),
        )
    }
}

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// The way from the top of the file to a value: `machines[0].count`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(Vec<Segment>);

impl Path {
    /// The top of the file.
    pub const fn top() -> Self {
        Self(Vec::new())
    }

    /// The value under a key.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// The value at a place of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The steps, outermost first.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The path itself and every path around it, innermost first, without the top.
    pub fn ancestry(&self) -> impl Iterator<Item = Self> + '_ {
        (1..=self.0.len())
            .rev()
            .map(|length| Self(self.0[..length].to_vec()))
    }
}

impl Display for Path {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if place == 0 => out.write_str(key)?,
                Segment::Key(key) => write!(out, ".{key}")?,
                Segment::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
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
    fn the_lines_of_a_span_are_whole() {
        let source = Source::new("f", "one\ntwo\nthree\n");
        assert_eq!(source.lines_of(Span { start: 5, end: 7 }), (2, 4, "two"));
        assert_eq!(
            source.lines_of(Span { start: 5, end: 9 }),
            (2, 4, "two\nthree")
        );
        assert_eq!(source.lines_of(Span { start: 14, end: 14 }), (4, 14, ""));
    }

    #[test]
    fn a_path_reads_as_people_write_it() {
        let path = Path::top().key("machines").index(0).key("count");
        assert_eq!(path.to_string(), "machines[0].count");
        assert_eq!(path.ancestry().count(), 3);
    }
}
