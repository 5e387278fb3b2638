//! Running programs: never longer than their deadline, heard line by line.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::super::streams::{feed, listen};
use super::super::{Ended, LockWhile, Program, Programs, SystemError, Tail};
use super::Linux;

/// Where programs are looked for; what the login gave is not asked, since it may lack `sbin`.
const FOLDERS: &[&str] = &[
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// How often a program is looked at that writes nothing.
const PAUSE: Duration = Duration::from_millis(50);
/// A program that has ended may have left a daemon that keeps its streams open: it is not listened to for longer.
const AFTERWARDS: Duration = Duration::from_millis(500);

impl Programs for Linux {
    fn find_program(&self, name: &str) -> Option<String> {
        let is_program = |path: &String| {
            fs_err::metadata(self.real(path))
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        if name.contains('/') {
            return Some(name.to_owned()).filter(is_program);
        }
        FOLDERS
            .iter()
            .map(|folder| format!("{folder}/{name}"))
            .find(is_program)
    }

    fn run(&self, program: &Program, on_line: &mut dyn FnMut(&str)) -> Result<Ended, SystemError> {
        let Some(path) = self.find_program(&program.name) else {
            return Err(SystemError::NoProgram(program.name.clone()));
        };
        let not_started = |source| SystemError::NotStarted {
            program: program.name.clone(),
            source,
        };
        let (output, writer) = io::pipe().map_err(not_started)?;
        let mut command = Command::new(self.real(&path));
        command
            .args(&program.args)
            .env("PATH", FOLDERS.join(":"))
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir("/")
            // A group of its own, so that its children end with it.
            .process_group(0)
            .stdin(self.input(program).map_err(not_started)?)
            .stdout(writer.try_clone().map_err(not_started)?)
            .stderr(writer);
        let mut child = command.spawn().map_err(not_started)?;
        // The command holds the writing end of the pipe, whose end is awaited.
        drop(command);
        if !program.input.is_empty() {
            feed(&mut child, program.input.clone());
        }
        let lines = listen(output).map_err(not_started)?;
        watch(program, child, &lines, on_line)
    }

    fn shell(&self, line: &str) -> Program {
        Program::new("/bin/sh", ["-c", line])
    }
}

impl Linux {
    fn input(&self, program: &Program) -> io::Result<Stdio> {
        if !program.input.is_empty() {
            return Ok(Stdio::piped());
        }
        // The lock belongs to whoever has the file open: as its standard input, which reads as empty, a program holds
        // it for as long as it lives, also past the agent.
        match (program.lock, &*self.lock.borrow()) {
            (LockWhile::ProgramLives, Some(lock)) => Ok(lock.try_clone()?.into()),
            _ => Ok(Stdio::null()),
        }
    }
}

/// Waits for a program's end, and hears its lines until then.
fn watch(
    program: &Program,
    mut child: Child,
    lines: &Receiver<String>,
    on_line: &mut dyn FnMut(&str),
) -> Result<Ended, SystemError> {
    let until = Instant::now() + program.deadline;
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
            Some((status, at)) if !is_open || now >= at + AFTERWARDS => {
                return Ok(match (status.code(), status.signal()) {
                    (Some(status), _) => Ended::Status(status),
                    (None, signal) => Ended::Signal(signal.unwrap_or_default()),
                });
            }
            None if now >= until => {
                // The group may have ended this very moment.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Err(SystemError::TooLong {
                    program: program.name.clone(),
                    deadline: program.deadline,
                    tail: tail.into_lines(),
                });
            }
            _ => {}
        }
    }
}
