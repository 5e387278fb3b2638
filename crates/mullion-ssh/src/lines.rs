//! Bytes as they come, lines as they are wanted.

use mullion_wire::text::one_line;

use crate::limits;

/// Puts lines together from pieces of any size.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    /// Bytes of the line that are too many.
    left_out: usize,
}

impl Lines {
    /// Takes the next bytes, and hands on every line that they end.
    pub fn take(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&str)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            self.hand_on(on_line);
            rest = &rest[end + 1..];
        }
        self.add(rest);
    }

    /// Hands on what is left when nothing more comes: a last line without an end.
    pub fn finish(&mut self, on_line: &mut dyn FnMut(&str)) {
        if !self.begun.is_empty() {
            self.hand_on(on_line);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = limits::LINE - self.begun.len();
        let taken = bytes.len().min(room);
        self.begun.extend_from_slice(&bytes[..taken]);
        self.left_out += bytes.len() - taken;
    }

    fn hand_on(&mut self, on_line: &mut dyn FnMut(&str)) {
        if self.left_out > 0 {
            let cut = String::from_utf8_lossy(&self.begun);
            on_line(&format!(
                "{}… ({} bytes left out)",
                one_line(&cut),
                self.left_out
            ));
        } else {
            let line = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
            on_line(&one_line(&String::from_utf8_lossy(line)));
        }
        self.begun.clear();
        self.left_out = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut keep = |line: &str| found.push(line.to_owned());
        for piece in pieces {
            lines.take(piece, &mut keep);
        }
        lines.finish(&mut keep);
        found
    }

    #[test]
    fn lines_are_whole_wherever_the_pieces_were_cut() {
        let text = b"one\ntwo\n\nthree \xc3\xa4\nfour";
        let whole = split(&[text]);
        assert_eq!(whole, ["one", "two", "", "three ä", "four"]);
        for cut in 0..text.len() {
            assert_eq!(split(&[&text[..cut], &text[cut..]]), whole);
        }
    }

    #[test]
    fn an_ended_last_line_gives_no_empty_one() {
        assert_eq!(split(&[b"one\n"]), ["one"]);
        assert!(split(&[b""]).is_empty());
    }

    #[test]
    fn a_carriage_return_before_the_end_is_no_part_of_the_line() {
        assert_eq!(split(&[b"one\r", b"\ntwo\r\n"]), ["one", "two"]);
    }

    #[test]
    fn what_is_not_utf_8_is_marked_and_does_not_spread() {
        assert_eq!(split(&[b"a\xffb\nc\n"]), ["a\u{fffd}b", "c"]);
    }

    #[test]
    fn promise_12_lines_of_a_machine_have_no_control_sequences() {
        assert_eq!(
            split(&[b"a\x1b[2J\x1b]0;t", b"\x07b\rc\n\xe2\x80\xaed\x9be\n"]),
            ["ab c", "d\u{fffd}e"]
        );
    }

    #[test]
    fn a_line_without_end_is_cut_and_says_so() {
        let piece = vec![b'x'; limits::LINE / 2 + 1];
        let found = split(&[&piece, &piece, b"yz\nnext\n"]);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].ends_with("x… (4 bytes left out)"),
            "{}",
            found[0].len()
        );
        assert_eq!(found[1], "next");
    }
}
