//! What came of a run: every step, every stage, every machine, and what the failures have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use mullion_plan::{STAGES, Stage, StepId, StepKind};
use mullion_spec::value::MachineName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::clock::millis;
use crate::run_id::RunId;
use crate::told::{Failure, StepTag};

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RunOutcome {
    /// Every step is done.
    Done,
    /// A step failed.
    Failed,
    /// It was called off.
    Cancelled,
    /// Its journal could not be written any more, so that nothing new was started.
    JournalLost,
    /// The plan had something in its way, and nothing was touched.
    Obstructed,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed for good.
    Failed {
        /// Why.
        error: Failure,
    },
    /// It was begun, and the run was called off before it was done.
    Interrupted {
        /// What it said.
        error: Failure,
    },
    /// It was told to end, and nobody waited until it had.
    Abandoned,
    /// It was not begun, because something that it needs failed.
    Blocked {
        /// The steps that failed.
        by: Vec<StepId>,
    },
    /// It was not begun, because the run ended before.
    NotStarted,
}

/// One step of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// The step.
    #[serde(flatten)]
    pub tag: StepTag,
    /// What kind of step it is.
    pub kind: StepKind,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// When it was begun, in milliseconds after the run.
    pub begun_ms: Option<u64>,
    /// How long it took, waits included.
    pub took_ms: u64,
    /// How much of that it waited, for the next look or the next try.
    pub waited_ms: u64,
    /// How often it was tried.
    pub attempts: u32,
}

/// One stage of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// What a person reads.
    pub title: &'static str,
    /// How many steps it has.
    pub steps: usize,
    /// How many of them are done.
    pub done: usize,
    /// From its first step's beginning to its last step's end.
    pub wall_ms: u64,
    /// Its steps' times, added up.
    pub sum_ms: u64,
}

/// One machine of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineReport {
    /// The machine.
    #[schemars(with = "String")]
    pub machine: MachineName,
    /// How many steps it has.
    pub steps: usize,
    /// How many of them are done.
    pub done: usize,
    /// The stage of its last step that is done.
    pub reached: Option<Stage>,
    /// From its first step's beginning to its last step's end.
    pub wall_ms: u64,
}

/// A step that failed, and what could not be begun because of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The step.
    #[serde(flatten)]
    pub tag: StepTag,
    /// Why.
    pub error: Failure,
    /// The steps that it keeps from being begun, in the order of the run.
    pub blocks: Vec<StepId>,
}

/// Everything that came of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The run.
    #[schemars(with = "String")]
    pub run: RunId,
    /// What came of it.
    pub outcome: RunOutcome,
    /// When it began.
    #[schemars(with = "String")]
    pub started: Timestamp,
    /// How long it took.
    pub took_ms: u64,
    /// Every step of the plan, in the order of the run.
    pub steps: Vec<StepReport>,
    /// The stages that have steps, in the order of the run.
    pub stages: Vec<StageReport>,
    /// The machines that have steps, in the order of the run.
    pub machines: Vec<MachineReport>,
    /// The steps that failed, in the order of the run.
    pub causes: Vec<Cause>,
    /// Why the journal could not be written any more, where it could not.
    pub journal_trouble: Option<String>,
    /// The journal.
    pub journal: Option<PathBuf>,
    /// What to type to go on, where something is left.
    pub go_on: Option<String>,
}

/// What is known of a step at the end.
#[derive(Debug, Clone)]
pub(crate) struct Fate {
    pub(crate) outcome: Outcome,
    /// On the run's clock.
    pub(crate) begun: Duration,
    pub(crate) took: Duration,
    pub(crate) waited: Duration,
    pub(crate) attempts: u32,
}

/// What a report is made from.
pub(crate) struct Summary {
    pub(crate) run: RunId,
    pub(crate) outcome: RunOutcome,
    pub(crate) started: Timestamp,
    /// When the run began, on its clock.
    pub(crate) begun: Duration,
    pub(crate) took: Duration,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) journal_trouble: Option<String>,
    pub(crate) again: String,
}

