//! The adapter for Windows, on a Windows or on what stands in for it. Most of it needs an administrator; what changes
//! the whole machine is run only where that is asked for.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod applying;
mod attending;
mod removing;
#[path = "../scratch/mod.rs"]
mod scratch;
mod services;

use std::time::{Duration, Instant};

use mullion_agent::system::registry::Value;
use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{
    Ended, Files as _, Kind, LogEntry, OnlyWindows as _, Program, Programs as _, Removed,
    System as _, SystemError,
};
use mullion_wire::{RegistryData, Sha256Digest};
use scratch::Scratch;

const KEY: &str = r"HKLM\SOFTWARE\Mullion test";

#[test]
fn files_and_folders_have_one_of_few_modes_and_keep_it() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let mode = |path: &str| own.look(path).unwrap().unwrap().mode;
    let (private, open) = (scratch.at("private"), scratch.at("open"));
    own.write(&private, b"secret", 0o600).unwrap();
    own.write(&open, b"known", 0o644).unwrap();
    assert_eq!((mode(&private), mode(&open)), (0o600, 0o644));
    own.set_mode(&open, 0o600).unwrap();
    assert_eq!(mode(&open), 0o600);
    own.set_mode(&open, 0o644).unwrap();
    assert_eq!(mode(&open), 0o644);
    let twin = scratch.at("twin");
    own.twin(&private, &twin).unwrap();
    assert_eq!(mode(&twin), 0o600);
    own.rename(&private, &open).unwrap();
    assert_eq!(mode(&open), 0o600);
    assert_eq!(own.read(&open).unwrap().unwrap(), b"secret");
    assert_eq!(own.look(&private).unwrap(), None);
    let folder = scratch.at("folder");
    for wanted in [0o700, 0o755, 0o1777, 0o700] {
        // The first makes it, the others find it.
        own.make_folder(&folder, wanted).unwrap();
        assert_eq!(mode(&folder), wanted, "{wanted:o}");
        own.make_folder(&folder, wanted).unwrap();
        assert_eq!(mode(&folder), wanted, "{wanted:o}");
        let new = scratch.at(&format!("new-{wanted:o}"));
        own.make_folder(&new, wanted).unwrap();
        assert_eq!(mode(&new), wanted, "{wanted:o}");
    }
}

#[test]
fn a_folder_gets_back_who_might_open_it() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let mode = |path: &str| own.look(path).unwrap().unwrap().mode;
    let (folder, file) = (scratch.at("folder"), scratch.at("folder/file"));
    assert_eq!(own.descriptor(&folder).unwrap(), None);
    for before in [0o755, 0o1777, 0o700] {
        own.make_folder(&folder, before).unwrap();
        own.write(&file, b"known", 0o644).unwrap();
        let descriptor = own.descriptor(&folder).unwrap().unwrap();
        own.make_folder(&folder, 0o700).unwrap();
        own.set_descriptor(&folder, &descriptor).unwrap();
        assert_eq!(mode(&folder), before, "{before:o}");
        assert_eq!(own.descriptor(&folder).unwrap(), Some(descriptor));
        assert_eq!(mode(&file), 0o644, "{before:o}");
    }
}

#[test]
fn files_are_told_apart_and_removed() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let (one, other) = (scratch.at("one"), scratch.at("other"));
    own.write(&one, b"same", 0o644).unwrap();
    own.copy(&one, &other, 0o644).unwrap();
    let (first, second) = (
        own.look(&one).unwrap().unwrap(),
        own.look(&other).unwrap().unwrap(),
    );
    assert_eq!((first.kind, first.size), (Kind::File, 4));
    assert_ne!(first.number, second.number);
    assert!(first.modified > 1_700_000_000_000_000_000);
    assert_eq!(own.digest(&one).unwrap(), own.digest(&other).unwrap());
    assert_eq!(own.list(&scratch.at("")).unwrap(), ["one", "other"]);
    assert_eq!(own.remove(&one).unwrap(), Removed::Gone);
    assert_eq!(own.remove(&one).unwrap(), Removed::Nothing);
    let folder = scratch.at("");
    let folder = folder.trim_end_matches('/');
    assert_eq!(own.remove_empty(folder).unwrap(), Removed::Nothing);
    own.remove(&other).unwrap();
    assert_eq!(own.remove_empty(folder).unwrap(), Removed::Gone);
    assert_eq!(own.list(folder).unwrap(), Vec::<String>::new());
}

#[test]
fn values_of_the_registry_come_and_go_with_their_keys() {
    let own = Own::new();
    let below = format!(r"{KEY}\a\b");
    for data in [
        RegistryData::Dword(7),
        RegistryData::String("größe".into()),
        RegistryData::Expandable("%SystemRoot%".into()),
        RegistryData::MultiString(vec!["a".into(), "b".into()]),
        RegistryData::String("x".repeat(2_000)),
    ] {
        let value = Value::from(&data);
        own.set_value(&below, "name", &value).unwrap();
        assert_eq!(own.value(&below, "NAME").unwrap(), Some(value));
    }
    assert_eq!(own.remove_empty_key(&below).unwrap(), Removed::Nothing);
    assert_eq!(own.remove_value(&below, "name").unwrap(), Removed::Gone);
    assert_eq!(own.remove_value(&below, "name").unwrap(), Removed::Nothing);
    for key in [below.as_str(), &format!(r"{KEY}\a"), KEY] {
        assert!(own.has_key(key).unwrap(), "{key}");
        assert_eq!(own.remove_empty_key(key).unwrap(), Removed::Gone);
        assert!(!own.has_key(key).unwrap(), "{key}");
    }
    assert_eq!(own.value(KEY, "name").unwrap(), None);
}

