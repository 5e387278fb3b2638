//! What steps make, and how that is taken back: both follow from the action, here and nowhere else.

use mullion_spec::value::MachineName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::action::{Action, Prior};
use crate::observed::Place;
use crate::wanted::{Part, TemplateId};

/// Something that a step makes and that can be removed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Resource {
    /// A file in the cache.
    Artifact {
        /// The part.
        part: Part,
    },
    /// A template.
    Template {
        /// Which.
        template: TemplateId,
    },
    /// The machines' network on a host.
    Network {
        /// The host.
        #[schemars(with = "String")]
        place: Place,
    },
    /// A machine with its disk.
    Machine {
        /// Its name.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// The agent's program and service on a machine.
    Agent {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Files, services and settings on a machine.
    Blueprint {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// A node of the cluster.
    Node {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// A set of objects in the cluster.
    Objects {
        /// Its name.
        set: String,
    },
}

/// How a step is undone. Undoing what is undone already is success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Undo {
    /// Take the part out of the cache.
    DropArtifact {
        /// The part.
        part: Part,
    },
    /// Remove the template.
    RemoveTemplate {
        /// Which.
        template: TemplateId,
    },
    /// Take the machines' network off the host.
    RemoveNetwork {
        /// The host.
        #[schemars(with = "String")]
        place: Place,
    },
    /// Remove the machine.
    RemoveMachine {
        /// Its name.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Switch the machine off.
    StopMachine {
        /// Its name.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Remove the agent and what it remembers.
    RemoveAgent {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Take the features off again.
    DisableFeatures {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// The features.
        features: Vec<String>,
    },
    /// Remove what the blueprint laid down.
    RevertBlueprint {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Reset the machine and delete its node; the last control plane takes the cluster with it.
    LeaveCluster {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// Delete the objects.
    DeleteObjects {
        /// The set's name.
        set: String,
    },
}

impl Action {
    /// What the step makes.
    pub(crate) fn makes(&self, machine: Option<&MachineName>) -> Vec<Resource> {
        let named = |make: fn(MachineName) -> Resource| machine.cloned().map(make);
        let made = match self {
            Self::Fetch { part } => Some(Resource::Artifact { part: part.clone() }),
            Self::BuildTemplate { template, .. } => Some(Resource::Template {
                template: template.clone(),
            }),
            Self::MakeNetwork { place, .. } => Some(Resource::Network {
                place: place.clone(),
            }),
            Self::MakeMachine { .. } => named(|machine| Resource::Machine { machine }),
            Self::InstallAgent { .. } => named(|machine| Resource::Agent { machine }),
            Self::ApplyBlueprint { .. } => named(|machine| Resource::Blueprint { machine }),
            Self::Init { .. } | Self::Join { .. } => named(|machine| Resource::Node { machine }),
            Self::ApplyObjects { set, .. } => Some(Resource::Objects { set: set.clone() }),
            _ => None,
        };
        made.into_iter().collect()
    }

    /// How the step is undone; `None` when it changed something that was there, or nothing that lasts.
    pub(crate) fn undo(&self, machine: Option<&MachineName>) -> Option<Undo> {
        let named = |undo: fn(MachineName) -> Undo| machine.cloned().map(undo);
        match self {
            Self::Fetch { part } => Some(Undo::DropArtifact { part: part.clone() }),
            Self::BuildTemplate { template, .. } => Some(Undo::RemoveTemplate {
                template: template.clone(),
            }),
            Self::MakeNetwork {
                place,
                prior: Prior::Absent,
                ..
            } => Some(Undo::RemoveNetwork {
                place: place.clone(),
            }),
            Self::MakeMachine { .. } => named(|machine| Undo::RemoveMachine { machine }),
            Self::StartMachine => named(|machine| Undo::StopMachine { machine }),
            Self::InstallAgent {
                prior: Prior::Absent,
                ..
            } => named(|machine| Undo::RemoveAgent { machine }),
            Self::EnableFeatures {
                features,
                prior: Prior::Absent,
            } => machine.cloned().map(|machine| Undo::DisableFeatures {
                machine,
                features: features.clone(),
            }),
            Self::ApplyBlueprint {
                prior: Prior::Absent,
                ..
            } => named(|machine| Undo::RevertBlueprint { machine }),
            Self::Init {
                prior: Prior::Absent,
                ..
            }
            | Self::Join {
                prior: Prior::Absent,
                ..
            } => named(|machine| Undo::LeaveCluster { machine }),
            Self::ApplyObjects {
                set,
                prior: Prior::Absent,
                ..
            } => Some(Undo::DeleteObjects { set: set.clone() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_never_removed_by_undoing() {
        let machine: MachineName = "win1".parse().unwrap();
        for (prior, undone) in [
            (Prior::Absent, true),
            (Prior::Different, false),
            (Prior::Unknown, false),
        ] {
            let version = None;
            let agent = Action::InstallAgent { version, prior };
            assert_eq!(agent.undo(Some(&machine)).is_some(), undone, "{prior:?}");
        }
    }
}
