//! What this computer has around it that a cluster must keep clear of.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use mullion_spec::draft::Surroundings;
use schemars::JsonSchema;
use serde::Serialize;

/// What the names of our own bridges begin with: a network of ours is not in anybody's way.
const OURS: &str = "mul";

/// Reads this computer's routes. A computer that does not tell has none that we know of.
pub fn read() -> Surroundings {
    let table = fs_err::read_to_string("/proc/net/route").unwrap_or_default();
    let foreign = routes(&table).into_iter().filter(|route| !route.is_ours());
    Surroundings {
        networks: foreign
            .map(|route| (route.network, route.interface))
            .collect(),
    }
}

/// A network that this computer has a route to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The network.
    #[schemars(with = "String")]
    pub network: Ipv4Net,
    /// The interface that leads there.
    pub interface: String,
}

impl Route {
    /// Whether a bridge of ours leads there.
    pub fn is_ours(&self) -> bool {
        self.interface.starts_with(OURS)
    }
}

/// The routes of a kernel's table, without the default. The kernel writes addresses as hexadecimal
/// numbers in network byte order.
pub fn routes(table: &str) -> Vec<Route> {
    let address = |text: &str| {
        let number = u32::from_str_radix(text, 16).ok()?;
        Some(Ipv4Addr::from(u32::from_be(number)))
    };
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_without_the_default_and_our_own_are_known() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            mul0\t0000630A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            broken\n";
        let found = routes(table);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].network, "192.168.1.0/24".parse().unwrap());
        assert!(!found[0].is_ours() && found[1].is_ours());
    }
}
