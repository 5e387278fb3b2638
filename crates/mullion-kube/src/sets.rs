//! Sets of objects: applied, pruned and removed as a whole.
//!
//! Every object that may exist because of a set is written down before it is applied, and the fingerprint after
//! everything is done. So a run that is cut off anywhere leaves nothing that is not known, and a set that is
//! half applied is never taken for whole.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use mullion_plan::Fingerprint;
use serde_json::{Map, Value};

use crate::error::KubeError;
use crate::keys::{MANAGER, SET_LABEL};
use crate::kinds::{self, Kind, Kinds, Rank};
use crate::look::Look;
use crate::owner::Owner;
use crate::record::{ObjectKey, SetRecord};
use crate::session::{Session, side_by_side};

mod differences;

pub use differences::{ObjectChange, ObjectDifference};

/// An object to apply.
#[derive(Debug, Clone)]
struct Wanted {
    key: ObjectKey,
    body: Value,
}

impl Session {
    pub(crate) async fn apply_set(
        &self,
        set: &str,
        fingerprint: &Fingerprint,
        objects: &[Value],
        owner: &Owner,
    ) -> Result<Look, KubeError> {
        let wanted = wanted(set, objects, owner)?;
        let defined = defined(&wanted);
        let mut record = self.record(owner).await?;
        let key = record.key(set, owner);
        let old = record.sets.remove(set).unwrap_or_default();
        let id = owner.id().map(str::to_owned);
        let done = SetRecord {
            id: id.clone(),
            fingerprint: Some(fingerprint.clone()),
            objects: wanted.iter().map(|object| object.key.clone()).collect(),
        };
        let begun = SetRecord {
            id,
            fingerprint: None,
            objects: done.objects.union(&old.objects).cloned().collect(),
        };
        if old != done && old != begun {
            self.write_set(&key, &begun, owner).await?;
        }
        let mut kinds = Kinds::default();
        for (_, objects) in by_rank(wanted, |object| &object.key) {
            let mut requests = Vec::new();
            for Wanted { key, body } in objects {
                let (version, name) = (key.api_version.as_str(), key.kind.as_str());
                let is_defined = defined.contains(&(group(version).into(), name.into()));
                match kinds.find(self, version, name).await {
                    Ok(kind) => requests.push(self.clone().apply(kind, key, body, is_defined)),
                    Err(KubeError::UnknownKind { .. }) if is_defined => {
                        return Ok(not_served(name));
                    }
                    Err(error) => return Err(error),
                }
            }
            for applied in side_by_side(requests).await {
                if let Look::NotYet(words) = applied? {
                    return Ok(Look::NotYet(words));
                }
            }
        }
        let gone = old.objects.difference(&done.objects).cloned();
        // Pruned objects are left to end in their own time: nothing of the set waits for that.
        self.remove_all((set, owner), gone.collect(), &mut kinds)
            .await?;
        self.write_set(&key, &done, owner).await?;
        Ok(Look::So(()))
    }

    pub(crate) async fn remove_set(&self, set: &str, owner: &Owner) -> Result<Look, KubeError> {
        let mut record = self.record(owner).await?;
        let key = record.key(set, owner);
        let Some(known) = record.sets.remove(set) else {
            return Ok(Look::So(()));
        };
        let mut kinds = Kinds::default();
        let ending = self
            .remove_all((set, owner), known.objects, &mut kinds)
            .await?;
        if let Some(object) = ending.first() {
            return Ok(Look::not_yet(format!("{object} is still being deleted")));
        }
        self.erase_set(key).await?;
        Ok(Look::So(()))
    }

    async fn apply(
        self,
        kind: Kind,
        key: ObjectKey,
        body: Value,
        is_defined: bool,
    ) -> Result<Look, KubeError> {
        let objects = kind.objects(&self, &key);
        let manager = manager();
        let patch = Patch::Apply(&body);
        let request = objects.patch_metadata(&key.name, &manager, &patch);
        match self.ask(format!("apply {key}"), request).await {
            // A definition is told before all of the API server has heard of it.
            Err(error) if is_defined && error.code() == Some(404) => Ok(not_served(&key.kind)),
            Err(error) => Err(error),
            Ok(_) => Ok(Look::So(())),
        }
    }

