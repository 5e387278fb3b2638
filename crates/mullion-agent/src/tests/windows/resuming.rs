//! Going on after a start of the machine, without the controller.

use std::rc::Rc;
use std::time::Duration;

use mullion_wire::{Content, Event, Request};

use super::{apply, ask_well, blueprint, check, facts, fresh};
use crate::serve::Outcome;
use crate::system::Files as _;
use crate::system::memory::Memory;
use crate::tests::killed::outlive_every_kill;

const KEPT: &str = "C:/Program Files/mullion/resume.json";

fn resume(machine: &Memory) -> Outcome {
    crate::resume(machine, &mut Vec::new(), Duration::ZERO)
}

/// A machine that was told to become the blueprint's, waited for its start, and had it.
fn started() -> Memory {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    machine.restart_machine();
    machine
}

fn check_scheduled(machine: &Memory) {
    let line = machine.windows_parts().at_start.unwrap();
    assert!(line.ends_with("mullion-agent.exe resume"), "{line}");
    // A blueprint can hold what only administrators may read.
    assert_eq!(machine.look(KEPT).unwrap().unwrap().mode, 0o600);
}

fn check_done(machine: &Memory) {
    assert_eq!(facts(machine).blueprint, Some(blueprint().digest()));
    assert_eq!(machine.windows_parts().at_start, None);
    assert_eq!(machine.look(KEPT).unwrap(), None);
    check(blueprint())(machine);
}

#[test]
fn a_machine_gets_to_the_end_by_itself_and_then_schedules_nothing() {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    check_scheduled(&machine);
    // Before that start there is nothing more to be done, and it stays scheduled.
    assert_eq!(resume(&machine), Outcome::Done);
    check_scheduled(&machine);
    machine.restart_machine();
    assert_eq!(resume(&machine), Outcome::Done);
    check_done(&machine);
    let operations = machine.log().len();
    assert_eq!(resume(&machine), Outcome::Done);
    let again = machine.log()[operations..].join("\n");
    assert!(
        !again.contains("write") && !again.contains("schedule"),
        "{again}"
    );
    check_done(&machine);
}

#[test]
fn whoever_of_the_task_and_the_controller_is_second_finds_it_done() {
    let machine = started();
    ask_well(&machine, &apply(&blueprint()));
    check_done(&machine);
    assert_eq!(resume(&machine), Outcome::Done);
    check_done(&machine);
    let machine = started();
    assert_eq!(resume(&machine), Outcome::Done);
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 0);
    check_done(&machine);
}

const HOLDER: &str = "process 7, applying a blueprint";

/// What the agent tells that goes on after a start, where another one holds the lock and does this first.
fn resume_after(machine: &Memory, meanwhile: impl Fn(&Memory) + 'static) -> Vec<Event> {
    machine.hold_lock_for(HOLDER, Rc::new(meanwhile));
    let mut told = Vec::new();
    let wait = Duration::from_secs(1);
    assert_eq!(crate::resume(machine, &mut told, wait), Outcome::Done);
    let told = String::from_utf8(told).unwrap();
    let events = told.lines().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

#[test]
fn what_was_kept_is_read_once_nobody_else_is_at_work() {
    let machine = started();
    let events = resume_after(&machine, |machine| {
        ask_well(machine, &apply(&blueprint()));
    });
    assert!(is_told(&events, HOLDER), "{events:?}");
    assert_eq!(events.len(), 1, "nothing is left to be done: {events:?}");
    check_done(&machine);

    let machine = started();
    let events = resume_after(&machine, |machine| {
        ask_well(machine, &Request::Revert);
    });
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(facts(&machine).blueprint, None);
    // A revert leaves nothing, and neither does whoever waited for its end.
    let lock = "C:/Program Files/mullion.lock";
    assert_eq!(machine.look(lock).unwrap(), None);
}

#[test]
fn a_controller_is_told_that_it_waits_for_the_task() {
    let machine = started();
    machine.hold_lock_for(
        HOLDER,
        Rc::new(|machine: &Memory| {
            assert_eq!(resume(machine), Outcome::Done);
        }),
    );
    let (changed, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 0);
    assert!(is_told(&events[..1], HOLDER), "{events:?}");
    check_done(&machine);
}

#[test]
fn what_waits_is_the_last_blueprint_and_a_revert_takes_it_away() {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    let mut next = blueprint();
    for file in &mut next.files {
        if let Content::Text(text) = &mut file.content {
            text.push('\n');
        }
    }
    ask_well(&machine, &apply(&next));
    check_scheduled(&machine);
    machine.restart_machine();
    assert_eq!(resume(&machine), Outcome::Done);
    assert_eq!(facts(&machine).blueprint, Some(next.digest()));

    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.look(KEPT).unwrap(), None);
    assert_eq!(machine.windows_parts().at_start, None);
}

