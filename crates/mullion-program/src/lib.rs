//! Runs a program of this computer and never waits for it longer than a limit.
//!
//! The contract: [`run`] returns at the limit or a moment after. At the limit, and where the caller cancels, the program
//! ends with everything in its process group. The pipes are read while it runs, so that one that writes much does not
//! wait for its reader, and no more than [`MOST`] is kept of either.
//!
//! # Current limitations
//!
//! What leaves the process group on purpose, as a daemon does, lives on. It is not waited for. Linux only.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Where a computer keeps its own programs, whatever the `PATH` of whoever calls us.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most that is kept of what a program writes to one stream.
pub const MOST: usize = 16 << 20;

/// How often a running program is looked at, at first and later.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));

/// How long the streams of a program that has ended are listened to.
const LISTEN: Duration = Duration::from_secs(1);

/// How long a program has to undo what it began when it is asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// How a program ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself, or by a signal of somebody else.
    Exited(Exited),
    /// It was ended at its limit.
    TooSlow(Duration),
    /// It was ended because the caller cancelled.
    Cancelled,
}

/// What a program left.
#[derive(Debug)]
pub struct Exited {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than is kept: then `stdout` is not all of it.
    pub is_cut: bool,
}

/// Runs a program to its end or to its limit. It reads `input`, then the end of its standard input.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Ended> {
    run_unless(command, input, limit, &|| false)
}

/// The same, until the caller cancels.
pub fn run_unless(
    command: &mut Command,
    input: &[u8],
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<Ended> {
    let mut child = command
        .stdin(if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: it is ended with what it started, and what a terminal sends at Ctrl-C is for us alone.
        .process_group(0)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // One that does not read on says why by its exit status.
        thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
    }
    let stdout = Listener::of(child.stdout.take());
    let stderr = Listener::of(child.stderr.take());
    let end = Instant::now() + limit;
    let pid = Pid::from_child(&child);
    let mut pause = PAUSES.0;
    let reason = loop {
        if has_ended(pid) {
            break None;
        }
        if is_cancelled() {
            break Some(Ended::Cancelled);
        }
        if Instant::now() >= end {
            break Some(Ended::TooSlow(limit));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    };
    if let Some(reason) = reason {
        end_group(&mut child, GRACE);
        return Ok(reason);
    }
    // Also after a good end: something left behind in its group would hold the streams open. The program is not reaped
    // before, so that its number cannot belong to another one by now.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait()?;
    let last = Instant::now() + LISTEN;
    let ((stdout, is_cut), (stderr, _)) = (stdout.heard_by(last), stderr.heard_by(last));
    Ok(Ended::Exited(Exited {
        status,
        stdout,
        stderr,
        is_cut,
    }))
}

/// Asks a program and everything in its process group to end, and ends them when the grace is over. The program must
/// be the first of a group of its own.
pub fn end_group(child: &mut Child, grace: Duration) {
    let pid = Pid::from_child(child);
    // It may end by itself meanwhile.
    let _ = kill_process_group(pid, Signal::TERM);
    let asked = Instant::now();
    while !has_ended(pid) && asked.elapsed() < grace {
        thread::sleep(PAUSES.1);
    }
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = child.wait();
}

/// Whether a program has ended, without reaping it. One that cannot be asked about is waited for no longer.
fn has_ended(pid: Pid) -> bool {
    let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), only_look), Ok(None))
}

/// What a stream has said so far, read on a thread of its own.
struct Listener {
    heard: Arc<Mutex<(Vec<u8>, bool)>>,
    closed: mpsc::Receiver<()>,
}

impl Listener {
    fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let heard = Arc::new(Mutex::new((Vec::new(), false)));
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
                let room = MOST.saturating_sub(kept.0.len());
                kept.0.extend_from_slice(&chunk[..count.min(room)]);
                kept.1 |= count > room;
            }
            // The caller may have stopped listening.
            let _ = tell.send(());
        });
        Self { heard, closed }
    }

    /// What was said until the stream was closed, or until then, and whether that is not all. A daemon that left the
    /// group may hold the stream open for good: its thread stays behind, and ends with this process.
    fn heard_by(self, last: Instant) -> (Vec<u8>, bool) {
        let left = last.saturating_duration_since(Instant::now());
        let _ = self.closed.recv_timeout(left);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn ended(script: &str, input: &[u8], limit: Duration) -> Ended {
        run(&mut shell(script), input, limit).unwrap()
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn promise_08_a_program_that_hangs_ends_at_its_limit_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        // One child goes on after the request to end, and would leave a mark.
        let script = format!(
            "(trap '' TERM; sleep 3; sleep 1; touch {}) & trap '' TERM; sleep 60; sleep 60",
            mark.display()
        );
        let begun = Instant::now();
        let ended = ended(&script, b"", Duration::from_millis(200));
        assert!(
            matches!(ended, Ended::TooSlow(limit) if limit == Duration::from_millis(200)),
            "{ended:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        thread::sleep(Duration::from_secs(3));
        assert!(!mark.exists(), "the inner process went on");
    }

    #[test]
    fn promise_08_one_that_writes_and_reads_much_is_neither_stuck_nor_kept_whole() {
        let script = "head -c 20000000 /dev/zero >&2; cat; head -c 20000000 /dev/zero";
        let input = vec![b'x'; 1 << 20];
        let Ended::Exited(exited) = ended(script, &input, LONG) else {
            panic!("it was ended");
        };
        assert!(exited.status.success() && exited.is_cut);
        assert_eq!((exited.stdout.len(), exited.stderr.len()), (MOST, MOST));
        assert!(exited.stdout.starts_with(&input));
    }

    #[test]
    fn promise_08_one_that_does_not_read_its_input_is_not_waited_for() {
        let input = vec![b'x'; 1 << 20];
        let begun = Instant::now();
        let Ended::Exited(exited) = ended("exit 3", &input, LONG) else {
            panic!("it was ended");
        };
        assert_eq!(exited.status.code(), Some(3));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_daemon_that_keeps_the_streams_is_not_waited_for() {
        let begun = Instant::now();
        let Ended::Exited(exited) = ended("echo said; setsid sleep 20 & exit 3", b"", LONG) else {
            panic!("it was ended");
        };
        assert!(begun.elapsed() < Duration::from_secs(15));
        assert_eq!(exited.stdout, b"said\n");
    }

    #[test]
    fn what_is_cancelled_ends_at_once() {
        let begun = Instant::now();
        let is_cancelled = || begun.elapsed() > Duration::from_millis(100);
        let ended = run_unless(&mut shell("sleep 60"), b"", LONG, &is_cancelled).unwrap();
        assert!(matches!(ended, Ended::Cancelled), "{ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
