//! Machines that start with their host.

use mullion_plan::{Action, Observed, Plan};
use mullion_testkit::{Dice, Until, plan, run};

use crate::scene::{ids, look, planned, reason, up};
use crate::sketch::{Sketch, read, wanted};

/// The same facts, with a host that starts machines by itself.
fn with_autostart(mut observed: Observed, autostart: bool) -> Observed {
    for facts in observed.machines.values_mut() {
        facts.autostart = Some(autostart);
    }
    observed
}

/// What the plan does besides proving that the cluster still works.
fn changes(plan: &Plan) -> Vec<&str> {
    let ids = ids(plan).into_iter();
    ids.filter(|id| !id.starts_with("verify/")).collect()
}

#[test]
fn a_cluster_of_an_older_version_gets_its_units_and_nothing_else() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    // Where no host starts machines by itself there is nothing to set.
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    let observed = with_autostart(look(&world, &sketch), false);
    let plan = planned(&sketch, &observed);
    let wanted = ["autostart/cp1", "autostart/lin1", "autostart/win1"];
    assert_eq!(changes(&plan), wanted);
    assert_eq!(
        reason(&plan, "autostart/lin1"),
        "lin1 would stay off when its host starts"
    );
    let outcome = run(&plan, &world, Until::End, &mut Dice::new(5));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let after = look(&world, &sketch);
    assert!(
        after
            .machines
            .values()
            .all(|facts| facts.autostart == Some(true))
    );
    assert!(planned(&sketch, &after).is_empty());
}

#[test]
fn a_group_that_is_not_wanted_at_boot_is_made_so_and_changed_to_it() {
    let sketch = Sketch::small();
    let text = sketch
        .text()
        .replace("name: lin,", "name: lin, autostart: false,");
    let cluster = read(&text);
    let planned = |observed: &Observed| plan(&wanted(&cluster, &sketch), observed);
    let made: Vec<_> = planned(&look(&sketch.world(), &sketch))
        .steps()
        .iter()
        .filter_map(|step| match step.action {
            Action::MakeMachine { autostart, .. } => {
                Some((step.machine.as_ref()?.to_string(), autostart))
            }
            _ => None,
        })
        .collect();
    assert!(made.contains(&("lin1".into(), false)), "{made:?}");
    assert!(made.contains(&("cp1".into(), true)), "{made:?}");
    let observed = with_autostart(look(&up(&sketch), &sketch), true);
    assert_eq!(changes(&planned(&observed)), ["autostart/lin1"]);
}
