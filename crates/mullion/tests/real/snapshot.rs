//! What there is on this computer that a cluster could leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::computer::{Others, folder, hierarchies, processes, shown};
use crate::lab::place;

/// What keeps the kernel's settings from before the first cluster.
const RECORD: &str = "mullion-kernel.json";

/// What there is, by kind, one line each.
pub(crate) struct Snapshot {
    lines: BTreeMap<&'static str, BTreeSet<String>>,
    /// Who else works here at this moment.
    others: Others,
}

impl Snapshot {
    /// Looks at this computer.
    pub(crate) fn take() -> Self {
        let lines = BTreeMap::from([
            ("mount", mounts()),
            ("process", machine_processes()),
            ("interface", interfaces()),
            ("route", asked("ip", &["route", "show", "table", "all"])),
            ("packet rule", packet_rules()),
            ("old packet rule", asked("iptables-save", &[])),
            ("file", files()),
            ("file below /run", runtime_files()),
            ("control group", control_groups()),
            ("network name space", asked("ip", &["netns", "list"])),
            ("kernel setting", kernel_settings()),
            (
                "loop device",
                asked(
                    "losetup",
                    &["--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                ),
            ),
        ]);
        Self {
            lines,
            others: Others::look(),
        }
    }

    /// What came and what went between this look and a later one, clusters of somebody else aside.
    pub(crate) fn differences(&self, later: &Self) -> Vec<String> {
        let is_ours = |line: &&String| !self.others.have(line) && !later.others.have(line);
        // The record of a cluster that ended before, in a way that could not put the settings back: the next one does.
        let had_record = self.lines["file below /run"].contains(RECORD);
        let is_shared = self.others.have_clusters || later.others.have_clusters || had_record;
        let mut found = Vec::new();
        for (kind, before) in &self.lines {
            // Both are put back with the last cluster of the computer.
            if is_shared && matches!(*kind, "kernel setting" | "file below /run") {
                continue;
            }
            let after = &later.lines[kind];
            let came = after.difference(before).filter(is_ours);
            found.extend(came.map(|line| format!("{kind} is left: {line}")));
            let went = before.difference(after).filter(is_ours);
            found.extend(went.map(|line| format!("{kind} is gone: {line}")));
        }
        found
    }
}

/// The lines that a program writes; none where it is not there or refuses.
fn asked(program: &str, arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    // Comments have dates, and chains have counters.
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let plain = lines.map(|line| {
        line.split(" [")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    });
    // The kernel makes and forgets these by itself.
    let lasting =
        plain.filter(|line| !line.is_empty() && !line.contains("cache") && !line.contains("fe80:"));
    lasting.collect()
}

fn mounts() -> BTreeSet<String> {
    let text = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = text.lines().map(|line| {
        // Without the numbers, which are given anew.
        let fields: Vec<_> = line.split(' ').skip(3).collect();
        fields.join(" ")
    });
    // `ip netns` makes it the first time that anything asks for a network namespace, and keeps it.
    let lines = lines.filter(|line| !line.starts_with("/run/netns /run/netns "));
    lines.collect()
}

/// Processes that are in a machine's control group, carry a machine, or come from a folder of ours.
fn machine_processes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pid in processes() {
        let line = shown(pid, "cmdline");
        // One that has ended is there until its parent takes note.
        if line.is_empty() {
            continue;
        }
        let group = shown(pid, "cgroup");
        let mut words = line.split(' ');
        let is_of_machine = group.contains("/mullion/")
            || words.any(|word| word == "mullion-machine" || word.starts_with("--directory="));
        if is_of_machine {
            // A group tells whose it is where the words do not.
            let group = group.lines().find_map(|line| line.split_once("/mullion/"));
            let group = group.map_or("", |(_, rest)| rest);
            found.insert(format!("{pid} {line} in {group}"));
        }
    }
    found
}

fn interfaces() -> BTreeSet<String> {
    let output = Command::new("ip")
        .args(["-json", "-details", "address"])
        .output()
        .unwrap();
    let links: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let links = links.iter().map(|link| {
        let addresses = link["addr_info"].as_array().into_iter().flatten();
        let addresses = addresses
            .filter(|address| address["scope"] != "link")
            .map(|address| format!("{}/{}", address["local"], address["prefixlen"]));
        let addresses: Vec<_> = addresses.collect();
        let master = link["master"].as_str().unwrap_or_default();
        format!("{} {master} {}", link["ifname"], addresses.join(" "))
    });
    links.collect()
}

/// Every table of the packet filter, as one line.
fn packet_rules() -> BTreeSet<String> {
    let output = Command::new("nft").args(["list", "ruleset"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    // Its own counters change with every packet.
    let tables = text.split("\n}\n").map(|table| {
        let words = table.split_whitespace();
        let mut plain = Vec::new();
        let mut is_count = false;
        for word in words {
            if !is_count {
                plain.push(word);
            }
            is_count = matches!(word, "packets" | "bytes");
        }
        plain.join(" ")
    });
    tables.filter(|table| !table.is_empty()).collect()
}

fn files() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let shared = ["clusters", "locks"].map(|name| place().join(name));
    let [clusters, locks] = shared.clone();
    let tops = [
        place(),
        clusters,
        locks,
        "/run/netns".into(),
        "/run/systemd/nspawn".into(),
        "/run/systemd/machines".into(),
        "/run/mullion".into(),
        "/var/lib/machines".into(),
        "/etc/systemd/system".into(),
        "/etc/cni".into(),
        "/opt/cni".into(),
        "/etc/kubernetes".into(),
        "/var/lib/kubelet".into(),
        "/var/lib/containerd".into(),
        "/var/lib/etcd".into(),
    ];
    for top in tops {
        for name in folder(&top) {
            found.insert(top.join(name).display().to_string());
        }
    }
    // Two of these folders are there as long as any cluster is; templates stay, and the first cluster ever makes them.
    for folder in shared.into_iter().chain([place().join("templates")]) {
        found.remove(&folder.display().to_string());
    }
    found
}

fn runtime_files() -> BTreeSet<String> {
    let names = folder(Path::new("/run")).into_iter();
    names.filter(|name| name.contains("mullion")).collect()
}

fn control_groups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for top in hierarchies() {
        for name in folder(&top.join("mullion")) {
            if top.join("mullion").join(&name).is_dir() {
                found.insert(format!("{}/mullion/{name}", top.display()));
            }
        }
    }
    found
}

fn kernel_settings() -> BTreeSet<String> {
    let names = [
        "net/ipv4/ip_forward",
        "net/ipv4/conf/all/forwarding",
        "net/ipv4/conf/all/rp_filter",
        "net/ipv4/conf/default/rp_filter",
        "net/ipv6/conf/all/forwarding",
        "net/bridge/bridge-nf-call-iptables",
        "net/bridge/bridge-nf-call-ip6tables",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
        "vm/overcommit_memory",
        "fs/inotify/max_user_instances",
        "fs/inotify/max_user_watches",
        "net/netfilter/nf_conntrack_max",
    ];
    let settings = names.iter().filter_map(|name| {
        let value = fs_err::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        Some(format!("{name} = {}", value.trim()))
    });
    settings.collect()
}
