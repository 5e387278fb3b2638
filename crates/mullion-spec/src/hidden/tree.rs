//! Secrets in a file whose values are known.

use super::lines;
use super::login;
use super::names::{Names, is_harmless, is_own_key, is_path, is_variable};
use super::{Found, SHORTEST};
use crate::source::{Kind, Mapping, Node, Span};

/// Looks through a file's values, and through what stands between them.
pub(super) fn search(text: &str, root: &Node, found: &mut Found) {
    let mut walk = Walk {
        text,
        names: Names::default(),
        found,
        tokens: Vec::new(),
        secret: Vec::new(),
        line: Span::default(),
    };
    // A file that is one text is no cluster file; it may well be a file that holds a password.
    let is_one_text = matches!(root.kind, Kind::Scalar { .. });
    walk.value(root, "", is_one_text);
    walk.between(root.span.end);
}

struct Walk<'a> {
    text: &'a str,
    names: Names,
    found: &'a mut Found,
    /// Where values and keys stand.
    tokens: Vec<Span>,
    /// Where nothing that stands between values may be shown either.
    secret: Vec<Span>,
    /// A part of a line up to its end.
    line: Span,
}

impl Walk<'_> {
    fn value(&mut self, node: &Node, field: &str, is_secret: bool) {
        match &node.kind {
            Kind::Null => {}
            Kind::Unread if is_secret => self.hide(node.span),
            Kind::Unread => self.tokens.push(node.span),
            Kind::Scalar { text, .. } if is_secret && !is_harmless(text) => {
                self.hide(node.span);
                self.found.text(text);
            }
            Kind::Scalar { text, .. } => self.free(node.span, text, field),
            Kind::List(items) => {
                for item in items {
                    self.value(item, field, is_secret);
                }
            }
            Kind::Map(mapping) => {
                let is_secret = is_secret && !is_reference(mapping);
                for entry in mapping.entries().iter().chain(mapping.dropped()) {
                    let says_secret = self.names.says_secret(&entry.key);
                    if is_secret && !is_own_key(&entry.key) {
                        self.hide(entry.key_span);
                        self.found.text(&entry.key);
                    } else if !entry.key.is_empty() {
                        self.free(entry.key_span, &entry.key, "");
                    }
                    self.value(&entry.value, &entry.key, is_secret || says_secret);
                    if is_secret || says_secret {
                        self.around(entry.key_span.end, &entry.value);
                    }
                }
            }
        }
    }

    fn hide(&mut self, span: Span) {
        self.tokens.push(span);
        self.found.range(self.text, span.start, span.end);
    }

    /// What stands round a secret may be a part of it that YAML takes for something else: a password
    /// that begins with `!` or `&` is a tag or an anchor to it, and one with ` #` ends in a comment.
    fn around(&mut self, key_end: usize, value: &Node) {
        let is_visible = match &value.kind {
            Kind::Null => true,
            Kind::Scalar { text, .. } => is_harmless(text),
            Kind::Map(mapping) => is_reference(mapping),
            Kind::List(_) | Kind::Unread => false,
        };
        let first = |from: usize| {
            let rest = self.text.get(from..).unwrap_or_default();
            let rest = rest.trim_start_matches([':', '"', '\'', ' ', '\t']);
            rest.chars().next()
        };
        let is_decorated = matches!(first(key_end), Some('!' | '&' | '*'));
        let mut end = if is_decorated {
            self.line_end(key_end)
        } else if is_visible {
            return;
        } else {
            value.span.end
        };
        if first(end) == Some('#') {
            end = self.line_end(end);
        }
        self.secret.push(Span {
            start: key_end,
            end,
        });
    }

    /// Where a line ends; asked for again and again in a file that is one long line.
    fn line_end(&mut self, from: usize) -> usize {
        if !(self.line.start..=self.line.end).contains(&from) || self.line.end == 0 {
            let rest = self.text.get(from..).unwrap_or_default();
            self.line = Span {
                start: from,
                end: from + rest.find('\n').unwrap_or(rest.len()),
            };
        }
        self.line.end
    }

    /// Looks through a text that may be shown for what in it may not.
    fn free(&mut self, span: Span, text: &str, field: &str) {
        self.tokens.push(span);
        // Nothing is given to anyone without one of these.
        if !text.contains([':', '=', '@', '-']) {
            return;
        }
        let mut ranges = lines::in_words(text);
        ranges.extend(login::in_words(text));
        if login::is_address(field) {
            ranges.extend(login::in_address(text));
        }
        if (field == "user" && text.contains(':')) || text.contains("PRIVATE KEY-----") {
            ranges.push(0..text.len());
        }
        if ranges.is_empty() {
            return;
        }
        let written = self.text.get(span.start..span.end).unwrap_or_default();
        // With escapes or folded lines the text is not written as it reads.
        let at = written.find(text);
        for range in ranges {
            match at {
                Some(at) => self.found.spans.push(Span {
                    start: span.start + at + range.start,
                    end: span.start + at + range.end,
                }),
                None => self.found.spans.push(span),
            }
            let hidden = &text[range];
            self.found.text(hidden);
            if let Some((_, password)) = hidden.split_once(':') {
                self.found.text(password);
            }
        }
    }

    /// Looks through what stands between values: punctuation, comments, and what was not read.
    fn between(mut self, read_until: usize) {
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.sort_by_key(|span| (span.start, span.end));
        let mut secret = std::mem::take(&mut self.secret);
        secret.sort_by_key(|span| (span.start, span.end));
        let mut secret = secret.iter().peekable();
        // How far secret surroundings reach; one may lie in another.
        let mut secret_until = 0;
        let mut at = 0;
        let end = Span {
            start: self.text.len(),
            end: self.text.len(),
        };
        for token in tokens.iter().chain([&end]) {
            let gap = self.text.get(at..token.start).unwrap_or_default();
            let is_plain = !gap
                .bytes()
                .any(|byte| byte.is_ascii_alphanumeric() || byte > 127);
            let is_public =
                secret_until <= at && secret.peek().is_none_or(|span| span.start > token.start);
            if is_plain && is_public {
                at = at.max(token.end);
                continue;
            }
            let before_comment = gap.split('#').next().unwrap_or(gap);
            // A key that is a list or a mapping is refused, and its values are not kept.
            if before_comment.contains(char::is_alphanumeric) {
                lines::search(gap, at, &mut self.names, self.found);
            }
            for (line_at, line) in lines_of(gap) {
                let start = at + line_at;
                while let Some(span) = secret.next_if(|span| span.start <= start + line.len()) {
                    secret_until = secret_until.max(span.end);
                }
                let is_secret = secret_until > start;
                self.punctuation(start, line, is_secret.then_some(secret_until));
            }
            at = at.max(token.end);
        }
        // A second document is not read at all, and its first line is shown.
        if let Some(rest) = self.text.get(read_until..) {
            lines::search(rest, read_until, &mut self.names, self.found);
        }
    }

    /// One line of what stands between values, of which a part may belong to a secret.
    fn punctuation(&mut self, start: usize, line: &str, secret_until: Option<usize>) {
        if let Some(until) = secret_until {
            let part = line.get(..(until - start).min(line.len())).unwrap_or(line);
            let kept = |c: char| c.is_whitespace() || "[]{},:\"'-?".contains(c);
            let first = part.find(|c| !kept(c));
            if let Some(first) = first {
                let last = part.trim_end_matches(kept).len();
                self.found.range(self.text, start + first, start + last);
            }
        }
        for range in lines::in_words(line)
            .into_iter()
            .chain(login::in_words(line))
        {
            self.found
                .range(self.text, start + range.start, start + range.end);
        }
    }
}

