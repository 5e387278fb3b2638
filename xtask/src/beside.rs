//! A command that runs beside other steps, and is waited for when its result is needed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::{XtaskError, tools};

/// A command under way. What it prints is kept until it is waited for, so that it stands in one place.
pub(crate) struct Beside {
    command: String,
    child: Child,
    lines: Receiver<String>,
}

impl Beside {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Result<Self, XtaskError> {
        let shown = tools::shown(&command);
        let (reader, writer) = std::io::pipe()?;
        command
            .stdin(Stdio::null())
            .stderr(writer.try_clone()?)
            .stdout(writer);
        let child = command.spawn().map_err(|cause| XtaskError::Start {
            command: shown.clone(),
            cause,
        })?;
        // It holds the writing end of the pipe, whose end is awaited.
        drop(command);
        let (sender, lines) = mpsc::channel();
        // Ends with the pipe, which the child and its children hold.
        thread::spawn(move || {
            let read = BufReader::new(reader).lines().map_while(Result::ok);
            read.for_each(|line| drop(sender.send(line)));
        });
        Ok(Self {
            command: shown,
            child,
            lines,
        })
    }

    /// Prints what it said and says, and expects success.
    pub(crate) fn wait(mut self) -> Result<(), XtaskError> {
        for line in &self.lines {
            println!("   {line}");
        }
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(XtaskError::Ended {
            command: self.command.clone(),
            status,
        })
    }
}

impl Drop for Beside {
    /// Calls it off: nobody waits for it any more.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Who is started in the background of a script is deaf to an interrupt, and so is what it starts.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_end_is_told_when_it_is_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let error = Beside::start(command).unwrap().wait().unwrap_err();
        assert!(
            matches!(&error, XtaskError::Ended { status, .. } if status.code() == Some(3)),
            "{}",
            error.render()
        );
        let command = Command::new("true");
        Beside::start(command).unwrap().wait().unwrap();
    }

    #[test]
    fn nobody_waits_for_one_that_is_dropped() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let beside = Beside::start(command).unwrap();
        let pid = Pid::from_child(&beside.child);
        drop(beside);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
