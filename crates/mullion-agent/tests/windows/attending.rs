//! The agent as a service that attends to a program.

use std::thread::sleep;
use std::time::{Duration, Instant};

use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{
    Account, Activity, Files as _, OnlyWindows as _, Services as _, Stopped,
};
use mullion_wire::{Attended, AttendedFile, AttendedProgram, Awaited, Definition, Recovery, Start};

const FOLDER: &str = "C:/mullion-attend";
const NAME: &str = "mullion-test-attended";

fn at(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// A program that waits for a file, and writes another while it runs: the agent itself, which nobody started as a
/// service.
fn inner() -> Attended {
    Attended {
        version: mullion_wire::VERSION,
        service: "inner".into(),
        share: at("subnet.env"),
        program: AttendedProgram {
            awaits: Awaited {
                files: vec![at("never")],
                network: None,
            },
            renewed_with: None,
            path: "C:/none.exe".into(),
            args: vec![],
        },
        files: vec![AttendedFile {
            awaits: Awaited::default(),
            path: at("inner-runs"),
            text: "$(source-vip)".into(),
        }],
        logs: vec![],
    }
}

fn outer(agent: &str) -> Attended {
    Attended {
        version: mullion_wire::VERSION,
        service: NAME.into(),
        share: at("subnet.env"),
        program: AttendedProgram {
            awaits: Awaited {
                files: vec![at("node")],
                network: None,
            },
            renewed_with: None,
            path: agent.into(),
            args: vec!["attend".into(), at("inner.json")],
        },
        files: vec![],
        logs: vec![],
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what} never comes");
        sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs a program that is a service, named by MULLION_TEST_SERVICE; cargo xtask test runs it"]
fn a_service_starts_its_program_when_its_time_comes_and_ends_it_with_itself() {
    let own = Own::new();
    own.make_folder(FOLDER, 0o755).unwrap();
    let agent = at("mullion-agent.exe");
    fs_err::copy(env!("CARGO_BIN_EXE_mullion-agent"), &agent).unwrap();
    for (name, attended) in [("inner.json", inner()), ("outer.json", outer(&agent))] {
        let text = serde_json::to_vec(&attended).unwrap();
        own.write(&at(name), &text, 0o644).unwrap();
    }
    own.write(&at("subnet.env"), b"FLANNEL_SUBNET=10.244.3.1/24\n", 0o644)
        .unwrap();
    // Below another program, as on a node, where that keeps what it says.
    let above = std::env::var("MULLION_TEST_SERVICE").unwrap();
    let command = format!("{above} run {agent} attend {}", at("outer.json"));
    let definition = Definition {
        display_name: "Mullion test".into(),
        command: command.replace('/', "\\"),
        depends_on: [].into(),
        start: Start::OnDemand,
        recovery: Recovery::default(),
        environment: [].into(),
    };
    own.define(NAME, &definition, &Account::system()).unwrap();
    let activity = || own.services(&[NAME]).unwrap()[NAME].activity;
    let is_there = |name: &str| own.look(&at(name)).unwrap().is_some();
    own.start(NAME).unwrap();
    assert_eq!(activity(), Activity::Running, "it waits, and runs");
    sleep(Duration::from_secs(3));
    assert!(!is_there("inner-runs"), "its time has not come");

    own.write(&at("node"), b"", 0o644).unwrap();
    until("the program", || is_there("inner-runs"));
    let written = own.read(&at("inner-runs")).unwrap().unwrap();
    assert_eq!(written, b"10.244.3.2");

    own.remove(&at("node")).unwrap();
    sleep(Duration::from_secs(3));
    own.remove(&at("inner-runs")).unwrap();
    sleep(Duration::from_secs(3));
    assert!(!is_there("inner-runs"), "it was ended with what it needs");

    own.write(&at("node"), b"", 0o644).unwrap();
    until("the program", || is_there("inner-runs"));
    assert_eq!(
        own.stop(NAME, &[NAME.to_owned()].into()).unwrap(),
        Stopped::ByItself
    );
    assert_eq!(activity(), Activity::Stopped);
    own.remove(&at("inner-runs")).unwrap();
    sleep(Duration::from_secs(3));
    assert!(!is_there("inner-runs"), "it went with its service");
    own.undefine(NAME).unwrap();
    own.remove(FOLDER).unwrap();
}
