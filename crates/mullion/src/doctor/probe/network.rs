//! Who listens where, and which networks are in use.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::super::computer::Route;
use super::Place;

impl Place<'_> {
    pub(super) fn udp_ports(&self) -> BTreeSet<u16> {
        let tables = ["/proc/net/udp", "/proc/net/udp6"];
        let texts = tables.iter().filter_map(|table| self.read(table));
        texts.flat_map(|text| ports(&text)).collect()
    }

    pub(super) fn routes(&self) -> Vec<Route> {
        self.read("/proc/net/route")
            .map(|text| routes(&text))
            .unwrap_or_default()
    }
}

/// The local ports of a table of sockets: the second field is `ADDRESS:PORT` in hexadecimal.
fn ports(table: &str) -> BTreeSet<u16> {
    let port = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// The networks of a table of routes. The kernel writes addresses as hexadecimal numbers in network byte order.
fn routes(table: &str) -> Vec<Route> {
    let address = |text: &str| {
        u32::from_str_radix(text, 16)
            .ok()
            .map(u32::from_be)
            .map(Ipv4Addr::from)
    };
    let route = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [interface, destination, _, _, _, _, _, mask, ..] = fields[..] else {
            return None;
        };
        let network = Ipv4Net::with_netmask(address(destination)?, address(mask)?).ok()?;
        (network.prefix_len() > 0).then(|| Route {
            network,
            interface: interface.to_owned(),
        })
    };
    table.lines().skip(1).filter_map(route).collect()
}
