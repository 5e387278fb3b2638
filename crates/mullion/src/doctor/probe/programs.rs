//! Asks other programs: without a shell, and never longer than a deadline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mullion_program::{Ended, SYSTEM_PATH};

/// One call of a program.
pub(in super::super) struct Question<'a> {
    pub(in super::super) program: &'a Path,
    pub(in super::super) arguments: &'a [String],
    /// Set beside what this process has.
    pub(in super::super) environment: &'a BTreeMap<String, String>,
    pub(in super::super) deadline: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Answer {
    Exited {
        /// None where a signal ended it.
        status: Option<i32>,
        output: String,
        /// Standard error.
        complaint: String,
    },
    /// The deadline passed, and it was ended.
    TooSlow,
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// Asks programs.
///
/// The contract: a call returns at the deadline or a moment after, and what it started in its own process group is
/// ended with it. What left the group on purpose (a daemon) lives on and is not waited for.
pub(in super::super) trait Programs {
    fn ask(&self, question: &Question<'_>) -> Answer;
}

/// The programs of this computer.
pub(in super::super) struct RealPrograms;

impl Programs for RealPrograms {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let is_for_invoker = mullion_rights::invoker().is_some();
        // A link on the way may lead elsewhere a moment later: what is judged is what runs.
        let program = if is_for_invoker {
            straight(question.program)
        } else {
            question.program.to_owned()
        };
        let mut command = Command::new(&program);
        command
            .args(question.arguments)
            .envs(question.environment)
            // What is read by us must not depend on the user's language.
            .env("LC_ALL", "C");
        if is_for_invoker {
            // Who asked for root does not say which programs root runs.
            command.env("PATH", SYSTEM_PATH);
            let folder = program.parent();
            if !folder.is_some_and(mullion_rights::belongs_to_root) {
                mullion_rights::lower_to_invoker(&mut command);
            }
        }
        match mullion_program::run(&mut command, b"", question.deadline) {
            Ok(Ended::Exited(exited)) => Answer::Exited {
                status: exited.status.code(),
                output: String::from_utf8_lossy(&exited.stdout).into_owned(),
                complaint: String::from_utf8_lossy(&exited.stderr).into_owned(),
            },
            Ok(Ended::TooSlow(_) | Ended::Cancelled) => Answer::TooSlow,
            Err(error) => Answer::NotStarted(error.to_string()),
        }
    }
}

/// The program by the folder that it is really in. Its own name stays: some programs do what their name says.
fn straight(program: &Path) -> PathBuf {
    let real = program.parent().map(fs_err::canonicalize);
    match (real, program.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn ask(program: &str, arguments: &[&str], deadline: Duration) -> Answer {
        let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
        RealPrograms.ask(&Question {
            program: Path::new(program),
            arguments: &arguments,
            environment: &BTreeMap::from([("GIVEN".to_owned(), "here".to_owned())]),
            deadline,
        })
    }

    #[test]
    fn a_program_is_ended_at_its_deadline_with_what_it_started() {
        let begin = Instant::now();
        let answer = ask(
            "/bin/sh",
            &["-c", "sleep 60 & sleep 60"],
            Duration::from_millis(50),
        );
        assert_eq!(answer, Answer::TooSlow);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn status_and_both_streams_come_back() {
        let script = "echo $GIVEN $LC_ALL; echo no >&2; exit 3";
        let answer = ask("/bin/sh", &["-c", script], Duration::from_secs(30));
        let (output, complaint) = ("here C\n".to_owned(), "no\n".to_owned());
        assert_eq!(
            answer,
            Answer::Exited {
                status: Some(3),
                output,
                complaint
            }
        );
        assert!(matches!(
            ask("/no/such/program", &[], Duration::ZERO),
            Answer::NotStarted(_)
        ));
    }
}
