//! What is told while a run goes on: events, for whoever draws or prints them.

use jiff::Timestamp;
use mullion_plan::{News, Stage, StepId, Unit};
use mullion_spec::value::MachineName;
use mullion_wire::text::one_line;
use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Outcome, Report};
use crate::run_id::RunId;
use crate::told::StepTag;

/// Sees what happens. Called from several threads; never blocks for long.
pub trait Watch: Sync {
    /// Sees it.
    fn see(&self, at: Timestamp, event: &Event);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn see(&self, _at: Timestamp, _event: &Event) {}
}

/// How many steps of a plan belong to a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageCount {
    /// The stage.
    pub stage: Stage,
    /// What a person reads.
    pub title: &'static str,
    /// How many steps it has.
    pub steps: usize,
}

/// How many steps of a plan are about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineCount {
    /// The machine.
    #[schemars(with = "String")]
    pub machine: MachineName,
    /// How many steps it has.
    pub steps: usize,
}

/// What is heard of a step while it goes on. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum NewsItem {
    /// One short line.
    Line {
        /// The line.
        text: String,
    },
    /// How much of something countable is done.
    Amount {
        /// So much.
        done: u64,
        /// Of so much, where that is known.
        total: Option<u64>,
        /// What is counted: `bytes` or `packages`.
        unit: &'static str,
    },
    /// A file that holds everything that was heard.
    Log {
        /// Where it is.
        path: String,
    },
}

impl NewsItem {
    /// `masked` is the text of a line without secrets.
    pub(crate) fn new(news: &News, masked: impl FnOnce(&str) -> String) -> Option<Self> {
        Some(match news {
            News::Line(line) => Self::Line {
                // Before the mask: inside of a secret, a control sequence would hide it.
                text: masked(&one_line(line)),
            },
            News::Amount { done, total, unit } => Self::Amount {
                done: *done,
                total: *total,
                unit: match unit {
                    Unit::Bytes => "bytes",
                    Unit::Packages => "packages",
                },
            },
            News::Log(path) => Self::Log {
                path: path.display().to_string(),
            },
            _ => return None,
        })
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Event {
    /// It begins.
    RunStarted {
        /// The run.
        #[schemars(with = "String")]
        run: RunId,
        /// The cluster.
        cluster: String,
        /// What was typed.
        command: String,
        /// How many steps there are.
        steps: usize,
        /// The stages that have steps, in the order of the run.
        stages: Vec<StageCount>,
        /// The machines that have steps, in the order of the run.
        machines: Vec<MachineCount>,
    },
    /// A step is begun, or tried again. From here on its machine is in its stage.
    StepStarted {
        /// The step.
        #[serde(flatten)]
        tag: StepTag,
        /// The how-many-th try it is, from 1.
        attempt: u32,
    },
    /// Something is heard of a step.
    StepNews {
        /// The step.
        step: StepId,
        /// The machine it is about.
        #[schemars(with = "Option<String>")]
        machine: Option<MachineName>,
        /// What.
        news: NewsItem,
    },
    /// A step failed, and is tried again.
    StepRetried {
        /// The step.
        step: StepId,
        /// The machine it is about.
        #[schemars(with = "Option<String>")]
        machine: Option<MachineName>,
        /// Why it failed.
        why: String,
        /// The how-many-th try that was, from 1.
        attempt: u32,
        /// When it is tried again, in milliseconds from now.
        again_in_ms: u64,
    },
    /// A gate has not passed yet. Told once a second.
    Waiting {
        /// The step.
        step: StepId,
        /// The machine it is about.
        #[schemars(with = "Option<String>")]
        machine: Option<MachineName>,
        /// What is waited for, as the end of "waiting for …".
        gate: &'static str,
        /// What the last look found.
        why: String,
        /// How long it has waited.
        waited_ms: u64,
        /// How long it may still wait.
        remaining_ms: u64,
    },
    /// A step ended.
    StepEnded {
        /// The step.
        #[serde(flatten)]
        tag: StepTag,
        /// What came of it.
        #[serde(flatten)]
        outcome: Outcome,
        /// How long it took, waits included.
        took_ms: u64,
    },
    /// The run was called off.
    Cancelling {
        /// The steps that are still under way.
        under_way: Vec<StepId>,
        /// Whether those were told to end: the run was called off twice.
        called_off: bool,
    },
    /// It ended. After a second calling-off, steps that do not obey may still be under way: whoever owns the
    /// process may end it here.
    RunEnded {
        /// What came of it.
        report: Box<Report>,
    },
}

/// An event as one line of JSON: with its time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventLine<'a> {
    /// When it happened.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: &'a Event,
}
