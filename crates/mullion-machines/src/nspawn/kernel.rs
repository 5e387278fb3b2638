//! Settings of this computer's kernel, which all machines share: those that they need, and those that they change.
//!
//! The record (`record.rs`) keeps what the settings were before the first machine. They are put back after the last,
//! unless something else set them or relies on them by then.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_spec::value::ClusterName;

use super::process::{is_in_machine, is_roots_status};
use super::record::{Record, Setting};
use super::{exec, names};
use crate::error::DriverError;

/// Settings with the least value that machines need. Every machine's systemd, kubelet and containerd watch files
/// as the same user: the usual limits are those of one computer and not of ten.
const NEEDED: &[(&str, u64)] = &[
    ("fs/inotify/max_user_instances", 8192),
    ("fs/inotify/max_user_watches", 524_288),
];

/// The switch for passing packets on between interfaces.
const FORWARDING: &str = "net/ipv4/ip_forward";

/// Settings that kubelet changes on whatever computer it runs, with the value that it gives them.
const CHANGED: &[(&str, &str)] = &[
    ("kernel/keys/root_maxbytes", "25000000"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
];

/// The settings with the least value that they need.
fn needed(way_out: WayOut) -> impl Iterator<Item = (&'static str, u64)> {
    let forwarding = (way_out == WayOut::Open).then_some((FORWARDING, 1));
    NEEDED.iter().copied().chain(forwarding)
}

/// What we or a kubelet make of a setting.
pub(super) fn made_of(name: &str, before: &str) -> String {
    let raised = needed(WayOut::Open).find(|(needed, _)| *needed == name);
    let changed = CHANGED.iter().find(|(changed, _)| *changed == name);
    match (raised, changed) {
        (Some((_, least)), _) => {
            let before = before.parse().unwrap_or(u64::MAX);
            before.max(least).to_string()
        }
        (None, Some((_, value))) => (*value).to_owned(),
        (None, None) => before.to_owned(),
    }
}

/// Whether machines have a way out through this computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WayOut {
    Open,
    Closed,
}

/// Whether anybody but machines needs packets passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// Machines alone.
    Ours,
    /// Others too, who may count on the switch by now.
    Shared,
}

/// Programs that make the same changes as a machine's kubelet, where they run beside the machines.
const KUBELETS: &[&str] = &[
    "kubelet",
    "k3s-server",
    "k3s-agent",
    "k0s",
    "rke2",
    "kubelite",
    "microshift",
];

/// Files in which an administrator sets the kernel's settings.
const CONFIGURED: &[&str] = &[
    "etc/sysctl.conf",
    "etc/sysctl.d",
    "etc/ufw/sysctl.conf",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
    "lib/sysctl.d",
];

/// Another name of a setting in those files.
const ALIASES: &[(&str, &str)] = &[("net/ipv4/conf/all/forwarding", FORWARDING)];

/// A kernel's settings, and where it is written down what they were.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    settings: PathBuf,
    record: PathBuf,
    /// The folder that has all processes.
    processes: PathBuf,
    /// The folder that has all files.
    root: PathBuf,
    /// The network namespace that this process is in: some settings are its own.
    namespace: String,
    /// Whether root asks: the kernel shows the namespaces of all processes to root alone.
    is_roots: bool,
}

impl Kernel {
    /// This computer's.
    pub(super) fn here() -> Result<Self, DriverError> {
        Ok(Self {
            settings: "/proc/sys".into(),
            record: "/run/mullion-kernel.json".into(),
            processes: "/proc".into(),
            root: "/".into(),
            namespace: namespace(Path::new("/proc/thread-self/ns/net"))?,
            is_roots: rustix::process::geteuid().is_root(),
        })
    }

    /// One whose settings, record, processes and files lie in a folder.
    #[cfg(test)]
    pub(super) fn played(folder: &Path) -> Self {
        Self {
            settings: folder.join("sys"),
            record: folder.join("before.json"),
            processes: folder.join("proc"),
            root: folder.join("root"),
            namespace: "1".into(),
            is_roots: true,
        }
    }

