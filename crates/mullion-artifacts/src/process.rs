//! Tools that run beside us: their lines are heard, and they end when they are called off.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use mullion_plan::Attend;
use mullion_program::end_group;
use mullion_wire::duration::shown;
use mullion_wire::text::one_line;
use rustix::process::Signal;

/// How many of a tool's last lines are kept.
const TAIL: usize = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a tool has to take down what it set up before it is ended at once.
const GRACE: Duration = Duration::from_secs(10);
/// The most that is kept of what a tool writes to standard output.
const MOST: u64 = 64 << 20;

/// What a tool that ran to its end left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
}

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It could not be started.
    #[error("`{tool}` could not be started")]
    Start {
        /// Its name.
        tool: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended with a failure.
    #[error("`{tool}` failed ({how}){}", starved.map(Starved::words).unwrap_or_default())]
    Failed {
        /// What was run, in short.
        tool: String,
        /// Its status in words.
        how: String,
        /// Whether that was for want of memory.
        starved: Option<Starved>,
        /// Its last lines.
        tail: Vec<String>,
        /// What it wrote to standard output, where some tools say why.
        stdout: Box<[u8]>,
    },
    /// It did not end in time, and was ended.
    #[error("`{tool}` did not end within {} and was ended", shown(*.limit))]
    TooSlow {
        /// Its name.
        tool: String,
        /// The time that it had.
        limit: Duration,
    },
    /// It was called off, and has ended.
    #[error("`{tool}` was called off")]
    CalledOff {
        /// Its name.
        tool: String,
    },
}

impl ToolError {
    /// The last lines that it wrote.
    pub(crate) fn tail(&self) -> &[String] {
        match self {
            Self::Failed { tail, .. } => tail,
            Self::Start { .. } | Self::TooSlow { .. } | Self::CalledOff { .. } => &[],
        }
    }
}

/// What is known of memory where a tool failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starved {
    /// The tool, or a program of its own, was killed, and the kernel ended programs for want of it meanwhile.
    Surely,
    /// The tool, or a program of its own, was killed, and nobody says why.
    Perhaps,
}

impl Starved {
    const fn words(self) -> &'static str {
        match self {
            Self::Surely => ": memory ran out on this computer",
            Self::Perhaps => ": it was ended by signal 9, as the system does where memory runs out",
        }
    }

    /// By how the tool ended, what it said last, and how many programs the kernel had ended before and has now.
    fn of(is_killed: bool, tail: &VecDeque<String>, before: u64, now: u64) -> Option<Self> {
        // The word of Go and of gcc for a compiler of their own that was killed. The kernel's count is the whole
        // computer's: without that word it may be anybody's.
        let says_so = |line: &String| line.to_lowercase().contains("killed");
        let is_it = is_killed || tail.iter().any(says_so);
        is_it.then_some(if now > before {
            Self::Surely
        } else {
            Self::Perhaps
        })
    }
}

/// How many programs the kernel has ended for want of memory; 0 where it does not tell.
fn ended_for_memory() -> u64 {
    let counters = fs_err::read_to_string("/proc/vmstat").unwrap_or_default();
    let mut lines = counters.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Whether a line belongs to the last ones that are shown when a tool fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It may say why.
    Telling,
    /// It only says how far things are.
    Progress,
}

/// Runs a tool to its end, as the user whose file rights this thread has. `on_line` hears what it writes to standard
/// error, line by line.
pub(crate) fn run(
    tool: &str,
    command: &mut Command,
    attendant: &dyn Attend,
    on_line: &mut dyn FnMut(&str) -> Worth,
) -> Result<Ran, ToolError> {
    mullion_rights::lower(command);
    run_to(tool, command, Stdio::piped(), attendant, on_line)
}

/// Runs a tool that needs root to its end, and lets it write its standard output to a file that this thread created.
/// So the tool itself opens no path in a folder of the user's.
pub(crate) fn run_as_root_to(
    file: fs_err::File,
    tool: &str,
    command: &mut Command,
    attendant: &dyn Attend,
    on_line: &mut dyn FnMut(&str) -> Worth,
) -> Result<(), ToolError> {
    let output = file.into_parts().0.into();
    run_to(tool, command, output, attendant, on_line).map(|_| ())
}

