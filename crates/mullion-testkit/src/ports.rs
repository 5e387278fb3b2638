//! Holds implementations of the ports to their contracts.
//!
//! The in-memory world passes it first; every later pair of ports runs through the same suite and adds
//! only what is its own.

use std::collections::BTreeSet;

use mullion_plan::Observed;
use mullion_plan::Plan;
use mullion_plan::Step;
use mullion_plan::Wanted;
use mullion_plan::plan;
use mullion_plan::{Discover, Perform, Unattended};

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
/// `port` begins in a world where the plan is neither empty nor blocked, and ends in the same world.
pub fn conforms<P: Discover + Perform>(port: &P, wanted: &Wanted<'_>) -> Result<(), Breach> {
    let before = look(port, wanted)?;
    require(
        look(port, wanted)? == before,
        "looking changes nothing",
        || "two looks in a row differ".into(),
    )?;
    let plan = plan(wanted, &before);
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
    let rest = self::plan(wanted, &after);
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
    let all: BTreeSet<_> = plan.steps().iter().map(|step| step.id.clone()).collect();
    for (step, undo) in plan.undoing(&all) {
        for time in ["first", "second"] {
            port.undo(&undo, &Unattended).map_err(|error| Breach {
                contract: "undoing in reverse order succeeds, and succeeds again",
                words: format!("{time} time, {}: {error}", step.id),
            })?;
        }
    }
    require(
        look(port, wanted)? == before,
        "undoing everything leaves the world as it was",
        || "the facts differ from those at the beginning".into(),
    )
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

fn require(
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
