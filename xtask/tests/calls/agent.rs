//! The agent on a Windows of its own: requests one after the other, each to an agent that is started for it, and what
//! each answers and calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mullion_wire::{
    Blueprint, Event, Facts, Kubeadm, Mark, Request, Windows, read_event, write_line,
};
use serde_json::{Value, json};

use crate::told::{Told, on_drive};
use crate::{Running, Stage, expected, is_change};

/// No series of requests takes longer.
const PATIENCE: Duration = Duration::from_mins(5);

/// Where Windows counts its starts.
const STARTS: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";

/// What an agent answered, and what it called meanwhile.
pub(crate) struct Answer {
    events: Vec<Event>,
    calls: Vec<Value>,
}

impl Answer {
    /// Why the machine has to be started anew, where it has.
    pub(crate) fn reboot(&self) -> Option<&str> {
        match self.events.last() {
            Some(Event::Done { reboot, .. }) => reboot.as_deref(),
            _ => panic!("{:#?}", self.events),
        }
    }

    /// What was changed, of one kind.
    pub(crate) fn changed(&self, kind: &str) -> Vec<&str> {
        let events = self.events.iter();
        let changed = events.filter_map(|event| match event {
            Event::Changed { what } => what.strip_prefix(kind),
            _ => None,
        });
        changed.collect()
    }

    pub(crate) fn facts(&self) -> &Facts {
        let mut events = self.events.iter();
        let facts = events.find_map(|event| match event {
            Event::Facts { facts } => Some(facts.as_ref()),
            _ => None,
        });
        facts.unwrap_or_else(|| panic!("{:#?}", self.events))
    }

    pub(crate) fn calls(&self) -> &[Value] {
        &self.calls
    }

    fn changes(&self) -> Vec<Value> {
        self.calls
            .iter()
            .filter(|call| is_change(call))
            .cloned()
            .collect()
    }
}

/// What happens on a machine, from its first start to its end: its drive `C:` goes with it.
pub(crate) struct Life<'a> {
    stage: &'a Stage,
    lines: Vec<String>,
    requests: usize,
    starts: u32,
}

impl<'a> Life<'a> {
    pub(crate) fn new(stage: &'a Stage) -> Self {
        Self {
            stage,
            lines: vec!["@echo off".to_owned()],
            requests: 0,
            starts: 0,
        }
    }

    /// A line of `cmd`.
    pub(crate) fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    /// A request to the agent.
    pub(crate) fn ask(&mut self, request: &Request) {
        let at = |ending: &str| {
            self.stage
                .folder
                .join(format!("{}.{ending}", self.requests))
        };
        fs_err::write(at("request"), write_line(request).unwrap()).unwrap();
        let agent = on_drive(&self.stage.programs.join("mullion-agent.exe"));
        let lines = [
            format!("set MULLION_CALLS={}", on_drive(&at("calls"))),
            format!(
                "{agent} serve < {} > {}",
                on_drive(&at("request")),
                on_drive(&at("events"))
            ),
        ];
        self.lines.extend(lines);
        self.requests += 1;
    }

    /// A start of the machine, as far as one is seen in the registry.
    pub(crate) fn restart(&mut self) {
        self.starts += 1;
        let starts = self.starts;
        self.line(&format!(
            "reg add \"{STARTS}\" /v BootId /t REG_DWORD /d {starts} /f"
        ));
    }

    /// Lives it, and gives the answers to all requests.
    pub(crate) fn live(self) -> Vec<Answer> {
        let file = self.stage.folder.join("life.bat");
        fs_err::write(&file, self.lines.join("\r\n") + "\r\n").unwrap();
        let words = ["cmd".to_owned(), "/c".to_owned(), on_drive(&file)];
        let mut child = Running(
            self.stage
                .command("life", &words, &[].into())
                .spawn()
                .unwrap(),
        );
        child.wait(PATIENCE);
        let log = fs_err::read_to_string(self.stage.folder.join("life.log")).unwrap();
        let answers = (0..self.requests).map(|number| {
            let read = |ending: &str| {
                let path = self.stage.folder.join(format!("{number}.{ending}"));
                fs_err::read_to_string(path).unwrap_or_default()
            };
            let events = read("events");
            let events = events.lines().map(|line| read_event(line).unwrap());
            let calls = read("calls");
            let calls = calls
                .lines()
                .map(|line| serde_json::from_str(line).unwrap());
            let answer = Answer {
                events: events.collect(),
                calls: calls.collect(),
            };
            assert!(!answer.events.is_empty(), "request {number}: {log}");
            answer
        });
        answers.collect()
    }
}

/// A blueprint that asks for nothing, for the machine of another.
pub(crate) fn empty(told: &Blueprint) -> Blueprint {
    Blueprint {
        version: told.version,
        machine: told.machine.clone(),
        packages: vec![],
        modules: [].into(),
        sysctls: [].into(),
        folders: vec![],
        files: vec![],
        services: vec![],
        firewall: None,
        windows: None,
    }
}

