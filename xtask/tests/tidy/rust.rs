//! Enough of Rust's grammar to tell code from comments, strings and test code.
//!
//! Not a parser: it knows where comments, literals and bracketed items begin and end, and gives texts of
//! the same length as the source, so that a place in one is the same place in the others.

use std::ops::Range;

/// A Rust source in three texts, each as long as the source, with everything else turned into spaces.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Code. Literals keep their quotes and lose their content.
    pub(crate) code: String,
    /// Comments, documentation included.
    pub(crate) comments: String,
    /// The content of string and character literals.
    pub(crate) literals: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Tells the kinds of text in a source apart.
    pub(crate) fn new(text: &str) -> Self {
        let kinds = kinds(text.as_bytes());
        let only = |kind| keep(text, |place| kinds[place] == kind);
        Self {
            code: only(Kind::Code),
            comments: only(Kind::Comment),
            literals: only(Kind::Literal),
        }
    }

    /// The same without test code: items under `#[test]` or `#[cfg(test)]`, and all of a file under
    /// `#![cfg(test)]`.
    pub(crate) fn without_tests(&self) -> Self {
        let tests = test_items(&self.code);
        let keep = |text: &str| {
            keep(text, |place| {
                !tests.iter().any(|range| range.contains(&place))
            })
        };
        Self {
            code: keep(&self.code),
            comments: keep(&self.comments),
            literals: keep(&self.literals),
        }
    }
}

/// The text with every byte that is not wanted, save line ends, turned into a space.
///
/// A character of several bytes is always wanted or unwanted as a whole, so the result stays UTF-8; a
/// cut one would be replaced.
fn keep(text: &str, is_wanted: impl Fn(usize) -> bool) -> String {
    let bytes = text
        .bytes()
        .enumerate()
        .map(|(place, byte)| {
            if byte == b'\n' || is_wanted(place) {
                byte
            } else {
                b' '
            }
        })
        .collect::<Vec<u8>>();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The kind of every byte.
fn kinds(text: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; text.len()];
    let mut place = 0;
    while place < text.len() {
        let rest = &text[place..];
        let starts_word = place == 0 || !is_word(text[place - 1]);
        if rest.starts_with(b"//") {
            let length = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len());
            kinds[place..place + length].fill(Kind::Comment);
            place += length;
        } else if rest.starts_with(b"/*") {
            let length = block_comment(rest);
            kinds[place..place + length].fill(Kind::Comment);
            place += length;
        } else if let Some((open, content, close)) = literal(rest, starts_word) {
            kinds[place + open..place + open + content].fill(Kind::Literal);
            place += open + content + close;
        } else {
            place += 1;
        }
    }
    kinds
}

/// The length of a block comment, with those nested in it. One without an end reaches to the end.
fn block_comment(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut place = 0;
    while place < text.len() {
        if text[place..].starts_with(b"/*") {
            depth += 1;
            place += 2;
        } else if text[place..].starts_with(b"*/") {
            depth -= 1;
            place += 2;
            if depth == 0 {
                return place;
            }
        } else {
            place += 1;
        }
    }
    text.len()
}

/// The lengths of the opening, the content and the closing of a literal that begins here.
fn literal(text: &[u8], starts_word: bool) -> Option<(usize, usize, usize)> {
    match text[0] {
        b'"' => Some(quoted(text, 1, b'"')),
        b'\'' => {
            // `'a'` and `'\n'` are characters; `'a` alone is a lifetime.
            let width = std::str::from_utf8(&text[1..text.len().min(5)])
                .or_else(|error| std::str::from_utf8(&text[1..=error.valid_up_to()]))
                .ok()?
                .chars()
                .next()?
                .len_utf8();
            let is_character = text.get(1) == Some(&b'\\') || text.get(1 + width) == Some(&b'\'');
            is_character.then(|| quoted(text, 1, b'\''))
        }
        b'r' | b'b' | b'c' if starts_word => {
            let prefix = text
                .iter()
                .take_while(|byte| matches!(byte, b'r' | b'b' | b'c'))
                .count();
            let hashes = text[prefix..]
                .iter()
                .take_while(|byte| **byte == b'#')
                .count();
            let is_raw = text[..prefix].contains(&b'r');
            if prefix > 2 || text.get(prefix + hashes) != Some(&b'"') || (hashes > 0 && !is_raw) {
                return None;
            }
            let open = prefix + hashes + 1;
            if !is_raw {
                return Some(quoted(text, open, b'"'));
            }
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            let content = text[open..]
                .windows(close.len())
                .position(|window| window == close);
            Some(content.map_or((open, text.len() - open, 0), |content| {
                (open, content, close.len())
            }))
        }
        _ => None,
    }
}

