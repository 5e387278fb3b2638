//! What is wrong with a file, as a value.
//!
//! A finding names the rule that was broken, the place, the cause and the remedy. Rendering it with
//! the line and a caret is [`crate::render`]'s work.

use serde::Serialize;

use crate::rules::Rule;
use crate::source::{Path, Span};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing can be done with the file until it is mended.
    Error,
    /// It works, but probably not as meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// Where in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A value.
    Value(Path),
    /// The key of a value.
    Key(Path),
    /// Some text that is not a value of its own.
    Span(Span),
}

impl Place {
    /// The value it is about, where it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Value(path) | Self::Key(path) => Some(path),
            Self::File | Self::Span(_) => None,
        }
    }
}

impl From<Path> for Place {
    fn from(path: Path) -> Self {
        Self::Value(path)
    }
}

/// One mistake, or one thing worth knowing.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// How bad it is here; the rule says how bad it usually is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What stands at the caret.
    pub label: Option<String>,
    /// Other places that take part, each with its label.
    pub also: Vec<(Place, String)>,
    /// What to do about it, each one action.
    pub hints: Vec<String>,
}

impl Finding {
    /// A breach of a rule at a place, with the rule's own words until better ones are given.
    pub fn new(rule: &'static Rule, place: impl Into<Place>) -> Self {
        Self {
            rule,
            severity: rule.severity,
            place: place.into(),
            message: rule.title.into(),
            label: None,
            also: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// What is wrong here.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// What stands at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Another place that takes part.
    #[must_use]
    pub fn also(mut self, place: impl Into<Place>, label: impl Into<String>) -> Self {
        self.also.push((place.into(), label.into()));
        self
    }

    /// One thing to do about it. Without any, the rule's general remedy is shown.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Less or more severe than the rule usually is.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// What to do about it: the hints given, or the rule's general remedy.
    pub fn remedies(&self) -> Vec<&str> {
        if self.hints.is_empty() {
            vec![self.rule.remedy]
        } else {
            self.hints.iter().map(String::as_str).collect()
        }
    }
}

/// More mistakes than anyone reads; the limit keeps a file of another kind from taking minutes.
pub const MOST_FINDINGS: usize = 1000;

/// What was found about one file, as far as anyone reads it; the rest is only counted.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    said: Vec<Finding>,
    left_unsaid: usize,
    /// How many of those said are no errors, and so give way to one.
    milder: usize,
}

impl Findings {
    /// Adds a finding while there is room.
    pub fn push(&mut self, finding: Finding) {
        let is_error = finding.severity == Severity::Error;
        if self.said.len() >= MOST_FINDINGS {
            self.left_unsaid += 1;
            if !is_error || self.milder == 0 {
                return;
            }
            // Warnings alone must never make a broken file look sound.
            let mut said = self.said.iter();
            if let Some(milder) = said.rposition(|said| said.severity != Severity::Error) {
                self.said.remove(milder);
                self.milder -= 1;
            }
        }
        self.milder += usize::from(!is_error);
        self.said.push(finding);
    }

    /// Adds an error, which is not even put into words once there is no room.
    pub fn push_error(&mut self, error: impl FnOnce() -> Finding) {
        if self.said.len() >= MOST_FINDINGS && self.milder == 0 {
            self.left_unsaid += 1;
        } else {
            self.push(error());
        }
    }

    /// The findings, in the order they were made.
    pub fn said(&self) -> &[Finding] {
        &self.said
    }

    /// How many more there are.
    pub fn left_unsaid(&self) -> usize {
        self.left_unsaid
    }

    /// The findings themselves.
    pub fn into_said(self) -> Vec<Finding> {
        self.said
    }
}

impl From<Finding> for Findings {
    fn from(finding: Finding) -> Self {
        let mut findings = Self::default();
        findings.push(finding);
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::shape as rule;

    #[test]
    fn an_error_takes_the_place_of_a_warning_when_there_is_no_room() {
        let mut findings = Findings::default();
        let make = |severity| Finding::new(&rule::BAD_VALUE, Path::top()).severity(severity);
        for _ in 0..MOST_FINDINGS + 5 {
            findings.push(make(Severity::Warning));
        }
        findings.push(make(Severity::Error));
        assert_eq!(findings.left_unsaid(), 6);
        assert_eq!(findings.said().len(), MOST_FINDINGS);
        let errors = findings.said().iter();
        let errors = errors.filter(|said| said.severity == Severity::Error);
        assert_eq!(errors.count(), 1);
    }
}