    /// The first setting that is not good for machines.
    pub(super) fn lacks(&self, way_out: WayOut) -> Result<Option<&'static str>, DriverError> {
        for (name, least) in needed(way_out) {
            if self.is_below(name, least)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Whether the record names a cluster of this network namespace, or of one that is gone with the cluster's network.
    pub(super) fn names(&self, cluster: &ClusterName) -> Result<bool, DriverError> {
        let record = Record::read(&self.record)?;
        let Some(found) = record.clusters.get(cluster) else {
            return Ok(false);
        };
        Ok(*found == self.namespace
            || (self.is_roots && !has_network(cluster, self.namespaces().get(found))))
    }

    /// Takes what an older version wrote down for this namespace, where a network of ours was before.
    pub(super) fn adopt(&self) -> Result<(), DriverError> {
        let mut record = Record::read(&self.record)?;
        record.claim(&self.namespace);
        record.write_if_there(&self.record)
    }

    /// Forgets what was written down for a network namespace that is gone and whose number this one got: the values are
    /// not this one's. `there` are the clusters that have a network in this namespace.
    pub(super) fn forget_former(&self, there: &BTreeSet<ClusterName>) -> Result<(), DriverError> {
        // The namespace of the first process is never gone, also where somebody removed a cluster's network by hand.
        let first = namespace(&self.processes.join("1/ns/net"));
        if first.is_ok_and(|first| first == self.namespace) {
            return Ok(());
        }
        let mut record = Record::read(&self.record)?;
        let mut clusters = record.clusters.iter();
        let is_kept =
            clusters.any(|(name, found)| *found == self.namespace && there.contains(name));
        // An older version wrote no cluster down.
        let may_be_older = record.is_older() && !there.is_empty();
        if is_kept || may_be_older || record.networks.remove(&self.namespace).is_none() {
            return Ok(());
        }
        record.write(&self.record)
    }

    /// Makes the settings good for a cluster's machines.
    pub(super) fn prepare(
        &self,
        cluster: &ClusterName,
        way_out: WayOut,
    ) -> Result<(), DriverError> {
        let needed: Vec<_> = needed(way_out).collect();
        let mut record = Record::read(&self.record)?;
        // From here on what an older version wrote down is not taken for this namespace's.
        record.networks.entry(self.namespace.clone()).or_default();
        let names = needed.iter().map(|(name, _)| *name);
        for name in names.chain(CHANGED.iter().map(|(name, _)| *name)) {
            let Some(now) = self.read(name)? else {
                continue;
            };
            let known = record.of(name, &self.namespace);
            // The first value stays the one before. Only where somebody else has changed it since is it theirs.
            let is_news = known.get(name).is_none_or(|known| {
                now != known.before && now != known.ours && is_raised(name, &now, way_out)
            });
            if is_news {
                let ours = made_of(name, &now);
                known.insert(name.to_owned(), Setting { before: now, ours });
            }
        }
        record
            .clusters
            .insert(cluster.clone(), self.namespace.clone());
        // Written before anything is changed: a run that is killed here puts back what is so already.
        record.write(&self.record)?;
        for (name, least) in needed {
            if self.is_below(name, least)? {
                fs_err::write(self.settings.join(name), least.to_string())?;
            }
        }
        Ok(())
    }

    /// Puts back what the settings were before this cluster, as far as no other cluster is left. `others` are the
    /// clusters that have a network in this namespace.
    pub(super) fn put_back(
        &self,
        cluster: &ClusterName,
        others: &BTreeSet<ClusterName>,
        forwarding: Forwarding,
    ) -> Result<(), DriverError> {
        let mut record = Record::read(&self.record)?;
        let namespaces = self.namespaces();
        // Without its network a cluster is gone, however that came.
        record.clusters.retain(|name, namespace| {
            if *namespace == self.namespace {
                name != cluster && others.contains(name)
            } else {
                has_network(name, namespaces.get(namespace))
            }
        });
        record.retain_networks(|namespace| {
            namespace == self.namespace || namespaces.contains_key(namespace)
        });
        if !others.is_empty() {
            return record.write_if_there(&self.record);
        }
        let own = record.networks.remove(&self.namespace).unwrap_or_default();
        self.put_back_all(&own, forwarding)?;
        // An older version wrote no cluster down: one of another namespace is known by its machines.
        let is_needed = !record.clusters.is_empty() || (record.is_older() && self.has_machine());
        if !is_needed {
            self.put_back_all(&record.settings, forwarding)?;
            return Record::remove(&self.record);
        }
        record.write_if_there(&self.record)
    }

    fn put_back_all(
        &self,
        settings: &BTreeMap<String, Setting>,
        forwarding: Forwarding,
    ) -> Result<(), DriverError> {
        let has_kubelet = self.has_kubelet();
        for (name, Setting { before, ours }) in settings {
            let is_ours = |now: String| now == *ours && now != *before;
            if !self.read(name)?.is_some_and(is_ours) {
                continue;
            }
            let is_changed = CHANGED.iter().any(|(changed, _)| changed == name);
            let is_relied_on = (name == FORWARDING && forwarding == Forwarding::Shared)
                || (is_changed && has_kubelet)
                || self.is_configured(name, ours);
            if !is_relied_on {
                fs_err::write(self.settings.join(name), before)?;
            }
        }
        Ok(())
    }

    /// Whether a kubelet of this computer runs. It is root's, since only root changes the settings: any user can give a
    /// process its name. One in a machine of ours is not the computer's.
    fn has_kubelet(&self) -> bool {
        self.processes().any(|process| {
            let name = read_or_empty(&process.join("comm"));
            KUBELETS.contains(&name.trim())
                && is_roots_status(&read_or_empty(&process.join("status")))
                && !is_in_machine(&read_or_empty(&process.join("cgroup")))
        })
    }

    /// Whether a machine runs whose container program has this record before it, in whatever network namespace.
    fn has_machine(&self) -> bool {
        let file = |path: &Path| {
            let meta = fs_err::metadata(path).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        let own = file(&self.record);
        let record = self.record.strip_prefix("/").unwrap_or(&self.record);
        self.processes().any(|process| {
            is_in_machine(&read_or_empty(&process.join("cgroup")))
                && own.is_some()
                && file(&process.join("root").join(record)) == own
        })
    }

    /// The network namespaces that a process is in or that have a name, each with a file that stands for it.
    fn namespaces(&self) -> BTreeMap<String, PathBuf> {
        let named = entries(&self.root.join("run/netns"));
        let of_processes = self.processes().map(|path| path.join("ns/net"));
        of_processes
            .chain(named)
            .filter_map(|path| Some((namespace(&path).ok()?, path)))
            .collect()
    }

    /// The folder of each process.
    fn processes(&self) -> impl Iterator<Item = PathBuf> + use<> {
        entries(&self.processes).filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().parse::<u32>().is_ok()
        })
    }

