//! What the kernel has: features by any witness, namespaces, control groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mullion_catalog::Look;

use super::super::computer::{CgroupVersion, Cgroups, Kernel, Made};
use super::Place;

/// The program that unpacks the kernel's configuration.
pub(super) const UNPACKER: &str = "gzip";

const CONFIGURATION: &str = "/proc/config.gz";

impl Place<'_> {
    pub(super) fn kernel<'a>(
        &self,
        looks: impl Iterator<Item = &'a Look>,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Kernel {
        let features: Vec<_> = looks
            .filter_map(|look| match look {
                Look::Kernel(feature) => Some(feature),
                _ => None,
            })
            .collect();
        let release = self
            .read("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned();
        let filesystems = self.read("/proc/filesystems").unwrap_or_default();
        let loaded = self.read("/proc/modules").unwrap_or_default();
        let loaded: BTreeSet<_> = loaded
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let loadable = self.modules_on_disk(&release);
        let options = self.options(&release, programs);
        let modules = || features.iter().flat_map(|feature| &feature.modules);
        Kernel {
            filesystems: features
                .iter()
                .filter_map(|feature| feature.filesystem.as_ref())
                .filter(|name| {
                    filesystems
                        .lines()
                        .any(|line| line.split_whitespace().last() == Some(name))
                })
                .cloned()
                .collect(),
            loaded: modules()
                .filter(|name| {
                    loaded.contains(name.as_str()) || self.has(&format!("/sys/module/{name}"))
                })
                .cloned()
                .collect(),
            loadable: loadable.map(|names| {
                modules()
                    .filter(|name| names.contains(*name))
                    .cloned()
                    .collect()
            }),
            options: options.map(|options| {
                let asked = features.iter().flat_map(|feature| &feature.options);
                asked
                    .filter_map(|option| options.get_key_value(option))
                    .map(|(option, made)| (option.clone(), *made))
                    .collect()
            }),
            namespaces: self.names_in("/proc/self/ns"),
            release,
        }
    }

    /// The modules in the folder of this kernel, loadable or built in; none where there is no such folder.
    fn modules_on_disk(&self, release: &str) -> Option<BTreeSet<String>> {
        let folders = [
            format!("/lib/modules/{release}"),
            format!("/usr/lib/modules/{release}"),
        ];
        let folder = folders
            .iter()
            .find(|folder| self.has(&format!("{folder}/modules.dep")))?;
        let lists = ["modules.dep", "modules.builtin"]
            .map(|file| self.read(&format!("{folder}/{file}")).unwrap_or_default());
        // Each line begins with a path such as `kernel/net/bridge/br_netfilter.ko.zst:`.
        let name = |line: &str| {
            let path = line.split(':').next()?;
            let file = path.rsplit('/').next()?;
            let (name, _) = file.split_once(".ko")?;
            Some(name.replace('-', "_"))
        };
        Some(
            lists
                .iter()
                .flat_map(|list| list.lines().filter_map(name))
                .collect(),
        )
    }

    /// The options that are set in the kernel's configuration; none where it cannot be read.
    fn options(
        &self,
        release: &str,
        programs: &BTreeMap<String, PathBuf>,
    ) -> Option<BTreeMap<String, Made>> {
        let packed = || {
            if !self.has(CONFIGURATION) {
                return None;
            }
            let path = self.at(CONFIGURATION).into_os_string().into_string().ok()?;
            self.ask(programs.get(UNPACKER)?, &["-dc".to_owned(), path])
        };
        let text = packed()
            .or_else(|| self.read(&format!("/boot/config-{release}")))
            .or_else(|| self.read(&format!("/lib/modules/{release}/config")))?;
        let set = |line: &str| {
            let (option, value) = line.split_once('=')?;
            let made = match value {
                "y" => Made::BuiltIn,
                "m" => Made::Module,
                _ => return None,
            };
            Some((option.to_owned(), made))
        };
        Some(text.lines().filter_map(set).collect())
    }

    pub(super) fn cgroups(&self) -> Cgroups {
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        if let Some(controllers) = self.read("/sys/fs/cgroup/cgroup.controllers") {
            return Cgroups {
                version: CgroupVersion::V2,
                controllers: words(controllers),
            };
        }
        let names = self.names_in("/sys/fs/cgroup");
        let version = if names.is_empty() {
            CgroupVersion::None
        } else if names.contains("unified") {
            CgroupVersion::Hybrid
        } else {
            CgroupVersion::V1
        };
        // Controllers that are mounted together share a folder named after them all: `cpu,cpuacct`.
        let controllers = names
            .iter()
            .flat_map(|name| name.split(','))
            .filter(|name| !matches!(*name, "systemd" | "unified"));
        Cgroups {
            version,
            controllers: controllers.map(str::to_owned).collect(),
        }
    }

    fn names_in(&self, folder: &str) -> BTreeSet<String> {
        let entries = fs_err::read_dir(self.at(folder))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }
}
