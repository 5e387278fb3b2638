//! What this computer needs for what, and which packages bring it.

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::words::{Driver, Os};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::number::Number;

/// `requirements.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequirementsFile {
    pub(crate) activity: Vec<Activity>,
    pub(crate) manager: BTreeMap<Family, PackageManager>,
    pub(crate) requirement: Vec<Requirement>,
}

/// Something that a person may want to do on this computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// Its name.
    pub id: String,
    /// What a person calls it.
    pub title: String,
    /// The machines it is about: drivers, each with the systems it carries. Empty where it is about no machines.
    pub carries: BTreeMap<Driver, BTreeSet<Os>>,
    /// Whether the cluster that is made without a file wants it.
    pub default_cluster: bool,
}

/// A family of Linux distributions that share package names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Debian, Ubuntu and their kin.
    Debian,
    /// Fedora, RHEL and their kin.
    Fedora,
    /// Arch Linux.
    Arch,
    /// SUSE and openSUSE.
    Suse,
    /// Alpine Linux.
    Alpine,
}

/// How a family's packages are installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageManager {
    /// What `os-release` calls its distributions, in `ID` or `ID_LIKE`.
    pub ids: BTreeSet<String>,
    /// The command that renews the lists of packages, where one is needed.
    #[serde(default)]
    pub refresh: Option<Vec<String>>,
    /// The command that installs the packages named after it.
    pub install: Vec<String>,
    /// The command that tells which version of the package named after it would be installed.
    #[serde(default)]
    pub candidate: Option<Vec<String>>,
    /// Variables that the commands are run with.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether packages are installed for the person, and not only named.
    pub automatic: bool,
}

/// One thing that this computer should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Its name.
    pub id: String,
    /// What a person calls it.
    pub title: String,
    /// What it does, as the end of "it …".
    pub purpose: String,
    /// How it is found.
    pub look: Look,
    /// The activities that cannot work without it.
    #[serde(default)]
    pub needed: BTreeSet<String>,
    /// The activities that work worse without it.
    #[serde(default)]
    pub useful: BTreeSet<String>,
    /// The packages that bring it.
    #[serde(default)]
    pub packages: BTreeMap<Family, Vec<String>>,
    /// Whether its packages get an install command of their own.
    #[serde(default)]
    pub apart: bool,
    /// What to do where packages do not help.
    #[serde(default)]
    pub remedy: Option<String>,
    /// Where this was read.
    pub source: String,
}

/// How a requirement is found, with what to look for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Look {
    /// The user is root.
    Root {},
    /// The process may have a capability.
    Capability {
        /// Its name.
        name: String,
        /// Its bit in the kernel's sets.
        bit: u8,
    },
    /// The first process is a certain program.
    FirstProcess {
        /// The program's name.
        name: String,
        /// The path that exists while it runs.
        mark: String,
    },
    /// Cgroups with certain controllers.
    Cgroups {
        /// The controllers.
        controllers: BTreeSet<String>,
    },
    /// The kernel has these namespaces.
    Namespaces(BTreeSet<String>),
    /// The kernel has a feature; any one witness is enough.
    Kernel(KernelFeature),
    /// Virtual machines run at the speed of this computer.
    Accelerator(Accelerator),
    /// One of these programs is installed.
    Program {
        /// The programs' names.
        names: Vec<String>,
    },
    /// One of these files exists.
    File {
        /// Their paths.
        paths: Vec<String>,
    },
    /// A program is installed and new enough.
    Toolchain {
        /// The program's name.
        program: String,
        /// What makes it tell its version.
        arguments: Vec<String>,
        /// The oldest version that will do.
        minimum: Number,
    },
    /// So much memory.
    Memory {
        /// In MiB.
        mib: u64,
    },
    /// So much free disk space, for the cache and for the state.
    Disk {
        /// In GiB.
        gib: u64,
    },
    /// A file system that holds machines to the size of their disks.
    DiskLimits {
        /// The program that sets the limits.
        program: String,
    },
    /// A UDP port that nobody else listens on.
    UdpPort {
        /// The port.
        port: u16,
    },
    /// A network that no route of this computer leads to.
    Network {
        /// The network.
        cidr: String,
        /// What the names of our own bridges begin with: they are in nobody's way.
        own: String,
    },
    /// A clock that is about right.
    Clock(ClockLook),
    /// The installation media that the cluster file names.
    Media {
        /// A file smaller than this cannot be one, in MiB.
        smallest_mib: u64,
    },
    /// Proxy settings that leave the cluster's own networks alone.
    Proxy {
        /// The variables that set a proxy.
        variables: BTreeSet<String>,
        /// The variables that name what is reached without it.
        exceptions: BTreeSet<String>,
    },
}

