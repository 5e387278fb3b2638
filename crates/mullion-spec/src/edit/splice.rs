//! Pieces of a text that are replaced, in the style of what stands around them.

use super::{CONTROL_PLANE, whole};
use crate::source::{Entry, Kind, Node, Span};

/// Replacements in one text.
pub(super) struct Splices<'a> {
    text: &'a str,
    pieces: Vec<(Span, String)>,
    /// Something is written in a way that nobody here knows.
    is_lost: bool,
}

impl<'a> Splices<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            pieces: Vec::new(),
            is_lost: false,
        }
    }

    /// The text with all pieces in place; none where two of them overlap, or one has no place.
    pub(super) fn apply(mut self) -> Option<String> {
        self.pieces.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (span, new) in &self.pieces {
            out.push_str(self.text.get(at..span.start)?);
            out.push_str(new);
            at = span.end;
        }
        out.push_str(self.text.get(at..)?);
        (!self.is_lost).then_some(out)
    }

    fn replace(&mut self, span: Span, new: impl Into<String>) {
        self.pieces.push((span, new.into()));
    }

    fn insert(&mut self, at: usize, new: impl Into<String>) {
        self.replace(Span { start: at, end: at }, new);
    }

    /// Gives a field of a mapping that value; a field that is not there comes behind another.
    pub(super) fn set(&mut self, mapping: &Node, key: &str, value: &str, behind: Option<&Entry>) {
        match mapping.entry(key) {
            Some(entry) if entry.value.kind == Kind::Null => self.give(entry, value),
            Some(entry) => self.replace(entry.value.span, value),
            None => self.add_entry(mapping, key, value, behind),
        }
    }

    /// Gives a value to a field that has none.
    fn give(&mut self, entry: &Entry, value: &str) {
        let said = self.text.get(entry.value.span.start..entry.value.span.end);
        if entry.value.span.start >= entry.key_span.end && said.is_some_and(|said| !said.is_empty())
        {
            return self.replace(entry.value.span, value);
        }
        // Of a value that is not written only its key has a place.
        match self.text[entry.key_span.end..].find(':') {
            Some(colon) => self.insert(entry.key_span.end + colon + 1, format!(" {value}")),
            None => self.is_lost = true,
        }
    }

    fn add_entry(&mut self, mapping: &Node, key: &str, value: &str, behind: Option<&Entry>) {
        let is_flow = self.begins(mapping, '{');
        let Some(behind) = behind else {
            if is_flow {
                self.insert(mapping.span.start + 1, format!("{key}: {value}"));
            } else {
                self.is_lost = true;
            }
            return;
        };
        // JSON stays JSON.
        let is_json = is_flow && self.text[behind.key_span.start..].starts_with('"');
        let key = if is_json {
            format!("\"{key}\"")
        } else {
            key.to_owned()
        };
        let end = whole(behind).end;
        if is_flow {
            return self.insert(end, format!(", {key}: {value}"));
        }
        let start = self.line_start(behind.key_span.start);
        let indent = " ".repeat(behind.key_span.start - start);
        self.add_line(end, &format!("{indent}{key}: {value}"));
    }

    /// Puts a line behind the one in which a byte stands.
    fn add_line(&mut self, after: usize, line: &str) {
        let newline = self.newline(after);
        match self.text[after..].find('\n') {
            Some(end) => self.insert(after + end + 1, format!("{line}{newline}")),
            None => self.insert(self.text.len(), format!("{newline}{line}")),
        }
    }

    /// Puts a number into a list of numbers, which is made where there is none.
    pub(super) fn add_number(
        &mut self,
        mapping: &Node,
        key: &str,
        number: u32,
        behind: Option<&Entry>,
    ) {
        let list = mapping.entry(key).map(|entry| &entry.value);
        let Some((list, items)) = list.and_then(|list| Some((list, items(list)?))) else {
            return self.set(mapping, key, &format!("[{number}]"), behind);
        };
        let Some(final_item) = items.last() else {
            return self.insert(list.span.start + 1, number.to_string());
        };
        let is_greater = |item: &&Node| super::number(item).is_some_and(|other| other > number);
        let greater = items.iter().find(is_greater);
        match (self.begins(list, '['), greater) {
            (true, Some(greater)) => self.insert(greater.span.start, format!("{number}, ")),
            (true, None) => self.insert(final_item.span.end, format!(", {number}")),
            (false, _) => {
                let prefix =
                    &self.text[self.line_start(final_item.span.start)..final_item.span.start];
                self.is_lost |= !is_dash(prefix);
                let line = format!("{prefix}{number}");
                self.add_line(final_item.span.end, &line);
            }
        }
    }

    /// Takes items out of a list, by their places.
    pub(super) fn remove_items(&mut self, list: Option<&Node>, places: &[usize]) {
        let Some((list, items)) = list.and_then(|list| Some((list, items(list)?))) else {
            return;
        };
        let Some(final_item) = items.last().filter(|_| !places.is_empty()) else {
            return;
        };
        if !self.begins(list, '[') {
            for place in places {
                self.remove_line(items[*place].span);
            }
            return;
        }
        let span = Span {
            start: list.span.start,
            end: self.closing(final_item.span.end) + 1,
        };
        let written = self.text.get(span.start..span.end).unwrap_or_default();
        if written.contains(['\n', '#']) {
            for place in places {
                self.remove_from_flow(span, items, *place, places);
            }
            return;
        }
        let kept = (0..items.len()).filter(|at| !places.contains(at));
        let kept: Vec<_> = kept
            .map(|at| &self.text[items[at].span.start..items[at].span.end])
            .collect();
        self.replace(span, format!("[{}]", kept.join(", ")));
    }

    fn remove_line(&mut self, item: Span) {
        let start = self.line_start(item.start);
        self.is_lost |= !is_dash(&self.text[start..item.start]);
        let end = self.text[item.end..]
            .find('\n')
            .map_or(self.text.len(), |end| item.end + end + 1);
        self.replace(Span { start, end }, "");
    }

    /// Takes an item and one comma out of a list in brackets; comments stay.
    fn remove_from_flow(&mut self, list: Span, items: &[Node], place: usize, gone: &[usize]) {
        let item = items[place].span;
        let next = items
            .get(place + 1)
            .map_or(list.end - 1, |next| next.span.start);
        let comma = self.comma(item.end, next);
        let mut span = item;
        match (comma, place.checked_sub(1)) {
            (Some(comma), _) if self.text[item.end..comma].trim().is_empty() => {
                span.end = comma + 1;
            }
            (Some(comma), _) => self.replace(one(comma), ""),
            // The comma before it goes with the item before it, where that one goes too.
            (None, Some(before)) if !gone.contains(&before) => {
                if let Some(comma) = self.comma(items[before].span.end, item.start) {
                    self.replace(one(comma), "");
                }
            }
            (None, _) => {}
        }
        let rest = &self.text[span.end..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let start = self.line_start(span.start);
        let is_alone = self.text[start..span.start].trim().is_empty();
        if is_alone && let Some(line_end) = line_end(&rest[blanks..]) {
            // Nothing else stands in its line.
            span = Span {
                start,
                end: span.end + blanks + line_end,
            };
        } else {
            span.end += blanks;
        }
        self.replace(span, "");
    }

    /// The comma between two items, comments aside.
    fn comma(&self, from: usize, until: usize) -> Option<usize> {
        self.find(from, until, b",")
    }

    /// Where brackets close behind their last item: a parser's end of them may be that of a comment.
    fn closing(&mut self, from: usize) -> usize {
        let found = self.find(from, self.text.len(), b"]}");
        self.is_lost |= found.is_none();
        found.unwrap_or(from)
    }

    /// The first of some signs, comments aside.
    fn find(&self, from: usize, until: usize, signs: &[u8]) -> Option<usize> {
        let mut is_comment = false;
        for (at, byte) in self.text.get(from..until)?.bytes().enumerate() {
            match byte {
                b'#' => is_comment = true,
                b'\n' => is_comment = false,
                sign if !is_comment && signs.contains(&sign) => return Some(from + at),
                _ => {}
            }
        }
        None
    }

    /// Turns the short form of machines into groups, one text for each of its entries.
    pub(super) fn spell_out(&mut self, short: &Node, groups: &[String]) {
        let Kind::Map(mapping) = &short.kind else {
            self.is_lost = true;
            return;
        };
        let is_flow = self.begins(short, '{');
        let dash = if is_flow { "" } else { "- " };
        for (entry, group) in mapping.entries().iter().zip(groups) {
            self.replace(whole(entry), format!("{dash}{group}"));
        }
        let Some(first) = mapping.entries().first() else {
            self.is_lost = true;
            return;
        };
        let at = first.key_span.start;
        if is_flow {
            self.replace(one(short.span.start), format!("[{CONTROL_PLANE}, "));
            let last = mapping.entries().last().map_or(at, |last| whole(last).end);
            let end = self.closing(last);
            self.replace(one(end), "]");
        } else {
            let indent = &self.text[self.line_start(at)..at];
            self.is_lost |= !indent.trim().is_empty();
            let newline = self.newline(at);
            self.pieces.insert(
                0,
                (
                    Span { start: at, end: at },
                    format!("- {CONTROL_PLANE}{newline}{indent}"),
                ),
            );
        }
    }

    fn begins(&self, node: &Node, letter: char) -> bool {
        self.text[node.span.start..].starts_with(letter)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The line end that the text has at a place: of that line, or of the one before where it is the last.
    fn newline(&self, at: usize) -> &'static str {
        let (before, after) = self.text.split_at(at);
        let line = after.find('\n').map(|end| &after[..end]);
        let line = line.or_else(|| before.rfind('\n').map(|end| &before[..end]));
        if line.is_some_and(|line| line.ends_with('\r')) {
            "\r\n"
        } else {
            "\n"
        }
    }
}

const fn one(at: usize) -> Span {
    Span {
        start: at,
        end: at + 1,
    }
}

fn items(list: &Node) -> Option<&[Node]> {
    match &list.kind {
        Kind::List(items) => Some(items),
        _ => None,
    }
}

/// Whether a text is what stands before the item of a list that has a line of its own.
fn is_dash(prefix: &str) -> bool {
    prefix.trim() == "-"
}

/// Where the next line begins, if nothing but the end of this one comes before it.
fn line_end(rest: &str) -> Option<usize> {
    ["\r\n", "\n"]
        .iter()
        .find(|end| rest.starts_with(**end))
        .map(|end| end.len())
}
