//! Machines that run, found among this computer's processes.
//!
//! No number of a process is written down anywhere, so nothing can be out of date. A process carries a machine by proof
//! of what the kernel tells of it, and any user can give a process the arguments and the name of another:
//!
//! - its user is root, also the one that it could go back to;
//! - its program is the container program or the shell that keeps it running, as we would start them;
//! - its mount name space is not ours, and the machine's overlay is mounted there;
//! - the container program is in the machine's control group, or in its unit of systemd.
//!
//! The arguments only tell which processes to look at. Before a process is sent a signal, it is held by a descriptor and
//! looked at again: a number that was given to another process meanwhile is never signalled.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_plan::Trouble;
use mullion_spec::value::{ClusterName, MachineName};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cgroup::Group;
use super::place::Home;
use super::{exec, mounts, names};
use crate::error::DriverError;
use crate::quirks::cgroup_mounts;

/// The container program.
pub(super) const PROGRAM: &str = "systemd-nspawn";

/// What keeps the container program running.
const KEEPER: &str = "sh";

/// The argument before a machine's root folder.
const ROOT: &str = "--directory=";

/// The argument that names a machine's root folder.
pub(super) fn root_argument(root: &Path) -> String {
    format!("{ROOT}{}", root.display())
}

/// By what the processes of a machine are known.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// Where its overlay is mounted.
    root: PathBuf,
    /// The folder that its overlay writes into.
    upper: PathBuf,
    /// Its control groups, where we make them.
    group: Group,
    /// The name of its control groups.
    container: String,
    /// Its unit, where systemd runs this computer.
    unit: String,
}

impl Body {
    pub(super) fn new(
        home: &Home,
        cluster: &ClusterName,
        machine: &MachineName,
    ) -> Result<Self, DriverError> {
        let container = names::container(cluster, machine);
        let unit = names::unit(cluster, machine);
        Ok(Self {
            root: home.root(),
            upper: home.upper(),
            group: Group::new(&cgroup_mounts()?, &container, &unit),
            container,
            unit,
        })
    }

    /// Its control groups.
    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// Whether anything of it runs.
    pub(super) fn is_alive(&self, scan: &Scan) -> bool {
        let carriers = scan.roots.get(&self.root).into_iter().flatten();
        carriers.copied().any(|pid| self.is_carried_by(pid)) || self.group.is_populated()
    }

    /// The upper folder of another machine of this name, whose processes are in the control groups. None of ours are.
    pub(super) fn intruder(&self) -> Option<PathBuf> {
        if !rustix::process::geteuid().is_root() {
            // Mounts are told to root alone, and nobody else ends machines.
            return None;
        }
        let tail: PathBuf = self.upper.iter().rev().take(3).collect();
        let tail: PathBuf = tail.iter().rev().collect();
        let mut other = None;
        for pid in self.group.processes() {
            for mount in mounts::of(&pid.as_raw_pid().to_string()).unwrap_or_default() {
                match mount.upper {
                    Some(upper) if upper == self.upper => return None,
                    Some(upper) if upper.ends_with(&tail) => other = Some(upper),
                    _ => {}
                }
            }
        }
        other
    }

    /// The machine's first process, once it runs the machine's own system. Also where the container program is gone.
    fn leader(&self) -> Option<Pid> {
        let mut processes = self.group.processes().into_iter();
        processes.find(|pid| self.is_led_by(*pid).unwrap_or_default())
    }

    /// Whether the machine's first process is there.
    pub(super) fn is_led(&self) -> bool {
        self.leader().is_some()
    }

    /// The root folder of the running machine, held open; nothing where its first process is not there.
    ///
    /// It is the machine's overlay and never this computer's own root.
    pub(super) fn open_root(&self) -> Result<Option<OwnedFd>, DriverError> {
        let Some(pid) = self.leader() else {
            return Ok(None);
        };
        let held = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(held) => held,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        let path = format!("/proc/{}/root", pid.as_raw_pid());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(std::io::Error::from)?;
        // Held now. If it still is the one and still lives, the folder is the machine's.
        let is_it = self.is_led_by(pid).unwrap_or_default() && self.is_overlay(pid, &root)?;
        let lives = rustix::process::test_kill_process(pid).is_ok() && state(pid).is_some();
        drop(held);
        if is_it && lives {
            return Ok(Some(root));
        }
        Err(DriverError::NotOurs {
            what: "the process",
            name: pid.as_raw_pid().to_string(),
        })
    }

