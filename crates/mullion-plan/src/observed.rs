//! What was found: the facts that planning compares with the wish.
//!
//! Facts are plain data that can be written down and read again, so that a plan can be explained or
//! repeated later. What nobody could look at is `None`, never a made-up "absent": the planner treats
//! the unknown with steps that do nothing where nothing is needed. It removes an unseen machine only when
//! the file no longer has it and no silent cluster may need it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use mullion_render::Ground;
use mullion_spec::cluster;
use mullion_spec::value::{ByteSize, HostName, LabelError, MachineName, Taint};
use mullion_spec::version::Patch;
use mullion_spec::words::{Driver, MachineAccess};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::applied::Applied;
use crate::certificates::CertificateFacts;
use crate::etcd::EtcdFacts;
use crate::fingerprint::Fingerprint;
use crate::identity::Trouble;
use crate::wanted::{Part, TemplateId};

/// The form in which facts are written down.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum FactsVersion {
    /// The first.
    #[default]
    #[serde(rename = "mullion.dev/facts/v1")]
    V1,
}

/// Everything that was found of one cluster. The default is the empty world.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// The form of this document.
    pub version: FactsVersion,
    /// Programs and images in the cache.
    #[serde(default)]
    pub artifacts: BTreeSet<Part>,
    /// Finished templates.
    #[serde(default)]
    pub templates: BTreeSet<TemplateId>,
    /// The computers that carry machines, this one among them.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, HostFacts>")]
    pub hosts: BTreeMap<Place, HostFacts>,
    /// Machines of this cluster, and machines of others that have a wanted name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, MachineFacts>")]
    pub machines: BTreeMap<MachineName, MachineFacts>,
    /// What machines stood on when they told last: those of them that do not answer now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Ground>")]
    pub grounds: BTreeMap<MachineName, Ground>,
    /// The cluster, once a control plane was initialised.
    #[serde(default)]
    pub cluster: Option<ClusterFacts>,
}

/// A computer that carries machines: this one, or one of the file's hosts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// This computer.
    #[default]
    Here,
    /// A host out of the file.
    On(HostName),
}

/// How [`Place::Here`] is written: no host of the file can have this name.
const HERE: &str = "@local";

impl TryFrom<String> for Place {
    type Error = LabelError;
    fn try_from(text: String) -> Result<Self, LabelError> {
        if text == HERE {
            Ok(Self::Here)
        } else {
            text.parse().map(Self::On)
        }
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        match place {
            Place::Here => HERE.into(),
            Place::On(host) => host.into(),
        }
    }
}

impl From<Option<&HostName>> for Place {
    fn from(host: Option<&HostName>) -> Self {
        host.cloned().map_or(Self::Here, Self::On)
    }
}

impl Display for Place {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => out.pad("this computer"),
            Self::On(host) => host.fmt(out),
        }
    }
}

impl Place {
    /// Its text in step names and documents.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Here => HERE,
            Self::On(host) => host.as_str(),
        }
    }
}

/// What was found on a computer that carries machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostFacts {
    /// The machine network that carries this cluster's label.
    #[schemars(with = "Option<String>")]
    pub network: Option<Ipv4Net>,
    /// What of that network is missing, in words: a run that was cut off made a part of it, or somebody took a part
    /// away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_lacks: Option<String>,
    /// From where its machines can be reached; `None` where the firewall cannot be read or is not the driver's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_access: Option<MachineAccess>,
    /// Networks in use there that are not this cluster's.
    #[serde(default)]
    #[schemars(with = "BTreeSet<String>")]
    pub foreign: BTreeSet<IpNet>,
    /// What machines stand on that a driver makes there, by the driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Ground>")]
    pub grounds: BTreeMap<Driver, Ground>,
    /// Why the machine network of this cluster's name must be left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

impl HostFacts {
    /// Whether anything of a machine network with this cluster's label is there.
    pub fn has_network(&self) -> bool {
        self.network.is_some() || self.network_lacks.is_some()
    }
}

/// Whether a machine runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// It runs.
    #[default]
    On,
    /// It does not.
    Off,
    /// It was made and never ran: inside is what its template holds and nothing else.
    New,
}

