//! Where output goes, and in which of its three forms: human, plain or JSON.
//!
//! Data goes to standard output, everything else to standard error. Commands write through this and
//! never touch the process's streams, so that a test can hold them in memory.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use mullion_spec::render::Colour;
use mullion_wire::text::is_hostile;
use serde::Serialize;

use crate::guard::Screen;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document.
    Json,
}

/// Whether a person sits at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Questions may be asked.
    Attended,
    /// Nobody would answer.
    Unattended,
}

/// Where output goes.
pub struct Console<'a> {
    /// Data.
    pub out: &'a mut dyn Write,
    /// Messages.
    pub err: &'a mut dyn Screen,
    /// How results are written.
    pub format: Format,
    /// Whether colours may be used on standard output.
    pub out_colour: Colour,
    /// Whether colours may be used on standard error.
    pub err_colour: Colour,
    /// Whether questions may be asked.
    pub presence: Presence,
}

/// The version that every JSON document of ours carries.
pub const JSON_VERSION: &str = mullion_spec::API_VERSION;

/// A JSON document with its version and kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, T: Serialize> {
    api_version: &'static str,
    kind: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// A JSON document of a kind, as text.
pub fn document<T: Serialize>(kind: &str, content: &T) -> serde_json::Result<String> {
    let document = Document {
        api_version: JSON_VERSION,
        kind,
        content,
    };
    let mut text = visible(&serde_json::to_string_pretty(&document)?);
    text.push('\n');
    Ok(text)
}

/// JSON with those letters escaped that a terminal would obey: its text stays the same, and only texts hold them.
pub fn visible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for letter in json.chars() {
        if is_hostile(letter) {
            for unit in letter.encode_utf16(&mut units) {
                // The write cannot fail: it is into a string.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// Headings and names.
pub const STRONG: Style = Style::new().bold();
/// What matters less.
pub const FAINT: Style = Style::new().dimmed();
/// What is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What deserves a look.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

impl Console<'_> {
    /// Writes a JSON document of a kind.
    pub fn json<T: Serialize>(&mut self, kind: &str, content: &T) -> io::Result<()> {
        self.out.write_all(document(kind, content)?.as_bytes())
    }

    /// A text in a style, on standard output.
    pub fn styled(&self, style: Style, text: &str) -> String {
        paint(self.out_colour, style, text)
    }

    /// A text in a style, on standard error.
    pub fn styled_err(&self, style: Style, text: &str) -> String {
        paint(self.err_colour, style, text)
    }
}

fn paint(colour: Colour, style: Style, text: &str) -> String {
    match colour {
        Colour::Styled => format!("{style}{text}{style:#}"),
        Colour::Plain => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn promise_12_json_escapes_what_a_terminal_would_obey() {
        let hostile = BTreeMap::from([("run", "a\u{1b}[2J\n\u{9b}0m\u{202e}\u{7f}\u{e0041}ä")]);
        let text = document("Test", &hostile).unwrap();
        assert!(
            text.contains(r"a\u001b[2J\n\u009b0m\u202e\u007f\udb40\udc41ä"),
            "{text}"
        );
        let read: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
        assert_eq!(read["run"], hostile["run"], "its text stays the same");
    }
}
