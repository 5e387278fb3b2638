//! A bridge a cluster, and its way out.

use std::os::unix::fs::MetadataExt as _;

use fs_err::File;
use ipnet::{IpNet, Ipv4Net};
use mullion_plan::{Identity, Trouble};
use mullion_spec::value::ClusterName;

use super::kernel::{Forwarding, Kernel, WayOut};
use super::links::{self, Link};
use super::{exec, names};
use crate::error::DriverError;
use crate::wish::{NetworkWish, gateway};

/// Keeps two processes from changing the networks of this computer at once.
const LOCK: &str = "/run/mullion-network.lock";

/// The machine network of a cluster, if its bridge is there, and every other network.
pub(super) struct Seen {
    pub(super) network: Option<Ipv4Net>,
    pub(super) lacks: Option<String>,
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
    Ok(Seen {
        network: own.and_then(Link::ipv4).map(|network| network.trunc()),
        lacks: match own {
            Some(link) => lacks(link)?,
            // The rules are told to root alone.
            None if rustix::process::geteuid().is_root() => left_over(cluster)?,
            None => None,
        },
        foreign: links
            .iter()
            .filter(|link| !is_own(link))
            .flat_map(|link| {
                link.networks()
                    .map(|network| network.trunc())
                    .collect::<Vec<_>>()
            })
            .collect(),
        clusters: links.iter().filter_map(Link::cluster).collect(),
        identity: own.map_or(Ok(None), Link::identity),
        cables: own.map_or_else(Vec::new, |own| {
            let cables = links.iter().filter(|link| link.is_cable_of(&own.ifname));
            cables.map(|link| link.ifname.clone()).collect()
        }),
    })
}

/// Whether a bridge is the cluster's: by its label, or by its name where a run was killed before it could label it.
fn belongs(link: &Link, cluster: &ClusterName) -> bool {
    link.cluster().as_ref() == Some(cluster)
        || (link.ifname == names::bridge(cluster) && link.is_blank())
}

/// What of a network is missing, in the order in which it is made.
fn lacks(link: &Link) -> Result<Option<String>, DriverError> {
    let bridge = link.ifname.as_str();
    let Some(network) = link.ipv4().filter(|_| link.cluster().is_some()) else {
        return Ok(Some(format!("{bridge} has no label or no address")));
    };
    if !link.is_up() {
        return Ok(Some(format!("{bridge} is switched off")));
    }
    let way_out = WayOut::here()?;
    if let Some(setting) = Kernel::here().lacks(way_out)? {
        return Ok(Some(format!("{setting} is too low")));
    }
    // The rules are told to root alone; whoever else looks takes them as made.
    if way_out == WayOut::Closed || !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    if !has_table(bridge, network.trunc())? {
        return Ok(Some(format!("its way out, nft's table {bridge}, is gone")));
    }
    Ok((!missing_passes(bridge)?.is_empty())
        .then(|| format!("the firewall drops what passes through {bridge}")))
}

