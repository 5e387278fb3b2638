//! What an agent remembers of the document that it applied, and how another document differs from it.

use std::collections::BTreeMap;

use mullion_render::{MachineDocument, PATCHES_FOLDER, WINDOWS_PATCHES_FOLDER};
use mullion_wire::text::visible;
use mullion_wire::{Named, Sha256Digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::Carried;
use crate::fingerprint::Fingerprint;

/// By what an agent knows the document again that it applied wholly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Applied {
    /// A document of this version.
    Document(DocumentMark),
    /// What an older version wrote. No document of this version has it, so that the document is applied once more.
    Older(OlderMark),
}

/// A document, by its digest, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DocumentMark {
    /// The digest of the document.
    #[schemars(with = "String")]
    pub digest: Sha256Digest,
    /// Each thing in it, such as `file /etc/fstab`, with its version, its value, or a fingerprint of it.
    pub entries: BTreeMap<String, String>,
}

/// What an older version wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OlderMark {
    /// A fingerprint of the machine's settings.
    pub fingerprint: Fingerprint,
    /// Fingerprints of some of them.
    pub topics: BTreeMap<String, String>,
}

/// So many letters of one thing are shown.
const LONGEST: usize = 200;
/// The entries of images begin so.
const IMAGE: &str = "image ";
/// The entries of files begin so.
const FILE: &str = "file ";
/// The entries of optional features begin so.
const FEATURE: &str = "feature ";
/// The entry of the address by which a machine is a node.
const ADDRESS: &str = "node address";
/// The folders from which kubeadm takes patches, on Linux and on Windows.
const PATCHES: [&str; 2] = [PATCHES_FOLDER, WINDOWS_PATCHES_FOLDER];

impl Applied {
    /// The mark of a document.
    pub fn of(document: &Carried<MachineDocument>) -> Self {
        Self::Document(DocumentMark {
            digest: document.digest().clone(),
            entries: entries(document),
        })
    }

    /// Whether it is the mark of that document.
    pub fn is(&self, document: &Carried<MachineDocument>) -> bool {
        matches!(self, Self::Document(mark) if mark.digest == *document.digest())
    }

    /// Whether the user's images in that document are others. Nothing is known of an older version's.
    pub fn has_other_images(&self, document: &MachineDocument) -> bool {
        let Self::Document(mark) = self else {
            return true;
        };
        let images = mark.entries.iter();
        let images = images.filter(|(entry, _)| entry.starts_with(IMAGE));
        !images.eq(image_entries(document).collect::<BTreeMap<_, _>>().iter())
    }

    /// How a document differs, for people: at most three things, then how many more.
    pub(crate) fn describe(&self, document: &MachineDocument) -> String {
        let Self::Document(mark) = self else {
            return "an older version of Mullion wrote its mark".into();
        };
        // A machine wrote the mark, and paths of the user's are in both.
        let shown = |words: String| {
            let begin: String = words.chars().take(LONGEST).collect();
            visible(&begin).into_owned()
        };
        let mut words: Vec<_> = changes(mark, document).map(shown).collect();
        let more = words.len().saturating_sub(3);
        words.truncate(3);
        let words = words.join(", ");
        match more {
            0 => words,
            more => format!("{words} and {more} more"),
        }
    }

    /// What of a document a node takes only when it joins anew, where that differs.
    pub(crate) fn taken_by_joining(&self, document: &MachineDocument) -> Option<&'static str> {
        let Self::Document(mark) = self else {
            return None;
        };
        let new = entries(document);
        let differs = |entry: &String| mark.entries.get(entry) != new.get(entry);
        let is_patch = |entry: &&String| {
            let path = entry.strip_prefix(FILE).unwrap_or_default();
            PATCHES.iter().any(|folder| path.starts_with(folder))
        };
        let mut all = mark.entries.keys().chain(new.keys());
        if all.any(|entry| is_patch(&entry) && differs(entry)) {
            return Some("patches");
        }
        differs(&ADDRESS.to_owned()).then_some("its address")
    }

    /// Whether a feature was asked for, and is no more.
    pub(crate) fn drops_feature(&self, feature: &str, document: &MachineDocument) -> bool {
        let entry = format!("{FEATURE}{feature}");
        matches!(self, Self::Document(mark) if mark.entries.contains_key(&entry))
            && !features(document).any(|wanted| wanted == feature)
    }
}

/// What differs, each in a few words.
fn changes(mark: &DocumentMark, document: &MachineDocument) -> impl Iterator<Item = String> {
    let new = entries(document);
    let gone = mark
        .entries
        .keys()
        .filter(|entry| !new.contains_key(*entry));
    let gone: Vec<_> = gone.map(|entry| format!("{entry} is gone")).collect();
    let old = mark.entries.clone();
    new.into_iter()
        .filter_map(move |(entry, value)| match old.get(&entry) {
            Some(found) if *found == value => None,
            // What the entry of a program holds is its name and version.
            Some(found) => Some(match (found.rsplit_once(' '), value.rsplit_once(' ')) {
                (Some((_, from)), Some((name, to))) => format!("{name} {from} to {to}"),
                _ => entry,
            }),
            None => Some(format!("{entry} is new")),
        })
        .chain(gone)
}

fn image_entries(document: &MachineDocument) -> impl Iterator<Item = (String, String)> {
    let images = document.images.iter();
    images.map(|(reference, archive)| {
        let archive = archive.as_ref().map(Fingerprint::of_digest);
        let archive = archive.map(|archive| archive.to_string());
        (format!("{IMAGE}{reference}"), archive.unwrap_or_default())
    })
}

/// Each thing in a document, with its version, its value, or a fingerprint of it.
fn entries(document: &MachineDocument) -> BTreeMap<String, String> {
    let blueprint = &document.blueprint;
    let mut entries: BTreeMap<_, _> = image_entries(document).collect();
    entries.insert(ADDRESS.into(), document.address.to_string());
    if let Some(servers) = &document.name_servers {
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        entries.insert("DNS servers".into(), servers.join(","));
    }
    for feature in features(document) {
        entries.insert(format!("{FEATURE}{feature}"), String::new());
    }
    for package in &blueprint.packages {
        entries.insert(format!("package {}", package.name), short(package));
    }
    for module in &blueprint.modules {
        entries.insert(format!("kernel module {module}"), String::new());
    }
    for (name, value) in &blueprint.sysctls {
        entries.insert(format!("kernel setting {name}"), value.clone());
    }
    for folder in &blueprint.folders {
        entries.insert(format!("folder {}", folder.path), short(folder));
    }
    for file in &blueprint.files {
        let value = match &file.content {
            Named::Program { name, version, .. } => format!("{name} {version}"),
            _ => short(file),
        };
        entries.insert(format!("{FILE}{}", file.path), value);
    }
    for service in &blueprint.services {
        entries.insert(format!("service {}", service.name), short(service));
    }
    if let Some(firewall) = &blueprint.firewall {
        entries.insert("firewall".into(), short(firewall));
    }
    if let Ok(Value::Object(windows)) = serde_json::to_value(&blueprint.windows) {
        let settings = windows.iter().filter(|(name, _)| *name != "features");
        entries.extend(
            settings.map(|(name, value)| (format!("Windows setting {name}"), short(value))),
        );
    }
    entries
}

/// The optional features of Windows that a document asks for.
fn features(document: &MachineDocument) -> impl Iterator<Item = &String> {
    let windows = document.blueprint.windows.iter();
    windows.flat_map(|windows| &windows.features)
}

fn short(value: &impl Serialize) -> String {
    Fingerprint::of(value).to_string()
}
