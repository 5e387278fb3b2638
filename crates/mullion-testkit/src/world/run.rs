//! A plain runner: one step after another, in a seeded order.
//!
//! It proves that any order that a plan allows is a good one. The engine does the same with many hands.

use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::Dice;
use mullion_plan::Stage;
use mullion_plan::StepId;
use mullion_plan::{ErrorClass, Perform, Retry, StepError, Unattended};
use mullion_plan::{Plan, Walk};

/// How far a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To the end.
    End,
    /// Through that many steps.
    Steps(usize),
    /// Through that stage.
    Stage(Stage),
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The steps that succeeded.
    pub done: BTreeSet<StepId>,
    /// The steps that failed for good, with why.
    pub failed: BTreeMap<StepId, StepError>,
    /// How many times a step was tried again.
    pub retries: usize,
    /// Whether the run was cut off.
    pub interrupted: bool,
}

/// How often one step is tried.
const ATTEMPTS: u32 = 4;

/// Performs a plan's steps, each as soon as its needs are done, in an order that the dice choose.
///
/// A failed step stops only what waits for it.
pub fn run<P: Perform>(plan: &Plan, port: &P, until: Until, dice: &mut Dice) -> Outcome {
    let mut outcome = Outcome::default();
    let mut walk = Walk::new(plan);
    let mut failures: BTreeMap<StepId, u32> = BTreeMap::new();
    loop {
        if let Until::Steps(limit) = until
            && outcome.done.len() >= limit
        {
            return outcome;
        }
        let ready: Vec<_> = walk
            .ready()
            .filter(|step| !matches!(until, Until::Stage(last) if step.stage > last))
            .collect();
        let Some(step) = ready.get(dice.pick(ready.len())) else {
            return outcome;
        };
        match port.perform(step, &Unattended) {
            Ok(()) => {
                walk.finish(&step.id);
                outcome.done.insert(step.id.clone());
            }
            Err(error) if error.class == ErrorClass::Interrupted => {
                outcome.interrupted = true;
                return outcome;
            }
            Err(error) => {
                let failed = failures.entry(step.id.clone()).or_default();
                *failed += 1;
                if error.class.retry() == Retry::Never || *failed >= ATTEMPTS {
                    walk.give_up(&step.id);
                    outcome.failed.insert(step.id.clone(), error);
                } else {
                    outcome.retries += 1;
                }
            }
        }
    }
}
