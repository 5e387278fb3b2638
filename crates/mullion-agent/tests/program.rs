//! The built program: one line in, events out, an exit status.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mullion_wire::{Event, Facts, Request, read_event, write_line};

fn run(args: &[&str], input: &str) -> Output {
    run_program(Path::new(env!("CARGO_BIN_EXE_mullion-agent")), args, input)
}

fn run_program(program: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read is no failure of the test.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn events(output: &Output) -> Vec<Event> {
    String::from_utf8(output.stdout.clone())
        .unwrap()
        .lines()
        .map(|line| read_event(line).unwrap())
        .collect()
}

fn facts(program: &Path) -> Facts {
    let request = write_line(&Request::Facts).unwrap();
    let output = run_program(program, &["serve"], &request);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    match &events(&output)[..] {
        [Event::Facts { facts }, Event::Done { changed: 0, .. }] => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn facts_are_answered_and_then_done() {
    let facts = facts(Path::new(env!("CARGO_BIN_EXE_mullion-agent")));
    assert_eq!(facts.os, std::env::consts::OS);
    assert_eq!(facts.version, mullion_wire::VERSION);
    assert!(facts.cpus > 0 && facts.memory > 0 && facts.disk.total > 0);
    assert!(facts.clock > 1_700_000_000);
    assert!(!facts.host_name.is_empty() && !facts.kernel.is_empty());
}

#[test]
fn the_version_tells_two_builds_apart_and_is_the_one_in_the_facts() {
    // A copy: another build may put a new program in this one's place at any moment.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("mullion-agent");
    fs_err::copy(env!("CARGO_BIN_EXE_mullion-agent"), &program).unwrap();
    let output = run_program(&program, &["version"], "");
    assert_eq!(output.status.code(), Some(0));
    let version = String::from_utf8(output.stdout).unwrap();
    assert_eq!(version.trim(), facts(&program).agent);
    let bytes = fs_err::File::open(&program).unwrap();
    let (digest, _) = mullion_wire::Sha256Digest::of_reader(bytes).unwrap();
    let wanted = mullion_wire::agent_version(env!("CARGO_PKG_VERSION"), &digest);
    assert_eq!(version.trim(), wanted);
}

#[test]
fn a_newer_request_fails_with_both_versions_and_status_1() {
    let output = run(&["serve"], "{\"version\":2,\"ask\":\"something-new\"}\n");
    assert_eq!(output.status.code(), Some(1));
    match &events(&output)[..] {
        [Event::Failed { words, hint, .. }] => {
            assert!(
                words.contains("version 2") && words.contains("version 1"),
                "{words}"
            );
            assert!(words.contains(env!("CARGO_PKG_VERSION")), "{words}");
            assert!(hint.as_ref().unwrap().contains("mullion up"), "{hint:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_without_an_end_of_line_is_one_and_no_request_is_a_failure() {
    let line = write_line(&Request::Facts).unwrap();
    assert_eq!(run(&["serve"], line.trim_end()).status.code(), Some(0));
    let output = run(&["serve"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(matches!(&events(&output)[..], [Event::Failed { .. }]));
}
