//! Why a command of xtask stopped.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::steps;

/// Why a command of xtask stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XtaskError {
    /// A named step of a longer command failed; the steps after it did not run.
    #[error("step `{name}` failed after {}", steps::seconds(*.took))]
    Step {
        /// The step, as its heading named it.
        name: &'static str,
        /// How long it ran.
        took: Duration,
        /// What failed in it.
        #[source]
        cause: Box<XtaskError>,
    },
    /// A program is missing or cannot be run.
    #[error("`{command}` could not be started")]
    Start {
        /// The program and its arguments.
        command: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A program ran and did not succeed. What it printed is above.
    #[error("`{command}` ended with {status}")]
    Ended {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A program's answer could not be understood.
    #[error("`{command}` gave an answer that cannot be read: {detail}")]
    Answer {
        /// The program and its arguments.
        command: String,
        /// What was looked for.
        detail: String,
    },
    /// A file could not be read or written. The cause names it.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Generated files are not what their generators give.
    #[error("not up to date: {}", .0.join(", "))]
    Drift(Vec<String>),
    /// Figures are above their limits.
    #[error("over the limit: {}", .0.join(", "))]
    OverLimit(Vec<String>),
    /// Figures that have a limit are not there.
    #[error("not measured: {}", .0.join(", "))]
    NotMeasured(Vec<String>),
    /// Machines were to be made by a user other than root.
    #[error("making machines needs root")]
    NeedsRoot,
    /// A program that was handed over to has failed, and has said why.
    #[error("told already")]
    Told,
    /// `bench --case` was given a name that is not in the table.
    #[error("there is no case `{0}`")]
    NoSuchCase(String),
    /// Something that a test is made of could not be had.
    #[error("{what} could not be had")]
    Part {
        /// What it is.
        what: &'static str,
        /// Why.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The cache lacks a program that a test runs.
    #[error("the cache has no {0}")]
    NotCached(String),
    /// No cluster is made of a program that a test runs.
    #[error("the built-in cluster has no `{0}` for Windows")]
    NotWanted(&'static str),
    /// A file that is ours is refused.
    #[error("{0} is refused")]
    NoModel(&'static str),
    /// Neither the variable nor a home folder says where cargo keeps its programs.
    #[error(
        "cargo's own folder cannot be found: `CARGO_HOME` is not set and there is no home folder"
    )]
    NoCargoHome,
}

impl XtaskError {
    pub(crate) fn part(what: &'static str, cause: impl Error + Send + Sync + 'static) -> Self {
        Self::Part {
            what,
            cause: Box::new(cause),
        }
    }

    /// What the reader can do now, if there is one thing to do.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Step { cause, .. } => cause.hint(),
            Self::Start { .. } => Some("install the program or put it on `PATH`".into()),
            Self::Ended { command, .. } => Some(format!("run it alone: `{command}`")),
            Self::Drift(_) => Some("run `cargo xtask gen` and commit what it writes".into()),
            Self::OverLimit(_) => {
                Some("run it again on an idle computer before looking for a cause".into())
            }
            Self::NeedsRoot => Some(
                "run it with sudo; of the figures, `cargo xtask bench --no-clusters` needs no root"
                    .into(),
            ),
            Self::NoCargoHome => Some("set `CARGO_HOME`".into()),
            Self::NotCached(_) => {
                Some("run `mullion artifacts fetch` in a folder without a cluster file".into())
            }
            Self::Answer { .. }
            | Self::File(_)
            | Self::NoModel(_)
            | Self::NoSuchCase(_)
            | Self::NotMeasured(_)
            | Self::NotWanted(_)
            | Self::Part { .. }
            | Self::Told => None,
        }
    }

    /// The failure as told to a person: what, then causes, then a hint. Empty when it was told already.
    pub fn render(&self) -> String {
        if matches!(self, Self::Told) {
            return String::new();
        }
        let mut out = format!("\nerror: {self}\n");
        let mut next = self.source();
        while let Some(cause) = next {
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "  because: {cause}");
            next = cause.source();
        }
        if let Some(hint) = self.hint() {
            let _ = write!(out, "\nhint: {hint}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_itself_its_cause_and_a_remedy() {
        let error = XtaskError::Step {
            name: "generated files",
            took: Duration::from_millis(1250),
            cause: Box::new(XtaskError::Drift(vec![
                "docs/a.md".into(),
                "docs/b.md".into(),
            ])),
        };
        assert_eq!(
            error.render(),
            "\nerror: step `generated files` failed after 1.2 s\n\
             \x20 because: not up to date: docs/a.md, docs/b.md\n\
             \n\
             hint: run `cargo xtask gen` and commit what it writes\n"
        );
    }
}
