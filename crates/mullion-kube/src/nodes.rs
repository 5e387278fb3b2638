//! Nodes: labels, taints, and whether they take pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use mullion_spec::value::{Effect, Taint};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::KubeError;
use crate::facts;
use crate::keys::{CERTIFICATES_ANNOTATION, DRAINED_ANNOTATION, SET_ANNOTATION};
use crate::look::Look;
use crate::owner::Owner;
use crate::session::Session;
use crate::{conditions, keys};

/// How often a change is made again, at once, after a node was changed by others meanwhile: kubelets and
/// controllers write to new nodes many times a second.
const ATTEMPTS: usize = 5;

/// What a node should carry.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    /// The labels it should have.
    pub labels: &'a BTreeMap<String, String>,
    /// The taints it should have.
    pub taints: &'a BTreeSet<Taint>,
    /// Labels of ours that it should not have any more.
    pub drop_labels: &'a BTreeSet<String>,
    /// Taints of ours that it should not have any more.
    pub drop_taints: &'a BTreeSet<Taint>,
}

/// The labels and taints that we set on a node, written on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SetMarks {
    pub(crate) labels: BTreeSet<String>,
    pub(crate) taints: BTreeSet<Taint>,
}

impl SetMarks {
    /// Out of the annotation; what cannot be read counts as nothing, so that nothing of others is taken away.
    pub(crate) fn of(annotation: Option<&str>) -> Self {
        annotation
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }
}

impl Session {
    pub(crate) async fn find_node(&self, name: &str) -> Result<Option<Node>, KubeError> {
        let nodes = self.all::<Node>();
        self.ask(format!("read node {name}"), nodes.get_opt(name))
            .await
    }

    pub(crate) async fn look_at_node(
        &self,
        name: &str,
        condition: impl Fn(&Node) -> Look + Send,
    ) -> Result<Look, KubeError> {
        Ok(match self.find_node(name).await? {
            Some(node) => condition(&node),
            None => unknown(name),
        })
    }

    /// The same of a node that the run has marked before: one that is not there was deleted, and waiting is no use.
    pub(crate) async fn look_at_marked_node(
        &self,
        name: &str,
        condition: impl Fn(&Node) -> Look + Send,
    ) -> Result<Look, KubeError> {
        match self.find_node(name).await? {
            Some(node) => Ok(condition(&node)),
            None => Err(KubeError::NodeGone { node: name.into() }),
        }
    }

    pub(crate) async fn mark(
        &self,
        name: &str,
        marks: &Marks<'_>,
        owner: &Owner,
    ) -> Result<Look, KubeError> {
        let doing = format!("set labels and taints of node {name}");
        let lacks = |node: &Node| marking(node, marks, owner);
        self.change_where(name, &doing, lacks).await
    }

    /// Adds labels and taints that are not there, and nothing else.
    pub(crate) async fn give_role(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
    ) -> Result<Look, KubeError> {
        let doing = format!("give node {name} the labels and taints of its role");
        let lacks = |node: &Node| Ok(role(node, labels, taints));
        self.change_where(name, &doing, lacks).await
    }

    /// Gives a node what it lacks, and looks again where somebody else changed it meanwhile.
    async fn change_where(
        &self,
        name: &str,
        doing: &str,
        lacks: impl Fn(&Node) -> Result<Option<Value>, KubeError> + Send,
    ) -> Result<Look, KubeError> {
        let mut attempt = 1;
        loop {
            let Some(node) = self.find_node(name).await? else {
                return Ok(unknown(name));
            };
            let Some(change) = lacks(&node)? else {
                return Ok(Look::So(()));
            };
            match self.change_node(name, doing.to_owned(), &change).await {
                Err(KubeError::Conflict { .. }) if attempt < ATTEMPTS => attempt += 1,
                Err(error) if error.code() == Some(404) => return Ok(unknown(name)),
                Err(error) => return Err(error),
                Ok(()) => return Ok(Look::So(())),
            }
        }
    }

