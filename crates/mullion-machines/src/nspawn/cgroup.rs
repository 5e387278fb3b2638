//! Control groups: one a machine, with its size.
//!
//! The container program keeps a machine in the group it was started in. Without a group for each, all machines
//! of this computer would share the folders in which kubelet keeps its pods, and take each other's away. Where
//! systemd runs this computer, its units are the groups, and nothing here is used.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mullion_plan::Size;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::DriverError;
use crate::quirks::{CgroupMount, Hierarchy};

/// The group under which all machines' groups are.
pub(super) const PARENT: &str = "mullion";

/// The group in which systemd has its services.
pub(super) const SLICE: &str = "system.slice";

/// The group of one boot, where it must not be the machine's own.
const BOOT: &str = "boot";

/// A quota's period, in microseconds: the kernel's own.
const PERIOD: u64 = 100_000;

/// The controllers that hold a machine to its size.
const LIMITED: [&str; 3] = [CPU, MEMORY, PIDS];
const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const PIDS: &str = "pids";

/// How long the kernel may take to let go of a group's last process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The groups of one machine, one in each hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Group {
    folders: Vec<(CgroupMount, PathBuf)>,
    /// Where systemd has the machine, if it runs this computer: its own to make and to remove.
    units: Vec<PathBuf>,
}

impl Group {
    /// The groups for a machine, there or not.
    pub(super) fn new(mounts: &[CgroupMount], name: &str, unit: &str) -> Self {
        let folders = mounts
            .iter()
            .map(|mount| (mount.clone(), mount.path.join(PARENT).join(name)))
            .collect();
        let units = mounts
            .iter()
            .map(|mount| mount.path.join(SLICE).join(unit))
            .collect();
        Self { folders, units }
    }

    /// The groups of that name alone, there or not.
    pub(super) fn named(mounts: &[CgroupMount], name: &str) -> Self {
        Self {
            units: Vec::new(),
            ..Self::new(mounts, name, "")
        }
    }

    /// Every process in them, each once.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let own = self.folders.iter().map(|(_, folder)| folder);
        let all = own.chain(&self.units).flat_map(|folder| groups(folder));
        let numbers: BTreeSet<i32> = all.flat_map(|group| members(&group)).collect();
        numbers.into_iter().filter_map(Pid::from_raw).collect()
    }

    /// Whether any process is in them.
    pub(super) fn is_populated(&self) -> bool {
        let own = self.folders.iter().map(|(_, folder)| folder);
        let mut all = own.chain(&self.units).flat_map(|folder| groups(folder));
        all.any(|group| !members(&group).is_empty())
    }

    /// Makes them, with the machine's size and number of tasks as their limits. Gives what this computer cannot limit at
    /// all.
    ///
    /// A kernel without a limit, or hierarchies without a controller, are this computer's: its machines are as large as
    /// it is, and work. A controller that is there and is not passed on is refused: somebody can change that.
    pub(super) fn make(&self, size: &Size, tasks: u64) -> Result<Vec<&'static str>, DriverError> {
        let mut held = Vec::new();
        let tasks = tasks.to_string();
        for (mount, folder) in &self.folders {
            let parent = mount.path.join(PARENT);
            // From here on the parent is not empty, and stays.
            make_folder(folder)?;
            match &mount.hierarchy {
                Hierarchy::V2 => {
                    pass_on(&mount.path)?;
                    pass_on(&parent)?;
                    for name in LIMITED {
                        require_passed(name, &[&mount.path, &parent, folder])?;
                    }
                    pass_on(folder)?;
                    limit(folder, "cpu.max", &cpu_max(size))?.then(|| held.push(CPU));
                    let memory = size.memory.bytes().to_string();
                    limit(folder, "memory.max", &memory)?.then(|| held.push(MEMORY));
                    fs_err::create_dir_all(folder.join(BOOT))?;
                }
                Hierarchy::V1(controllers) => {
                    if controllers.iter().any(|name| name == "cpuset") {
                        inherit(&mount.path, &parent)?;
                        inherit(&parent, folder)?;
                    }
                    let quota = quota(size).to_string();
                    limit(folder, "cpu.cfs_quota_us", &quota)?.then(|| held.push(CPU));
                    let memory = size.memory.bytes().to_string();
                    limit(folder, "memory.limit_in_bytes", &memory)?.then(|| held.push(MEMORY));
                }
            }
            // The same file in both kinds of hierarchy.
            limit(folder, "pids.max", &tasks)?.then(|| held.push(PIDS));
        }
        Ok(LIMITED
            .into_iter()
            .filter(|name| !held.contains(name))
            .collect())
    }

    /// The groups that a machine's first process enters.
    ///
    /// In the unified hierarchy a group that limits others holds no process itself: there it is one below.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.folders
            .iter()
            .map(|(mount, folder)| match mount.hierarchy {
                Hierarchy::V1(_) => folder.clone(),
                Hierarchy::V2 => folder.join(BOOT),
            })
    }

    /// Ends every process that is still in one of the groups, and removes them with all below.
    ///
    /// A group that can be removed holds no process.
    pub(super) fn remove(&self) -> Result<(), DriverError> {
        let begun = Instant::now();
        for (_, folder) in &self.folders {
            // Nothing may start another process while the others are ended: the kernel then ends them all.
            for (file, value) in [("pids.max", "0"), ("cgroup.kill", "1")] {
                // The older hierarchies, and older kernels, lack one or the other.
                let _ = put(&folder.join(file), value);
            }
        }
        for (mount, folder) in &self.folders {
            while folder.exists() {
                kill(folder);
                if remove_folders(folder).is_ok() {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    return Err(DriverError::Left(folder.display().to_string()));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // The last machine's takes the parent with it; while others are there, this fails.
            let _ = fs_err::remove_dir(mount.path.join(PARENT));
        }
        Ok(())
    }
}

/// Makes a machine's group. Whoever removes the last other machine meanwhile takes the parent away under it.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let begun = Instant::now();
    loop {
        match fs_err::create_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound && begun.elapsed() < PATIENCE => {}
            made => return made,
        }
    }
}