    /// Deletes what is still of the set, the last applied first. Gives those that are not gone yet.
    async fn remove_all(
        &self,
        (set, owner): (&str, &Owner),
        keys: BTreeSet<ObjectKey>,
        kinds: &mut Kinds,
    ) -> Result<Vec<ObjectKey>, KubeError> {
        let mut ending = Vec::new();
        for (_, keys) in by_rank(keys, |key| key).into_iter().rev() {
            let mut requests = Vec::new();
            for key in keys {
                match kinds.find(self, &key.api_version, &key.kind).await {
                    Ok(kind) => {
                        let of = (set.to_owned(), owner.clone());
                        requests.push(self.clone().remove(kind, key, of));
                    }
                    // With the definition of its kind, an object is gone too.
                    Err(KubeError::UnknownKind { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            for removed in side_by_side(requests).await {
                ending.extend(removed?);
            }
        }
        Ok(ending)
    }

    /// An object that may be deleted with the set, where it is there and still the set's.
    async fn own(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        (set, owner): &(String, Owner),
    ) -> Result<Option<PartialObjectMeta<DynamicObject>>, KubeError> {
        let objects = kind.objects(self, key);
        let found = self
            .ask(format!("read {key}"), objects.get_metadata_opt(&key.name))
            .await?;
        // Somebody may have made another one since, or another set or another cluster may have taken it over.
        let is_own = |labels: &BTreeMap<String, String>| {
            labels.get(SET_LABEL) == Some(set) && owner.other(labels).is_none()
        };
        Ok(found.filter(|found| is_own(found.labels())))
    }

    /// Gives the key back where the object is not gone yet.
    async fn remove(
        self,
        kind: Kind,
        key: ObjectKey,
        of: (String, Owner),
    ) -> Result<Option<ObjectKey>, KubeError> {
        let objects = kind.objects(&self, &key);
        let Some(found) = self.own(&kind, &key, &of).await? else {
            return Ok(None);
        };
        if found.metadata.deletion_timestamp.is_some() {
            return Ok(Some(key));
        }
        let parameters = DeleteParams::background().preconditions(Preconditions {
            uid: found.uid(),
            resource_version: None,
        });
        let request = objects.delete(&key.name, &parameters);
        match self.ask(format!("delete {key}"), request).await {
            Ok(answer) => Ok(answer.left().map(|_| key)),
            // Gone, or another object since.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Who applies objects of a set, whoever else holds their fields.
fn manager() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

fn not_served(kind: &str) -> Look {
    Look::not_yet(format!("the API server does not serve kind `{kind}` yet"))
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// In the order of their ranks, each rank once.
fn by_rank<T>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> &ObjectKey,
) -> BTreeMap<Rank, Vec<T>> {
    let mut ranks: BTreeMap<_, Vec<T>> = BTreeMap::new();
    for item in items {
        let ObjectKey {
            api_version, kind, ..
        } = key(&item);
        let rank = kinds::rank(api_version, kind);
        ranks.entry(rank).or_default().push(item);
    }
    ranks
}

/// The groups and kinds that the set's own definitions teach the API server.
fn defined(wanted: &[Wanted]) -> BTreeSet<(String, String)> {
    wanted
        .iter()
        .filter(|object| object.key.kind == "CustomResourceDefinition")
        .filter_map(|object| {
            let spec = object.body.get("spec")?;
            let group = spec.get("group")?.as_str()?;
            let kind = spec.get("names")?.get("kind")?.as_str()?;
            Some((group.into(), kind.into()))
        })
        .collect()
}

/// The objects with our labels on them; a list is taken for what is in it.
fn wanted(set: &str, objects: &[Value], owner: &Owner) -> Result<Vec<Wanted>, KubeError> {
    let mut wanted = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let lacks = |lacks: &'static str| KubeError::Object {
            set: set.into(),
            place: index + 1,
            lacks,
        };
        let items = match object.get("items").and_then(Value::as_array) {
            Some(items) if object.get("kind").and_then(Value::as_str) == Some("List") => {
                items.as_slice()
            }
            _ => std::slice::from_ref(object),
        };
        for item in items {
            wanted.push(labelled(item, set, owner).map_err(lacks)?);
        }
    }
    Ok(wanted)
}

fn labelled(object: &Value, set: &str, owner: &Owner) -> Result<Wanted, &'static str> {
    let mut body = object.clone();
    let text = |value: &Value, field: &str| value.get(field)?.as_str().map(str::to_owned);
    let api_version = text(&body, "apiVersion").ok_or("apiVersion")?;
    let kind = text(&body, "kind").ok_or("kind")?;
    let metadata = body.get_mut("metadata").ok_or("metadata")?;
    let name = text(metadata, "name").ok_or("metadata.name")?;
    let namespace = text(metadata, "namespace");
    let metadata = metadata.as_object_mut().ok_or("metadata")?;
    let labels = metadata
        .entry("labels")
        .or_insert_with(|| Value::Object(Map::new()));
    if labels.is_null() {
        *labels = Value::Object(Map::new());
    }
    let labels = labels.as_object_mut().ok_or("map of labels")?;
    labels.insert(SET_LABEL.into(), set.into());
    let own = owner
        .labels()
        .map(|(key, value)| (key.to_owned(), value.into()));
    labels.extend(own);
    Ok(Wanted {
        key: ObjectKey {
            api_version,
            kind,
            namespace,
            name,
        },
        body,
    })
}
