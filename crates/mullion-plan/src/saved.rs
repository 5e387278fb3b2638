//! A plan that was written down, to be run later as it was shown.
//!
//! A saved plan gives no orders. Whoever runs it plans again, and runs the new plan where both are the same: so a file that
//! was changed on the way can make a run refuse, and nothing else. It names secrets and files of the user's by digest.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::Sha256Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::Action;
use crate::document::Carried;
use crate::identity::ClusterUid;
use crate::plan::Plan;

/// A plan with the documents that its steps carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedPlan {
    /// The form of this document.
    pub version: SavedPlanVersion,
    /// The version of Mullion that made it.
    pub mullion: String,
    /// The cluster.
    pub cluster: String,
    /// The cluster's id, where it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub id: Option<ClusterUid>,
    /// The steps, in the order of the run.
    pub steps: Vec<SavedStep>,
    /// The digests of the programs that the documents name, where they were in the cache: `linux/kubelet 1.36.4`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub programs: BTreeMap<String, Sha256Digest>,
    /// The digests of the cluster file and of the files that it names, secrets aside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub inputs: BTreeMap<String, Sha256Digest>,
    /// The documents, by their digests.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub documents: BTreeMap<Sha256Digest, Value>,
}

/// The form of a saved plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum SavedPlanVersion {
    /// The first.
    #[default]
    #[serde(rename = "mullion.dev/saved-plan/v1")]
    V1,
}

/// One step of a saved plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedStep {
    /// Its name.
    pub id: String,
    /// What a person reads before it happens.
    pub title: String,
    /// Why it is needed.
    pub reason: String,
    /// The steps that must be done before.
    pub needs: Vec<String>,
    /// What it does, with its documents by digest.
    pub action: Value,
}

/// Why a saved plan cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrunnable {
    /// Another version of Mullion made it.
    #[error("Mullion {found} made the plan, and this is {own}")]
    OtherVersion {
        /// That one.
        found: String,
        /// This one.
        own: String,
    },
    /// It is for another cluster.
    #[error("the plan is for another cluster, {0}")]
    OtherCluster(String),
    /// What it was made from has changed since.
    #[error("what the plan was made from has changed since")]
    Changed(Vec<String>),
}

impl SavedPlan {
    /// A plan, written down by that version of Mullion.
    pub fn of(
        plan: &Plan,
        mullion: &str,
        (cluster, id): (&str, Option<ClusterUid>),
        (inputs, programs): (
            BTreeMap<String, Sha256Digest>,
            BTreeMap<String, Sha256Digest>,
        ),
    ) -> Self {
        let steps = plan.steps().iter();
        Self {
            version: SavedPlanVersion::V1,
            mullion: mullion.into(),
            cluster: cluster.into(),
            id,
            programs,
            inputs,
            documents: plan.documents(),
            steps: steps
                .map(|step| SavedStep {
                    id: step.id.to_string(),
                    title: step.title(),
                    reason: step.reason.clone(),
                    needs: step.needs.iter().map(ToString::to_string).collect(),
                    // An action holds text, numbers and maps of text: JSON holds them all.
                    action: serde_json::to_value(&step.action)
                        .unwrap_or_else(|error| error.to_string().into()),
                })
                .collect(),
        }
    }

    /// Whether that version of Mullion made it, for a cluster of that name.
    pub fn is_of(&self, mullion: &str, cluster: &str) -> Result<(), Unrunnable> {
        if self.mullion != mullion {
            return Err(Unrunnable::OtherVersion {
                found: self.mullion.clone(),
                own: mullion.into(),
            });
        }
        if self.cluster != cluster {
            return Err(Unrunnable::OtherCluster(format!("`{}`", self.cluster)));
        }
        Ok(())
    }

    /// Whether the plan that is made now is the one that was saved, or why it must not be run.
    pub fn is_still(&self, now: &Self) -> Result<(), Unrunnable> {
        self.is_of(&now.mullion, &now.cluster)?;
        if self.id != now.id {
            let id = self.id.as_ref().map(ToString::to_string);
            let id = id.unwrap_or_else(|| "one that was not made yet".into());
            return Err(Unrunnable::OtherCluster(format!(
                "`{}` ({id})",
                self.cluster
            )));
        }
        let differences = self.differences(now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Unrunnable::Changed(differences))
    }

    fn by_id(&self) -> BTreeMap<&str, &SavedStep> {
        let steps = self.steps.iter();
        steps.map(|step| (step.id.as_str(), step)).collect()
    }

