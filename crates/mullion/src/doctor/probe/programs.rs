//! Asks other programs: without a shell, and never longer than a deadline.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often a running program is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The most that is kept of what a program says.
const MOST: usize = 4 << 20;

/// How long the streams of a program that has ended are listened to.
const GRACE: Duration = Duration::from_secs(1);

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
    let last = Instant::now() + GRACE;
    let [output, complaint] = [output, complaint].map(|listener| listener.heard_by(last));
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

/// What a stream has said so far, read on a thread of its own.
struct Listener {
    heard: Arc<Mutex<Vec<u8>>>,
    closed: mpsc::Receiver<()>,
}

impl Listener {
    /// What was said until the stream was closed, or until then. A daemon that left the group may hold the stream
    /// open for good: its thread stays behind, and ends with this process.
    fn heard_by(self, last: Instant) -> String {
        let _ = self
            .closed
            .recv_timeout(last.saturating_duration_since(Instant::now()));
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&heard).into_owned()
    }
}

fn read_aside(stream: Option<impl Read + Send + 'static>) -> Listener {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (tell, closed) = mpsc::channel();
    let kept = Arc::clone(&heard);
    thread::spawn(move || {
        let mut stream = stream;
        let mut chunk = [0; 8192];
        // What cannot be read any more is left out; the exit status decides.
        while let Some(count) = stream
            .as_mut()
            .and_then(|stream| stream.read(&mut chunk).ok())
            .filter(|count| *count > 0)
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..count.min(room)]);
        }
        // Nobody may be listening any more.
        let _ = tell.send(());
    });
    Listener { heard, closed }
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
    fn a_daemon_that_keeps_the_streams_is_not_waited_for() {
        let begin = Instant::now();
        let answer = ask(
            "/bin/sh",
            &["-c", "echo said; setsid sleep 20 & exit 3"],
            Duration::from_secs(5),
        );
        assert!(begin.elapsed() < Duration::from_secs(15));
        let expected = Answer::Exited {
            status: Some(3),
            output: "said\n".into(),
            complaint: String::new(),
        };
        assert_eq!(answer, expected);
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
