//! A machine, blueprints for it, and how the agent is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion_wire::{
    Blueprint, Content, Event, File, Firewall, Mark, OpenPort, Package, Protocol, Request, Service,
    ServiceState, Sha256Digest, read_event, write_line,
};

use crate::system::memory::{Memory, MemoryWindows, Node};
use crate::system::{Activity, Owner};
use crate::{Outcome, serve};

pub(crate) const CONFIG: &str = "/etc/containerd/config.toml";
pub(crate) const STORE: &str = "/var/lib/mullion/store";

/// A program that is large enough to be remembered.
pub(crate) fn program(letter: &str) -> Vec<u8> {
    letter.repeat(5_000).into_bytes()
}

/// A machine with things of its own, some of which the blueprint will change.
pub(crate) fn machine() -> Memory {
    let machine = Memory::new("lin1");
    machine.put_file("/etc/motd", b"welcome\n", 0o644);
    machine.put_file("/etc/moded", b"same\n", 0o600);
    machine.put_file("/etc/target", b"led to\n", 0o644);
    machine.put(
        "/etc/linked",
        Node::Link {
            target: "/etc/target".into(),
            owner: Owner::Agent,
        },
    );
    machine.put(
        "/etc/foreign",
        Node::File {
            bytes: b"same\n".to_vec(),
            mode: 0o644,
            owner: Owner::Other,
            modified: 0,
            number: 999,
        },
    );
    machine.put_file("/etc/haproxy/haproxy.cfg", b"theirs\n", 0o640);
    machine.put_service("haproxy", true, Activity::Running);
    machine.put_service("noisy", true, Activity::Running);
    machine.put_setting("net.ipv4.ip_forward", "0");
    machine.put_setting("vm.overcommit_memory", "1");
    machine.put_setting("net.ipv4.ip_local_port_range", "32768 60999");
    machine.put_module("overlay");
    machine
}

/// Brings contents into the agent's store, as a controller does.
pub(crate) fn bring(machine: &Memory, contents: &[Vec<u8>]) {
    machine.put("/var/lib/mullion", Node::Folder { mode: 0o700 });
    for bytes in contents {
        let path = format!("{STORE}/{}", Sha256Digest::of(bytes));
        machine.put_file(&path, bytes, 0o600);
    }
}

pub(crate) fn text(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        content: Content::Text(text.into()),
        mode: 0o644,
    }
}

pub(crate) fn stored(path: &str, bytes: &[u8]) -> File {
    File {
        path: path.into(),
        content: Content::Stored {
            sha256: Sha256Digest::of(bytes),
            size: bytes.len() as u64,
        },
        mode: 0o755,
    }
}

pub(crate) fn service(name: &str, state: ServiceState, restarted_by: &[&str]) -> Service {
    Service {
        name: name.into(),
        after: BTreeSet::new(),
        restarted_by: restarted_by.iter().map(|path| (*path).into()).collect(),
        state,
        definition: None,
    }
}

pub(crate) fn blueprint() -> Blueprint {
    let unit = |name: &str| format!("/etc/systemd/system/{name}.service");
    let mut kubelet = service(
        "kubelet",
        ServiceState::Enabled,
        &[&unit("kubelet"), "/usr/local/bin/kubelet"],
    );
    kubelet.after.insert("containerd".into());
    Blueprint {
        version: mullion_wire::VERSION,
        machine: "lin1".into(),
        packages: vec![Package {
            name: "conntrack".into(),
            program: None,
        }],
        modules: ["overlay".to_owned()].into(),
        sysctls: [
            ("net.ipv4.ip_forward".to_owned(), "1".to_owned()),
            ("vm.overcommit_memory".to_owned(), "1".to_owned()),
            (
                "net.ipv4.ip_local_port_range".to_owned(),
                "32768\t60999".to_owned(),
            ),
        ]
        .into(),
        folders: vec![],
        files: vec![
            text("/etc/apt/apt.conf.d/90proxy", "proxy\n"),
            stored("/usr/local/bin/containerd", &program("c")),
            stored("/usr/local/bin/kubelet", &program("k")),
            text(CONFIG, "version = 3\n"),
            text(&unit("containerd"), "containerd\n"),
            text(&unit("kubelet"), "kubelet\n"),
            text("/etc/motd", "a node\n"),
            text("/etc/moded", "same\n"),
            text("/etc/foreign", "same\n"),
            text("/etc/linked", "a file\n"),
            text("/etc/haproxy/haproxy.cfg", "ours\n"),
            text("/opt/new/deep/file", "new\n"),
        ],
        services: vec![
            kubelet,
            service(
                "containerd",
                ServiceState::Running,
                &[&unit("containerd"), CONFIG, "/usr/local/bin/containerd"],
            ),
            service(
                "haproxy",
                ServiceState::Running,
                &["/etc/haproxy/haproxy.cfg"],
            ),
            service("noisy", ServiceState::Stopped, &[]),
        ],
        firewall: Some(Firewall {
            group: "mullion".into(),
            open: vec![OpenPort {
                name: "kubelet".into(),
                protocol: Protocol::Tcp,
                first: 10250,
                last: 10250,
            }],
        }),
        windows: None,
    }
}

