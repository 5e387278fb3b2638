//! Runs programs of this computer: with a known environment and a limit of time. A failure has their last lines.

use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use mullion_program::Ended;
pub(super) use mullion_program::SYSTEM_PATH as PATH;
use mullion_wire::text::one_line;
use serde::de::DeserializeOwned;

use crate::error::DriverError;

/// How many lines of a failed program are told.
const TAIL: usize = 5;

/// A program with an environment that holds nothing but the path.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().env("PATH", PATH);
    command
}

/// Runs a program to its end and gives what it wrote.
pub(super) fn run(name: &str, args: &[&str]) -> Result<String, DriverError> {
    run_with(name, args, "")
}

/// The same, with something to read.
pub(super) fn run_with(name: &str, args: &[&str], input: &str) -> Result<String, DriverError> {
    #[cfg(test)]
    if let Some(played) = play::answer(name, args) {
        return played;
    }
    let limit = limit(name);
    let ended = mullion_program::run(program(name).args(args), input.as_bytes(), limit)
        .map_err(|error| not_started(name, error))?;
    let exited = match ended {
        Ended::Exited(exited) => exited,
        Ended::TooSlow(limit) => {
            return Err(DriverError::TooSlow {
                command: shown(name, args),
                limit,
            });
        }
        Ended::Cancelled => return Err(DriverError::CalledOff),
    };
    let failed = |tail: String| DriverError::Program {
        command: shown(name, args),
        tail,
    };
    if exited.is_cut {
        return Err(failed("it wrote more than can be read".into()));
    }
    if exited.status.success() {
        return Ok(String::from_utf8_lossy(&exited.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&exited.stderr);
    let lines: Vec<_> = errors.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("; ");
    let tail = one_line(&tail).into_owned();
    Err(failed(if tail.is_empty() {
        exited.status.to_string()
    } else {
        tail
    }))
}

/// How long a program may take.
fn limit(name: &str) -> Duration {
    #[cfg(test)]
    if let Some(limit) = play::limit() {
        return limit;
    }
    match name {
        // They wait for services, which have 90 seconds to end.
        "systemctl" | "systemd-run" => Duration::from_mins(5),
        _ => Duration::from_mins(1),
    }
}

/// Runs a program and reads the JSON that it wrote.
pub(super) fn ask<T: DeserializeOwned>(name: &str, args: &[&str]) -> Result<T, DriverError> {
    let text = run(name, args)?;
    // Some programs write nothing at all for an empty list.
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).map_err(|cause| DriverError::Answer {
        command: shown(name, args),
        cause,
    })
}

/// The error of a program that could not be started.
pub(super) fn not_started(name: &str, error: std::io::Error) -> DriverError {
    if error.kind() == ErrorKind::NotFound {
        DriverError::MissingProgram(name.into())
    } else {
        error.into()
    }
}

fn shown(name: &str, args: &[&str]) -> String {
    format!("{name} {}", args.join(" "))
}

/// Programs that a test plays, instead of those of this computer.
#[cfg(test)]
pub(super) mod play {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use crate::error::DriverError;

    type Player = Box<dyn Fn(&str, &[&str]) -> Result<String, DriverError>>;

    thread_local! {
        static LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
        static PLAYER: RefCell<Option<Player>> = const { RefCell::new(None) };
    }

    /// From now on `player` answers for all programs of this thread, which is a test's own.
    pub(in super::super) fn by(
        player: impl Fn(&str, &[&str]) -> Result<String, DriverError> + 'static,
    ) {
        PLAYER.set(Some(Box::new(player)));
    }

    /// From now on programs of this thread have this long.
    pub(super) fn within(limit: Duration) {
        LIMIT.set(Some(limit));
    }

    pub(super) fn limit() -> Option<Duration> {
        LIMIT.get()
    }

    pub(super) fn answer(name: &str, args: &[&str]) -> Option<Result<String, DriverError>> {
        PLAYER.with_borrow(|player| Some(player.as_ref()?(name, args)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_its_last_words() {
        let error = run("sh", &["-c", "echo first >&2; echo last >&2; exit 3"]).unwrap_err();
        assert!(
            error.to_string().ends_with("failed: first; last"),
            "{error}"
        );
        let silent = run("sh", &["-c", "exit 3"]).unwrap_err();
        assert!(silent.to_string().contains("exit status: 3"), "{silent}");
    }

    #[test]
    fn promise_08_a_program_that_hangs_is_named_with_its_limit() {
        play::within(Duration::from_millis(100));
        let error = run("sh", &["-c", "sleep 50"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c sleep 50` did not end within 0.1 s and was ended"
        );
        assert!(error.hint().is_some());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run("no-such-program-here", &[]).unwrap_err();
        assert!(
            matches!(error, DriverError::MissingProgram(name) if name == "no-such-program-here")
        );
    }

    #[test]
    fn an_empty_answer_is_an_empty_list() {
        assert!(ask::<Vec<u8>>("true", &[]).unwrap().is_empty());
        assert!(ask::<Vec<u8>>("echo", &["{"]).is_err());
    }
}
