//! Single addresses and the cluster's networks: which of them no machine can have, and which lie where
//! they must not.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::{Checker, GroupPlace};
use crate::cluster::{Carrier, ControlPlane, Group, Host, NodeIp};
use crate::draft::Addresses;
use crate::finding::Finding;
use crate::rules::{machines as machine_rule, network as rule};
use crate::source::Path;
use crate::value::Address;

/// Networks whose addresses mean something else than a computer on a network (RFC 6890).
const SPECIAL: [(Ipv4Net, &str); 5] = [
    (
        Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 8),
        "for computers that have no address yet",
    ),
    (
        Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
        "loopback",
    ),
    (
        Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
        "link-local",
    ),
    (
        Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4),
        "multicast",
    ),
    (
        Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4),
        "reserved and broadcast",
    ),
];

/// The networks of a cluster that addresses are held against.
#[derive(Clone, Copy)]
pub(super) struct Networks {
    pub(super) pods: Ipv4Net,
    pub(super) services: Ipv4Net,
    /// The machines' network, where machines are made in it.
    pub(super) machines: Option<Ipv4Net>,
}

impl Networks {
    /// The networks that pods and services take, by field.
    fn inner(self) -> Vec<(&'static str, Ipv4Net)> {
        vec![("podCIDR", self.pods), ("serviceCIDR", self.services)]
    }

    /// All of them, by field.
    pub(super) fn all(self) -> Vec<(&'static str, Ipv4Net)> {
        let mut nets = self.inner();
        nets.extend(self.machines.map(|net| ("machineCIDR", net)));
        nets
    }
}

impl Checker<'_> {
    /// Holds every address of the file against the networks.
    pub(super) fn addresses_of_computers(
        &mut self,
        nets: Networks,
        groups: &[Group],
        places: &[GroupPlace],
        hosts: &[Host],
        control_plane: &ControlPlane,
        found: &Addresses,
    ) {
        let hosts_at = Path::top().key("hosts");
        for (index, host) in hosts.iter().enumerate() {
            let at = hosts_at.index(index).key("address");
            if let Address::Ip(IpAddr::V4(ip)) = host.address {
                // A host may well be reached by a tunnel that begins on this computer.
                if !ip.is_loopback() {
                    self.ordinary(&at, ip, "a host");
                }
                self.apart(&at, ip.into(), &nets.all());
            }
        }
        for (group, place) in groups.iter().zip(places) {
            let apart_from = match &group.carrier {
                Carrier::Existing {
                    addresses, login, ..
                } => {
                    for (index, address) in addresses.iter().enumerate() {
                        let at = place.field("addresses").index(index);
                        self.existing_address(&at, address, nets);
                        // The jump host looks up what lies behind it, and may find another address.
                        if let Address::Name(name) = address
                            && login.jump.is_none()
                        {
                            self.existing_name(&at, name, found, nets);
                        }
                    }
                    nets.all()
                }
                Carrier::Made { .. } => nets.inner(),
            };
            let at = place.field("nodeIP");
            match group.node_ip {
                Some(NodeIp::Address(IpAddr::V4(ip))) => {
                    self.ordinary(&at, ip, "a node");
                    self.apart(&at, ip.into(), &apart_from);
                }
                Some(NodeIp::Network(IpNet::V4(net))) => self.apart(&at, net, &apart_from),
                _ => {}
            }
        }
        if let ControlPlane::Made {
            endpoint: Some(endpoint),
        } = control_plane
            && let Address::Ip(IpAddr::V4(ip)) = endpoint.address
        {
            let at = Path::top().key("controlPlane").key("endpoint");
            self.apart(&at, ip.into(), &nets.inner());
        }
    }

    fn existing_address(&mut self, at: &Path, address: &Address, nets: Networks) {
        match address {
            Address::Ip(IpAddr::V4(ip)) => {
                self.ordinary(at, *ip, "a machine");
                self.apart(at, (*ip).into(), &nets.all());
            }
            Address::Ip(IpAddr::V6(ip)) => self.report(
                Finding::new(&rule::IPV6, at.clone())
                    .message(format!("{ip}: a machine's address must be IPv4"))
                    .hint("give the machine's IPv4 address"),
            ),
            Address::Name(name) if name == "localhost" => self.report(
                Finding::new(&machine_rule::SPECIAL_ADDRESS, at.clone())
                    .message("`localhost` is this computer, and cannot be a machine's address"),
            ),
            Address::Name(_) => {}
        }
    }

    /// Holds a machine's name against the networks, by the address that steps take for it: the first one.
    fn existing_name(&mut self, at: &Path, name: &str, found: &Addresses, nets: Networks) {
        let address = found.get(name).and_then(|addresses| addresses.first());
        if let Some(ip) = address {
            let subject = format!("`{name}` has the address {ip}, which");
            self.apart_by(at, &subject, (*ip).into(), &nets.all());
        }
    }

    /// Holds the servers for names outside against the networks in which nobody can answer yet.
    pub(super) fn server_apart(&mut self, at: &Path, server: IpAddr, nets: Networks) {
        if let IpAddr::V4(ip) = server {
            self.apart(at, ip.into(), &nets.inner());
        }
    }

    /// Refuses an address that no computer can have on a network.
    fn ordinary(&mut self, at: &Path, ip: Ipv4Addr, whose: &str) {
        if let Some((net, meaning)) = special(ip.into()) {
            self.report(
                Finding::new(&machine_rule::SPECIAL_ADDRESS, at.clone()).message(format!(
                    "{ip} cannot be the address of {whose}: {net} is {meaning}"
                )),
            );
        }
    }

    /// Refuses an address, or a network of them, that lies inside one of the cluster's.
    fn apart(&mut self, at: &Path, given: Ipv4Net, nets: &[(&str, Ipv4Net)]) {
        let subject = if given.prefix_len() == 32 {
            given.addr().to_string()
        } else {
            given.to_string()
        };
        self.apart_by(at, &subject, given, nets);
    }

    /// The same, in words that begin with the subject.
    fn apart_by(&mut self, at: &Path, subject: &str, given: Ipv4Net, nets: &[(&str, Ipv4Net)]) {
        for (field, net) in nets.iter().filter(|(_, net)| net.contains(&given)) {
            self.report(
                Finding::new(&rule::ADDRESS_INSIDE, at.clone())
                    .message(format!("{subject} lies inside `{field}` {net}"))
                    .also(
                        Path::top().key("network").key(*field),
                        format!("`{field}` is {net}"),
                    ),
            );
        }
    }
}

