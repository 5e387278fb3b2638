//! The resolved wish, and what follows from it alone: parts, templates, blueprints, object sets.
//!
//! Nothing here looks at what was found. Fingerprints are made so that a machine's own does not change
//! when another machine comes or goes; the load balancer's does when a control plane does, since the
//! control planes are its settings.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use mullion_catalog::Catalog;
use mullion_spec::cluster::{Carrier, Cluster, Command, Duty, Group, Origin, System};
use mullion_spec::value::{GroupName, MachineName, Taint};
use mullion_spec::version::Patch;
use mullion_spec::words::{Admission, Cni, Os};
use mullion_wire::text::visible;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fingerprint::{Blueprint, Fingerprint, Topics};

/// What planning works on: the checked file, with the catalog's answers.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The file.
    pub cluster: &'a Cluster,
    /// The exact Kubernetes that the file's wish comes to.
    pub kubernetes: Patch,
    /// Every program, image and archive that the cluster's machines need.
    pub parts: Vec<Part>,
    /// What the rendered documents come to, contents of the user's files included: a change that no other topic
    /// names is seen by these.
    pub documents: Documents,
}

/// The topic of a blueprint that holds the names of patches for kubeadm.
pub(crate) const PATCHES: &str = "kubeadm patches";

/// The topic that holds the machine's operating system, with its settings.
pub(crate) const SYSTEM: &str = "system";

/// The topic that holds how a node's address is chosen.
pub(crate) const NODE_ADDRESS: &str = "node address";

/// The topic that holds what is in them.
pub(crate) const PATCH_CONTENTS: &str = "contents of kubeadm patches";

/// The topic that holds the names of the user's images.
pub(crate) const IMAGES: &str = "images";

/// The topic that holds what the archives of the user's images hold; only where the file has images.
pub(crate) const IMAGE_CONTENTS: &str = "contents of images";

/// Fingerprints of rendered documents; empty where nobody rendered any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Documents {
    /// What is laid down on machines, by group.
    pub groups: BTreeMap<GroupName, Fingerprint>,
    /// The cluster's objects, by set.
    pub sets: BTreeMap<String, Fingerprint>,
    /// What the file's patches for kubeadm hold, where there are any.
    pub patches: Option<Fingerprint>,
    /// What the file's archives of images for Linux nodes hold, where there are any.
    pub archives: Option<Fingerprint>,
    /// The archives among them that cannot be used, by their paths.
    pub unusable: BTreeMap<String, Unusable>,
}

/// Why an archive cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Why, as the end of a sentence.
    pub why: String,
    /// What a person can do about it.
    pub remedy: String,
}

/// What kind of file a part is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A program, built or fetched.
    Program,
    /// A container image.
    Image,
    /// Anything else that is fetched whole.
    Archive,
}

impl PartKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Image => "image",
            Self::Archive => "archive",
        }
    }
}

/// A program, image or archive of one version for one system.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    /// Its name, as upstream calls it.
    pub name: String,
    /// The system it is for.
    pub os: Os,
    /// What kind of file it is.
    pub kind: PartKind,
    /// Its version.
    pub version: String,
}

impl Part {
    /// Names the part in step ids.
    pub(crate) fn key(&self) -> String {
        let kind = self.kind.word();
        format!("{}/{kind}/{}@{}", self.os, self.name, self.version)
    }

    /// Whether it takes another's place on machines that stand in for Windows.
    fn is_for_stand_ins(&self) -> bool {
        self.name.ends_with(FOR_STAND_INS)
    }

    /// Whether it takes that one's place there.
    fn stands_in_for(&self, other: &Self) -> bool {
        self.name.strip_suffix(FOR_STAND_INS) == Some(other.name.as_str())
            && (self.os, self.kind) == (other.os, other.kind)
    }

    /// Whether it is our agent.
    pub fn is_agent(&self) -> bool {
        self.name == AGENT
    }

