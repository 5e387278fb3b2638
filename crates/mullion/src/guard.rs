//! The last thing before a terminal: removes every control sequence that is not ours.
//!
//! Text of machines and of files is cleaned where it enters. This is the net below that: whatever a view forgets, a
//! terminal gets letters, line ends, tabs and colours, and nothing that moves its cursor or sets its title.

use std::io::{self, Write};

use mullion_spec::render::Colour;
use mullion_wire::text::without_controls;

/// Where messages go: a stream whose last lines can be taken back.
pub trait Screen: Write {
    /// Takes so many lines back, to write them again.
    fn rewind(&mut self, lines: usize) -> io::Result<()> {
        write!(self, "\x1b[{lines}A\x1b[J")
    }
}

impl Screen for Vec<u8> {}
impl Screen for io::Sink {}

/// A stream that lets only harmless text through.
pub struct Guard<'a> {
    stream: &'a mut dyn Write,
    colour: Colour,
    /// The begun end of what was written: of a letter, or of a colour.
    begun: Vec<u8>,
}

impl<'a> Guard<'a> {
    /// Guards a stream; where it gets no colours, text with colours loses them.
    pub fn new(stream: &'a mut dyn Write, colour: Colour) -> Self {
        Self {
            stream,
            colour,
            begun: Vec::new(),
        }
    }
}

impl Write for Guard<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = std::mem::take(&mut self.begun);
        let end = whole_until(&whole);
        self.begun = whole[end..].to_vec();
        let text = String::from_utf8_lossy(&whole[..end]);
        self.stream
            .write_all(filtered(&text, self.colour).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Screen for Guard<'_> {
    fn rewind(&mut self, lines: usize) -> io::Result<()> {
        write!(self.stream, "\x1b[{lines}A\x1b[J")
    }
}

/// Where the text ends that can be judged: what comes next may complete a letter or a colour.
fn whole_until(bytes: &[u8]) -> usize {
    /// Longer is no colour of ours.
    const LONGEST: usize = 24;
    let tail = bytes.len().saturating_sub(LONGEST);
    let letters = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    match bytes[tail..].iter().rposition(|byte| *byte == 0x1b) {
        Some(at) if is_begun_colour(&bytes[tail + at..]) => letters.min(tail + at),
        _ => letters,
    }
}

fn is_begun_colour(bytes: &[u8]) -> bool {
    match bytes {
        [0x1b] => true,
        [0x1b, b'[', rest @ ..] => rest.iter().copied().all(is_of_colour),
        _ => false,
    }
}

const fn is_of_colour(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b';')
}

/// The text without control sequences other than colours.
fn filtered(text: &str, colour: Colour) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while colour == Colour::Styled
        && let Some((start, end)) = next_colour(rest)
    {
        out.push_str(&without_controls(&rest[..start]));
        out.push_str(&rest[start..end]);
        rest = &rest[end..];
    }
    out.push_str(&without_controls(rest));
    out
}

/// The place of the next colour.
fn next_colour(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("\x1b[") {
        let start = from + at;
        let bytes = &text.as_bytes()[start + 2..];
        let length = bytes.iter().take_while(|byte| is_of_colour(**byte)).count();
        if bytes.get(length) == Some(&b'm') {
            return Some((start, start + 2 + length + 1));
        }
        from = start + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(pieces: &[&[u8]], colour: Colour) -> String {
        let mut out = Vec::new();
        let mut guard = Guard::new(&mut out, colour);
        for piece in pieces {
            guard.write_all(piece).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn promise_12_a_terminal_gets_nothing_but_text_and_colours() {
        let hostile =
            "\u{1b}[1merror\u{1b}[0m: \u{1b}[2J\u{1b}[5Aä\u{1b}]0;t\u{7}\rb\u{9b}0m\u{202e}\n";
        let styled = "\u{1b}[1merror\u{1b}[0m: ä\nb\n";
        assert_eq!(guarded(&[hostile.as_bytes()], Colour::Styled), styled);
        assert_eq!(
            guarded(&[hostile.as_bytes()], Colour::Plain),
            "error: ä\nb\n"
        );
    }

    #[test]
    fn letters_and_colours_survive_being_written_in_pieces() {
        let text = "\u{1b}[1;31mgrößer\u{1b}[0m 日本\n";
        let bytes = text.as_bytes();
        for cut in 0..bytes.len() {
            let written = guarded(&[&bytes[..cut], &bytes[cut..]], Colour::Styled);
            assert_eq!(written, text, "{cut}");
        }
        let pieces: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(guarded(&pieces, Colour::Styled), text);
    }

    #[test]
    fn promise_12_a_sequence_in_pieces_does_not_get_through_either() {
        for hostile in ["\u{1b}[2J", "\u{1b}]0;t\u{7}", "\u{9b}2J", "\u{1b}c"] {
            let pieces: Vec<_> = hostile.as_bytes().chunks(1).collect();
            let written = guarded(&pieces, Colour::Styled);
            assert!(!written.contains(char::is_control), "{written:?}");
        }
    }

    #[test]
    fn lines_of_ours_can_be_taken_back() {
        let mut out = Vec::new();
        Guard::new(&mut out, Colour::Plain).rewind(3).unwrap();
        assert_eq!(out, b"\x1b[3A\x1b[J");
    }
}
