//! Parts of real plans: each can be run by itself, and what is left is done by the next run.

use std::collections::BTreeSet;

use mullion_engine::RunOutcome;
use mullion_engine::select::{machines_of, only, until};
use mullion_plan::{STAGES, Stage};

use crate::simulation::{noon, options};
use crate::sketch::{Sketch, ids};
use crate::stage_hand::run_with;

#[test]
fn one_machine_alone_becomes_a_node_and_the_rest_follows() {
    let sketch = Sketch::new(1, 2, 1, 1);
    let names: Vec<_> = sketch.cluster().machines().map(|one| one.name).collect();
    for name in &names {
        let world = sketch.world();
        let whole = sketch.plan(&world);
        let part = only(&whole, &[name.clone()].into()).unwrap();
        let all = part.plan.steps().len() + part.left_out.len();
        assert_eq!(all, whole.steps().len());
        assert!(
            part.left_out
                .iter()
                .all(|step| step.machine.as_ref() != Some(name))
        );
        let others = part
            .plan
            .steps()
            .iter()
            .filter_map(|step| step.machine.as_ref());
        let others: BTreeSet<_> = others.map(ToString::to_string).collect();
        assert!(
            others.is_subset(&[name.to_string(), "cp1".into()].into()),
            "{others:?}"
        );
        let (report, ..) = run_with(&part.plan, &world, &options(1), &noon());
        assert_eq!(
            report.outcome,
            RunOutcome::Done,
            "{name}: {:#?}",
            report.causes
        );
        let nodes = sketch.look(&world).cluster.unwrap().nodes;
        assert!(nodes.contains_key(name.as_str()), "{name}");
        let rest = sketch.plan(&world);
        let (report, ..) = run_with(&rest, &world, &options(1), &noon());
        assert_eq!(report.outcome, RunOutcome::Done, "{name}");
        assert!(sketch.plan(&world).is_empty());
    }
}

#[test]
fn a_run_may_stop_after_any_stage() {
    let sketch = Sketch::new(3, 1, 1, 1);
    for row in &STAGES {
        let world = sketch.world();
        let whole = sketch.plan(&world);
        let part = until(&whole, row.stage).unwrap();
        assert!(part.left_out.iter().all(|step| step.stage > row.stage));
        let (report, ..) = run_with(&part.plan, &world, &options(1), &noon());
        assert_eq!(report.outcome, RunOutcome::Done, "{}", row.word);
        let rest = sketch.plan(&world);
        assert_eq!(
            rest.is_empty(),
            row.stage == Stage::Verify,
            "{}: {:?}",
            row.word,
            ids(&rest)
        );
        let (report, ..) = run_with(&rest, &world, &options(1), &noon());
        assert_eq!(report.outcome, RunOutcome::Done, "{}", row.word);
        assert!(sketch.plan(&world).is_empty(), "{}", row.word);
    }
}

#[test]
fn machines_are_chosen_by_their_names_and_by_their_groups() {
    let sketch = Sketch::new(1, 2, 0, 1);
    let chosen = |names: &[&str]| {
        let chosen = machines_of(sketch.cluster(), names.iter().copied())?;
        Ok::<Vec<_>, mullion_engine::select::UnknownName>(
            chosen.iter().map(ToString::to_string).collect(),
        )
    };
    assert_eq!(
        chosen(&["lin", "cp1", "lin1"]).unwrap(),
        ["cp1", "lin1", "lin2"]
    );
    assert!(
        chosen(&["win"]).unwrap().is_empty(),
        "a group without machines"
    );
    let unknown = chosen(&["lin", "lin9"]).unwrap_err();
    assert_eq!(unknown.name, "lin9");
    assert_eq!(
        unknown.to_string(),
        "the cluster has no machine and no group `lin9`"
    );
    assert_eq!(
        unknown.known,
        ["cp", "lin", "win", "old", "cp1", "lin1", "lin2", "old1"]
    );
}
