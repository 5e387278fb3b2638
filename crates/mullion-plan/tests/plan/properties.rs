//! Properties over generated cases. Each test states how many cases it runs; together they are above
//! 2,000 (`CASES` adds them up, and a test holds it).

use std::collections::BTreeSet;

use mullion_plan::{Action, Discover, Observed, Obstacle, Plan, STAGES, Stage, Wanted};
use mullion_testkit::ports::conforms;
use mullion_testkit::{Blow, Dice, Fault, Outcome, Until, World, plan, run};

use crate::scramble::scramble;
use crate::sketch::{Sketch, wanted};
use crate::sweeps::{BLINDS, CATALOG};

const CONVERGES: u64 = 450;
const PREFIXES: u64 = 250;
const FAULTS: u64 = 450;
const BLOWS: u64 = 250;
const CHANGES: u64 = 300;
const SCRAMBLES: u64 = 350;
const ADDITIONS: u64 = 100;
const CASES: u64 =
    CONVERGES + PREFIXES + FAULTS + BLOWS + CHANGES + SCRAMBLES + ADDITIONS + BLINDS + CATALOG;

#[test]
fn there_are_enough_cases() {
    const { assert!(CASES >= 2_000) };
}

pub(crate) fn look(world: &World, wanted: &Wanted<'_>) -> Observed {
    world.observe(wanted.cluster).unwrap()
}

pub(crate) fn plan_now(world: &World, wanted: &Wanted<'_>) -> Plan {
    let plan = plan(wanted, &look(world, wanted));
    for obstacle in plan.obstacles() {
        assert!(!matches!(obstacle, Obstacle::OurFault { .. }), "{obstacle}");
    }
    assert_saves(&plan, &look(world, wanted));
    plan
}

/// No control plane is emptied before what etcd holds is saved.
fn assert_saves(plan: &Plan, observed: &Observed) {
    if observed.cluster.is_none() {
        return;
    }
    for step in plan.steps() {
        let machine = step.machine.as_ref();
        let facts = machine.and_then(|machine| observed.machines.get(machine));
        let inside = facts.and_then(|facts| facts.inside.as_ref());
        if matches!(step.action, Action::Reset { .. })
            && inside.is_some_and(|inside| inside.control_plane)
        {
            let save = step
                .needs
                .iter()
                .any(|need| need.as_str().starts_with("snapshot/"));
            assert!(save, "{} needs {:?}", step.id, step.needs);
            assert_eq!(step.action, Action::Reset { keeps_etcd: true });
        }
    }
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.id.as_str()).collect()
}

/// Runs a plan that nothing disturbs: every step succeeds the first time.
pub(crate) fn run_clean(plan: &Plan, world: &World, dice: &mut Dice, seed: u64) -> Outcome {
    let outcome = run(plan, world, Until::End, dice);
    assert!(
        outcome.failed.is_empty(),
        "seed {seed}: {:?}",
        outcome.failed
    );
    assert_eq!(outcome.retries, 0, "seed {seed}");
    assert_eq!(outcome.done.len(), plan.steps().len(), "seed {seed}");
    outcome
}

pub(crate) fn assert_empty(world: &World, wanted: &Wanted<'_>, seed: u64) {
    let rest = plan_now(world, wanted);
    assert!(
        rest.is_empty(),
        "seed {seed}: {:?} {:?}\n{:#?}",
        ids(&rest),
        rest.obstacles(),
        rest.steps().first().map(|step| &step.reason)
    );
}

/// Plans and runs until nothing is left, at most that often; steps may fail on the way.
fn converge(world: &World, wanted: &Wanted<'_>, rounds: usize, dice: &mut Dice, seed: u64) {
    let mut failed = Vec::new();
    for _ in 0..rounds {
        let next = plan_now(world, wanted);
        if next.is_empty() {
            return;
        }
        assert!(
            next.obstacles().is_empty(),
            "seed {seed}: {:?}",
            next.obstacles()
        );
        failed.push(run(&next, world, Until::End, dice).failed);
    }
    let rest = plan_now(world, wanted);
    assert!(
        rest.is_empty(),
        "seed {seed}: {:?} after {failed:#?}",
        ids(&rest)
    );
}

/// A world in which that cluster is up.
fn up(sketch: &Sketch, dice: &mut Dice, seed: u64) -> World {
    let cluster = sketch.cluster();
    let wanted = wanted(&cluster, sketch);
    let world = sketch.world();
    run_clean(&plan_now(&world, &wanted), &world, dice, seed);
    world
}