impl Report {
    /// `steps` in the order of the run, each with its fate where it was begun.
    pub(crate) fn new(
        summary: Summary,
        steps: Vec<(StepTag, StepKind, Option<Fate>)>,
        blocked: &BTreeMap<StepId, BTreeSet<StepId>>,
    ) -> Self {
        let run_began = summary.begun;
        let steps: Vec<_> = steps
            .into_iter()
            .map(|(tag, kind, fate)| {
                let fate = fate.unwrap_or_else(|| Fate {
                    outcome: match blocked.get(&tag.id) {
                        Some(by) => Outcome::Blocked {
                            by: by.iter().cloned().collect(),
                        },
                        None => Outcome::NotStarted,
                    },
                    begun: Duration::MAX,
                    took: Duration::ZERO,
                    waited: Duration::ZERO,
                    attempts: 0,
                });
                let begun = (fate.attempts > 0).then(|| fate.begun.saturating_sub(run_began));
                StepReport {
                    tag,
                    kind,
                    outcome: fate.outcome,
                    begun_ms: begun.map(millis),
                    took_ms: millis(fate.took),
                    waited_ms: millis(fate.waited),
                    attempts: fate.attempts,
                }
            })
            .collect();
        let go_on = (summary.outcome != RunOutcome::Done).then_some(summary.again);
        Self {
            run: summary.run,
            outcome: summary.outcome,
            started: summary.started,
            took_ms: millis(summary.took),
            stages: stages(&steps),
            machines: machines(&steps),
            causes: causes(&steps),
            steps,
            journal: summary.journal,
            journal_trouble: summary.journal_trouble,
            go_on,
        }
    }

    /// The steps that are done.
    pub fn done(&self) -> impl Iterator<Item = &StepReport> {
        done(self.steps.iter())
    }

    /// The steps that were not begun because of a failure, with those that failed.
    pub fn blocked(&self) -> impl Iterator<Item = (&StepTag, &[StepId])> {
        self.steps.iter().filter_map(|step| match &step.outcome {
            Outcome::Blocked { by } => Some((&step.tag, by.as_slice())),
            _ => None,
        })
    }
}

/// From the first beginning to the last end.
fn wall<'a>(steps: impl Iterator<Item = &'a StepReport>) -> u64 {
    let (mut first, mut last) = (u64::MAX, 0);
    for step in steps {
        if let Some(begun) = step.begun_ms {
            first = first.min(begun);
            last = last.max(begun.saturating_add(step.took_ms));
        }
    }
    last.saturating_sub(first)
}

fn done<'a>(steps: impl Iterator<Item = &'a StepReport>) -> impl Iterator<Item = &'a StepReport> {
    steps.filter(|step| step.outcome == Outcome::Done)
}

fn stages(steps: &[StepReport]) -> Vec<StageReport> {
    STAGES
        .iter()
        .filter_map(|row| {
            let of_stage = || steps.iter().filter(|step| step.tag.stage == row.stage);
            (of_stage().count() > 0).then(|| StageReport {
                stage: row.stage,
                title: row.title,
                steps: of_stage().count(),
                done: done(of_stage()).count(),
                wall_ms: wall(of_stage()),
                sum_ms: of_stage().map(|step| step.took_ms).sum(),
            })
        })
        .collect()
}

fn machines(steps: &[StepReport]) -> Vec<MachineReport> {
    let mut order = Vec::new();
    let mut of_machine: BTreeMap<&MachineName, Vec<&StepReport>> = BTreeMap::new();
    for step in steps {
        let Some(machine) = &step.tag.machine else {
            continue;
        };
        let entry = of_machine.entry(machine).or_default();
        if entry.is_empty() {
            order.push(machine);
        }
        entry.push(step);
    }
    let report = |machine: &MachineName| {
        let steps = of_machine.get(machine).map_or(&[][..], Vec::as_slice);
        let done: Vec<_> = done(steps.iter().copied()).collect();
        MachineReport {
            machine: machine.clone(),
            steps: steps.len(),
            done: done.len(),
            reached: done.iter().map(|step| step.tag.stage).max(),
            wall_ms: wall(steps.iter().copied()),
        }
    };
    order.into_iter().map(report).collect()
}

fn causes(steps: &[StepReport]) -> Vec<Cause> {
    let mut blocks: BTreeMap<&StepId, Vec<StepId>> = BTreeMap::new();
    for step in steps {
        if let Outcome::Blocked { by } = &step.outcome {
            for cause in by {
                blocks.entry(cause).or_default().push(step.tag.id.clone());
            }
        }
    }
    steps
        .iter()
        .filter_map(|step| match &step.outcome {
            Outcome::Failed { error } => Some(Cause {
                tag: step.tag.clone(),
                error: error.clone(),
                blocks: blocks.remove(&step.tag.id).unwrap_or_default(),
            }),
            _ => None,
        })
        .collect()
}
