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
