//! From text to a tree of values.
//!
//! Takes the plain part of YAML that a configuration file needs, and refuses the rest by name:
//! anchors, tags, several documents, keys that are not text. What is refused never stops the reading
//! when the reading can go on, so that the other mistakes of the file are found as well.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as Marks};

use super::{Entry, Kind, Mapping, Node, Source, Span};
use crate::finding::{Finding, Findings, Place};
use crate::rules::file as rule;

/// The largest file that is read.
pub const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 32;
/// The longest key that is read: YAML's own limit for keys that are not marked with `?`.
const MAX_KEY: usize = 1024;
/// The key that other readers take for "and all fields of".
const MERGE: &str = "<<";

/// The values of a file, as far as they could be read, and what is wrong with its text.
pub fn parse(source: &Source) -> (Option<Node>, Findings) {
    let text = source.text();
    if text.len() > MAX_BYTES {
        let finding = Finding::new(&rule::TOO_LARGE, Place::File).message(format!(
            "the file has {} bytes, and at most {MAX_BYTES} are read",
            text.len()
        ));
        return (None, finding.into());
    }
    if let Some(at) = text.find('\0') {
        let finding = Finding::new(
            &rule::SYNTAX,
            Place::Span(Span {
                start: at,
                end: at + 1,
            }),
        )
        .message("the file holds a NUL byte, so it is not a text file")
        .hint("check that the right file was named, and save it as UTF-8: UTF-16 has such bytes");
        return (None, finding.into());
    }
    let mut builder = Builder::new(source);
    // A deep file would cost the parser time quadratic in its depth: stop it at the budget, not after.
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, marks)) => {
                let span = builder.span(&marks);
                if builder.take(event, span).is_break() {
                    break;
                }
            }
            Err(error) => {
                let finding = builder.syntax(&error);
                builder.findings.push(finding);
                builder.broken = true;
                break;
            }
        }
    }
    builder.finish()
}

/// A list or mapping that is being read.
enum Open {
    List(Span, Vec<Node>),
    Map {
        span: Span,
        entries: Vec<Entry>,
        dropped: Vec<Entry>,
        /// Where each key first stood: a search through the entries would be quadratic.
        seen: BTreeMap<String, Span>,
        key: Option<Key>,
    },
}

/// A key whose value is still to come.
struct Key {
    name: String,
    span: Span,
    is_merge: bool,
}

