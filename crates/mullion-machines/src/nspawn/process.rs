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

/// The processes that carry a running machine, the first of them first: the one that keeps it running, and the
/// container program. Held by descriptors.
#[derive(Debug)]
pub(super) struct Running {
    processes: Vec<(Pid, OwnedFd)>,
}

impl Running {
    /// Those whose machine has that root folder.
    pub(super) fn find(root: &Path) -> Result<Option<Self>, DriverError> {
        let mut held = Vec::new();
        for pid in roots()?.remove(root).unwrap_or_default() {
            let fd = match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(fd) => fd,
                Err(rustix::io::Errno::SRCH) => continue,
                Err(error) => return Err(std::io::Error::from(error).into()),
            };
            // Held now: if it still is the one, it stays the one.
            if root_of(pid).as_deref() == Some(root) {
                held.push((pid, fd));
            }
        }
        Ok((!held.is_empty()).then_some(Self { processes: held }))
    }

    /// Whether any of them has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.processes.iter().any(|(pid, _)| {
            let is_over = state(*pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'));
            !is_over && root_of(*pid).is_some()
        })
    }

    /// Asks the container program to shut the machine down.
    pub(super) fn ask_to_end(&self) -> Result<(), DriverError> {
        match self.container() {
            Some((_, fd)) => signal(fd, Signal::TERM),
            // It is only about to start: nothing of the machine runs yet.
            None => self.kill(),
        }
    }

    /// Ends them all, the one that would start the machine anew first.
    pub(super) fn kill(&self) -> Result<(), DriverError> {
        self.processes
            .iter()
            .try_for_each(|(_, fd)| signal(fd, Signal::KILL))
    }

    /// The machine's first process, once it runs the machine's own system.
    pub(super) fn leader(&self) -> Option<Pid> {
        leader_below(self.container()?.0)
    }

    /// The container program, and not the children that it has while a machine starts.
    fn container(&self) -> Option<&(Pid, OwnedFd)> {
        let is_program =
            |(pid, _): &&(Pid, OwnedFd)| name(*pid).is_some_and(|name| name == PROGRAM);
        self.processes.iter().find(is_program)
    }
}

/// A machine's first process, somewhere below the process that was started for it.
pub(super) fn leader_below(pid: Pid) -> Option<Pid> {
    for child in children(pid) {
        match name(child)?.as_str() {
            "systemd" => return Some(child),
            _ => {
                if let Some(leader) = leader_below(child) {
                    return Some(leader);
                }
            }
        }
    }
    None
}

/// The children of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_pid();
    if let Ok(text) = fs_err::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        let number = |word: &str| Pid::from_raw(word.parse().ok()?);
        return text.split_whitespace().filter_map(number).collect();
    }
    // Not every kernel tells: then every process is asked for its parent.
    let is_child = |child: &Pid| state(*child).is_some_and(|(_, parent)| parent == pid);
    let all = processes().unwrap_or_default();
    all.into_iter().filter(is_child).collect()
}

/// Sends a signal to a process that is held; one that has ended already gets none.
fn signal(fd: &OwnedFd, signal: Signal) -> Result<(), DriverError> {
    match pidfd_send_signal(fd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// The root folders of every machine that runs on this computer, with the processes that carry it: parents
/// before their children.
pub(super) fn roots() -> Result<BTreeMap<PathBuf, Vec<Pid>>, DriverError> {
    let mut found: BTreeMap<PathBuf, BTreeMap<i32, i32>> = BTreeMap::new();
    for pid in processes()? {
        if let Some((root, (state, parent))) = root_of(pid).zip(state(pid))
            && !matches!(state, 'Z' | 'X')
        {
            let family = found.entry(root).or_default();
            family.insert(pid.as_raw_pid(), parent);
        }
    }
    let ordered = |family: BTreeMap<i32, i32>| {
        let depth = |pid: &i32| {
            let above = |pid: &i32| family.get(pid).copied();
            std::iter::successors(above(pid), above).count()
        };
        let mut pids: Vec<_> = family.keys().copied().collect();
        pids.sort_by_key(|pid| (depth(pid), *pid));
        pids.into_iter().filter_map(Pid::from_raw).collect()
    };
    Ok(found
        .into_iter()
        .map(|(root, family)| (root, ordered(family)))
        .collect())
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
pub(super) fn parse_state(text: &str) -> Option<(char, i32)> {
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
