//! Whether what a blueprint asks of Windows can be.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use mullion_wire::{Blueprint, OverlayNetwork, Service, Start, Windows};

use super::impossible;
use crate::failure::AgentError;
use crate::system::Family;
use crate::system::registry::{below_machine, place};

/// HNS takes nothing below this, and the wire nothing above 24 bits.
const VSIDS: std::ops::RangeInclusive<u32> = 4096..=0x00ff_ffff;
/// Windows takes no smaller range of dynamic ports.
const FEWEST_PORTS: u16 = 255;
/// Longer names are cut off by what still speaks `NetBIOS`.
const LONGEST_NAME: usize = 15;

/// Modes that Windows can give.
const FILE_MODES: &[u32] = &[0o600, 0o644];
pub(in crate::apply) const FOLDER_MODES: &[u32] = &[0o700, 0o755];

/// Refuses what the system does not have.
pub(super) fn family(family: Family, blueprint: &Blueprint) -> Result<(), AgentError> {
    match family {
        Family::Linux => {
            let is_defined = blueprint
                .services
                .iter()
                .any(|service| service.definition.is_some());
            if blueprint.windows.is_some() || is_defined {
                return impossible("it is one for a Windows machine".to_owned());
            }
        }
        Family::Windows => {
            let has_linux = !blueprint.modules.is_empty()
                || !blueprint.sysctls.is_empty()
                || !blueprint.packages.is_empty();
            if has_linux {
                return impossible("it is one for a Linux machine".to_owned());
            }
            modes(blueprint)?;
            starts(blueprint)?;
        }
    }
    Ok(())
}

/// Refuses services that nobody could start.
fn starts(blueprint: &Blueprint) -> Result<(), AgentError> {
    let is_disabled = |service: &&Service| {
        let definition = service.definition.as_ref();
        definition.is_some_and(|definition| definition.start == Start::Disabled)
    };
    match blueprint.services.iter().find(is_disabled) {
        Some(service) => impossible(format!("the service `{}` is disabled", service.name)),
        None => Ok(()),
    }
}

/// Refuses permissions that Windows cannot give, since they would differ for ever.
fn modes(blueprint: &Blueprint) -> Result<(), AgentError> {
    let files = blueprint.files.iter();
    let files = files.map(|file| (&file.path, file.mode, FILE_MODES));
    let folders = blueprint.folders.iter();
    let folders = folders.map(|folder| (&folder.path, folder.mode, FOLDER_MODES));
    for (path, mode, allowed) in files.chain(folders) {
        if !allowed.contains(&mode) {
            let allowed: Vec<_> = allowed.iter().map(|mode| format!("{mode:04o}")).collect();
            let allowed = allowed.join(" or ");
            return impossible(format!(
                "`{path}` has the mode {mode:04o}: on Windows it is {allowed}"
            ));
        }
    }
    Ok(())
}

/// Refuses what makes no sense, or is there twice.
pub(super) fn settings(windows: &Windows) -> Result<(), AgentError> {
    let mut places = BTreeSet::new();
    for value in &windows.registry {
        let (key, name) = (&value.key, &value.name);
        if below_machine(key).is_none() || format!("{key}{name}").contains('\0') {
            return impossible(format!("`{key}` is not a key of the machine's registry"));
        }
        if !places.insert(place(key, name)) {
            return impossible(format!("the registry value `{key}\\{name}` is there twice"));
        }
    }
    for name in windows.environment.keys() {
        let is_plain = !name.is_empty() && !name.contains(['=', '\0']);
        if !is_plain || name.eq_ignore_ascii_case("path") {
            return impossible(format!("`{name}` is not a variable that can be set"));
        }
    }
    for folder in &windows.path {
        if folder.is_empty() || folder.contains([';', '"', '\0']) {
            return impossible(format!("`{folder}` is not a folder for the Path"));
        }
    }
    for name in &windows.features {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return impossible(format!("`{name}` is not a feature's name"));
        }
    }
    if let Some(name) = &windows.host_name {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name = (1..=LONGEST_NAME).contains(&name.len())
            && name.bytes().all(is_plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_name {
            return impossible(format!("`{name}` is not a host name on Windows"));
        }
    }
    let mut protocols = BTreeSet::new();
    for ports in &windows.dynamic_ports {
        let end = u32::from(ports.first) + u32::from(ports.count);
        let is_range = ports.first >= 1024 && ports.count >= FEWEST_PORTS && end <= 65_536;
        if !is_range || !protocols.insert(ports.protocol) {
            return impossible(format!(
                "{} dynamic ports from {}",
                ports.count, ports.first
            ));
        }
    }
    windows.network.as_ref().map_or(Ok(()), network)
}

fn network(network: &OverlayNetwork) -> Result<(), AgentError> {
    let is_prefix = network
        .subnet
        .split_once('/')
        .is_some_and(|(address, length)| {
            address.parse::<Ipv4Addr>().is_ok() && length.parse::<u8>().is_ok_and(|bits| bits <= 30)
        });
    let is_sound = !network.name.is_empty()
        && is_prefix
        && network.gateway.parse::<Ipv4Addr>().is_ok()
        && VSIDS.contains(&network.vsid)
        && network.port != 0;
    if is_sound {
        return Ok(());
    }
    impossible(format!("the network `{}`", network.name))
}

#[cfg(test)]
mod tests {
    use mullion_wire::{AdapterChoice, DynamicPorts, Protocol, RegistryData, RegistryValue};

    use super::*;

    fn refused(change: impl FnOnce(&mut Windows)) -> String {
        let mut windows = Windows::default();
        change(&mut windows);
        settings(&windows).unwrap_err().to_string()
    }

    #[test]
    fn values_outside_the_machines_hive_or_twice_are_refused() {
        let value = |key: &str| RegistryValue {
            key: key.into(),
            name: "a".into(),
            data: RegistryData::Dword(1),
            restart: false,
        };
        let words = refused(|windows| windows.registry = vec![value(r"HKCU\Software")]);
        assert!(words.contains("not a key"), "{words}");
        let twice = vec![value(r"HKLM\Software"), value(r"hklm\SOFTWARE")];
        let words = refused(|windows| windows.registry = twice);
        assert!(words.contains("twice"), "{words}");
    }

    #[test]
    fn names_ports_and_variables_that_windows_does_not_take_are_refused() {
        for name in ["", "-a", "a_b", "1234", "a-name-of-17-signs"] {
            let words = refused(|windows| windows.host_name = Some(name.into()));
            assert!(words.contains("not a host name"), "{words}");
        }
        let ports = DynamicPorts {
            protocol: Protocol::Tcp,
            first: 60_000,
            count: 6_000,
        };
        let words = refused(|windows| windows.dynamic_ports = vec![ports]);
        assert!(words.contains("6000 dynamic ports from 60000"), "{words}");
        let words = refused(|windows| {
            windows.environment.insert("PATH".into(), "x".into());
        });
        assert!(words.contains("`PATH`"), "{words}");
    }

    #[test]
    fn a_network_needs_what_hns_needs() {
        let mut sound = OverlayNetwork {
            name: "External".into(),
            subnet: "192.168.255.0/30".into(),
            gateway: "192.168.255.1".into(),
            vsid: 4096,
            port: 4789,
            adapter: AdapterChoice::Outward,
        };
        network(&sound).unwrap();
        sound.vsid = 1;
        assert!(network(&sound).is_err());
    }
}