/// What bears witness to a feature of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFeature {
    /// The file system's name in `/proc/filesystems`.
    #[serde(default)]
    pub filesystem: Option<String>,
    /// Modules, loaded, built in or there to be loaded.
    pub modules: Vec<String>,
    /// Options in the kernel's configuration.
    pub options: Vec<String>,
    /// Paths that exist where the feature is there.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// How an accelerator of virtual machines is proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Its device.
    pub device: String,
    /// The program that runs a virtual machine with it.
    pub program: String,
    /// The program's arguments; `{firmware}` is replaced by the path of a firmware that counts and leaves.
    pub arguments: Vec<String>,
    /// The exit status when the firmware came to its end.
    pub proven_exit: i32,
    /// How long that may take. What emulates instead of accelerating takes far longer.
    pub deadline_seconds: u64,
}

/// How a clock is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockLook {
    /// The first year that can be true.
    pub first_year: u16,
    /// The last year that is believed.
    pub last_year: u16,
    /// The program that tells whether the clock is synchronised, with `yes` or `no`.
    pub program: String,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// A path that exists once the clock was synchronised.
    pub mark: String,
}

impl Activity {
    /// Whether one of its machines is among those given.
    pub fn is_about(&self, machines: &BTreeMap<Driver, BTreeSet<Os>>) -> bool {
        self.carries.iter().any(|(driver, systems)| {
            let wanted = machines.get(driver);
            wanted.is_some_and(|wanted| !wanted.is_disjoint(systems))
        })
    }
}

impl Catalog {
    /// What a person may want to do on this computer.
    pub fn activities(&self) -> &[Activity] {
        &self.requirements.activity
    }

    /// What this computer should have, in the order in which it is best read.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements.requirement
    }

    /// How a family's packages are installed; none where that is not known.
    pub fn package_manager(&self, family: Family) -> Option<&PackageManager> {
        self.requirements.manager.get(&family)
    }

    /// The family of a distribution by the words of its `os-release`: its own name first, then its kin.
    pub fn family<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Option<Family> {
        ids.into_iter().find_map(|id| {
            let mut managers = self.requirements.manager.iter();
            managers.find_map(|(family, manager)| manager.ids.contains(id).then_some(*family))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kebab(text: &str) -> bool {
        !text.is_empty()
            && text.split('-').all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            })
    }

    #[test]
    fn every_name_is_kebab_case_and_used_once() {
        let catalog = Catalog::builtin();
        for ids in [
            catalog
                .activities()
                .iter()
                .map(|activity| &activity.id)
                .collect::<Vec<_>>(),
            catalog
                .requirements()
                .iter()
                .map(|requirement| &requirement.id)
                .collect(),
        ] {
            assert!(ids.iter().all(|id| is_kebab(id)), "{ids:?}");
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        }
    }

    #[test]
    fn every_requirement_serves_known_activities_and_has_a_remedy() {
        let catalog = Catalog::builtin();
        let known: BTreeSet<_> = catalog
            .activities()
            .iter()
            .map(|activity| activity.id.clone())
            .collect();
        for requirement in catalog.requirements() {
            let Requirement {
                id, needed, useful, ..
            } = requirement;
            assert!(needed.is_subset(&known) && useful.is_subset(&known), "{id}");
            assert!(
                needed.is_disjoint(useful) && !(needed.is_empty() && useful.is_empty()),
                "{id}"
            );
            assert!(
                requirement.remedy.is_some() || requirement.packages.contains_key(&Family::Debian),
                "{id}"
            );
            assert!(
                !requirement.source.is_empty() && !requirement.purpose.is_empty(),
                "{id}"
            );
        }
    }

    #[test]
    fn every_driver_of_this_release_has_one_activity_for_each_system() {
        let catalog = Catalog::builtin();
        for (driver, facts) in catalog.drivers().filter(|(_, facts)| facts.available) {
            for os in facts.carries.keys() {
                let machines = BTreeMap::from([(driver, BTreeSet::from([*os]))]);
                let about = catalog
                    .activities()
                    .iter()
                    .filter(|activity| activity.is_about(&machines));
                assert_eq!(about.count(), 1, "{driver} {os}");
            }
        }
    }

    #[test]
    fn a_driver_that_needs_root_is_told_so_in_both_places() {
        let catalog = Catalog::builtin();
        let root = catalog
            .requirements()
            .iter()
            .find(|requirement| requirement.look == Look::Root {})
            .unwrap();
        for activity in catalog.activities() {
            let needs_root = activity
                .carries
                .keys()
                .any(|driver| catalog.driver(*driver).needs_root);
            assert_eq!(
                root.needed.contains(&activity.id),
                needs_root,
                "{}",
                activity.id
            );
        }
    }

    #[test]
    fn kin_are_found_by_their_relatives() {
        let catalog = Catalog::builtin();
        assert_eq!(
            catalog.family(["linuxmint", "ubuntu", "debian"]),
            Some(Family::Debian)
        );
        assert_eq!(
            catalog.family(["rocky", "rhel", "centos", "fedora"]),
            Some(Family::Fedora)
        );
        assert_eq!(catalog.family(["nixos"]), None);
        for family in [
            Family::Debian,
            Family::Fedora,
            Family::Arch,
            Family::Suse,
            Family::Alpine,
        ] {
            assert!(catalog.package_manager(family).is_some(), "{family:?}");
        }
    }
}
