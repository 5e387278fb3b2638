//! Computers made by hand, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mullion_catalog::{Catalog, Family, Look};

use super::computer::{
    AcceleratorFound, CgroupVersion, Cgroups, Clock, Computer, Disk, DiskLimits, Distribution,
    Holds, Kernel, Memory, User,
};

/// Every capability of a kernel of today.
const ALL: u64 = 0x1ff_ffff_ffff;

pub(super) fn words(text: &[&str]) -> BTreeSet<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

/// A laptop with Debian 12 that has everything, run as root.
pub(super) fn laptop() -> Computer {
    let mut programs = BTreeMap::new();
    let mut paths = BTreeSet::new();
    let mut filesystems = BTreeSet::new();
    let mut loaded = BTreeSet::new();
    for requirement in Catalog::builtin().requirements() {
        match &requirement.look {
            Look::Program { names } => {
                programs.insert(
                    names[0].clone(),
                    PathBuf::from(format!("/usr/bin/{}", names[0])),
                );
            }
            Look::Toolchain { program, .. } | Look::DiskLimits { program } => {
                programs.insert(
                    program.clone(),
                    PathBuf::from(format!("/usr/bin/{program}")),
                );
            }
            Look::File { paths: files } => drop(paths.insert(files[0].clone())),
            Look::FirstProcess { mark, .. } => drop(paths.insert(mark.clone())),
            Look::Kernel(feature) => {
                filesystems.extend(feature.filesystem.clone());
                loaded.insert(feature.modules[0].clone());
            }
            _ => {}
        }
    }
    Computer {
        system: Distribution {
            name: "Debian GNU/Linux 12 (bookworm)".into(),
            family: Some(Family::Debian),
        },
        user: User {
            id: 0,
            capabilities: ALL,
            bounding: ALL,
        },
        first_process: Some("systemd".into()),
        kernel: Kernel {
            release: "6.1.0-54-amd64".into(),
            filesystems,
            loaded,
            loadable: Some(BTreeSet::new()),
            options: None,
            namespaces: words(&["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"]),
        },
        cgroups: Cgroups {
            version: CgroupVersion::V2,
            controllers: words(&["cpu", "cpuset", "io", "memory", "pids"]),
        },
        accelerators: BTreeMap::from([("kvm".into(), AcceleratorFound::Proven)]),
        programs,
        versions: BTreeMap::from([("go".into(), "go version go1.26.8 linux/amd64".into())]),
        candidates: BTreeMap::from([("golang-go".into(), "2:1.19~1".into())]),
        paths,
        memory: Some(Memory {
            total_mib: 32_000,
            available_mib: 24_000,
        }),
        disks: vec![
            Disk {
                holds: Holds::Cache,
                folder: "/root/.cache/mullion".into(),
                free_mib: Some(200 << 10),
            },
            Disk {
                holds: Holds::State,
                folder: "/root/.local/state/mullion".into(),
                free_mib: Some(200 << 10),
            },
        ],
        disk_limits: DiskLimits {
            available: true,
            seen: "`/var` holds machines to the size of their disks".into(),
        },
        udp_ports: BTreeSet::new(),
        routes: Vec::new(),
        clock: Clock {
            unix_seconds: 1_800_000_000,
            synchronised: Some(true),
        },
        media: Vec::new(),
        variables: words(&["PATH"]),
    }
}

/// A fresh Debian 12 in a container: root, nothing installed.
pub(super) fn bare_debian() -> Computer {
    let mut computer = laptop();
    computer.programs.clear();
    computer.versions.clear();
    computer.paths.clear();
    computer.first_process = Some("sh".into());
    computer.disk_limits = DiskLimits {
        available: false,
        seen: "`/` is mounted without project quotas".into(),
    };
    computer.user.capabilities &= !(1 << 24);
    computer.user.bounding &= !(1 << 24);
    computer.cgroups.version = CgroupVersion::Hybrid;
    computer
        .accelerators
        .insert("kvm".into(), AcceleratorFound::Absent);
    computer
}

/// Fedora, an ordinary user, nothing installed.
pub(super) fn fedora_user() -> Computer {
    let mut computer = laptop();
    computer.programs.clear();
    computer.versions.clear();
    computer.candidates.clear();
    computer.system = Distribution {
        name: "Fedora Linux 44".into(),
        family: Some(Family::Fedora),
    };
    computer.user.id = 1000;
    computer.user.capabilities = 0;
    computer
}
