//! One step: an action, the machine it is done to, why, and what it waits for.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::action::Action;
use crate::stage::Stage;
use crate::undo::{Resource, Undo};

/// Names one step, such as `join/win1`. Stable between runs: the journal relies on it.
///
/// Copies share their text, since every edge of the graph holds one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct StepId(#[schemars(with = "String")] Arc<str>);

impl StepId {
    /// The id of that text, such as one out of a journal.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for StepId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0)
    }
}

/// Whether a machine may be started anew at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reboot {
    /// It keeps running.
    Never,
    /// If the system asks for it.
    MayFollow,
}

/// One idempotent change, with the reason it is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// The part of the run it belongs to.
    pub stage: Stage,
    /// The machine it is about.
    #[schemars(with = "Option<String>")]
    pub machine: Option<MachineName>,
    /// What it does.
    pub action: Action,
    /// What a person reads before it happens: "join win1 to the cluster".
    pub title: String,
    /// Why it is needed: "win1 does not exist".
    pub reason: String,
    /// The steps that must be done before.
    pub needs: Vec<StepId>,
    /// What it makes.
    pub makes: Vec<Resource>,
    /// How it is undone.
    pub undo: Option<Undo>,
    /// Whether the machine may be started anew.
    pub reboot: Reboot,
}

impl Step {
    /// A step of that action; everything but the reason, the needs and the reboot follows from it.
    pub fn new(
        stage: Stage,
        machine: Option<MachineName>,
        action: Action,
        reason: String,
        needs: Vec<StepId>,
    ) -> Self {
        let on = machine.as_ref();
        let reboot = match &action {
            Action::EnableFeatures { .. }
            | Action::Reboot
            | Action::ApplyBlueprint {
                os: Os::Windows, ..
            } => Reboot::MayFollow,
            _ => Reboot::Never,
        };
        Self {
            id: StepId(action.id(on).into()),
            title: action.title(on),
            makes: action.makes(on),
            undo: action.undo(on),
            reboot,
            stage,
            action,
            reason,
            machine,
            needs: Vec::new(),
        }
        .after(needs)
    }

    /// The same step, behind those.
    #[must_use]
    pub(crate) fn after(mut self, needs: impl IntoIterator<Item = StepId>) -> Self {
        self.needs.extend(needs);
        self.needs.sort_unstable();
        self.needs.dedup();
        self
    }
}