#[test]
fn a_program_is_heard_line_by_line_and_its_status_is_told() {
    let own = Own::new();
    let mut lines = Vec::new();
    let program = own.shell("echo one& echo \"two words\"& exit 3");
    let ended = own.run(&program, &mut |line| lines.push(line.to_owned()));
    assert_eq!(ended.unwrap(), Ended::Status(3));
    assert_eq!(lines, ["one", "\"two words\""]);
    let missing = own.run(&Program::new("no-such-program", []), &mut |_| {});
    assert!(matches!(missing, Err(SystemError::NoProgram(_))));
}

#[test]
fn a_program_ends_with_its_deadline_and_everything_it_started() {
    let own = Own::new();
    let start = Instant::now();
    let endless = own
        .shell("for /L %i in (0,0,1) do @cd .")
        .within(Duration::from_secs(1));
    let ended = own.run(&endless, &mut |_| {});
    assert!(
        matches!(ended, Err(SystemError::TooLong { .. })),
        "{ended:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn adapters_memory_and_disk_are_found() {
    let facts = Own::new().describe().unwrap();
    assert_eq!(facts.os, "windows");
    assert!(facts.memory > 0 && facts.disk.total > 0 && facts.cpus > 0);
    let windows = facts.windows.unwrap();
    assert!(windows.build > 10_000, "{windows:?}");
    let mut adapters = windows.adapters.iter();
    assert!(
        adapters.any(|adapter| !adapter.addresses.is_empty()),
        "{windows:?}"
    );
    assert!(!windows.time_zone.is_empty());
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn a_time_zone_is_set_and_put_back() {
    let own = Own::new();
    let before = own.time_zone().unwrap();
    for other in ["Tokyo Standard Time", "W. Europe Standard Time_dstoff"] {
        match own.set_time_zone(other) {
            Ok(()) => {
                assert_eq!(own.time_zone().unwrap(), other);
                own.set_time_zone(&before).unwrap();
            }
            // What stands in for Windows sets no time zone, and does not know the privilege for it either.
            Err(error) => assert!(error.to_string().contains("SeTimeZonePrivilege"), "{error}"),
        }
    }
    assert_eq!(own.time_zone().unwrap(), before);
    let error = own.set_time_zone("Nowhere Standard Time").unwrap_err();
    assert!(
        error.to_string().contains("`Nowhere Standard Time`"),
        "{error}"
    );
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn an_authority_comes_into_the_store_once_and_goes_again() {
    let own = Own::new();
    let authority = include_bytes!("authority.der");
    let digest = Sha256Digest::of(authority);
    assert!(!own.trusts(&digest).unwrap());
    assert_eq!(own.distrust(&digest).unwrap(), Removed::Nothing);
    for _ in 0..2 {
        own.trust(authority).unwrap();
        assert!(own.trusts(&digest).unwrap());
    }
    assert_eq!(own.distrust(&digest).unwrap(), Removed::Gone);
    assert!(!own.trusts(&digest).unwrap());
    assert_eq!(own.distrust(&digest).unwrap(), Removed::Nothing);
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn what_runs_at_the_next_start_is_scheduled_once_and_taken_away() {
    let own = Own::new();
    assert_eq!(own.unschedule_start().unwrap(), Removed::Nothing);
    for _ in 0..2 {
        own.schedule_start("C:/Program Files/mullion-agent/mullion-agent.exe", "resume")
            .unwrap();
    }
    assert_eq!(own.unschedule_start().unwrap(), Removed::Gone);
    assert_eq!(own.unschedule_start().unwrap(), Removed::Nothing);
}

#[test]
fn the_event_log_takes_what_it_is_told() {
    let own = Own::new();
    for entry in [LogEntry::Applied, LogEntry::Failed, LogEntry::PutBack] {
        own.log_event(entry, "größer\r\nals gedacht").unwrap();
    }
    own.log_event(LogEntry::Failed, &"ß".repeat(40_000))
        .unwrap();
}

#[test]
fn two_agents_keep_apart() {
    let (one, other) = (Own::new(), Own::new());
    let mode = |own: &Own| own.look(&own.paths().lock).unwrap().unwrap().mode;
    one.lock("testing", Duration::ZERO).unwrap();
    // A user who may open it may keep every agent from its work.
    assert_eq!(mode(&one), 0o600);
    match other.lock("waiting", Duration::from_millis(200)) {
        Err(SystemError::Busy { holder }) => assert!(holder.contains("testing"), "{holder}"),
        other => panic!("{other:?}"),
    }
    drop(one);
    other.set_mode(&other.paths().lock, 0o644).unwrap();
    other.lock("working", Duration::from_secs(1)).unwrap();
    assert_eq!(mode(&other), 0o600, "it was there before");
    other.remove(&other.paths().lock).unwrap();
}