    /// Keeps new pods away, and writes down that it was us.
    pub(crate) async fn cordon(&self, name: &str) -> Result<(), KubeError> {
        let change = json!({
            "metadata": { "annotations": { DRAINED_ANNOTATION: "true" } },
            "spec": { "unschedulable": true },
        });
        self.change_node(name, format!("cordon node {name}"), &change)
            .await
    }

    /// Writes on the node that its certificate was approved.
    pub(crate) async fn note_certificates(&self, name: &str) -> Result<Look, KubeError> {
        let change =
            json!({ "metadata": { "annotations": { CERTIFICATES_ANNOTATION: keys::APPROVED } } });
        let doing = format!("write down the certificates of node {name}");
        match self.change_node(name, doing, &change).await {
            Err(error) if error.code() == Some(404) => Ok(unknown(name)),
            other => other.map(Look::So),
        }
    }

    pub(crate) async fn forget(&self, name: &str) -> Result<(), KubeError> {
        let nodes = self.all::<Node>();
        let parameters = DeleteParams::default();
        let request = nodes.delete(name, &parameters);
        match self.ask(format!("delete node {name}"), request).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn change_node(
        &self,
        name: &str,
        doing: String,
        change: &Value,
    ) -> Result<(), KubeError> {
        let nodes = self.all::<Node>();
        let manager = PatchParams {
            field_manager: Some(keys::MANAGER.into()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(change);
        let request = nodes.patch_metadata(name, &manager, &patch);
        self.ask(doing, request).await.map(|_| ())
    }
}

/// The label that a kubelet gives to its node when it registers it. A kubelet that runs already gives others to any node
/// of its name, but not this one.
const REGISTERED: &str = "kubernetes.io/hostname";

/// Whether a kubelet has registered the node.
pub(crate) fn registered(node: &Node) -> Look {
    if node.labels().contains_key(REGISTERED) {
        Look::So(())
    } else {
        let name = conditions::name(node);
        Look::not_yet(format!("the kubelet of {name} has not registered it"))
    }
}

/// Whether a kubelet has said what the node has to give to pods.
pub(crate) fn has_resources(node: &Node) -> Look {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    if allocatable.is_some_and(|resources| !resources.is_empty()) {
        Look::So(())
    } else {
        let name = conditions::name(node);
        Look::not_yet(format!("node {name} has no resources yet"))
    }
}

/// The change that gives a node the labels and taints that it lacks; `None` where it lacks none.
fn role(node: &Node, labels: &BTreeMap<String, String>, taints: &BTreeSet<Taint>) -> Option<Value> {
    let has = node.labels();
    let lacks = labels
        .iter()
        .filter(|(key, value)| has.get(*key) != Some(value));
    let lacks: Map<String, Value> = lacks
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let nothing = (BTreeMap::new(), BTreeSet::new());
    // As when it is marked, save that nothing goes: a taint that nobody wants is the next step's matter.
    let known: BTreeSet<_> = facts::taints(node).collect();
    let kubeadm = control_plane_taint();
    let mut wanted = taints.clone();
    wanted.extend(known.contains(&kubeadm).then_some(kubeadm));
    let marks = Marks {
        labels: &nothing.0,
        taints: &wanted,
        drop_labels: &nothing.1,
        drop_taints: &BTreeSet::new(),
    };
    let taints = self::taints(node, &marks);
    if lacks.is_empty() && taints.is_none() {
        return None;
    }
    let mut change = json!({ "metadata": { "labels": lacks } });
    if let Some(taints) = taints {
        change["spec"]["taints"] = taints;
        change["metadata"]["resourceVersion"] = node.metadata.resource_version.clone().into();
    }
    Some(change)
}

pub(crate) fn unknown<T>(name: &str) -> Look<T> {
    Look::not_yet(format!("the cluster knows no node {name} yet"))
}

/// The change that makes a node carry its marks and take pods; `None` where it is so already.
fn marking(node: &Node, marks: &Marks<'_>, owner: &Owner) -> Result<Option<Value>, KubeError> {
    let name = conditions::name(node);
    let has = node.metadata.labels.clone().unwrap_or_default();
    if let Some(other) = owner.other(&has) {
        return Err(KubeError::NotOurs {
            what: format!("node {name}"),
            owner: other,
        });
    }
    let mut labels = Map::new();
    for key in marks
        .drop_labels
        .iter()
        .filter(|key| has.contains_key(*key))
    {
        labels.insert(key.clone(), Value::Null);
    }
    let wanted = marks.labels.iter();
    let wanted = wanted.map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in wanted.chain(owner.labels()) {
        labels.remove(key);
        if has.get(key).map(String::as_str) != Some(value) {
            labels.insert(key.into(), value.into());
        }
    }
    let set = SetMarks {
        labels: marks.labels.keys().cloned().collect(),
        taints: marks.taints.clone(),
    };
    let annotations = node.metadata.annotations.as_ref();
    let noted = annotations.and_then(|map| map.get(SET_ANNOTATION));
    let is_noted = noted.is_some() && SetMarks::of(noted.map(String::as_str)) == set;
    let taints = taints(node, marks);
    let is_drained = is_drained(node);
    if labels.is_empty() && is_noted && taints.is_none() && !is_drained {
        return Ok(None);
    }
    let text = serde_json::to_string(&set).unwrap_or_default();
    let mut change = json!({
        "metadata": { "annotations": { SET_ANNOTATION: text }, "labels": labels },
        "spec": {},
    });
    if is_drained {
        change["metadata"]["annotations"][DRAINED_ANNOTATION] = Value::Null;
        change["spec"]["unschedulable"] = Value::Null;
    }
    if let Some(taints) = taints {
        // A list is replaced as a whole, so nobody may have changed it meanwhile.
        change["spec"]["taints"] = taints;
        change["metadata"]["resourceVersion"] = node.metadata.resource_version.clone().into();
    }
    Ok(Some(change))
}

/// Whether a node bears our note that we drained it. Where somebody lets pods in again, the note must go as well: who
/// cordoned it later would be taken for us.
pub(crate) fn is_drained(node: &Node) -> bool {
    node.annotations().contains_key(DRAINED_ANNOTATION)
}

/// The node's taints as they should be; `None` where they are so. Those of others stay as they are, with their
/// times.
fn taints(node: &Node, marks: &Marks<'_>) -> Option<Value> {
    let spec = node.spec.as_ref();
    let has = spec
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    let known: BTreeSet<_> = facts::taints(node).collect();
    let kubeadm = control_plane_taint();
    let is_dropped = |taint: &Taint| {
        // A node that was unknown when planning may have kubeadm's own taint.
        (marks.drop_taints.contains(taint) || *taint == kubeadm) && !marks.taints.contains(taint)
    };
    if marks.taints.is_subset(&known) && !known.iter().any(is_dropped) {
        return None;
    }
    let stay = has.iter().filter(|taint| {
        // A key has one taint an effect: a wanted one takes the place of one with another value.
        let is_replaced = marks.taints.iter().any(|wanted| {
            wanted.key == taint.key && format!("{:?}", wanted.effect) == taint.effect
        });
        let is_dropped = known.iter().filter(|known| is_dropped(known)).any(|known| {
            known.key == taint.key
                && format!("{:?}", known.effect) == taint.effect
                && known.value == taint.value.as_deref().unwrap_or_default()
        });
        !is_replaced && !is_dropped
    });
    let stay = stay.filter_map(|taint| serde_json::to_value(taint).ok());
    let wanted = marks.taints.iter().map(|taint| {
        let mut body = json!({ "key": taint.key, "effect": format!("{:?}", taint.effect) });
        if !taint.value.is_empty() {
            body["value"] = taint.value.clone().into();
        }
        body
    });
    Some(stay.chain(wanted).collect())
}

/// The taint that kubeadm gives to control planes.
fn control_plane_taint() -> Taint {
    Taint {
        key: "node-role.kubernetes.io/control-plane".into(),
        value: String::new(),
        effect: Effect::NoSchedule,
    }
}

#[cfg(test)]
mod tests;
