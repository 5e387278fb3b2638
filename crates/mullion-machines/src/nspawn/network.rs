//! A bridge a cluster, and its way out.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use fs_err::File;
use ipnet::{IpNet, Ipv4Net};
use mullion_plan::{Identity, Trouble};
use mullion_spec::networks::{Relation, relation};
use mullion_spec::value::ClusterName;
use mullion_spec::words::MachineAccess;

use super::firewall::{self, Tables};
use super::kernel::{Forwarding, Kernel, WayOut};
use super::links::{self, Link, Route};
use super::{exec, names};
use crate::error::DriverError;
use crate::wish::{NetworkWish, gateway};

/// Keeps two processes from changing the networks of this computer at once.
const LOCK: &str = "/run/mullion-network.lock";

/// The machine network of a cluster, if its bridge is there, and every other network.
pub(super) struct Seen {
    pub(super) network: Option<Ipv4Net>,
    pub(super) lacks: Option<String>,
    pub(super) access: Option<MachineAccess>,
    pub(super) foreign: Vec<IpNet>,
    pub(super) clusters: Vec<ClusterName>,
    /// What the label of its bridge says of the cluster beside the name.
    pub(super) identity: Result<Option<Identity>, Trouble>,
    /// The cables of machines on its bridge.
    pub(super) cables: Vec<String>,
}

/// Looks at this computer's networks.
pub(super) fn look(cluster: &ClusterName) -> Result<Seen, DriverError> {
    let links = links::all()?;
    let is_own = |link: &&Link| belongs(link, cluster);
    let own = links.iter().find(is_own);
    // The kernel shows its rules to root alone; others see what the label says.
    let is_root = rustix::process::geteuid().is_root();
    let access = match own {
        Some(link) if is_root => Some(firewall::access(&link.ifname)?),
        Some(link) => link.access(),
        None => None,
    };
    Ok(Seen {
        network: own.and_then(Link::ipv4).map(|network| network.trunc()),
        lacks: match own {
            Some(link) => lacks(link, access.filter(|_| is_root))?,
            None => left_over(cluster, &Kernel::here()?)?,
        },
        access,
        foreign: foreign(&links, &links::routes()?, cluster)
            .into_iter()
            .map(|(network, _)| network)
            .collect(),
        clusters: links.iter().filter_map(Link::cluster).collect(),
        identity: own.map_or(Ok(None), Link::identity),
        cables: own.map_or_else(Vec::new, |own| {
            let cables = links.iter().filter(|link| link.is_cable_of(&own.ifname));
            cables.map(|link| link.ifname.clone()).collect()
        }),
    })
}

/// The networks of this computer, as a cluster sees them that chooses its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks {
    /// The cluster's own machine network.
    pub own: Option<Ipv4Net>,
    /// What this computer has or reaches beside it, each with its interface.
    pub others: Vec<(Ipv4Net, String)>,
}

/// The networks of this computer, as that cluster sees them.
pub fn networks(cluster: &ClusterName) -> Result<Networks, DriverError> {
    let links = links::all()?;
    let own = links.iter().find(|link| belongs(link, cluster));
    let others = foreign(&links, &links::routes()?, cluster);
    let others = others
        .into_iter()
        .filter_map(|(network, name)| match network {
            IpNet::V4(network) => Some((network, name)),
            IpNet::V6(_) => None,
        });
    Ok(Networks {
        own: own.and_then(Link::ipv4).map(|network| network.trunc()),
        others: others.collect(),
    })
}

/// Everything that this computer has or reaches beside the cluster's own network: networks of interfaces and routes,
/// and the single addresses of interfaces and gateways, which a smaller network than theirs must not contain.
fn foreign(links: &[Link], routes: &[Route], cluster: &ClusterName) -> Vec<(IpNet, String)> {
    let own: Vec<_> = links
        .iter()
        .filter(|link| belongs(link, cluster))
        .map(|link| link.ifname.as_str())
        .collect();
    let mut found = BTreeSet::new();
    for link in links
        .iter()
        .filter(|link| !own.contains(&link.ifname.as_str()))
    {
        for network in link.networks() {
            found.insert((network.trunc(), link.ifname.clone()));
            found.insert((network.addr().into(), link.ifname.clone()));
        }
    }
    for (network, name) in routes.iter().flat_map(Route::networks) {
        if !own.contains(&name) {
            found.insert((network.into(), name.to_owned()));
        }
    }
    found.into_iter().collect()
}

