//! `mullion catalog`: what works with what, and why.

use mullion_catalog::{Answer, Catalog, Section, Standing};
use mullion_spec::shape::nearest;
use schemars::JsonSchema;
use serde::Serialize;

use crate::arguments::{CatalogArguments, CatalogQuestion};
use crate::console::{BAD, Console, FAINT, Format, GOOD, STRONG, WARN};
use crate::failure::{Class, Failure};

/// The catalog, or a subject of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// What is known, by subject.
    pub sections: Vec<SectionRow>,
}

/// What is known of a subject.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SectionRow {
    /// The subject.
    pub subject: &'static str,
    /// What is known of it.
    pub rows: Vec<FactRow>,
}

/// One thing that is known.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactRow {
    /// What it is about.
    pub name: String,
    /// What is known.
    pub value: String,
    /// Where it was read.
    pub source: String,
    /// `pinned`, or how else its digest is known; none for what has no digest.
    pub digest: Option<&'static str>,
}

/// Answers to a question.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// One for each two things that have to do with each other, and for each thing alone.
    pub answers: Vec<AnswerRow>,
}

/// One answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRow {
    /// `works`, `needs`, `does not work` or `unknown`.
    pub standing: &'static str,
    /// What was asked about.
    pub about: String,
    /// Why.
    pub reason: String,
    /// Where it was read.
    pub source: String,
}

/// Lists the catalog, or answers a question.
pub fn catalog(console: &mut Console<'_>, wishes: &CatalogArguments) -> Result<u8, Failure> {
    match &wishes.question {
        Some(CatalogQuestion::Why { pairs }) => why(console, pairs),
        None => list(console, wishes.subject.as_deref()),
    }
}

fn list(console: &mut Console<'_>, subject: Option<&str>) -> Result<u8, Failure> {
    let sections: Vec<SectionRow> = select(Catalog::builtin().sections(), subject)?
        .into_iter()
        .map(|section| SectionRow {
            subject: section.subject,
            rows: section
                .rows
                .into_iter()
                .map(|row| FactRow {
                    name: row.name,
                    value: row.value,
                    source: row.source,
                    digest: row.digest.map(mullion_catalog::DigestState::word),
                })
                .collect(),
        })
        .collect();
    if console.format == Format::Json {
        console.json("Catalog", &Listing { sections })?;
        return Ok(0);
    }
    for section in &sections {
        let heading = console.styled(STRONG, section.subject);
        writeln!(console.out, "{heading}")?;
        let width = section
            .rows
            .iter()
            .map(|row| row.name.chars().count())
            .max()
            .unwrap_or(0)
            .min(40);
        for row in &section.rows {
            let digest = row
                .digest
                .map(|digest| format!("digest {digest}; "))
                .unwrap_or_default();
            let source = console.styled(FAINT, &format!("({digest}{})", row.source));
            writeln!(
                console.out,
                "  {:<width$}  {}  {source}",
                row.name, row.value
            )?;
        }
        writeln!(console.out)?;
    }
    Ok(0)
}

fn select(sections: Vec<Section>, subject: Option<&str>) -> Result<Vec<Section>, Failure> {
    let Some(subject) = subject else {
        return Ok(sections);
    };
    let known: Vec<&'static str> = sections.iter().map(|section| section.subject).collect();
    let chosen: Vec<_> = sections
        .into_iter()
        .filter(|section| section.subject == subject)
        .collect();
    if chosen.is_empty() {
        let failure = Failure::new(
            Class::Usage,
            format!("the catalog has no subject `{subject}`"),
        );
        return Err(match nearest(subject, known.iter().copied()) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint(format!("the subjects are {}", known.join(", "))),
        });
    }
    Ok(chosen)
}

fn why(console: &mut Console<'_>, pairs: &[(String, String)]) -> Result<u8, Failure> {
    let answers = Catalog::builtin()
        .why(pairs)
        .map_err(|error| Failure::new(Class::Usage, error.to_string()))?;
    if console.format == Format::Json {
        let answers = answers.iter().map(row).collect();
        console.json("Why", &Why { answers })?;
        return Ok(0);
    }
    for answer in &answers {
        let style = match answer.standing {
            Standing::Works => GOOD,
            Standing::DoesNot => BAD,
            Standing::Needs | Standing::Unknown => WARN,
        };
        let standing = console.styled(style, answer.standing.word());
        let source = console.styled(FAINT, &format!("source: {}", answer.source));
        writeln!(
            console.out,
            "{}: {standing}\n  {}\n  {source}",
            answer.about, answer.reason
        )?;
    }
    Ok(0)
}

fn row(answer: &Answer) -> AnswerRow {
    AnswerRow {
        standing: answer.standing.word(),
        about: answer.about.clone(),
        reason: answer.reason.clone(),
        source: answer.source.clone(),
    }
}
