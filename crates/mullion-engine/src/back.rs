//! Taking back what a run did, the last first.

use std::collections::{BTreeMap, BTreeSet};

use mullion_plan::{ErrorClass, Perform, Plan, Step, StepError, StepId, Undo};

use crate::cancel::{Cancel, Cancelled};
use crate::clock::Clock;
use crate::desk::{Act, Came, Desk, Job};
use crate::frame::{Ending, Frame};
use crate::journal::Journal;
use crate::options::Options;
use crate::report::{Fate, Outcome, Report, RunOutcome};
use crate::told::StepTag;
use crate::watch::Watch;

/// What is to be taken back.
#[derive(Debug, Clone, Copy)]
pub struct Made<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The steps of it that were begun, as [`Report::begun`] gives them: also of one that was cut off something may be
    /// there, and undoing what is not there is success.
    pub begun: &'a BTreeSet<StepId>,
}

/// Takes back the steps of a plan in the reverse of their order, one after another.
///
/// A step that cannot be taken back keeps those that it needs from being taken back: they are blocked by it. The
/// journal is one of its own, whose opening says [`crate::Opening::undoing`].
pub fn undo_run<P: Perform>(
    made: Made<'_>,
    port: &P,
    options: &Options,
    journal: &Journal,
    watcher: &dyn Watch,
    cancel: &Cancel,
    clock: &dyn Clock,
) -> Report {
    let desk = Desk {
        options,
        journal,
        watcher,
        cancel,
        clock,
    };
    let undoing: Vec<(&Step, Undo)> = made.plan.undoing(made.begun).collect();
    let steps: Vec<&Step> = undoing.iter().map(|(step, _)| *step).collect();
    let frame = Frame::open(desk, &steps);
    let mut undos: BTreeMap<_, _> = undoing
        .iter()
        .map(|(step, undo)| (&step.id, undo))
        .collect();
    let mut fates: BTreeMap<StepId, Fate> = BTreeMap::new();
    let mut held: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
    let mut blocked = BTreeMap::new();
    let mut is_ended = false;
    for step in made.plan.steps().iter().rev() {
        let holders = held.remove(&step.id).unwrap_or_default();
        let mut holding = holders.clone();
        if let Some(undo) = undos.remove(&step.id) {
            if !holders.is_empty() {
                blocked.insert(step.id.clone(), holders);
            } else if !is_ended {
                let fate = undo_one(&desk, port, step, undo);
                is_ended = !matches!(
                    fate.as_ref().map(|fate| &fate.outcome),
                    Some(Outcome::Done | Outcome::Failed { .. })
                );
                if let Some(fate) = fate {
                    if matches!(fate.outcome, Outcome::Failed { .. }) {
                        holding.insert(step.id.clone());
                    }
                    fates.insert(step.id.clone(), fate);
                }
            }
        }
        if !holding.is_empty() {
            for need in &step.needs {
                held.entry(need.clone())
                    .or_default()
                    .extend(holding.iter().cloned());
            }
        }
    }
    let is_failed = |fate: &Fate| matches!(fate.outcome, Outcome::Failed { .. });
    let outcome = if journal.trouble().is_some() {
        RunOutcome::JournalLost
    } else if is_ended {
        RunOutcome::Cancelled
    } else if fates.values().any(is_failed) {
        RunOutcome::Failed
    } else {
        RunOutcome::Done
    };
    let tagged = |step| (step, tag(step, &desk));
    frame.close(Ending {
        outcome,
        steps: steps.into_iter().map(tagged).collect(),
        fates,
        blocked,
    })
}

fn tag(step: &Step, desk: &Desk<'_>) -> StepTag {
    let mut tag = StepTag::new(step, desk.journal.mask());
    tag.title.insert_str(0, "take back: ");
    tag
}

/// Takes one step back, however many tries that needs. `None` where the run ended before it was begun.
fn undo_one<P: Perform>(desk: &Desk<'_>, port: &P, step: &Step, undo: &Undo) -> Option<Fate> {
    if desk.cancel.level() != Cancelled::No {
        return None;
    }
    let mut job = Job::tagged(step, tag(step, desk), desk);
    loop {
        let mut answer = None;
        let act = Act {
            perform: &|ear| port.undo(undo, ear),
            tail: &Vec::new,
        };
        desk.attempt(&act, job, |given| answer = Some(given));
        let given = answer?;
        job = given.job;
        match given.came {
            Came::Ended(fate) => return Some(fate),
            Came::NotBegun => {
                let words = "the journal could not be written";
                let error = StepError::new(ErrorClass::Interrupted, words);
                job.begun?;
                return ended(desk.interrupted(&job, &error));
            }
            Came::Again { after, error } => {
                let due = desk.clock.elapsed().saturating_add(after);
                while desk.clock.elapsed() < due {
                    if desk.cancel.level() != Cancelled::No {
                        return ended(desk.interrupted(&job, &error));
                    }
                    let rest = due.saturating_sub(desk.clock.elapsed());
                    desk.clock.sleep(rest);
                }
            }
        }
    }
}

fn ended(came: Came) -> Option<Fate> {
    match came {
        Came::Ended(fate) => Some(fate),
        _ => None,
    }
}
