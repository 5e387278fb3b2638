//! The values of a YAML document, each with its place.

use super::{Path, Segment, Span};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing: `null`, `~`, or no text at all.
    Null,
    /// Something that is not read, and was reported as such.
    Unread,
    /// A text, number or truth value; the file's types decide which it must be.
    Scalar {
        /// As written, quotes and escapes resolved.
        text: String,
        /// Whether it stands in quotes or in a block, and so can only be text.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Map(Mapping),
}

/// The keys of a mapping and their values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapping {
    entries: Vec<Entry>,
    /// The places of the entries, by their keys in order: a search through a long mapping for each of
    /// its fields would take time quadratic in its length.
    order: Vec<usize>,
    /// What is not read, because its key was given before or is a merge key.
    dropped: Vec<Entry>,
}

impl Mapping {
    /// A mapping of entries with different keys, and of what beside them is not read.
    pub fn new(entries: Vec<Entry>, dropped: Vec<Entry>) -> Self {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_unstable_by_key(|place| &entries[*place].key);
        Self {
            entries,
            order,
            dropped,
        }
    }

    /// The entries, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries that are not read but stand in the text all the same.
    pub fn dropped(&self) -> &[Entry] {
        &self.dropped
    }

    /// The entry under a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        let found = self
            .order
            .binary_search_by_key(&key, |place| &self.entries[*place].key);
        found.ok().map(|found| &self.entries[self.order[found]])
    }
}

/// One key of a mapping, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// What a person calls this kind of value.
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Null | Kind::Unread => "nothing",
            Kind::Scalar { quoted: true, .. } => "a text",
            Kind::Scalar { text, .. } if text.parse::<f64>().is_ok() => "a number",
            Kind::Scalar { text, .. } if matches!(text.as_str(), "true" | "false") => {
                "a truth value"
            }
            Kind::Scalar { .. } => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// The entry under a key of a mapping.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(mapping) => mapping.get(key),
            _ => None,
        }
    }

    /// The value at a path, where the file has one.
    pub(crate) fn value_at(&self, path: &Path) -> Option<&Self> {
        path.segments()
            .iter()
            .try_fold(self, |node, segment| match (segment, &node.kind) {
                (Segment::Key(name), _) => node.entry(name).map(|entry| &entry.value),
                (Segment::Index(index), Kind::List(items)) => items.get(*index),
                (Segment::Index(_), _) => None,
            })
    }

    /// Whether the file says something at a path; `null` says nothing.
    pub fn says(&self, path: &Path) -> bool {
        self.value_at(path)
            .is_some_and(|value| value.kind != Kind::Null)
    }

    /// Where a value stands, or the nearest value around it that is in the file.
    pub fn value_span(&self, path: &Path) -> Span {
        self.locate(path).0
    }

    /// Where a value's key stands; for a list's item, the item itself.
    pub fn key_span(&self, path: &Path) -> Span {
        self.locate(path).1
    }

    fn locate(&self, path: &Path) -> (Span, Span) {
        let mut node = self;
        let mut key = self.first_key();
        for segment in path.segments() {
            let inner = match (segment, &node.kind) {
                (Segment::Key(name), _) => {
                    node.entry(name).map(|entry| (&entry.value, entry.key_span))
                }
                (Segment::Index(index), Kind::List(items)) => {
                    items.get(*index).map(|item| (item, item.first_key()))
                }
                (Segment::Index(_), _) => None,
            };
            // What the file does not say is shown at the key of what should have said it.
            let Some((value, key_span)) = inner else {
                return (key, key);
            };
            node = value;
            key = key_span;
        }
        let value = match &node.kind {
            // A whole block would bury the message: its key stands for it.
            Kind::List(_) | Kind::Map(_) | Kind::Null => key,
            Kind::Scalar { .. } | Kind::Unread => node.span,
        };
        (value, key)
    }

    fn first_key(&self) -> Span {
        match &self.kind {
            Kind::Map(mapping) => mapping
                .entries
                .first()
                .map_or(self.span, |entry| entry.key_span),
            _ => self.span,
        }
    }
}
