//! A unified diff of two texts, for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use mullion_spec::render::Colour;
use mullion_wire::text::visible;
use similar::{ChangeTag, TextDiff};

use crate::console::{BAD, FAINT, GOOD, STRONG};

/// Lines around a change.
const CONTEXT: usize = 3;
/// A longer search for the shortest diff of two texts is ended: what is shown then is longer, and as true.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where a part of a text begins.
const PLACE: Style = AnsiColor::Cyan.on_default();

/// One side of a diff.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextSide<'a> {
    /// What stands behind `---` or `+++`.
    pub(super) header: &'a str,
    pub(super) text: &'a str,
}

/// Text in a style, where styles are shown.
pub(super) fn painted(colour: Colour, style: Style, text: &str) -> String {
    match colour {
        Colour::Styled => format!("{style}{text}{style:#}"),
        Colour::Plain => text.to_owned(),
    }
}

/// A line with everything visible that a terminal would obey or hide. Tabs stay: they are usual in files.
pub(super) fn shown(line: &str) -> Cow<'_, str> {
    let is_plain = |part: &str| matches!(visible(part), Cow::Borrowed(_));
    if line.split('\t').all(is_plain) {
        Cow::Borrowed(line)
    } else {
        visible(line)
    }
}

/// The unified diff of two texts, each line ended; nothing where they are the same.
pub(super) fn unified(now: TextSide<'_>, after: TextSide<'_>, colour: Colour) -> String {
    let mut out = String::new();
    let mut line = |style: Option<Style>, text: &str| {
        let text = match style {
            Some(style) => painted(colour, style, text),
            None => text.to_owned(),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(now.text, after.text);
    let mut unified = diff.unified_diff();
    unified.context_radius(CONTEXT);
    for (place, hunk) in unified.iter_hunks().enumerate() {
        if place == 0 {
            line(Some(STRONG), &format!("--- {}", shown(now.header)));
            line(Some(STRONG), &format!("+++ {}", shown(after.header)));
        }
        line(Some(PLACE), &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', Some(BAD)),
                ChangeTag::Insert => ('+', Some(GOOD)),
                ChangeTag::Equal => (' ', None),
            };
            // A line may end with a carriage return of its own, which is shown.
            let value = change.value();
            let value = value.strip_suffix('\n').unwrap_or(value);
            line(style, &format!("{sign}{}", shown(value)));
            if change.missing_newline() {
                line(Some(FAINT), "\\ No newline at end of file");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(now: &str, after: &str, colour: Colour) -> String {
        let side = |header, text| TextSide { header, text };
        unified(side("a (now)", now), side("a (after)", after), colour)
    }

    #[test]
    fn a_change_has_three_lines_around_it_and_others_are_left_out() {
        let lines: Vec<_> = (1..=20).map(|number| format!("line {number}\n")).collect();
        let before = lines.concat();
        let after = before.replace("line 10\n", "line ten\n");
        assert_eq!(
            of(&before, &after, Colour::Plain),
            "--- a (now)\n+++ a (after)\n@@ -7,7 +7,7 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n \
             line 11\n line 12\n line 13\n"
        );
        assert_eq!(of(&before, &before, Colour::Plain), "");
    }

    #[test]
    fn a_last_line_without_an_end_is_told() {
        assert_eq!(
            of("a\n", "a", Colour::Plain),
            "--- a (now)\n+++ a (after)\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"
        );
        assert_eq!(
            of("", "a\n", Colour::Plain),
            "--- a (now)\n+++ a (after)\n@@ -0,0 +1 @@\n+a\n"
        );
    }

    #[test]
    fn promise_12_a_diff_shows_what_a_terminal_would_obey() {
        let told = of(
            "same\ttab\n",
            "\u{1b}[2Jsame\ttab\r\n\u{202e}x\n",
            Colour::Plain,
        );
        assert!(told.contains("\n-same\ttab\n"), "{told}");
        assert!(told.contains(r"+$'\x1b[2Jsame\ttab\r'"), "{told}");
        assert!(told.contains(r"+$'\u202ex'"), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains('\r'), "{told}");
    }

    #[test]
    fn colours_come_only_where_they_are_wanted() {
        let styled = of("a\n", "b\n", Colour::Styled);
        assert!(styled.contains(&format!("{BAD}-a{BAD:#}")), "{styled}");
        assert!(styled.contains(&format!("{GOOD}+b{GOOD:#}")), "{styled}");
        assert!(!of("a\n", "b\n", Colour::Plain).contains('\u{1b}'));
    }
}
