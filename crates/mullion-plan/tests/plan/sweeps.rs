//! Properties that go through all of something: every step, the whole way from the file, every machine unseen.

use mullion_plan::Wanted;
use mullion_testkit::{Dice, Fault, Until, plan, run};

use crate::properties::{assert_empty, look, plan_now, run_clean};
use crate::sketch::{Sketch, blinded, judge, wanted};

pub(crate) const BLINDS: u64 = 100;
pub(crate) const CATALOG: u64 = 100;

/// Every step of the smallest mixed cluster, cut off in every way there is.
#[test]
fn no_step_of_a_small_cluster_is_lost_whenever_it_is_cut_off() {
    let sketch = Sketch::small();
    let cluster = sketch.cluster();
    let wanted = wanted(&cluster, &sketch);
    let steps = plan_now(&sketch.world(), &wanted).steps().len();
    for step in 0..steps {
        for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::Half] {
            let seed = u64::try_from(step).unwrap();
            let mut dice = Dice::new(seed);
            let world = sketch.world();
            world.arm(step, fault);
            let outcome = run(&plan_now(&world, &wanted), &world, Until::End, &mut dice);
            assert!(outcome.interrupted, "{fault:?} at {step}");
            assert!(
                outcome.failed.is_empty(),
                "{fault:?} at {step}: {:?}",
                outcome.failed
            );
            run_clean(&plan_now(&world, &wanted), &world, &mut dice, seed);
            assert_empty(&world, &wanted, seed);
        }
    }
}

/// 100 cases.
#[test]
fn whoever_cannot_look_into_the_users_machines_begins_one_cluster_and_leaves_it_alone() {
    for seed in 0..BLINDS {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any(&mut dice);
        let cluster = sketch.cluster();
        let wanted = wanted(&cluster, &sketch);
        let world = sketch.world();
        let mut found = None;
        for _ in 0..2 {
            let next = plan(&wanted, &blinded(look(&world, &wanted)));
            assert_eq!(next.obstacles(), [], "seed {seed}");
            run_clean(&next, &world, &mut dice, seed);
            assert_empty(&world, &wanted, seed);
            let now = look(&world, &wanted);
            assert_eq!(
                *found.get_or_insert_with(|| now.clone()),
                now,
                "seed {seed}"
            );
        }
    }
}

/// 100 cases: from the file over the catalog to the world, with the parts that a cluster really has.
#[test]
fn what_the_catalog_admits_can_be_planned_and_run() {
    for seed in 0..CATALOG {
        let mut dice = Dice::new(seed);
        let sketch = Sketch::any_admitted(&mut dice);
        let model = judge(&sketch);
        let wanted = Wanted::of(&model);
        assert!(!wanted.parts.is_empty(), "seed {seed}");
        let world = sketch.world();
        let first = plan_now(&world, &wanted);
        run_clean(&first, &world, &mut dice, seed);
        assert_empty(&world, &wanted, seed);
    }
}
