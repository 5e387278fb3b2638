//! Generated plans can be finished in any order.

use std::collections::BTreeSet;

use mullion_plan::{Action, Plan, Stage, Step, StepId, Walk};
use mullion_testkit::Dice;

fn ready(machine: &str, needs: &[&str]) -> Step {
    let needs = needs.iter().map(|need| StepId::new(need)).collect();
    let machine = Some(machine.parse().unwrap());
    Step::new(
        Stage::Join,
        machine,
        Action::AwaitReady,
        "a test".into(),
        needs,
    )
}

fn ids<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<&'a str> {
    steps.map(|step| step.id.as_str()).collect()
}

/// 500 generated plans, each finished by taking ready steps in a seeded order.
#[test]
fn every_accepted_plan_can_be_finished_in_any_order() {
    for seed in 0..500 {
        let mut dice = Dice::new(seed);
        let steps: Vec<_> = (0..12_usize)
            .map(|n| {
                let needs: Vec<_> = (0..n)
                    .filter(|_| dice.roll(3) == 0)
                    .map(|m| format!("ready/s{m}"))
                    .collect();
                let needs: Vec<_> = needs.iter().map(String::as_str).collect();
                ready(&format!("s{n}"), &needs)
            })
            .collect();
        let plan = Plan::new(steps).unwrap();
        let mut walk = Walk::new(&plan);
        let mut done = BTreeSet::new();
        while walk.ready().len() > 0 {
            let slow = ids(plan.ready(&done));
            assert_eq!(ids(walk.ready()), slow, "both ways to ask agree");
            let chosen = walk.ready().nth(dice.pick(slow.len())).unwrap();
            walk.finish(&chosen.id);
            done.insert(chosen.id.clone());
        }
        assert_eq!(done.len(), 12, "seed {seed}");
    }
}