struct Builder<'a> {
    source: &'a Source,
    text: &'a str,
    is_ascii: bool,
    stack: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    findings: Findings,
    broken: bool,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Source) -> Self {
        let text = source.text();
        Self {
            source,
            text,
            is_ascii: text.is_ascii(),
            stack: Vec::new(),
            root: None,
            documents: 0,
            findings: Findings::default(),
            broken: false,
        }
    }

    /// The byte at one of the parser's offsets, which count characters.
    fn byte(&self, characters: usize) -> usize {
        if self.is_ascii {
            characters.min(self.text.len())
        } else {
            self.source.byte_of(characters)
        }
    }

    fn span(&self, marks: &Marks) -> Span {
        let start = self.byte(marks.start.index());
        let end = self.byte(marks.end.index()).max(start);
        // Block scalars and mappings end where the next token begins: trailing blanks are not theirs.
        let kept = self
            .text
            .get(start..end)
            .map_or(0, |text| text.trim_end().len());
        Span {
            start,
            end: start + kept,
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents == 2 {
                    let marker = Span {
                        start: span.start,
                        end: (span.start + 3).min(self.text.len()),
                    };
                    self.findings.push(
                        Finding::new(&rule::SEVERAL_DOCUMENTS, Place::Span(marker))
                            .message("a second document begins here")
                            .label("only what stands before this line could be read"),
                    );
                    return Break(());
                }
            }
            Event::Alias(_) => {
                let is_merged = matches!(
                    self.stack.last(),
                    Some(Open::Map { key: Some(key), .. }) if key.is_merge
                );
                // The merge key is reported by itself.
                if !is_merged {
                    self.findings.push(
                        Finding::new(&rule::ANCHOR, Place::Span(span))
                            .message("aliases are not read")
                            .label("an alias"),
                    );
                }
                self.put(Node {
                    span,
                    kind: Kind::Unread,
                });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), span);
                let quoted = style != ScalarStyle::Plain;
                let kind = if !quoted && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Kind::Null
                } else {
                    Kind::Scalar {
                        text: text.into_owned(),
                        quoted,
                    }
                };
                self.put(Node { span, kind });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), span);
                if self.too_deep(span) {
                    return Break(());
                }
                self.stack.push(Open::List(span, Vec::new()));
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), span);
                if self.too_deep(span) {
                    return Break(());
                }
                self.stack.push(Open::Map {
                    span,
                    entries: Vec::new(),
                    dropped: Vec::new(),
                    seen: BTreeMap::new(),
                    key: None,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
        }
        Continue(())
    }

    fn too_deep(&mut self, span: Span) -> bool {
        if self.stack.len() < MAX_DEPTH {
            return false;
        }
        self.findings.push(
            Finding::new(&rule::TOO_DEEP, Place::Span(span))
                .message(format!("values are nested more than {MAX_DEPTH} deep"))
                .label("the next level begins here"),
        );
        self.broken = true;
        true
    }

    fn refuse_decoration(&mut self, anchor: usize, tagged: bool, span: Span) {
        if anchor != 0 {
            self.findings.push(
                Finding::new(&rule::ANCHOR, Place::Span(span))
                    .message("anchors are not read")
                    .label("this value has an anchor"),
            );
        }
        if tagged {
            self.findings.push(
                Finding::new(&rule::TAG, Place::Span(span))
                    .message("tags are not read")
                    .label("this value has a tag"),
            );
        }
    }

    fn close(&mut self, end: Span) {
        let node = match self.stack.pop() {
            Some(Open::List(span, items)) => Node {
                span: Span {
                    start: span.start,
                    end: end.end.max(span.end),
                },
                kind: Kind::List(items),
            },
            Some(Open::Map {
                span,
                entries,
                dropped,
                ..
            }) => Node {
                span: Span {
                    start: span.start,
                    end: end.end.max(span.end),
                },
                kind: Kind::Map(Mapping::new(entries, dropped)),
            },
            None => return,
        };
        self.put(node);
    }

    /// Puts a finished value where it belongs: into the list or mapping around it, or on top.
    fn put(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map {
                entries,
                dropped,
                seen,
                key,
                ..
            }) => {
                let Some(of) = key.take() else {
                    *key = Some(key_of(node, &mut self.findings));
                    return;
                };
                let entry = Entry {
                    key: of.name,
                    key_span: of.span,
                    value: node,
                };
                if of.is_merge {
                    self.findings.push(
                        Finding::new(&rule::ANCHOR, Place::Span(of.span))
                            .message("merge keys are not read")
                            .label("a merge key")
                            .hint("write the fields out"),
                    );
                    dropped.push(entry);
                } else if let Some(first) = seen.get(&entry.key) {
                    self.findings.push(
                        Finding::new(&rule::DUPLICATE_KEY, Place::Span(of.span))
                            .message(format!("`{}` is given twice", entry.key))
                            .label("given again here")
                            .also(Place::Span(*first), "first given here"),
                    );
                    dropped.push(entry);
                } else {
                    seen.insert(entry.key.clone(), of.span);
                    entries.push(entry);
                }
            }
        }
    }

    fn syntax(&self, error: &ScanError) -> Finding {
        let at = self.byte(error.marker().index());
        let line_start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[line_start..].lines().next().unwrap_or("");
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(tab) = indent.find('\t') {
            let start = line_start + tab;
            return Finding::new(
                &rule::TAB,
                Place::Span(Span {
                    start,
                    end: start + 1,
                }),
            )
            .message("a tab stands where YAML wants blanks")
            .label("this is a tab");
        }
        // At the end of the file the mistake is on the last line that says something.
        let start = if at >= self.text.len() {
            self.text.trim_end().len()
        } else {
            at
        };
        Finding::new(&rule::SYNTAX, Place::Span(Span { start, end: start }))
            .message(format!("not valid YAML: {}", error.info()))
            .label("reading stopped here")
    }

    fn finish(mut self) -> (Option<Node>, Findings) {
        if self.broken {
            return (None, self.findings);
        }
        match self.root {
            None
            | Some(Node {
                kind: Kind::Null, ..
            }) => {
                self.findings
                    .push(Finding::new(&rule::EMPTY, Place::File).message("the file says nothing"));
                (None, self.findings)
            }
            Some(root) => (Some(root), self.findings),
        }
    }
}

