//! Ends the processes of static pods, which kubelet starts again, and waits for them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::{Files as _, SystemError};
use super::Linux;
use super::pods::is_of_static_pod;

/// What was asked to end and runs on after this time is killed, as kubelet does with the pods of kubeadm's manifests.
const TO_END: Duration = Duration::from_secs(30);
/// A process that was killed is gone within this time, unless its disk does not answer.
const TO_DIE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);

/// The kernel keeps so many bytes of a program's name.
const LONGEST_NAME: usize = 15;

/// A process: a number that was given again is told by its start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    id: i32,
    start: String,
}

/// Ends what runs of a program in static pods.
pub(super) fn end(linux: &Linux, program: &str) -> Result<(), SystemError> {
    let old = find(linux, program)?;
    for (kind, time) in [(Signal::TERM, TO_END), (Signal::KILL, TO_DIE)] {
        signal(linux, program, &old, kind)?;
        let is_gone = || Ok(find(linux, program)?.is_disjoint(&old));
        if within(linux.patience.get().times(time), is_gone)? {
            return Ok(());
        }
    }
    Err(SystemError::Nonsense(format!("{program} does not end")))
}

/// Whether a program runs in a static pod, now or within a time.
pub(super) fn wait(linux: &Linux, program: &str, patience: Duration) -> Result<bool, SystemError> {
    within(patience, || Ok(!find(linux, program)?.is_empty()))
}

/// Whether something is so, now or within a time.
fn within(
    patience: Duration,
    is_so: impl Fn() -> Result<bool, SystemError>,
) -> Result<bool, SystemError> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

/// Sends a signal to those of the processes that still are the ones that were found.
fn signal(
    linux: &Linux,
    program: &str,
    old: &BTreeSet<Process>,
    signal: Signal,
) -> Result<(), SystemError> {
    for process in find(linux, program)?.intersection(old) {
        if let Some(id) = Pid::from_raw(process.id) {
            // It may end by itself this very moment.
            let _ = kill_process(id, signal);
        }
    }
    Ok(())
}

/// What runs of a program in static pods.
fn find(linux: &Linux, program: &str) -> Result<BTreeSet<Process>, SystemError> {
    let name = program.get(..LONGEST_NAME).unwrap_or(program);
    let mut found = BTreeSet::new();
    for entry in linux.list("/proc")? {
        let Ok(id) = entry.parse() else { continue };
        if linux.text(&format!("/proc/{entry}/comm")).trim_end() != name {
            continue;
        }
        let groups = linux.text(&format!("/proc/{entry}/cgroup"));
        let Some(start) = start(&linux.text(&format!("/proc/{entry}/stat"))) else {
            continue;
        };
        if groups.lines().any(is_of_static_pod) {
            found.insert(Process { id, start });
        }
    }
    Ok(found)
}

/// When a process was started, out of `/proc/*/stat`; none of one that has ended and that nobody took note of yet.
fn start(stat: &str) -> Option<String> {
    // The name before it may hold anything, brackets and blanks included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    // The 22nd field; the state is the third.
    let begun = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| begun.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIC: &str = "0::/kubepods/burstable/podd2b1a1e5c3f0479c8e0b7d7a1b2c3d4e/abc\n";
    const KNOWN: &str = "0::/kubepods/burstable/pod1b4e28ba-2fa1-11d2-883f-0016d3cca427/abc\n";

    fn stat(id: i32, state: &str, start: u32) -> String {
        let zeros = "0 ".repeat(18);
        format!("{id} (a) b) {state} {zeros}{start} 0 0\n")
    }

    fn put(root: &std::path::Path, id: i32, name: &str, groups: &str, state: &str) {
        let folder = root.join(format!("proc/{id}"));
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("comm"), format!("{name}\n")).unwrap();
        fs_err::write(folder.join("cgroup"), groups).unwrap();
        fs_err::write(folder.join("stat"), stat(id, state, 77)).unwrap();
    }

    #[test]
    fn only_the_processes_of_static_pods_are_found() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), 10, "kube-controller", STATIC, "S");
        put(root.path(), 11, "kube-controller", KNOWN, "S");
        put(root.path(), 12, "kube-controller", STATIC, "Z");
        put(
            root.path(),
            13,
            "etcd",
            "0::/system.slice/etcd.service\n",
            "S",
        );
        put(root.path(), 14, "etcdctl", STATIC, "S");
        let linux = Linux::below(root.path());
        let found = |program| -> Vec<_> {
            let found = find(&linux, program).unwrap();
            found.into_iter().map(|process| process.id).collect()
        };
        assert_eq!(found("kube-controller-manager"), [10]);
        assert_eq!(found("etcd"), [0; 0]);
        assert!(wait(&linux, "kube-controller-manager", Duration::ZERO).unwrap());
        assert!(!wait(&linux, "etcd", Duration::ZERO).unwrap());
        // Nothing runs, so nothing is waited for.
        end(&linux, "etcd").unwrap();
    }

    #[test]
    fn a_number_that_was_given_again_is_another_process() {
        assert_eq!(start(&stat(1, "S", 5)).as_deref(), Some("5"));
        assert_ne!(start(&stat(1, "S", 5)), start(&stat(1, "S", 6)));
        assert_eq!(start("1 (etcd) S 1"), None);
        assert_eq!(start(""), None);
    }
}