/// 350 cases.
#[test]
fn a_finished_plan_leaves_nothing_to_do_in_whatever_order_it_ran() {
    for seed in 0..CONVERGES {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any(&mut dice);
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        let first = plan_now(&world, &wanted);
        let again = plan_now(&world, &wanted);
        assert!(!first.is_empty(), "seed {seed}");
        assert_eq!(
            serde_json::to_vec(&first).unwrap(),
            serde_json::to_vec(&again).unwrap(),
            "seed {seed}: the same input gives the same bytes"
        );
        run_clean(&first, &world, &mut dice, seed);
        assert_empty(&world, &wanted, seed);
    }
}

/// 250 cases.
#[test]
fn any_prefix_of_a_run_is_completed_by_planning_again() {
    for seed in 0..PREFIXES {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any(&mut dice);
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        let first = plan_now(&world, &wanted);
        let until = match dice.roll(3) {
            0 => Until::Stage(STAGES[dice.pick(STAGES.len())].stage),
            _ => Until::Steps(dice.pick(first.steps().len())),
        };
        let outcome = run(&first, &world, until, &mut dice);
        assert!(outcome.failed.is_empty(), "seed {seed}");
        run_clean(&plan_now(&world, &wanted), &world, &mut dice, seed);
        assert_empty(&world, &wanted, seed);
    }
}

/// 450 cases.
#[test]
fn a_crash_at_any_step_is_repaired_by_planning_again() {
    for seed in 0..FAULTS {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any(&mut dice);
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        // As often as the dice say, the next run is cut off too.
        for _ in 0..=dice.roll(3) {
            let next = plan_now(&world, &wanted);
            let fault = match dice.roll(4) {
                0 => Fault::CrashBefore,
                1 => Fault::CrashAfter,
                2 => Fault::Half,
                _ => Fault::Fails {
                    times: u32::try_from(dice.roll(6)).unwrap(),
                },
            };
            world.arm(dice.pick(next.steps().len()), fault);
            let outcome = run(&next, &world, Until::End, &mut dice);
            let is_lasting = matches!(fault, Fault::Fails { times } if times >= 4);
            assert!(
                outcome.failed.is_empty() || is_lasting,
                "seed {seed}: {:?}",
                outcome.failed
            );
        }
        // What is left of a step that was to fail oftener than a run tries.
        converge(&world, &wanted, 3, &mut dice, seed);
    }
}

/// 250 cases.
#[test]
fn machines_that_die_or_fall_silent_come_back() {
    let mut lost = 0;
    for seed in 0..BLOWS {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any(&mut dice);
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        let first = plan_now(&world, &wanted);
        let until = match dice.roll(2) {
            0 => Until::End,
            _ => Until::Steps(dice.pick(first.steps().len())),
        };
        run(&first, &world, until, &mut dice);
        let mut machines = world.machines();
        machines.retain(|name| cluster.machines().any(|machine| machine.name == *name));
        for _ in 0..=dice.roll(3) {
            let Some(machine) = machines.get(dice.pick(machines.len())) else {
                break;
            };
            let blow = [
                Blow::PowerLoss,
                Blow::Blip,
                Blow::Wipe,
                Blow::DeleteNode,
                Blow::OldCertificates,
                Blow::ExpiredCertificates,
            ][dice.pick(6)];
            world.strike(machine, blow);
        }
        let next = plan_now(&world, &wanted);
        if matches!(next.obstacles(), [Obstacle::QuorumLost { .. }]) {
            lost += 1;
            continue;
        }
        // A plan made half blind may leave a rest that only the next look can see.
        let mut rounds = 0;
        loop {
            let next = plan_now(&world, &wanted);
            if next.is_empty() {
                break;
            }
            if matches!(next.obstacles(), [Obstacle::QuorumLost { .. }]) {
                lost += 1;
                break;
            }
            assert!(
                next.obstacles().is_empty(),
                "seed {seed}: {:?}",
                next.obstacles()
            );
            assert!(rounds < 3, "seed {seed}: {:?}", ids(&next));
            run(&next, &world, Until::End, &mut dice);
            rounds += 1;
        }
    }
    assert!(
        lost < BLOWS / 5,
        "{lost} cases lost their quorum: too many to prove anything"
    );
}

/// Nothing is in the way but the endpoint: it moves when a load balancer comes or goes.
fn assert_only_endpoint(plan: &Plan, seed: u64) {
    for obstacle in plan.obstacles() {
        let is_endpoint = matches!(
            obstacle,
            Obstacle::ClusterDiffers { what, .. } if what == "endpoint"
        );
        assert!(is_endpoint, "seed {seed}: {obstacle}");
    }
}

