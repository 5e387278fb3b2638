//! What this machine is.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use mullion_wire::{Disk, Facts, Sha256Digest, WindowsFacts, agent_version};
use windows::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
use windows::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

use super::super::registry::Value;
use super::super::{Activity, Services as _, System as _, SystemError};
use super::call::Wide;
use super::own::Windows;
use super::{adapters, features, hive, licence, names, networks};

const VERSION: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const PACKAGES: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages";
const MEMORY: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management";
/// The state of a package that is installed.
const INSTALLED: u32 = 112;

/// Features that nodes ask for.
const FEATURES: &[&str] = &["Containers", "Microsoft-Hyper-V"];
/// Services that nodes depend on.
const SERVICES: &[&str] = &[
    "WinDefend",
    "containerd",
    "docker",
    "flanneld",
    "hns",
    "kube-proxy",
    "kubelet",
    "sshd",
    "vmcompute",
    "w32time",
];

/// The system's half of the facts. What cannot be found out stays empty: facts are asked for to see what is wrong.
pub(super) fn describe(windows: &Windows) -> Result<Facts, SystemError> {
    let memory = memory();
    let adapters = adapters::all().unwrap_or_default();
    let own = own_facts(windows);
    let addresses = adapters
        .iter()
        .flat_map(|adapter| {
            let addresses = adapter.addresses.iter();
            addresses.map(move |address| format!("{} {address}", adapter.name))
        })
        .collect();
    Ok(Facts {
        agent: own_version(),
        host_name: windows.host_name()?,
        os: "windows".to_owned(),
        system: hive::text(VERSION, "ProductName"),
        kernel: format!("10.0.{}.{}", own.build, own.revision),
        architecture: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism()
            .map_or(0, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory: memory.ullTotalPhys,
        disk: disk(),
        clock: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        addresses,
        windows: Some(Box::new(WindowsFacts {
            adapters,
            commit: Disk {
                total: memory.ullTotalPageFile,
                free: memory.ullAvailPageFile,
            },
            ..own
        })),
        ..Facts::default()
    })
}

fn own_facts(windows: &Windows) -> WindowsFacts {
    let number = |name: &str| hive::text(VERSION, name).parse().unwrap_or(0);
    let page_files = hive::value(MEMORY, "PagingFiles").ok().flatten();
    let services = windows.services(SERVICES).unwrap_or_default();
    WindowsFacts {
        build: number("CurrentBuildNumber"),
        revision: hive::number(VERSION, "UBR").unwrap_or(0),
        edition: hive::text(VERSION, "EditionID"),
        installation: hive::text(VERSION, "InstallationType"),
        licence: licence::read().ok().flatten(),
        features: features::read_all(FEATURES).unwrap_or_default(),
        page_files: page_files.as_ref().map(Value::texts).unwrap_or_default(),
        time_zone: names::time_zone().unwrap_or_default(),
        updates: updates(),
        services: services
            .into_iter()
            .map(|(name, facts)| (name, facts.activity != Activity::Stopped))
            .collect(),
        networks: networks::facts(),
        ..WindowsFacts::default()
    }
}

/// The agent's version, with the digest of the program that runs.
fn own_version() -> String {
    let program = std::env::current_exe()
        .and_then(fs_err::File::open)
        .and_then(Sha256Digest::of_reader);
    match program {
        Ok((digest, _)) => agent_version(crate::VERSION, &digest),
        Err(_) => crate::VERSION.to_owned(),
    }
}

fn memory() -> MEMORYSTATUSEX {
    let mut found = MEMORYSTATUSEX {
        dwLength: u32::try_from(size_of::<MEMORYSTATUSEX>()).unwrap_or_default(),
        ..MEMORYSTATUSEX::default()
    };
    // What cannot be found out is 0.
    let _ = unsafe { GlobalMemoryStatusEx(&raw mut found) };
    found
}

/// The drive that everything is on.
fn disk() -> Disk {
    let drive = Wide::new("C:\\");
    let mut disk = Disk::default();
    let _ = unsafe {
        GetDiskFreeSpaceExW(
            drive.as_ptr(),
            Some(&raw mut disk.free),
            Some(&raw mut disk.total),
            None,
        )
    };
    disk
}

/// Updates that are installed.
fn updates() -> BTreeSet<String> {
    let packages = hive::keys_below(PACKAGES).into_iter();
    packages
        .filter(|name| name.starts_with("Package_for_"))
        .filter(|name| {
            let state = hive::number(&format!("{PACKAGES}\\{name}"), "CurrentState");
            state == Some(INSTALLED)
        })
        .collect()
}
