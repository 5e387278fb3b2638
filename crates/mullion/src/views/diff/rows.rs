//! Differences as JSON.

use mullion_kube::{FieldDifference, ObjectChange, ObjectDifference};
use mullion_wire::{Difference, Holding, Side};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// How a machine differs from what the file asks for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDiff {
    /// The machine.
    pub machine: String,
    /// What `up` changes on it, in its order.
    pub differences: Vec<DifferenceRow>,
}

/// One change that `up` makes on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceRow {
    /// What kind of thing it is: `file`, `service`, `kernel setting`, `registry value`, …
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The change in the words in which the run reports it.
    pub what: String,
    /// What is there now; none where nothing is, or where the system does not tell.
    pub now: Option<SideRow>,
    /// What will be there; none where nothing will be.
    pub after: Option<SideRow>,
    /// Whether the change follows only after the machine was restarted.
    pub after_restart: bool,
}

/// One side of a change. One of `text`, `state` and `sha256` is there, or `private` is true.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideRow {
    /// Text, with the secrets in it replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A state in a few words: `running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The digest of bytes that are no text, or too many to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether it is not shown because not everyone on the machine may read it.
    pub private: bool,
    /// Permissions of a file or folder: `0644`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How the objects of a set differ from what the file asks for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetDiff {
    /// The set.
    pub set: String,
    /// The objects that `up` makes, changes and deletes, in its order.
    pub objects: Vec<ObjectRow>,
}

/// An object that `up` makes, changes or deletes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// Its version: `apps/v1`.
    pub api_version: String,
    /// Its kind: `DaemonSet`.
    pub kind: String,
    /// Its namespace, where it is in one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: ObjectChangeWord,
    /// The fields that differ.
    pub fields: Vec<FieldRow>,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectChangeWord {
    /// It is made.
    New,
    /// It is changed.
    Changed,
    /// It is deleted.
    Removed,
}

/// A field of an object that differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldRow {
    /// Where it is: `spec.template.spec.containers[name=kube-flannel].image`.
    pub path: String,
    /// What is there now; none where the field is not there.
    pub before: Option<Value>,
    /// What will be there; none where the field goes.
    pub after: Option<Value>,
}

impl MachineDiff {
    /// The differences of a machine.
    pub fn new(machine: &str, differences: &[Difference]) -> Self {
        let differences = differences.iter();
        Self {
            machine: machine.to_owned(),
            differences: differences.map(DifferenceRow::new).collect(),
        }
    }
}

impl DifferenceRow {
    fn new(difference: &Difference) -> Self {
        Self {
            kind: difference.kind.word().to_owned(),
            name: difference.name.clone(),
            what: difference.what.clone(),
            now: difference.now.as_ref().map(SideRow::new),
            after: difference.after.as_ref().map(SideRow::new),
            after_restart: difference.after_restart,
        }
    }
}

impl SideRow {
    fn new(side: &Side) -> Self {
        let mut row = Self {
            mode: side.mode.map(|mode| format!("{mode:04o}")),
            ..Self::default()
        };
        match &side.holds {
            Holding::Text(text) => row.text = Some(text.clone()),
            Holding::State(words) => row.state = Some(words.clone()),
            Holding::Bytes { sha256, size } => {
                row.sha256 = Some(sha256.to_string());
                row.size = Some(*size);
            }
            // What a newer agent would hold otherwise is not known to be for everyone.
            _ => row.private = true,
        }
        row
    }
}

impl SetDiff {
    /// The differences of a set.
    pub fn new(set: &str, differences: &[ObjectDifference]) -> Self {
        let objects = differences.iter();
        Self {
            set: set.to_owned(),
            objects: objects.map(ObjectRow::new).collect(),
        }
    }
}

impl ObjectRow {
    fn new(difference: &ObjectDifference) -> Self {
        Self {
            api_version: difference.api_version.clone(),
            kind: difference.kind.clone(),
            namespace: difference.namespace.clone(),
            name: difference.name.clone(),
            change: match difference.change {
                ObjectChange::New => ObjectChangeWord::New,
                ObjectChange::Changed => ObjectChangeWord::Changed,
                ObjectChange::Removed => ObjectChangeWord::Removed,
            },
            fields: difference.fields.iter().map(FieldRow::new).collect(),
        }
    }
}

impl FieldRow {
    fn new(field: &FieldDifference) -> Self {
        Self {
            path: field.path.clone(),
            before: field.before.clone(),
            after: field.after.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use mullion_wire::DifferenceKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_documents_with_both_sides() {
        let differences = [Difference {
            kind: DifferenceKind::File,
            name: "/etc/key".into(),
            what: "/etc/key".into(),
            now: Some(Side {
                holds: Holding::Private,
                mode: Some(0o600),
            }),
            after: Some(Side::text("a\n")),
            after_restart: false,
        }];
        let document = serde_json::to_value(MachineDiff::new("lin1", &differences)).unwrap();
        assert_eq!(
            document,
            json!({"machine": "lin1", "differences": [{
                "kind": "file", "name": "/etc/key", "what": "/etc/key", "afterRestart": false,
                "now": {"private": true, "mode": "0600"},
                "after": {"text": "a\n", "private": false},
            }]})
        );
        let objects = [ObjectDifference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("a".into()),
            name: "b".into(),
            change: ObjectChange::Changed,
            fields: vec![FieldDifference {
                path: "data.c".into(),
                before: None,
                after: Some("d".into()),
            }],
        }];
        let document = serde_json::to_value(SetDiff::new("dns", &objects)).unwrap();
        assert_eq!(
            document,
            json!({"set": "dns", "objects": [{
                "apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": "b", "change": "changed",
                "fields": [{"path": "data.c", "before": null, "after": "d"}],
            }]})
        );
    }
}