/// 300 cases.
#[test]
fn a_changed_file_is_reached_from_wherever_the_last_run_stopped() {
    let mut blocked = 0;
    for seed in 0..CHANGES {
        let mut dice = Dice::new(seed);
        let mut sketch = Sketch::any(&mut dice);
        let world = sketch.world();
        for _ in 0..3 {
            let cluster = sketch.cluster();
            let wanted = wanted(&cluster, &sketch);
            let next = plan_now(&world, &wanted);
            if !next.obstacles().is_empty() {
                assert_only_endpoint(&next, seed);
                blocked += 1;
                break;
            }
            match dice.roll(3) {
                0 => {
                    world.arm(dice.pick(next.steps().len()), Fault::Half);
                    run(&next, &world, Until::End, &mut dice);
                }
                1 => {
                    let until = Until::Steps(dice.pick(next.steps().len() + 1));
                    run(&next, &world, until, &mut dice);
                }
                _ => {
                    let outcome = run(&next, &world, Until::End, &mut dice);
                    assert!(
                        outcome.failed.is_empty(),
                        "seed {seed}: {:?}",
                        outcome.failed
                    );
                    if !outcome.interrupted {
                        // Planned while the API server was silent, a removal is left for one more run.
                        converge(&world, &wanted, 1, &mut dice, seed);
                    }
                }
            }
            sketch.change(&mut dice);
        }
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let last = plan_now(&world, &wanted);
        assert_only_endpoint(&last, seed);
        if last.obstacles().is_empty() {
            converge(&world, &wanted, 2, &mut dice, seed);
        }
    }
    assert!(
        blocked < CHANGES / 4,
        "{blocked} cases were blocked: too many to prove anything"
    );
}

/// 350 cases.
#[test]
fn planning_never_panics_whatever_was_found() {
    for seed in 0..SCRAMBLES {
        let mut dice = Dice::new(seed);
        let one = Sketch::any(&mut dice);
        let other = Sketch::any(&mut dice);
        let world = up(&other, &mut dice, seed);
        let cluster = one.cluster();
        let wanted = wanted(&cluster, &one);
        let mut observed = look(&world, &wanted);
        scramble(&mut observed, &mut dice);
        let plan = plan(&wanted, &observed);
        for obstacle in plan.obstacles() {
            assert!(
                !matches!(obstacle, Obstacle::OurFault { .. }),
                "seed {seed}: {obstacle}"
            );
            assert!(!obstacle.hint().is_empty());
        }
        assert!(plan.obstacles().is_empty() || plan.steps().is_empty());
        let text = serde_json::to_string(&observed).unwrap();
        let again: Observed = serde_json::from_str(&text).unwrap();
        assert_eq!(
            again, observed,
            "seed {seed}: facts survive being written down"
        );
        assert_eq!(self::plan(&wanted, &again), plan, "seed {seed}");
        // Performing a plan made from wrong facts may fail; it must not panic either.
        run(&plan, &world, Until::End, &mut dice);
    }
}

/// 100 cases.
#[test]
fn adding_a_machine_touches_only_that_machine() {
    let mut cases = 0;
    let mut seed = 0;
    while cases < ADDITIONS {
        seed += 1;
        let mut dice = Dice::new(seed);
        let before = Sketch::any(&mut dice);
        let mut grown = before.clone();
        let crew = match dice.roll(3) {
            0 => &mut grown.linux,
            1 => &mut grown.stand_ins,
            _ => &mut grown.windows,
        };
        // The first machine of its kind changes more: a template, a RuntimeClass.
        if crew.count == 0 {
            continue;
        }
        crew.count += 1;
        cases += 1;
        let names = |sketch: &Sketch| -> BTreeSet<_> {
            let cluster = sketch.cluster();
            cluster.machines().map(|machine| machine.name).collect()
        };
        let new = names(&grown).difference(&names(&before)).next().cloned();
        let world = up(&before, &mut dice, seed);
        let cluster = grown.cluster();
        let wanted = wanted(&cluster, &grown);
        let plan = plan_now(&world, &wanted);
        assert!(plan.steps().len() > 5, "seed {seed}");
        for step in plan.steps() {
            assert!(
                step.machine == new || step.stage == Stage::Verify,
                "seed {seed}: {} touches something else: {}",
                step.id,
                step.reason
            );
        }
    }
}

#[test]
fn the_in_memory_world_keeps_the_contracts_of_the_ports() {
    for seed in 0..20 {
        let sketch = Sketch::any(&mut Dice::new(seed));
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        conforms(
            &world,
            &wanted,
            |observed| mullion_testkit::documents(&wanted, observed),
            || world.remove_whole(),
        )
        .unwrap_or_else(|breach| panic!("seed {seed}: {breach}"));
    }
}