/// The lines of a text, each with its place.
fn lines_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// Whether a mapping says where a secret is kept, and nothing else.
fn is_reference(mapping: &Mapping) -> bool {
    let ([entry], []) = (mapping.entries(), mapping.dropped()) else {
        return false;
    };
    match (entry.key.as_str(), &entry.value.kind) {
        ("env", Kind::Scalar { text, .. }) => is_variable(text),
        ("file", Kind::Scalar { text, .. }) => is_path(text) && text.len() >= SHORTEST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::hidden::Hidden;
    use crate::source::{Source, parse};

    fn shown(text: &str) -> String {
        let source = Source::new("f", text);
        let (root, _) = parse(&source);
        assert!(root.is_some(), "{text}");
        let shown = Hidden::of(&source, root.as_ref()).source(&source);
        shown.text().to_owned()
    }

    #[test]
    fn what_stands_at_or_below_a_secret_is_hidden() {
        for (text, wanted) in [
            ("password: abc", "password: ***"),
            ("password: 'abc'", "password: *****"),
            ("password: [abc, de]", "password: [***, **]"),
            ("password: {value: abc}", "password: {value: ***}"),
            ("password: {abc}", "password: {***}"),
            ("password: {env: [abc]}", "password: {env: [***]}"),
            (
                "password: {env: abc, file: de}",
                "password: {env: ***, file: **}",
            ),
            (
                "password: |\n  abc\n  de\nb: 1\n",
                "password: *\n  ***\n****\nb: 1\n",
            ),
            (
                "password: a\npassword: abc\n",
                "password: *\npassword: ***\n",
            ),
            (
                "password: abc #de\nb: 1 # c\n",
                "password: *** ***\nb: 1 # c\n",
            ),
            ("password: !abc\nb: 1\n", "password: ****\nb: 1\n"),
            ("password: &abc de\nb: 1\n", "password: *******\nb: 1\n"),
            ("pasword: abc", "pasword: ***"),
            ("a: 1\n--- {password: abc}\n", "a: 1\n--- {password: ****\n"),
            ("{? {password: abc} : 1}", "{? {password: ****** 1}"),
            (
                "a: 1 # password: abc\nb: 2\n",
                "a: 1 # password: ***\nb: 2\n",
            ),
            (
                "run: app --password=abc\nb: 2\n",
                "run: app --password=***\nb: 2\n",
            ),
            ("abc de\n", "******\n"),
        ] {
            assert_eq!(shown(text), wanted);
        }
    }

    #[test]
    fn references_and_harmless_words_stay() {
        for text in [
            "password: generated # or not\n",
            "licence: {key: {env: NAME}}\n",
            "sshKey: {file: ~/.ssh/id}\n",
            "password: {env: NAME}  # of the user\n",
            "key: ~\nhostKey: ssh-ed25519 AAAA\n",
            "featureGates: {SomeTokenThing: true}\n",
            "url: https://h:80/a@b\nref: r:5000/a:1@sha256:00\n",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn logins_are_hidden_in_every_field() {
        assert_eq!(shown("a: http://u:p@h/x"), "a: http://***@h/x");
        assert_eq!(shown("jump: 'r:p w@h'"), "jump: '*****@h'");
        assert_eq!(shown("user: 'r:pw'"), "user: '****'");
        assert_eq!(shown(r#"jump: "r:p\x41@h""#), "jump: ***********");
    }
}
