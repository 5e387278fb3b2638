//! Which network the machines are in, and which address each has.
//!
//! Stable: what has an address keeps it. A new machine takes the lowest free one; a machine that is gone
//! but still known to the cluster gets the address it had.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use mullion_spec::cluster::{Carrier, ControlPlane, Duty, Machine, NodeIp};
use mullion_spec::networks::{Relation, relation};
use mullion_spec::value::{Address, Endpoint, MachineName};

use crate::observed::{MachineFacts, Observed, Place};
use crate::obstacle::Obstacle;
use crate::wanted::Wanted;
use mullion_render::API_PORT;

/// The machines' network and addresses, the latter in the order of the machines.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) network: Option<Ipv4Net>,
    of: Vec<Option<Address>>,
    pub(crate) endpoint: Option<String>,
}

impl Addresses {
    /// The address of the machine at that position, as text.
    pub(crate) fn text(&self, position: usize) -> String {
        self.of
            .get(position)
            .and_then(Option::as_ref)
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// The address of a machine that we make.
    pub(crate) fn made(&self, position: usize) -> Option<Ipv4Addr> {
        match self.of.get(position)? {
            Some(Address::Ip(IpAddr::V4(address))) => Some(*address),
            _ => None,
        }
    }
}

/// Who is where: what rendering needs of every machine, wanted and found taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// The machines' network, where any machine is made.
    pub network: Option<Ipv4Net>,
    /// Where clients reach the API server; empty where that is not known.
    pub endpoint: String,
    /// The address of every wanted machine, in the order of the file; empty where none is known.
    pub addresses: Vec<(MachineName, String)>,
}

impl Roster {
    /// The roster that [`crate::plan`] plans with.
    pub fn of(wanted: &Wanted<'_>, observed: &Observed) -> Self {
        let machines: Vec<_> = wanted.cluster.machines().collect();
        // What is in the way is told by the plan.
        let found = assign(wanted, observed, &machines, &mut BTreeSet::new());
        Self {
            network: found.network,
            addresses: machines
                .iter()
                .enumerate()
                .map(|(position, machine)| (machine.name.clone(), found.text(position)))
                .collect(),
            endpoint: found.endpoint.unwrap_or_default(),
        }
    }

    /// The machines whose address is known, and where they are.
    pub fn known(&self) -> impl Iterator<Item = (&MachineName, IpAddr)> {
        let addresses = self.addresses.iter();
        addresses.filter_map(|(name, address)| Some((name, address.parse().ok()?)))
    }

    /// The address of one machine.
    pub fn address(&self, machine: &MachineName) -> Option<&str> {
        let mut addresses = self.addresses.iter();
        let (_, address) = addresses.find(|(name, _)| name == machine)?;
        Some(address)
    }
}

/// Decides network, addresses and endpoint, and says what is in the way.
pub(crate) fn assign(
    wanted: &Wanted<'_>,
    observed: &Observed,
    machines: &[Machine<'_>],
    obstacles: &mut BTreeSet<Obstacle>,
) -> Addresses {
    let network = machine_network(wanted, observed, machines, obstacles);
    let mut of: Vec<_> = machines
        .iter()
        .map(|machine| machine.given_address().cloned())
        .collect();
    let owner = endpoint_owner(wanted, machines);
    if let Some(network) = network {
        assign_made(network, observed, machines, owner, &mut of, obstacles);
    }
    let endpoint = match &wanted.cluster.control_plane {
        ControlPlane::Made {
            endpoint: Some(endpoint),
        } => Some(endpoint.to_string()),
        ControlPlane::Made { endpoint: None } => {
            owner.and_then(|owner| of[owner].clone()).map(|address| {
                let port = API_PORT;
                Endpoint { address, port }.to_string()
            })
        }
        ControlPlane::Existing { .. } => observed
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.endpoint.clone()),
    };
    Addresses {
        network,
        of,
        endpoint,
    }
}

/// By which address a machine is a node: the one that the file names, else the one by which it is logged in to. Where the
/// file names a network or an adapter, it is chosen among `told`, such as `eth0 192.0.2.11/24`; one of ours that has told
/// nothing yet has the address that it is made with.
pub(crate) fn node_address(
    machine: &Machine<'_>,
    address: &str,
    told: &[String],
) -> Option<IpAddr> {
    let own = address.parse().ok();
    match &machine.group.node_ip {
        None => own,
        Some(NodeIp::Address(address)) => Some(*address),
        Some(wish) if !told.is_empty() => chosen_address(wish, told),
        Some(NodeIp::Network(network)) if machine.group.carrier.is_made() => {
            own.filter(|own| network.contains(own))
        }
        Some(_) => None,
    }
}

/// The first IPv4 address that fits, among lines such as `host0 10.99.0.11/24`. An adapter's name may hold spaces.
pub fn chosen_address(wish: &NodeIp, lines: &[String]) -> Option<IpAddr> {
    let mut found = lines.iter().filter_map(|line| address_in_line(line));
    let fits = |adapter: &str, address: IpAddr| match wish {
        NodeIp::Address(wanted) => address == *wanted,
        NodeIp::Network(network) => network.contains(&address),
        NodeIp::Adapter(name) => adapter.eq_ignore_ascii_case(name) && address.is_ipv4(),
    };
    found
        .find(|(adapter, address)| fits(adapter, *address))
        .map(|(_, address)| address)
}