    /// How the plan that is made now differs, a line each.
    fn differences(&self, now: &Self) -> Vec<String> {
        let (old, new) = (self.by_id(), now.by_id());
        let mut lines = Vec::new();
        for (id, step) in &old {
            match new.get(id) {
                None => lines.push(format!("{id}: no longer needed")),
                Some(other) if other.action != step.action => {
                    lines.push(format!("{id}: it would do something else"));
                    lines.extend(self.document_differences(now, &step.action, &other.action));
                }
                Some(other) if other.needs != step.needs => {
                    lines.push(format!("{id}: it would wait for other steps"));
                }
                Some(_) => {}
            }
        }
        let added = new.iter().filter(|(id, _)| !old.contains_key(*id));
        lines.extend(added.map(|(id, step)| format!("{id}: needed now, since {}", step.reason)));
        for (program, digest) in &self.programs {
            if now
                .programs
                .get(program)
                .is_some_and(|other| other != digest)
            {
                lines.push(format!("program {program}: the cache holds another one"));
            }
        }
        let names: BTreeSet<_> = self.inputs.keys().chain(now.inputs.keys()).collect();
        let inputs = names.into_iter();
        let inputs = inputs.filter(|name| self.inputs.get(*name) != now.inputs.get(*name));
        lines.extend(inputs.map(|name| format!("`{name}` is another file")));
        let (own, others) = (self.steps.iter(), now.steps.iter());
        let in_order = own.clone().map(|step| &step.id);
        if lines.is_empty() && !in_order.eq(others.clone().map(|step| &step.id)) {
            lines.push("the steps would have another order".into());
        }
        let titles = own.map(|step| &step.title);
        let is_shown = titles.eq(others.map(|step| &step.title));
        if lines.is_empty() && (!is_shown || self.documents != now.documents) {
            lines.push("what it shows is not what its steps and digests say".into());
        }
        lines
    }

    /// Where the fields of two actions differ, and the documents that they name.
    fn document_differences(&self, now: &Self, old: &Value, new: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        compare("", old, new, &mut lines);
        let digest = |value: &Value| value.as_str()?.parse::<Sha256Digest>().ok();
        if let (Value::Object(old), Value::Object(new)) = (old, new) {
            for (field, value) in old {
                let before = digest(value).and_then(|digest| self.documents.get(&digest));
                let other = new.get(field).unwrap_or(&Value::Null);
                let after = digest(other).and_then(|digest| now.documents.get(&digest));
                if let (Some(before), Some(after)) = (before, after) {
                    compare(field, before, after, &mut lines);
                }
            }
        }
        lines.truncate(SHOWN);
        lines.iter().map(|line| format!("  {line}")).collect()
    }
}

/// So many differences of one step are shown.
const SHOWN: usize = 20;

/// Where two values differ, by the path to each difference.
fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new || lines.len() >= SHOWN {
        return;
    }
    let inner = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let value = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or(Value::Null)
                };
                compare(&inner(key), &value(old), &value(new), lines);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&inner(&at.to_string()), old, new, lines);
            }
        }
        _ => lines.push(format!("{path}: {} to {}", shown(old), shown(new))),
    }
}

/// The beginning of a value.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl Plan {
    /// The documents that its steps carry, by their digests.
    pub fn documents(&self) -> BTreeMap<Sha256Digest, Value> {
        let mut all = Documents::default();
        for step in self.steps() {
            match &step.action {
                Action::ApplyBlueprint { document } => all.add(document.known()),
                Action::Init { document, .. } => all.add(document.known()),
                Action::Join { document, .. } => all.add(document.known()),
                Action::ApplyObjects { objects, .. } => all.add(Some(objects)),
                Action::MakeMachine { names, .. } | Action::StartMachine { names, .. } => {
                    all.add(Some(names));
                }
                Action::BuildTemplate { containerd, .. } => all.add(containerd.as_ref()),
                _ => {}
            }
        }
        all.0
    }
}

/// Documents by their digests, each written down once.
#[derive(Default)]
struct Documents(BTreeMap<Sha256Digest, Value>);