/// How large a machine was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Size {
    /// Virtual processors.
    pub cpus: u32,
    /// Memory.
    #[schemars(with = "String")]
    pub memory: ByteSize,
    /// Disk.
    #[schemars(with = "String")]
    pub disk: ByteSize,
}

impl From<cluster::Size> for Size {
    fn from(size: cluster::Size) -> Self {
        Self {
            cpus: size.cpus,
            memory: size.memory,
            disk: size.disk,
        }
    }
}

impl Display for Size {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let plural = if self.cpus == 1 { "" } else { "s" };
        write!(
            out,
            "{} cpu{plural}, {} memory, {} disk",
            self.cpus, self.memory, self.disk
        )
    }
}

/// What was found of one machine, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineFacts {
    /// Whether it carries this cluster's label.
    pub ours: bool,
    /// Whether we made it, so that we may remove it.
    pub made: bool,
    /// Whether its making was finished.
    pub whole: bool,
    /// The driver that found it.
    pub driver: Driver,
    /// The computer that carries it.
    #[schemars(with = "String")]
    pub place: Place,
    /// Whether it runs.
    pub power: Power,
    /// How large it was made; unknown for a machine that exists already.
    #[serde(default)]
    pub size: Option<Size>,
    /// The template it was made from.
    #[serde(default)]
    pub template: Option<TemplateId>,
    /// Its address.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// What was found inside; `None` when nobody could log in.
    #[serde(default)]
    pub inside: Option<Inside>,
    /// What it stands on, as it told; `None` for Windows, or where nobody could ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Ground>,
    /// Its addresses, a line each such as `eth0 192.0.2.11/24`, where the file chooses one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether it starts when its host starts; `None` where the host starts no machines by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autostart: Option<bool>,
    /// The cluster of another name that claims it, where it exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Why it must be left as it is: neither made, changed nor removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

/// What was found inside a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inside {
    /// The agent's version.
    #[serde(default)]
    pub agent: Option<String>,
    /// Windows features that are installed.
    #[serde(default)]
    pub features: BTreeSet<String>,
    /// Whether the system waits for a reboot.
    #[serde(default)]
    pub reboot_pending: bool,
    /// Whether it is the system alone that waits for it: nothing that was changed for the cluster does.
    #[serde(default)]
    pub reboot_of_system: bool,
    /// What waits for its next start and is no reason to start a node anew, for people.
    #[serde(default)]
    pub next_start: Option<String>,
    /// The blueprint that was applied, wholly.
    #[serde(default)]
    pub blueprint: Option<Applied>,
    /// The user's commands that were run before Kubernetes.
    #[serde(default)]
    pub before: BTreeSet<Fingerprint>,
    /// The user's commands that were run after the node was ready.
    #[serde(default)]
    pub after: BTreeSet<Fingerprint>,
    /// The cluster that its kubelet belongs to.
    #[serde(default)]
    pub joined: Option<ClusterId>,
    /// Whether a control plane was begun on it.
    #[serde(default)]
    pub control_plane: bool,
    /// How Kubernetes came onto it; `None` where there is none, or nobody tells.
    #[serde(default)]
    pub kubeadm: Option<Kubeadm>,
    /// Why its kubelet is let in nowhere any more, for people.
    #[serde(default)]
    pub expired: Option<String>,
    /// The name of its node, as its kubelet's certificate has it; `None` where the agent does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Until when the certificates of its control plane are good; `None` where it has none, or its agent does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificateFacts>,
    /// What is no longer as its blueprint said, for people.
    #[serde(default)]
    pub drift: Vec<String>,
}

impl Inside {
    /// Whether something of a cluster is on it, a join that was cut off included.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.joined.is_some() || self.control_plane || self.kubeadm == Some(Kubeadm::Begun)
    }

    /// Why the certificates of its control plane are to be renewed now.
    pub fn renewal(&self) -> Option<&str> {
        self.certificates.as_ref()?.due.as_deref()
    }

    /// Whether it holds the whole of a control plane and lost what makes it a node: what is in its etcd is in nobody
    /// else's, perhaps. Where the agent's records are lost too, it looks like one that somebody else made.
    pub fn is_damaged(&self) -> bool {
        self.control_plane
            && matches!(self.kubeadm, Some(Kubeadm::Finished | Kubeadm::Foreign))
            && (self.joined.is_none() || self.expired.is_some())
    }
}

