//! What a cluster is found to be: one look, all questions at once, then a pure mapping.

mod kubeadm;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{self as core, ConfigMap, Node, Pod};
use kube::api::ListParams;
use mullion_plan::{ClusterFacts, ClusterId, NodeFacts};
use mullion_spec::value::{Effect, MachineName, Taint};
use mullion_spec::version::Patch;
use mullion_wire::text::one_line;

use self::kubeadm::Kubeadm;
use crate::certificates::{self, SIGNER};
use crate::conditions;
use crate::error::KubeError;
use crate::keys::{APPROVED, CERTIFICATES_ANNOTATION, SET_ANNOTATION, SYSTEM};
use crate::nodes::{self, SetMarks};
use crate::owner::Owner;
use crate::record::{self, Record};
use crate::session::Session;

/// What was found of a cluster: the facts that are planned on, and what people want to see of its nodes besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// What is planned on.
    pub facts: ClusterFacts,
    /// More of each node, by its name.
    pub nodes: BTreeMap<String, NodeView>,
}

/// What people want to see of a node besides the facts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NodeView {
    /// Since when the cluster knows it.
    pub since: Option<Timestamp>,
    /// Its system, as it says itself: `Debian GNU/Linux 12 (bookworm)`.
    pub system: String,
    /// Its kernel.
    pub kernel: String,
    /// Its container runtime: `containerd://2.2.2`.
    pub runtime: String,
    /// Its kubelet: `v1.36.4`.
    pub kubelet: String,
    /// Its roles, as kubectl shows them: `control-plane`.
    pub roles: BTreeSet<String>,
    /// What it says of itself.
    pub conditions: Vec<Condition>,
}

/// One thing that a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Of what: `Ready`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs.
    pub reason: String,
    /// Words for people.
    pub words: String,
    /// Since when it is so.
    pub since: Option<Timestamp>,
}

/// The answers of the API server.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) version: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) requests: Vec<CertificateSigningRequest>,
    pub(crate) record: Option<ConfigMap>,
    pub(crate) kubeadm: Option<ConfigMap>,
    pub(crate) etcd: Vec<Pod>,
}

impl Session {
    /// Asks everything at once: the time it takes is that of the slowest answer.
    pub(crate) async fn answers(&self) -> Result<Answers, KubeError> {
        let client = self.client();
        let nodes = self.all::<Node>();
        let requests = self.all::<CertificateSigningRequest>();
        let settings = self.within::<ConfigMap>(SYSTEM);
        let pods = self.within::<Pod>(SYSTEM);
        let every = ListParams::default();
        let serving = certificates::serving_requests();
        let members = ListParams::default().labels("component=etcd,tier=control-plane");
        let (version, nodes, requests, record, kubeadm, etcd) = tokio::try_join!(
            self.ask("ask for the version", client.apiserver_version()),
            self.ask("list nodes", nodes.list(&every)),
            self.ask("list certificate requests", requests.list(&serving)),
            self.ask("read what was applied", settings.get_opt(record::NAME)),
            self.ask(
                "read kubeadm's settings",
                settings.get_opt("kubeadm-config")
            ),
            self.ask("list members of etcd", pods.list(&members)),
        )?;
        Ok(Answers {
            version: version.git_version,
            nodes: nodes.items,
            requests: requests.items,
            record,
            kubeadm,
            etcd: etcd.items,
        })
    }
}

/// The answers as facts.
pub(crate) fn view(
    answers: &Answers,
    id: ClusterId,
    server: &http::Uri,
    owner: &Owner,
) -> ClusterView {
    let kubeadm = Kubeadm::of(answers.kubeadm.as_ref());
    let record = Record::of(answers.record.as_ref(), owner);
    let waiting: Vec<&CertificateSigningRequest> = answers
        .requests
        .iter()
        .filter(|request| request.spec.signer_name == SIGNER && certificates::is_pending(request))
        .collect();
    let named = |node: &Node| conditions::name(node).to_owned();
    let server_endpoint = server.authority().map(ToString::to_string);
    let facts = ClusterFacts {
        id,
        answers: true,
        kubernetes: release(&answers.version),
        pods_per_node: kubeadm.pods_per_node(),
        feature_gates: kubeadm.feature_gates(),
        endpoint: kubeadm.control_plane_endpoint.or(server_endpoint),
        pods: first_network(kubeadm.networking.pod_subnet.as_deref()),
        services: first_network(kubeadm.networking.service_subnet.as_deref()),
        domain: kubeadm.networking.dns_domain,
        members: answers.etcd.iter().filter_map(member).collect(),
        // The API server does not know: whoever can log in to a control plane asks etcd itself.
        etcd: None,
        nodes: answers
            .nodes
            .iter()
            .map(|node| (named(node), node_facts(node, &waiting, owner)))
            .collect(),
        objects: record.fingerprints(),
        proven: record.proven,
    };
    let nodes = answers.nodes.iter();
    ClusterView {
        facts,
        nodes: nodes.map(|node| (named(node), node_view(node))).collect(),
    }
}