    /// Whether an open folder is the machine's overlay, by the device that the kernel gave it.
    fn is_overlay(&self, pid: Pid, root: &OwnedFd) -> Result<bool, DriverError> {
        let found = rustix::fs::fstat(root).map_err(std::io::Error::from)?;
        let host = fs_err::metadata("/")?;
        let device = (
            rustix::fs::major(found.st_dev),
            rustix::fs::minor(found.st_dev),
        );
        let is_host = (found.st_dev, found.st_ino) == (host.dev(), host.ino());
        let mounts = mounts::of(&pid.as_raw_pid().to_string())?;
        let is_mounted = mounts.iter().any(|mount| {
            mount.at == Path::new("/")
                && mount.upper.as_ref() == Some(&self.upper)
                && mount.device == device
        });
        Ok(is_mounted && !is_host)
    }

    /// Whether a process is the machine's first one.
    fn is_led_by(&self, pid: Pid) -> Option<bool> {
        let text = status(&pid.as_raw_pid().to_string())?;
        let own = status("self")?;
        let numbers = numbers(&text, "NSpid:");
        let depth = numbers_len(&own, "NSpid:") + 1;
        let is_first = numbers.len() == depth && numbers.last() == Some(&1);
        let lies_over = |mount: &mounts::Mount| {
            mount.at == Path::new("/") && mount.upper.as_ref() == Some(&self.upper)
        };
        Some(
            is_first
                && is_apart(pid, "mnt")?
                && is_apart(pid, "pid")?
                && self.is_grouped(pid)?
                && mounts::of(&pid.as_raw_pid().to_string())
                    .ok()?
                    .iter()
                    .any(lies_over)
                && !runs(pid, PROGRAM),
        )
    }

    /// Whether a process is in the machine's control group, or in its unit.
    fn is_grouped(&self, pid: Pid) -> Option<bool> {
        let text = fs_err::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_pid())).ok()?;
        Some(is_grouped(&text, &self.container, &self.unit))
    }

    /// Whether a process carries the machine: the container program, or what keeps it running.
    fn is_carried_by(&self, pid: Pid) -> bool {
        if root_of(pid).as_deref() != Some(&self.root) || !is_roots(pid) {
            return false;
        }
        if !rustix::process::geteuid().is_root() {
            // The rest is told to root alone; whoever else only looks can do no harm.
            return true;
        }
        let is_program = if runs(pid, PROGRAM) {
            self.is_grouped(pid).unwrap_or_default()
        } else {
            runs(pid, KEEPER)
        };
        is_program && is_apart(pid, "mnt").unwrap_or_default() && self.is_mounted_for(pid)
    }

    fn is_mounted_for(&self, pid: Pid) -> bool {
        let mounts = mounts::of(&pid.as_raw_pid().to_string()).unwrap_or_default();
        let is_it = |mount: &mounts::Mount| mount.upper.as_ref() == Some(&self.upper);
        mounts.iter().any(is_it)
    }
}

/// A running machine that has this cluster's name and no folder below the folder of all clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stray {
    /// Its overlay writes into this folder, which is in another place.
    Elsewhere(PathBuf),
    /// Somebody removed its folder.
    NoFolder(PathBuf),
}

/// A running machine of the cluster that has no folder below `clusters`, and why it must be left as it is.
pub(super) fn stray(
    cluster: &ClusterName,
    clusters: &Path,
) -> Result<Option<Trouble>, DriverError> {
    if !rustix::process::geteuid().is_root() {
        // Mounts are told to root alone.
        return Ok(None);
    }
    for pid in processes()? {
        let group = fs_err::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_pid()));
        let group = group.unwrap_or_default();
        if !is_in_machine(&group) || !runs(pid, PROGRAM) || !is_roots(pid) {
            continue;
        }
        let mounts = mounts::of(&pid.as_raw_pid().to_string()).unwrap_or_default();
        let mut uppers = mounts.into_iter().filter_map(|mount| mount.upper);
        if let Some(found) = uppers.find_map(|upper| judged(&upper, cluster, clusters)) {
            return Ok(Some(match found {
                Stray::Elsewhere(upper) => super::whose::runs_elsewhere(&upper),
                Stray::NoFolder(folder) => Trouble::NoFolder {
                    folder: folder.display().to_string(),
                    end: unit_of(&group).map_or_else(
                        || format!("kill {}", pid.as_raw_pid()),
                        |unit| format!("systemctl stop {unit}"),
                    ),
                },
            }));
        }
    }
    Ok(None)
}