    /// Names the part, whatever its version, among the topics of a blueprint.
    pub fn topic(&self) -> String {
        let kind = self.kind.word();
        format!("{kind} {} for {}", self.name, self.os)
    }

    /// Whether a topic of a blueprint is about a part.
    pub fn is_topic(topic: &str) -> bool {
        [PartKind::Program, PartKind::Image, PartKind::Archive]
            .iter()
            .any(|kind| topic.split(' ').next() == Some(kind.word()))
            && topic.contains(" for ")
    }
}

impl Display for Part {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let kind = self.kind.word();
        write!(out, "{kind} {} {} for {}", self.name, self.version, self.os)
    }
}

/// One state of one template: machines made from an older state keep it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateId {
    /// The template's name.
    pub name: String,
    /// What is in it.
    pub fingerprint: Fingerprint,
}

impl Display for TemplateId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}@{}", self.name, self.fingerprint)
    }
}

/// The template that a group's machines are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplateWish {
    /// One that we build.
    Built(TemplateId),
    /// One that the user has, by name.
    Named(String),
}

impl TemplateWish {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Built(id) => &id.name,
            Self::Named(name) => name,
        }
    }
}

/// A command of the user's, with the mark by which the agent remembers that it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UserCommand {
    /// The command line.
    pub run: String,
    /// Of the command line.
    pub fingerprint: Fingerprint,
}

impl UserCommand {
    /// The command line as a person reads it: as it will run, with everything visible that a terminal would hide.
    pub fn shown(&self) -> Cow<'_, str> {
        visible(&self.run)
    }
}

pub(crate) fn user_commands(commands: &[Command]) -> Vec<UserCommand> {
    commands
        .iter()
        .map(|command| UserCommand {
            run: command.run.clone(),
            fingerprint: Fingerprint::of(&command.run),
        })
        .collect()
}

/// The part whose version the agent reports; without it among the parts, any agent will do.
const AGENT: &str = "mullion-agent";
/// Parts that take another's place on machines that stand in for Windows end so; the other's name comes first.
const FOR_STAND_INS: &str = "-stand-in";
/// The port of the API server on machines that we make.
pub(crate) const API_PORT: u16 = 6443;
/// Object sets of network plugins begin so; the plugin's word follows.
pub const PLUGIN_PREFIX: &str = "network-";
/// Object sets of add-ons begin so; the add-on's name follows.
pub(crate) const ADDON_PREFIX: &str = "addon-";

/// A stand-in has Linux inside and no Windows features.
fn is_stand_in(group: &Group) -> bool {
    Catalog::builtin().is_stand_in(group)
}

/// The Windows features that a group's machines need.
pub(crate) fn features(group: &Group) -> Vec<&'static str> {
    match &group.system {
        System::Windows(windows) if !is_stand_in(group) => {
            Catalog::builtin().windows_features(windows)
        }
        _ => Vec::new(),
    }
}

/// The systems whose parts a group's machines hold.
pub(crate) fn part_systems(group: &Group) -> &'static [Os] {
    match group.system.os() {
        _ if is_stand_in(group) => &[Os::Linux, Os::Windows],
        Os::Linux => &[Os::Linux],
        Os::Windows => &[Os::Windows],
    }
}

/// The label by which everybody sees that a node stands in for Windows; its value is the driver.
const STAND_IN_LABEL: &str = "mullion.dev/stand-in";

/// The labels that a group's nodes should have.
pub(crate) fn labels(group: &Group) -> BTreeMap<String, String> {
    let mut labels = group.labels.clone();
    if is_stand_in(group) {
        labels.insert(STAND_IN_LABEL.into(), group.carrier.driver().to_string());
    }
    labels
}

/// The taints that a group's nodes should have.
pub(crate) fn taints(group: &Group) -> BTreeSet<Taint> {
    let mut taints: BTreeSet<_> = group.taints.iter().cloned().collect();
    if group.duty == Duty::ControlPlane && !group.schedulable {
        taints.insert(control_plane_taint());
    }
    taints
}

