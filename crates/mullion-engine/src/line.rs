//! The lines of a journal.

use jiff::Timestamp;
use mullion_plan::{Fingerprint, Plan, StepId};
use serde::{Deserialize, Serialize};

use crate::report::RunOutcome;
use crate::run_id::RunId;
use crate::told::{Failure, StepTag, step_id, step_ids};

/// The version of the journal's form. A change that an older reader would misread raises it.
///
/// Version 1 had a `direction`, which readers of version 1 need.
pub const JOURNAL_VERSION: u32 = 2;

/// What a journal begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// The cluster.
    pub cluster: String,
    /// What was typed.
    pub command: String,
    /// The version of the program.
    pub mullion: String,
    /// The plan, by its fingerprint.
    pub plan: Fingerprint,
    /// How many steps the plan has.
    pub steps: usize,
    /// The machines that stand in for Windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stand_ins: Vec<String>,
}

impl Opening {
    /// The opening of a run of that plan.
    pub fn new(cluster: &str, command: &str, mullion: &str, plan: &Plan) -> Self {
        Self {
            cluster: cluster.into(),
            command: command.into(),
            mullion: mullion.into(),
            plan: Fingerprint::of(plan),
            steps: plan.steps().len(),
            stand_ins: Vec::new(),
        }
    }

    /// With machines that stand in for Windows.
    #[must_use]
    pub fn standing_in(mut self, machines: Vec<String>) -> Self {
        self.stand_ins = machines;
        self
    }
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// Well.
    Done,
    /// It failed for good.
    Failed,
    /// The run was called off.
    Interrupted,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "line",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Line {
    /// The first.
    Run {
        version: u32,
        run: RunId,
        started: Timestamp,
        pid: u32,
        #[serde(flatten)]
        opening: Opening,
    },
    /// Before a try of a step.
    Begin {
        at: Timestamp,
        #[serde(flatten)]
        tag: StepTag,
        attempt: u32,
    },
    /// After a try that is followed by another.
    Retry {
        at: Timestamp,
        #[serde(deserialize_with = "step_id")]
        step: StepId,
        attempt: u32,
        again_in_ms: u64,
        error: Failure,
    },
    /// After a step's last try.
    End {
        at: Timestamp,
        #[serde(deserialize_with = "step_id")]
        step: StepId,
        outcome: End,
        took_ms: u64,
        waited_ms: u64,
        attempts: u32,
        #[serde(default, skip_serializing_if = "is_zero")]
        looks: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
    /// A step that was not begun because of others.
    Blocked {
        #[serde(flatten)]
        tag: StepTag,
        #[serde(deserialize_with = "step_ids")]
        by: Vec<StepId>,
    },
    /// The last.
    Close {
        at: Timestamp,
        outcome: RunOutcome,
        took_ms: u64,
        /// How many steps were not begun because the run ended before.
        not_started: usize,
    },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The values that are names or numbers of ours: what is written there is never masked.
const OURS: &[&str] = &[
    "line", "run", "started", "plan", "at", "step", "stage", "machine", "outcome", "by", "class",
    "mullion",
];

/// The line as text without secrets, its end included.
pub(crate) fn masked(line: &Line, mask: &mullion_wire::Mask) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(line)?;
    hide(&mut value, mask);
    let mut text = value.to_string();
    text.push('\n');
    Ok(text)
}

fn hide(value: &mut serde_json::Value, mask: &mullion_wire::Mask) {
    match value {
        serde_json::Value::String(text) => {
            if let std::borrow::Cow::Owned(masked) = mask.apply(text) {
                *text = masked;
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                hide(value, mask);
            }
        }
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if !OURS.contains(&name.as_str()) {
                    hide(value, mask);
                }
            }
        }
        _ => {}
    }
}
