//! Signals that ask the process to end: a run is cancelled by them, and outside of a run they end the process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mullion_engine::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

/// Ctrl-C, a polite kill, and a terminal that was closed.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Whether no run is under way. Only then a signal has its default action.
static IS_IDLE: AtomicBool = AtomicBool::new(true);

/// How many of [`ENDING`] have their conditional default.
static REGISTERED: Mutex<usize> = Mutex::new(0);

/// Signals cancel a run as long as this lives.
#[derive(Debug)]
pub struct Listening(Handle);

impl Listening {
    /// From now on the first signal cancels the run at the ends of its steps, and the second one cancels it at once.
    pub fn start(cancel: &Cancel) -> io::Result<Self> {
        keep_default()?;
        let mut signals = Signals::new(ENDING)?;
        let handle = signals.handle();
        let cancel = cancel.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                cancel.ask();
            }
        });
        // Only when someone listens: no signal is lost between the two.
        IS_IDLE.store(false, Ordering::SeqCst);
        Ok(Self(handle))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        IS_IDLE.store(true, Ordering::SeqCst);
        self.0.close();
    }
}

/// Gives the signals their default action outside of a run. A handler that is taken away again does not bring it back:
/// the process would ignore the signal.
fn keep_default() -> io::Result<()> {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in ENDING.iter().skip(*registered) {
        flag::register_conditional_default(*signal, &IS_IDLE)?;
        *registered += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::time::Duration;

    use mullion_engine::Cancelled;
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Set in the process that receives the signals.
    const HELPER: &str = "MULLION_TEST_SIGNALS";

    fn say(word: &str) {
        let mut err = io::stderr();
        writeln!(err, "{word}").unwrap();
    }

    fn wait_for_line() {
        let mut line = String::new();
        io::stdin().read_line(&mut line).unwrap();
    }

    fn wait_until_cancelled(cancel: &Cancel) {
        for _ in 0..1000 {
            if cancel.level() == Cancelled::AtStepEnds {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no signal came");
    }

    /// Two runs with time between them and after them. It does nothing unless the test below starts it.
    #[test]
    fn helper_of_two_runs() {
        if std::env::var_os(HELPER).is_none() {
            return;
        }
        for _ in 0..2 {
            let cancel = Cancel::new();
            let listening = Listening::start(&cancel).unwrap();
            say("run");
            wait_until_cancelled(&cancel);
            drop(listening);
            say("idle");
            wait_for_line();
        }
    }

    struct Helper {
        child: Child,
        input: ChildStdin,
        words: BufReader<std::process::ChildStderr>,
    }

    impl Helper {
        fn start() -> Self {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "signals::tests::helper_of_two_runs"])
                .args(["--nocapture", "--test-threads=1"])
                .env(HELPER, "1")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let input = child.stdin.take().unwrap();
            let words = BufReader::new(child.stderr.take().unwrap());
            Self {
                child,
                input,
                words,
            }
        }

        fn hears(&mut self, word: &str) {
            let mut line = String::new();
            self.words.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), word);
        }

        fn send(&self, signal: Signal) {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
        }

        fn go_on(&mut self) {
            writeln!(self.input, "on").unwrap();
        }

        fn ends_by(mut self, signal: Signal) {
            // Whoever ignores the signal comes to the end of its input, and ends well.
            drop(self.input);
            let status = self.child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        }
    }

    #[test]
    fn a_signal_cancels_a_run_and_ends_the_process_between_runs_and_after_them() {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            for runs in [1, 2] {
                let mut helper = Helper::start();
                for run in 1..=runs {
                    helper.hears("run");
                    helper.send(signal);
                    helper.hears("idle");
                    if run < runs {
                        helper.go_on();
                    }
                }
                helper.send(signal);
                helper.ends_by(signal);
            }
        }
    }
}
