//! What we applied and proved, written down in the cluster itself: one `ConfigMap`.
//!
//! Each set has a key of its own and is written by a field manager of its own, so that sets that are applied at the
//! same time do not meet, and one request makes, changes or takes away a key, whether the map is there or not.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use mullion_plan::Fingerprint;
use mullion_spec::value::ClusterName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::KubeError;
use crate::keys::{CLUSTER_LABEL, MANAGER, SYSTEM};
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
    pub(crate) sets: BTreeMap<String, SetRecord>,
    pub(crate) proven: BTreeSet<String>,
}

impl Record {
    /// What stands in the map. A value that cannot be read counts as a set that was begun.
    pub(crate) fn of(map: Option<&ConfigMap>) -> Self {
        let data = map.and_then(|map| map.data.as_ref());
        let mut record = Self::default();
        for (key, value) in data.into_iter().flatten() {
            if let Some(set) = key.strip_prefix(SET_KEY) {
                let read = serde_json::from_str(value).unwrap_or_default();
                record.sets.insert(set.into(), read);
            } else if let Some(suite) = key.strip_prefix(PROOF_KEY) {
                record.proven.insert(suite.into());
            }
        }
        record
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
    /// Everything that is written down.
    pub(crate) async fn record(&self) -> Result<Record, KubeError> {
        let maps = self.within::<ConfigMap>(SYSTEM);
        let map = self
            .ask("read what was applied", maps.get_opt(NAME))
            .await?;
        Ok(Record::of(map.as_ref()))
    }

    /// Writes down a set.
    pub(crate) async fn write_set(
        &self,
        set: &str,
        record: &SetRecord,
        cluster: &ClusterName,
    ) -> Result<(), KubeError> {
        // Only numbers that JSON cannot hold and keys that are no text fail here, and there are none.
        let value = serde_json::to_string(record).unwrap_or_default();
        self.write_key(&format!("{SET_KEY}{set}"), value, cluster)
            .await
    }

    /// Writes down that a suite passed.
    pub(crate) async fn write_proof(
        &self,
        suite: &str,
        cluster: &ClusterName,
    ) -> Result<(), KubeError> {
        let when = self.clock().await?.to_string();
        self.write_key(&format!("{PROOF_KEY}{suite}"), when, cluster)
            .await
    }

    /// Takes away what is written down of a set.
    pub(crate) async fn erase_set(&self, set: &str) -> Result<(), KubeError> {
        self.erase(&[format!("{SET_KEY}{set}")]).await
    }

    /// Takes away everything that was proven.
    pub(crate) async fn erase_proofs(&self) -> Result<(), KubeError> {
        let proven = self.record().await?.proven;
        let keys: Vec<_> = proven
            .iter()
            .map(|suite| format!("{PROOF_KEY}{suite}"))
            .collect();
        self.erase(&keys).await
    }

    async fn write_key(
        &self,
        key: &str,
        value: String,
        cluster: &ClusterName,
    ) -> Result<(), KubeError> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": NAME,
                "namespace": SYSTEM,
                "labels": { CLUSTER_LABEL: cluster.as_str() },
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

    fn map(data: &Value) -> ConfigMap {
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
            fingerprint: Some(Fingerprint::of(&"a")),
            objects: [key].into(),
        };
        let text = serde_json::to_string(&record).unwrap();
        insta::assert_snapshot!(text, @r#"{"fingerprint":"ac8d8342bbb2362d","objects":[{"apiVersion":"v1","kind":"Namespace","name":"kube-flannel"}]}"#);
        let read = Record::of(Some(&map(
            &json!({"set.dns": text, "proven.smoke": "2026-11-15T09:00:00Z"}),
        )));
        assert_eq!(read.sets["dns"], record);
        assert!(read.proven.contains("smoke"));
        assert_eq!(read.fingerprints()["dns"], Fingerprint::of(&"a"));
    }

    #[test]
    fn a_set_that_was_only_begun_is_there_and_equals_no_wish() {
        for value in ["{}", "not json"] {
            let read = Record::of(Some(&map(&json!({"set.dns": value}))));
            assert_eq!(read.fingerprints()["dns"], Fingerprint::of(&"unfinished"));
        }
        assert_eq!(Record::of(None), Record::default());
    }
}
