//! Where every machine is at a moment, kept up to date by the events of a run: what a view of progress draws.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mullion_plan::{Stage, StepId};
use mullion_spec::value::MachineName;

use crate::report::Outcome;
use crate::watch::{Event, NewsItem};

/// A step that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Its name.
    pub id: StepId,
    /// The part of the run it belongs to.
    pub stage: Stage,
    /// What a person reads.
    pub title: String,
    /// When it was begun.
    pub since: Timestamp,
    /// What was heard of it last.
    pub last: Option<String>,
    /// How much of something countable is done: of how much, and what is counted.
    pub amount: Option<(u64, Option<u64>, &'static str)>,
}

/// One line of a view: a machine, or everything that is about none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoardRow {
    /// The machine.
    pub machine: Option<MachineName>,
    /// The stage it is in, or was in last.
    pub stage: Option<Stage>,
    /// How many steps it has.
    pub steps: usize,
    /// How many of them are done.
    pub done: usize,
    /// Whether one of them failed.
    pub has_failed: bool,
    /// Those that are under way, in the order of their beginning.
    pub current: Vec<Current>,
}

/// All lines of a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Board {
    /// What is about no machine, then the machines in the order of the run.
    pub rows: Vec<BoardRow>,
    by_machine: BTreeMap<MachineName, usize>,
}

impl Board {
    /// An empty one: the first event fills it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what happened.
    pub fn see(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunStarted {
                steps, machines, ..
            } => {
                let of_machines: usize = machines.iter().map(|count| count.steps).sum();
                self.rows = vec![BoardRow {
                    steps: steps.saturating_sub(of_machines),
                    ..BoardRow::default()
                }];
                self.by_machine.clear();
                for count in machines {
                    self.by_machine
                        .insert(count.machine.clone(), self.rows.len());
                    self.rows.push(BoardRow {
                        machine: Some(count.machine.clone()),
                        steps: count.steps,
                        ..BoardRow::default()
                    });
                }
            }
            Event::StepStarted { tag, attempt } => {
                let Some(row) = self.row(tag.machine.as_ref()) else {
                    return;
                };
                row.stage = Some(tag.stage);
                if *attempt == 1 {
                    row.current.push(Current {
                        id: tag.id.clone(),
                        stage: tag.stage,
                        title: tag.title.clone(),
                        since: at,
                        last: None,
                        amount: None,
                    });
                }
            }
            Event::StepNews {
                step,
                machine,
                news,
            } => {
                if let Some(current) = self.current(machine.as_ref(), step) {
                    match news {
                        NewsItem::Line { text } => current.last = Some(text.clone()),
                        NewsItem::Amount { done, total, unit } => {
                            current.amount = Some((*done, *total, *unit));
                        }
                        NewsItem::Log { .. } => {}
                    }
                }
            }
            Event::StepRetried {
                step, machine, why, ..
            }
            | Event::Waiting {
                step, machine, why, ..
            } => {
                if let Some(current) = self.current(machine.as_ref(), step) {
                    current.last = Some(why.clone());
                }
            }
            Event::StepEnded { tag, outcome, .. } => {
                let Some(row) = self.row(tag.machine.as_ref()) else {
                    return;
                };
                row.current.retain(|current| current.id != tag.id);
                match outcome {
                    Outcome::Done => row.done += 1,
                    Outcome::Failed { .. } => row.has_failed = true,
                    _ => {}
                }
            }
            Event::Cancelling { .. } | Event::RunEnded { .. } => {}
        }
    }

    fn row(&mut self, machine: Option<&MachineName>) -> Option<&mut BoardRow> {
        let place = match machine {
            Some(machine) => *self.by_machine.get(machine)?,
            None => 0,
        };
        self.rows.get_mut(place)
    }

    fn current(&mut self, machine: Option<&MachineName>, id: &StepId) -> Option<&mut Current> {
        let row = self.row(machine)?;
        row.current.iter_mut().find(|current| current.id == *id)
    }
}
