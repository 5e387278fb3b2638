//! Logs that grow, as files of the system that this runs on: a Linux, a Windows, or what stands in for that.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use mullion_agent::attend;
use mullion_agent::system::{Files as _, Own, ServiceEnd};
use mullion_wire::{Attended, AttendedLog, AttendedProgram, Awaited};

mod scratch;

use scratch::Scratch;

/// A file that is held open as programs written in Go hold their logs: at its end, and for others to read and write, not
/// to rename or to remove.
fn held(path: &str) -> File {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt as _;
        const READ_AND_WRITE: u32 = 3;
        options.share_mode(READ_AND_WRITE);
    }
    options.open(path).unwrap()
}

#[test]
fn a_writer_goes_on_at_the_beginning_of_what_was_poured_out() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let log = scratch.at("containerd.log");
    let mut writer = held(&log);
    let number = || own.look(&log).unwrap().unwrap().number;
    let before = number();
    for round in 1..=3 {
        // More than any buffer takes at once.
        let lines = format!("round {round}\n").repeat(100_000);
        writer.write_all(lines.as_bytes()).unwrap();
        let to = scratch.at(&format!("aside-{round}"));
        own.pour(&log, &to).unwrap();
        let poured = own.read(&to).unwrap().unwrap();
        assert_eq!(poured.len(), lines.len());
        assert!(poured == lines.as_bytes(), "round {round}");
        assert_eq!(own.look(&log).unwrap().unwrap().size, 0);
    }
    writer.write_all(b"the end\n").unwrap();
    assert_eq!(own.read(&log).unwrap().unwrap(), b"the end\n");
    assert_eq!(number(), before, "it is the same file");
}

#[test]
fn a_log_that_cannot_be_set_aside_keeps_all_that_is_in_it() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let log = scratch.at("containerd.log");
    let mut writer = held(&log);
    writer.write_all(b"line 1\n").unwrap();
    own.pour(&log, &scratch.at("none/aside")).unwrap_err();
    let nowhere = scratch.at("aside");
    own.pour(&scratch.at("none"), &nowhere).unwrap_err();
    assert_eq!(own.look(&nowhere).unwrap(), None);
    writer.write_all(b"line 2\n").unwrap();
    assert_eq!(own.read(&log).unwrap().unwrap(), b"line 1\nline 2\n");
}

#[test]
fn what_is_set_aside_is_read_by_those_alone_who_read_the_log() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let (log, to) = (scratch.at("containerd.log"), scratch.at("aside"));
    let mode = |path: &str| own.look(path).unwrap().unwrap().mode;
    own.write(&log, b"", 0o644).unwrap();
    // A Windows has no more than two that can be asked for.
    let modes: &[u32] = if cfg!(windows) {
        &[0o600, 0o644]
    } else {
        &[0o600, 0o640, 0o644]
    };
    for wanted in modes {
        own.set_mode(&log, *wanted).unwrap();
        held(&log).write_all(b"line 1\n").unwrap();
        own.pour(&log, &to).unwrap();
        assert_eq!((mode(&log), mode(&to)), (*wanted, *wanted), "{wanted:o}");
        assert_eq!(own.read(&to).unwrap().unwrap(), b"line 1\n");
        let twin = scratch.at("twin");
        own.twin(&log, &twin).unwrap();
        assert_eq!(mode(&twin), *wanted, "{wanted:o}");
    }
}

/// The service that does it, while its own program waits for its time.
#[test]
fn a_service_sets_aside_a_log_that_another_program_holds() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let (log, file) = (scratch.at("containerd.log"), scratch.at("attended.json"));
    let attended = Attended {
        version: mullion_wire::VERSION,
        service: "flanneld".into(),
        share: scratch.at("subnet.env"),
        program: AttendedProgram {
            awaits: Awaited {
                files: vec![scratch.at("never")],
                network: None,
            },
            renewed_with: None,
            path: "none".into(),
            args: vec![],
        },
        files: vec![],
        logs: vec![AttendedLog {
            path: log.clone(),
            aside_from: 10,
            removed_after_s: 3600,
        }],
    };
    let text = serde_json::to_vec(&attended).unwrap();
    own.write(&file, &text, 0o644).unwrap();
    let mut writer = held(&log);
    writer.write_all(b"line 1\nline 2\n").unwrap();
    let rounds = Cell::new(0);
    let is_told_to_stop = || rounds.replace(rounds.get() + 1) == 3;
    let mut said = Vec::new();
    let on_line = &mut |line: &str| said.push(line.to_owned());
    let end = attend(&own, &file, Duration::ZERO, &is_told_to_stop, on_line);
    assert_eq!(end, ServiceEnd::Told);
    writer.write_all(b"line 3\n").unwrap();
    let names = own.list(&scratch.at("")).unwrap();
    let is_aside = |name: &&String| name.starts_with("containerd-");
    let aside: Vec<_> = names.iter().filter(is_aside).collect();
    assert_eq!(aside.len(), 1, "{names:?} {said:?}");
    let aside = own.read(&scratch.at(aside[0])).unwrap().unwrap();
    assert_eq!(aside, b"line 1\nline 2\n");
    assert_eq!(own.read(&log).unwrap().unwrap(), b"line 3\n");
}