fn quoted(text: &[u8], open: usize, close: u8) -> (usize, usize, usize) {
    let mut place = open;
    while place < text.len() {
        match text[place] {
            b'\\' => place += 2,
            byte if byte == close => return (open, place - open, 1),
            _ => place += 1,
        }
    }
    (open, text.len() - open, 0)
}

/// One word or sign of code, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: usize,
}

/// The tokens of code: words, `::`, and every other sign by itself.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let length = if is_word(bytes[place]) {
            bytes[place..]
                .iter()
                .take_while(|byte| is_word(**byte))
                .count()
        } else if bytes[place..].starts_with(b"::") {
            2
        } else {
            code[place..].chars().next().map_or(1, char::len_utf8)
        };
        let text = &code[place..place + length];
        if !text.trim().is_empty() {
            found.push(Token { text, place });
        }
        place += length;
    }
    found
}

/// One attribute: its tokens between the square brackets, and where the token after it stands in the list.
pub(crate) struct Attribute<'a> {
    pub(crate) inner: bool,
    pub(crate) start: usize,
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) next: usize,
}

/// The attribute that begins at a token, if one does.
pub(crate) fn attribute<'a>(tokens: &[Token<'a>], index: usize) -> Option<Attribute<'a>> {
    let text = |index: usize| tokens.get(index).map(|token| token.text);
    if text(index) != Some("#") {
        return None;
    }
    let inner = text(index + 1) == Some("!");
    let open = index + 1 + usize::from(inner);
    if text(open) != Some("[") {
        return None;
    }
    let next = after_group(tokens, open);
    let end = next.saturating_sub(1).max(open + 1);
    Some(Attribute {
        inner,
        start: tokens[index].place,
        tokens: tokens[open + 1..end].to_vec(),
        next,
    })
}

/// The index after the bracketed group that opens at a token.
fn after_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn is_for_tests(attribute: &Attribute<'_>) -> bool {
    let texts: Vec<_> = attribute.tokens.iter().map(|token| token.text).collect();
    matches!(
        texts[..],
        ["test"] | ["cfg", "(", "test", ")"] | ["cfg", "(", "all", "(", "test", ..]
    )
}

/// Words that begin an item, whose head may hold a comma.
const ITEM_WORDS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// Where test items stand in code, their attributes included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let Some(first) = attribute(&tokens, index) else {
            index += 1;
            continue;
        };
        if first.inner && is_for_tests(&first) {
            return std::iter::once(0..code.len()).collect();
        }
        // All attributes of one item count, whatever their order.
        let start = first.start;
        let mut is_test = !first.inner && is_for_tests(&first);
        index = first.next;
        while let Some(more) = attribute(&tokens, index) {
            is_test |= is_for_tests(&more);
            index = more.next;
        }
        if is_test {
            index = after_item(&tokens, index);
            let last = tokens[index - 1];
            found.push(start..last.place + last.text.len());
        }
    }
    found
}

