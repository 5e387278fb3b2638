//! Running programs: never longer than their deadline, heard line by line.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process_group};

use super::super::streams::{feed, input, listen, watch};
use super::super::{Ended, Program, Programs, SystemError};
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
            .stdin(input(program, self.lock.borrow().as_ref()).map_err(not_started)?)
            .stdout(writer.try_clone().map_err(not_started)?)
            .stderr(writer);
        for name in program.hidden(std::env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(not_started)?;
        // The command holds the writing end of the pipe, whose end is awaited.
        drop(command);
        if !program.input.is_empty() {
            feed(&mut child, program.input.clone());
        }
        let lines = listen(output).map_err(not_started)?;
        let end = &mut |child: &mut Child| {
            // The group may have ended this very moment.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        };
        let status = watch(program, self.patience.get(), child, &lines, end, on_line)?;
        Ok(match (status.code(), status.signal()) {
            (Some(status), _) => Ended::Status(status),
            (None, signal) => Ended::Signal(signal.unwrap_or_default()),
        })
    }

    fn shell(&self, line: &str) -> Program {
        Program::new("/bin/sh", ["-c", line])
    }
}
