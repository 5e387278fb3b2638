//! Steps that fail: what is tried again, what stops, what goes on, and what is told.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mullion_engine::{
    Alive, Cancel, Event, FailureClass, Journal, Opening, Outcome, RunOutcome, RunRecord, Sink,
    Unwatched, run,
};
use mullion_plan::{Action, Plan, Stage, StepError, StepId};
use mullion_plan::{ErrorClass, Perform as _, Place};
use mullion_wire::Mask;

use crate::evidence::outcome_of;
use crate::simulation::{noon, options};
use crate::sketch::Sketch;
use crate::stage_hand::{StageHand, not_yet, refused, run_with, starts, step};

#[test]
fn a_failed_machine_does_not_stop_the_others_and_what_waits_is_blocked_by_it() {
    let sketch = Sketch::workers(3);
    let world = sketch.world();
    let plan = sketch.plan(&world);
    let broken = StepId::new("apply/lin2");
    let port = StageHand::new(|step, attendant| {
        if step.id == broken {
            return refused("the disk is full");
        }
        world.perform(step, attendant)
    });
    let (report, _, journal) = run_with(&plan, &port, &options(1), &noon());
    assert_eq!(report.outcome, RunOutcome::Failed);
    assert_eq!(report.go_on.as_deref(), Some("mullion up"));
    let [cause] = report.causes.as_slice() else {
        panic!("{:#?}", report.causes);
    };
    assert_eq!(cause.tag.id, broken);
    assert_eq!(cause.error.words, "the disk is full");
    // Exactly what waits for it, and all of that by name.
    let mut waiting: BTreeSet<StepId> = BTreeSet::new();
    for step in plan.steps() {
        let waits = |need: &StepId| *need == broken || waiting.contains(need);
        if step.needs.iter().any(waits) {
            waiting.insert(step.id.clone());
        }
    }
    assert!(waiting.contains(&StepId::new("verify/smoke")));
    let blocked: BTreeSet<_> = report.blocked().map(|(tag, _)| tag.id.clone()).collect();
    assert_eq!(blocked, waiting);
    assert_eq!(cause.blocks.len(), blocked.len());
    assert!(report.blocked().all(|(_, by)| by == [broken.clone()]));
    assert_eq!(
        report.done().count(),
        plan.steps().len() - blocked.len() - 1,
        "everything else is done"
    );
    let machine = |name: &str| {
        let mut machines = report.machines.iter();
        machines.find(|one| one.machine.as_str() == name).unwrap()
    };
    assert_eq!(machine("lin1").done, machine("lin1").steps);
    assert_eq!(machine("lin2").reached, Some(Stage::Prepare));
    let record = RunRecord::parse(&journal, Alive::No).unwrap();
    assert_eq!(record.blocked.len(), blocked.len());
    assert!(record.blocked.iter().all(|one| one.by == [broken.clone()]));
    // The next run has only the rest to do.
    let rest = sketch.plan(&world);
    assert!(rest.steps().len() < plan.steps().len() / 2);
    let (report, ..) = run_with(&rest, &world, &options(2), &noon());
    assert_eq!(report.outcome, RunOutcome::Done);
    assert_eq!(report.go_on, None);
    assert!(sketch.plan(&world).is_empty());
}

#[test]
fn a_gate_that_does_not_pass_fails_at_its_deadline_and_says_what_to_do() {
    let plan = starts(&["lin1", "lin2"]);
    let stuck = StepId::new("ready/lin1");
    let port = StageHand::new(|step, _| {
        if step.id == stuck {
            return not_yet("the kubelet is silent");
        }
        Ok(())
    })
    .logging(&["kubelet: no network"]);
    let (report, events, journal) = run_with(&plan, &port, &options(1), &noon());
    assert_eq!(report.outcome, RunOutcome::Failed);
    let error = &report.causes[0].error;
    assert_eq!(error.class, FailureClass::NotYet);
    assert_eq!(
        error.words,
        "timed out after 5 min waiting for the node to be Ready"
    );
    assert_eq!(error.causes, ["the kubelet is silent"]);
    assert_eq!(
        error.hints,
        ["see why with `mullion kubectl describe node lin1`"]
    );
    assert_eq!(error.tail, ["kubelet: no network"]);
    assert_eq!(
        port.seen().asked,
        std::slice::from_ref(&stuck),
        "once, at the end"
    );
    let gate = report
        .steps
        .iter()
        .find(|step| step.tag.id == stuck)
        .unwrap();
    assert_eq!(gate.took_ms, 300_000);
    assert_eq!(gate.waited_ms, 300_000);
    assert_eq!(gate.attempts, 1, "looks are no tries");
    let looks = port
        .seen()
        .performed
        .iter()
        .filter(|id| **id == stuck)
        .count();
    assert!((800..1300).contains(&looks), "{looks} looks");
    // Told about once a second, written down once.
    let waits = events.iter().filter_map(|event| match event {
        Event::Waiting {
            remaining_ms, gate, ..
        } => Some((*remaining_ms, *gate)),
        _ => None,
    });
    let waits: Vec<_> = waits.collect();
    assert!((150..=301).contains(&waits.len()), "{} times", waits.len());
    assert_eq!(waits[0], (300_000, "the node to be Ready"));
    assert!(waits.is_sorted_by(|one, next| one > next));
    let lines = journal.lines().filter(|line| line.contains("ready/lin1"));
    assert_eq!(lines.count(), 2, "a begin and an end:\n{journal}");
}

