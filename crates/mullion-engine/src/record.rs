//! What a run did, as its journal tells it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mullion_plan::StepId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::line::{End, JOURNAL_VERSION, Line, Opening};
use crate::report::RunOutcome;
use crate::run_id::RunId;
use crate::runs::Alive;
use crate::told::{Failure, StepTag};

/// Why a text is not a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Nothing was written.
    #[error("the journal is empty")]
    Empty,
    /// It does not begin as one.
    #[error("the journal does not begin with a run")]
    NoRun,
    /// It was written by a newer program.
    #[error("the journal has version {0}, and this program knows {JOURNAL_VERSION}")]
    Newer(u32),
    /// A line in it cannot be read.
    #[error("line {number} of the journal cannot be read")]
    Line {
        /// Which, from 1.
        number: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A line in it does not fit to those before it.
    #[error("line {number} of the journal does not follow from those before it")]
    Order {
        /// Which, from 1.
        number: usize,
    },
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It goes on.
    Running,
    /// It ended without a word: killed, or the computer lost its power.
    CutOff,
    /// It ended.
    #[serde(untagged)]
    Ended(RunOutcome),
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It was begun, and nothing tells its end.
    UnderWay,
    /// It is done.
    Done,
    /// It failed for good.
    Failed,
    /// The run was called off before it was done.
    Interrupted,
}

/// A try that was followed by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Try {
    /// When it ended.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Why it failed.
    pub error: Failure,
}

/// What a run did to one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// The step.
    #[serde(flatten)]
    pub tag: StepTag,
    /// What became of it.
    pub state: StepState,
    /// When it was begun.
    #[schemars(with = "String")]
    pub begun: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended: Option<Timestamp>,
    /// How long it took, waits included.
    pub took_ms: Option<u64>,
    /// How often it was tried.
    pub attempts: u32,
    /// The tries that were followed by another.
    pub tries: Vec<Try>,
    /// Why it did not end well.
    pub error: Option<Failure>,
}

/// A step that was not begun because of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedRecord {
    /// The step.
    #[serde(flatten)]
    pub tag: StepTag,
    /// The steps that failed.
    pub by: Vec<StepId>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunRecord {
    /// Its name.
    #[schemars(with = "String")]
    pub run: RunId,
    /// The cluster.
    pub cluster: String,
    /// What was typed.
    pub command: String,
    /// The version of the program.
    pub mullion: String,
    /// The plan's fingerprint.
    pub plan: String,
    /// How many steps the plan had.
    pub planned: usize,
    /// The machines that stand in for Windows.
    pub stand_ins: Vec<String>,
    /// The process.
    pub pid: u32,
    /// What became of it.
    pub state: RunState,
    /// When it began.
    #[schemars(with = "String")]
    pub started: Timestamp,
    /// When it ended; of a run that was cut off, the time of its last line.
    #[schemars(with = "String")]
    pub ended: Timestamp,
    /// The steps that were begun, in the order of their beginning.
    pub steps: Vec<StepRecord>,
    /// The steps that were not begun because of others.
    pub blocked: Vec<BlockedRecord>,
    /// How many steps were not begun because the run ended before; known of a run that ended.
    pub not_started: Option<usize>,
}

impl RunRecord {
    /// Reads a journal. A last line that was torn by the run's end is left out.
    pub fn parse(text: &str, alive: Alive) -> Result<Self, RecordError> {
        let mut lines = lines(text)?.into_iter();
        let (_, first) = lines.next().ok_or(RecordError::Empty)?;
        let mut reader = Reader::new(first, alive)?;
        for (number, line) in lines {
            reader
                .read(line)
                .ok_or(RecordError::Order { number: number + 1 })?;
        }
        Ok(reader.record)
    }

    /// The steps that failed.
    pub fn failed(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps
            .iter()
            .filter(|step| step.state == StepState::Failed)
    }
}