/// The special network that a network overlaps, and what its addresses are.
pub(super) fn special(net: Ipv4Net) -> Option<(Ipv4Net, &'static str)> {
    SPECIAL
        .into_iter()
        .find(|(special, _)| special.contains(&net) || net.contains(special))
}

/// An IPv4 network as Go reads it: without leading zeros, which some read as octal.
pub(super) fn ipv4_net(text: &str) -> Option<Ipv4Net> {
    let (address, prefix) = text.split_once('/')?;
    address.parse::<Ipv4Addr>().ok()?;
    let has_zeros = prefix.len() > 1 && prefix.starts_with('0');
    text.parse().ok().filter(|_| !has_zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_no_leading_zeros() {
        assert!(ipv4_net("10.244.0.0/16").is_some());
        assert!(ipv4_net("0.0.0.0/0").is_some());
        for bad in [
            "010.244.0.0/16",
            "10.244.0.0/016",
            "10.244.0.0",
            "10.0.0.0/33",
            "fd00::/8",
        ] {
            assert!(ipv4_net(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn special_networks_are_found_from_inside_and_from_outside() {
        let is_special = |text: &str| special(text.parse().unwrap()).is_some();
        for net in [
            "127.1.0.0/16",
            "0.0.0.0/0",
            "255.255.255.255/32",
            "128.0.0.0/1",
            "169.254.1.1/32",
        ] {
            assert!(is_special(net), "{net}");
        }
        for net in [
            "10.0.0.0/8",
            "128.0.0.0/16",
            "100.64.0.0/10",
            "223.255.255.0/24",
        ] {
            assert!(!is_special(net), "{net}");
        }
    }
}
