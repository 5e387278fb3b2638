//! Services of others: who they run as, and how they come back.

use mullion_wire::{Event, Request, Start};

use super::{Value, apply, ask_badly, ask_well, blueprint, definition, ready};
use crate::system::memory::Memory;
use crate::system::{Account, Activity};

/// A machine on which somebody made a containerd that runs as this account.
fn machine(account: &str) -> Memory {
    let machine = ready();
    machine.put_defined("containerd", definition("theirs.exe"), Activity::Running);
    machine.give_to("containerd", account);
    machine
}

#[test]
fn a_service_of_others_gets_its_account_back() {
    for name in [r"NT AUTHORITY\LocalService", r"NT SERVICE\containerd"] {
        let machine = machine(name);
        let before = machine.all_services()["containerd"].clone();
        ask_well(&machine, &apply(&blueprint()));
        let ours = machine.all_services()["containerd"].clone();
        assert!(ours.account.is_the_systems());
        assert_ne!(ours.definition, before.definition);
        ask_well(&machine, &apply(&blueprint()));
        ask_well(&machine, &Request::Revert);
        let after = machine.all_services()["containerd"].clone();
        assert_eq!(after.account, Account::new(name));
        assert_eq!(after.definition, before.definition);
        assert_eq!(after.activity, Activity::Running);
    }
}

#[test]
fn a_service_with_a_password_is_not_taken_over() {
    let machine = machine(r".\builder");
    let before = machine.all_services();
    let operations = machine.log().len();
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(words.contains(r"runs as `.\builder`"), "{words}");
    assert_eq!(machine.all_services(), before);
    assert_eq!(machine.log().len(), operations, "nothing was changed");
    // Whoever names the system otherwise means it.
    machine.give_to("containerd", r".\LocalSystem");
    ask_well(&machine, &apply(&blueprint()));
}

/// What was told that is no change.
pub(super) fn told(events: &[Event]) -> String {
    let lines = events.iter().filter_map(|event| match event {
        Event::Doing { words } => Some(words.as_str()),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_service_of_others_comes_back_as_disabled_and_as_it_was_when_it_failed() {
    for activity in [Activity::Stopped, Activity::Running] {
        let machine = ready();
        let mut theirs = definition("theirs.exe");
        theirs.start = Start::Disabled;
        machine.put_defined("containerd", theirs, activity);
        let reboot = Value {
            kind: 3,
            bytes: vec![2; 28],
        };
        machine.put_failure("containerd", "FailureActions", reboot);
        let flag = "FailureActionsOnNonCrashFailures";
        machine.put_failure("containerd", flag, Value::dword(0));
        let before = machine.all_services()["containerd"].clone();
        ask_well(&machine, &apply(&blueprint()));
        let ours = machine.all_services()["containerd"].clone();
        assert_eq!(ours.definition.unwrap().start, Start::Automatic);
        assert_ne!(ours.failures, before.failures);
        let (_, events) = ask_well(&machine, &Request::Revert);
        let after = machine.all_services()["containerd"].clone();
        assert_eq!(after.definition, before.definition);
        assert_eq!(after.failures, before.failures);
        // Whoever disabled it would not see it started.
        let is_told = told(&events).contains("containerd is disabled");
        assert_eq!(is_told, activity == Activity::Running);
    }
}

#[test]
fn a_service_that_somebody_holds_does_not_keep_a_revert_from_going_on() {
    let machine = ready();
    ask_well(&machine, &apply(&blueprint()));
    machine.hold_service("kubelet", true);
    let (_, events) = ask_well(&machine, &Request::Revert);
    let words = told(&events);
    assert!(words.contains("service kubelet stays"), "{words}");
    let left = machine.all_services();
    assert!(left.contains_key("kubelet") && !left.contains_key("containerd"));
    assert_eq!(machine.windows_parts().time_zone, "Pacific Standard Time");
}

#[test]
fn a_blueprint_disables_no_service() {
    let machine = ready();
    let mut wanted = blueprint();
    let definition = wanted.services[0].definition.as_mut().unwrap();
    definition.start = Start::Disabled;
    let words = ask_badly(&machine, &apply(&wanted));
    assert!(words.contains("`kubelet` is disabled"), "{words}");
    assert!(machine.log().is_empty());
}