/// The index after the item that begins at a token: after its block, its semicolon or its comma.
fn after_item(tokens: &[Token<'_>], start: usize) -> usize {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let is_item = ITEM_WORDS.contains(&text(start));
    let mut keyword = start;
    if text(keyword) == "pub" {
        keyword = if text(start + 1) == "(" {
            after_group(tokens, start + 1)
        } else {
            start + 1
        };
    }
    // Braces in these do not end them.
    let has_semicolon = match text(keyword) {
        "let" | "static" | "type" | "use" => true,
        "const" => !matches!(text(keyword + 1), "async" | "extern" | "fn" | "unsafe"),
        _ => false,
    };
    let mut index = start;
    while let Some(token) = tokens.get(index) {
        match token.text {
            "{" if !has_semicolon => return after_group(tokens, index),
            "(" | "[" | "{" => index = after_group(tokens, index),
            ";" => return index + 1,
            "," if !is_item => return index + 1,
            "}" | ")" | "]" => return index,
            _ => index += 1,
        }
    }
    index
}

/// The modules that a file declares for tests only: names of `#[cfg(test)] mod name;`.
pub(crate) fn test_modules(code: &str) -> Vec<String> {
    let all = tokens(code);
    let mut found = Vec::new();
    for range in test_items(code) {
        let item: Vec<_> = all
            .iter()
            .filter(|token| range.contains(&token.place))
            .map(|token| token.text)
            .collect();
        if let [.., "mod", name, ";"] = item[..] {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text).code
    }

    fn squeezed(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "a(\"b // c\"); // d \"e\"\n/* f /* g */ h */ i('\"', b\"j\", 'k');";
        let source = Source::new(text);
        assert_eq!(squeezed(&source.code), "a(\" \"); i(' ', b\" \", ' ');");
        assert_eq!(squeezed(&source.comments), "// d \"e\" /* f /* g */ h */");
        assert_eq!(squeezed(&source.literals), "b // c \" j k");
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.code.find('i'), text.rfind("i("));
    }

    #[test]
    fn raw_strings_end_where_their_hashes_do() {
        let source = Source::new("x(r#\"a \" b\"#, br\"c\\\", r##\"d\"# e\"##); y");
        assert_eq!(
            squeezed(&source.code),
            "x(r#\" \"#, br\" \", r##\" \"##); y"
        );
        assert_eq!(squeezed(&source.literals), "a \" b c\\ d\"# e");
    }

    #[test]
    fn lifetimes_escapes_and_raw_names_do_not_open_literals() {
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(
            squeezed(&code("let c = '\\''; let r#type = bar; d")),
            "let c = ' '; let r#type = bar; d"
        );
        assert_eq!(squeezed(&code("let s = \"a\\\"b\"; c")), "let s = \" \"; c");
        assert_eq!(
            squeezed(&code("let c = 'é'; \"…\"; d")),
            "let c = ' '; \" \"; d"
        );
    }

    #[test]
    fn test_items_are_left_out_and_the_rest_stays_in_place() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c(); }\n}\nfn d() {}\n#[test]\n#[ignore]\nfn e<A, B>() {}\nfn g() {}\n";
        let left = Source::new(text).without_tests().code;
        assert_eq!(squeezed(&left), "fn a() {} fn d() {} fn g() {}");
        assert_eq!(left.find("fn d"), text.find("fn d"));
    }

    #[test]
    fn a_test_attribute_is_found_after_others_and_on_a_field() {
        let text = "#[allow(x)]\n#[cfg(all(test, unix))]\nuse a::{b, c};\nstruct S { #[cfg(test)] f: u8, g: u8 }";
        assert_eq!(
            squeezed(&Source::new(text).without_tests().code),
            "struct S { g: u8 }"
        );
    }

    #[test]
    fn a_test_item_ends_with_its_semicolon_or_its_block() {
        let text = "#[cfg(test)] pub(crate) const A: S = S { a: 1 };\n#[cfg(test)] const fn b() {}\nfn c() {}";
        assert_eq!(
            squeezed(&Source::new(text).without_tests().code),
            "fn c() {}"
        );
    }

    #[test]
    fn code_under_other_conditions_is_not_test_code() {
        let text = "#[cfg(not(test))] fn a() {} #[cfg(feature = \"test\")] fn b() {}";
        assert_eq!(Source::new(text).without_tests().code, code(text));
    }

    #[test]
    fn a_whole_file_can_be_for_tests() {
        assert_eq!(
            Source::new("#![cfg(test)]\nfn a() {}")
                .without_tests()
                .code
                .trim(),
            ""
        );
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod fixtures;\n#[cfg(test)]\nmod tests { fn b() {} }";
        assert_eq!(test_modules(&code(text)), ["fixtures"]);
    }
}
