//! Drivers: what each can carry, and what it asks for.

use std::collections::BTreeMap;

use mullion_spec::cluster::{Cluster, Group};
use mullion_spec::words::{Driver, Os};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::total::Total;

/// `drivers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriversFile {
    pub(crate) driver: Total<Driver, DriverFacts>,
}

impl DriversFile {
    /// Marks every driver as one that this release has.
    pub(crate) fn make_available(&mut self) {
        for facts in self.driver.values_mut() {
            facts.available = true;
        }
    }
}

/// What a driver can carry, and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFacts {
    /// The systems it carries.
    pub carries: BTreeMap<Os, Carried>,
    /// Whether this release of Mullion has it.
    pub available: bool,
    /// Whether it makes machines.
    pub machines: MachineOrigin,
    /// Where its machines are.
    pub place: Place,
    /// Whether it needs root on this computer.
    pub needs_root: bool,
    /// Stands in for Windows: what it shows is not proof about Windows.
    pub stand_in: bool,
    /// What a machine of it needs, where that is not what its operating system does.
    pub minima: Option<DriverMinima>,
    /// What a machine that stands in for Windows is told otherwise than Windows; none where nothing stands in.
    pub differs: Option<Differs>,
    /// Settings of Windows that do nothing on its machines, by their names in the file, and why.
    #[serde(default)]
    pub refuses: BTreeMap<String, Refusal>,
    /// What it is, in words.
    pub summary: String,
    /// Where this was read.
    pub source: String,
}

/// Why a setting of Windows does nothing on a driver's machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The reason that a user reads.
    pub why: String,
    /// What does the same by hand, where something does.
    pub remedy: Option<String>,
}

/// The least that a driver's machines need, whatever their operating system asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverMinima {
    /// The least memory, in MiB.
    pub memory_mib: u64,
    /// The smallest disk, in GiB.
    pub disk_gib: u64,
    /// Where this was read.
    pub source: String,
}

/// What a machine that stands in for Windows is told otherwise than Windows. Its kubelet is another program, too: the
/// artifact of the name with `-stand-in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differs {
    /// Where kubelet reaches the container runtime, on the machine's loopback.
    pub cri_port: u16,
    /// The services that are laid down and not started.
    pub carried: Vec<String>,
    /// The parts of a blueprint that it does not have.
    pub without: Vec<BlueprintPart>,
    /// The preflight errors that are expected, by kubeadm's names for them.
    pub ignored_preflight_errors: Vec<String>,
    /// What kubelet's configuration says there.
    pub kubelet: KubeletThere,
    /// Where this was read.
    pub source: String,
}

/// Kubelet's configuration on a machine whose disk is the computer's own, by kubelet's own names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletThere {
    /// How full the disk is before images go.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_threshold: u8,
    /// How little may be left before pods go.
    pub eviction_hard: BTreeMap<String, String>,
}

/// A part of a Windows machine's blueprint that a stand-in may have no use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlueprintPart {
    /// Root authorities that the whole machine trusts.
    Authorities,
    /// The ports that connections to elsewhere come from.
    DynamicPorts,
    /// Defender's exclusions.
    Exclusions,
    /// Optional features.
    Features,
    /// Ports that are opened.
    Firewall,
    /// The host name.
    HostName,
    /// The network of HNS.
    Network,
    /// The page file.
    PageFile,
    /// Values of the registry.
    Registry,
    /// Starts that values of the registry ask for, which are set all the same.
    Restarts,
    /// The time zone.
    TimeZone,
}

impl Differs {
    /// Whether a service is laid down and not started.
    pub fn is_carried(&self, service: &str) -> bool {
        self.carried.iter().any(|name| name == service)
    }

    /// Where kubelet reaches the container runtime, as kubeadm and kubelet name it.
    pub fn cri(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.cri_port)
    }
}

/// How a driver carries a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Whether something to install from must be given.
    pub media: MediaNeed,
}

/// Whether something to install from must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediaNeed {
    /// It takes none: giving one is an error.
    None,
    /// It can take one.
    Optional,
    /// It needs one, or a template.
    Needed,
}

/// Whether a driver makes machines or takes existing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineOrigin {
    /// It makes them, and removes them again.
    Made,
    /// They exist, and stay.
    Existing,
}

/// Where a driver's machines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On this computer.
    ThisComputer,
    /// On the file's `hosts`.
    Hosts,
    /// In an existing cluster.
    Cluster,
    /// Wherever their addresses lead.
    Anywhere,
}

impl DriverFacts {
    /// Whether something to install from must be given for a system; none where it does not carry the system.
    pub fn media(&self, os: Os) -> Option<MediaNeed> {
        self.carries.get(&os).map(|carried| carried.media)
    }
}

impl Catalog {
    /// What a driver can carry, and what it asks for.
    pub fn driver(&self, driver: Driver) -> &DriverFacts {
        self.drivers.driver.get(driver)
    }

    /// Whether a group's machines stand in for Windows.
    pub fn is_stand_in(&self, group: &Group) -> bool {
        self.driver(group.carrier.driver()).stand_in
    }

    /// The machines of a cluster that stand in for Windows.
    pub fn stand_ins(&self, cluster: &Cluster) -> Vec<String> {
        let machines = cluster.machines();
        machines
            .filter(|machine| self.is_stand_in(machine.group))
            .map(|machine| machine.name.to_string())
            .collect()
    }

    /// Every driver.
    pub fn drivers(&self) -> impl Iterator<Item = (Driver, &DriverFacts)> {
        self.drivers.driver.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_carries_windows_for_real_and_makes_it_needs_media() {
        for (name, facts) in Catalog::builtin().drivers() {
            let made = facts.machines == MachineOrigin::Made && !facts.stand_in;
            if let (true, Some(media)) = (made, facts.media(Os::Windows)) {
                assert_eq!(media, MediaNeed::Needed, "{name}");
            }
        }
    }

    #[test]
    fn a_stand_in_has_minima_of_its_own() {
        for (name, facts) in Catalog::builtin().drivers() {
            assert_eq!(facts.stand_in, facts.minima.is_some(), "{name}");
            assert_eq!(facts.stand_in, facts.differs.is_some(), "{name}");
        }
    }

    #[test]
    fn what_a_driver_refuses_are_settings_of_windows() {
        let known: Vec<_> = mullion_spec::cluster::WindowsSettings::default()
            .chosen()
            .map(|(field, _)| field)
            .into();
        for (name, facts) in Catalog::builtin().drivers() {
            for field in facts.refuses.keys() {
                assert!(known.contains(&field.as_str()), "{name} refuses `{field}`");
            }
        }
    }

    #[test]
    fn the_drivers_of_this_release_are_three() {
        let drivers = Catalog::builtin().drivers();
        let available: Vec<_> = drivers
            .filter(|(_, facts)| facts.available)
            .map(|(name, _)| name)
            .collect();
        assert_eq!(available, [Driver::Nspawn, Driver::Wine, Driver::Ssh]);
        assert_eq!(
            Catalog::builtin().driver(Driver::Nspawn).media(Os::Windows),
            None
        );
    }
}
