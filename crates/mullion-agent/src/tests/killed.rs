//! The agent killed at every single operation: the same request, sent again, ends as if nothing had happened.

use mullion_wire::{Blueprint, Request};

use super::fixtures::*;
use crate::system::memory::Memory;

/// Kills the request at every operation, and once more at some operations of the second try, others each time.
pub(crate) fn outlive_every_kill(
    begin: &dyn Fn() -> Memory,
    request: &Request,
    check: &dyn Fn(&Memory),
) {
    let unharmed = begin();
    let before = unharmed.log().len();
    ask_well(&unharmed, request);
    let operations = (unharmed.log().len() - before) as u64;
    assert!(operations > 5, "{operations} operations");
    let wanted = see(&unharmed);
    check(&unharmed);
    for first in 1..=operations {
        let kill = |machine: &Memory, at: u64| {
            machine.kill_at(at);
            ask(machine, request);
            let was_killed = machine.is_dead();
            machine.revive();
            was_killed
        };
        let machine = begin();
        assert!(kill(&machine, first));
        ask_well(&machine, request);
        assert_eq!(
            see(&machine),
            wanted,
            "killed at {first}: {:#?}",
            machine.log()
        );
        check(&machine);

        for second in (1 + first % 9..).step_by(9) {
            let machine = begin();
            assert!(kill(&machine, first));
            if !kill(&machine, second) {
                break;
            }
            ask_well(&machine, request);
            assert_eq!(
                see(&machine),
                wanted,
                "killed at {first}, then {second}: {:#?}",
                machine.log()
            );
            check(&machine);
        }
    }
}

fn ready() -> Memory {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    machine
}

fn applied() -> Memory {
    let machine = ready();
    ask_well(&machine, &apply(&blueprint()));
    // kubelet runs by now, as after a join.
    crate::system::Services::start(&machine, "kubelet").unwrap();
    machine
}

fn check(blueprint: Blueprint) -> impl Fn(&Memory) {
    move |machine| {
        check_services(machine, &blueprint);
        let (changed, _) = ask_well(machine, &apply(&blueprint));
        assert_eq!(changed, 0, "a further apply changes nothing");
    }
}

#[test]
fn a_first_apply_outlives_every_kill() {
    outlive_every_kill(&ready, &apply(&blueprint()), &check(blueprint()));
}

#[test]
fn a_later_apply_outlives_every_kill() {
    let begin = || {
        let machine = applied();
        bring(&machine, &[program("l")]);
        machine
    };
    outlive_every_kill(&begin, &apply(&next_blueprint()), &check(next_blueprint()));
}

#[test]
fn a_killed_apply_followed_by_another_blueprint_ends_as_that_one_alone() {
    let wanted = {
        let machine = ready();
        bring(&machine, &[program("l")]);
        ask_well(&machine, &apply(&next_blueprint()));
        see(&machine)
    };
    for kill in 1.. {
        let machine = ready();
        bring(&machine, &[program("l")]);
        machine.kill_at(kill);
        ask(&machine, &apply(&blueprint()));
        let was_killed = machine.is_dead();
        machine.revive();
        if !was_killed {
            break;
        }
        // A controller brings what is missing by then.
        bring(&machine, &[program("c"), program("l")]);
        ask_well(&machine, &apply(&next_blueprint()));
        check_services(&machine, &next_blueprint());
        let seen = see(&machine);
        let differs = |path: &&String| seen.nodes.get(*path) != wanted.nodes.get(*path);
        // What was kept to be put back differs, and folders that are empty now may be left.
        let strange: Vec<_> = seen
            .nodes
            .keys()
            .filter(differs)
            .filter(|path| {
                !path.starts_with("/var/lib/mullion") && seen.nodes[*path].0 != "(folder)"
            })
            .collect();
        assert!(strange.is_empty(), "killed at {kill}: {strange:?}");
        ask_well(&machine, &Request::Revert);
        super::reverting::check_untouched(&machine);
    }
}

#[test]
fn a_revert_outlives_every_kill() {
    let check = |machine: &Memory| super::reverting::check_untouched(machine);
    outlive_every_kill(&applied, &Request::Revert, &check);
}

#[test]
fn a_revert_of_a_killed_apply_leaves_nothing() {
    for kill in 1.. {
        let machine = ready();
        machine.kill_at(kill);
        ask(&machine, &apply(&blueprint()));
        let was_killed = machine.is_dead();
        machine.revive();
        ask_well(&machine, &Request::Revert);
        super::reverting::check_untouched(&machine);
        if !was_killed {
            break;
        }
    }
}
