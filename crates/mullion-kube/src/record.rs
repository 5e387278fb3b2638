//! What we applied and proved, written down in the cluster itself: one `ConfigMap`.
//!
//! Each set has a key of its own and is written by a field manager of its own, so that sets that are applied at the
//! same time do not meet, and one request makes, changes or takes away a key, whether the map is there or not.
//!
//! Several cluster files can use one existing cluster. Each set says the id of its cluster, and a cluster sees only its
//! own sets. Where another cluster has the key of a set already, the id is part of the key.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use mullion_plan::Fingerprint;
use mullion_spec::value::ClusterName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::KubeError;
use crate::keys::{CLUSTER_LABEL, MANAGER, SYSTEM};
use crate::owner::Owner;
use crate::session::Session;

/// The map's name.
pub(crate) const NAME: &str = "mullion-sets";

const SET_KEY: &str = "set.";
const PROOF_KEY: &str = "proven.";

/// One object, as it is found again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectKey {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(out, "{} {namespace}/{}", self.kind, self.name),
            None => write!(out, "{} {}", self.kind, self.name),
        }
    }
}

/// What is written down of one set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SetRecord {
    /// The id of the cluster that applied it. Older versions wrote none: then it counts as any cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// What it was applied with; nothing while it is being applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Every object that may be there because of it.
    #[serde(default)]
    pub(crate) objects: BTreeSet<ObjectKey>,
}

/// Everything that is written down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// The sets of this cluster.
    pub(crate) sets: BTreeMap<String, SetRecord>,
    /// The keys that they have in the map.
    keys: BTreeMap<String, String>,
    /// The sets whose usual key another cluster has.
    taken: BTreeSet<String>,
    pub(crate) proven: BTreeSet<String>,
}

impl Record {
    /// What the map says of a cluster. A value that cannot be read counts as a set that was begun.
    pub(crate) fn of(map: Option<&ConfigMap>, owner: &Owner) -> Self {
        let data = map.and_then(|map| map.data.as_ref());
        let mut record = Self::default();
        for (key, value) in data.into_iter().flatten() {
            if let Some(name) = key.strip_prefix(SET_KEY) {
                let read: SetRecord = serde_json::from_str(value).unwrap_or_default();
                let is_own = read.id.is_none() || read.id.as_deref() == owner.id();
                // `SET`, or `SET.ID` where another cluster came first.
                let id = read.id.as_deref();
                let beside = id.and_then(|id| name.strip_suffix(id)?.strip_suffix('.'));
                if is_own {
                    // The usual key sorts first: where a cluster has both, the other one counts.
                    let set = beside.unwrap_or(name).to_owned();
                    record.keys.insert(set.clone(), key.clone());
                    record.sets.insert(set, read);
                } else if beside.is_none() {
                    record.taken.insert(name.into());
                }
            } else if let Some(suite) = key.strip_prefix(PROOF_KEY) {
                record.proven.insert(suite.into());
            }
        }
        record
    }

    /// The key of a set of this cluster.
    pub(crate) fn key(&self, set: &str, owner: &Owner) -> String {
        if let Some(key) = self.keys.get(set) {
            return key.clone();
        }
        match owner.id() {
            Some(id) if self.taken.contains(set) => format!("{SET_KEY}{set}.{id}"),
            _ => format!("{SET_KEY}{set}"),
        }
    }

    /// The sets with what they were applied with. One that was begun has a fingerprint that no set has, so that it
    /// is planned again and can be removed.
    pub(crate) fn fingerprints(&self) -> BTreeMap<String, Fingerprint> {
        let unfinished = || Fingerprint::of(&"unfinished");
        self.sets
            .iter()
            .map(|(set, record)| {
                let fingerprint = record.fingerprint.clone();
                (set.clone(), fingerprint.unwrap_or_else(unfinished))
            })
            .collect()
    }
}

impl Session {
    /// Everything that is written down of a cluster.
    pub(crate) async fn record(&self, owner: &Owner) -> Result<Record, KubeError> {
        let maps = self.within::<ConfigMap>(SYSTEM);
        let map = self
            .ask("read what was applied", maps.get_opt(NAME))
            .await?;
        Ok(Record::of(map.as_ref(), owner))
    }

    /// Writes down a set at its key.
    pub(crate) async fn write_set(
        &self,
        key: &str,
        record: &SetRecord,
        owner: &Owner,
    ) -> Result<(), KubeError> {
        // Only numbers that JSON cannot hold and keys that are no text fail here, and there are none.
        let value = serde_json::to_string(record).unwrap_or_default();
        self.write_key(key, value, owner.cluster()).await
    }

    /// Writes down that a suite passed.
    pub(crate) async fn write_proof(
        &self,
        suite: &str,
        cluster: &ClusterName,
    ) -> Result<(), KubeError> {
        let when = self.clock().await?.to_string();
        self.write_key(&format!("{PROOF_KEY}{suite}"), when, cluster.as_str())
            .await
    }

    /// Takes away what is written down of a set at its key.
    pub(crate) async fn erase_set(&self, key: String) -> Result<(), KubeError> {
        self.erase(&[key]).await
    }

