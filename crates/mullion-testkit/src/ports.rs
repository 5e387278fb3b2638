//! Holds implementations of the ports to their contracts.
//!
//! The in-memory world passes it first; every later pair of ports runs through the same suite and adds
//! only what is its own.

use std::collections::BTreeMap;

use mullion_plan::{
    Discover, Documents, Observed, Perform, Plan, Rest, Step, Unattended, Wanted, plan, plan_down,
};
use mullion_spec::cluster::ControlPlane;

/// The contract that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{contract}: {words}")]
pub struct Breach {
    /// The contract, in one sentence.
    pub contract: &'static str,
    /// What happened instead.
    pub words: String,
}

/// Brings a cluster up and takes it down again, and watches the contracts on the way.
///
/// `render` renders the documents of what is wanted from what was found.
///
/// `port` begins in a world where the plan is neither empty nor blocked, and ends in the same world. The suite calls
/// `before_removal` before it takes the cluster down.
pub fn conforms<P: Discover + Perform>(
    port: &P,
    wanted: &Wanted<'_>,
    render: impl Fn(&Observed) -> Documents,
    before_removal: impl FnOnce(),
) -> Result<(), Breach> {
    let before = look(port, wanted)?;
    require(
        look(port, wanted)? == before,
        "looking changes nothing",
        || "two looks in a row differ".into(),
    )?;
    let plan = plan(wanted, &before, &render(&before));
    require(
        !plan.steps().is_empty(),
        "the suite begins where something is to do",
        || format!("{} obstacles, no steps", plan.obstacles().len()),
    )?;
    out_of_order(port, wanted, &plan, &before)?;
    for step in plan.steps() {
        for time in ["first", "second"] {
            port.perform(step, &Unattended).map_err(|error| Breach {
                contract: "a step whose needs are met succeeds, and succeeds again",
                words: format!("{time} time, {}: {error}", step.id),
            })?;
        }
    }
    let after = look(port, wanted)?;
    let rest = self::plan(wanted, &after, &render(&after));
    require(
        rest.is_empty(),
        "a finished plan leaves nothing to do",
        || {
            let rest: Vec<_> = rest.steps().iter().map(|step| step.id.as_str()).collect();
            rest.join(", ")
        },
    )?;
    for step in plan.steps() {
        port.perform(step, &Unattended).map_err(|error| Breach {
            contract: "a step that is so already succeeds",
            words: format!("{}: {error}", step.id),
        })?;
    }
    require(
        look(port, wanted)? == after,
        "a step that is so already changes nothing",
        || "the facts differ after performing everything again".into(),
    )?;
    let rest = match wanted.cluster.control_plane {
        ControlPlane::Made { .. } => Rest::Nothing,
        ControlPlane::Existing { .. } => Rest::Cluster,
    };
    let down = plan_down(&after, rest, &BTreeMap::new());
    before_removal();
    for step in down.steps() {
        for time in ["first", "second"] {
            port.perform(step, &Unattended).map_err(|error| Breach {
                contract: "a step of a removal succeeds, and succeeds again",
                words: format!("{time} time, {}: {error}", step.id),
            })?;
        }
    }
    require(
        without_what_stays(look(port, wanted)?) == without_what_stays(before),
        "a removal leaves the world as it was",
        || "the facts differ from those at the beginning".into(),
    )
}

/// The facts without what a removal leaves: artifacts, templates, Windows features of machines that existed already. Past
/// proofs go too, since any change forgets them.
pub fn without_what_stays(mut observed: Observed) -> Observed {
    observed.artifacts.clear();
    observed.templates.clear();
    let machines = observed.machines.values_mut();
    for inside in machines.filter_map(|facts| facts.inside.as_mut()) {
        inside.features.clear();
    }
    if let Some(cluster) = &mut observed.cluster {
        cluster.proven.clear();
    }
    observed
}

/// A step is refused without effect where what it builds on is not there.
fn out_of_order<P: Discover + Perform>(
    port: &P,
    wanted: &Wanted<'_>,
    plan: &Plan,
    before: &Observed,
) -> Result<(), Breach> {
    let builds_on_nothing = |step: &&Step| {
        let is_missing = match &step.machine {
            Some(machine) => !before.machines.contains_key(machine),
            None => before.cluster.is_none(),
        };
        is_missing && !step.needs.is_empty()
    };
    for step in plan.steps().iter().filter(builds_on_nothing) {
        require(
            port.perform(step, &Unattended).is_err(),
            "a step that builds on what is not there is refused",
            || step.id.to_string(),
        )?;
    }
    require(
        look(port, wanted)? == *before,
        "a refused step has no effect",
        || "the facts differ after refused steps".into(),
    )
}

fn look<P: Discover>(port: &P, wanted: &Wanted<'_>) -> Result<Observed, Breach> {
    port.observe(wanted.cluster).map_err(|error| Breach {
        contract: "a world that is there can be looked at",
        words: error.to_string(),
    })
}

/// An error where a contract does not hold.
pub(crate) fn require(
    holds: bool,
    contract: &'static str,
    words: impl FnOnce() -> String,
) -> Result<(), Breach> {
    if holds {
        Ok(())
    } else {
        let words = words();
        Err(Breach { contract, words })
    }
}
