//! The adapter for Windows, on a Windows or on what stands in for it. Most of it needs an administrator; what changes
//! the whole machine is run only where that is asked for.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use mullion_agent::system::registry::Value;
use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{
    Activity, Ended, Files as _, Kind, OnlyWindows as _, Program, Programs as _, Removed,
    Services as _, System as _, SystemError,
};
use mullion_agent::{Outcome, serve};
use mullion_wire::{
    Blueprint, Content, Definition, Event, Exclusions, Facts, File, Folder, Mark, PageFile,
    Recovery, RegistryData, RegistryValue, Request, Service, ServiceState, Start, Windows,
    read_event, write_line,
};

const KEY: &str = r"HKLM\SOFTWARE\Mullion test";

/// A scratch folder in the agent's way of writing paths.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().unwrap().replace('\\', "/")
    }
}

#[test]
fn files_have_one_of_two_modes_and_keep_it() {
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
    own.make_folder(&folder, 0o700).unwrap();
    assert_eq!(mode(&folder), 0o700);
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

fn definition(command: &str) -> Definition {
    Definition {
        display_name: "Mullion test".into(),
        command: command.into(),
        depends_on: ["RpcSs".to_owned()].into(),
        start: Start::Delayed,
        recovery: Recovery {
            restart_after_ms: vec![10_000, 60_000],
            reset_after_s: 86_400,
        },
        environment: [("NODE_NAME".to_owned(), "win1".to_owned())].into(),
    }
}

#[test]
fn a_service_is_defined_as_asked_and_leaves_nothing() {
    let (own, name) = (Own::new(), "mullion-test-defined");
    assert_eq!(own.definition(name).unwrap(), None);
    let mut wanted = definition(r#""C:\Program Files\none.exe" --flag="a b""#);
    own.define(name, &wanted).unwrap();
    assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    wanted.command.push_str(" --v=2");
    wanted.depends_on.clear();
    wanted.environment.clear();
    wanted.start = Start::OnDemand;
    wanted.recovery = Recovery::default();
    own.define(name, &wanted).unwrap();
    assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    let facts = own.services(&[name]).unwrap()[name];
    assert_eq!(
        (facts.is_enabled, facts.activity),
        (false, Activity::Stopped)
    );
    own.enable(&[name]).unwrap();
    assert!(own.services(&[name]).unwrap()[name].is_enabled);
    assert_eq!(own.undefine(name).unwrap(), Removed::Gone);
    assert_eq!(own.undefine(name).unwrap(), Removed::Nothing);
    assert_eq!(own.definition(name).unwrap(), None);
}

#[test]
#[ignore = "needs a program that is a service, named by MULLION_TEST_SERVICE"]
fn a_service_starts_restarts_and_stops() {
    let (own, name) = (Own::new(), "mullion-test-runs");
    let command = std::env::var("MULLION_TEST_SERVICE").unwrap();
    own.define(name, &definition(&command)).unwrap();
    let activity = || own.services(&[name]).unwrap()[name].activity;
    own.start(name).unwrap();
    assert_eq!(activity(), Activity::Running);
    own.start(name).unwrap();
    own.restart(name).unwrap();
    assert_eq!(activity(), Activity::Running);
    own.stop(name).unwrap();
    own.stop(name).unwrap();
    assert_eq!(activity(), Activity::Stopped);
    own.undefine(name).unwrap();
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

fn ask(request: &Request) -> (Outcome, Vec<Event>) {
    let mut events = Vec::new();
    let line = write_line(request).unwrap();
    let outcome = serve(
        &Own::new(),
        &mut line.as_bytes(),
        &mut events,
        Duration::from_secs(5),
    );
    let events = String::from_utf8(events).unwrap();
    let events = events.lines().map(|line| read_event(line).unwrap());
    (outcome, events.collect())
}

fn changed(request: &Request) -> u64 {
    let (outcome, events) = ask(request);
    assert_eq!(outcome, Outcome::Done, "{events:#?}");
    match events.last() {
        Some(Event::Done { changed, .. }) => *changed,
        other => panic!("{other:?}"),
    }
}

fn facts() -> Facts {
    match &ask(&Request::Facts).1[0] {
        Event::Facts { facts } => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

/// What needs no interface that a stand-in may lack.
fn blueprint() -> Blueprint {
    let text = |path: &str, text: &str, mode| File {
        path: path.into(),
        content: Content::Text(text.into()),
        mode,
    };
    Blueprint {
        version: mullion_wire::VERSION,
        machine: "win1".into(),
        packages: vec![],
        modules: [].into(),
        sysctls: [].into(),
        folders: vec![Folder {
            path: "C:/mullion-test/log".into(),
            mode: 0o700,
        }],
        files: vec![
            text("C:/mullion-test/config.toml", "version = 3\n", 0o644),
            text("C:/mullion-test/keys", "ours\n", 0o600),
        ],
        services: vec![Service {
            name: "mullion-test-applied".into(),
            after: [].into(),
            restarted_by: ["C:/mullion-test/config.toml".to_owned()].into(),
            state: ServiceState::Enabled,
            definition: Some(definition(r"C:\mullion-test\none.exe")),
        }],
        firewall: None,
        windows: Some(Windows {
            registry: vec![RegistryValue {
                key: format!(r"{KEY} applied\below"),
                name: "value".into(),
                data: RegistryData::Dword(1),
            }],
            environment: [("MULLION_TEST".to_owned(), "1".to_owned())].into(),
            path: vec![r"C:\mullion-test".into()],
            exclusions: Exclusions {
                paths: [r"C:\mullion-test".to_owned()].into(),
                processes: [].into(),
            },
            page_file: Some(PageFile {
                path: r"C:\pagefile.sys".into(),
                first_mib: 4096,
                most_mib: 4096,
            }),
            ..Windows::default()
        }),
    }
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back"]
fn a_blueprint_is_applied_once_told_when_it_drifts_and_put_back() {
    let own = Own::new();
    let apply = |blueprint: &Blueprint| Request::Apply {
        blueprint: blueprint.clone(),
        mark: Mark(serde_json::json!({"seen": 1})),
    };
    let environment = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
    let path = own.value(environment, "Path").unwrap();
    assert!(changed(&apply(&blueprint())) > 5);
    assert_eq!(changed(&apply(&blueprint())), 0);
    assert_eq!(facts().drift, Vec::<String>::new());
    let mut next = blueprint();
    next.files[0].content = Content::Text("version = 3 # new\n".into());
    assert_eq!(changed(&apply(&next)), 1, "only the file");

    let key = format!(r"{KEY} applied\below");
    own.set_value(&key, "value", &Value::dword(2)).unwrap();
    own.undefine("mullion-test-applied").unwrap();
    let drift = facts().drift;
    assert_eq!(drift.len(), 2, "{drift:?}");
    assert!(changed(&apply(&next)) >= 2);

    assert!(changed(&Request::Revert) > 5);
    assert_eq!(changed(&Request::Revert), 0);
    assert_eq!(own.look("C:/mullion-test").unwrap(), None);
    assert_eq!(own.look("C:/Program Files/mullion").unwrap(), None);
    assert!(!own.has_key(&format!("{KEY} applied")).unwrap());
    assert_eq!(own.definition("mullion-test-applied").unwrap(), None);
    assert_eq!(own.value(environment, "Path").unwrap(), path);
    assert_eq!(own.value(environment, "MULLION_TEST").unwrap(), None);
}

#[test]
fn two_agents_keep_apart() {
    let (one, other) = (Own::new(), Own::new());
    one.lock("testing", Duration::ZERO).unwrap();
    match other.lock("waiting", Duration::from_millis(200)) {
        Err(SystemError::Busy { holder }) => assert!(holder.contains("testing"), "{holder}"),
        other => panic!("{other:?}"),
    }
    drop(one);
    other.lock("working", Duration::from_secs(1)).unwrap();
    other.remove(&other.paths().lock).unwrap();
}