/// The network that a machine of the cluster needs, as the label of the bridge describes it. One without a label that
/// says so is reached from this computer alone.
pub(super) fn wish_of(
    cluster: &ClusterName,
    network: Ipv4Net,
    identity: Option<Identity>,
) -> Result<NetworkWish, DriverError> {
    let links = links::all()?;
    let own = links.iter().find(|link| belongs(link, cluster));
    Ok(NetworkWish {
        cluster: cluster.clone(),
        network,
        access: own.and_then(Link::access).unwrap_or(MachineAccess::Host),
        identity,
    })
}

/// Whether a bridge is the cluster's: by its label, or by its name where a run was killed before it could label it.
fn belongs(link: &Link, cluster: &ClusterName) -> bool {
    link.cluster().as_ref() == Some(cluster)
        || (link.ifname == names::bridge(cluster) && link.is_blank())
}

/// What of a network is missing, in the order in which it is made.
fn lacks(link: &Link, access: Option<MachineAccess>) -> Result<Option<String>, DriverError> {
    let bridge = link.ifname.as_str();
    let Some(network) = link.ipv4().filter(|_| link.cluster().is_some()) else {
        return Ok(Some(format!("{bridge} has no label or no address")));
    };
    if !link.is_up() {
        return Ok(Some(format!("{bridge} is switched off")));
    }
    let way_out = WayOut::here()?;
    if let Some(setting) = Kernel::here()?.lacks(way_out)? {
        return Ok(Some(format!("{setting} is too low")));
    }
    // A caller who may not read the rules takes them as made.
    match access {
        Some(access) if way_out == WayOut::Open => {
            firewall::way_out_lacks(bridge, network.trunc(), access)
        }
        _ => Ok(None),
    }
}

/// What is left of a network whose bridge somebody deleted: its tables, named as the bridge was, or raised settings of
/// the kernel.
fn left_over(cluster: &ClusterName, kernel: &Kernel) -> Result<Option<String>, DriverError> {
    let bridge = names::bridge(cluster);
    let tables = if rustix::process::geteuid().is_root() {
        match Tables::of(&bridge) {
            // A kernel without tables holds none of ours.
            Err(DriverError::Program { .. }) => Tables::default(),
            tables => tables?,
        }
    } else {
        Tables::default()
    };
    if tables.any() {
        return Ok(Some(format!(
            "{bridge} is gone, and its rules, nft's table, are left"
        )));
    }
    Ok(kernel
        .names(cluster)?
        .then(|| format!("{bridge} is gone, and what it changed in the kernel's settings is left")))
}

/// Makes a cluster's network, or finishes it where it was begun.
pub(super) fn make(wish: &NetworkWish) -> Result<(), DriverError> {
    let _lock = Lock::wait()?;
    let network = wish.network.trunc();
    let gateway = gateway(&network).ok_or(DriverError::TooSmall(network))?;
    let bridge = names::bridge(&wish.cluster);
    let links = links::all()?;
    let own = links.iter().find(|link| link.ifname == bridge);
    if let Some(link) = own {
        if link.cluster().as_ref() != Some(&wish.cluster) && !link.is_blank() {
            return Err(DriverError::NotOurs {
                what: "the bridge",
                name: bridge,
            });
        }
        let other = link.identity().map_or_else(Some, |there| {
            let (there, own) = (there?, wish.identity.as_ref()?);
            (there.id != own.id).then(|| Trouble::OtherCluster {
                found: there.id,
                own: Some(own.id.clone()),
                owner: Some(there.owner),
                file: "the state folder's `clusters/NAME/id`"
                    .replace("NAME", wish.cluster.as_str()),
            })
        });
        if let Some(trouble) = other {
            return Err(DriverError::LeftAlone {
                machine: None,
                trouble,
            });
        }
        if let Some(there) = link.ipv4()
            && (there.trunc() != network || there.addr() != gateway)
        {
            return Err(DriverError::OtherNetwork {
                cluster: wish.cluster.clone(),
                there: there.trunc(),
                wanted: network,
            });
        }
    }
    // A network that is ours already works beside whatever came later.
    if own.and_then(Link::ipv4).is_none() {
        for (taken, interface) in foreign(&links, &links::routes()?, &wish.cluster) {
            if relation(network, taken) == Relation::Covers {
                return Err(DriverError::Taken {
                    network,
                    taken: taken.to_string(),
                    interface,
                });
            }
        }
    }
    let is_labelled = own.is_some_and(|link| link.cluster().is_some());
    let tables = Tables::of(&bridge)?;
    let by_older = tables.are_older(is_labelled);
    let kernel = Kernel::here()?;
    // Before anything that shows a network here.
    let has_rules = tables.any() || firewall::has_pass_chain(&bridge)?;
    kernel.forget_former(&clusters(&links, has_rules.then_some(&wish.cluster)))?;
    // Before the bridge: no machine is reachable for a moment, and no network is there that this cannot be asked of.
    firewall::set_access(&bridge, wish.access)?;
    if own.is_none() {
        exec::run("ip", &["link", "add", "name", &bridge, "type", "bridge"])?;
    }
    // The label before all else. A run that is killed before this line leaves a blank bridge of our name.
    if own.is_none_or(|link| !link.is_labelled(wish)) {
        // Who made it stays who made it.
        let there = own.and_then(|link| link.identity().ok().flatten());
        let identity = there.as_ref().or(wish.identity.as_ref());
        let label = links::label(&wish.cluster, identity, wish.access);
        exec::run("ip", &["link", "set", "dev", &bridge, "alias", &label])?;
    }
    let address = format!("{gateway}/{}", network.prefix_len());
    if own.and_then(Link::ipv4).is_none() {
        exec::run("ip", &["address", "add", &address, "dev", &bridge])?;
    }
    if !own.is_some_and(Link::is_up) {
        exec::run("ip", &["link", "set", "dev", &bridge, "up"])?;
    }
    let way_out = WayOut::here()?;
    if links.iter().any(|link| link.cluster().is_some()) {
        kernel.adopt()?;
    }
    kernel.prepare(&wish.cluster, way_out)?;
    if way_out == WayOut::Open {
        firewall::open_way_out(&bridge, network, wish.access)?;
    }
    if by_older {
        firewall::remove_older_passes(&bridge)?;
    }
    Ok(())
}