fn run_to(
    tool: &str,
    command: &mut Command,
    output: Stdio,
    attendant: &dyn Attend,
    on_line: &mut dyn FnMut(&str) -> Worth,
) -> Result<Ran, ToolError> {
    let start = |source| ToolError::Start {
        tool: tool.to_owned(),
        source,
    };
    let called_off = || ToolError::CalledOff {
        tool: tool.to_owned(),
    };
    if attendant.is_called_off() {
        return Err(called_off());
    }
    command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::piped())
        // A group of its own, so that it can be ended with everything that it started.
        .process_group(0);
    let (begun, limit) = (Instant::now(), limit(tool));
    let ended_before = ended_for_memory();
    let mut child = command.spawn().map_err(start)?;
    let (hand_over, stdout) = mpsc::channel();
    if let Some(mut out) = child.stdout.take() {
        thread::spawn(move || {
            let mut all = Vec::new();
            let _ = out.by_ref().take(MOST).read_to_end(&mut all);
            // The rest is read all the same: a full pipe would stop the tool.
            let _ = io::copy(&mut out, &mut io::sink());
            // The tool may have been ended meanwhile.
            let _ = hand_over.send(all);
        });
    }
    let (send, lines) = mpsc::channel();
    if let Some(err) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                let line = one_line(&line).trim_end().to_owned();
                if send.send(line).is_err() {
                    break;
                }
            }
        });
    }

    let mut tail = VecDeque::with_capacity(TAIL);
    let mut said_all = false;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(LOOK_AGAIN) {
            Ok(line) => {
                if on_line(&line) == Worth::Telling {
                    if tail.len() == TAIL {
                        tail.pop_front();
                    }
                    tail.push_back(line);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                said_all = true;
                thread::sleep(LOOK_AGAIN / 10);
            }
        }
        if attendant.is_called_off() {
            end_group(&mut child, GRACE);
            return Err(called_off());
        }
        if ended.is_none() && begun.elapsed() > limit {
            end_group(&mut child, GRACE);
            return Err(ToolError::TooSlow {
                tool: tool.to_owned(),
                limit,
            });
        }
        if ended.is_none() {
            ended = child
                .try_wait()
                .map_err(start)?
                .map(|status| (status, Instant::now()));
        }
        // What it wrote last is still on its way for a moment; a process it left behind may hold the pipe for ever.
        if let Some((status, since)) = ended
            && (said_all || since.elapsed() > Duration::from_secs(1))
        {
            let stdout = stdout.recv_timeout(GRACE).unwrap_or_default();
            if status.success() {
                return Ok(Ran { stdout });
            }
            let is_killed = status.signal() == Some(Signal::KILL.as_raw());
            return Err(ToolError::Failed {
                tool: tool.to_owned(),
                how: status.to_string(),
                starved: Starved::of(is_killed, &tail, ended_before, ended_for_memory()),
                tail: tail.into(),
                stdout: stdout.into(),
            });
        }
    }
}

/// How long a tool may take: those that compile or fetch have hours, on a slow computer behind a slow line.
fn limit(tool: &str) -> Duration {
    #[cfg(test)]
    if tool == "hangs" {
        return Duration::from_millis(200);
    }
    match tool {
        "go build" | "go mod download" | "mmdebstrap" => Duration::from_hours(6),
        _ => Duration::from_mins(30),
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{News, Unattended};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_heard_and_output_is_kept() {
        let mut heard = Vec::new();
        let ran = run(
            "sh",
            &mut shell("echo out; echo one >&2; echo two >&2"),
            &Unattended,
            &mut |line| {
                heard.push(line.to_owned());
                Worth::Telling
            },
        )
        .unwrap();
        assert_eq!(
            (heard.join(" "), ran.stdout),
            ("one two".into(), b"out\n".to_vec())
        );
    }

    #[test]
    fn a_failure_carries_the_last_lines() {
        let script = "for n in $(seq 100); do echo line $n >&2; done; exit 3";
        let error = run("sh", &mut shell(script), &Unattended, &mut |_| {
            Worth::Telling
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "`sh` failed (exit status: 3)");
        assert_eq!(error.tail().len(), TAIL);
        assert_eq!(error.tail().last().unwrap(), "line 100");
    }

    #[test]
    fn a_tool_that_was_killed_is_told_with_what_is_known_of_memory() {
        let fail = |script: &str| {
            run("go build", &mut shell(script), &Unattended, &mut |_| {
                Worth::Telling
            })
            .unwrap_err()
        };
        let killed = fail("kill -9 $$").to_string();
        assert!(
            killed.contains("as the system does where memory runs out"),
            "{killed}"
        );
        // Go ends with 1 where one of its compilers was killed.
        let compiler = fail("echo 'compile: signal: killed' >&2; exit 1").to_string();
        assert!(
            compiler.contains("as the system does where memory runs out"),
            "{compiler}"
        );
        let said = "gcc: fatal error: Killed signal terminated program cc1".to_owned();
        let surely = Starved::of(false, &[said].into(), 3, 4).unwrap();
        assert_eq!(surely.words(), ": memory ran out on this computer");
        let another = Starved::of(false, &VecDeque::new(), 3, 4);
        assert_eq!(another, None, "it was another program's memory");
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let mut command = Command::new("no-such-tool-anywhere");
        let error = run(
            "no-such-tool-anywhere",
            &mut command,
            &Unattended,
            &mut |_| Worth::Telling,
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no-such-tool-anywhere` could not be started"
        );
    }

    #[test]
    fn promise_08_a_tool_that_hangs_is_ended_and_named_with_its_limit() {
        let begun = Instant::now();
        let error = run("hangs", &mut shell("sleep 60"), &Unattended, &mut |_| {
            Worth::Telling
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`hangs` did not end within 0.2 s and was ended"
        );
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    struct Impatient(Instant);

    impl Attend for Impatient {
        fn hear(&self, _news: News) {}
        fn is_called_off(&self) -> bool {
            self.0.elapsed() > Duration::from_millis(200)
        }
    }

    #[test]
    fn what_is_called_off_ends_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 1; touch {}) & sleep 60", mark.display());
        let begun = Instant::now();
        let error = run("sh", &mut shell(&script), &Impatient(begun), &mut |_| {
            Worth::Telling
        })
        .unwrap_err();
        assert!(matches!(error, ToolError::CalledOff { .. }), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(1200));
        assert!(!mark.exists(), "the inner process went on");
    }
}
