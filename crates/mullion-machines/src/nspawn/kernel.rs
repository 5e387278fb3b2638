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
const KUBELETS: &[&str] = &["kubelet", "k3s-server", "k3s-agent", "k0s", "rke2"];

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
        // The kernel shows every process's namespace to root alone.
        let sees_all = || namespace(&self.processes.join("1/ns/net")).is_ok();
        Ok(*found == self.namespace || (sees_all() && !self.namespaces().contains(found)))
    }

    /// Takes what an older version wrote down for this namespace, where a network of ours was before.
    pub(super) fn adopt(&self) -> Result<(), DriverError> {
        let mut record = Record::read(&self.record)?;
        record.claim(&self.namespace);
        record.write_if_there(&self.record)
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
                namespaces.contains(namespace)
            }
        });
        record.retain_networks(|namespace| {
            namespace == self.namespace || namespaces.contains(namespace)
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

    /// The network namespaces that a process is in or that have a name.
    fn namespaces(&self) -> BTreeSet<String> {
        let named = entries(&self.root.join("run/netns"));
        let of_processes = self
            .processes()
            .filter_map(|path| namespace(&path.join("ns/net")).ok());
        let named = named.filter_map(|path| namespace(&path).ok());
        of_processes.chain(named).collect()
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

/// What tells a network namespace from others.
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
mod tests {
    use super::*;

    fn kernel(folder: &Path) -> Kernel {
        let kernel = Kernel::played(folder);
        for (name, value) in [
            ("fs/inotify/max_user_instances", "128\n"),
            ("fs/inotify/max_user_watches", "1000000\n"),
            ("net/ipv4/ip_forward", "0\n"),
            ("kernel/panic", "0\n"),
        ] {
            let path = kernel.settings.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, value).unwrap();
        }
        kernel
    }

    fn cluster(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    fn none() -> BTreeSet<ClusterName> {
        BTreeSet::new()
    }

    const INSTANCES: &str = "fs/inotify/max_user_instances";

    #[test]
    fn settings_are_raised_never_lowered_and_put_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        assert_eq!(read(INSTANCES), "8192");
        assert_eq!(read("fs/inotify/max_user_watches"), "1000000");
        assert_eq!(read(FORWARDING), "1");
        // A kubelet's doing, and the same cluster again.
        fs_err::write(kernel.settings.join("kernel/panic"), "10").unwrap();
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        for _ in 0..2 {
            kernel
                .put_back(&cluster("a"), &none(), Forwarding::Ours)
                .unwrap();
        }
        assert_eq!(read(INSTANCES), "128");
        assert_eq!(read(FORWARDING), "0");
        assert_eq!(read("kernel/panic"), "0");
        assert!(!kernel.record.exists());
    }

    #[test]
    fn without_a_way_out_nothing_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("a"), WayOut::Closed).unwrap();
        assert_eq!(kernel.read(FORWARDING).unwrap().unwrap(), "0");
    }

    #[test]
    fn promise_08_what_somebody_else_has_set_since_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let write = |name: &str, value: &str| {
            fs_err::write(kernel.settings.join(name), value).unwrap();
        };
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        write(INSTANCES, "16384");
        write("fs/inotify/max_user_watches", "524288");
        write("kernel/panic", "30");
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Shared)
            .unwrap();
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        assert_eq!(read(INSTANCES), "16384");
        assert_eq!(read("fs/inotify/max_user_watches"), "524288");
        assert_eq!(read("kernel/panic"), "30");
        assert_eq!(read(FORWARDING), "1");
        assert!(!kernel.record.exists());
    }

    #[test]
    fn promise_08_a_value_that_somebody_lowered_is_put_back_as_they_left_it() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        fs_err::write(kernel.settings.join(INSTANCES), "256").unwrap();
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "8192");
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "256");
    }

    #[test]
    fn promise_08_settings_that_a_file_or_a_kubelet_of_the_computer_wants_stay() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        put("sys/kernel/panic", "10");
        put("proc/71/comm", "kubelet\n");
        put("proc/71/status", "Name:\tkubelet\nUid:\t0\t0\t0\t0\n");
        put("proc/71/cgroup", "0::/system.slice/kubelet.service\n");
        put(
            "root/etc/sysctl.d/60-router.conf",
            "# net.ipv4.ip_forward = 0\n-net.ipv4.conf.all.forwarding=1\n",
        );
        put(
            "root/etc/sysctl.conf",
            "fs/inotify/max_user_instances = 8192\n",
        );
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        assert_eq!(read(FORWARDING), "1");
        assert_eq!(read(INSTANCES), "8192");
        assert_eq!(read("kernel/panic"), "10");
        // Another value in a file is no reason.
        assert!(!sets("net.ipv4.ip_forward=0", FORWARDING, "1"));
        assert!(!sets("#net.ipv4.ip_forward=1", FORWARDING, "1"));
        assert!(sets(" net.ipv4.ip_forward = 1 ", FORWARDING, "1"));
    }

    #[test]
    fn promise_08_two_clusters_share_a_record_and_the_last_puts_back() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        for name in ["a", "b"] {
            kernel.prepare(&cluster(name), WayOut::Open).unwrap();
        }
        kernel
            .put_back(&cluster("a"), &[cluster("b")].into(), Forwarding::Ours)
            .unwrap();
        assert_eq!(
            (read(INSTANCES), read(FORWARDING)),
            ("8192".into(), "1".into())
        );
        assert!(kernel.names(&cluster("b")).unwrap() && !kernel.names(&cluster("a")).unwrap());
        kernel
            .put_back(&cluster("b"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(
            (read(INSTANCES), read(FORWARDING)),
            ("128".into(), "0".into())
        );
        assert!(!kernel.record.exists());
    }

    #[test]
    fn promise_08_a_cluster_whose_bridge_is_gone_does_not_keep_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("lost"), WayOut::Open).unwrap();
        assert!(kernel.names(&cluster("lost")).unwrap());
        kernel.prepare(&cluster("b"), WayOut::Open).unwrap();
        // What a killed run leaves beside it.
        fs_err::write(kernel.record.with_extension("new"), "{").unwrap();
        kernel
            .put_back(&cluster("b"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "128");
        let left = fs_err::read_dir(folder.path()).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["sys"]);
    }

    #[test]
    fn promise_08_a_cluster_whose_namespace_is_gone_is_found_by_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let one = kernel(folder.path());
        one.prepare(&cluster("a"), WayOut::Open).unwrap();
        let mut other = one.clone();
        other.namespace = "2".into();
        assert!(!other.names(&cluster("a")).unwrap(), "nobody may look");
        let first = folder.path().join("proc/1/ns/net");
        fs_err::create_dir_all(first.parent().unwrap()).unwrap();
        fs_err::write(&first, "").unwrap();
        assert!(other.names(&cluster("a")).unwrap());
        assert!(!other.names(&cluster("b")).unwrap());
        other
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(one.read(INSTANCES).unwrap().unwrap(), "128");
        assert!(!one.record.exists());
    }

    #[test]
    fn promise_08_network_namespaces_have_a_switch_each_and_share_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let one = kernel(folder.path());
        // The other namespace: its switch is another file, the limits are the same.
        let mut other = one.clone();
        other.namespace = "2".into();
        let read = |name: &str| one.read(name).unwrap().unwrap();
        one.prepare(&cluster("a"), WayOut::Open).unwrap();
        fs_err::write(one.settings.join(FORWARDING), "0").unwrap();
        other.prepare(&cluster("b"), WayOut::Open).unwrap();
        // A process is in the other one: its clusters live.
        let link = folder.path().join("proc/9/ns/net");
        fs_err::create_dir_all(link.parent().unwrap()).unwrap();
        fs_err::write(&link, "").unwrap();
        other.namespace = namespace(&link).unwrap();
        other.prepare(&cluster("b"), WayOut::Open).unwrap();
        one.put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(read(INSTANCES), "8192", "the other needs it");
        assert!(other.names(&cluster("b")).unwrap());
        other
            .put_back(&cluster("b"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(read(INSTANCES), "128");
        assert!(!one.record.exists());
    }

    #[test]
    fn promise_08_a_process_that_is_only_called_kubelet_keeps_no_setting() {
        let root = "Uid:\t0\t0\t0\t0\n";
        for (status, cgroup) in [
            ("Uid:\t1000\t1000\t1000\t1000\n", "0::/user.slice\n"),
            ("Uid:\t1000\t0\t0\t0\n", "0::/user.slice\n"),
            ("", ""),
            (root, "3:pids:/mullion/mul0123abcd/kubelet.slice\n"),
            (root, "0::/system.slice/mullion-dev.lin1.service/payload\n"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let kernel = kernel(folder.path());
            kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
            fs_err::write(kernel.settings.join("kernel/panic"), "10").unwrap();
            let process = kernel.processes.join("71");
            fs_err::create_dir_all(&process).unwrap();
            for (file, text) in [
                ("comm", "kubelet\n"),
                ("status", status),
                ("cgroup", cgroup),
            ] {
                fs_err::write(process.join(file), text).unwrap();
            }
            kernel
                .put_back(&cluster("a"), &none(), Forwarding::Ours)
                .unwrap();
            assert_eq!(
                kernel.read("kernel/panic").unwrap().unwrap(),
                "0",
                "{status}{cgroup}"
            );
        }
    }

    const OLDER: &str =
        r#"{"fs/inotify/max_user_instances":"128","net/ipv4/ip_forward":"0","kernel/panic":"0"}"#;

    #[test]
    fn promise_08_the_record_of_an_older_version_is_put_back() {
        for adopts_at in ["up", "down"] {
            let folder = tempfile::tempdir().unwrap();
            let kernel = kernel(folder.path());
            kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
            fs_err::write(&kernel.record, OLDER).unwrap();
            kernel.adopt().unwrap();
            if adopts_at == "up" {
                kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
            }
            kernel
                .put_back(&cluster("a"), &none(), Forwarding::Ours)
                .unwrap();
            let read = |name: &str| kernel.read(name).unwrap().unwrap();
            assert_eq!(
                (read(INSTANCES), read(FORWARDING)),
                ("128".into(), "0".into())
            );
            assert!(!kernel.record.exists());
        }
    }

    #[test]
    fn promise_08_the_record_of_an_older_version_waits_for_a_cluster_of_another_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let older = kernel(folder.path());
        older.prepare(&cluster("a"), WayOut::Open).unwrap();
        fs_err::write(&older.record, OLDER).unwrap();
        // The other namespace passed packets on before: its switch is another file, the limits are the same.
        let mut other = older.clone();
        other.namespace = "2".into();
        let read = |name: &str| older.read(name).unwrap().unwrap();
        // A machine of the older version's cluster runs.
        let process = older.processes.join("9");
        fs_err::create_dir_all(&process).unwrap();
        fs_err::write(process.join("cgroup"), "2:pids:/mullion/mul0123abcd\n").unwrap();
        fs_err::os::unix::fs::symlink("/", process.join("root")).unwrap();
        other.prepare(&cluster("b"), WayOut::Open).unwrap();
        other
            .put_back(&cluster("b"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(read(FORWARDING), "1", "what the other had before");
        assert_eq!(read(INSTANCES), "8192", "the machine needs it");
        // A command that finds no network in a third one takes nothing for its own.
        other.namespace = "3".into();
        other
            .put_back(&cluster("c"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(
            (read(FORWARDING), read(INSTANCES)),
            ("1".into(), "8192".into())
        );
        fs_err::remove_dir_all(&process).unwrap();
        older.adopt().unwrap();
        older
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(
            (read(FORWARDING), read(INSTANCES)),
            ("0".into(), "128".into())
        );
        assert!(!older.record.exists());
    }

    #[test]
    fn promise_08_a_record_that_cannot_be_read_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        for text in [
            r#"{"clusters":{},"settings":{},"networks":{},"more":1}"#,
            "{",
        ] {
            fs_err::write(&kernel.record, text).unwrap();
            let made = kernel.prepare(&cluster("a"), WayOut::Open).unwrap_err();
            assert!(made.hint().is_some(), "{made:?}");
            let ended = kernel.put_back(&cluster("a"), &none(), Forwarding::Ours);
            assert!(
                matches!(ended, Err(DriverError::Record { .. })),
                "{ended:?}"
            );
            assert_eq!(fs_err::read_to_string(&kernel.record).unwrap(), text);
            assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "128");
        }
    }

    #[test]
    fn a_record_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        let first = fs_err::File::open(&kernel.record).unwrap();
        kernel.prepare(&cluster("b"), WayOut::Open).unwrap();
        // Another file took its place: the old one was never open for writing.
        assert_eq!(first.metadata().unwrap().nlink(), 0);
        assert!(!kernel.record.with_extension("new").exists());
    }
}