/// Removes a cluster's network. Nothing is there: success.
pub(super) fn remove(cluster: &ClusterName) -> Result<(), DriverError> {
    let _lock = Lock::wait()?;
    take_away(cluster, &links::all()?, &Kernel::here()?)
}

/// Takes away all that a network is. The bridge and the guard go last: a run that is killed in between leaves what the
/// next one finds the rest by.
fn take_away(cluster: &ClusterName, links: &[Link], kernel: &Kernel) -> Result<(), DriverError> {
    let bridge = names::bridge(cluster);
    let has_bridge = links.iter().any(|link| belongs(link, cluster));
    let tables = Tables::of(&bridge)?;
    // Somebody may have removed everything else by hand.
    let is_here = has_bridge || tables.any() || firewall::has_pass_chain(&bridge)?;
    kernel.forget_former(&clusters(links, is_here.then_some(cluster)))?;
    if is_here {
        kernel.adopt()?;
    }
    let others = links.iter().filter_map(Link::cluster);
    let others = others.filter(|other| other != cluster).collect();
    kernel.put_back(cluster, &others, forwarding(links, cluster)?)?;
    // After the settings: the chain may be all that shows a network here.
    firewall::remove_passes(&bridge, tables.are_older(has_bridge))?;
    if tables.way_out {
        firewall::remove_way_out(&bridge)?;
    }
    for link in links.iter().filter(|link| link.is_cable_of(&bridge)) {
        // The kernel removes it some time after the last process of its machine, and may have been quicker.
        let _ = exec::run("ip", &["link", "delete", "dev", &link.ifname]);
    }
    for link in links.iter().filter(|link| belongs(link, cluster)) {
        let name = link.ifname.as_str();
        exec::run("ip", &["link", "delete", "dev", name, "type", "bridge"])?;
    }
    if tables.guard {
        firewall::remove_guard(&bridge)?;
    }
    Ok(())
}

/// The clusters that have a network in this namespace: those that a bridge names, and one whose rules are here.
fn clusters(links: &[Link], with_rules: Option<&ClusterName>) -> BTreeSet<ClusterName> {
    let named = links.iter().filter_map(Link::cluster);
    named.chain(with_rules.cloned()).collect()
}

/// Whether something else may need packets passed on by now. Container engines, virtual machines and VPNs switch that
/// on, and do not expect that anybody switches it off.
fn forwarding(links: &[Link], cluster: &ClusterName) -> Result<Forwarding, DriverError> {
    let uplinks = links::uplinks()?;
    let own = names::bridge(cluster);
    let is_user = |link: &Link| {
        !belongs(link, cluster)
            && !link.is_part_of(&own)
            // This computer's own way to other networks can be of any kind, in a container for example.
            && !uplinks.contains(&link.ifname)
            && link.joins_networks()
    };
    Ok(
        if links.iter().any(is_user) || firewall::others_translate()? {
            Forwarding::Shared
        } else {
            Forwarding::Ours
        },
    )
}

