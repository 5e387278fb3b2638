//! Optional features, turned on by the agent: by themselves and with a blueprint, and once the machine was started anew.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Blueprint, Feature, Request, Windows};
use serde_json::{Value, json};

use crate::agent::{Answer, Life, apply, empty};
use crate::told::Told;
use crate::{Stage, expected};

const CONTAINERS: &str = "Containers";
const HYPERV: &str = "Microsoft-Hyper-V";

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// How both features are, as the facts tell.
fn found(answer: &Answer) -> [Option<Feature>; 2] {
    let features: &BTreeMap<_, _> = &answer.facts().windows.as_ref().unwrap().features;
    [CONTAINERS, HYPERV].map(|name| features.get(name).copied())
}

fn of_dism(answers: &[Answer]) -> Vec<&Value> {
    let calls = answers.iter().flat_map(Answer::calls);
    let is_of_dism = |call: &&Value| call["function"].as_str().unwrap().starts_with("Dism");
    calls.filter(is_of_dism).collect()
}

fn count(calls: &[&Value], function: &str) -> usize {
    let calls = calls.iter();
    calls.filter(|call| call["function"] == function).count()
}

#[test]
#[ignore = "needs root, Windows programs and a program that runs them; cargo xtask test runs it"]
fn features_are_turned_on_once_and_work_after_a_start() {
    let (stage, _folder) = Stage::new();
    let told = Told::render();
    // What is asked for here is what is asked for there.
    let windows = told.blueprint().windows.as_ref().unwrap();
    assert_eq!(windows.features, names(&[CONTAINERS]));
    let wanted = apply(Blueprint {
        windows: Some(Windows {
            features: names(&[CONTAINERS, HYPERV]),
            ..Windows::default()
        }),
        ..empty(told.blueprint())
    });
    let enable = Request::Enable {
        features: names(&[CONTAINERS]),
    };
    let mut life = Life::new(&stage);
    for request in [
        &Request::Facts,
        &enable,
        &Request::Facts,
        &wanted,
        &Request::Facts,
    ] {
        life.ask(request);
    }
    life.restart();
    for request in [
        &Request::Facts,
        &enable,
        &wanted,
        &Request::Facts,
        &Request::Revert,
    ] {
        life.ask(request);
    }
    let answers = life.live();
    let [
        before,
        enabled,
        awaited,
        applied,
        both,
        started,
        again,
        whole,
        after,
        reverted,
    ] = &answers[..]
    else {
        panic!("{}", answers.len());
    };

    let (off, pending, on) = (
        Some(Feature::Disabled),
        Some(Feature::Pending),
        Some(Feature::Enabled),
    );
    assert_eq!(found(before), [off, off]);
    assert_eq!(before.facts().reboot_pending, None);

    assert_eq!(enabled.changed("feature "), [CONTAINERS]);
    assert!(enabled.reboot().unwrap().contains(CONTAINERS));
    assert_eq!(found(awaited), [pending, off]);
    let reboot = awaited.facts().reboot_pending.clone().unwrap();
    assert!(reboot.contains(CONTAINERS), "{reboot}");

    assert_eq!(applied.changed("feature "), [HYPERV]);
    let reboot = applied.reboot().unwrap();
    assert!(
        reboot.contains(CONTAINERS) && reboot.contains(HYPERV),
        "{reboot}"
    );
    assert_eq!(found(both), [pending, pending]);
    assert_eq!(both.facts().mark, None, "the rest is still to come");

    assert_eq!(found(started), [on, on]);
    assert_eq!(started.facts().reboot_pending, None);
    assert!(after.facts().mark.is_some() && after.facts().drift.is_empty());
    // Features stay.
    for answer in [again, whole, reverted] {
        assert_eq!(answer.changed("feature "), [] as [&str; 0]);
        assert_eq!(answer.reboot(), None);
    }

    let calls = of_dism(&answers);
    let mut different: Vec<Value> = Vec::new();
    for call in &calls {
        let call = json!({
            "function": call["function"], "arguments": call["arguments"], "result": call["result"],
        });
        if !different.contains(&call) {
            different.push(call);
        }
    }
    let expected = expected("mullion-agent-features.json");
    assert_eq!(different, expected, "{:#}", json!(different));
    assert_eq!(count(&calls, "DismEnableFeature"), 2, "each once");
    for (taken, given) in [
        ("DismInitialize", "DismShutdown"),
        ("DismOpenSession", "DismCloseSession"),
        ("DismGetFeatureInfo", "DismDelete"),
    ] {
        assert_eq!(count(&calls, taken), count(&calls, given), "{taken}");
    }
}
