//! Whole blueprints: applied, applied again, changed, cut off half-way, put back; and the same on the Windows in memory.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use mullion_agent::system::memory::Memory;
use mullion_agent::system::registry::Value;
use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{Activity, Files as _, OnlyWindows as _, System};
use mullion_agent::{Outcome, serve};
use mullion_wire::{
    Blueprint, Content, Definition, Event, Exclusions, Facts, File, Folder, Mark, PageFile,
    RegistryData, RegistryValue, Request, Service, ServiceState, Windows, read_event, write_line,
};

use crate::services::{definition, service, starts};

const KEY: &str = r"HKLM\SOFTWARE\Mullion test applied\below";
const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
const PAGING: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management";
const EXCLUDED: &str = r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions\Paths";

/// Values that the blueprint touches.
const VALUES: [(&str, &str); 8] = [
    (KEY, "value"),
    (ENVIRONMENT, "Path"),
    (ENVIRONMENT, "MULLION_TEST"),
    (PAGING, "PagingFiles"),
    (EXCLUDED, r"C:\mullion-test"),
    (
        r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions",
        "Exclusions_Paths",
    ),
    (EVENTS, "EventMessageFile"),
    (EVENTS, "TypesSupported"),
];
const EVENTS: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\Mullion";
const FILES: [&str; 2] = ["C:/mullion-test/config.toml", "C:/mullion-test/keys"];
const SERVICES: [&str; 2] = ["mullion-test-one", "mullion-test-other"];