impl WayOut {
    /// Whether this computer has one to give.
    fn here() -> Result<Self, DriverError> {
        Ok(if links::uplinks()?.is_empty() {
            Self::Closed
        } else {
            Self::Open
        })
    }
}

/// The right to change this computer's networks. The system frees it when the process ends, however it does.
pub(super) struct Lock {
    // Locked as long as it is open.
    _file: File,
}

impl Lock {
    pub(super) fn wait() -> Result<Self, DriverError> {
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(LOCK)?;
            file.file().lock()?;
            // Whoever had it may have removed the file: then this lock is on one that nobody else sees.
            let own = file.metadata()?.ino();
            if fs_err::metadata(LOCK).is_ok_and(|there| there.ino() == own) {
                return Ok(Self { _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is held: whoever waits for this file looks again. One that cannot be removed does no harm.
        let _ = fs_err::remove_file(LOCK);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn cluster() -> ClusterName {
        "dev".parse().unwrap()
    }

    /// Plays a computer on which a network's rules are there, and a chain that they would pass through.
    fn answer(name: &str, args: &[&str]) -> String {
        let bridge = names::bridge(&cluster());
        match (name, args) {
            ("nft", ["list", "tables"]) => {
                format!("table ip nat\ntable ip {bridge}\ntable inet {bridge}\n")
            }
            _ => String::new(),
        }
    }

    #[test]
    fn what_tells_whose_a_network_is_goes_last() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = Kernel::played(folder.path());
        kernel.prepare(&cluster(), WayOut::Open).unwrap();
        let bridge = names::bridge(&cluster());
        let links = serde_json::json!([
            { "ifname": &bridge, "ifalias": links::label(&cluster(), None, MachineAccess::Host) },
            { "ifname": "vb-mul00000001", "master": &bridge },
            { "ifname": "vb-mul00000002", "master": "mul02" },
            { "ifname": "eth1", "master": &bridge },
            // A container of somebody else's on our bridge.
            { "ifname": "vb-theirs", "master": &bridge },
        ]);
        let links: Vec<Link> = serde_json::from_value(links).unwrap();
        // What changed something, and whether the kernel had been put back by then.
        let changes = Rc::new(RefCell::new(Vec::new()));
        let (heard, record) = (changes.clone(), folder.path().join("before.json"));
        exec::play::by(move |name, args| {
            let changes = ["-D", "-F", "-X", "delete"];
            let is_change = changes.iter().any(|change| args.contains(change));
            // The jump is there once.
            let is_gone = args.contains(&"-C") && !heard.borrow().is_empty();
            if is_change {
                let line = format!("{name} {}", args.join(" "));
                heard.borrow_mut().push((line, !record.exists()));
            }
            if is_gone {
                return Err(DriverError::Program {
                    command: name.into(),
                    tail: "Bad rule".into(),
                });
            }
            Ok(answer(name, args))
        });
        take_away(&cluster(), &links, &kernel).unwrap();
        assert_eq!(
            *changes.borrow(),
            [
                // The chain may be all that shows a network.
                (
                    format!("iptables -w 10 -D FORWARD -j mullion-{bridge}"),
                    true
                ),
                (format!("iptables -w 10 -F mullion-{bridge}"), true),
                (format!("iptables -w 10 -X mullion-{bridge}"), true),
                (format!("nft delete table ip {bridge}"), true),
                ("ip link delete dev vb-mul00000001".into(), true),
                (format!("ip link delete dev {bridge} type bridge"), true),
                (format!("nft delete table inet {bridge}"), true),
            ]
        );
    }

    #[test]
    fn promise_08_others_that_join_networks_keep_packets_passed_on() {
        exec::play::by(|name, args| {
            let is_route = name == "ip" && args.contains(&"route");
            let routes = r#"[{"dst":"default","dev":"eth0"}]"#;
            Ok(if is_route {
                routes.to_owned()
            } else {
                String::new()
            })
        });
        let bridge = names::bridge(&cluster());
        let forwarding = |kind: &str, name: &str, flags: &[&str]| {
            let links = serde_json::json!([
                { "ifname": "lo", "flags": ["UP"] },
                { "ifname": "eth0", "flags": ["UP"], "linkinfo": { "info_kind": "veth" } },
                { "ifname": &bridge, "ifalias": links::label(&cluster(), None, MachineAccess::Host),
                  "linkinfo": { "info_kind": "bridge" } },
                { "ifname": "vb-mul00000001", "flags": ["UP"], "master": &bridge,
                  "linkinfo": { "info_kind": "veth" } },
                { "ifname": name, "flags": flags, "linkinfo": { "info_kind": kind } },
            ]);
            let links: Vec<Link> = serde_json::from_value(links).unwrap();
            super::forwarding(&links, &cluster()).unwrap()
        };
        for (kind, name) in [
            ("bridge", "docker0"),
            ("wireguard", "wg0"),
            ("tun", "tailscale0"),
            ("veth", "container"),
            ("what-comes-next", "x0"),
        ] {
            assert_eq!(
                forwarding(kind, name, &["UP"]),
                Forwarding::Shared,
                "{name}"
            );
        }
        assert_eq!(forwarding("bridge", "virbr0", &[]), Forwarding::Shared);
        // What a module of the kernel makes and nobody uses, and another name for a physical interface.
        assert_eq!(forwarding("ipip", "tunl0", &[]), Forwarding::Ours);
        assert_eq!(forwarding("vlan", "eth0.7", &["UP"]), Forwarding::Ours);
    }

    #[test]
    fn what_is_there_without_its_bridge_is_a_network_that_lacks_something() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = Kernel::played(folder.path());
        exec::play::by(|name, args| Ok(answer(name, args)));
        let bridge = names::bridge(&cluster());
        let left = |cluster: &ClusterName| left_over(cluster, &kernel).unwrap();
        if rustix::process::geteuid().is_root() {
            assert!(left(&cluster()).unwrap().contains(&bridge));
        }
        let other: ClusterName = "other".parse().unwrap();
        assert_eq!(left(&other), None);
        kernel.prepare(&other, WayOut::Closed).unwrap();
        assert!(left(&other).unwrap().contains("settings"));
    }

    #[test]
    fn a_computer_that_tells_no_tables_has_none_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = Kernel::played(folder.path());
        exec::play::by(|name, _| Err(DriverError::MissingProgram(name.into())));
        assert_eq!(left_over(&cluster(), &kernel).unwrap(), None);
        exec::play::by(|name, _| {
            Err(DriverError::Program {
                command: name.into(),
                tail: "not supported".into(),
            })
        });
        assert_eq!(left_over(&cluster(), &kernel).unwrap(), None);
    }

    #[test]
    fn what_this_computer_reaches_is_told_by_its_interfaces_and_all_its_tables() {
        let bridge = names::bridge(&cluster());
        let links = serde_json::json!([
            { "ifname": &bridge, "ifalias": links::label(&cluster(), None, MachineAccess::Host),
              "addr_info": [{ "local": "10.99.0.1", "prefixlen": 24, "scope": "global" }] },
            { "ifname": "eth0", "addr_info": [
              { "local": "10.77.0.200", "prefixlen": 16, "scope": "global" },
              { "local": "fe80::1", "prefixlen": 64, "scope": "link" }] },
        ]);
        let routes = serde_json::json!([
            { "dst": "default", "gateway": "10.77.0.254", "dev": "eth0" },
            { "dst": "10.99.0.0/24", "dev": &bridge },
            { "dst": "100.100.1.1", "dev": "tailscale0", "table": "52" },
            { "dst": "172.16.0.0/12", "nexthops": [{ "gateway": "10.77.0.7", "dev": "eth0" }] },
            { "dst": "what comes next" },
        ]);
        exec::play::by(move |_, args| {
            let is_route = args.contains(&"route");
            Ok(if is_route { &routes } else { &links }.to_string())
        });
        let seen = networks(&cluster()).unwrap();
        assert_eq!(seen.own, Some("10.99.0.0/24".parse().unwrap()));
        let others: Vec<_> = seen
            .others
            .iter()
            .map(|(network, name)| format!("{network} {name}"))
            .collect();
        assert_eq!(
            others,
            [
                "10.77.0.0/16 eth0",
                "10.77.0.7/32 eth0",
                "10.77.0.200/32 eth0",
                "10.77.0.254/32 eth0",
                "100.100.1.1/32 tailscale0",
                "172.16.0.0/12 eth0",
            ]
        );
        // Of another cluster, that bridge is somebody else's.
        let other = networks(&"other".parse().unwrap()).unwrap();
        assert_eq!(other.own, None);
        assert_eq!(other.others.len(), seen.others.len() + 2);
    }
}