    /// Takes away everything that was proven.
    pub(crate) async fn erase_proofs(&self) -> Result<(), KubeError> {
        let proven = self.record(&Owner::default()).await?.proven;
        let keys: Vec<_> = proven
            .iter()
            .map(|suite| format!("{PROOF_KEY}{suite}"))
            .collect();
        self.erase(&keys).await
    }

    async fn write_key(&self, key: &str, value: String, cluster: &str) -> Result<(), KubeError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": NAME,
                "namespace": SYSTEM,
                "labels": { CLUSTER_LABEL: cluster },
            },
            "data": { key: value },
        });
        let manager = PatchParams::apply(&format!("{MANAGER}-{key}")).force();
        let maps = self.within::<ConfigMap>(SYSTEM);
        let patch = Patch::Apply(&body);
        self.ask(
            "write down what was applied",
            maps.patch_metadata(NAME, &manager, &patch),
        )
        .await
        .map(|_| ())
    }

    async fn erase(&self, keys: &[String]) -> Result<(), KubeError> {
        if keys.is_empty() {
            return Ok(());
        }
        let nothing: serde_json::Map<_, _> =
            keys.iter().map(|key| (key.clone(), Value::Null)).collect();
        let body = json!({ "data": nothing });
        let maps = self.within::<ConfigMap>(SYSTEM);
        let manager = PatchParams::default();
        let patch = Patch::Merge(&body);
        let erased = self
            .ask(
                "write down what was removed",
                maps.patch_metadata(NAME, &manager, &patch),
            )
            .await;
        match erased {
            Err(error) if error.code() == Some(404) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: u128) -> Owner {
        Owner::new(
            &"a".parse().unwrap(),
            Some(&mullion_plan::ClusterUid::of(id)),
        )
    }

    fn map_of(data: &Value) -> ConfigMap {
        serde_json::from_value(json!({ "data": data })).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let key = ObjectKey {
            api_version: "v1".into(),
            kind: "Namespace".into(),
            namespace: None,
            name: "kube-flannel".into(),
        };
        let record = SetRecord {
            id: owner(7).id().map(str::to_owned),
            fingerprint: Some(Fingerprint::of(&"a")),
            objects: [key].into(),
        };
        let text = serde_json::to_string(&record).unwrap();
        insta::assert_snapshot!(text, @r#"{"id":"00000000000000000000000000000007","fingerprint":"ac8d8342bbb2362d","objects":[{"apiVersion":"v1","kind":"Namespace","name":"kube-flannel"}]}"#);
        let map = map_of(&json!({"set.dns": text, "proven.smoke": "2026-11-15T09:00:00Z"}));
        let read = Record::of(Some(&map), &owner(7));
        assert_eq!(read.sets["dns"], record);
        assert!(read.proven.contains("smoke"));
        assert_eq!(read.fingerprints()["dns"], Fingerprint::of(&"a"));
    }

    #[test]
    fn a_set_that_was_only_begun_is_there_and_equals_no_wish() {
        for value in ["{}", "not json"] {
            let read = Record::of(Some(&map_of(&json!({"set.dns": value}))), &owner(7));
            assert_eq!(read.fingerprints()["dns"], Fingerprint::of(&"unfinished"));
        }
        assert_eq!(Record::of(None, &owner(7)), Record::default());
    }

    #[test]
    fn promise_09_a_cluster_sees_its_own_sets_and_those_of_older_versions() {
        let text = |id: Option<u128>, what: &str| {
            let record = SetRecord {
                id: id.and_then(|id| owner(id).id().map(str::to_owned)),
                fingerprint: Some(Fingerprint::of(&what)),
                objects: BTreeSet::new(),
            };
            serde_json::to_string(&record).unwrap()
        };
        let beside = format!("set.dns.{}", owner(2).id().unwrap());
        let map = map_of(&json!({
            "set.dns": text(Some(1), "first"),
            "set.older": text(None, "older"),
            "set.other": text(Some(1), "other"),
            beside.as_str(): text(Some(2), "second"),
        }));
        let of = |owner: &Owner| {
            let record = Record::of(Some(&map), owner);
            (record.fingerprints(), record.key("dns", owner))
        };
        let expected = |sets: &[(&str, &str)]| -> BTreeMap<String, Fingerprint> {
            let sets = sets.iter();
            sets.map(|(set, what)| ((*set).into(), Fingerprint::of(what)))
                .collect()
        };
        let (sets, key) = of(&owner(1));
        let first = [("dns", "first"), ("older", "older"), ("other", "other")];
        assert_eq!(sets, expected(&first));
        assert_eq!(key, "set.dns");
        let (sets, key) = of(&owner(2));
        assert_eq!(sets, expected(&[("dns", "second"), ("older", "older")]));
        assert_eq!(key, beside);
        // The key stays when the cluster that came first is gone.
        let alone = Record::of(
            Some(&map_of(
                &json!({ beside.as_str(): text(Some(2), "second") }),
            )),
            &owner(2),
        );
        assert_eq!(alone.key("dns", &owner(2)), beside);
        // One without an id yet, and a third one.
        for owner in [Owner::new(&"a".parse().unwrap(), None), owner(3)] {
            assert_eq!(of(&owner).0, expected(&[("older", "older")]));
        }
    }
}
