//! The two sides of a change: what the machine has, and what it will have.

use mullion_wire::{
    AdapterChoice, Blueprint, DynamicPorts, Firewall, Holding, LONGEST_TEXT, OverlayNetwork,
    Sha256Digest, Side, Windows, mask_output,
};

use super::{contents, definitions};
use crate::change::{Change, ServiceChange, protocol_word};
use crate::digests::Digests;
use crate::failure::AgentError;
use crate::state::State;
use crate::system::registry::{DWORD, EXPANDABLE, MULTI_STRING, STRING, Value};
use crate::system::{FirewallState, NetworkState, System};

/// So many bytes of a value that is no text are shown.
const SHOWN_BYTES: usize = 64;

/// Everything that a change is looked up in.
pub(super) struct Sides<'a> {
    /// The machine.
    pub(super) now: &'a dyn System,
    /// The machine as the rehearsal left it.
    pub(super) after: &'a dyn System,
    pub(super) state_now: &'a State,
    pub(super) state_after: &'a State,
    pub(super) blueprint: &'a Blueprint,
    /// What is known of the machine's large files.
    pub(super) digests: &'a mut Digests,
}

/// What is there, and what will be.
type Both = (Option<Side>, Option<Side>);

impl Sides<'_> {
    /// Both sides of a change.
    pub(super) fn of(&mut self, change: &Change) -> Result<Both, AgentError> {
        let state = |words: &str| Some(Side::state(words));
        Ok(match change {
            Change::File(path) | Change::Folder(path) => contents::both(self, path)?,
            Change::Package(_) => (None, state("installed")),
            Change::KernelModule(_) => (None, state("loaded")),
            Change::KernelSetting(name, _) => {
                let now = self.now.setting(name)?;
                let after = self.after.setting(name)?;
                (now.as_deref().map(shown), after.as_deref().map(shown))
            }
            Change::Firewall(group) => self.of_firewall(group)?,
            Change::Service(name, change) => self.of_service(name, *change)?,
            Change::Feature(_) => (state("disabled"), state("enabled")),
            Change::RegistryValue(key, name) => {
                let now = self.now.value(key, name)?;
                let after = self.after.value(key, name)?;
                (now.as_ref().map(of_value), after.as_ref().map(of_value))
            }
            Change::PathFolder(folder) => {
                let is_added = self.state_after.windows.path.contains(folder);
                one_of(is_added, "in the Path")
            }
            Change::Authority(sha256) => one_of(self.after.trusts(sha256)?, "trusted"),
            Change::Permissions(path) => {
                let mode = |system: &dyn System| -> Result<Option<Side>, AgentError> {
                    let look = system.look(path)?;
                    Ok(look.map(|look| Side {
                        mode: Some(look.mode),
                        ..Side::state(format!("{:04o}", look.mode))
                    }))
                };
                (mode(self.now)?, mode(self.after)?)
            }
            Change::HostName(_) => {
                let now = self.now.next_host_name()?;
                (
                    Some(shown(&now)),
                    Some(shown(&self.after.next_host_name()?)),
                )
            }
            Change::TimeZone(_) => {
                let now = self.now.time_zone()?;
                (Some(shown(&now)), Some(shown(&self.after.time_zone()?)))
            }
            Change::DynamicPorts(protocol, _) => {
                let now = self.now.dynamic_ports(*protocol)?;
                let after = self.after.dynamic_ports(*protocol)?;
                (Some(of_ports(now)), Some(of_ports(after)))
            }
            Change::Network(name) => self.of_network(name)?,
        })
    }

    /// The system tells only whether a group is as wanted: what it is otherwise is known where it is still as it was
    /// applied.
    fn of_firewall(&self, group: &str) -> Result<Both, AgentError> {
        let is_of_group = |firewall: &&Firewall| firewall.group == group;
        let applied = self.state_now.applied.as_ref();
        let applied = applied.and_then(|applied| applied.firewall.as_ref());
        let now = match applied.filter(is_of_group) {
            Some(applied) if self.now.firewall(applied)? == FirewallState::Set => {
                Some(of_firewall(applied))
            }
            _ if self.now.has_firewall(group)? => Some(Side::state("other rules")),
            _ => None,
        };
        let wanted = self.blueprint.firewall.as_ref();
        Ok((now, wanted.filter(is_of_group).map(of_firewall)))
    }

    fn of_service(&self, name: &str, change: ServiceChange) -> Result<Both, AgentError> {
        let now = match change {
            ServiceChange::Defined | ServiceChange::Removed => {
                return Ok((
                    definitions::of(self.now, name)?,
                    definitions::of(self.after, name)?,
                ));
            }
            ServiceChange::Enabled => "disabled",
            ServiceChange::Disabled => "enabled",
            ServiceChange::Started => "stopped",
            ServiceChange::Restarted | ServiceChange::Stopped => "running",
        };
        Ok((Some(Side::state(now)), Some(Side::state(change.verb()))))
    }

    /// As with the firewall.
    fn of_network(&self, name: &str) -> Result<Both, AgentError> {
        let of_name = |windows: Option<&Windows>| -> Option<OverlayNetwork> {
            let network = windows?.network.clone();
            network.filter(|network| network.name == name)
        };
        let applied = self.state_now.applied.as_ref();
        let applied = applied.and_then(|applied| applied.windows.as_ref());
        let applied = of_name(applied.map(|applied| &applied.settings));
        // Without HNS there are no networks.
        let is_there = self.now.has_network(name).unwrap_or(false);
        let now = match applied {
            _ if !is_there => None,
            Some(applied) if self.now.network(&applied)? == NetworkState::Set => {
                Some(of_network(&applied))
            }
            _ => Some(Side::state("another network")),
        };
        let after = of_name(self.blueprint.windows.as_ref());
        Ok((now, after.as_ref().map(of_network)))
    }
}

