//! Whose a node or an object is, by its labels.

use std::collections::BTreeMap;

use mullion_plan::ClusterUid;
use mullion_spec::value::ClusterName;

use crate::keys::{CLUSTER_LABEL, ID_LABEL};

/// A cluster file's own cluster. Several can have nodes and objects in one existing cluster, also two of one name: the id
/// tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    cluster: String,
    id: Option<String>,
}

impl Owner {
    /// The cluster of that name, with its id where it has one already.
    pub fn new(cluster: &ClusterName, id: Option<&ClusterUid>) -> Self {
        Self {
            cluster: cluster.to_string(),
            id: id.map(ToString::to_string),
        }
    }

    /// Its name.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Its id, where it has one already.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The labels that say so.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let id = self.id.as_deref().map(|id| (ID_LABEL, id));
        std::iter::once((CLUSTER_LABEL, self.cluster.as_str())).chain(id)
    }

    /// Who else a node or an object with these labels belongs to, in words; none where it is this cluster's or no cluster's.
    pub(crate) fn other(&self, labels: &BTreeMap<String, String>) -> Option<String> {
        let cluster = labels.get(CLUSTER_LABEL)?;
        if *cluster != self.cluster {
            return Some(cluster.clone());
        }
        // Older versions wrote no id: then the name decides.
        let id = labels.get(ID_LABEL)?;
        (self.id.as_ref() != Some(id)).then(|| format!("{cluster} with the id {id}"))
    }

    /// Whether these labels name this cluster and no id beside the name.
    pub(crate) fn lacks_id(&self, labels: &BTreeMap<String, String>) -> bool {
        self.owns(labels) && !labels.contains_key(ID_LABEL)
    }

    /// Whether a node with these labels is this cluster's.
    pub(crate) fn owns(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.contains_key(CLUSTER_LABEL) && self.other(labels).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_09_labels_of_an_older_version_lack_the_id() {
        let owner = |id: Option<&str>| Owner {
            cluster: "demo".into(),
            id: id.map(str::to_owned),
        };
        let labels = |all: &[(&str, &str)]| -> BTreeMap<_, _> {
            let all = all.iter();
            all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let older = labels(&[(CLUSTER_LABEL, "demo")]);
        assert!(owner(Some("a")).owns(&older) && owner(Some("a")).lacks_id(&older));
        // A cluster gets its id when it first marks something: until then another one of the name may be meant, too.
        assert!(owner(None).lacks_id(&older));
        let newer = labels(&[(CLUSTER_LABEL, "demo"), (ID_LABEL, "a")]);
        assert!(owner(Some("a")).owns(&newer) && !owner(Some("a")).lacks_id(&newer));
        assert!(!owner(Some("b")).owns(&newer));
        let others = labels(&[(CLUSTER_LABEL, "other")]);
        assert!(!owner(Some("a")).lacks_id(&others));
    }
}