fn quota(size: &Size) -> u64 {
    u64::from(size.cpus) * PERIOD
}

fn cpu_max(size: &Size) -> String {
    format!("{} {PERIOD}", quota(size))
}

/// Lets groups below a group have every controller that it has.
fn pass_on(group: &Path) -> Result<(), DriverError> {
    for controller in words(&group.join("cgroup.controllers"))? {
        // One by one: a controller that cannot be passed on must not keep the others. Those that matter are asked for.
        let _ = pass_one(group, &controller);
    }
    Ok(())
}

fn pass_one(group: &Path, controller: &str) -> std::io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    fs_err::write(file, format!("+{controller}"))
}

/// Refuses where a controller that the first of these groups has is not passed on as far as the last.
fn require_passed(controller: &'static str, groups: &[&Path]) -> Result<(), DriverError> {
    let has = |group: &Path| {
        let controllers = words(&group.join("cgroup.controllers"))?;
        Ok::<_, DriverError>(controllers.iter().any(|name| name == controller))
    };
    for pair in groups.windows(2) {
        // Beside the older hierarchies the unified one does not have it at all.
        if !has(pair[0])? {
            return Ok(());
        }
        if !has(pair[1])? {
            return Err(DriverError::NotPassedOn {
                controller,
                group: pair[0].to_owned(),
                cause: pass_one(pair[0], controller).err(),
            });
        }
    }
    Ok(())
}

fn words(file: &Path) -> Result<Vec<String>, DriverError> {
    let text = fs_err::read_to_string(file)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Gives a group the processors and memory of the one above it: it begins with none and could hold no process.
fn inherit(above: &Path, group: &Path) -> Result<(), DriverError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if fs_err::read_to_string(group.join(file))?.trim().is_empty() {
            fs_err::write(group.join(file), fs_err::read(above.join(file))?)?;
        }
    }
    Ok(())
}

/// Sets a limit, and tells whether the hierarchy has it. The kernel refuses, or takes it rounded to its pages.
fn limit(group: &Path, file: &str, value: &str) -> Result<bool, DriverError> {
    let path = group.join(file);
    if !path.exists() {
        return Ok(false);
    }
    fs_err::write(path, value)?;
    Ok(true)
}

/// Every group below and at a folder, the deepest first.
fn groups(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(groups(&entry.path()));
        }
    }
    found.push(folder.to_owned());
    found
}