/// How Kubernetes came onto a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kubeadm {
    /// By our agent, which was cut off.
    Begun,
    /// By our agent.
    Finished,
    /// By somebody else.
    Foreign,
}

/// Tells one cluster from another of the same name: the digest of its certificate authority.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ClusterId(pub String);

/// What was found of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFacts {
    /// Which one it is.
    pub id: ClusterId,
    /// Whether the API server answered. If not, nodes and objects are not known.
    pub answers: bool,
    /// The Kubernetes that its control plane runs.
    #[schemars(with = "Option<String>")]
    pub kubernetes: Option<Patch>,
    /// Where its clients reach it.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Addresses of pods.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub pods: Option<Ipv4Net>,
    /// Addresses of services.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub services: Option<Ipv4Net>,
    /// The prefix length of one node's share of the pods' addresses.
    #[serde(default)]
    pub pods_per_node: Option<u8>,
    /// The domain of its services' names.
    #[serde(default)]
    pub domain: Option<String>,
    /// The feature gates that its API server was given; empty where it was given none.
    #[serde(default)]
    pub feature_gates: Option<BTreeMap<String, bool>>,
    /// Members of etcd, as any of them tells; known also while the API server is silent.
    #[serde(default)]
    #[schemars(with = "BTreeSet<String>")]
    pub members: BTreeSet<MachineName>,
    /// What etcd itself says of its members; `None` where it could not be asked. Then no control plane is emptied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdFacts>,
    /// Its nodes by name, those of others among them.
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Sets of objects that carry our label, each with the fingerprint of what was applied.
    #[serde(default)]
    pub objects: BTreeMap<String, Fingerprint>,
    /// Suites that passed since the last change.
    #[serde(default)]
    pub proven: BTreeSet<String>,
}

/// What was found of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own: every combination is found"
)]
pub struct NodeFacts {
    /// Whether it carries this cluster's label.
    pub ours: bool,
    /// Whether it carries this cluster's name without an id, as older versions wrote it: another cluster of the same name
    /// may have written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_id: bool,
    /// Whether it is Ready.
    pub ready: bool,
    /// The kubelet's version.
    #[schemars(with = "Option<String>")]
    pub kubernetes: Option<Patch>,
    /// Its address.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Whether its certificates were approved.
    pub certificates: bool,
    /// Whether its own network is up.
    pub network: bool,
    /// Whether it bears the note that new pods are kept away for its removal.
    pub cordoned: bool,
    /// All its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// All its taints.
    #[serde(default)]
    #[schemars(with = "BTreeSet<String>")]
    pub taints: BTreeSet<Taint>,
    /// Keys of the labels that an earlier run set.
    #[serde(default)]
    pub set_labels: BTreeSet<String>,
    /// The taints that an earlier run set.
    #[serde(default)]
    #[schemars(with = "BTreeSet<String>")]
    pub set_taints: BTreeSet<Taint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_world_is_the_default_and_survives_being_written_down() {
        let empty = Observed::default();
        let text = serde_json::to_string(&empty).unwrap();
        assert_eq!(serde_json::from_str::<Observed>(&text).unwrap(), empty);
        let least = r#"{"version":"mullion.dev/facts/v1"}"#;
        assert_eq!(serde_json::from_str::<Observed>(least).unwrap(), empty);
    }

    #[test]
    fn facts_of_a_form_we_do_not_know_are_refused() {
        let newer = r#"{"version":"mullion.dev/facts/v2"}"#;
        assert!(serde_json::from_str::<Observed>(newer).is_err());
    }

    #[test]
    fn this_computer_is_never_mistaken_for_a_host_of_the_file() {
        assert!(HERE.parse::<HostName>().is_err());
        for place in [Place::Here, Place::On("local".parse().unwrap())] {
            let text = String::from(place.clone());
            assert_eq!(Place::try_from(text), Ok(place));
        }
    }
}
