//! Steps and their failures, as they are written down and shown.

use std::path::PathBuf;

use mullion_plan::{ErrorClass, Stage, Step, StepError, StepId};
use mullion_spec::value::MachineName;
use mullion_wire::Mask;
use mullion_wire::text::one_line;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What a step is called, and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTag {
    /// Its name.
    #[serde(rename = "step", deserialize_with = "step_id")]
    pub id: StepId,
    /// The part of the run it belongs to.
    pub stage: Stage,
    /// The machine it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub machine: Option<MachineName>,
    /// What a person reads.
    pub title: String,
}

impl StepTag {
    /// The tag of a step.
    pub fn new(step: &Step, mask: &Mask) -> Self {
        Self {
            id: step.id.clone(),
            stage: step.stage,
            machine: step.machine.clone(),
            title: mask.apply(&one_line(&step.title())).into_owned(),
        }
    }
}

/// Reads the name of a step.
pub(crate) fn step_id<'de, D: Deserializer<'de>>(from: D) -> Result<StepId, D::Error> {
    String::deserialize(from).map(|text| StepId::new(&text))
}

/// Reads names of steps.
pub(crate) fn step_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StepId>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    Ok(texts.iter().map(|text| StepId::new(text)).collect())
}

/// What kind of failure it was.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureClass {
    /// Somebody else changed the same thing, again and again.
    Conflict,
    /// A machine or the API server did not answer.
    Unreachable,
    /// A gate did not pass in time.
    NotYet,
    /// What the step needs is not there, or cannot work.
    Refused,
    /// It belongs to somebody else.
    NotOurs,
    /// What it was planned with is no longer so.
    Outdated,
    /// The run was called off.
    Interrupted,
    /// A mistake of ours.
    Bug,
}

impl From<ErrorClass> for FailureClass {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Conflict => Self::Conflict,
            ErrorClass::Unreachable => Self::Unreachable,
            ErrorClass::NotYet => Self::NotYet,
            ErrorClass::NotOurs => Self::NotOurs,
            ErrorClass::Outdated => Self::Outdated,
            ErrorClass::Interrupted => Self::Interrupted,
            _ => Self::Refused,
        }
    }
}

/// Why a step failed. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it was.
    pub class: FailureClass,
    /// What failed.
    pub words: String,
    /// The causes behind it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The last lines of the right log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<String>,
    /// The file that holds all of that log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
}

impl Failure {
    /// The failure, without secrets.
    pub fn new(error: &StepError, log: Option<PathBuf>, mask: &Mask) -> Self {
        let masked = |texts: &[String]| {
            let masked = texts
                .iter()
                .map(|text| mask.apply(&one_line(text)).into_owned());
            masked.collect()
        };
        // Control sequences go first: inside of a secret they would hide it from the mask.
        let tail: Vec<_> = error
            .tail
            .iter()
            .map(|line| one_line(line).into_owned())
            .collect();
        Self {
            class: error.class.into(),
            words: mask.apply(&one_line(&error.words)).into_owned(),
            causes: masked(&error.causes),
            hints: masked(&error.hints),
            tail: mask.lines(&tail),
            log,
        }
    }

    /// A step that panicked: its words may hold what a machine said.
    pub(crate) fn panicked(words: &str, mask: &Mask) -> Self {
        Self {
            class: FailureClass::Bug,
            words: "the step ended by a mistake of ours".into(),
            causes: vec![mask.apply(&one_line(words)).into_owned()],
            hints: vec!["report it, with the run's journal".into()],
            tail: Vec::new(),
            log: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_12_a_failure_holds_no_control_sequence_and_no_forged_line() {
        let mask = Mask::new();
        mask.register("the-password");
        let mut error = StepError::new(
            ErrorClass::Refused,
            "kubeadm\u{1b}[2J failed\nerror: forged",
        )
        .hint("look\u{1b}]0;t\u{7} there")
        .tail([
            "the-\u{1b}[0mpassword \u{202e}x".into(),
            "a\rerror: b".into(),
        ]);
        error.causes.push("one\r\nhint: two\u{9b}1A".into());
        let failure = Failure::new(&error, None, &mask);
        assert_eq!(failure.words, "kubeadm failed error: forged");
        assert_eq!(failure.causes, ["one hint: two"]);
        assert_eq!(failure.hints, ["look there"]);
        assert_eq!(failure.tail, ["[masked] x", "a error: b"]);
    }

    #[test]
    fn a_failure_holds_no_secret_and_survives_being_written_down() {
        let mask = Mask::new();
        mask.register("the-password");
        let mut error = StepError::new(ErrorClass::Refused, "the-password was refused")
            .hint("use another than the-password")
            .tail(["-----BEGIN PRIVATE KEY-----".into(), "MHcC".into()]);
        error.causes.push("abcdef.0123456789abcdef".into());
        let failure = Failure::new(&error, None, &mask);
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(
            text,
            r#"{"class":"refused","words":"[masked] was refused","causes":["[masked]"],"hints":["use another than [masked]"],"tail":["[masked]"]}"#
        );
        assert_eq!(serde_json::from_str::<Failure>(&text).unwrap(), failure);
    }
}
