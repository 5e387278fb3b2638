//! This computer: its processes, and what of them is a machine's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mullion_wire::Sha256Digest;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, place};
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

/// The processes that carry a machine: the container program, and whoever keeps that running.
pub(crate) fn carriers(lab: &Lab, machine: &str) -> Vec<i32> {
    let root = format!(
        "--directory={}",
        lab.machine(machine).join("disk/root").display()
    );
    let carries = |pid: &i32| shown(*pid, "cmdline").split(' ').any(|word| word == root);
    processes().into_iter().filter(carries).collect()
}

/// Ends a machine as a power cut does: its container program is killed.
#[track_caller]
pub(crate) fn cut_power(lab: &Lab, machine: &str) {
    let program = |pid: &&i32| shown(**pid, "comm").trim() != "sh";
    let found = carriers(lab, machine);
    let pid = found
        .iter()
        .find(program)
        .unwrap_or_else(|| panic!("{machine} does not run"));
    kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    until("the machine ends", Duration::from_secs(10), || {
        let left = carriers(lab, machine);
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("processes {left:?} are there"))
        }
    });
    // What ran in it would be given time to end.
    until("all processes end", Duration::from_secs(20), || {
        let left = processes_of(&lab.name, machine);
        for pid in left.iter().copied().filter_map(Pid::from_raw) {
            // One that has just ended is as wanted.
            let _ = kill_process(pid, Signal::KILL);
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}

/// A machine is gone with its disk.
pub(crate) fn lose(lab: &Lab, machine: &str) {
    cut_power(lab, machine);
    let folder = lab.machine(machine);
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    for point in points.filter(|point| Path::new(point).starts_with(&folder)) {
        crate::ran::tool("umount", &["--lazy", point]);
    }
    fs_err::remove_dir_all(folder).unwrap();
}

/// What Mullion and the container program keep in memory.
const IN_RUN: [&str; 3] = [
    "/run/mullion-kernel.json",
    "/run/mullion-kernel.new",
    "/run/mullion-network.lock",
];

/// Settings of the kernel that a restart puts back, as they are before the first machine.
const SETTINGS: [&str; 9] = [
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// The kernel's settings that machines change, as they are now.
pub(crate) fn settings() -> Vec<(&'static str, String)> {
    let read = |name| {
        let value = fs_err::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        Some((name, value))
    };
    SETTINGS.into_iter().filter_map(read).collect()
}

/// Gives the kernel's settings these values, as a restart does.
pub(crate) fn restore(settings: &[(&str, String)]) {
    for (name, value) in settings {
        fs_err::write(Path::new("/proc/sys").join(name), value).unwrap();
    }
}

/// Everything of a cluster that does not outlive a restart of the computer goes: processes, control groups, mounts,
/// interfaces, rules, what is below `/run`, and the kernel's settings, which are `before` again.
pub(crate) fn restart(lab: &Lab, machines: &[&str], before: &[(&str, String)]) {
    for machine in machines {
        cut_power(lab, machine);
        for group in groups(&short(&format!("{}/{machine}", lab.name))) {
            remove_group(&group);
        }
    }
    let bridge = short(&lab.name);
    tool("ip", &["link", "delete", "dev", &bridge]);
    for family in ["ip", "inet"] {
        if tool("nft", &["list", "tables", family]).contains(&bridge) {
            tool("nft", &["delete", "table", family, &bridge]);
        }
    }
    // The chain that packets pass through where others drop them; usually there is none.
    let chain = format!("mullion-{bridge}");
    let _ = Command::new("iptables")
        .args(["-D", "FORWARD", "-j", &chain])
        .output();
    for verb in ["-F", "-X"] {
        let _ = Command::new("iptables").args([verb, &chain]).output();
    }
    if !Others::look().have_clusters {
        for path in IN_RUN {
            let _ = fs_err::remove_file(path);
        }
        restore(before);
    }
    for machine in machines {
        let name = short(&format!("{}/{machine}", lab.name));
        let left = Path::new("/run/systemd/nspawn/propagate").join(name);
        let _ = fs_err::remove_dir_all(left);
    }
    let mine = lab.machine("");
    for line in fs_err::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .rev()
    {
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

/// The clusters of these tests.
static OURS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Takes down that a cluster is one of these tests'.
pub(crate) fn is_ours(cluster: &str) {
    OURS.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(cluster.to_owned());
}

/// What other people work with on this computer meanwhile.
pub(crate) struct Others {
    /// Short names of what the tests' own clusters have.
    ours: BTreeSet<String>,
    /// Words by which things of others are known.
    words: Vec<String>,
    /// Whether others have clusters.
    pub(crate) have_clusters: bool,
}

impl Others {
    pub(crate) fn look() -> Self {
        let clusters = OURS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let machines = ["cp", "lin", "win", "lb", "box"].iter().flat_map(|group| {
            let numbers = 1..=9;
            numbers.map(move |number| format!("{group}{number}"))
        });
        let machines: Vec<_> = machines.collect();
        let mut ours = BTreeSet::new();
        for cluster in &clusters {
            ours.insert(short(cluster));
            ours.extend(
                machines
                    .iter()
                    .map(|machine| short(&format!("{cluster}/{machine}"))),
            );
        }
        let told = std::env::var("MULLION_OTHERS").unwrap_or_default();
        let told = told.split(',').filter(|word| !word.is_empty());
        let mut words: Vec<_> = told.map(str::to_owned).collect();
        for (top, end) in [("clusters", ""), ("locks", ".lock")] {
            let here = folder(&place().join(top));
            let names = here.iter().filter_map(|name| name.strip_suffix(end));
            let theirs = names.filter(|cluster| !clusters.contains(*cluster));
            let place = place().display().to_string();
            words.extend(theirs.map(|cluster| format!("{place}/{top}/{cluster}{end}")));
        }
        let bridges = tool("ip", &["-details", "address"]);
        let labels = bridges.split("mullion.dev/cluster=").skip(1);
        let is_end = |letter: char| letter.is_whitespace() || letter == ';';
        let mut labels = labels.filter_map(|rest| rest.split(is_end).next());
        let have_clusters = labels.any(|cluster| !clusters.contains(cluster));
        Self {
            ours,
            words,
            have_clusters,
        }
    }

    /// Whether a line tells of something of theirs: by a word of theirs, or by a short name that is not ours.
    pub(crate) fn have(&self, line: &str) -> bool {
        let names = line
            .match_indices("mul")
            .filter_map(|(at, _)| line.get(at..at + 11));
        let is_short = |name: &&str| name[3..].bytes().all(|byte| byte.is_ascii_hexdigit());
        let names: Vec<_> = names.filter(is_short).collect();
        let is_named = !names.is_empty() && !names.iter().any(|name| self.ours.contains(*name));
        is_named || self.words.iter().any(|word| line.contains(word))
    }
}

/// The names in a folder; none where it is not there.
pub(crate) fn folder(path: &Path) -> BTreeSet<String> {
    let entries = fs_err::read_dir(path).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}
