//! What of Windows itself is set: features, registry, Defender, ports, names.

use mullion_catalog::{Catalog, RegistryData, RegistryValue as Known, RegistryWhen};
use mullion_spec::cluster::{System, Windows as Wanted};
use mullion_wire::{
    DynamicPorts, Exclusions, PageFile, Protocol, RegistryData as Data, RegistryValue, Windows,
};

use super::containerd::{FOLDER, authorities};
use super::network::Network;
use super::{PROGRAMS, backward, windows_program_path};
use crate::setting::{Seat, Setting};

/// What the file says of the machine's Windows.
pub(super) fn of(seat: Seat<'_>) -> Option<&'_ Wanted> {
    match &seat.group.system {
        System::Windows(windows) => Some(windows),
        System::Linux { .. } => None,
    }
}

pub(super) fn windows(setting: &Setting<'_>, seat: Seat<'_>) -> Windows {
    let mut windows = Windows {
        path: vec![backward(PROGRAMS), backward(FOLDER)],
        authorities: authorities(setting).into_iter().collect(),
        private_files: [Catalog::builtin().administrators_keys().to_owned()].into(),
        dynamic_ports: dynamic_ports(),
        network: Network::beforehand(setting, seat),
        ..Windows::default()
    };
    let Some(wanted) = of(seat) else {
        return windows;
    };
    let catalog = Catalog::builtin();
    let features = catalog.windows_features(wanted).into_iter();
    windows.features = features.map(str::to_owned).collect();
    windows.registry = registry(seat, wanted);
    if wanted.settings.defender_exclusions {
        windows.exclusions = exclusions();
    }
    // An existing machine keeps its name, and what the file does not set: a default must not change it.
    let is_made = !seat.is_existing();
    let is_set = |field| is_made || wanted.settings.written.contains(field);
    if is_made {
        windows.host_name = Some(seat.name.to_string());
    }
    if is_set("timezone") {
        // A model has no zone that the catalog does not know.
        let zone = catalog.windows_time_zone(&wanted.settings.timezone);
        windows.time_zone = zone.map(str::to_owned);
    }
    if is_set("pageFile") {
        windows.page_file = Some(page_file(wanted));
    }
    windows
}

/// Whether two paths are one: on Windows names have no case.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Whether a file is that of the administrators' keys.
pub(super) fn is_of_keys(path: &str) -> bool {
    is_same(path, Catalog::builtin().administrators_keys())
}

/// The fixes that every machine of the release needs, and what goes for those that we make or for the others.
fn registry(seat: Seat<'_>, wanted: &Wanted) -> Vec<RegistryValue> {
    let own = if seat.is_existing() {
        RegistryWhen::Existing
    } else {
        RegistryWhen::Made
    };
    let settings = &wanted.settings;
    let is_switched_off = !settings.rdp && settings.written.contains("rdp");
    let laid = |value: &Known, key: String| RegistryValue {
        key: format!(r"HKLM\{key}"),
        name: value.name.clone(),
        data: match &value.data {
            RegistryData::Number(number) => Data::Dword(*number),
            RegistryData::Text { expandable } => Data::Expandable(expandable.clone()),
        },
        restart: value.restart,
    };
    Catalog::builtin()
        .registry_values(wanted.version)
        .filter(|value| match value.when {
            RegistryWhen::Always => true,
            RegistryWhen::Rdp => wanted.settings.rdp,
            // Windows that we install has it off.
            RegistryWhen::NoRdp => seat.is_existing() && is_switched_off,
            RegistryWhen::Made | RegistryWhen::Existing => value.when == own,
        })
        .flat_map(|value| value.keys().into_iter().map(move |key| laid(value, key)))
        .collect()
}

/// Defender would hold layers while they are unpacked, and read every log line anew.
fn exclusions() -> Exclusions {
    let programs = ["containerd", "containerd-shim-runhcs-v1", "ctr", "kubelet"];
    Exclusions {
        paths: [
            r"C:\ProgramData\containerd",
            r"C:\var\lib\kubelet",
            r"C:\var\log",
        ]
        .map(str::to_owned)
        .into(),
        processes: programs
            .map(|name| backward(&windows_program_path(name)))
            .into(),
    }
}

fn dynamic_ports() -> Vec<DynamicPorts> {
    let ports = Catalog::builtin().dynamic_ports();
    vec![DynamicPorts {
        protocol: Protocol::Tcp,
        first: ports.first,
        count: ports.count,
    }]
}

/// Of one size, so that what kubelet takes for memory does not change under it.
fn page_file(wanted: &Wanted) -> PageFile {
    let mib = wanted.settings.page_file.bytes() / (1024 * 1024);
    let mib = u32::try_from(mib).unwrap_or(u32::MAX);
    PageFile {
        path: r"C:\pagefile.sys".into(),
        first_mib: mib,
        most_mib: mib,
    }
}
