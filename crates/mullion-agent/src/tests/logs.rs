//! Logs that a service keeps from growing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mullion_wire::AttendedLog;

use crate::logs::Logs;
use crate::system::memory::{Memory, Node};
use crate::system::{Files as _, Owner};

const FOLDER: &str = "C:/var/log/containerd";

fn at(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn logs() -> Logs {
    Logs::new(&[AttendedLog {
        path: at("containerd.log"),
        aside_from: 10,
        removed_after_s: 3600,
    }])
}

/// A file that was written so many seconds after 1970.
fn put(system: &Memory, name: &str, seconds: i64) {
    let node = Node::File {
        bytes: b"of before".to_vec(),
        mode: 0o644,
        owner: Owner::Agent,
        modified: seconds * 1_000_000_000,
        number: 7,
    };
    system.put(&at(name), node);
}

fn now(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn names(system: &Memory) -> Vec<String> {
    let paths = system.nodes().into_keys();
    let prefix = format!("{FOLDER}/");
    let names = paths.filter_map(|path| path.strip_prefix(&prefix).map(str::to_owned));
    names.collect()
}

#[test]
fn a_log_that_grew_is_set_aside_once_and_removed_when_it_is_old() {
    let system = Memory::windows("win1");
    let mut logs = logs();
    let log = at("containerd.log");
    let mut said = Vec::new();
    let mut look = |seconds| logs.look(&system, now(seconds), &mut |line| said.push(line.into()));
    // Nobody has written it yet, nor made its folder.
    look(0);
    system.put_file(&log, b"line 1\n", 0o644);
    put(&system, "containerd-19691231-000000.log", 0);
    put(&system, "containerd-old.log", 0);
    put(&system, "panic.log", 0);
    look(3600);
    assert_eq!(system.log(), [""; 0], "it is small, and nothing is old");
    // With a list of its own, which is none of a blueprint's modes.
    system.put_file(&log, b"line 1\nline 2\n", 0o640);
    look(3659);
    assert_eq!(system.log(), [""; 0], "it was looked at just now");
    look(3660);
    let aside = at("containerd-19700101-010100.log");
    assert_eq!(system.file(&aside).unwrap(), "line 1\nline 2\n");
    assert_eq!(system.file(&log).unwrap(), "");
    let mode = |path: &str| system.look(path).unwrap().unwrap().mode;
    assert_eq!((mode(&log), mode(&aside)), (0o640, 0o640));
    let left = [
        "containerd-19700101-010100.log",
        "containerd-old.log",
        "containerd.log",
        "panic.log",
    ];
    assert_eq!(names(&system), left);
    let before = system.log().len();
    // In memory a file is of the count of operations, not of a time.
    put(&system, "containerd-19700101-010100.log", 3660);
    for seconds in [3720, 3599, 7200] {
        look(seconds);
        assert_eq!(system.log().len(), before, "{seconds}");
    }
    look(7261);
    assert_eq!(names(&system), left[1..]);
    let said: Vec<String> = said;
    let old = at("containerd-19691231-000000.log");
    assert_eq!(
        said,
        [
            format!("`{old}` was removed: it is old"),
            format!("`{log}` was set aside as `{aside}`"),
            format!("`{aside}` was removed: it is old"),
        ]
    );
}

#[test]
fn what_cannot_be_done_is_told_and_tried_again() {
    let system = Memory::windows("win1");
    let mut logs = logs();
    system.put_file(&at("containerd.log"), b"line 1\nline 2\n", 0o644);
    put(&system, "containerd-19700101-000000.log", 0);
    let mut look = |seconds| {
        let mut said = Vec::new();
        logs.look(&system, now(seconds), &mut |line| {
            said.push(line.to_owned());
        });
        said
    };
    system.refuse("remove");
    system.refuse("pour");
    let said = look(4000);
    assert_eq!(said.len(), 2, "{said:?}");
    let stays = |line: &String| line.contains("stays as it is: ");
    assert!(said.iter().all(stays), "{said:?}");
    system.refuse_nothing();
    assert_eq!(look(4060).len(), 2);
    let left = ["containerd-19700101-010740.log", "containerd.log"];
    assert_eq!(names(&system), left);
}
