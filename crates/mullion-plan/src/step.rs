//! One step: an action, the machine it is done to, why, and what it waits for.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use mullion_spec::value::MachineName;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::action::Action;
use crate::stage::Stage;

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
///
/// What follows from the action, as its title does, is asked for and not kept: a plan of thousands of machines has a
/// hundred thousand steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "StepForm")]
#[non_exhaustive]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// The part of the run it belongs to.
    pub stage: Stage,
    /// The machine it is about.
    pub machine: Option<MachineName>,
    /// What it does.
    pub action: Action,
    /// Why it is needed: "win1 does not exist".
    pub reason: String,
    /// The steps that must be done before.
    pub needs: Vec<StepId>,
}

/// A step as it is written down, with all that follows from its action.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StepForm {
    /// Its name.
    id: StepId,
    /// The part of the run it belongs to.
    stage: Stage,
    /// The machine it is about.
    #[schemars(with = "Option<String>")]
    machine: Option<MachineName>,
    /// What it does.
    action: Action,
    /// What a person reads before it happens: "join win1 to the cluster".
    title: String,
    /// Why it is needed: "win1 does not exist".
    reason: String,
    /// The steps that must be done before.
    needs: Vec<StepId>,
    /// Whether the machine may be started anew.
    reboot: Reboot,
}

impl From<Step> for StepForm {
    fn from(step: Step) -> Self {
        Self {
            title: step.title(),
            reboot: step.reboot(),
            id: step.id,
            stage: step.stage,
            machine: step.machine,
            action: step.action,
            reason: step.reason,
            needs: step.needs,
        }
    }
}

impl JsonSchema for Step {
    fn schema_name() -> Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        StepForm::json_schema(generator)
    }
}

impl Step {
    /// A step of that action.
    pub fn new(
        stage: Stage,
        machine: Option<MachineName>,
        action: Action,
        reason: String,
        needs: Vec<StepId>,
    ) -> Self {
        let mut step = Self {
            id: StepId(action.id(machine.as_ref()).into()),
            stage,
            action,
            reason,
            machine,
            needs: Vec::new(),
        };
        step.wait_for(needs);
        step
    }

    /// What a person reads before it happens: "join win1 to the cluster".
    pub fn title(&self) -> String {
        self.action.title(self.machine.as_ref())
    }

    /// Whether the machine may be started anew.
    pub fn reboot(&self) -> Reboot {
        match &self.action {
            Action::EnableFeatures { .. } | Action::Reboot => Reboot::MayFollow,
            // Of a document that is not rendered yet nobody knows.
            Action::ApplyBlueprint { document }
                if document
                    .known()
                    .is_none_or(|document| document.blueprint.windows.is_some()) =>
            {
                Reboot::MayFollow
            }
            _ => Reboot::Never,
        }
    }

    /// Puts the step behind those.
    pub(crate) fn wait_for(&mut self, needs: impl IntoIterator<Item = StepId>) {
        self.needs.extend(needs);
        self.needs.sort_unstable();
        self.needs.dedup();
    }
}