    /// Whether an administrator's file sets a setting to this value. Then it is theirs, whoever wrote it first.
    fn is_configured(&self, name: &str, value: &str) -> bool {
        let files = CONFIGURED.iter().flat_map(|place| {
            let path = self.root.join(place);
            if path.is_dir() {
                entries(&path).collect()
            } else {
                vec![path]
            }
        });
        files
            // One that cannot be read sets nothing.
            .filter_map(|path| fs_err::read_to_string(path).ok())
            .any(|text| text.lines().any(|line| sets(line, name, value)))
    }

    fn is_below(&self, name: &str, least: u64) -> Result<bool, DriverError> {
        let value = self.read(name)?.and_then(|value| value.parse().ok());
        Ok(value.is_some_and(|value: u64| value < least))
    }

    /// A setting's value; nothing where this kernel does not have it.
    fn read(&self, name: &str) -> Result<Option<String>, DriverError> {
        let path: &Path = &self.settings.join(name);
        match fs_err::read_to_string(path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether we are about to raise a setting from this value.
fn is_raised(name: &str, now: &str, way_out: WayOut) -> bool {
    let least = needed(way_out).find(|(needed, _)| *needed == name);
    least.is_some_and(|(_, least)| now.parse().is_ok_and(|now: u64| now < least))
}

/// Whether a cluster has its bridge in a network namespace. The kernel gives the number of one that is gone to the next.
fn has_network(cluster: &ClusterName, namespace: Option<&PathBuf>) -> bool {
    let Some(namespace) = namespace else {
        return false;
    };
    let enter = format!("--net={}", namespace.display());
    let bridge = names::bridge(cluster);
    let asked = exec::run("nsenter", &[&enter, "ip", "link", "show", "dev", &bridge]);
    // Who could not look has not said that it is gone.
    !matches!(asked, Err(DriverError::Program { tail, .. }) if tail.contains("does not exist"))
}

/// What tells a network namespace from others, as long as it is there.
fn namespace(path: &Path) -> Result<String, DriverError> {
    Ok(fs_err::metadata(path)?.ino().to_string())
}

/// A file's text; nothing where it cannot be read. A process may end at any time.
fn read_or_empty(path: &Path) -> String {
    fs_err::read_to_string(path).unwrap_or_default()
}

/// What is in a folder; nothing where it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Whether a line of a sysctl file gives a setting this value.
fn sets(line: &str, name: &str, value: &str) -> bool {
    let Some((key, given)) = line.split_once('=') else {
        return false;
    };
    // A minus says that a failure does not matter. Both ways to write a name are allowed.
    let key = key.trim().trim_start_matches('-').replace('.', "/");
    let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
    let key = alias.map_or(key.as_str(), |(_, name)| *name);
    key == name && given.trim() == value
}

#[cfg(test)]
mod tests;
