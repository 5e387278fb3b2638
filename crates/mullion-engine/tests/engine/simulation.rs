//! A thousand simulated histories: runs with faults, cut off in every way, followed by others until nothing is left to
//! do, then removed.
//!
//! Each history is decided by its seed alone: one step after another, by a clock that moves by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use mullion_engine::{
    Alive, Clock as _, Options, Outcome, Report, RunOutcome, RunRecord, RunState, StepState,
    Unwatched, VirtualClock, Workers, run,
};
use mullion_plan::{Plan, Rest, StepId, plan_down};
use mullion_testkit::ports::without_what_stays;
use mullion_testkit::{Dice, Fault, World};

use crate::evidence::{Memory, outcome_of, under_way};
use crate::sketch::{Sketch, ids};
use crate::witness::{Kill, Witness};

const SEEDS: u64 = 1_000;
/// In so many runs nothing is left to do, whatever happened in the first ones.
const ROUNDS: usize = 8;

pub(crate) fn noon() -> VirtualClock {
    VirtualClock::new("2026-01-07T12:00:00Z".parse::<Timestamp>().unwrap())
}

pub(crate) fn options(seed: u64) -> Options {
    let cores = std::num::NonZeroUsize::new(2).unwrap();
    Options {
        workers: Workers::One,
        seed,
        ..Options::for_cores(cores)
    }
}

/// How many runs ended how: a simulation in which nothing happens proves nothing.
struct Counts {
    done: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    dead: AtomicU64,
}

static COUNTS: Counts = Counts {
    done: AtomicU64::new(0),
    failed: AtomicU64::new(0),
    cancelled: AtomicU64::new(0),
    dead: AtomicU64::new(0),
};