#[test]
fn tries_are_counted_told_and_written_down() {
    let plan = starts(&["lin1"]);
    let failures = Mutex::new(vec![
        ErrorClass::Unreachable,
        ErrorClass::Conflict,
        ErrorClass::Unreachable,
    ]);
    let port = StageHand::new(|step, _| {
        if step.id.as_str() == "start/lin1"
            && let Some(class) = failures.lock().unwrap().pop()
        {
            return Err(StepError::new(class, format!("{class:?}")));
        }
        Ok(())
    });
    let (report, events, journal) = run_with(&plan, &port, &options(1), &noon());
    assert_eq!(report.outcome, RunOutcome::Done);
    let start = &report.steps[0];
    assert_eq!(start.attempts, 4);
    assert!(start.waited_ms > 700 && start.took_ms == start.waited_ms);
    let retried: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::StepRetried { why, attempt, .. } => Some((why.as_str(), *attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(
        retried,
        [("Unreachable", 1), ("Conflict", 2), ("Unreachable", 3)]
    );
    let count = |text: &str| journal.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count(r#""line":"retry""#), 3);
    assert_eq!(count(r#""line":"begin""#), 5, "four tries and the gate");
}

#[test]
fn a_step_that_panics_is_a_mistake_of_ours_and_the_run_goes_on() {
    let plan = starts(&["lin1", "lin2"]);
    let port = StageHand::new(|step, _| {
        assert!(step.id.as_str() != "start/lin1", "an impossible state");
        Ok(())
    });
    // The hand that panicked keeps its machine busy in the test's eyes: nothing of it comes after.
    let (report, ..) = run_with(&plan, &port, &options(1), &noon());
    let error = &report.causes[0].error;
    assert_eq!(error.class, FailureClass::Bug);
    assert_eq!(error.causes, ["an impossible state"]);
    let ready = StepId::new("ready/lin2");
    assert_eq!(outcome_of(&report, &ready), &Outcome::Done);
}

/// A disk that is full after so many lines.
#[derive(Debug)]
struct FullDisk(AtomicUsize);

impl Sink for FullDisk {
    fn append(&self, _line: &[u8]) -> io::Result<()> {
        let left = self.0.load(Ordering::SeqCst);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.store(left - 1, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_step_that_cannot_be_written_down_is_not_begun() {
    let plan = starts(&["lin1", "lin2", "lin3"]);
    for lines in 1..10 {
        let port = StageHand::new(|_, _| Ok(()));
        let disk = Box::new(FullDisk(AtomicUsize::new(lines)));
        let opening = Opening::new("demo", "mullion up", "0.1.0", &plan);
        let now = "2026-01-07T12:00:00Z".parse().unwrap();
        let journal = Journal::on(opening, Mask::new(), now, disk).unwrap();
        let cancel = Cancel::new();
        let clock = noon();
        let options = options(1);
        let report = run(
            &plan, &port, &options, &journal, &Unwatched, &cancel, &clock,
        );
        assert_eq!(report.outcome, RunOutcome::JournalLost, "{lines} lines");
        assert_eq!(report.journal_trouble.as_deref(), Some("no storage space"));
        // The first line is the run's; each step has one before and one after.
        assert_eq!(port.seen().performed.len(), lines / 2, "{lines} lines");
        assert_eq!(report.done().count(), lines / 2);
    }
}

#[test]
fn a_plan_with_something_in_its_way_touches_nothing() {
    let sketch = Sketch::workers(1);
    let taken = "10.99.0.0/24".parse().unwrap();
    let world = sketch.world().with_foreign_network(Place::Here, taken);
    let plan = mullion_testkit::plan(&sketch.wanted(), &sketch.look(&world));
    assert!(!plan.obstacles().is_empty());
    let (report, ..) = run_with(&plan, &world, &options(1), &noon());
    assert_eq!(report.outcome, RunOutcome::Obstructed);
    let (report, ..) = run_with(
        &Plan::new(Vec::new()).unwrap(),
        &world,
        &options(1),
        &noon(),
    );
    assert_eq!(report.outcome, RunOutcome::Done, "nothing to do is done");
}

#[test]
fn stages_have_their_time_on_the_wall_and_added_up() {
    let suite = || "smoke".to_owned();
    let plan = Plan::new(vec![
        step(Stage::Machines, mullion_testkit::start(), Some("lin1"), &[]),
        step(Stage::Machines, mullion_testkit::start(), Some("lin2"), &[]),
        step(
            Stage::Verify,
            Action::Verify {
                suite: suite(),
                rollouts: Vec::new(),
            },
            None,
            &["start/lin1", "start/lin2"],
        ),
    ])
    .unwrap();
    let clock = noon();
    let port = StageHand::new(|step, _| {
        let seconds = if step.stage == Stage::Verify { 5 } else { 2 };
        clock.advance(Duration::from_secs(seconds));
        Ok(())
    });
    let (report, ..) = run_with(&plan, &port, &options(1), &clock);
    let stages: Vec<_> = report
        .stages
        .iter()
        .map(|stage| (stage.stage, stage.done, stage.wall_ms, stage.sum_ms))
        .collect();
    assert_eq!(
        stages,
        [
            (Stage::Machines, 2, 4_000, 4_000),
            (Stage::Verify, 1, 5_000, 5_000)
        ]
    );
    assert_eq!(report.took_ms, 9_000);
}