/// The next blueprint: one thing changed, one dropped, one new of each kind.
pub(crate) fn next_blueprint() -> Blueprint {
    let mut next = blueprint();
    next.files.retain(|file| {
        ![
            "/etc/motd",
            "/opt/new/deep/file",
            "/etc/linked",
            "/etc/moded",
        ]
        .contains(&file.path.as_str())
    });
    for file in &mut next.files {
        if file.path.ends_with("/containerd.service") || file.path == CONFIG {
            file.content = Content::Text("changed\n".into());
        }
        if file.path == "/usr/local/bin/kubelet" {
            *file = stored("/usr/local/bin/kubelet", &program("l"));
        }
    }
    next.files.push(text("/srv/more", "more\n"));
    next.services
        .retain(|service| service.name != "haproxy" && service.name != "noisy");
    next.sysctls.remove("net.ipv4.ip_forward");
    next.firewall = None;
    next
}

pub(crate) fn apply(blueprint: &Blueprint) -> Request {
    Request::Apply {
        blueprint: blueprint.clone(),
        mark: Mark(serde_json::json!({"seen": 1})),
    }
}

/// Asks the agent; gives back how it ended and what it said.
pub(crate) fn ask(machine: &Memory, request: &Request) -> (Outcome, Vec<Event>) {
    ask_line(machine, &write_line(request).unwrap())
}

pub(crate) fn ask_line(machine: &Memory, line: &str) -> (Outcome, Vec<Event>) {
    let mut events = Vec::new();
    let outcome = serve(
        machine,
        &mut line.as_bytes(),
        &mut events,
        Duration::from_secs(1),
    );
    let events: Vec<_> = String::from_utf8(events)
        .unwrap()
        .lines()
        .map(|line| read_event(line).unwrap())
        .collect();
    let is_end = matches!(
        (outcome, events.last()),
        (Outcome::Done, Some(Event::Done { .. })) | (Outcome::Failed, Some(Event::Failed { .. }))
    );
    assert!(is_end, "{events:#?}");
    (outcome, events)
}

/// Asks, and expects that it is done; gives back how much was changed, and what was said.
pub(crate) fn ask_well(machine: &Memory, request: &Request) -> (u64, Vec<Event>) {
    let (outcome, events) = ask(machine, request);
    assert_eq!(outcome, Outcome::Done, "{events:#?}\n{:#?}", machine.log());
    let Some(Event::Done { changed, .. }) = events.last() else {
        unreachable!("asked for above");
    };
    (*changed, events)
}

/// Asks, and expects a failure; gives back its words, causes, hint and tail as one text.
pub(crate) fn ask_badly(machine: &Memory, request: &Request) -> String {
    let (outcome, events) = ask(machine, request);
    assert_eq!(outcome, Outcome::Failed, "{events:#?}");
    failure(&events)
}

pub(crate) fn failure(events: &[Event]) -> String {
    let (words, causes, hint, tail) = failed(events);
    format!("{words}\n{causes:?}\n{hint}\n{}", tail.join("\n"))
}

/// The words, causes, hint and tail of the failure that events end with.
pub(crate) fn failed(events: &[Event]) -> (String, Vec<String>, String, Vec<String>) {
    match events.last() {
        Some(Event::Failed {
            words,
            causes,
            hint,
            tail,
        }) => {
            let hint = hint.clone().unwrap_or_default();
            (words.clone(), causes.clone(), hint, tail.clone())
        }
        other => panic!("{other:?}"),
    }
}

/// A machine as somebody sees it who does not care when things happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) nodes: BTreeMap<String, (String, u32)>,
    pub(crate) services: BTreeMap<String, (bool, bool)>,
    settings: BTreeMap<String, String>,
    firewalls: BTreeMap<String, Firewall>,
    loaded_and_installed: (BTreeSet<String>, BTreeSet<String>),
    pub(crate) windows: MemoryWindows,
}

pub(crate) fn see(machine: &Memory) -> Seen {
    let mut nodes = BTreeMap::new();
    for (path, node) in machine.nodes() {
        // What is remembered of large files depends on when they were written.
        if path.contains("/digests.json") {
            continue;
        }
        let shown = match node {
            Node::File { bytes, mode, .. } => (String::from_utf8(bytes).unwrap(), mode),
            Node::Folder { mode } => ("(folder)".into(), mode),
            Node::Link { target, .. } => (format!("-> {target}"), 0),
        };
        nodes.insert(path, shown);
    }
    let services = machine
        .all_services()
        .into_iter()
        .filter(|(_, service)| service.is_enabled || service.activity != Activity::Stopped)
        .map(|(name, service)| {
            let runs = service.activity == Activity::Running;
            (name, (service.is_enabled, runs))
        })
        .collect();
    Seen {
        nodes,
        services,
        settings: machine.all_settings(),
        firewalls: machine.all_firewalls(),
        loaded_and_installed: machine.loaded_and_installed(),
        windows: machine.windows_parts(),
    }
}

/// Every service that runs has read the files that are there now, and nothing staged is left.
pub(crate) fn check_services(machine: &Memory, blueprint: &Blueprint) {
    let nodes = machine.nodes();
    for service in &blueprint.services {
        let found = &machine.all_services()[&service.name];
        if found.activity != Activity::Running {
            continue;
        }
        for path in &service.restarted_by {
            let now = machine.file(path).unwrap().into_bytes();
            assert_eq!(
                found.saw.get(path),
                Some(&now),
                "{} and {path}",
                service.name
            );
        }
    }
    let staged = nodes.keys().find(|path| path.ends_with(".mullion-new"));
    assert_eq!(staged, None);
}
