//! What this computer has around it that a cluster must keep clear of.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use mullion_spec::draft::Surroundings;

/// What the names of our own bridges begin with: a network of ours is not in anybody's way.
const OURS: &str = "mul";

/// Reads this computer's routes. A computer that does not tell has none that we know of.
pub fn read() -> Surroundings {
    let routes = fs_err::read_to_string("/proc/net/route").unwrap_or_default();
    Surroundings {
        networks: networks(&routes),
    }
}

/// The networks of a kernel's table of routes.
fn networks(table: &str) -> Vec<(Ipv4Net, String)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::from_be);
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [interface, destination, _, _, _, _, _, mask, ..] = fields[..] else {
                return None;
            };
            let address = Ipv4Addr::from(number(destination)?);
            let mask = Ipv4Addr::from(number(mask)?);
            let net = Ipv4Net::with_netmask(address, mask).ok()?;
            let is_foreign = net.prefix_len() > 0 && !interface.starts_with(OURS);
            is_foreign.then(|| (net, interface.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_become_networks_without_the_default_and_our_own() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            mul0\t0000630A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            broken\n";
        let networks = networks(table);
        assert_eq!(
            networks,
            [("192.168.1.0/24".parse().unwrap(), "eth0".to_owned())]
        );
    }
}
