//! Findings as a person reads them: the line, a caret, the cause, the remedy.

use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::draft::{Located, Verdict};
use crate::finding::Severity;
use crate::source::{Source, Span};

/// Whether colours may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// They may.
    Styled,
    /// Plain text only.
    Plain,
}

/// How many findings are shown with their lines; the rest is counted.
pub const MOST_SHOWN: usize = 50;
/// How many characters of a line are shown.
const WIDTH: usize = 200;
/// How many of them stand before the place that a finding is about.
const BEFORE: usize = 80;
/// How many lines from the first place to the last are handed over, to be folded where they say nothing.
const MOST_LINES: usize = 200;

/// The findings, one below the other, each as `rustc` would show it, and how many there are beyond.
pub fn render(verdict: &Verdict, colour: Colour) -> String {
    let renderer = match colour {
        Colour::Styled => Renderer::styled(),
        Colour::Plain => Renderer::plain(),
    }
    .decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for located in verdict.findings.iter().take(MOST_SHOWN) {
        let shown = renderer.render(&[group(located, &verdict.source)]);
        let lines = shown.lines().filter(|line| !is_nameless(line));
        for line in lines {
            text.extend(line.chars().map(harmless));
            text.push('\n');
        }
        text.push('\n');
    }
    let more = verdict.findings.len().saturating_sub(MOST_SHOWN) + verdict.left_unsaid;
    if more > 0 {
        let _ = writeln!(text, "and {more} more\n");
    }
    text
}

/// A letter that a terminal only shows. The renderer marks most others by itself and leaves C1 controls of the file, of
/// which U+009B begins a control sequence.
const fn harmless(letter: char) -> char {
    match letter {
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        letter => letter,
    }
}

/// A letter of a text that may quote the file: what steers a terminal becomes a mark.
const fn marked(letter: char) -> char {
    match letter {
        '\n' | '\t' => letter,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        letter => letter,
    }
}

/// Whether a line is the heading of a snippet without a name, which has nothing to say: the renderer
/// writes one below an origin that was given by itself.
fn is_nameless(line: &str) -> bool {
    let mut styles = line.split('\x1b');
    let first = styles.next().unwrap_or_default();
    let rest = styles.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    let text: String = std::iter::once(first).chain(rest).collect();
    text.trim() == ":::"
}

fn group<'a>(located: &'a Located, source: &'a Source) -> Group<'a> {
    let finding = &located.finding;
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(&finding.message).id(finding.rule.code);
    let mut group = match located.span {
        None => title.element(Origin::path(source.name())),
        Some(span) => match snippet(located, span, source) {
            Some(snippet) => title.element(snippet),
            None => windows(Group::with_title(title), located, span, source),
        },
    };
    for remedy in finding.remedies() {
        // The renderer marks controls in titles and lines of the file, and writes help as it is.
        let remedy: String = remedy.chars().map(marked).collect();
        group = group.element(Level::HELP.message(remedy));
    }
    group
}

/// The lines from the first place to the last; those between that say nothing are folded. None where
/// they are too many or too long for anyone to read.
fn snippet<'a>(
    located: &'a Located,
    span: Span,
    source: &'a Source,
) -> Option<Snippet<'a, Annotation<'a>>> {
    let also = located.also.iter().map(|part| part.span);
    let whole = also.fold(span, |whole, span| Span {
        start: whole.start.min(span.start),
        end: whole.end.max(span.end),
    });
    let (line, start, text) = source.lines_of(whole);
    let is_wide = |line: &str| line.len() > WIDTH && line.chars().count() > WIDTH;
    if text.len() > MOST_LINES * WIDTH
        || text.lines().count() > MOST_LINES
        || text.lines().any(is_wide)
    {
        return None;
    }
    let range = |span: Span| {
        let from = span.start.saturating_sub(start).min(text.len());
        from..span.end.saturating_sub(start).clamp(from, text.len())
    };
    let main = AnnotationKind::Primary
        .span(range(span))
        .label(located.finding.label.as_deref());
    let also = located.also.iter().map(|part| {
        AnnotationKind::Context
            .span(range(part.span))
            .label(part.label.as_str())
    });
    let snippet = Snippet::source(text)
        .path(source.name())
        .line_start(line)
        .annotation(main)
        .annotations(also);
    Some(snippet)
}

