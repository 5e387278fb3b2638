//! What a machine will stand on that is made on this computer: a container shares its kernel.

use fs_err::read_to_string;
use std::path::Path;

use mullion_render::{Cgroups, Footing, Ground};

use super::seed;

/// The groups of this computer; the program that runs containers gives them the same.
const GROUPS: &str = "/sys/fs/cgroup";

/// What machines stand on that are made now; none where this computer does not tell.
pub(super) fn ground() -> Option<Ground> {
    let status = read_to_string("/proc/self/status").ok()?;
    let swaps = read_to_string("/proc/swaps").ok()?;
    Some(Ground {
        footing: Footing::SystemContainer,
        cgroups: cgroups()?,
        can_raise_limits: Ground::may_raise_limits(capabilities(&status)?),
        has_swap: swaps.lines().count() > 1,
        has_resolver: seed::has_resolver().ok()?,
    })
}

/// What no program on this computer may do, no machine may: the container program takes away less.
fn capabilities(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let bound = lines.find_map(|line| line.strip_prefix("CapBnd:"))?;
    u64::from_str_radix(bound.trim(), 16).ok()
}

fn cgroups() -> Option<Cgroups> {
    // The magic number of the second version's file system (`linux/magic.h`).
    const CGROUP2: i64 = 0x6367_7270;
    let system = rustix::fs::statfs(GROUPS).ok()?;
    Some(if system.f_type == CGROUP2 {
        Cgroups::V2
    } else if Path::new(GROUPS).join("unified").is_dir() {
        Cgroups::Hybrid
    } else {
        Cgroups::V1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_raised_is_read_from_the_bounding_set() {
        let status =
            |bound: &str| format!("Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t{bound}\n");
        let may = |bound| Ground::may_raise_limits(capabilities(&status(bound)).unwrap());
        assert!(may("000001ffffffffff"));
        assert!(!may("000001fffeffffff"));
        assert_eq!(capabilities("Name:\tx\n"), None);
    }
}
