//! The firewall's group, as the agent makes it, finds it again, changes it and takes it away.

use mullion_wire::{Blueprint, Firewall, Request};
use serde_json::{Value, json};

use crate::agent::{Answer, Life, apply, empty};
use crate::told::Told;
use crate::{Stage, expected, well};

/// A rule of the machine's owner, which is nobody else's.
const OWNERS: &str = "firewall-rules/11111111-2222-3333-4444-777777777777.json";

/// What was changed.
fn changes(answer: &Answer) -> Vec<Value> {
    let calls = answer.calls().iter();
    let is_change = |call: &&Value| {
        let function = call["function"].as_str().unwrap();
        ["INetFwRules.Add", "INetFwRules.Remove"].contains(&function)
    };
    well(calls.filter(is_change).cloned().collect()).collect()
}

#[test]
#[ignore = "needs root, Windows programs and a program that runs them; cargo xtask test runs it"]
fn the_firewalls_group_is_made_changed_and_removed() {
    let (stage, _folder) = Stage::new();
    let kept = stage.folder.join("state").join(OWNERS);
    let owners = json!({"Name": "owner's", "Grouping": "owner", "Protocol": 6, "LocalPorts": "80"});
    fs_err::create_dir_all(kept.parent().unwrap()).unwrap();
    fs_err::write(&kept, owners.to_string()).unwrap();

    let told = Told::render();
    let wanted = told.blueprint().firewall.clone().unwrap();
    let with = |firewall: &Firewall| {
        apply(Blueprint {
            firewall: Some(firewall.clone()),
            ..empty(told.blueprint())
        })
    };
    let mut other = wanted.clone();
    other.open.truncate(1);
    other.open[0].last += 1;
    let mut life = Life::new(&stage);
    for request in [
        with(&wanted),
        with(&wanted),
        with(&other),
        Request::Revert,
        Request::Revert,
    ] {
        life.ask(&request);
    }
    let answers = life.live();
    let [made, again, changed, reverted, twice] = &answers[..] else {
        panic!("{}", answers.len());
    };
    for answer in [made, changed, reverted] {
        assert_eq!(answer.changed("firewall group "), [wanted.group.as_str()]);
    }
    for answer in [again, twice] {
        assert_eq!(answer.changed("firewall group "), [] as [&str; 0]);
        assert_eq!(changes(answer), [] as [Value; 0]);
    }
    for (answer, file) in [
        (made, "mullion-agent-firewall.json"),
        (changed, "mullion-agent-firewall-changed.json"),
        (reverted, "mullion-agent-firewall-revert.json"),
    ] {
        let found = changes(answer);
        assert_eq!(found, expected(file), "{:#}", json!(found));
    }
    let left = fs_err::read_dir(kept.parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [kept]);
}