/// Judges a running machine by the folder that its overlay writes into; nothing where it is not the cluster's, or has its
/// folder.
fn judged(upper: &Path, cluster: &ClusterName, clusters: &Path) -> Option<Stray> {
    let place = place_of(upper, cluster)?;
    if !is_same(place, clusters) {
        return Some(Stray::Elsewhere(upper.to_owned()));
    }
    let inside = upper.strip_prefix(place).ok()?;
    // `NAME/machines/MACHINE`. It is looked for now: a machine may have been made since the folders were listed.
    let folder = clusters.join(inside.ancestors().nth(2)?);
    let is_gone = matches!(
        fs_err::symlink_metadata(&folder),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound
    );
    is_gone.then_some(Stray::NoFolder(folder))
}

/// The unit of systemd that a process is in, where it is a machine's.
fn unit_of(text: &str) -> Option<&str> {
    let parts = text.split(['/', '\n']);
    let mut units = parts.filter(|part| names::is_unit(part));
    units.next()
}

/// The folder of all clusters that a machine of the cluster is in: `CLUSTERS/NAME/machines/MACHINE/disk/upper`.
fn place_of<'p>(upper: &'p Path, cluster: &ClusterName) -> Option<&'p Path> {
    let above: Vec<_> = upper.ancestors().take(6).collect();
    let named = |level: usize, name: &str| {
        let path: Option<&&Path> = above.get(level);
        path.is_some_and(|path| path.ends_with(name))
    };
    let is_ours = named(0, "upper")
        && named(1, "disk")
        && named(3, "machines")
        && named(4, cluster.as_str())
        && named(5, "clusters");
    above.get(5).copied().filter(|_| is_ours)
}

/// Whether two paths lead to one folder, whatever links or mounts are between.
fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let meta = fs_err::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    one == other || file(one).is_some_and(|found| Some(found) == file(other))
}

/// The processes that carry a running machine, the first of them first: the one that keeps it running, and the
/// container program. Held by descriptors.
#[derive(Debug)]
pub(super) struct Running<'a> {
    body: &'a Body,
    processes: Vec<(Pid, OwnedFd)>,
}

impl<'a> Running<'a> {
    /// Those of a machine.
    pub(super) fn find(body: &'a Body) -> Result<Option<Self>, DriverError> {
        let mut held = Vec::new();
        let mut scan = Scan::now()?;
        for pid in scan.roots.remove(&body.root).unwrap_or_default() {
            let fd = match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(fd) => fd,
                Err(rustix::io::Errno::SRCH) => continue,
                Err(error) => return Err(std::io::Error::from(error).into()),
            };
            // Held now: if it is the one, it stays the one.
            if body.is_carried_by(pid) {
                held.push((pid, fd));
            }
        }
        Ok((!held.is_empty()).then_some(Self {
            body,
            processes: held,
        }))
    }

    /// Whether any of them has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.processes.iter().any(|(pid, _)| {
            let is_over = state(*pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'));
            !is_over && root_of(*pid).as_deref() == Some(&self.body.root)
        })
    }

    /// Asks the container program to shut the machine down.
    pub(super) fn ask_to_end(&self) -> Result<(), DriverError> {
        match self.container() {
            Some((_, fd)) => signal(fd, Signal::TERM),
            // It is only about to start: nothing of the machine runs yet.
            None => self.kill(),
        }
    }

    /// Ends them all, the one that would start the machine again first.
    pub(super) fn kill(&self) -> Result<(), DriverError> {
        self.processes
            .iter()
            .try_for_each(|(_, fd)| signal(fd, Signal::KILL))
    }

    /// The container program, and not the children that it has while a machine starts: parents come first.
    fn container(&self) -> Option<&(Pid, OwnedFd)> {
        self.processes.iter().find(|(pid, _)| runs(*pid, PROGRAM))
    }
}