/// The lines, each with its position. The last is left out where it is torn.
fn lines(text: &str) -> Result<Vec<(usize, Line)>, RecordError> {
    let mut found = Vec::new();
    for (position, raw) in text.split_inclusive('\n').enumerate() {
        let Some(whole) = raw.strip_suffix('\n') else {
            break;
        };
        let number = position + 1;
        // The version first: the rest of a newer journal may have any form.
        match serde_json::from_str::<Line>(whole) {
            Ok(line) => found.push((position, line)),
            Err(source) => match serde_json::from_str::<Version>(whole) {
                Ok(newer) if number == 1 && newer.version > JOURNAL_VERSION => {
                    return Err(RecordError::Newer(newer.version));
                }
                _ => return Err(RecordError::Line { number, source }),
            },
        }
    }
    Ok(found)
}

#[derive(serde::Deserialize)]
struct Version {
    version: u32,
}

/// Reads one line after another.
struct Reader {
    record: RunRecord,
    by_id: BTreeMap<StepId, usize>,
    is_closed: bool,
}

impl Reader {
    fn new(first: Line, alive: Alive) -> Result<Self, RecordError> {
        let Line::Run {
            version,
            run,
            started,
            pid,
            opening,
        } = first
        else {
            return Err(RecordError::NoRun);
        };
        if version > JOURNAL_VERSION {
            return Err(RecordError::Newer(version));
        }
        let Opening {
            cluster,
            command,
            mullion,
            plan,
            steps,
            stand_ins,
        } = opening;
        let record = RunRecord {
            run,
            cluster,
            command,
            mullion,
            plan: plan.to_string(),
            planned: steps,
            stand_ins,
            pid,
            state: match alive {
                Alive::Yes => RunState::Running,
                Alive::No => RunState::CutOff,
            },
            started,
            ended: started,
            steps: Vec::new(),
            blocked: Vec::new(),
            not_started: None,
        };
        Ok(Self {
            record,
            by_id: BTreeMap::new(),
            is_closed: false,
        })
    }

    /// `None` where the line does not follow from those before it.
    fn read(&mut self, line: Line) -> Option<()> {
        if self.is_closed {
            return None;
        }
        match line {
            Line::Run { .. } => return None,
            Line::Begin { at, tag, attempt } => self.begin(at, tag, attempt)?,
            Line::Retry {
                at, step, error, ..
            } => {
                self.seen(at);
                self.open(&step)?.tries.push(Try { at, error });
            }
            Line::End {
                at,
                step,
                outcome,
                took_ms,
                attempts,
                error,
                ..
            } => {
                self.seen(at);
                let step = self.open(&step)?;
                step.state = match outcome {
                    End::Done => StepState::Done,
                    End::Failed => StepState::Failed,
                    End::Interrupted => StepState::Interrupted,
                };
                step.ended = Some(at);
                step.took_ms = Some(took_ms);
                step.attempts = attempts;
                step.error = error;
            }
            Line::Blocked { tag, by } => self.record.blocked.push(BlockedRecord { tag, by }),
            Line::Close {
                at,
                outcome,
                not_started,
                ..
            } => {
                self.seen(at);
                self.is_closed = true;
                self.record.state = RunState::Ended(outcome);
                self.record.not_started = Some(not_started);
            }
        }
        Some(())
    }

    fn begin(&mut self, at: Timestamp, tag: StepTag, attempt: u32) -> Option<()> {
        self.seen(at);
        if attempt > 1 {
            self.open(&tag.id)?.attempts = attempt;
            return Some(());
        }
        let position = self.record.steps.len();
        let is_new = self.by_id.insert(tag.id.clone(), position).is_none();
        self.record.steps.push(StepRecord {
            tag,
            state: StepState::UnderWay,
            begun: at,
            ended: None,
            took_ms: None,
            attempts: attempt,
            tries: Vec::new(),
            error: None,
        });
        is_new.then_some(())
    }

    /// A step that was begun and has not ended.
    fn open(&mut self, id: &StepId) -> Option<&mut StepRecord> {
        let position = *self.by_id.get(id)?;
        let step = self.record.steps.get_mut(position)?;
        (step.state == StepState::UnderWay).then_some(step)
    }

    fn seen(&mut self, at: Timestamp) {
        self.record.ended = self.record.ended.max(at);
    }
}
