//! Who listens where, and which networks are in use.

use std::collections::BTreeSet;

use super::Place;
use crate::surroundings::{Route, routes};

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