/// Sends a signal to a process that is held; one that has ended already gets none.
fn signal(fd: &OwnedFd, signal: Signal) -> Result<(), DriverError> {
    match pidfd_send_signal(fd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// The root folders that processes of this computer have among their arguments, with those processes: parents before
/// their children. That a process names a machine is no proof that it carries it.
#[derive(Debug)]
pub(super) struct Scan {
    roots: BTreeMap<PathBuf, Vec<Pid>>,
}

impl Scan {
    /// Looks at every process of this computer.
    pub(super) fn now() -> Result<Self, DriverError> {
        let mut found: BTreeMap<PathBuf, BTreeMap<i32, i32>> = BTreeMap::new();
        for pid in processes()? {
            if let Some((root, (state, parent))) = root_of(pid).zip(state(pid))
                && !matches!(state, 'Z' | 'X')
            {
                let family = found.entry(root).or_default();
                family.insert(pid.as_raw_pid(), parent);
            }
        }
        let ordered = |family: BTreeMap<i32, i32>| {
            let depth = |pid: &i32| {
                let above = |pid: &i32| family.get(pid).copied();
                std::iter::successors(above(pid), above).count()
            };
            let mut pids: Vec<_> = family.keys().copied().collect();
            pids.sort_by_key(|pid| (depth(pid), *pid));
            pids.into_iter().filter_map(Pid::from_raw).collect()
        };
        let roots = found.into_iter();
        Ok(Self {
            roots: roots
                .map(|(root, family)| (root, ordered(family)))
                .collect(),
        })
    }
}

fn processes() -> Result<Vec<Pid>, DriverError> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        found.extend(number.and_then(Pid::from_raw));
    }
    Ok(found)
}

/// The root folder that a process names among its arguments, if it names one.
fn root_of(pid: Pid) -> Option<PathBuf> {
    let arguments = fs_err::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).ok()?;
    arguments
        .split(|byte| *byte == 0)
        .filter_map(|argument| std::str::from_utf8(argument).ok())
        .find_map(|argument| argument.strip_prefix(ROOT))
        .map(PathBuf::from)
}

/// Whether a process runs a program of this computer: the one that we would start, or one that was at its path until
/// another version was installed.
fn runs(pid: Pid, program: &str) -> bool {
    let link = PathBuf::from(format!("/proc/{}/exe", pid.as_raw_pid()));
    let Some(path) = installed(program) else {
        return false;
    };
    let same_file = || {
        let (found, ours) = (fs_err::metadata(&link).ok()?, fs_err::metadata(&path).ok()?);
        Some((found.dev(), found.ino()) == (ours.dev(), ours.ino()))
    };
    if same_file().unwrap_or_default() {
        return true;
    }
    let replaced = || {
        let target = fs_err::read_link(&link).ok()?;
        let target = target.to_str()?.strip_suffix(" (deleted)")?.to_owned();
        Some(Path::new(&target) == path)
    };
    replaced().unwrap_or_default()
}

/// Where a program is that we would start.
fn installed(program: &str) -> Option<PathBuf> {
    let mut folders = exec::PATH.split(':').map(Path::new);
    folders.find_map(|folder| fs_err::canonicalize(folder.join(program)).ok())
}

/// Whether a process has a name space that is not ours.
fn is_apart(pid: Pid, kind: &str) -> Option<bool> {
    let theirs = fs_err::read_link(format!("/proc/{}/ns/{kind}", pid.as_raw_pid())).ok()?;
    let ours = fs_err::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    Some(theirs != ours)
}

fn status(pid: &str) -> Option<String> {
    fs_err::read_to_string(format!("/proc/{pid}/status")).ok()
}