/// What needs no interface that a stand-in may lack, with two services that run.
fn blueprint() -> Blueprint {
    let text = |path: &str, text: &str, mode| File {
        path: path.into(),
        content: Content::Text(text.into()),
        mode,
    };
    let runs = |name: &str, by: &[&str]| Service {
        name: name.into(),
        after: [].into(),
        restarted_by: by.iter().map(|path| (*path).to_owned()).collect(),
        state: ServiceState::Running,
        definition: Some(Definition {
            display_name: name.into(),
            ..definition(&service("by-itself", name, &log(name)))
        }),
    };
    let mut other = runs(SERVICES[1], &[FILES[1]]);
    other.after.insert(SERVICES[0].into());
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
            text(FILES[0], "version = 3\n", 0o644),
            text(FILES[1], "ours\n", 0o600),
        ],
        services: vec![runs(SERVICES[0], &[FILES[0]]), other],
        firewall: None,
        windows: Some(Windows {
            registry: vec![RegistryValue {
                key: KEY.into(),
                name: "value".into(),
                data: RegistryData::Dword(1),
                restart: false,
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

/// Where a service writes its starts down.
fn log(name: &str) -> String {
    format!(r"C:\{name}.txt")
}

fn apply(blueprint: &Blueprint) -> Request {
    Request::Apply {
        blueprint: blueprint.clone(),
        mark: Mark(serde_json::json!({"seen": 1})),
    }
}

/// Asks an agent, which has the lock for as long as its system is there.
fn ask(system: &dyn System, request: &Request) -> Vec<Event> {
    let mut events = Vec::new();
    let line = write_line(request).unwrap();
    let outcome = serve(
        system,
        &mut line.as_bytes(),
        &mut events,
        Duration::from_secs(5),
    );
    let events = String::from_utf8(events).unwrap();
    let events: Vec<_> = events
        .lines()
        .map(|line| read_event(line).unwrap())
        .collect();
    assert_eq!(outcome, Outcome::Done, "{events:#?}");
    events
}

/// What was changed, in its order.
fn changes(system: &dyn System, request: &Request) -> Vec<String> {
    let events = ask(system, request).into_iter();
    let changes = events.filter_map(|event| match event {
        Event::Changed { what } => Some(what),
        _ => None,
    });
    changes.collect()
}

fn facts(system: &dyn System) -> Facts {
    match &ask(system, &Request::Facts)[0] {
        Event::Facts { facts } => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

/// What a blueprint leaves on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    files: Vec<Option<(Vec<u8>, u32)>>,
    values: Vec<Option<Value>>,
    services: BTreeMap<String, (Option<Definition>, bool, Activity)>,
    drift: Vec<String>,
    reboot: Option<String>,
}

fn left(system: &dyn System) -> Left {
    let facts = facts(system);
    let found = system.services(&SERVICES).unwrap();
    let read = |path: &&str| {
        let look = system.look(path).unwrap()?;
        Some((system.read(path).unwrap()?, look.mode))
    };
    Left {
        files: FILES.iter().map(read).collect(),
        values: VALUES
            .iter()
            .map(|(key, name)| system.value(key, name).unwrap())
            .collect(),
        services: found
            .into_iter()
            .map(|(name, facts)| {
                let definition = system.definition(&name).unwrap();
                (name, (definition, facts.is_enabled, facts.activity))
            })
            .collect(),
        drift: facts.drift,
        reboot: facts.reboot_pending,
    }
}

/// A Windows in memory that begins as this one.
fn twin(own: &Own) -> Memory {
    let memory = Memory::windows(&own.host_name().unwrap());
    for (key, name) in VALUES {
        if let Some(value) = own.value(key, name).unwrap() {
            memory.put_value(key, name, value);
        }
    }
    memory
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn a_blueprint_does_the_same_here_and_in_memory() {
    let own = Own::new();
    let memory = twin(&own);
    let both = |what: &str, request: &Request| {
        let (here, there) = (changes(&Own::new(), request), changes(&memory, request));
        assert_eq!(here, there, "{what}");
        assert_eq!(left(&Own::new()), left(&memory), "{what}");
        here
    };
    let before = left(&Own::new());
    assert!(both("apply", &apply(&blueprint())).len() > 5);
    assert!(both("apply again", &apply(&blueprint())).is_empty());
    assert_eq!(left(&Own::new()).drift, Vec::<String>::new());

    let mut next = blueprint();
    next.files[0].content = Content::Text("version = 3 # new\n".into());
    let changed = both("one file", &apply(&next));
    assert_eq!(changed.len(), 2, "the file and its service: {changed:?}");
    assert_eq!(SERVICES.map(|name| starts(&log(name))), [2, 1]);

    own.set_value(KEY, "value", &Value::dword(2)).unwrap();
    memory.put_value(KEY, "value", Value::dword(2));
    assert_eq!(left(&Own::new()).drift.len(), 1);
    assert_eq!(both("what drifted", &apply(&next)).len(), 1);

    assert!(both("revert", &Request::Revert).len() > 5);
    assert!(both("revert again", &Request::Revert).is_empty());
    assert_eq!(left(&Own::new()), before);
    assert_eq!(own.look("C:/mullion-test").unwrap(), None);
    assert_eq!(own.look("C:/Program Files/mullion").unwrap(), None);
    assert!(!own.has_key(r"HKLM\SOFTWARE\Mullion test applied").unwrap());
    assert!(!own.has_key(EVENTS).unwrap());
    for name in SERVICES {
        fs_err::remove_file(log(name)).unwrap();
    }
}

/// Starts the agent with a request, and ends it after so many changes. Whether there were so many.
fn cut_off(request: &Request, after: usize) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mullion-agent"))
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = write_line(request).unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(line.as_bytes()).unwrap();
    drop(input);
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let Event::Changed { .. } = read_event(&line.unwrap()).unwrap() {
            seen += 1;
        }
        if seen == after {
            child.kill().unwrap();
            break;
        }
    }
    child.wait().unwrap();
    seen == after
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn an_agent_that_is_killed_half_way_goes_on() {
    let own = Own::new();
    let before = left(&Own::new());
    let whole = {
        ask(&Own::new(), &apply(&blueprint()));
        let whole = left(&Own::new());
        ask(&Own::new(), &Request::Revert);
        whole
    };
    let mut cuts = 0;
    // Each way is cut off at another place, and gone to its end after it.
    for after in [1, 3, 5, 7, 9] {
        cuts += usize::from(cut_off(&apply(&blueprint()), after));
        ask(&Own::new(), &apply(&blueprint()));
        assert_eq!(left(&Own::new()), whole, "applied after {after}");
        cuts += usize::from(cut_off(&Request::Revert, after));
        ask(&Own::new(), &Request::Revert);
        assert_eq!(left(&Own::new()), before, "reverted after {after}");
        assert_eq!(own.look("C:/Program Files/mullion").unwrap(), None);
    }
    assert!(cuts >= 6, "{cuts} were cut off");
    for name in SERVICES {
        fs_err::remove_file(log(name)).unwrap();
    }
}

#[test]
#[ignore = "changes the Windows that it runs on, and puts it back; cargo xtask test runs it"]
fn a_folder_that_everybody_may_add_to_is_closed_and_given_back() {
    let own = Own::new();
    let (open, closed) = ("C:/mullion-open", "C:/mullion-open/below");
    let mode = |path: &str| own.look(path).unwrap().map(|look| look.mode);
    own.make_folder(open, 0o1777).unwrap();
    let before = own.descriptor(open).unwrap();
    let wanted = |path: &str, mode| Folder {
        path: path.into(),
        mode,
    };
    let mut blueprint = blueprint();
    blueprint.folders = vec![wanted(open, 0o755), wanted(closed, 0o700)];
    blueprint.files.clear();
    blueprint.services.clear();
    blueprint.windows = Some(Windows::default());
    let mut changed = changes(&Own::new(), &apply(&blueprint));
    changed.retain(|what| what.starts_with(open));
    assert_eq!(changed, [open, closed]);
    assert_eq!((mode(open), mode(closed)), (Some(0o755), Some(0o700)));
    assert!(changes(&Own::new(), &apply(&blueprint)).is_empty());
    ask(&Own::new(), &Request::Revert);
    assert_eq!((mode(open), mode(closed)), (Some(0o1777), None));
    assert_eq!(own.descriptor(open).unwrap(), before);
    own.remove(open).unwrap();
}
