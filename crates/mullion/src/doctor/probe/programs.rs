//! Asks other programs: without a shell, and never longer than a deadline.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often a running program is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The most that is kept of what a program says.
const MOST: u64 = 4 << 20;

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
/// The contract: a call returns at the deadline at the latest, and nothing that it started outlives it.
pub(in super::super) trait Programs {
    fn ask(&self, question: &Question<'_>) -> Answer;
}

/// The programs of this computer.
pub(in super::super) struct RealPrograms;

impl Programs for RealPrograms {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let started = Command::new(question.program)
            .args(question.arguments)
            .envs(question.environment)
            // What is read by us must not depend on the user's language.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that what it starts can be ended with it.
            .process_group(0)
            .spawn();
        match started {
            Ok(child) => wait(child, question.deadline),
            Err(error) => Answer::NotStarted(error.to_string()),
        }
    }
}

fn wait(mut child: Child, deadline: Duration) -> Answer {
    // Both streams are read while it runs: a full pipe would stop it.
    let output = read_aside(child.stdout.take());
    let complaint = read_aside(child.stderr.take());
    let end = Instant::now() + deadline;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let has_ended = loop {
        if pid.is_none_or(has_ended) {
            break true;
        }
        if Instant::now() >= end {
            break false;
        }
        thread::sleep(PAUSE);
    };
    // Also after a good end: something left behind in its group would hold the streams open. The program is not
    // reaped before, so that its number cannot belong to anybody else by now.
    if let Some(group) = pid {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().ok().filter(|_| has_ended);
    let [output, complaint] = [output, complaint].map(|reader| reader.join().unwrap_or_default());
    match status {
        Some(status) => Answer::Exited {
            status: status.code(),
            output,
            complaint,
        },
        None => Answer::TooSlow,
    }
}

/// Whether a program has ended, without reaping it. One that cannot be asked about is waited for no longer.
fn has_ended(pid: Pid) -> bool {
    let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), only_look), Ok(None))
}

fn read_aside(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What cannot be read any more is left out; the exit status decides.
            let _ = stream.by_ref().take(MOST).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
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
