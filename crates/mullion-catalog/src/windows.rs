//! Windows Server releases: builds, editions, minima, media and registry values.

use mullion_spec::cluster::Windows;
use mullion_spec::words::{Edition, WindowsVersion};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::digest::Digest;
use crate::number::Number;
use crate::total::Total;

/// `windows.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowsFile {
    pub(crate) evaluation_days: u16,
    pub(crate) evaluation_source: String,
    pub(crate) release: Total<WindowsVersion, WindowsRelease>,
    pub(crate) media: Vec<KnownMedia>,
    pub(crate) registry: Vec<RegistryValue>,
    pub(crate) dynamic_ports: DynamicPorts,
    pub(crate) features: FeatureNames,
    pub(crate) administrators_keys: KeysFile,
}

/// Names of optional features.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeatureNames {
    pub(crate) containers: String,
    pub(crate) hyperv: String,
    pub(crate) source: String,
}

/// A file of keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysFile {
    pub(crate) path: String,
    pub(crate) source: String,
}

/// The ports that connections to elsewhere come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicPorts {
    /// The first.
    pub first: u16,
    /// How many.
    pub count: u16,
    /// Where this was read.
    pub source: String,
}

/// A Windows Server release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsRelease {
    /// Its build number, such as 20348.
    pub build: u32,
    /// Its name.
    pub product: String,
    /// The value of the node label `node.kubernetes.io/windows-build`.
    pub label: String,
    /// The day mainstream support ends, as year-month-day.
    pub mainstream_end: String,
    /// The day extended support ends.
    pub extended_end: String,
    /// The first pause tag with a variant for this build.
    pub first_pause: Number,
    /// Where that was read.
    pub pause_source: String,
    /// The folder of this release on the virtio-win disc.
    pub virtio_folder: String,
    /// How the OpenSSH server comes to it.
    pub ssh_server: SshServer,
    /// What a machine with Server Core needs.
    pub core: WindowsMinima,
    /// What a machine with Desktop Experience needs.
    pub desktop: WindowsMinima,
    edition: Total<Edition, WindowsEdition>,
    /// Where this was read.
    pub source: String,
}

/// How the OpenSSH server comes to a Windows release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SshServer {
    /// As a capability that is added.
    Capability,
    /// It is there, and has to be started.
    Installed,
}

/// The least that a machine needs, and what is advised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsMinima {
    /// The least memory, in MiB.
    pub memory_mib: u64,
    /// The memory advised for a node, in MiB.
    pub advised_memory_mib: u64,
    /// The smallest disk, in GiB.
    pub disk_gib: u64,
    /// The disk advised for a node, in GiB.
    pub advised_disk_gib: u64,
    /// Where this was read.
    pub source: String,
}

/// An edition of a Windows release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsEdition {
    /// Its name, as a node reports it.
    pub product: String,
    /// The client setup key that Microsoft publishes; it selects the edition and licenses nothing.
    pub kms_key: String,
    /// The image with Server Core on the installation disc.
    pub core_image: String,
    /// The image with Desktop Experience.
    pub desktop_image: String,
    /// The place of Server Core on an evaluation disc.
    pub evaluation_core_index: u8,
    /// The place of Desktop Experience on an evaluation disc.
    pub evaluation_desktop_index: u8,
    /// Where this was read.
    pub source: String,
}

/// An evaluation disc whose digest is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownMedia {
    /// The release on it.
    pub release: WindowsVersion,
    /// The revision on it: the number after the build.
    pub revision: u32,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
    /// Where this was read.
    pub source: String,
}

/// A value under `HKLM` that a node needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryValue {
    /// The releases that need it.
    pub releases: Vec<WindowsVersion>,
    /// The key under `HKLM`.
    pub key: String,
    /// Keys below that one: the value is set in each of them, and not in the key itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<String>,
    /// The value's name.
    pub name: String,
    /// The value.
    pub data: RegistryData,
    /// Whether it is read at the start of the machine only: on a machine that runs, it waits for the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
    /// On which machines.
    pub when: RegistryWhen,
    /// What it is for.
    pub reason: String,
    /// Where this was read.
    pub source: String,
}

impl RegistryValue {
    /// Every key under `HKLM` that it is set in.
    pub fn keys(&self) -> Vec<String> {
        if self.each.is_empty() {
            return vec![self.key.clone()];
        }
        let each = self.each.iter();
        each.map(|below| format!(r"{}\{below}", self.key)).collect()
    }
}

/// What a registry value holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RegistryData {
    /// A DWORD.
    Number(u32),
    /// Text with variables in it.
    Text {
        /// The text.
        expandable: String,
    },
}

