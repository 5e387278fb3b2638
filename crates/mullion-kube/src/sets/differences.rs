//! How the objects of a set differ from what is there: what an apply of the set would make, change and delete.
//!
//! The API server itself says what an object would become, by a dry run of the same request with which it is applied.

use kube::api::{DynamicObject, Patch};
use serde::Serialize;
use serde_json::Value;

use super::{Wanted, by_rank, defined, group, manager, wanted};
use crate::error::KubeError;
use crate::fields::{self, FieldDifference};
use crate::kinds::{Kind, Kinds};
use crate::owner::Owner;
use crate::record::ObjectKey;
use crate::session::{Session, side_by_side};

/// An object that an apply of its set would make, change or delete.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDifference {
    /// Its version: `apps/v1`.
    pub api_version: String,
    /// Its kind: `DaemonSet`.
    pub kind: String,
    /// Its namespace, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: ObjectChange,
    /// The fields that differ. Of a new object, those that the set names; none of one that is removed.
    pub fields: Vec<FieldDifference>,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectChange {
    /// It is made.
    New,
    /// It is changed.
    Changed,
    /// It is deleted: the set has it no more.
    Removed,
}

impl ObjectDifference {
    fn new(key: ObjectKey, change: ObjectChange, fields: Vec<FieldDifference>) -> Self {
        Self {
            api_version: key.api_version,
            kind: key.kind,
            namespace: key.namespace,
            name: key.name,
            change,
            fields,
        }
    }
}

impl Session {
    pub(crate) async fn compare_set(
        &self,
        set: &str,
        objects: &[Value],
        owner: &Owner,
    ) -> Result<Vec<ObjectDifference>, KubeError> {
        let wanted = wanted(set, objects, owner)?;
        let defined = defined(&wanted);
        let mut record = self.record(owner).await?;
        let old = record.sets.remove(set).unwrap_or_default();
        let mut gone = old.objects;
        for object in &wanted {
            gone.remove(&object.key);
        }
        let mut kinds = Kinds::default();
        let mut differences = Vec::new();
        for (_, objects) in by_rank(wanted, |object| &object.key) {
            let mut requests = Vec::new();
            for object in objects {
                let (version, name) = (&object.key.api_version, &object.key.kind);
                let is_defined = defined.contains(&(group(version).into(), name.clone()));
                match kinds.find(self, version, name).await {
                    Ok(kind) => requests.push(self.clone().compare(kind, object)),
                    // The set's own definitions come first: without them there are no such objects.
                    Err(KubeError::UnknownKind { .. }) if is_defined => {
                        differences.push(new(object.key, &object.body));
                    }
                    Err(error) => return Err(error),
                }
            }
            for compared in side_by_side(requests).await {
                differences.extend(compared?);
            }
        }
        for (_, keys) in by_rank(gone, |key| key).into_iter().rev() {
            let mut requests = Vec::new();
            for key in keys {
                match kinds.find(self, &key.api_version, &key.kind).await {
                    Ok(kind) => requests.push(self.clone().compare_gone(
                        kind,
                        key,
                        (set.to_owned(), owner.clone()),
                    )),
                    // With the definition of its kind, an object is gone too.
                    Err(KubeError::UnknownKind { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            for compared in side_by_side(requests).await {
                differences.extend(compared?);
            }
        }
        Ok(differences)
    }

    /// How an object of the set differs; none where an apply would change nothing of it.
    async fn compare(
        self,
        kind: Kind,
        Wanted { mut key, body }: Wanted,
    ) -> Result<Option<ObjectDifference>, KubeError> {
        let objects = kind.objects(&self, &key);
        let found = self
            .ask(format!("read {key}"), objects.get_opt(&key.name))
            .await?;
        let Some(found) = found else {
            // No dry run: it fails where the namespace is one that the set makes first.
            key.namespace = kind.namespace(key.namespace.as_deref());
            return Ok(Some(new(key, &body)));
        };
        let manager = manager().dry_run();
        let patch = Patch::Apply(&body);
        let request = objects.patch(&key.name, &manager, &patch);
        let becomes = match self.ask(format!("apply {key} in a dry run"), request).await {
            Ok(becomes) => becomes,
            // It went away between the two questions.
            Err(error) if error.code() == Some(404) => {
                key.namespace = kind.namespace(key.namespace.as_deref());
                return Ok(Some(new(key, &body)));
            }
            Err(error) => return Err(error),
        };
        let fields = fields::differences(Some(&value(&found)), Some(&value(&becomes)));
        key.namespace = kind.namespace(key.namespace.as_deref());
        let is_changed = !fields.is_empty();
        Ok(is_changed.then(|| ObjectDifference::new(key, ObjectChange::Changed, fields)))
    }

    /// An object that the set has no more; none where an apply would leave it alone.
    async fn compare_gone(
        self,
        kind: Kind,
        mut key: ObjectKey,
        of: (String, Owner),
    ) -> Result<Option<ObjectDifference>, KubeError> {
        let found = self.own(&kind, &key, &of).await?;
        let is_going = |metadata: &kube::api::ObjectMeta| metadata.deletion_timestamp.is_some();
        if found.is_none_or(|found| is_going(&found.metadata)) {
            return Ok(None);
        }
        key.namespace = kind.namespace(key.namespace.as_deref());
        let removed = ObjectDifference::new(key, ObjectChange::Removed, Vec::new());
        Ok(Some(removed))
    }
}

fn new(key: ObjectKey, body: &Value) -> ObjectDifference {
    let fields = fields::differences(None, Some(body));
    ObjectDifference::new(key, ObjectChange::New, fields)
}

/// What the API server answered, as JSON.
fn value(object: &DynamicObject) -> Value {
    // It came as JSON.
    serde_json::to_value(object).unwrap_or_default()
}
