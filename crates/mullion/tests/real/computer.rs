//! This computer: its processes, and what of them is a machine's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mullion_wire::Sha256Digest;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, PLACE};
use crate::ran::tool;
use crate::trial::until;

/// What the kernel calls something of a cluster: a bridge, a control group, an end of a cable.
pub(crate) fn short(text: &str) -> String {
    let digest = Sha256Digest::of(text.as_bytes());
    format!("mul{}", &digest.as_str()[..8])
}

/// The number of every process.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs_err::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// A file that the kernel shows of a process; nothing where it has ended.
pub(crate) fn shown(pid: i32, file: &str) -> String {
    let bytes = fs_err::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The processes in a machine's control groups: all of the machine's.
pub(crate) fn processes_of(cluster: &str, machine: &str) -> Vec<i32> {
    let group = format!("/{}", short(&format!("{cluster}/{machine}")));
    let is_inside = |pid: &i32| shown(*pid, "cgroup").contains(&group);
    processes().into_iter().filter(is_inside).collect()
}

/// The process that carries a machine, where it runs.
pub(crate) fn carrier(lab: &Lab, machine: &str) -> Option<i32> {
    let root = format!("--directory={}", lab.machine(machine).join("disk/root").display());
    let carries = |pid: &i32| shown(*pid, "cmdline").split(' ').any(|word| word == root);
    processes().into_iter().find(carries)
}

/// Ends a machine as a power cut does.
pub(crate) fn cut_power(lab: &Lab, machine: &str) {
    let pid = carrier(lab, machine).unwrap_or_else(|| panic!("{machine} does not run"));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until("the machine ends", Duration::from_secs(10), || {
        match carrier(lab, machine) {
            None => Ok(()),
            Some(pid) => Err(format!("process {pid} is there")),
        }
    });
}

/// Everything of a cluster that does not outlive a restart of the computer goes: processes, control groups, mounts,
/// interfaces, rules, what is below `/run`.
pub(crate) fn restart(lab: &Lab, machines: &[&str]) {
    for machine in machines {
        cut_power(lab, machine);
        until("all processes end", Duration::from_secs(20), || {
            let left = processes_of(&lab.name, machine);
            for pid in left.iter().copied().filter_map(Pid::from_raw) {
                // One that has just ended is as wanted.
                let _ = kill_process(pid, Signal::KILL);
            }
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        for group in groups(&short(&format!("{}/{machine}", lab.name))) {
            remove_group(&group);
        }
    }
    let bridge = short(&lab.name);
    tool("ip", &["link", "delete", "dev", &bridge]);
    if tool("nft", &["list", "tables"]).contains(&bridge) {
        tool("nft", &["delete", "table", "ip", &bridge]);
    }
    let mine = lab.machine("");
    for line in fs_err::read_to_string("/proc/self/mountinfo").unwrap().lines().rev() {
        let point = line.split(' ').nth(4).unwrap();
        if Path::new(point).starts_with(&mine) {
            tool("umount", &[point]);
        }
    }
}

/// The control groups of that name, one in each hierarchy.
pub(crate) fn groups(name: &str) -> Vec<PathBuf> {
    let tops = hierarchies().into_iter();
    let groups = tops.map(|top| top.join("mullion").join(name));
    groups.filter(|group| group.is_dir()).collect()
}

/// Where control groups are mounted.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| {
        let kind = line.split(" - ").nth(1)?;
        let point = line.split(' ').nth(4)?;
        kind.starts_with("cgroup").then(|| PathBuf::from(point))
    });
    points.collect()
}

fn remove_group(group: &Path) {
    for entry in fs_err::read_dir(group).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            remove_group(&path);
        }
    }
    until("the group goes", Duration::from_secs(10), || {
        fs_err::remove_dir(group).map_err(|error| error.to_string())
    });
}

/// How the kernel calls what belongs to clusters that are not these tests': somebody works with them meanwhile.
pub(crate) fn names_of_others() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for cluster in folder(&Path::new(PLACE).join("clusters")) {
        if cluster.starts_with("t-") {
            continue;
        }
        names.insert(short(&cluster));
        for machine in folder(&Path::new(PLACE).join("clusters").join(&cluster).join("machines")) {
            names.insert(short(&format!("{cluster}/{machine}")));
        }
        names.insert(format!("{PLACE}/clusters/{cluster}"));
    }
    names
}

/// The names in a folder; none where it is not there.
pub(crate) fn folder(path: &Path) -> BTreeSet<String> {
    let entries = fs_err::read_dir(path).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}