#[test]
fn an_apply_that_is_killed_while_it_schedules_does_so_the_next_time() {
    outlive_every_kill(&fresh, &apply(&blueprint()), &check_scheduled);
}

#[test]
fn going_on_survives_a_kill_at_every_operation() {
    let unharmed = started();
    let before = unharmed.log().len();
    assert_eq!(resume(&unharmed), Outcome::Done);
    let operations = (unharmed.log().len() - before) as u64;
    assert!(operations > 5, "{operations} operations");
    for at in 1..=operations {
        let machine = started();
        machine.kill_at(at);
        resume(&machine);
        machine.revive();
        // By the task, or by the controller.
        if at % 2 == 0 {
            assert_eq!(resume(&machine), Outcome::Done, "killed at {at}");
        }
        ask_well(&machine, &apply(&blueprint()));
        check_done(&machine);
    }
}

/// Whether somebody is told so.
fn is_told(events: &[Event], words: &str) -> bool {
    let mut events = events.iter();
    events.any(|event| matches!(event, Event::Doing { words: told } if told.contains(words)))
}

const NOBODY: &str = "nothing goes on by itself";
const STAYS: &str = "stays, and does nothing";

#[test]
fn a_task_that_cannot_be_registered_again_is_not_left_behind() {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    machine.refuse("schedule");
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert!(is_told(&events, NOBODY), "{events:?}");
    assert!(!is_told(&events, STAYS), "{events:?}");
    assert_eq!(machine.windows_parts().at_start, None);
    assert_eq!(machine.look(KEPT).unwrap(), None);
}

#[test]
fn a_task_that_cannot_be_removed_does_nothing_and_is_removed_once_it_can_be() {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    machine.refuse("schedule");
    machine.refuse("unschedule");
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert!(is_told(&events, NOBODY), "{events:?}");
    assert!(is_told(&events, STAYS), "{events:?}");
    assert_eq!(machine.look(KEPT).unwrap(), None);
    assert!(machine.windows_parts().at_start.is_some());
    let operations = machine.log().len();
    assert_eq!(resume(&machine), Outcome::Done);
    assert_eq!(machine.log().len(), operations);
    machine.refuse_nothing();
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.windows_parts().at_start, None);
}

#[test]
fn neither_an_apply_nor_a_revert_fails_where_the_task_cannot_be_removed() {
    let machine = started();
    machine.refuse("unschedule");
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert!(is_told(&events, STAYS), "{events:?}");
    assert_eq!(facts(&machine).blueprint, Some(blueprint().digest()));
    assert_eq!(machine.look(KEPT).unwrap(), None);
    check(blueprint())(&machine);
    let machine = started();
    machine.refuse("unschedule");
    let (_, events) = ask_well(&machine, &Request::Revert);
    assert!(is_told(&events, STAYS), "{events:?}");
    assert_eq!(facts(&machine).blueprint, None);
    assert_eq!(machine.look(KEPT).unwrap(), None);
}

#[test]
fn it_is_told_where_the_agent_cannot_be_scheduled() {
    let machine = fresh();
    machine.lose_program();
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert!(is_told(&events, NOBODY), "{events:?}");
    assert_eq!(machine.windows_parts().at_start, None);
}
