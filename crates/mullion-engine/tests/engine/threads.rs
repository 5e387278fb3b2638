//! Many hands: what goes on at once, and what never does.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mullion_engine::limits::{Lane, Limits};
use mullion_engine::{Clock, Options, RealClock, RunOutcome, Workers, places};
use mullion_plan::{Action, Perform as _, Plan, Stage, Step, StepId};
use mullion_testkit::Dice;

use crate::sketch::Sketch;
use crate::stage_hand::{StageHand, not_yet, run_with, starts, step};

fn number(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn many(workers: usize) -> Options {
    Options {
        workers: Workers::Many(number(workers)),
        ..Options::for_cores(number(2))
    }
}

fn starting(count: usize) -> Plan {
    let steps = (1..=count).map(|number| {
        let machine = format!("lin{number}");
        step(
            Stage::Machines,
            mullion_testkit::start(),
            Some(&machine),
            &[],
        )
    });
    Plan::new(steps.collect()).unwrap()
}

/// Ten runs of a mixed cluster with real threads; the stage hand holds order and turns.
#[test]
fn many_hands_bring_a_cluster_up_in_a_good_order() {
    for seed in 0..10 {
        let sketch = Sketch::new(3, 3, 1, 1);
        let world = sketch.world();
        let plan = sketch.plan(&world);
        let dice = Mutex::new(Dice::new(seed));
        let port = StageHand::new(|step, attendant| {
            let pause = dice.lock().unwrap().roll(3_000);
            std::thread::sleep(Duration::from_micros(pause));
            world.perform(step, attendant)
        });
        let options = Options {
            places: places(sketch.cluster()),
            seed,
            ..many(16)
        };
        let (report, _, journal) = run_with(&plan, &port, &options, &RealClock::new());
        assert_eq!(report.outcome, RunOutcome::Done, "{:#?}", report.causes);
        assert!(sketch.plan(&world).is_empty());
        let most = port.seen().most.clone();
        assert!(most["all"] > 2, "{most:?}");
        assert_eq!(most["template"], 1, "{most:?}");
        assert!(most["make"] <= 4, "{most:?}");
        let begins = journal
            .lines()
            .filter(|line| line.contains(r#""line":"begin""#));
        assert!(begins.count() >= plan.steps().len());
    }
}

#[test]
fn steps_of_one_machine_take_turns_even_where_none_waits_for_another() {
    let plan = Plan::new(vec![
        step(Stage::Machines, mullion_testkit::start(), Some("lin1"), &[]),
        step(Stage::Machines, Action::Drain, Some("lin1"), &[]),
        step(
            Stage::Machines,
            Action::Reset { keeps_etcd: false },
            Some("lin1"),
            &[],
        ),
        step(Stage::Machines, mullion_testkit::start(), Some("lin2"), &[]),
    ])
    .unwrap();
    let port = StageHand::new(|_, _| {
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    });
    // The stage hand would fail a second step of a machine that is busy.
    let (report, ..) = run_with(&plan, &port, &many(8), &RealClock::new());
    assert_eq!(report.outcome, RunOutcome::Done, "{:#?}", report.causes);
    assert_eq!(port.seen().most["all"], 2, "one of each machine");
}

/// This computer's clock, and how often somebody asked for the time.
struct CountingClock {
    real: RealClock,
    asked: AtomicUsize,
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.real.now()
    }

    fn elapsed(&self) -> Duration {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.real.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        self.real.sleep(duration);
    }
}

#[test]
fn a_step_that_is_due_while_its_lane_is_full_waits_without_asking_again_and_again() {
    let wait = |machine| step(Stage::Settle, Action::AwaitReady, Some(machine), &[]);
    let plan = Plan::new(vec![wait("lin1"), wait("lin2")]).unwrap();
    let looks = AtomicUsize::new(0);
    let port = StageHand::new(|step, _| match step.machine.as_ref().unwrap().as_str() {
        // Waits once, and is due again long before the other has left the lane.
        "lin1" if looks.fetch_add(1, Ordering::SeqCst) == 0 => not_yet("it starts"),
        "lin1" => Ok(()),
        _ => {
            std::thread::sleep(Duration::from_millis(600));
            Ok(())
        }
    });
    let clock = CountingClock {
        real: RealClock::new(),
        asked: AtomicUsize::new(0),
    };
    let options = Options {
        limits: Limits::for_cores(number(2)).with(Lane::Look, number(1)),
        ..many(4)
    };
    let (report, ..) = run_with(&plan, &port, &options, &clock);
    assert_eq!(report.outcome, RunOutcome::Done, "{:#?}", report.causes);
    let asked = clock.asked.load(Ordering::SeqCst);
    assert!(asked < 1_000, "{asked} times in 0.6 s");
}

#[test]
fn a_lane_takes_as_many_as_its_limit_says_and_no_more() {
    let plan = starting(12);
    let work = |_: &Step, _: &dyn mullion_plan::Attend| {
        std::thread::sleep(Duration::from_millis(200));
        Ok(())
    };
    let on_one_host = |count| {
        let machines = plan.steps().iter().filter_map(|step| step.machine.clone());
        let places = machines.map(|machine| (machine, mullion_plan::Place::Here));
        let limits = Limits::for_cores(number(2)).with(Lane::Machine, number(count));
        Options {
            places: places.collect(),
            limits,
            ..many(16)
        }
    };
    for count in [1, 3] {
        let port = StageHand::new(work);
        run_with(&plan, &port, &on_one_host(count), &RealClock::new());
        assert_eq!(port.seen().most["start"], count);
    }
    // The user's own machines are hosts of their own, and only the hands limit them.
    let port = StageHand::new(work);
    run_with(&plan, &port, &many(5), &RealClock::new());
    assert_eq!(port.seen().most["start"], 5);
}

#[test]
fn fetching_steps_that_build_are_counted_by_themselves() {
    let sketch = Sketch::workers(1);
    let plan = sketch.plan(&sketch.world());
    let fetches: Vec<&StepId> = plan
        .steps()
        .iter()
        .map(|step| &step.id)
        .filter(|id| id.as_str().starts_with("fetch/"))
        .collect();
    assert!(fetches.len() >= 3);
    let port = StageHand::new(|_, _| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    });
    let options = Options {
        builds: fetches.into_iter().cloned().collect(),
        ..many(8)
    };
    run_with(&plan, &port, &options, &RealClock::new());
    assert_eq!(port.seen().most["fetch"], 1);
}

#[test]
fn what_waits_takes_no_hand() {
    let mut steps: Vec<_> = (1..=6)
        .map(|number| {
            let machine = format!("lin{number}");
            step(Stage::Machines, Action::AwaitReady, Some(&machine), &[])
        })
        .collect();
    steps.push(step(
        Stage::Verify,
        mullion_testkit::start(),
        Some("key"),
        &[],
    ));
    let plan = Plan::new(steps).unwrap();
    let opened = AtomicUsize::new(0);
    let port = StageHand::new(|step, _| {
        if step.id.as_str() == "start/key" {
            opened.store(1, Ordering::SeqCst);
        } else if opened.load(Ordering::SeqCst) == 0 {
            return not_yet("the key is not there");
        }
        Ok(())
    });
    let start = Instant::now();
    let (report, ..) = run_with(&plan, &port, &many(2), &RealClock::new());
    assert_eq!(report.outcome, RunOutcome::Done);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn independent_steps_go_on_at_once() {
    let plan = starting(8);
    let port = StageHand::new(|_, _| {
        std::thread::sleep(Duration::from_millis(200));
        Ok(())
    });
    let (report, ..) = run_with(&plan, &port, &many(8), &RealClock::new());
    assert_eq!(port.seen().most["all"], 8);
    assert!(report.stages[0].sum_ms >= 1_600);
    assert!(
        report.stages[0].wall_ms < 1_600,
        "{}",
        report.stages[0].wall_ms
    );
}

#[test]
fn a_panic_in_one_thread_leaves_the_others_alone() {
    let plan = starts(&["lin1", "lin2", "lin3"]);
    let port = StageHand::new(|step, _| {
        assert!(step.id.as_str() != "start/lin2", "an impossible state");
        Ok(())
    });
    let (report, ..) = run_with(&plan, &port, &many(4), &RealClock::new());
    assert_eq!(report.outcome, RunOutcome::Failed);
    assert_eq!(report.done().count(), 4);
    assert_eq!(report.blocked().count(), 1);
}