#[test]
fn a_thousand_histories_end_as_wanted_and_can_be_taken_down() {
    let threads: u64 = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..SEEDS).step_by(usize::try_from(threads).unwrap()) {
                    history(seed);
                }
            });
        }
    });
    let counts = [
        &COUNTS.done,
        &COUNTS.failed,
        &COUNTS.cancelled,
        &COUNTS.dead,
    ]
    .map(|count| count.load(Ordering::Relaxed));
    assert!(counts[0] > SEEDS * 9 / 10, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

fn history(seed: u64) {
    let mut dice = Dice::new(seed);
    let sketch = Sketch::any(&mut dice);
    let world = sketch.world();
    let clock = noon();
    let before = sketch.look(&world);
    let cuts = usize::try_from(dice.roll(4)).unwrap();
    let mut runs = 0;
    loop {
        let plan = sketch.plan(&world);
        if plan.is_empty() {
            break;
        }
        assert!(runs < ROUNDS, "seed {seed}: {:?} is left", ids(&plan));
        one_run(&plan, &world, &clock, runs < cuts, &mut dice, seed);
        runs += 1;
    }
    let wanted: BTreeSet<_> = sketch.cluster().machines().map(|one| one.name).collect();
    let found: BTreeSet<_> = world.machines().into_iter().collect();
    assert_eq!(
        found, wanted,
        "seed {seed}: nothing too much, nothing too little"
    );
    take_down(sketch, &world, &clock, seed);
    assert_eq!(
        without_what_stays(sketch.look(&world)),
        without_what_stays(before),
        "seed {seed}: nothing is left behind"
    );
}

/// Runs a plan. After a death the journal says which steps were begun.
fn one_run(
    plan: &Plan,
    world: &World,
    clock: &VirtualClock,
    is_cut: bool,
    dice: &mut Dice,
    seed: u64,
) {
    let (journal, memory) = Memory::journal(plan, clock.now());
    let mut port = Witness::new(world, clock, memory.clone(), dice.roll(u64::MAX));
    port.trouble = dice.roll(3) * 8;
    // An earlier fault is over.
    world.arm(usize::MAX, Fault::CrashBefore);
    if is_cut {
        let at = dice.pick(plan.steps().len() + 3);
        let kills = [
            Kill::Cancel,
            Kill::CancelTwice,
            Kill::DeathBefore,
            Kill::DeathAfter,
            Kill::Poison,
        ];
        match dice.roll(4) {
            0 => world.arm(at, [Fault::CrashBefore, Fault::CrashAfter][dice.pick(2)]),
            1 => world.arm(at, Fault::Half),
            _ => port.kill = Some((at, kills[dice.pick(kills.len())])),
        }
    }
    let cancel = port.cancel.clone();
    let options = options(dice.roll(u64::MAX));
    let report = run(plan, &port, &options, &journal, &Unwatched, &cancel, clock);
    let death = port.state().death.take();
    if let Some((written, step)) = death {
        COUNTS.dead.fetch_add(1, Ordering::Relaxed);
        after_death(&written, &step, dice, seed);
        return;
    }
    let record = RunRecord::parse(&memory.synced(), Alive::No)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", memory.synced()));
    agree(&report, &record, plan, seed);
    reasonable(&report, plan, is_cut, seed);
}

/// What is on the disk after a death tells that the run was cut off, and where.
fn after_death(written: &str, step: &StepId, dice: &mut Dice, seed: u64) {
    let next = r#"{"line":"end","at":"2026-01-07T12:00:00Z","step":"start/lin1","#;
    let torn = format!("{written}{}", &next[..dice.pick(next.len())]);
    let record = RunRecord::parse(&torn, Alive::No)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{torn}"));
    assert_eq!(record.state, RunState::CutOff, "seed {seed}");
    let under_way = under_way(&record);
    assert!(
        under_way.contains(&step.as_str()),
        "seed {seed}: {step} in {under_way:?}"
    );
}

/// The journal and the report tell the same.
fn agree(report: &Report, record: &RunRecord, plan: &Plan, seed: u64) {
    assert_eq!(record.state, RunState::Ended(report.outcome), "seed {seed}");
    assert_eq!(record.planned, plan.steps().len(), "seed {seed}");
    let of_state = |state| -> BTreeSet<_> {
        let steps = record.steps.iter().filter(|step| step.state == state);
        steps.map(|step| step.tag.id.clone()).collect()
    };
    let mut told: [BTreeSet<StepId>; 4] = Default::default();
    let mut blocked = 0;
    for step in &report.steps {
        let place = match &step.outcome {
            Outcome::Done => 0,
            Outcome::Failed { .. } => 1,
            Outcome::Interrupted { .. } => 2,
            Outcome::Blocked { .. } => {
                blocked += 1;
                continue;
            }
            Outcome::NotStarted => continue,
            other => panic!("seed {seed}: {} is {other:?}", step.tag.id),
        };
        told[place].insert(step.tag.id.clone());
    }
    assert_eq!(of_state(StepState::Done), told[0], "seed {seed}");
    assert_eq!(of_state(StepState::Failed), told[1], "seed {seed}");
    assert_eq!(of_state(StepState::Interrupted), told[2], "seed {seed}");
    assert_eq!(
        of_state(StepState::UnderWay),
        BTreeSet::new(),
        "seed {seed}"
    );
    assert_eq!(record.blocked.len(), blocked, "seed {seed}");
    let begun: BTreeSet<_> = record
        .steps
        .iter()
        .map(|step| step.tag.id.clone())
        .collect();
    let told = report.steps.iter().filter(|step| step.attempts > 0);
    let told: BTreeSet<_> = told.map(|step| step.tag.id.clone()).collect();
    assert_eq!(begun, told, "seed {seed}");
}

/// What came of each step follows from what came of others.
fn reasonable(report: &Report, plan: &Plan, is_cut: bool, seed: u64) {
    match report.outcome {
        RunOutcome::Done => {
            COUNTS.done.fetch_add(1, Ordering::Relaxed);
            assert_eq!(report.done().count(), plan.steps().len());
        }
        RunOutcome::Failed | RunOutcome::Cancelled => {
            let count = match report.outcome {
                RunOutcome::Failed => &COUNTS.failed,
                _ => &COUNTS.cancelled,
            };
            count.fetch_add(1, Ordering::Relaxed);
            assert!(is_cut, "seed {seed}: {:#?}", report.causes);
            assert_eq!(report.go_on.as_deref(), Some("mullion up"));
        }
        other => panic!("seed {seed}: {other:?}"),
    }
    if report.outcome == RunOutcome::Failed {
        assert!(!report.causes.is_empty(), "seed {seed}");
    }
    for step in plan.steps() {
        let of_needs = || step.needs.iter().map(|need| outcome_of(report, need));
        match outcome_of(report, &step.id) {
            Outcome::Blocked { by } => {
                assert!(!by.is_empty(), "seed {seed}");
                for cause in by {
                    assert!(
                        matches!(outcome_of(report, cause), Outcome::Failed { .. }),
                        "seed {seed}: {} is blocked by {cause}",
                        step.id
                    );
                }
                assert!(of_needs().any(|need| *need != Outcome::Done), "seed {seed}");
            }
            Outcome::NotStarted => assert_eq!(report.outcome, RunOutcome::Cancelled, "seed {seed}"),
            _ => assert!(
                of_needs().all(|need| *need == Outcome::Done),
                "seed {seed}: {} was begun too early",
                step.id
            ),
        }
    }
}

/// Removes the cluster, with failures on the way that pass.
fn take_down(sketch: &Sketch, world: &World, clock: &VirtualClock, seed: u64) {
    world.remove_whole();
    // An earlier fault is over.
    world.arm(usize::MAX, Fault::CrashBefore);
    for round in 0.. {
        let plan = plan_down(&sketch.look(world), Rest::Nothing, &BTreeMap::new());
        assert_eq!(plan.obstacles(), [], "seed {seed}");
        if plan.is_empty() {
            break;
        }
        assert!(round < ROUNDS, "seed {seed}: {:?} is left", ids(&plan));
        let (journal, memory) = Memory::journal(&plan, clock.now());
        let mut port = Witness::new(world, clock, memory.clone(), seed);
        port.trouble = 10;
        let options = options(seed);
        let cancel = port.cancel.clone();
        let report = run(&plan, &port, &options, &journal, &Unwatched, &cancel, clock);
        let (outcome, causes) = (report.outcome, &report.causes);
        assert_eq!(outcome, RunOutcome::Done, "seed {seed}: {causes:#?}");
        let record = RunRecord::parse(&memory.synced(), Alive::No).unwrap();
        assert_eq!(record.state, RunState::Ended(RunOutcome::Done));
        assert_eq!(record.steps.len(), report.steps.len());
    }
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    let once = |seed: u64| {
        let sketch = Sketch::new(1, 2, 1, 1);
        let world = sketch.world();
        let plan = sketch.plan(&world);
        let clock = noon();
        let (journal, memory) = Memory::journal(&plan, clock.now());
        let mut port = Witness::new(&world, &clock, memory.clone(), seed);
        port.trouble = 25;
        let cancel = port.cancel.clone();
        let report = run(
            &plan,
            &port,
            &options(seed),
            &journal,
            &Unwatched,
            &cancel,
            &clock,
        );
        assert_eq!(report.outcome, RunOutcome::Done);
        // The run's name has random digits.
        memory.text().replace(journal.id().as_str(), "")
    };
    let first = once(3);
    assert_eq!(first, once(3));
    assert_ne!(first, once(4));
}