/// The label that says that a node is a control plane.
pub(crate) const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// The labels that kubeadm gives to a node of that role. A kubelet may not set them itself.
pub fn role_labels(duty: Duty) -> BTreeMap<String, String> {
    let keys: &[&str] = match duty {
        Duty::ControlPlane => &[
            CONTROL_PLANE_LABEL,
            "node.kubernetes.io/exclude-from-external-load-balancers",
        ],
        Duty::Worker | Duty::LoadBalancer => &[],
    };
    let labels = keys.iter().map(|key| ((*key).to_owned(), String::new()));
    labels.collect()
}

/// The taint that kubeadm gives to control planes.
pub fn control_plane_taint() -> Taint {
    Taint {
        key: "node-role.kubernetes.io/control-plane".into(),
        value: String::new(),
        effect: mullion_spec::value::Effect::NoSchedule,
    }
}

impl Wanted<'_> {
    pub(crate) fn agent_version(&self, os: Os) -> Option<&str> {
        self.parts
            .iter()
            .find(|part| part.is_agent() && part.os == os)
            .map(|part| part.version.as_str())
    }

    /// The parts that a group's machines hold, sorted and without repetition.
    pub(crate) fn parts_of(&self, group: &Group) -> BTreeSet<&Part> {
        let systems = part_systems(group);
        let is_right = |part: &&Part| {
            if is_stand_in(group) {
                !self.parts.iter().any(|other| other.stands_in_for(part))
            } else {
                !part.is_for_stand_ins()
            }
        };
        self.parts
            .iter()
            .filter(|part| systems.contains(&part.os))
            .filter(is_right)
            .collect()
    }

    /// The parts that a group's template holds.
    pub(crate) fn template_parts(&self, group: &Group) -> BTreeSet<&Part> {
        let mut parts = self.parts_of(group);
        parts.retain(|part| !part.is_agent());
        parts
    }

    /// The template of a group's machines; none for machines that exist already.
    pub(crate) fn template(&self, group: &Group) -> Option<TemplateWish> {
        let Carrier::Made { driver, origin, .. } = &group.carrier else {
            return None;
        };
        if let Origin::Template(name) = origin {
            return Some(TemplateWish::Named(name.clone()));
        }
        let name = match &group.system {
            System::Linux { release } => format!("linux-{release}-{driver}"),
            System::Windows(windows) => {
                let face = if windows.desktop { "desktop" } else { "core" };
                let (version, edition) = (windows.version, windows.edition);
                format!("windows-{version}-{edition}-{face}-{driver}")
            }
        };
        let mut images: Vec<_> = self.images_of(group).map(str::to_owned).collect();
        if group.system.os() == Os::Linux {
            // Clusters share templates: an archive of the same name may hold another image.
            let archives = self.documents.archives.as_ref();
            images.extend(archives.map(ToString::to_string));
        }
        // Settings are laid down on each machine: groups that differ in nothing else share a template.
        let system = match &group.system {
            System::Linux { release } => (release.clone(), None),
            System::Windows(windows) => {
                let face = (windows.edition, windows.desktop, &windows.settings.updates);
                (windows.version.to_string(), Some(face))
            }
        };
        let fingerprint = Fingerprint::of(&(
            system,
            origin,
            // The agent is brought to a machine, whatever the machine was made from.
            self.template_parts(group),
            images,
        ));
        Some(TemplateWish::Built(TemplateId { name, fingerprint }))
    }

    /// The templates that its machines are made from, as far as we build them.
    pub fn templates(&self) -> BTreeSet<TemplateId> {
        let groups = self.cluster.groups.iter();
        let built = groups.filter_map(|group| match self.template(group) {
            Some(TemplateWish::Built(id)) => Some(id),
            _ => None,
        });
        built.collect()
    }

    fn images_of<'a>(&'a self, group: &Group) -> impl Iterator<Item = &'a str> {
        let os = group.system.os();
        self.cluster
            .images
            .iter()
            .filter(move |image| image.os == os)
            .map(|image| image.reference.as_str())
    }

    /// What the blueprints of a group's machines have in common.
    pub(crate) fn topics(
        &self,
        group: &Group,
        endpoint: &str,
        control_planes: &[String],
    ) -> Topics {
        let cluster = self.cluster;
        let mut topics = BTreeMap::from([
            ("duty".to_owned(), duty_word(group.duty).to_owned()),
            ("driver".into(), group.carrier.driver().to_string()),
        ]);
        let mut settings = |topic: &str, value: Fingerprint| {
            topics.insert(topic.into(), value.to_string());
        };
        if let Some(documents) = self.documents.groups.get(&group.name) {
            settings("documents", documents.clone());
        }
        settings(SYSTEM, Fingerprint::of(&group.system));
        settings("proxy", Fingerprint::of(&cluster.proxy));
        settings("trust", Fingerprint::of(&cluster.trust));
        settings("files", Fingerprint::of(&group.files));
        if group.duty == Duty::LoadBalancer {
            let seats = cluster.groups.iter();
            let seats = seats.filter(|group| group.duty == Duty::ControlPlane);
            let chosen: Vec<_> = seats.map(|group| &group.node_ip).collect();
            settings("control planes", Fingerprint::of(&(control_planes, chosen)));
            // Marks of older versions lack it: where the file names no servers, a load balancer of theirs is left alone.
            let servers = &cluster.network.upstream_dns;
            if group.carrier.is_made() && !servers.is_empty() {
                settings("DNS servers", Fingerprint::of(servers));
            }
            return Topics::new(topics);
        }
        let images: Vec<_> = self.images_of(group).collect();
        settings(IMAGES, Fingerprint::of(&images));
        // Marks of older versions lack it: where the file has no images, a cluster of theirs is left alone.
        if !images.is_empty() {
            settings(IMAGE_CONTENTS, Fingerprint::of(&self.documents.archives));
        }
        settings(NODE_ADDRESS, Fingerprint::of(&group.node_ip));
        let kubernetes = &cluster.kubernetes;
        settings("feature gates", Fingerprint::of(&kubernetes.feature_gates));
        settings(PATCHES, Fingerprint::of(&kubernetes.patches));
        if let Some(contents) = &self.documents.patches {
            settings(PATCH_CONTENTS, contents.clone());
        }
        let network = &cluster.network;
        // Not the machines' own network: an address that was given stays, however it was chosen.
        settings(
            "network",
            Fingerprint::of(&(
                (network.cni, network.backend, network.vni, network.port),
                (network.mtu, network.pods, network.pods_per_node),
                (network.services, &network.domain, &network.upstream_dns),
            )),
        );
        topics.insert("endpoint".into(), endpoint.into());
        topics.insert("kubernetes".into(), self.kubernetes.to_string());
        // The agent lays the blueprint down; it is no part of it.
        let parts = self.parts_of(group);
        for part in parts.into_iter().filter(|part| !part.is_agent()) {
            topics.insert(part.topic(), part.version.clone());
        }
        Topics::new(topics)
    }

    /// The sets of objects that the cluster should have, in the order they are applied.
    pub(crate) fn object_sets(&self) -> Vec<(String, Fingerprint)> {
        let cluster = self.cluster;
        let network = &cluster.network;
        let mut sets = Vec::new();
        if network.cni != Cni::None {
            let name = format!("{PLUGIN_PREFIX}{}", network.cni);
            let settings = (
                (network.backend, network.vni, network.port, network.mtu),
                (
                    network.pods,
                    self.versions(&[network.cni.to_string().as_str(), "flanneld"]),
                ),
            );
            sets.push((name, Fingerprint::of(&settings)));
        }
        let proxy = (network.pods, self.versions(&["kube-proxy"]));
        sets.push(("service-proxy".into(), Fingerprint::of(&proxy)));
        // The other plugins enforce policies themselves.
        if network.policy && network.cni == Cni::Flannel {
            let policy = (
                network.pods,
                network.services,
                self.versions(&["kube-router"]),
            );
            sets.push(("policy".into(), Fingerprint::of(&policy)));
        }
        let dns = (
            (&network.domain, &network.upstream_dns),
            self.versions(&["coredns"]),
        );
        sets.push(("dns".into(), Fingerprint::of(&dns)));
        let builds = cluster.windows_versions();
        if cluster.runtime_classes && !builds.is_empty() {
            sets.push(("runtime-classes".into(), Fingerprint::of(&builds)));
        }
        if cluster.policies != Admission::Off {
            sets.push(("admission".into(), Fingerprint::of(&cluster.policies)));
        }
        for addon in cluster.addons.iter().collect::<BTreeSet<_>>() {
            let name = format!("{ADDON_PREFIX}{addon}");
            sets.push((name, Fingerprint::of(&self.versions(&[addon]))));
        }
        for (name, fingerprint) in &mut sets {
            if let Some(rendered) = self.documents.sets.get(name) {
                *fingerprint = Fingerprint::of(&(&*fingerprint, rendered));
            }
        }
        sets
    }

    /// The names of the sets of objects that the cluster should have, in the order they are applied.
    pub fn sets(&self) -> Vec<String> {
        self.object_sets()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn versions(&self, names: &[&str]) -> BTreeSet<&Part> {
        self.parts
            .iter()
            .filter(|part| names.contains(&part.name.as_str()))
            .collect()
    }
}

