//! Calling a run off, with real threads and a real clock.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mullion_engine::{
    Alive, Cancel, Event, Options, Outcome, RealClock, Report, RunOutcome, RunRecord, RunState,
    StepState, Unwatched, Watch, run,
};
use mullion_plan::{ErrorClass, Perform, Plan, StepError, StepId};

use crate::evidence::{outcome_of, under_way};
use crate::stage_hand::{StageHand, journal, not_yet, starts};

fn options() -> Options {
    Options {
        grace: Duration::from_millis(200),
        ..Options::for_cores(NonZeroUsize::new(2).unwrap())
    }
}

fn cancelled<P: Perform + Sync>(plan: &Plan, port: &P, cancel: &Cancel) -> (Report, RunRecord) {
    let (journal, memory) = journal(plan);
    let clock = RealClock::new();
    let report = run(plan, port, &options(), &journal, &Unwatched, cancel, &clock);
    let record = RunRecord::parse(&memory.synced(), Alive::No).unwrap();
    (report, record)
}

fn outcome<'a>(report: &'a Report, id: &str) -> &'a Outcome {
    outcome_of(report, &StepId::new(id))
}

#[test]
fn called_off_once_a_run_ends_at_its_steps_ends_and_says_how_to_go_on() {
    let plan = starts(&["lin1", "lin2"]);
    let cancel = Cancel::new();
    let port = StageHand::new(|step, attendant| {
        if step.id.as_str() == "start/lin1" {
            cancel.ask();
            std::thread::sleep(Duration::from_millis(150));
            assert!(!attendant.is_called_off(), "it may come to its end");
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let (report, record) = cancelled(&plan, &port, &cancel);
    assert_eq!(report.outcome, RunOutcome::Cancelled);
    assert_eq!(report.go_on.as_deref(), Some("mullion up"));
    assert_eq!(*outcome(&report, "start/lin1"), Outcome::Done);
    assert_eq!(*outcome(&report, "ready/lin1"), Outcome::NotStarted);
    assert_eq!(record.state, RunState::Ended(RunOutcome::Cancelled));
    let not_started = report
        .steps
        .iter()
        .filter(|step| step.outcome == Outcome::NotStarted);
    assert_eq!(record.not_started, Some(not_started.count()));
}

#[test]
fn called_off_once_waits_end_at_once() {
    let plan = starts(&["lin1"]);
    let cancel = Cancel::new();
    let looks = Mutex::new(0);
    let port = StageHand::new(|step, _| {
        if step.id.as_str() == "ready/lin1" {
            *looks.lock().unwrap() += 1;
            if *looks.lock().unwrap() == 3 {
                cancel.ask();
            }
            return not_yet("no kubelet");
        }
        Ok(())
    });
    let start = Instant::now();
    let (report, record) = cancelled(&plan, &port, &cancel);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(report.outcome, RunOutcome::Cancelled);
    let Outcome::Interrupted { error } = outcome(&report, "ready/lin1") else {
        panic!("{report:#?}");
    };
    assert_eq!(error.words, "no kubelet");
    assert!(report.causes.is_empty(), "nothing failed");
    assert_eq!(record.steps[1].state, StepState::Interrupted);
}

#[test]
fn called_off_twice_steps_are_told_to_end() {
    let plan = starts(&["lin1", "lin2"]);
    let cancel = Cancel::new();
    let port = StageHand::new(|step, attendant| {
        if step.id.as_str() == "start/lin1" {
            cancel.ask();
            cancel.ask();
        }
        while !attendant.is_called_off() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(StepError::new(ErrorClass::Interrupted, "called off"))
    });
    let (report, record) = cancelled(&plan, &port, &cancel);
    assert_eq!(report.outcome, RunOutcome::Cancelled);
    for id in ["start/lin1", "start/lin2"] {
        assert!(
            matches!(
                outcome(&report, id),
                Outcome::Interrupted { .. } | Outcome::NotStarted
            ),
            "{id}"
        );
    }
    assert_eq!(under_way(&record), [""; 0]);
}

/// Lets a step go on as soon as the run has ended.
struct Release(Mutex<Sender<Instant>>);

impl Watch for Release {
    fn see(&self, _at: Timestamp, event: &Event) {
        if let Event::RunEnded { report } = event {
            assert_eq!(outcome(report, "start/lin1"), &Outcome::Abandoned);
            self.0.lock().unwrap().send(Instant::now()).unwrap();
        }
    }
}

#[test]
fn a_step_that_does_not_obey_keeps_nobody_from_hearing_of_the_end() {
    let plan = starts(&["lin1"]);
    let cancel = Cancel::new();
    let (release, held): (_, Receiver<Instant>) = channel();
    let held = Mutex::new(held);
    let port = StageHand::new(|_, _| {
        cancel.ask();
        cancel.ask();
        // Deaf to everything but the run's end.
        held.lock()
            .unwrap()
            .recv_timeout(Duration::from_mins(1))
            .unwrap();
        Ok(())
    });
    let (journal, memory) = journal(&plan);
    let watcher = Release(Mutex::new(release));
    let clock = RealClock::new();
    let start = Instant::now();
    let report = run(
        &plan,
        &port,
        &options(),
        &journal,
        &watcher,
        &cancel,
        &clock,
    );
    assert!(start.elapsed() >= options().grace);
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(report.outcome, RunOutcome::Cancelled);
    // What the step says after the end is not written any more.
    let record = RunRecord::parse(&memory.text(), Alive::No).unwrap();
    assert_eq!(record.state, RunState::Ended(RunOutcome::Cancelled));
    assert_eq!(under_way(&record), ["start/lin1"]);
}
