//! Findings about a file, for people and for programs.

use mullion_spec::draft::{Located, Verdict};
use mullion_spec::finding::Severity;
use mullion_spec::source::Position;
use schemars::JsonSchema;
use serde::Serialize;

/// What `validate` found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// The file, as it was named.
    pub file: String,
    /// Whether it can be used.
    pub sound: bool,
    /// How many errors there are.
    pub errors: usize,
    /// How many warnings there are.
    pub warnings: usize,
    /// How many notes there are.
    pub notes: usize,
    /// Everything that was found: errors first, then by place.
    pub findings: Vec<FindingRow>,
    /// How many more there are, which are not listed.
    pub left_unsaid: usize,
}

/// One finding.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingRow {
    /// The rule's code.
    pub code: &'static str,
    /// The rule's name.
    pub name: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// What is wrong.
    pub message: String,
    /// The value it is about, such as `machines[0].count`.
    pub path: Option<String>,
    /// Where it is; none when it is about the file as a whole.
    pub place: Option<PlaceRow>,
    /// What stands at the place.
    pub label: Option<String>,
    /// Other places that take part.
    pub also: Vec<PlaceRow>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// A place in a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaceRow {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, counted in characters.
    pub column: usize,
    /// The line of its end.
    pub end_line: usize,
    /// The column after its end.
    pub end_column: usize,
    /// What takes part there.
    pub label: Option<String>,
}

impl Validation {
    /// The JSON form of a verdict.
    pub fn new(verdict: &Verdict) -> Self {
        let errors = verdict.count(Severity::Error);
        Self {
            file: verdict.source.name().into(),
            sound: errors == 0,
            errors,
            warnings: verdict.count(Severity::Warning),
            notes: verdict.count(Severity::Note),
            findings: verdict.findings.iter().map(row).collect(),
            left_unsaid: verdict.left_unsaid,
        }
    }
}

fn row(located: &Located) -> FindingRow {
    let place = |from: Position, until: Position, label: Option<&str>| PlaceRow {
        line: from.line,
        column: from.column,
        end_line: until.line,
        end_column: until.column,
        label: label.map(Into::into),
    };
    let whole = located.position.zip(located.until);
    let finding = &located.finding;
    FindingRow {
        code: finding.rule.code,
        name: finding.rule.name,
        severity: word(finding.severity),
        message: finding.message.clone(),
        path: finding.place.path().map(ToString::to_string),
        place: whole.map(|(from, until)| place(from, until, None)),
        label: finding.label.clone(),
        also: located
            .also
            .iter()
            .map(|part| place(part.from, part.until, Some(&part.label)))
            .collect(),
        hints: finding.remedies().into_iter().map(Into::into).collect(),
    }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// How many there are of each, in words: `2 errors, 1 warning`.
pub fn tally(verdict: &Verdict) -> String {
    let parts: Vec<_> = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ]
    .into_iter()
    .filter_map(|(severity, noun)| {
        let count = verdict.count(severity);
        (count > 0).then(|| plural(count, noun))
    })
    .collect();
    let more = match verdict.left_unsaid {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    parts.join(", ") + &more
}

/// A number with its noun.
pub fn plural(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