pub(crate) fn apply(blueprint: Blueprint) -> Request {
    Request::Apply {
        blueprint,
        mark: Mark(json!({"seen": 1})),
    }
}

/// What HNS has under an id, by its name or address.
type Named = BTreeMap<String, String>;

/// The folder that the shims keep objects of a kind in.
fn kept(stage: &Stage, kind: &str) -> std::path::PathBuf {
    stage.folder.join("state").join(kind)
}

/// Everything that HNS has.
fn everything(stage: &Stage) -> Named {
    let mut named = Named::new();
    for (kind, word) in [
        ("networks", "network"),
        ("endpoints", "endpoint"),
        ("loadbalancers", "load balancer"),
    ] {
        let folder = kept(stage, kind);
        for entry in fs_err::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let object: Value =
                serde_json::from_str(&fs_err::read_to_string(&path).unwrap()).unwrap();
            let words = [
                &object["Name"],
                &object["IpConfigurations"][0]["IpAddress"],
                &object["FrontendVIPs"][0],
            ];
            let name = words.iter().find_map(|name| name.as_str()).unwrap();
            named.insert(id_of(&path), format!("<{word} {name}>"));
        }
    }
    named
}

fn id_of(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_lowercase()
}

/// Calls with names in the place of ids, those of one function that come together in the order of their names: HNS lists
/// by ids, which are others each time.
fn with_names(calls: &[Value], named: &Named) -> Vec<Value> {
    let mut plain: Vec<_> = crate::well(calls.to_vec()).collect();
    for call in &mut plain {
        let id = call["arguments"]["id"].as_str().unwrap().to_lowercase();
        call["arguments"]["id"] = json!(named.get(&id).unwrap_or_else(|| panic!("{call}")));
    }
    for together in plain.chunk_by_mut(|one, other| one["function"] == other["function"]) {
        together.sort_by_key(ToString::to_string);
    }
    plain
}

/// A network of the machine's owner, with something in it.
fn put_owners_network(stage: &Stage) {
    let network = "11111111-2222-3333-4444-555555555555";
    let endpoint = "11111111-2222-3333-4444-666666666666";
    for (kind, id, object) in [
        (
            "networks",
            network,
            json!({"ID": network, "Name": "nat", "Type": "NAT"}),
        ),
        (
            "endpoints",
            endpoint,
            json!({
                "ID": endpoint, "Name": "owner's", "HostComputeNetwork": network,
                "IpConfigurations": [{"IpAddress": "172.30.0.2"}],
            }),
        ),
    ] {
        let folder = kept(stage, kind);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(format!("{id}.json")), object.to_string()).unwrap();
    }
}

/// The agent makes its network, empties the machine of what flannel and kube-proxy made, and takes its own away.
pub(crate) fn networks_come_and_go(stage: &Stage, told: &Told) {
    put_owners_network(stage);
    let mut named = everything(stage);
    let network = told.blueprint().windows.as_ref().unwrap().network.clone();
    assert!(network.is_some());
    let mut life = Life::new(stage);
    life.ask(&apply(Blueprint {
        windows: Some(Windows {
            network,
            ..Windows::default()
        }),
        ..empty(told.blueprint())
    }));
    let reset = Request::Kubeadm {
        step: Kubeadm::Reset,
    };
    // Of a machine that is no node nothing is removed.
    life.ask(&reset);
    life.line(r"mkdir C:\etc\kubernetes\pki");
    for request in [&reset, &reset, &Request::Revert, &Request::Revert] {
        life.ask(request);
    }
    let answers = life.live();
    let [made, no_node, reset, again, reverted, twice] = &answers[..] else {
        panic!("{}", answers.len());
    };

    let made = made.changes();
    assert_eq!(crate::plain(made.clone()), expected("mullion-agent.json"));
    let own = made[0]["arguments"]["id"].as_str().unwrap().to_lowercase();
    named.insert(own, "<network External>".into());

    assert_eq!(no_node.changes(), [] as [Value; 0]);
    let found = with_names(&reset.changes(), &named);
    assert_eq!(
        found,
        expected("mullion-agent-reset.json"),
        "{:#}",
        json!(found)
    );
    assert_eq!(again.changes(), [] as [Value; 0]);
    let found = with_names(&reverted.changes(), &named);
    assert_eq!(
        found,
        expected("mullion-agent-revert.json"),
        "{:#}",
        json!(found)
    );
    assert_eq!(twice.changes(), [] as [Value; 0]);
    for answer in &answers {
        assert_eq!(answer.reboot(), None);
    }
    let left: Vec<_> = everything(stage).into_values().collect();
    assert_eq!(left, ["<network nat>", "<endpoint owner's>"]);
}