/// The processes in a group itself. One that is not ours to see has the number 0.
fn members(group: &Path) -> Vec<i32> {
    let text = fs_err::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Writes into a file of the kernel's that is there.
fn put(path: &Path, value: &str) -> std::io::Result<()> {
    let mut file = fs_err::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// Ends every process in a group and below it.
///
/// A descriptor holds each process before the second look at the group: a process that got the number of an ended one is
/// never signalled.
fn kill(folder: &Path) {
    for group in groups(folder) {
        for pid in members(&group).into_iter().filter_map(Pid::from_raw) {
            // A process that has ended already is as wanted.
            let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
                continue;
            };
            if members(&group).contains(&pid.as_raw_pid()) {
                let _ = pidfd_send_signal(&held, Signal::KILL);
            }
        }
    }
}

fn remove_folders(folder: &Path) -> std::io::Result<()> {
    groups(folder).iter().try_for_each(fs_err::remove_dir)
}

#[cfg(test)]
mod tests {
    use mullion_spec::value::ByteSize;

    use super::*;

    const SIZE: Size = Size {
        cpus: 2,
        memory: ByteSize::gib(2),
        disk: ByteSize::gib(20),
    };

    /// Hierarchies with a machine's groups. A file system of the kernel's makes these files; here they stand ready.
    struct Ground {
        folder: tempfile::TempDir,
    }

    impl Ground {
        fn new() -> Self {
            let ground = Self {
                folder: tempfile::tempdir().unwrap(),
            };
            for group in ["", "mullion/", "mullion/m/"] {
                let cpuset = if group.is_empty() { "0-1\n" } else { "\n" };
                ground.put(&format!("old/{group}cpuset.cpus"), cpuset);
                ground.put(&format!("old/{group}cpuset.mems"), cpuset);
                ground.put(&format!("new/{group}cgroup.controllers"), "cpu pids");
            }
            ground.put("old/mullion/m/memory.limit_in_bytes", "");
            ground.put("new/mullion/m/cpu.max", "");
            ground.put("new/mullion/m/pids.max", "");
            ground
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs_err::read_to_string(self.folder.path().join(path)).unwrap()
        }

        fn group(&self) -> Group {
            let mount = |name: &str, hierarchy| CgroupMount {
                path: self.folder.path().join(name),
                hierarchy,
            };
            let old = Hierarchy::V1(vec!["cpuset".into(), "memory".into()]);
            let mounts = [mount("old", old), mount("new", Hierarchy::V2)];
            Group::new(&mounts, "m", "m.service")
        }
    }

    #[test]
    fn promise_13_a_machines_size_and_tasks_become_its_groups_limits() {
        let ground = Ground::new();
        let group = ground.group();
        assert!(group.make(&SIZE, 8192).unwrap().is_empty());
        assert_eq!(ground.read("new/mullion/m/pids.max"), "8192");
        assert_eq!(ground.read("old/mullion/m/cpuset.cpus"), "0-1\n");
        let memory = ground.read("old/mullion/m/memory.limit_in_bytes");
        assert_eq!(memory, "2147483648");
        assert_eq!(ground.read("new/mullion/m/cpu.max"), "200000 100000");
        let folders: Vec<_> = group.folders().collect();
        let at = |path: &str| ground.folder.path().join(path);
        assert_eq!(folders, [at("old/mullion/m"), at("new/mullion/m/boot")]);
    }

    #[test]
    fn a_limit_that_the_computer_does_not_have_is_told_and_no_failure() {
        let ground = Ground::new();
        let limit = ground
            .folder
            .path()
            .join("old/mullion/m/memory.limit_in_bytes");
        fs_err::remove_file(limit).unwrap();
        assert_eq!(ground.group().make(&SIZE, 8192).unwrap(), ["memory"]);
    }

    #[test]
    fn a_controller_that_is_there_and_not_passed_on_is_refused() {
        let ground = Ground::new();
        ground.put("new/mullion/m/cgroup.controllers", "pids");
        let refused = ground.group().make(&SIZE, 8192).unwrap_err();
        let DriverError::NotPassedOn {
            controller, group, ..
        } = &refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(*controller, "cpu");
        assert!(group.ends_with("new/mullion"), "{group:?}");
        assert!(refused.hint().is_some());
    }

    #[test]
    fn a_group_that_is_not_there_is_removed_already() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = [CgroupMount {
            path: folder.path().into(),
            hierarchy: Hierarchy::V2,
        }];
        Group::new(&mounts, "m", "m.service").remove().unwrap();
    }
}
