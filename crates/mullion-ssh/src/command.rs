//! Commands, and what comes of them.

use std::fmt::{self, Debug, Display, Formatter};
use std::time::Duration;

use mullion_wire::Sha256Digest;

use crate::quote::joined;

/// A command for a machine. It reaches the program as it stands here: no shell ever reads its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program, by path or by name.
    pub program: String,
    /// Its arguments. Everybody on the machine can read them: secrets belong into `stdin`.
    pub args: Vec<String>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may take; as long as it likes when nothing is said.
    pub deadline: Option<Duration>,
}

/// What a command reads from its standard input.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// Nothing: it is at its end at once.
    #[default]
    Empty,
    /// These bytes, then the end. They are never shown.
    Bytes(Vec<u8>),
}

impl Debug for Stdin {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("Empty"),
            Self::Bytes(bytes) => write!(out, "Bytes({} bytes)", bytes.len()),
        }
    }
}

impl Command {
    /// That program, without arguments, that reads nothing.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            stdin: Stdin::Empty,
            deadline: None,
        }
    }

    /// A script for `sh`, with its `$1`, `$2`, ….
    pub fn script<A: Into<String>>(text: &str, args: impl IntoIterator<Item = A>) -> Self {
        Self::new("sh").args(["-c", text, "sh"]).args(args)
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With bytes to read.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// With a time in which it must end.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The words as one line for a POSIX shell.
    pub(crate) fn line(&self) -> String {
        joined(std::iter::once(self.program.as_str()).chain(self.args.iter().map(String::as_str)))
    }
}

/// The longest command that is shown whole.
const SHOWN: usize = 100;

impl Display for Command {
    /// The command in one short line, without what it reads.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let line = self.line().replace('\n', " ");
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(out, "{}…", &line[..end]),
            None => out.write_str(&line),
        }
    }
}

/// Where a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a command ended by itself. Ending otherwise (a signal, a lost connection) is an error, never an `Exit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a status other than 0 is how a command says that it failed"]
pub struct Exit {
    /// What it returned.
    pub status: i32,
}

impl Exit {
    /// Whether it returned 0.
    pub const fn is_success(self) -> bool {
        self.status == 0
    }
}

/// All that a command wrote, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Lines of standard output, each with its end.
    pub out: String,
    /// Lines of standard error, each with its end.
    pub err: String,
}

/// A file as it should be on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Where, absolute. Folders on the way are made.
    pub path: String,
    /// How many bytes.
    pub size: u64,
    /// Their digest.
    pub sha256: Sha256Digest,
    /// Permissions.
    pub mode: u32,
}

/// What putting a file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The machine had it: nothing was sent.
    AlreadyThere,
    /// It was sent, found whole, and put in place.
    Sent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_reads_is_never_shown() {
        let command = Command::new("cat").stdin("hunter2");
        assert!(!format!("{command:?} {command}").contains("hunter2"));
    }

    #[test]
    fn a_long_command_is_shown_short() {
        let command = Command::script(&"é\n".repeat(200), ["a"]);
        let shown = command.to_string();
        assert_eq!(shown.chars().count(), SHOWN + 1);
        assert!(shown.ends_with('…') && !shown.contains('\n'));
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(
            Command::new("echo").args(["a b", "c"]).line(),
            "echo 'a b' c"
        );
        assert_eq!(
            Command::script("exit $1", ["3"]).line(),
            "sh -c 'exit $1' sh 3"
        );
    }
}
