//! Programs of this computer: started with a known environment, their failures told with their last lines.

use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use mullion_wire::text::one_line;
use serde::de::DeserializeOwned;

use crate::error::DriverError;

/// Where this computer's programs are, whoever calls us with whatever environment.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    let mut child = program(name)
        .args(args)
        // What a terminal sends when somebody presses Ctrl-C is for us alone: a change that was begun is ended.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(name, error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read on tells why by its exit.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = errors.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("; ");
    let tail = one_line(&tail).into_owned();
    Err(DriverError::Program {
        command: shown(name, args),
        tail: if tail.is_empty() {
            output.status.to_string()
        } else {
            tail
        },
    })
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
    use std::cell::RefCell;

    use crate::error::DriverError;

    type Player = Box<dyn Fn(&str, &[&str]) -> Result<String, DriverError>>;

    thread_local! {
        static PLAYER: RefCell<Option<Player>> = const { RefCell::new(None) };
    }

    /// From now on `player` answers for all programs of this thread, which is a test's own.
    pub(in super::super) fn by(
        player: impl Fn(&str, &[&str]) -> Result<String, DriverError> + 'static,
    ) {
        PLAYER.set(Some(Box::new(player)));
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
