//! Findings as a person reads them: the line, a caret, the cause, the remedy.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

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

/// All findings, one below the other, each as `rustc` would show it.
pub fn render(verdict: &Verdict, colour: Colour) -> String {
    let renderer = match colour {
        Colour::Styled => Renderer::styled(),
        Colour::Plain => Renderer::plain(),
    }
    .decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for located in &verdict.findings {
        text.push_str(&renderer.render(&[group(located, &verdict.source)]));
        text.push_str("\n\n");
    }
    text
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
        Some(span) => title.element(snippet(located, span, source)),
    };
    for remedy in finding.remedies() {
        group = group.element(Level::HELP.message(remedy));
    }
    group
}

/// The lines from the first place to the last; those between that say nothing are folded.
fn snippet<'a>(
    located: &'a Located,
    span: Span,
    source: &'a Source,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let also = located.also.iter().map(|(span, _)| *span);
    let whole = also.fold(span, |whole, span| Span {
        start: whole.start.min(span.start),
        end: whole.end.max(span.end),
    });
    let (line, start, text) = source.lines_of(whole);
    let range = |span: Span| {
        let from = span.start.saturating_sub(start).min(text.len());
        from..span.end.saturating_sub(start).clamp(from, text.len())
    };
    let main = AnnotationKind::Primary
        .span(range(span))
        .label(located.finding.label.as_deref());
    let also = located.also.iter().map(|(span, label)| {
        AnnotationKind::Context
            .span(range(*span))
            .label(label.as_str())
    });
    Snippet::source(text)
        .path(source.name())
        .line_start(line)
        .annotation(main)
        .annotations(also)
}