/// What is left of a network whose bridge somebody deleted: its table, named as the bridge was, stands for the rest.
fn left_over(cluster: &ClusterName) -> Result<Option<String>, DriverError> {
    let bridge = names::bridge(cluster);
    let is_left = match lists_table(&bridge) {
        // A kernel without tables holds none of ours.
        Err(DriverError::Program { .. }) => false,
        listed => listed?,
    };
    Ok(is_left.then(|| format!("{bridge} is gone, and its way out, nft's table, is left")))
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
    for link in links.iter().filter(|link| link.ifname != bridge) {
        for taken in link.networks() {
            if overlaps(network, &taken) {
                return Err(DriverError::Taken {
                    network,
                    taken: taken.trunc().to_string(),
                    interface: link.ifname.clone(),
                });
            }
        }
    }
    if own.is_none() {
        exec::run("ip", &["link", "add", "name", &bridge, "type", "bridge"])?;
    }
    // The label before all else. A run that is killed before this line leaves a blank bridge of our name.
    if own.is_none_or(|link| link.cluster().is_none()) {
        let label = links::label(&wish.cluster, wish.identity.as_ref());
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
    Kernel::here().prepare(way_out)?;
    if way_out == WayOut::Open {
        open_way_out(&bridge, network)?;
    }
    Ok(())
}

/// Removes a cluster's network. Nothing is there: success.
pub(super) fn remove(cluster: &ClusterName) -> Result<(), DriverError> {
    let _lock = Lock::wait()?;
    take_away(cluster, &links::all()?, &Kernel::here())
}

/// Takes away all that a network is. What tells whose the rest is goes last, the table and then the bridge: whoever is
/// killed in between leaves what the next one finds by it.
fn take_away(cluster: &ClusterName, links: &[Link], kernel: &Kernel) -> Result<(), DriverError> {
    let bridge = names::bridge(cluster);
    remove_passes(&bridge)?;
    let others = links
        .iter()
        .filter_map(Link::cluster)
        .filter(|other| other != cluster);
    if others.count() == 0 {
        // Container engines and others with bridges switch it on and do not expect that anybody switches it off.
        let is_foreign = |link: &Link| link.is_bridge() && !belongs(link, cluster);
        kernel.put_back(if links.iter().any(is_foreign) {
            Forwarding::Shared
        } else {
            Forwarding::Ours
        })?;
    }
    remove_table(&bridge)?;
    for link in links.iter().filter(|link| link.is_cable_of(&bridge)) {
        // The kernel removes it some time after the last process of its machine, and may have been quicker.
        let _ = exec::run("ip", &["link", "delete", "dev", &link.ifname]);
    }
    for link in links.iter().filter(|link| belongs(link, cluster)) {
        let name = link.ifname.as_str();
        exec::run("ip", &["link", "delete", "dev", name, "type", "bridge"])?;
    }
    Ok(())
}

fn overlaps(network: Ipv4Net, taken: &IpNet) -> bool {
    match taken {
        IpNet::V4(taken) => {
            taken.contains(&network.network()) || network.contains(&taken.network())
        }
        IpNet::V6(_) => false,
    }
}

impl WayOut {
    /// Whether this computer has one to give.
    fn here() -> Result<Self, DriverError> {
        Ok(if links::has_default_route()? {
            Self::Open
        } else {
            Self::Closed
        })
    }
}

/// Machines reach other networks with this computer's address.
fn open_way_out(bridge: &str, network: Ipv4Net) -> Result<(), DriverError> {
    // Beginning with an empty table makes it the same whatever was there, in one transaction.
    let rules = format!(
        "add table ip {bridge}\ndelete table ip {bridge}\n\
         table ip {bridge} {{\n chain way-out {{\n  {HOOK} policy accept;\n\
         \x20 {}\n }}\n}}\n",
        masquerade(network)
    );
    exec::run_with("nft", &["-f", "-"], &rules)?;
    for rule in missing_passes(bridge)? {
        let rule: Vec<_> = rule.iter().map(String::as_str).collect();
        let args = [&["-w", "-I", "FORWARD"][..], &rule].concat();
        exec::run("iptables", &args)?;
    }
    Ok(())
}

/// Where the chain of a way out hangs.
const HOOK: &str = "type nat hook postrouting priority 100;";

fn masquerade(network: Ipv4Net) -> String {
    format!("ip saddr {network} ip daddr != {network} masquerade")
}

/// Whether a network's table is there, and holds what we put into it.
fn has_table(bridge: &str, network: Ipv4Net) -> Result<bool, DriverError> {
    // Numbers as numbers: the kernel has a name for our priority, and prints it otherwise.
    match exec::run("nft", &["-y", "list", "table", "ip", bridge]) {
        Ok(table) => {
            let masquerade = masquerade(network);
            let has = |wanted: &str| table.lines().any(|line| line.trim().starts_with(wanted));
            Ok(has(HOOK) && has(&masquerade))
        }
        Err(DriverError::MissingProgram(_) | DriverError::Program { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Another firewall may drop whatever passes through this computer, as container engines set it up: then
/// the machines' packets are let through by name. Gives the rules that are missing for that.
fn missing_passes(bridge: &str) -> Result<Vec<[String; 4]>, DriverError> {
    let rules = forward_rules()?.unwrap_or_default();
    let has = |wanted: &str| rules.lines().any(|line| line.trim() == wanted);
    if !has("-P FORWARD DROP") {
        return Ok(Vec::new());
    }
    Ok(["-i", "-o"]
        .map(|direction| [direction, bridge, "-j", "ACCEPT"].map(str::to_owned))
        .into_iter()
        .filter(|rule| !has(&format!("-A FORWARD {}", rule.join(" "))))
        .collect())
}

fn remove_passes(bridge: &str) -> Result<(), DriverError> {
    let Some(rules) = forward_rules()? else {
        return Ok(());
    };
    for rule in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-A "))
    {
        let words: Vec<_> = rule.split_whitespace().collect();
        if words.contains(&bridge) {
            let args = [&["-w", "-D"][..], &words].concat();
            exec::run("iptables", &args)?;
        }
    }
    Ok(())
}

fn remove_table(bridge: &str) -> Result<(), DriverError> {
    if lists_table(bridge)? {
        exec::run("nft", &["delete", "table", "ip", bridge])?;
    }
    Ok(())
}

/// Whether a network's table is there, whatever it holds.
fn lists_table(bridge: &str) -> Result<bool, DriverError> {
    // Where the program is gone, so is the kernel's table after a restart; without it we never made one.
    let tables = match exec::run("nft", &["list", "tables", "ip"]) {
        Ok(tables) => tables,
        Err(DriverError::MissingProgram(_)) => String::new(),
        Err(error) => return Err(error),
    };
    let ours = format!("table ip {bridge}");
    Ok(tables.lines().any(|line| line.trim() == ours))
}

/// The rules for packets that pass through this computer; nothing where they cannot be told.
fn forward_rules() -> Result<Option<String>, DriverError> {
    match exec::run("iptables", &["-w", "-S", "FORWARD"]) {
        Ok(rules) => Ok(Some(rules)),
        Err(DriverError::MissingProgram(_) | DriverError::Program { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The right to change this computer's networks. The system frees it when the process ends, however it does.
struct Lock {
    // Locked as long as it is open.
    _file: File,
}

impl Lock {
    fn wait() -> Result<Self, DriverError> {
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

    /// Plays a computer on which a network's rules are there.
    fn answer(name: &str, args: &[&str]) -> String {
        let bridge = names::bridge(&cluster());
        match (name, args) {
            ("nft", ["list", "tables", "ip"]) => format!("table ip nat\ntable ip {bridge}\n"),
            ("iptables", ["-w", "-S", "FORWARD"]) => format!(
                "-P FORWARD DROP\n-A FORWARD -o docker0 -j ACCEPT\n-A FORWARD -i {bridge} -j ACCEPT\n"
            ),
            _ => String::new(),
        }
    }

    #[test]
    fn what_tells_whose_a_network_is_goes_last() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = Kernel::played(folder.path());
        kernel.prepare(WayOut::Open).unwrap();
        let bridge = names::bridge(&cluster());
        let links = serde_json::json!([
            { "ifname": &bridge, "ifalias": links::label(&cluster(), None) },
            { "ifname": "vb-mul01", "master": &bridge },
            { "ifname": "vb-mul02", "master": "mul02" },
            { "ifname": "eth1", "master": &bridge },
        ]);
        let links: Vec<Link> = serde_json::from_value(links).unwrap();
        // What changed something, and whether the kernel had been put back by then.
        let changes = Rc::new(RefCell::new(Vec::new()));
        let (heard, record) = (changes.clone(), folder.path().join("before.json"));
        exec::play::by(move |name, args| {
            if args.contains(&"-D") || args.contains(&"delete") {
                let line = format!("{name} {}", args.join(" "));
                heard.borrow_mut().push((line, !record.exists()));
            }
            Ok(answer(name, args))
        });
        take_away(&cluster(), &links, &kernel).unwrap();
        assert_eq!(
            *changes.borrow(),
            [
                (
                    format!("iptables -w -D FORWARD -i {bridge} -j ACCEPT"),
                    false
                ),
                (format!("nft delete table ip {bridge}"), true),
                ("ip link delete dev vb-mul01".into(), true),
                (format!("ip link delete dev {bridge} type bridge"), true),
            ]
        );
    }

    #[test]
    fn a_table_without_its_bridge_is_a_network_that_lacks_something() {
        exec::play::by(|name, args| Ok(answer(name, args)));
        let bridge = names::bridge(&cluster());
        assert!(left_over(&cluster()).unwrap().unwrap().contains(&bridge));
        assert_eq!(left_over(&"other".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn a_computer_that_tells_no_tables_has_none_left_over() {
        exec::play::by(|name, _| Err(DriverError::MissingProgram(name.into())));
        assert_eq!(left_over(&cluster()).unwrap(), None);
        exec::play::by(|name, _| {
            Err(DriverError::Program {
                command: name.into(),
                tail: "not supported".into(),
            })
        });
        assert_eq!(left_over(&cluster()).unwrap(), None);
    }

    #[test]
    fn networks_that_share_an_address_overlap() {
        let overlap = |a: &str, b: &str| overlaps(a.parse().unwrap(), &b.parse().unwrap());
        assert!(overlap("10.9.0.0/24", "10.0.0.0/8"));
        assert!(overlap("10.0.0.0/8", "10.9.0.1/24"));
        assert!(!overlap("10.9.0.0/24", "10.9.1.0/24"));
        assert!(!overlap("10.9.0.0/24", "fd00::/64"));
    }
}
