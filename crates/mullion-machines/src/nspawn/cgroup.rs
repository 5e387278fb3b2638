//! Control groups: one a machine, with its size.
//!
//! The container program keeps a machine in the group it was started in. Without a group for each, all machines
//! of this computer would share the folders in which kubelet keeps its pods, and take each other's away. Where
//! systemd runs this computer, its units are the groups, and nothing here is used.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mullion_plan::Size;

use crate::error::DriverError;
use crate::quirks::{CgroupMount, Hierarchy};

/// The group under which all machines' groups are.
const PARENT: &str = "mullion";

/// The group of one boot, where it must not be the machine's own.
const BOOT: &str = "boot";

/// A quota's period, in microseconds: the kernel's own.
const PERIOD: u64 = 100_000;

/// How long the kernel may take to let go of a group's last process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The groups of one machine, one in each hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Group {
    folders: Vec<(CgroupMount, PathBuf)>,
}

impl Group {
    /// The groups for a machine, there or not.
    pub(super) fn new(mounts: &[CgroupMount], name: &str) -> Self {
        let folders = mounts
            .iter()
            .map(|mount| (mount.clone(), mount.path.join(PARENT).join(name)))
            .collect();
        Self { folders }
    }

    /// Makes them, with the machine's size as their limits.
    pub(super) fn make(&self, size: &Size) -> Result<(), DriverError> {
        for (mount, folder) in &self.folders {
            let parent = mount.path.join(PARENT);
            fs_err::create_dir_all(&parent)?;
            match &mount.hierarchy {
                Hierarchy::V2 => {
                    for above in [&mount.path, &parent] {
                        pass_on(above)?;
                    }
                    fs_err::create_dir_all(folder)?;
                    pass_on(folder)?;
                    limit(folder, "cpu.max", &cpu_max(size))?;
                    limit(folder, "memory.max", &size.memory.bytes().to_string())?;
                    fs_err::create_dir_all(folder.join(BOOT))?;
                }
                Hierarchy::V1(controllers) => {
                    fs_err::create_dir_all(folder)?;
                    if controllers.iter().any(|name| name == "cpuset") {
                        inherit(&mount.path, &parent)?;
                        inherit(&parent, folder)?;
                    }
                    limit(folder, "cpu.cfs_quota_us", &quota(size).to_string())?;
                    let memory = size.memory.bytes().to_string();
                    limit(folder, "memory.limit_in_bytes", &memory)?;
                }
            }
        }
        Ok(())
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
    pub(super) fn remove(&self) -> Result<(), DriverError> {
        let begun = Instant::now();
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

fn quota(size: &Size) -> u64 {
    u64::from(size.cpus) * PERIOD
}

fn cpu_max(size: &Size) -> String {
    format!("{} {PERIOD}", quota(size))
}

/// Lets groups below a group have every controller that it has.
fn pass_on(group: &Path) -> Result<(), DriverError> {
    let controllers = fs_err::read_to_string(group.join("cgroup.controllers"))?;
    for controller in controllers.split_whitespace() {
        // One by one: a controller that cannot be passed on must not keep the others.
        let _ = fs_err::write(
            group.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    Ok(())
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

/// Sets a limit where the hierarchy has it.
fn limit(group: &Path, file: &str, value: &str) -> Result<(), DriverError> {
    let path = group.join(file);
    if path.exists() {
        fs_err::write(path, value)?;
    }
    Ok(())
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

/// Ends every process in a group and below it.
fn kill(folder: &Path) {
    for group in groups(folder) {
        let processes = fs_err::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines().filter_map(|line| line.parse().ok()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // One that has ended already is as wanted.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
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

    #[test]
    fn a_machines_size_becomes_its_groups_limits() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let mounts = [
            CgroupMount {
                path: old.clone(),
                hierarchy: Hierarchy::V1(vec!["cpuset".into(), "memory".into()]),
            },
            CgroupMount {
                path: new.clone(),
                hierarchy: Hierarchy::V2,
            },
        ];
        // A file system of the kernel's makes these files; here they stand ready.
        for group in [&old, &old.join("mullion"), &old.join("mullion/m")] {
            fs_err::create_dir_all(group).unwrap();
            for file in ["cpuset.cpus", "cpuset.mems"] {
                fs_err::write(group.join(file), if *group == old { "0-1\n" } else { "\n" })
                    .unwrap();
            }
        }
        fs_err::write(old.join("mullion/m/memory.limit_in_bytes"), "").unwrap();
        fs_err::create_dir_all(new.join("mullion/m")).unwrap();
        for group in [&new, &new.join("mullion"), &new.join("mullion/m")] {
            fs_err::write(group.join("cgroup.controllers"), "cpu memory").unwrap();
        }
        fs_err::write(new.join("mullion/m/cpu.max"), "").unwrap();
        let group = Group::new(&mounts, "m");
        group.make(&SIZE).unwrap();
        let read = |path: PathBuf| fs_err::read_to_string(path).unwrap();
        assert_eq!(read(old.join("mullion/m/cpuset.cpus")), "0-1\n");
        assert_eq!(
            read(old.join("mullion/m/memory.limit_in_bytes")),
            "2147483648"
        );
        assert_eq!(read(new.join("mullion/m/cpu.max")), "200000 100000");
        let folders: Vec<_> = group.folders().collect();
        assert_eq!(folders, [old.join("mullion/m"), new.join("mullion/m/boot")]);
    }

    #[test]
    fn a_group_that_is_not_there_is_removed_already() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = [CgroupMount {
            path: folder.path().into(),
            hierarchy: Hierarchy::V2,
        }];
        Group::new(&mounts, "m").remove().unwrap();
    }
}
