//! What a machine may not do to the kernel that it shares with this computer.
//!
//! A machine's root is this computer's root: it has its user number, and most of its capabilities, because kubelet,
//! containerd and privileged pods need them. These limits contain mistakes and take away what no node needs. They do
//! not hold an attacker who is root in a machine; `docs/security.md` says so.

use std::path::Path;

use mullion_plan::Size;

use crate::error::DriverError;
use crate::quirks::Cgroup;

/// Capabilities that no program of a node needs.
///
/// `CAP_SYS_BOOT` stays: with it a machine restarts itself, and in a process name space of its own it reaches no
/// further. `CAP_SYSLOG` stays: kubelet reads `/dev/kmsg`. `CAP_SYS_MODULE` stays in the bounding set, because the pods
/// of some network plugins ask for it by name and the runtime would refuse to start them; the calls that it permits are
/// refused instead. `CAP_AUDIT_CONTROL` stays: PAM sets the login's user with it.
const DROPPED: [&str; 9] = [
    "CAP_AUDIT_READ",
    "CAP_BLOCK_SUSPEND",
    "CAP_LINUX_IMMUTABLE",
    "CAP_MAC_ADMIN",
    "CAP_MAC_OVERRIDE",
    "CAP_SYS_PACCT",
    "CAP_SYS_RAWIO",
    "CAP_SYS_TIME",
    "CAP_WAKE_ALARM",
];

/// System calls that change the whole computer, whatever capabilities their caller has.
///
/// systemd-nspawn ignores groups such as `@swap` among refused calls, so each call is named. `open_by_handle_at` opens
/// any file of a file system of which a machine has one folder, and a machine's disk is a folder of this computer's.
/// `quotactl` would let a machine raise the limit of its own disk.
const REFUSED: [&str; 19] = [
    "acct",
    "clock_settime",
    "clock_settime64",
    "delete_module",
    "finit_module",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "open_by_handle_at",
    "pciconfig_write",
    "quotactl",
    "quotactl_fd",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "syslog",
];

/// Devices that a machine may open, as systemd names them; every other one it may at most make a node of, as images
/// that hold nodes need it.
const DEVICES: [&str; 6] = [
    "char-* m",
    "block-* m",
    "char-pts rw",
    "/dev/kmsg rw",
    "/dev/net/tun rwm",
    "/dev/fuse rwm",
];

/// The fewest tasks that a machine may have: a node with 110 pods has some thousands of threads.
const LEAST_TASKS: u64 = 8192;

/// How many tasks a machine may have for each of its processors.
const TASKS_PER_CPU: u64 = 4096;

/// Settings of the kernel through which root runs programs on this computer or restarts it. A machine only reads them;
/// kubelet, kube-proxy and network plugins write other ones. A privileged pod mounts a `/proc` of its own, where they can
/// be written.
const READ_ONLY: [&str; 6] = [
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/sysrq",
];

/// The container program's arguments.
pub(super) fn arguments() -> Vec<String> {
    let mut args = vec![
        "--capability=all".into(),
        format!("--drop-capability={}", DROPPED.join(",")),
        // Allows every call that libseccomp knows: without it the container program allows only a list of its own.
        "--system-call-filter=@known".into(),
        format!("--system-call-filter=~{}", REFUSED.join(" ")),
    ];
    // Not every kernel has all of them.
    let there = READ_ONLY.iter().filter(|file| Path::new(file).exists());
    args.extend(there.map(|file| format!("--bind-ro={file}")));
    args
}

/// Settings of a machine's unit that keep it from this computer's devices.
///
/// Only with the unified hierarchy. In the older one a group below cannot ask for more than the one above it has, and
/// the runtime asks for every device for a privileged pod: kube-proxy would not start.
pub(super) fn device_properties(cgroup: Cgroup) -> Vec<String> {
    if cgroup != Cgroup::V2 {
        return Vec::new();
    }
    let policy = "DevicePolicy=closed".to_owned();
    let allowed = DEVICES.map(|device| format!("DeviceAllow={device}"));
    std::iter::once(policy).chain(allowed).collect()
}

/// How many tasks, processes and threads, a machine of that size may have on this computer.
pub(super) fn tasks(size: &Size) -> Result<u64, DriverError> {
    let mut most = u64::MAX;
    for file in ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"] {
        let text = fs_err::read_to_string(file)?;
        most = most.min(text.trim().parse().unwrap_or(u64::MAX));
    }
    Ok(tasks_among(size, most))
}

/// The same on a computer that can have `most` tasks: one machine never takes more than half of them.
fn tasks_among(size: &Size, most: u64) -> u64 {
    let wanted = u64::from(size.cpus) * TASKS_PER_CPU;
    wanted.max(LEAST_TASKS).min(most / 2)
}

#[cfg(test)]
mod tests {
    use mullion_spec::value::ByteSize;

    use super::*;

    #[test]
    fn promise_13_tasks_follow_the_size_and_leave_half_of_the_computer() {
        let size = |cpus| Size {
            cpus,
            memory: ByteSize::gib(2),
            disk: ByteSize::gib(20),
        };
        assert_eq!(tasks_among(&size(1), 4_194_304), 8192);
        assert_eq!(tasks_among(&size(8), 4_194_304), 32_768);
        assert_eq!(tasks_among(&size(16), 32_768), 16_384);
        assert!(tasks(&size(2)).unwrap() <= 8192);
    }

    #[test]
    fn promise_13_a_machine_loses_what_no_node_needs_and_keeps_what_nodes_need() {
        let arguments = arguments();
        let dropped = arguments[1].strip_prefix("--drop-capability=").unwrap();
        let dropped: Vec<_> = dropped.split(',').collect();
        assert!(dropped.contains(&"CAP_SYS_TIME") && dropped.contains(&"CAP_SYS_RAWIO"));
        for kept in [
            "CAP_SYS_ADMIN",
            "CAP_NET_ADMIN",
            "CAP_SYS_BOOT",
            "CAP_MKNOD",
        ] {
            assert!(!dropped.contains(&kept), "{kept}");
        }
        let refused = arguments[3].strip_prefix("--system-call-filter=~").unwrap();
        // The container program would pass over a group without a word.
        assert!(!refused.contains('@'), "{refused}");
    }

    #[test]
    fn promise_13_devices_are_closed_where_privileged_pods_survive_it() {
        assert!(device_properties(Cgroup::V1).is_empty());
        assert!(device_properties(Cgroup::Hybrid).is_empty());
        let unified = device_properties(Cgroup::V2);
        assert_eq!(unified[0], "DevicePolicy=closed");
        let opens_disks = |line: &String| line.contains("block-") && line.contains('r');
        assert!(!unified[1..].iter().any(|line| {
            let value = line.strip_prefix("DeviceAllow=").unwrap();
            opens_disks(&value.to_owned())
        }));
    }
}
