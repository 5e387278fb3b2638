//! How a run begins and ends, whichever way it goes through its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mullion_plan::{STAGES, Step, StepId};
use mullion_spec::value::MachineName;

use crate::clock::millis;
use crate::desk::Desk;
use crate::line::Line;
use crate::report::{Fate, Report, RunOutcome, Summary};
use crate::told::StepTag;
use crate::watch::{Event, MachineCount, StageCount};

/// The time between a run's beginning and its end.
pub(crate) struct Frame<'a> {
    desk: Desk<'a>,
    started: Timestamp,
    start: Duration,
}

/// What a run ends with.
pub(crate) struct Ending<'a> {
    pub(crate) outcome: RunOutcome,
    /// Every step, in the order of the run.
    pub(crate) steps: Vec<(&'a Step, StepTag)>,
    pub(crate) fates: BTreeMap<StepId, Fate>,
    pub(crate) blocked: BTreeMap<StepId, BTreeSet<StepId>>,
}

impl<'a> Frame<'a> {
    /// Begins, and tells it.
    pub(crate) fn open(desk: Desk<'a>, steps: &[&Step]) -> Self {
        let stages = STAGES.iter().filter_map(|row| {
            let count = steps.iter().filter(|step| step.stage == row.stage).count();
            (count > 0).then_some(StageCount {
                stage: row.stage,
                title: row.title,
                steps: count,
            })
        });
        let opening = desk.journal.opening();
        desk.tell(&Event::RunStarted {
            run: desk.journal.id().clone(),
            cluster: opening.cluster.clone(),
            command: opening.command.clone(),
            steps: steps.len(),
            stages: stages.collect(),
            machines: machines(steps),
        });
        Self {
            desk,
            started: desk.clock.now(),
            start: desk.clock.elapsed(),
        }
    }

    /// Ends: closes the journal, and tells it.
    pub(crate) fn close(self, ending: Ending<'_>) -> Report {
        let Ending {
            outcome,
            steps,
            mut fates,
            blocked,
        } = ending;
        let desk = self.desk;
        let took = desk.clock.elapsed().saturating_sub(self.start);
        let mut lines = Vec::new();
        for (step, tag) in &steps {
            if let Some(by) = blocked.get(&step.id) {
                let by = by.iter().cloned().collect();
                let tag = tag.clone();
                lines.push(Line::Blocked { tag, by });
            }
        }
        lines.push(Line::Close {
            at: desk.clock.now(),
            outcome,
            took_ms: millis(took),
            not_started: steps.len() - fates.len() - blocked.len(),
        });
        // A journal that could not be closed is in trouble, and the report says so.
        let _ = desk.journal.close(&lines);
        let steps = steps
            .into_iter()
            .map(|(step, tag)| (tag, step.action.kind(), fates.remove(&step.id)))
            .collect();
        let summary = Summary {
            run: desk.journal.id().clone(),
            outcome,
            started: self.started,
            begun: self.start,
            took,
            journal: desk.journal.path(),
            journal_trouble: desk.journal.trouble().map(str::to_owned),
            again: desk.options.again.clone(),
        };
        let report = Report::new(summary, steps, &blocked);
        desk.tell(&Event::RunEnded {
            report: Box::new(report.clone()),
        });
        report
    }
}

/// The machines that have steps, in the order of the run.
fn machines(steps: &[&Step]) -> Vec<MachineCount> {
    let mut counts: Vec<MachineCount> = Vec::new();
    let mut places: BTreeMap<&MachineName, usize> = BTreeMap::new();
    for machine in steps.iter().filter_map(|step| step.machine.as_ref()) {
        let place = *places.entry(machine).or_insert_with(|| {
            counts.push(MachineCount {
                machine: machine.clone(),
                steps: 0,
            });
            counts.len() - 1
        });
        counts[place].steps += 1;
    }
    counts
}
