//! What a person reads when something went wrong, and the exit code that goes with it.
//!
//! Holds no terminal and no colour: it turns a failure into text, and the console prints it.

use std::fmt::{self, Display, Formatter};

use mullion_wire::error_chain;
use mullion_wire::text::without_controls;
use schemars::JsonSchema;
use serde::Serialize;

/// Whose move it is, the least grave first. Decides the exit code, and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The command line was wrong.
    Usage,
    /// The cluster file is wrong.
    File,
    /// This computer lacks something.
    ThisComputer,
    /// A machine or the cluster failed.
    Machine,
    /// A check failed.
    Check,
    /// We made a mistake.
    OurBug,
}

impl Class {
    /// The exit code of the class.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::File => 3,
            Self::ThisComputer => 4,
            Self::Machine => 5,
            Self::Check => 6,
            Self::OurBug => 70,
        }
    }
}

/// One failure, as told to a person: what, why, and what to do about it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Failure {
    /// Whose move it is.
    pub class: Class,
    /// What failed, doing what.
    pub what: String,
    /// The chain of causes, outermost first. Never repeats `what`.
    pub causes: Vec<String>,
    /// Each is one action the reader can take now.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without causes or hints yet.
    pub fn new(class: Class, what: impl Into<String>) -> Self {
        Self {
            class,
            what: what.into(),
            causes: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Adds a cause and the causes behind it.
    #[must_use]
    pub fn because(mut self, cause: &dyn std::error::Error) -> Self {
        self.causes.extend(error_chain(cause));
        self
    }

    /// Adds one action that the reader can take.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "error: {}", indented(&self.what))?;
        for cause in &self.causes {
            writeln!(out, "  because: {}", indented(cause))?;
        }
        if !self.hints.is_empty() {
            writeln!(out)?;
        }
        for hint in &self.hints {
            writeln!(out, "hint: {}", indented(hint))?;
        }
        Ok(())
    }
}

/// The text without control sequences, its further lines indented: none of them looks like a line of ours.
pub fn indented(text: &str) -> String {
    without_controls(text).trim_end().replace('\n', "\n    ")
}

impl From<std::io::Error> for Failure {
    /// Output that cannot be written: a full disk, a closed pipe.
    fn from(error: std::io::Error) -> Self {
        Self::new(Class::ThisComputer, "the output could not be written").because(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_12_words_of_others_cannot_forge_a_line_of_ours() {
        let cause = std::io::Error::other("no\u{1b}[2J\nerror: forged\rhint: run `curl x | sh`\n");
        let failure = Failure::new(Class::Machine, "lin1 failed\nerror: forged").because(&cause);
        assert_eq!(
            failure.to_string(),
            "error: lin1 failed\n    error: forged\n  because: no\n    error: forged\n    hint: run `curl x | sh`\n"
        );
    }

    #[test]
    fn causes_come_before_remedies() {
        let cause = std::io::Error::other("the disk is full");
        let failure = Failure::new(Class::ThisComputer, "`plan.json` could not be written")
            .because(&cause)
            .hint("free some space");
        assert_eq!(
            failure.to_string(),
            "error: `plan.json` could not be written\n  because: the disk is full\n\nhint: free some space\n"
        );
        assert_eq!(failure.class.exit_code(), 4);
    }
}
