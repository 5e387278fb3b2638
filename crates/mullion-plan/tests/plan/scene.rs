//! A world with a cluster in it, and what a plan says of it.

use mullion_plan::{Discover as _, Observed, Obstacle, Plan, StepId};
use mullion_testkit::{Dice, Until, World, plan, run};

use crate::sketch::{Sketch, wanted};

pub(crate) fn look(world: &World, sketch: &Sketch) -> Observed {
    world.observe(&sketch.cluster()).unwrap()
}

pub(crate) fn planned(sketch: &Sketch, observed: &Observed) -> Plan {
    let cluster = sketch.cluster();
    plan(&wanted(&cluster, sketch), observed)
}

pub(crate) fn up(sketch: &Sketch) -> World {
    let world = sketch.world();
    let plan = planned(sketch, &look(&world, sketch));
    let outcome = run(&plan, &world, Until::End, &mut Dice::new(7));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    world
}

pub(crate) fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.id.as_str()).collect()
}

pub(crate) fn of_machine<'a>(plan: &'a Plan, machine: &str) -> Vec<&'a str> {
    let suffix = format!("/{machine}");
    ids(plan)
        .into_iter()
        .filter(|id| id.ends_with(&suffix))
        .collect()
}

pub(crate) fn reason<'a>(plan: &'a Plan, id: &str) -> &'a str {
    let step = plan.get(&StepId::new(id));
    &step
        .unwrap_or_else(|| panic!("{id} is not in {:?}", ids(plan)))
        .reason
}

pub(crate) fn only_obstacle(plan: &Plan) -> &Obstacle {
    assert!(plan.steps().is_empty(), "an obstacle stops everything");
    match plan.obstacles() {
        [obstacle] => obstacle,
        other => panic!("{other:?}"),
    }
}
