//! What a command gave, and a command that still runs.

use std::fmt::{self, Display, Formatter};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// What a command gave.
#[must_use]
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) line: String,
    /// Its exit code; one that was ended by a signal has that signal's number below zero.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Ran {
    /// It ended with that code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "not the wanted exit code\n{self}");
        self
    }

    /// It did what it should.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        self.code(0)
    }

    /// Both streams have all of these words together.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            let is_said = self.out.contains(word) || self.err.contains(word);
            assert!(is_said, "`{word}` is not said\n{self}");
        }
        self
    }

    /// The document that it wrote.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("no JSON: {error}\n{self}"))
    }
}

impl Display for Ran {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "$ {}   # {} after {:?}",
            self.line, self.code, self.took
        )?;
        writeln!(out, "{}{}", self.out, self.err)
    }
}

/// A command that runs. What it writes goes to files, so that nobody waits for a reader.
pub(crate) struct Running {
    child: Child,
    line: String,
    out: PathBuf,
    err: PathBuf,
    began: Instant,
}

impl Running {
    /// Starts a command; `files` is the beginning of the names of its two files.
    pub(crate) fn start(command: &mut Command, files: &str) -> Self {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy())
            .collect();
        let line = words.join(" ");
        let out = PathBuf::from(format!("{files}.out"));
        let err = PathBuf::from(format!("{files}.err"));
        let create = |path: &PathBuf| fs_err::File::create(path).unwrap().into_parts().0;
        command.stdout(create(&out)).stderr(create(&err));
        let child = command.spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("`{line}` did not start: {error}")),
            line,
            out,
            err,
            began: Instant::now(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it wrote to standard error so far.
    pub(crate) fn err(&self) -> String {
        read(&self.err)
    }

    /// What it wrote to standard output so far.
    pub(crate) fn out(&self) -> String {
        read(&self.out)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// What came of it. One that does not end in that time is killed, and the test with it.
    #[track_caller]
    pub(crate) fn end(self, patience: Duration) -> Ran {
        let ran = self.wait(patience);
        ran.unwrap_or_else(|ran| panic!("it did not end within {patience:?}\n{ran}"))
    }

    /// What came of it; as an error, of one that did not end in that time and was killed.
    pub(crate) fn wait(mut self, patience: Duration) -> Result<Ran, Ran> {
        let mut status = None;
        while status.is_none() && self.began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(10));
            status = self.child.try_wait().unwrap();
        }
        let signal = |status: std::process::ExitStatus| status.signal().map(|signal| -signal);
        let code = status.and_then(|status| status.code().or_else(|| signal(status)));
        let ran = Ran {
            line: self.line.clone(),
            code: code.unwrap_or(i32::MIN),
            out: self.out(),
            err: self.err(),
            took: self.began.elapsed(),
        };
        if status.is_some() { Ok(ran) } else { Err(ran) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is as wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &PathBuf) -> String {
    let bytes = fs_err::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a program of this computer, which must succeed, and gives what it wrote.
#[track_caller]
pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("`{program}` did not start: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`{program} {}` ended with {}\n{text}{err}",
        arguments.join(" "),
        output.status
    );
    text
}
