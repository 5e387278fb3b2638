//! What tests read after a run: a journal in memory, outcomes of a report, steps of a record.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use mullion_engine::{Journal, Opening, Outcome, Report, RunRecord, Sink, StepState};
use mullion_plan::{Plan, StepId};
use mullion_wire::Mask;

/// What an in-memory journal holds. Copies are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    text: String,
    synced: usize,
}

impl Memory {
    /// A journal that leaves nothing behind, and its memory.
    pub(crate) fn journal(plan: &Plan, now: Timestamp) -> (Journal, Self) {
        let memory = Self::default();
        let opening = Opening::new("demo", "mullion up", "0.1.0", plan);
        let journal = Journal::on(opening, Mask::new(), now, Box::new(memory.clone()));
        (journal.unwrap(), memory)
    }

    /// Every line so far.
    pub(crate) fn text(&self) -> String {
        self.held().text.clone()
    }

    /// What is left when the computer loses its power now.
    pub(crate) fn synced(&self) -> String {
        self.synced_after(0)
    }

    /// The same, without its first bytes: for who has read those.
    pub(crate) fn synced_after(&self, bytes: usize) -> String {
        let held = self.held();
        let synced = held.text.get(bytes..held.synced);
        synced.unwrap_or_default().to_owned()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap()
    }
}

impl Sink for Memory {
    fn append(&self, line: &[u8]) -> io::Result<()> {
        self.held()
            .text
            .push_str(std::str::from_utf8(line).unwrap());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut held = self.held();
        held.synced = held.text.len();
        Ok(())
    }
}

/// What came of that step.
pub(crate) fn outcome_of<'a>(report: &'a Report, id: &StepId) -> &'a Outcome {
    let mut steps = report.steps.iter();
    &steps.find(|step| step.tag.id == *id).unwrap().outcome
}

/// The steps that were under way when the run ended.
pub(crate) fn under_way(record: &RunRecord) -> Vec<&str> {
    let steps = record.steps.iter();
    steps
        .filter(|step| step.state == StepState::UnderWay)
        .map(|step| step.tag.id.as_str())
        .collect()
}
