//! The resolved wish, and what follows from it alone: parts, templates, labels, commands.
//!
//! Nothing here looks at what was found.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use mullion_catalog::Catalog;
use mullion_spec::cluster::{Carrier, Cluster, Command, Duty, Group, Origin, System};
use mullion_spec::image::ImageReference;
use mullion_spec::version::Patch;
use mullion_spec::words::Os;
use mullion_wire::text::visible;
use mullion_wire::{Content, Sha256Digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

/// What planning works on: the checked file, with the catalog's answers.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The file.
    pub cluster: &'a Cluster,
    /// The exact Kubernetes that the file's wish comes to.
    pub kubernetes: Patch,
    /// Every program, image and archive that the cluster's machines need.
    pub parts: Vec<Part>,
    /// What is in the files that the file names, by the paths that it gives them.
    pub contents: BTreeMap<PathBuf, Content>,
    /// The archives of the user's images for Linux machines, in the order of the file.
    pub archives: Vec<Archive>,
}

/// An archive of an image of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The image that it holds.
    pub reference: String,
    /// Where it is.
    pub file: String,
    /// Its digest, where it could be read.
    pub sha256: Option<Sha256Digest>,
    /// Why it cannot be used; nothing where it can.
    pub unusable: Option<Unusable>,
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

/// The name that containerd keeps an image under.
pub fn canonical(reference: &str) -> String {
    match reference.parse::<ImageReference>() {
        Ok(image) => image.canonical(),
        Err(_) => reference.to_owned(),
    }
}

/// The part whose version the agent reports; without it among the parts, any agent will do.
pub(crate) const AGENT: &str = "mullion-agent";
/// Parts that take another's place on machines that stand in for Windows end so; the other's name comes first.
const FOR_STAND_INS: &str = "-stand-in";
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

impl Wanted<'_> {
    pub(crate) fn agent_version(&self, os: Os) -> Option<&str> {
        self.parts
            .iter()
            .find(|part| part.is_agent() && part.os == os)
            .map(|part| part.version.as_str())
    }

    /// The parts that a group's machines hold, sorted and without repetition.
    pub fn parts_of(&self, group: &Group) -> BTreeSet<&Part> {
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
            let digests: Vec<_> = self
                .archives
                .iter()
                .map(|archive| &archive.sha256)
                .collect();
            let digests = (!digests.is_empty()).then(|| Fingerprint::of(&digests));
            images.extend(digests.map(|digests| digests.to_string()));
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

    /// The user's images for a system, by the names that containerd keeps them under, each with the digest of the archive
    /// that holds it; none where it comes from a registry.
    pub fn users_images(&self, os: Os) -> BTreeMap<String, Option<Sha256Digest>> {
        let images = self.cluster.images.iter().filter(|image| image.os == os);
        images
            .map(|image| {
                let name = canonical(&image.reference);
                let mut archives = self.archives.iter();
                let archive = archives.find(|archive| canonical(&archive.reference) == name);
                (name, archive.and_then(|archive| archive.sha256.clone()))
            })
            .collect()
    }

    fn images_of<'a>(&'a self, group: &Group) -> impl Iterator<Item = &'a str> {
        let os = group.system.os();
        self.cluster
            .images
            .iter()
            .filter(move |image| image.os == os)
            .map(|image| image.reference.as_str())
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
            contents: BTreeMap::new(),
            archives: Vec::new(),
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