/// The numbers of a line of a process's status.
fn numbers(status: &str, field: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let words = line.unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

fn numbers_len(status: &str, field: &str) -> usize {
    numbers(status, field).len()
}

/// Whether a process is root's, and cannot become anybody else's again.
fn is_roots(pid: Pid) -> bool {
    let text = status(&pid.as_raw_pid().to_string()).unwrap_or_default();
    is_roots_status(&text)
}

/// Real, effective, saved and file system user.
pub(super) fn is_roots_status(status: &str) -> bool {
    numbers(status, "Uid:") == [0, 0, 0, 0]
}

/// Whether one of a process's control groups is below the group of that name, or in that unit.
fn is_grouped(text: &str, container: &str, unit: &str) -> bool {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.into_iter().any(|path| {
        let parts: Vec<_> = path.split('/').collect();
        let is_group = |pair: &[&str]| {
            pair == [super::cgroup::PARENT, container] || pair == [super::cgroup::SLICE, unit]
        };
        parts.windows(2).any(is_group)
    })
}

/// Whether one of a process's control groups is in a machine of ours, whichever.
pub(super) fn is_in_machine(text: &str) -> bool {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.into_iter().any(|path| {
        let parts: Vec<_> = path.split('/').collect();
        parts.windows(2).any(|pair| {
            (pair[0] == super::cgroup::PARENT && names::is_short(pair[1]))
                || (pair[0] == super::cgroup::SLICE && names::is_unit(pair[1]))
        })
    })
}

/// A process's state and its parent.
fn state(pid: Pid) -> Option<(char, i32)> {
    let text = fs_err::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    parse_state(&text)
}

/// The name stands in brackets and may hold brackets and spaces itself.
pub(super) fn parse_state(text: &str) -> Option<(char, i32)> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        assert_eq!(parse_state("12 (a) b) S 7 1 1"), Some(('S', 7)));
        assert_eq!(parse_state("12 (sh) Z 1 1"), Some(('Z', 1)));
        assert_eq!(parse_state(""), None);
    }

    #[test]
    fn a_folder_that_no_machine_runs_from_has_none() {
        let home = Home {
            folder: "/no/such".into(),
        };
        let (cluster, machine) = ("none".parse().unwrap(), "cp1".parse().unwrap());
        let body = Body::new(&home, &cluster, &machine).unwrap();
        assert!(Running::find(&body).unwrap().is_none());
        assert!(!body.is_alive(&Scan::now().unwrap()) && !body.is_led());
        assert!(body.open_root().unwrap().is_none());
    }

    #[test]
    fn promise_09_the_place_of_a_machine_is_known_by_what_its_overlay_writes_into() {
        let of = |path| place_of(Path::new(path), &"dev".parse().unwrap());
        assert_eq!(
            of("/a/place/clusters/dev/machines/lin1/disk/upper"),
            Some(Path::new("/a/place/clusters"))
        );
        for other in [
            "/a/place/clusters/other/machines/lin1/disk/upper",
            "/a/place/clusters/dev/machines/lin1/disk/containerd/upper",
            "/dev/machines/lin1/disk/upper",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let folder = tempfile::tempdir().unwrap();
        fs_err::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(is_same(&folder.path().join("link"), folder.path()));
        assert!(!is_same(Path::new("/"), folder.path()));
        assert!(!is_same(Path::new("/no/such"), Path::new("/no/other")));
    }

    #[test]
    fn promise_09_a_running_machine_whose_folder_was_removed_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let clusters = place.path().join("clusters");
        let cluster: ClusterName = "dev".parse().unwrap();
        let folder = clusters.join("dev/machines/cp1");
        let upper = folder.join("disk/upper");
        fs_err::create_dir_all(&upper).unwrap();
        let of = |upper: &Path| judged(upper, &cluster, &clusters);
        assert_eq!(of(&upper), None, "its folder is there");
        let elsewhere = Path::new("/a/place/clusters/dev/machines/cp1/disk/upper");
        assert_eq!(of(elsewhere), Some(Stray::Elsewhere(elsewhere.to_owned())));
        assert_eq!(of(&clusters.join("b/machines/cp1/disk/upper")), None);
        for gone in [folder.clone(), clusters.join("dev"), clusters.clone()] {
            fs_err::remove_dir_all(gone).unwrap();
            assert_eq!(of(&upper), Some(Stray::NoFolder(folder.clone())));
        }
    }

    #[test]
    fn the_unit_of_a_machine_is_read_from_its_control_group() {
        let unit = "mullion-dev.cp1.service";
        let text = format!("0::/system.slice/{unit}/supervisor\n");
        assert_eq!(unit_of(&text), Some(unit));
        assert_eq!(
            unit_of(&format!("1:name=systemd:/system.slice/{unit}\n0::/\n")),
            Some(unit)
        );
        assert_eq!(unit_of("0::/mullion/mul01\n"), None);
    }

    #[test]
    fn promise_07_root_is_every_user_of_a_process() {
        let of = |users: &str| is_roots_status(&format!("Name:\tx\nUid:\t{users}\nGid:\t0\n"));
        assert!(of("0\t0\t0\t0"));
        for users in [
            "1000\t0\t0\t0",
            "0\t0\t1000\t0",
            "1000\t1000\t1000\t1000",
            "",
        ] {
            assert!(!of(users), "{users}");
        }
    }

    #[test]
    fn promise_07_a_group_of_a_similar_name_elsewhere_is_not_the_machines() {
        let is = |text: &str| is_grouped(text, "mul01", "mullion-dev.cp1.service");
        assert!(is("4:memory:/mullion/mul01/system.slice\n0::/\n"));
        assert!(is("0::/system.slice/mullion-dev.cp1.service/payload\n"));
        for other in [
            "0::/mullion/mul012",
            "0::/user.slice/mul01",
            "0::/user.slice/user-1000.slice/app.slice/mullion-dev.cp1.service",
            "1:name=mullion/mul01:/",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
    }
}
