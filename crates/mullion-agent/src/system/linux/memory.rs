//! Reading what the kernel counts of memory that ran out.

use super::super::Starved;

/// The unified hierarchy's own count, of a machine that is a container. The kernel's own root has none.
const EVENTS: &str = "/sys/fs/cgroup/memory.events";
/// The older hierarchy's count of how often a limit was met; there a killed program counts in its own group, and the
/// count goes with that group.
const LIMIT_MET: &str = "/sys/fs/cgroup/memory/memory.failcnt";
const LIMIT: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
/// The whole kernel's count.
const KERNEL: &str = "/proc/vmstat";

/// The kernel writes the largest number of pages where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Reads it from the files of the kernel; `text` gives one, empty where there is none.
pub(super) fn starved(text: impl Fn(&str) -> String) -> Starved {
    let ended = |path| {
        let text = text(path);
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok())
    };
    if let Some(ended) = ended(EVENTS) {
        return Starved {
            ended,
            limit_met: None,
        };
    }
    let number = |path| text(path).trim().parse::<u64>().ok();
    let is_limited = number(LIMIT).is_some_and(|limit| limit < NO_LIMIT);
    Starved {
        ended: ended(KERNEL).unwrap_or(0),
        limit_met: number(LIMIT_MET).filter(|_| is_limited),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: (&str, &str) = (KERNEL, "nr_free_pages 5\noom_kill 7\npgfault 9\n");

    fn read(files: &[(&str, &str)]) -> Starved {
        starved(|path| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
        })
    }

    fn at(ended: u64, limit_met: Option<u64>) -> Starved {
        Starved { ended, limit_met }
    }

    #[test]
    fn a_container_of_the_unified_hierarchy_counts_its_own() {
        let events = "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(read(&[(EVENTS, events), VMSTAT]), at(2, None));
    }

    #[test]
    fn a_container_of_the_older_or_of_both_hierarchies_counts_with_its_limit() {
        let own = [(LIMIT, "2147483648\n"), (LIMIT_MET, "13\n"), VMSTAT];
        assert_eq!(read(&own), at(7, Some(13)));
        // Beside the older one the unified hierarchy has no memory, and is elsewhere.
        let both = [
            ("/sys/fs/cgroup/unified/memory.events", "oom_kill 99\n"),
            own[0],
            own[1],
            VMSTAT,
        ];
        assert_eq!(read(&both), at(7, Some(13)));
    }

    #[test]
    fn a_machine_that_is_no_container_counts_with_its_kernel() {
        assert_eq!(read(&[VMSTAT]), at(7, None));
        let root = [(LIMIT, "9223372036854771712\n"), (LIMIT_MET, "0\n"), VMSTAT];
        assert_eq!(read(&root), at(7, None));
        assert_eq!(read(&[]), at(0, None));
    }
}
