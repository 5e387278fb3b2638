//! What programs read and write: fed by a thread, heard line by line.

use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mullion_wire::Patience;
use mullion_wire::text::one_line;

use super::{LockWhile, Program, SystemError, Tail};

/// A line is cut off here.
const LONGEST_LINE: usize = 8 * 1024;
/// A reader of lines needs little.
const STACK: usize = 128 * 1024;

/// What a program reads from.
///
/// The lock belongs to whoever has its file open: as standard input, which reads as empty, a program holds it for as long
/// as it lives, also past the agent.
pub(super) fn input(program: &Program, lock: Option<&File>) -> io::Result<Stdio> {
    match (program.lock, lock) {
        _ if !program.input.is_empty() => Ok(Stdio::piped()),
        (LockWhile::ProgramLives, Some(lock)) => Ok(lock.try_clone()?.into()),
        _ => Ok(Stdio::null()),
    }
}

/// Gives a program what it reads; one that does not read all of it is not waited for.
pub(super) fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        let write = move || {
            let _ = stdin.write_all(&input);
        };
        // Without a thread the program reads nothing, and fails by itself.
        let _ = thread::Builder::new().stack_size(STACK).spawn(write);
    }
}

/// Listens to a pipe: the lines that come out of it, until its end.
pub(super) fn listen(output: PipeReader) -> io::Result<Receiver<String>> {
    let (sender, receiver) = sync_channel(64);
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || split(output, &sender))?;
    Ok(receiver)
}

fn split(mut output: impl io::Read, sender: &SyncSender<String>) {
    let mut buffer = vec![0; 16 * 1024];
    let mut line = Vec::new();
    let send = |line: &mut Vec<u8>| {
        let text = plain(&String::from_utf8_lossy(line));
        line.clear();
        sender.send(text)
    };
    let mut was_return = false;
    loop {
        let read = match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in &buffer[..read] {
            // Progress bars begin their line anew, and Windows ends its lines with both.
            let is_ended = match byte {
                b'\n' => !was_return,
                b'\r' => !line.is_empty(),
                _ => false,
            };
            was_return = is_ended && *byte == b'\r';
            if is_ended {
                if send(&mut line).is_err() {
                    return;
                }
            } else if !matches!(byte, b'\n' | b'\r') && line.len() < LONGEST_LINE {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        let _ = send(&mut line);
    }
}

/// A line without colours and other signs that only a terminal understands.
fn plain(line: &str) -> String {
    one_line(line).trim_end().to_owned()
}

/// How often a program is looked at that writes nothing.
const PAUSE: Duration = Duration::from_millis(50);
/// A program that has ended may have left another that keeps its streams open: it is not listened to for longer.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// Waits for a program's end, and hears its lines until then. At its deadline it is ended by `end`, with everything that
/// it started.
pub(super) fn watch(
    program: &Program,
    patience: Patience,
    mut child: Child,
    lines: &Receiver<String>,
    end: &mut dyn FnMut(&mut Child),
    on_line: &mut dyn FnMut(&str),
) -> Result<ExitStatus, SystemError> {
    let deadline = patience.times(program.deadline);
    let until = Instant::now() + deadline;
    let mut tail = Tail::default();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut is_open = true;
    loop {
        if is_open {
            match lines.recv_timeout(PAUSE) {
                Ok(line) => {
                    tail.push(&line);
                    on_line(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_open = false,
            }
        } else {
            thread::sleep(Duration::from_millis(5));
        }
        let now = Instant::now();
        if ended.is_none()
            && let Some(status) = child.try_wait().map_err(SystemError::File)?
        {
            ended = Some((status, now));
        }
        match ended {
            Some((status, at)) if !is_open || now >= at + AFTERWARDS => return Ok(status),
            None if now >= until => {
                end(&mut child);
                let _ = child.wait();
                return Err(SystemError::TooLong {
                    program: program.name.clone(),
                    deadline,
                    tail: tail.into_lines(),
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_either_system_ends_them() {
        let split = |text: &str| {
            let (sender, receiver) = sync_channel(64);
            super::split(text.as_bytes(), &sender);
            drop(sender);
            receiver.iter().collect::<Vec<_>>()
        };
        assert_eq!(split("a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(split("a\r\n\r\nb\r\n"), ["a", "", "b"]);
        assert_eq!(split("10%\r20%\r30%\nend"), ["10%", "20%", "30%", "end"]);
    }

    #[test]
    fn promise_12_control_sequences_do_not_reach_the_controller() {
        assert_eq!(
            plain("\u{1b}[0;37mKERNEL_VERSION\u{1b}[0m: \u{1b}[0;32m6.18\u{1b}[0m  "),
            "KERNEL_VERSION: 6.18"
        );
        assert_eq!(plain("\ta\u{7} größer\u{1b}"), "\ta größer");
        assert_eq!(plain("\u{1b}]0;owned\u{7}ok\u{9b}2J\u{202e}"), "ok");
    }
}
