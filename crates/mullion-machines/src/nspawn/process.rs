//! Machines that run, found among this computer's processes.
//!
//! No number of a process is written down anywhere: a machine runs where a process has its root folder among its
//! arguments: the container program, or what is about to become it. So nothing can be out of date, and nothing
//! is lost with a file. Before a process is sent a signal, it is held by a descriptor and looked at again: a
//! number that was given to somebody else meanwhile is never signalled.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::DriverError;

/// The container program.
pub(super) const PROGRAM: &str = "systemd-nspawn";

/// The argument before a machine's root folder.
const ROOT: &str = "--directory=";

/// The argument that names a machine's root folder.
pub(super) fn root_argument(root: &Path) -> String {
    format!("{ROOT}{}", root.display())
}

/// The container program of a running machine.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pid: Pid,
    fd: OwnedFd,
}

impl Running {
    /// The one whose machine has that root folder.
    pub(super) fn find(root: &Path) -> Result<Option<Self>, DriverError> {
        let Some(pid) = roots()?.get(root).copied() else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        // Held now: if it still is the one, it stays the one.
        let is_same = root_of(pid).as_deref() == Some(root);
        Ok(is_same.then_some(Self { pid, fd }))
    }

    /// Whether it has not ended.
    pub(super) fn is_alive(&self) -> bool {
        state(self.pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
            && root_of(self.pid).is_some()
    }

    /// Sends it a signal; one that has ended already gets none.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), DriverError> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    /// The machine's first process, once it runs the machine's own system.
    pub(super) fn leader(&self) -> Option<Pid> {
        processes()
            .ok()?
            .into_iter()
            .filter(|pid| state(*pid).is_some_and(|(_, parent)| parent == self.pid.as_raw_pid()))
            .find(|pid| name(*pid).is_some_and(|name| name == "systemd"))
    }
}

/// The root folders of every machine that runs on this computer.
pub(super) fn roots() -> Result<BTreeMap<PathBuf, Pid>, DriverError> {
    let mut found: BTreeMap<PathBuf, Pid> = BTreeMap::new();
    for pid in processes()? {
        let Some((root, (state, parent))) = root_of(pid).zip(state(pid)) else {
            continue;
        };
        if state == 'Z' {
            continue;
        }
        // While a machine starts, the container program has children of its own name.
        let is_child =
            Pid::from_raw(parent).is_some_and(|parent| root_of(parent).as_ref() == Some(&root));
        if !is_child {
            found.insert(root, pid);
        }
    }
    Ok(found)
}

fn processes() -> Result<Vec<Pid>, DriverError> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        found.extend(number.and_then(Pid::from_raw));
    }
    Ok(found)
}

fn name(pid: Pid) -> Option<String> {
    let name = fs_err::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).ok()?;
    Some(name.trim_end().to_owned())
}

/// The root folder that a process carries a machine with, if it carries one.
fn root_of(pid: Pid) -> Option<PathBuf> {
    let arguments = fs_err::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).ok()?;
    arguments
        .split(|byte| *byte == 0)
        .filter_map(|argument| std::str::from_utf8(argument).ok())
        .find_map(|argument| argument.strip_prefix(ROOT))
        .map(PathBuf::from)
}

/// A process's state and its parent.
fn state(pid: Pid) -> Option<(char, i32)> {
    let text = fs_err::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    parse_state(&text)
}

/// The name stands in brackets and may hold brackets and spaces itself.
fn parse_state(text: &str) -> Option<(char, i32)> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        assert_eq!(parse_state("12 (a) b) S 7 1 1"), Some(('S', 7)));
        assert_eq!(parse_state("12 (sh) Z 1 1"), Some(('Z', 1)));
        assert_eq!(parse_state(""), None);
    }

    #[test]
    fn a_folder_that_no_machine_runs_from_has_none() {
        assert!(Running::find(Path::new("/no/such/root")).unwrap().is_none());
    }
}