/// Each place by itself, with as much of its line as fits.
fn windows<'a>(
    mut group: Group<'a>,
    located: &'a Located,
    span: Span,
    source: &'a Source,
) -> Group<'a> {
    let also = located.also.iter().map(|part| {
        (
            AnnotationKind::Context,
            part.span,
            part.from,
            Some(part.label.as_str()),
        )
    });
    let main = located.position.map(|position| {
        (
            AnnotationKind::Primary,
            span,
            position,
            located.finding.label.as_deref(),
        )
    });
    for (kind, span, position, label) in main.into_iter().chain(also) {
        let (text, range) = window(span, source);
        let origin = Origin::path(source.name())
            .line(position.line)
            .char_column(position.column);
        group = group.element(origin).element(
            Snippet::source(text)
                .line_start(position.line)
                .annotation(kind.span(range).label(label)),
        );
    }
    group
}

/// The part of a line round a place, with dots where it was cut, and the place within it.
fn window(span: Span, source: &Source) -> (String, Range<usize>) {
    let first = Span {
        start: span.start,
        end: span.start,
    };
    let (_, line_start, line) = source.lines_of(first);
    let at = (span.start - line_start).min(line.len());
    let before = line.get(..at).unwrap_or("");
    let after = line.get(at..).unwrap_or("");
    let cut_before = before
        .char_indices()
        .rev()
        .nth(BEFORE - 1)
        .map_or(0, |(at, _)| at);
    let cut_after = after
        .char_indices()
        .nth(WIDTH - BEFORE)
        .map_or(after.len(), |(at, _)| at);
    let mut text = String::new();
    if cut_before > 0 {
        text.push('…');
    }
    text.push_str(&before[cut_before..]);
    let from = text.len();
    text.push_str(&after[..cut_after]);
    let until = (from + (span.end - span.start)).clamp(from, text.len());
    if cut_after < after.len() {
        text.push('…');
    }
    (text, from..until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::{Draft, Surroundings};

    fn shown(text: &str) -> String {
        let draft = Draft::read(Source::new("f", text), &Surroundings::default());
        render(&draft.conclude(), Colour::Plain)
    }

    #[test]
    fn promise_12_no_line_of_the_file_steers_a_terminal() {
        let text = "metadata:\u{9b}0m {name: \"a\u{1b}[2J\u{202e}b\u{7f}\"} x\r: 1\n\u{85}";
        let steers = |letter: char| {
            letter.is_control() && letter != '\n' || matches!(letter, '\u{202a}'..='\u{202e}')
        };
        // Help quotes the file too.
        let quoted = "machines:\n- name: win\n  os: windows\n  updates: a\u{16}\u{202e}b\n";
        for text in [text, quoted] {
            let shown = shown(text);
            assert!(!shown.contains(steers), "{shown:?}");
        }
        assert!(shown(quoted).contains("write `[a"), "{}", shown(quoted));
    }

    #[test]
    fn of_a_long_line_a_window_is_shown() {
        let names = "n".repeat(300);
        let text = format!(
            "machines: {{linux: 1}} # {names}\nkubernetes: {{version: \"1.36\", wrong: 1, other: {names}}}\n"
        );
        insta::assert_snapshot!(shown(&text));
    }

    #[test]
    fn places_far_apart_are_shown_each_by_itself() {
        let between = "# \n".repeat(1000);
        let text = format!("kind: Cluster\n{between}kind: Cluster\nmachines: {{linux: 1}}\n");
        insta::assert_snapshot!(shown(&text));
    }

    #[test]
    fn a_file_from_windows_looks_like_any_other() {
        let text = "machines: {linux: 1}\nkind: Clster\nkind: Cluster\n";
        assert_eq!(shown(&text.replace('\n', "\r\n")), shown(text));
    }
}
