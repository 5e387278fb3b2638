//! A part of a plan: some machines, or the stages up to one.
//!
//! What is left out is told, since a plan that was cut does not bring about what the file says.

use std::collections::BTreeSet;

use mullion_plan::{Plan, PlanError, Stage, Step, StepId};
use mullion_spec::cluster::{Cluster, Machine};
use mullion_spec::value::MachineName;

/// A part of a plan, and what it is not.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The part, which can be run by itself.
    pub plan: Plan,
    /// The steps that are not in it, in the order of the run.
    pub left_out: Vec<Step>,
}

/// A name that is neither a machine's nor a group's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cluster has no machine and no group `{name}`")]
pub struct UnknownName {
    /// What was asked for.
    pub name: String,
    /// What the cluster has: groups, then machines, in the order of the file.
    pub known: Vec<String>,
}

/// The machines of those names; a group's name stands for all of its machines.
pub fn machines_of<'a>(
    cluster: &Cluster,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<MachineName>, UnknownName> {
    let mut chosen = BTreeSet::new();
    for name in names {
        let is_meant = |machine: &Machine<'_>| {
            machine.name.as_str() == name || machine.group.name.as_str() == name
        };
        let meant: Vec<_> = cluster.machines().filter(is_meant).collect();
        let mut groups = cluster.groups.iter().map(|group| group.name.as_str());
        // A group may be empty.
        if meant.is_empty() && groups.all(|group| group != name) {
            let groups = cluster.groups.iter().map(|group| group.name.to_string());
            let machines = cluster.machines().map(|machine| machine.name.to_string());
            return Err(UnknownName {
                name: name.into(),
                known: groups.chain(machines).collect(),
            });
        }
        chosen.extend(meant.into_iter().map(|machine| machine.name));
    }
    Ok(chosen)
}

/// The steps of those machines, and everything that they need. Where nothing else was to be done, the suites too: then
/// the cluster is what the file says, and can be proven.
pub fn only(plan: &Plan, machines: &BTreeSet<MachineName>) -> Result<Selection, PlanError> {
    let is_chosen = |step: &Step| {
        let machine = step.machine.as_ref();
        machine.is_some_and(|machine| machines.contains(machine))
    };
    let mut needed: BTreeSet<&StepId> = BTreeSet::new();
    // From the last: whatever a step needs comes before it.
    for step in plan.steps().iter().rev() {
        if is_chosen(step) || needed.contains(&step.id) {
            needed.insert(&step.id);
            needed.extend(&step.needs);
        }
    }
    let is_suite = |step: &Step| step.stage == Stage::Verify;
    let mut changes = plan.steps().iter().filter(|step| !is_suite(step));
    if !needed.is_empty() && changes.all(|step| needed.contains(&step.id)) {
        needed.extend(plan.steps().iter().map(|step| &step.id));
    }
    part(plan, |step| needed.contains(&step.id))
}

/// The steps of the stages up to that one, itself included.
pub fn until(plan: &Plan, last: Stage) -> Result<Selection, PlanError> {
    // No step waits for a later stage, so nothing that is left out is needed.
    part(plan, |step| step.stage <= last)
}

fn part(plan: &Plan, is_kept: impl Fn(&Step) -> bool) -> Result<Selection, PlanError> {
    if !plan.obstacles().is_empty() {
        // Nothing is to be left out, and what is in the way stays in the way.
        return Ok(Selection {
            plan: plan.clone(),
            left_out: Vec::new(),
        });
    }
    let (kept, left_out) = plan.steps().iter().cloned().partition(is_kept);
    Ok(Selection {
        plan: Plan::new(kept)?,
        left_out,
    })
}

#[cfg(test)]
mod tests {
    use mullion_plan::Action;

    use super::*;

    fn step(stage: Stage, action: Action, machine: Option<&str>, needs: &[&str]) -> Step {
        let machine = machine.map(|name| name.parse().unwrap());
        let needs = needs.iter().map(|need| StepId::new(need)).collect();
        Step::new(stage, machine, action, "a test".into(), needs)
    }

    fn sample() -> Plan {
        let suite = || "smoke".to_owned();
        let endpoint = || "192.0.2.1:6443".to_owned();
        Plan::new(vec![
            step(Stage::Machines, mullion_testkit::start(), Some("cp1"), &[]),
            step(Stage::Machines, mullion_testkit::start(), Some("lin1"), &[]),
            step(Stage::Machines, mullion_testkit::start(), Some("lin2"), &[]),
            step(
                Stage::ControlPlane,
                Action::AwaitApi {
                    endpoint: endpoint(),
                },
                None,
                &["start/cp1"],
            ),
            step(
                Stage::Join,
                Action::Drain,
                Some("lin1"),
                &["start/lin1", "api/cluster"],
            ),
            step(
                Stage::Join,
                Action::Drain,
                Some("lin2"),
                &["start/lin2", "api/cluster"],
            ),
            step(
                Stage::Verify,
                Action::Verify {
                    suite: suite(),
                    rollouts: Vec::new(),
                },
                None,
                &["drain/lin1", "drain/lin2"],
            ),
        ])
        .unwrap()
    }

    fn ids(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.id.as_str()).collect()
    }

    #[test]
    fn only_one_machine_brings_along_what_it_needs_and_tells_the_rest() {
        let chosen = only(&sample(), &["lin2".parse().unwrap()].into()).unwrap();
        assert_eq!(
            ids(chosen.plan.steps()),
            ["start/cp1", "start/lin2", "api/cluster", "drain/lin2"]
        );
        assert_eq!(
            ids(&chosen.left_out),
            ["start/lin1", "drain/lin1", "verify/smoke"]
        );
    }

    #[test]
    fn only_the_machines_that_differ_are_all_that_is_to_be_done_and_can_be_proven() {
        let all = ["cp1", "lin1", "lin2"].map(|name| name.parse().unwrap());
        let chosen = only(&sample(), &all.into()).unwrap();
        assert_eq!(chosen.plan, sample());
        let suite = Action::Verify {
            rollouts: Vec::new(),
            suite: "smoke".into(),
        };
        let due = Plan::new(vec![step(Stage::Verify, suite, None, &[])]).unwrap();
        let chosen = only(&due, &["lin1".parse().unwrap()].into()).unwrap();
        assert!(chosen.plan.is_empty(), "nothing is to be done for lin1");
    }

    #[test]
    fn until_a_stage_leaves_out_the_later_ones() {
        let chosen = until(&sample(), Stage::ControlPlane).unwrap();
        assert_eq!(
            ids(chosen.plan.steps()),
            ["start/cp1", "start/lin1", "start/lin2", "api/cluster"]
        );
        assert_eq!(
            ids(&chosen.left_out),
            ["drain/lin1", "drain/lin2", "verify/smoke"]
        );
        let whole = until(&sample(), Stage::Verify).unwrap();
        assert_eq!(whole.plan, sample());
        assert!(whole.left_out.is_empty());
    }

    #[test]
    fn both_together_are_a_plan_too() {
        let chosen = only(&sample(), &["lin1".parse().unwrap()].into()).unwrap();
        let chosen = until(&chosen.plan, Stage::Machines).unwrap();
        assert_eq!(ids(chosen.plan.steps()), ["start/cp1", "start/lin1"]);
        let nothing = only(&sample(), &BTreeSet::new()).unwrap();
        assert!(nothing.plan.is_empty());
        assert_eq!(nothing.left_out.len(), 7);
    }
}
