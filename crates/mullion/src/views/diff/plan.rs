//! How everything that a plan changes differs from what is there, as text and as a document.

use std::fmt::Write as _;

use mullion_live::PlanDifferences;
use mullion_spec::render::Colour;
use schemars::JsonSchema;
use serde::Serialize;

use super::unified::{painted, shown};
use super::{MachineDiff, SetDiff, machine_text, set_text};
use crate::console::STRONG;

/// What a plan changes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDiff {
    /// On machines, in the order of the run.
    pub machines: Vec<MachineDiff>,
    /// In the cluster's objects, in the order in which they are applied, and last in its nodes.
    pub sets: Vec<SetDiff>,
    /// What nobody can say, and why.
    pub unknown: Vec<String>,
}

/// The nodes among the sets of objects.
const NODES: &str = "nodes";

impl PlanDiff {
    /// The differences of a plan.
    pub fn new(differences: &PlanDifferences) -> Self {
        let mut diff = Self {
            machines: Vec::new(),
            sets: Vec::new(),
            unknown: Vec::new(),
        };
        for (machine, found) in &differences.machines {
            match found {
                Ok(found) => diff
                    .machines
                    .push(MachineDiff::new(machine.as_str(), found)),
                Err(why) => diff.unknown.push(unknown(machine.as_str(), why)),
            }
        }
        for (set, found) in &differences.sets {
            match found {
                Ok(found) => diff.sets.push(SetDiff::new(set, found)),
                Err(why) => diff.unknown.push(unknown(&format!("set {set}"), why)),
            }
        }
        if !differences.nodes.is_empty() {
            diff.sets.push(SetDiff::new(NODES, &differences.nodes));
        }
        diff
    }
}

/// Everything that a plan changes.
pub fn plan_text(differences: &PlanDifferences, colour: Colour) -> String {
    let mut out = String::new();
    let mut add = |what: &str, text: Result<String, &String>| {
        let text = text.unwrap_or_else(|why| {
            let words = unknown(what, why);
            format!("{}\n", painted(colour, STRONG, &shown(&words)))
        });
        // Writing into a string cannot fail.
        let _ = write!(out, "\n{text}");
    };
    for (machine, found) in &differences.machines {
        let text = found
            .as_ref()
            .map(|found| machine_text(machine.as_str(), found, colour));
        add(machine.as_str(), text);
    }
    for (set, found) in &differences.sets {
        let text = found.as_ref().map(|found| set_text(set, found, colour));
        add(&format!("set {set}"), text);
    }
    if !differences.nodes.is_empty() {
        add(NODES, Ok(set_text(NODES, &differences.nodes, colour)));
    }
    out
}

fn unknown(what: &str, why: &str) -> String {
    format!("{what}: nobody can say what changes: {why}")
}