/// One machine's blueprint: its group's, its own name and its own address.
pub(crate) fn blueprint(
    shared: &Fingerprint,
    topics: &Topics,
    machine: &MachineName,
    address: &str,
) -> Blueprint {
    Blueprint {
        fingerprint: Fingerprint::of(&(shared, machine, address)),
        topics: topics.clone(),
    }
}

const fn duty_word(duty: Duty) -> &'static str {
    match duty {
        Duty::LoadBalancer => "load-balancer",
        Duty::ControlPlane => "control-plane",
        Duty::Worker => "worker",
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;

    use super::*;

    #[test]
    fn on_a_stand_in_its_own_kubelet_takes_the_place_of_the_real_one() {
        let text = "machines:\n\
                    - {name: lin, count: 1, os: linux}\n\
                    - {name: win, count: 1, os: windows, driver: wine}\n\
                    - {name: vm, count: 1, os: windows, driver: qemu, media: {iso: ./server.iso}}\n";
        let source = Source::new("cluster.yaml", text);
        let draft = Draft::read(source, &Surroundings::default());
        let cluster = draft.provisional().cloned().unwrap();
        let part = |os, name: &str| Part {
            name: name.into(),
            os,
            kind: PartKind::Program,
            version: "1.36.4".into(),
        };
        let wanted = Wanted {
            cluster: &cluster,
            kubernetes: "1.36.4".parse().unwrap(),
            parts: vec![
                part(Os::Linux, "kubelet"),
                part(Os::Windows, "kubelet"),
                part(Os::Windows, "kubelet-stand-in"),
                part(Os::Windows, "kubeadm"),
            ],
            documents: Documents::default(),
        };
        let of = |name: &str| -> Vec<String> {
            let mut groups = cluster.groups.iter();
            let group = groups.find(|group| group.name.to_string() == name);
            let parts = wanted.parts_of(group.unwrap());
            let shown = parts
                .iter()
                .map(|part| format!("{} {}", part.os, part.name));
            shown.collect()
        };
        assert_eq!(of("lin"), ["linux kubelet"]);
        assert_eq!(of("vm"), ["windows kubeadm", "windows kubelet"]);
        // Its Linux twins are not touched.
        assert_eq!(
            of("win"),
            [
                "windows kubeadm",
                "linux kubelet",
                "windows kubelet-stand-in"
            ]
        );
    }
}