impl std::fmt::Display for RegistryData {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text { expandable } => expandable.fmt(out),
        }
    }
}

/// On which machines a registry value is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryWhen {
    /// On all of the release.
    Always,
    /// On those that Mullion made: of one that existed before, it is its owner's to say.
    Made,
    /// On those that existed before.
    Existing,
    /// Where the file asks for remote desktop.
    Rdp,
    /// On those that existed before, where the file says that there is to be no remote desktop.
    NoRdp,
}

impl WindowsRelease {
    /// Its editions.
    pub fn editions(&self) -> impl Iterator<Item = (Edition, &WindowsEdition)> {
        self.edition.iter()
    }
}

impl Catalog {
    /// A Windows release.
    pub fn windows(&self, version: WindowsVersion) -> &WindowsRelease {
        self.windows.release.get(version)
    }

    /// Every Windows release, oldest first.
    pub fn windows_releases(&self) -> impl Iterator<Item = (WindowsVersion, &WindowsRelease)> {
        self.windows.release.iter()
    }

    /// How many days an evaluation licence lasts.
    pub fn evaluation_days(&self) -> u16 {
        self.windows.evaluation_days
    }

    /// The evaluation discs of a release whose digest is known.
    pub fn known_media(&self, version: WindowsVersion) -> impl Iterator<Item = &KnownMedia> {
        let media = self.windows.media.iter();
        media.filter(move |media| media.release == version)
    }

    /// The ports that connections from a Windows node come from.
    pub fn dynamic_ports(&self) -> &DynamicPorts {
        &self.windows.dynamic_ports
    }

    /// The optional features that a machine needs, by DISM's names.
    pub fn windows_features(&self, windows: &Windows) -> Vec<&str> {
        let names = &self.windows.features;
        let hyperv = windows.settings.hyperv.then_some(names.hyperv.as_str());
        [names.containers.as_str()]
            .into_iter()
            .chain(hyperv)
            .collect()
    }

    /// The feature that `hyperv` asks for, by DISM's name.
    pub fn virtualization_feature(&self) -> &str {
        &self.windows.features.hyperv
    }

    /// The file from which Windows' SSH server reads the keys of every administrator.
    pub fn administrators_keys(&self) -> &str {
        &self.windows.administrators_keys.path
    }

    /// The registry values that machines of a release may need; `when` says which machines.
    pub fn registry_values(&self, version: WindowsVersion) -> impl Iterator<Item = &RegistryValue> {
        let values = self.windows.registry.iter();
        values.filter(move |value| value.releases.contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_release_ends_with_its_build() {
        for (_, release) in Catalog::builtin().windows_releases() {
            assert_eq!(release.label, format!("10.0.{}", release.build));
        }
    }

    #[test]
    fn an_edition_has_its_images_and_key() {
        let release = Catalog::builtin().windows(WindowsVersion::V2022);
        let (_, edition) = release
            .editions()
            .find(|(edition, _)| *edition == Edition::Datacenter)
            .unwrap();
        assert_eq!(
            edition.core_image,
            "Windows Server 2022 SERVERDATACENTERCORE"
        );
        assert_eq!(edition.evaluation_core_index, 3);
        for (_, release) in Catalog::builtin().windows_releases() {
            for (_, edition) in release.editions() {
                assert_eq!(
                    edition.kms_key.split('-').map(str::len).collect::<Vec<_>>(),
                    [5; 5]
                );
            }
        }
    }

    #[test]
    fn what_is_read_at_the_start_alone_says_so() {
        for version in [
            WindowsVersion::V2019,
            WindowsVersion::V2022,
            WindowsVersion::V2025,
        ] {
            for value in Catalog::builtin().registry_values(version) {
                // Drivers and services read theirs when they start, and ours start after them.
                // Remote desktop's service takes its switch at any time.
                let is_switch = matches!(value.when, RegistryWhen::Rdp | RegistryWhen::NoRdp);
                let is_early = value.key.starts_with(r"SYSTEM\") && !is_switch;
                assert_eq!(value.restart, is_early, "{} {}", value.key, value.name);
            }
        }
    }

    #[test]
    fn server_2022_gets_its_own_registry_values_and_those_of_all() {
        let names = |version| {
            let values = Catalog::builtin().registry_values(version);
            let own = values.filter(|value| value.releases.len() < 3 || value.key.contains("hns"));
            own.map(|value| value.name.as_str()).collect::<Vec<_>>()
        };
        let found = names(WindowsVersion::V2022);
        assert_eq!(found, ["1114842764", "EnableCompartmentNamespace"]);
        assert!(!names(WindowsVersion::V2025).contains(&"1114842764"));
    }
}