/// A thing that comes or goes.
fn one_of(is_added: bool, words: &str) -> Both {
    let side = Some(Side::state(words));
    if is_added { (None, side) } else { (side, None) }
}

/// A value as text, or by its digest where it is too long to be sent.
pub(super) fn shown(text: &str) -> Side {
    let text = hidden(text);
    if is_short(&text) {
        return Side::text(text);
    }
    let bytes = text.as_bytes();
    Side {
        holds: Holding::Bytes {
            sha256: Sha256Digest::of(bytes),
            size: bytes.len() as u64,
        },
        mode: None,
    }
}

/// Whether a text can be sent. JSON writes a control character with six letters.
pub(super) fn is_short(text: &str) -> bool {
    let written = serde_json::to_string(text).map_or(0, |text| text.len());
    written as u64 <= LONGEST_TEXT
}

/// Text without the secrets in it.
pub(super) fn hidden(text: &str) -> String {
    text.split_inclusive('\n').map(mask_output).collect()
}

fn of_value(value: &Value) -> Side {
    let text = match value.kind {
        STRING | EXPANDABLE => {
            let kind = if value.kind == STRING {
                "REG_SZ"
            } else {
                "REG_EXPAND_SZ"
            };
            format!("{kind} {}", value.text().unwrap_or_default())
        }
        MULTI_STRING => {
            let texts = value.texts().into_iter();
            let lines: Vec<_> = texts.map(|text| format!("REG_MULTI_SZ {text}")).collect();
            lines.join("\n")
        }
        DWORD => match value.number() {
            Some(number) => format!("REG_DWORD {number}"),
            None => of_bytes(value),
        },
        _ => of_bytes(value),
    };
    shown(&text)
}

fn of_bytes(value: &Value) -> String {
    let bytes = value.bytes.iter().take(SHOWN_BYTES);
    let bytes: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
    let rest = match value.bytes.len().saturating_sub(SHOWN_BYTES) {
        0 => String::new(),
        rest => format!(" and {rest} bytes more"),
    };
    format!("type {} {}{rest}", value.kind, bytes.join(" "))
}

fn of_ports(ports: DynamicPorts) -> Side {
    let last = u32::from(ports.first) + u32::from(ports.count).saturating_sub(1);
    Side::text(format!("{}-{last}", ports.first))
}

fn of_firewall(firewall: &Firewall) -> Side {
    let lines: Vec<_> = firewall
        .open
        .iter()
        .map(|port| {
            let protocol = protocol_word(port.protocol);
            let ports = if port.first == port.last {
                port.first.to_string()
            } else {
                format!("{}-{}", port.first, port.last)
            };
            format!("{protocol} {ports} {}\n", port.name)
        })
        .collect();
    Side::text(lines.concat())
}

fn of_network(network: &OverlayNetwork) -> Side {
    let adapter = match &network.adapter {
        AdapterChoice::Name(name) => name.clone(),
        AdapterChoice::Address(address) => format!("the one with {address}"),
        AdapterChoice::Outward => "the one that leads out".to_owned(),
    };
    let OverlayNetwork {
        subnet,
        gateway,
        vsid,
        port,
        ..
    } = network;
    Side::text(format!(
        "subnet {subnet}\ngateway {gateway}\nvsid {vsid}\nport {port}\nadapter {adapter}\n"
    ))
}