impl Documents {
    fn add<T: Serialize>(&mut self, document: Option<&Carried<T>>) {
        if let Some(document) = document {
            let entry = self.0.entry(document.digest().clone());
            entry.or_insert_with(|| document.json());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(steps: &[(&str, Value)]) -> SavedPlan {
        SavedPlan {
            version: SavedPlanVersion::V1,
            mullion: "1".into(),
            cluster: "demo".into(),
            id: Some(ClusterUid::of(7)),
            programs: BTreeMap::new(),
            inputs: BTreeMap::new(),
            steps: steps
                .iter()
                .map(|(id, action)| SavedStep {
                    id: (*id).into(),
                    title: "do it".into(),
                    reason: "it is wanted".into(),
                    needs: Vec::new(),
                    action: action.clone(),
                })
                .collect(),
            documents: BTreeMap::new(),
        }
    }

    #[test]
    fn a_plan_is_run_only_where_planning_again_gives_the_same_steps() {
        let make = |cpus: u32| serde_json::json!({"kind": "make", "size": {"cpus": cpus}});
        let old = saved(&[("make/a", make(2)), ("make/b", make(2))]);
        assert_eq!(old.is_still(&old.clone()), Ok(()));
        // Why a step is needed may be told in other words on another day.
        let mut later = old.clone();
        later.steps[0].reason = "its certificate ends in 3 days".into();
        assert_eq!(old.is_still(&later), Ok(()));
        let now = saved(&[("make/a", make(4)), ("make/c", make(2))]);
        let Err(Unrunnable::Changed(lines)) = old.is_still(&now) else {
            panic!("other steps are another plan");
        };
        assert_eq!(
            lines,
            [
                "make/a: it would do something else",
                "  size.cpus: 2 to 4",
                "make/b: no longer needed",
                "make/c: needed now, since it is wanted",
            ]
        );
        let turned = saved(&[("make/b", make(2)), ("make/a", make(2))]);
        assert!(old.is_still(&turned).is_err());
        let mut waits = old.clone();
        waits.steps[1].needs.push("make/a".into());
        assert!(old.is_still(&waits).is_err());
    }

    #[test]
    fn a_changed_document_is_told_by_its_fields() {
        let (mut old, mut now) = (saved(&[]), saved(&[]));
        for (plan, mtu) in [(&mut old, 1450), (&mut now, 1400)] {
            let document = serde_json::json!({"files": [{"path": "/a", "mtu": mtu}]});
            let digest = Sha256Digest::of_json(&document);
            let action = serde_json::json!({"kind": "apply", "document": digest.as_str()});
            plan.steps = saved(&[("apply/a", action)]).steps;
            plan.documents.insert(digest, document);
        }
        let Err(Unrunnable::Changed(lines)) = old.is_still(&now) else {
            panic!("another document is another plan");
        };
        assert_eq!(
            lines.last().unwrap(),
            "  document.files.0.mtu: 1450 to 1400"
        );
    }

    #[test]
    fn a_plan_whose_words_were_changed_or_whose_inputs_are_others_is_refused() {
        let plan = saved(&[("ready/a", serde_json::json!({"kind": "ready"}))]);
        let mut other = plan.clone();
        other.steps[0].title = "do nothing".into();
        assert!(plan.is_still(&other).is_err());
        let mut other = plan.clone();
        other.documents.insert(Sha256Digest::of(b"a"), Value::Null);
        assert!(plan.is_still(&other).is_err());
        let mut other = plan.clone();
        let digest = Sha256Digest::of(b"another file");
        other.inputs.insert("cluster.yaml".into(), digest);
        let Err(Unrunnable::Changed(lines)) = plan.is_still(&other) else {
            panic!("another file is another plan");
        };
        assert_eq!(lines, ["`cluster.yaml` is another file"]);
    }

    #[test]
    fn a_program_that_was_built_anew_is_another_one() {
        let with = |content: &[u8]| SavedPlan {
            programs: [("linux/kubelet 1".into(), Sha256Digest::of(content))].into(),
            ..saved(&[])
        };
        assert_eq!(with(b"a").is_still(&with(b"a")), Ok(()));
        assert!(with(b"a").is_still(&with(b"b")).is_err());
        // One that was not in the cache when the plan was made is held to no digest.
        assert_eq!(saved(&[]).is_still(&with(b"b")), Ok(()));
    }

    #[test]
    fn a_plan_of_another_cluster_or_version_is_refused() {
        let plan = saved(&[]);
        let other = |change: &dyn Fn(&mut SavedPlan)| {
            let mut other = plan.clone();
            change(&mut other);
            plan.is_still(&other).unwrap_err()
        };
        for error in [
            other(&|plan| plan.cluster = "other".into()),
            other(&|plan| plan.id = None),
            other(&|plan| plan.id = Some(ClusterUid::of(8))),
        ] {
            assert!(matches!(error, Unrunnable::OtherCluster(_)), "{error:?}");
        }
        let error = other(&|plan| plan.mullion = "2".into());
        assert_eq!(error.to_string(), "Mullion 1 made the plan, and this is 2");
    }
}
