//! The ports that a Windows machine opens. Its firewall is on by itself, and lets nothing in.

use mullion_catalog::{Catalog, PortWhen};
use mullion_spec::cluster::Carrier;
use mullion_wire::{Firewall, OpenPort, Protocol};

use super::settings::of;
use crate::setting::{Seat, Setting};
use crate::system::uses_vxlan;

pub(super) fn firewall(setting: &Setting<'_>, seat: Seat<'_>) -> Firewall {
    let mut choices = Vec::new();
    if uses_vxlan(setting) {
        choices.push(PortWhen::BackendVxlan);
    }
    if of(seat).is_some_and(|windows| windows.settings.rdp) {
        choices.push(PortWhen::Rdp);
    }
    let ports = Catalog::builtin().open_ports(&choices);
    let mut open: Vec<_> = ports
        .filter_map(|port| {
            let (mut first, mut last) = port.range()?;
            if port.name == "ssh"
                && let Carrier::Existing { login, .. } = &seat.group.carrier
            {
                (first, last) = (login.port, login.port);
            }
            Some(OpenPort {
                name: port.name.clone(),
                protocol: match port.protocol {
                    mullion_catalog::Protocol::Tcp => Protocol::Tcp,
                    mullion_catalog::Protocol::Udp => Protocol::Udp,
                },
                first,
                last,
            })
        })
        .collect();
    open.sort();
    Firewall {
        group: "mullion".into(),
        open,
    }
}