/// The key that a value is, in the place of one.
fn key_of(node: Node, findings: &mut Findings) -> Key {
    let mut refuse = |message: &str, label: &str| {
        findings.push(
            Finding::new(&rule::SYNTAX, Place::Span(node.span))
                .message(message)
                .label(label),
        );
        String::new()
    };
    let is_merge =
        matches!(&node.kind, Kind::Scalar { text, quoted: false } if text.as_str() == MERGE);
    let name = match node.kind {
        // Every path below repeats its keys, so that their length must have an end.
        Kind::Scalar { text, .. } if text.len() > MAX_KEY => {
            refuse("a key must be a plain word", "this is a long text")
        }
        Kind::Scalar { text, .. } => text,
        Kind::Null | Kind::Unread => String::new(),
        Kind::List(_) | Kind::Map(_) => {
            refuse("a key must be a plain word", "this is a list or a mapping")
        }
    };
    Key {
        name,
        span: node.span,
        is_merge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<&'static str> {
        let (_, findings) = parse(&Source::new("f", text));
        let said = findings.said().iter();
        said.map(|finding| finding.rule.code).collect()
    }

    #[test]
    fn spans_are_bytes_even_after_wide_characters() {
        let text = "a: ü # ö\nb: [x, yy]\n";
        let (root, findings) = parse(&Source::new("f", text));
        assert!(findings.said().is_empty());
        let root = root.unwrap();
        let span = root.entry("b").unwrap().key_span;
        assert_eq!(&text[span.start..span.end], "b");
        let Kind::List(items) = &root.entry("b").unwrap().value.kind else {
            panic!("a list")
        };
        assert_eq!(&text[items[1].span.start..items[1].span.end], "yy");
    }

    #[test]
    fn what_is_not_read_is_refused_by_name() {
        assert_eq!(codes(""), ["E0111"]);
        assert_eq!(codes("# only a comment\n"), ["E0111"]);
        assert_eq!(codes("a: 1\n---\nb: 2\n"), ["E0109"]);
        assert_eq!(codes("a: &x 1\nb: *x\n"), ["E0108", "E0108"]);
        assert_eq!(codes("a: !!binary aGk=\n"), ["E0112"]);
        assert_eq!(codes("a: 1\na: 2\na: 3\n"), ["E0110", "E0110"]);
        assert_eq!(codes("a:\n\tb: 1\n"), ["E0107"]);
        assert_eq!(codes("a: [1, 2\n"), ["E0106"]);
        assert_eq!(codes("a: \0\n"), ["E0106"]);
        assert_eq!(codes("{[a]: 1}"), ["E0106"]);
        assert_eq!(codes("a: &x {b: 1}\nc:\n  <<: *x\n"), ["E0108", "E0108"]);
        assert_eq!(
            codes(&format!("? {}\n: 1\n", "k".repeat(MAX_KEY + 1))),
            ["E0106"]
        );
        assert_eq!(codes(&"[".repeat(MAX_DEPTH + 1)), ["E0105"]);
        // The parser has a limit of its own, which such a text meets first.
        assert_eq!(codes(&"[".repeat(100_000)), ["E0106"]);
        assert_eq!(codes(&" ".repeat(MAX_BYTES + 1)), ["E0104"]);
    }

    #[test]
    fn a_second_document_does_not_hide_the_first() {
        let (root, _) = parse(&Source::new("f", "a: 1\n---\nb: 2\n"));
        assert!(root.unwrap().entry("a").is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\PC\\n\\t]{0,200}") {
            let source = Source::new("f", text);
            let (_, findings) = parse(&source);
            for finding in findings.said() {
                if let Place::Span(span) = finding.place {
                    source.position(span.start);
                    source.lines_of(span);
                }
            }
        }
    }
}
