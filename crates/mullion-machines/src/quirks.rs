//! What is special about this computer: found, not assumed.

use std::path::{Path, PathBuf};

use crate::error::DriverError;

/// Which control groups a computer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroup {
    /// One hierarchy a controller.
    V1,
    /// Controllers as in V1, with the unified hierarchy beside them for bookkeeping.
    Hybrid,
    /// The unified hierarchy.
    V2,
}

/// Whether a process may raise its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// It may.
    Raisable,
    /// It may not: processes cannot be made less likely to be killed when memory is short, and limits of open
    /// files stay as they are.
    Fixed,
}

/// Who started everything else on the computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// systemd.
    Systemd,
    /// Something else, as in many containers.
    Other,
}

/// What is special about a computer that carries machines: its machines' settings follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// Its control groups.
    pub cgroup: Cgroup,
    /// Whether limits can be raised.
    pub limits: Limits,
    /// Its first process.
    pub init: Init,
}

/// A control group file system that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupMount {
    pub(crate) path: PathBuf,
    pub(crate) hierarchy: Hierarchy,
}

/// What a hierarchy of control groups holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// These controllers, or a name and none.
    V1(Vec<String>),
    /// The unified one.
    V2,
}

/// The bit of the capability to raise limits.
const SYS_RESOURCE: u32 = 24;

/// What is special about this computer.
pub fn quirks() -> Result<Quirks, DriverError> {
    let mounts = cgroup_mounts()?;
    let status = fs_err::read_to_string("/proc/self/status")?;
    Ok(Quirks {
        cgroup: cgroup_kind(&mounts),
        limits: limits(&status),
        init: if Path::new("/run/systemd/system").is_dir() {
            Init::Systemd
        } else {
            Init::Other
        },
    })
}

/// The control groups of this computer.
pub(crate) fn cgroup_mounts() -> Result<Vec<CgroupMount>, DriverError> {
    Ok(parse_mounts(&fs_err::read_to_string("/proc/self/mounts")?))
}

pub(crate) fn parse_mounts(text: &str) -> Vec<CgroupMount> {
    let mount = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, path, kind, options, ..] = fields[..] else {
            return None;
        };
        // Those that a container sees a second time elsewhere are not the computer's.
        if !path.starts_with("/sys/fs/cgroup") {
            return None;
        }
        let hierarchy = match kind {
            "cgroup2" => Hierarchy::V2,
            "cgroup" => {
                let known = |option: &&str| !GENERIC.contains(option) && !option.contains('=');
                Hierarchy::V1(
                    options
                        .split(',')
                        .filter(known)
                        .map(str::to_owned)
                        .collect(),
                )
            }
            _ => return None,
        };
        Some(CgroupMount {
            path: path.into(),
            hierarchy,
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Mount options that are not controllers.
const GENERIC: &[&str] = &[
    "rw", "ro", "nosuid", "nodev", "noexec", "relatime", "noatime", "xattr", "none",
];

fn cgroup_kind(mounts: &[CgroupMount]) -> Cgroup {
    let has_v2 = mounts.iter().any(|mount| mount.hierarchy == Hierarchy::V2);
    let has_v1 = mounts
        .iter()
        .any(|mount| matches!(mount.hierarchy, Hierarchy::V1(_)));
    match (has_v1, has_v2) {
        (true, true) => Cgroup::Hybrid,
        (true, false) => Cgroup::V1,
        (false, _) => Cgroup::V2,
    }
}

fn limits(status: &str) -> Limits {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .unwrap_or_default();
    if effective & (1 << SYS_RESOURCE) != 0 {
        Limits::Raisable
    } else {
        Limits::Fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_every_kind_are_told_apart() {
        let v1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                  cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,xattr,name=systemd 0 0\n";
        let unified = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0\n";
        let kind = |text: &str| cgroup_kind(&parse_mounts(text));
        assert_eq!(kind(v1), Cgroup::V1);
        assert_eq!(kind(&format!("{v1}{unified}")), Cgroup::Hybrid);
        assert_eq!(kind(v2), Cgroup::V2);
        let mounts = parse_mounts(v1);
        let controllers = vec!["cpu".to_owned(), "cpuacct".to_owned()];
        assert_eq!(mounts[0].hierarchy, Hierarchy::V1(controllers));
        assert_eq!(mounts[1].hierarchy, Hierarchy::V1(Vec::new()));
    }

    #[test]
    fn the_capability_to_raise_limits_is_one_bit() {
        assert_eq!(limits("CapEff:\t000001fffeffffff\n"), Limits::Fixed);
        assert_eq!(limits("CapEff:\t000001ffffffffff\n"), Limits::Raisable);
        assert_eq!(limits("nothing"), Limits::Fixed);
    }
}