/// The release in a version that may have a tail: `v1.36.4+build`.
fn release(version: &str) -> Option<Patch> {
    version.split(['-', '+']).next()?.parse().ok()
}

/// The first network of a list that is of the wanted kind: clusters of two stacks have two.
fn first_network<N: std::str::FromStr>(list: Option<&str>) -> Option<N> {
    list?
        .split(',')
        .find_map(|network| network.trim().parse().ok())
}

/// The machine that a member of etcd runs on. A node whose name is no machine's is none of ours.
fn member(pod: &Pod) -> Option<MachineName> {
    pod.spec.as_ref()?.node_name.as_deref()?.parse().ok()
}

/// Whether a node sent a request, and not one of its name that is gone.
fn is_of(request: &CertificateSigningRequest, node: &Node) -> bool {
    let born = node.metadata.creation_timestamp.as_ref();
    certificates::asking_node(request) == Some(conditions::name(node))
        && certificates::is_since(request, born)
}

fn node_facts(node: &Node, waiting: &[&CertificateSigningRequest], owner: &Owner) -> NodeFacts {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let annotation = |key: &str| {
        let annotations = node.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    };
    let set = SetMarks::of(annotation(SET_ANNOTATION));
    let kubelet = node
        .status
        .as_ref()
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.kubelet_version.as_str());
    let was_approved = annotation(CERTIFICATES_ANNOTATION) == Some(APPROVED);
    NodeFacts {
        ours: owner.owns(&labels),
        without_id: owner.lacks_id(&labels),
        ready: conditions::ready(node).is_so(),
        kubernetes: kubelet.and_then(release),
        address: address(node),
        certificates: was_approved && !waiting.iter().any(|request| is_of(request, node)),
        network: conditions::network(node).is_so(),
        cordoned: nodes::is_drained(node),
        taints: taints(node).collect(),
        labels,
        set_labels: set.labels,
        set_taints: set.taints,
    }
}

/// The node's own address: the one that other nodes use.
fn address(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses
        .iter()
        .filter(|address| address.type_ == "InternalIP")
        .find_map(|address| address.address.parse().ok())
}

pub(crate) fn taints(node: &Node) -> impl Iterator<Item = Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints.unwrap_or_default().iter().filter_map(taint)
}

fn taint(taint: &core::Taint) -> Option<Taint> {
    let effect = match taint.effect.as_str() {
        "NoSchedule" => Effect::NoSchedule,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => return None,
    };
    Some(Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect,
    })
}

/// Whether kubeadm's own settings in a map can be read.
pub(crate) fn reads_kubeadm(map: &ConfigMap) -> bool {
    let read = Kubeadm::of(Some(map));
    let _ = (read.pods_per_node(), read.feature_gates());
    read.control_plane_endpoint.is_some()
}

pub(crate) fn node_view(node: &Node) -> NodeView {
    let info = node
        .status
        .as_ref()
        .and_then(|status| status.node_info.clone())
        .unwrap_or_default();
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let labels = node.metadata.labels.iter().flatten();
    NodeView {
        since: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
        system: plain(Some(&info.os_image)),
        kernel: plain(Some(&info.kernel_version)),
        runtime: plain(Some(&info.container_runtime_version)),
        kubelet: plain(Some(&info.kubelet_version)),
        roles: labels
            .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
            .map(str::to_owned)
            .collect(),
        conditions: conditions.iter().map(told).collect(),
    }
}

/// Words of a node, of which its kubelet chooses every letter.
fn plain(words: Option<&str>) -> String {
    one_line(words.unwrap_or_default()).into_owned()
}

fn told(condition: &core::NodeCondition) -> Condition {
    Condition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: plain(condition.reason.as_deref()),
        words: plain(condition.message.as_deref()),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    }
}

#[cfg(test)]
mod tests;