/// The adapter and the address of a line such as `host0 10.99.0.11/24`.
pub fn address_in_line(line: &str) -> Option<(&str, IpAddr)> {
    let (adapter, address) = line.rsplit_once(' ')?;
    let (address, _) = address.split_once('/').unwrap_or((address, ""));
    Some((adapter, address.parse().ok()?))
}

/// The machine whose address is the cluster's endpoint, unless the user has one.
fn endpoint_owner(wanted: &Wanted<'_>, machines: &[Machine<'_>]) -> Option<usize> {
    if !matches!(
        wanted.cluster.control_plane,
        ControlPlane::Made { endpoint: None }
    ) {
        return None;
    }
    let first = |duty| {
        machines
            .iter()
            .position(|machine| machine.group.duty == duty)
    };
    first(Duty::LoadBalancer).or_else(|| first(Duty::ControlPlane))
}

/// The network that the checked file has for machines, and who is in its way.
fn machine_network(
    wanted: &Wanted<'_>,
    observed: &Observed,
    machines: &[Machine<'_>],
    obstacles: &mut BTreeSet<Obstacle>,
) -> Option<Ipv4Net> {
    let places: BTreeSet<_> = machines.iter().filter_map(place).collect();
    if places.is_empty() {
        return None;
    }
    let network = wanted.cluster.network.machines?;
    for place in places {
        let Some(host) = observed.hosts.get(&place) else {
            continue;
        };
        // A network that is ours already works beside whatever came later.
        if host.network == Some(network) {
            continue;
        }
        let is_covered = |other: &&IpNet| relation(network, **other) == Relation::Covers;
        if let Some(foreign) = host.foreign.iter().find(is_covered) {
            obstacles.insert(Obstacle::NetworkTaken {
                foreign: *foreign,
                place,
                wanted: network,
            });
        }
    }
    Some(network)
}

/// The computer that carries a machine that we make.
pub(crate) fn place(machine: &Machine<'_>) -> Option<Place> {
    match &machine.group.carrier {
        Carrier::Made { host, .. } => Some(Place::from(host.as_ref())),
        Carrier::Existing { .. } => None,
    }
}

fn assign_made(
    network: Ipv4Net,
    observed: &Observed,
    machines: &[Machine<'_>],
    owner: Option<usize>,
    of: &mut [Option<Address>],
    obstacles: &mut BTreeSet<Obstacle>,
) {
    let v4 = |address: Option<IpAddr>| match address {
        Some(IpAddr::V4(address)) => Some(address),
        _ => None,
    };
    let found = |facts: &MachineFacts| v4(facts.address);
    let mut used: BTreeSet<Ipv4Addr> = observed.machines.values().filter_map(found).collect();
    let mut homeless = Vec::new();
    for (position, machine) in machines.iter().enumerate() {
        if place(machine).is_none() {
            continue;
        }
        let facts = observed.machines.get(&machine.name);
        match facts.and_then(found) {
            Some(address) => {
                if !network.contains(&address) {
                    obstacles.insert(Obstacle::AddressOutside {
                        machine: machine.name.clone(),
                        address: address.to_string(),
                        network,
                    });
                }
                of[position] = Some(Address::Ip(address.into()));
            }
            None => homeless.push(position),
        }
    }
    // Machines that the cluster still knows come first, so that no new one takes what was theirs.
    let gateway = network.hosts().next();
    let cluster = observed.cluster.as_ref();
    let remembered = |position: usize| {
        let name = machines[position].name.as_str();
        let cluster = cluster?;
        let of_node = || v4(cluster.nodes.get(name)?.address);
        let of_endpoint = || cluster.endpoint.as_ref()?.rsplit_once(':')?.0.parse().ok();
        let kept = if owner == Some(position) {
            of_endpoint().or_else(of_node)
        } else {
            of_node()
        };
        kept.filter(|address| network.contains(address) && Some(*address) != gateway)
    };
    homeless.retain(|&position| match remembered(position) {
        Some(address) if used.insert(address) => {
            of[position] = Some(Address::Ip(address.into()));
            false
        }
        _ => true,
    });
    if let Some(cluster) = cluster {
        used.extend(cluster.nodes.values().filter_map(|node| v4(node.address)));
    }
    let needed = homeless.len();
    let mut free = network
        .hosts()
        .skip(1)
        .filter(|address| !used.contains(address));
    for (count, position) in homeless.into_iter().enumerate() {
        let Some(address) = free.next() else {
            obstacles.insert(Obstacle::TooFewAddresses {
                network,
                free: count,
                needed,
            });
            return;
        };
        of[position] = Some(Address::Ip(address.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_chosen_by_network_or_adapter() {
        let lines = [
            "eth0 192.0.2.11/24",
            "eth0 fe80::1/64",
            "Ethernet 2 198.51.100.7/24",
        ];
        let lines = lines.map(str::to_owned);
        let by = |wish: NodeIp| chosen_address(&wish, &lines).map(|address| address.to_string());
        let network = |text: &str| NodeIp::Network(text.parse().unwrap());
        assert_eq!(by(network("198.51.100.0/24")).unwrap(), "198.51.100.7");
        assert_eq!(by(network("10.0.0.0/8")), None);
        let adapter = |text: &str| NodeIp::Adapter(text.into());
        assert_eq!(by(adapter("eth0")).unwrap(), "192.0.2.11");
        assert_eq!(by(adapter("ethernet 2")).unwrap(), "198.51.100.7");
        assert_eq!(by(adapter("eth1")), None);
    }
}
