//! This computer's network interfaces, as `ip` tells them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use mullion_plan::{Identity, Trouble};
use mullion_spec::value::ClusterName;
use mullion_spec::words::MachineAccess;
use serde::Deserialize;

use super::{exec, names};
use crate::error::DriverError;
use crate::wish::NetworkWish;

/// What the label on a bridge begins with.
const LABEL: &str = "mullion.dev/cluster=";

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Link {
    /// Its name.
    pub(super) ifname: String,
    /// Text that somebody put on it.
    #[serde(default)]
    ifalias: Option<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    linkinfo: Kind,
    /// The bridge that it is part of.
    #[serde(default)]
    master: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
struct Kind {
    #[serde(default)]
    info_kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Address {
    local: Option<IpAddr>,
    prefixlen: u8,
    #[serde(default)]
    scope: String,
}

impl Link {
    /// The cluster whose label it carries.
    pub(super) fn cluster(&self) -> Option<ClusterName> {
        let label = self.ifalias.as_deref()?.strip_prefix(LABEL)?;
        let name = label.split_once(';').map_or(label, |(name, _)| name);
        name.parse().ok()
    }

    /// What its label says of the cluster beside the name; older versions wrote nothing.
    pub(super) fn identity(&self) -> Result<Option<Identity>, Trouble> {
        let label = self.ifalias.as_deref();
        let Some((_, rest)) = label.and_then(|label| label.strip_prefix(LABEL)?.split_once(';'))
        else {
            return Ok(None);
        };
        let fields: BTreeMap<_, _> = rest
            .split(';')
            .filter_map(|field| field.split_once('='))
            .collect();
        let read = || {
            Some(Identity {
                id: fields.get("id")?.parse().ok()?,
                owner: fields.get("owner")?.parse().ok()?,
            })
        };
        read().map(Some).ok_or_else(|| Trouble::Unreadable {
            file: format!("/sys/class/net/{}/ifalias", self.ifname),
            why: "is a label of ours that this version cannot read".into(),
        })
    }

    /// From where the machines can be reached, as its label says; labels without an id do not say it.
    pub(super) fn access(&self) -> Option<MachineAccess> {
        let label = self.ifalias.as_deref()?.strip_prefix(LABEL)?;
        let mut fields = label.split(';').filter_map(|field| field.split_once('='));
        let (_, word) = fields.find(|(name, _)| *name == "access")?;
        [MachineAccess::Host, MachineAccess::Lan]
            .into_iter()
            .find(|access| access_word(*access) == word)
    }

    /// Whether its label says what is wanted. One of an older version has no id, and gets the id of the wish.
    pub(super) fn is_labelled(&self, wish: &NetworkWish) -> bool {
        let is_enough = match self.identity() {
            Ok(Some(_)) => self.access() == Some(wish.access),
            Ok(None) => wish.identity.is_none(),
            // One that cannot be read is refused before.
            Err(_) => true,
        };
        self.cluster().is_some() && is_enough
    }

    /// The networks of its addresses, without those that reach no further than the link.
    pub(super) fn networks(&self) -> impl Iterator<Item = IpNet> {
        self.addr_info
            .iter()
            .filter(|address| address.scope != "link")
            .filter_map(|address| IpNet::new(address.local?, address.prefixlen).ok())
    }

    /// Its first address of version 4 with the network.
    pub(super) fn ipv4(&self) -> Option<Ipv4Net> {
        self.networks().find_map(|network| match network {
            IpNet::V4(network) => Some(network),
            IpNet::V6(_) => None,
        })
    }

    /// Whether nobody has done anything with it since it was made.
    pub(super) fn is_blank(&self) -> bool {
        self.ifalias.is_none() && !self.is_up() && self.networks().next().is_none()
    }

    /// Whether it is of a kind that containers, virtual machines or a VPN use to reach other networks.
    pub(super) fn joins_networks(&self) -> bool {
        match self.linkinfo.info_kind.as_deref() {
            // What a physical interface has none of, and what only names or bundles one.
            None | Some("dummy" | "ifb" | "bond" | "team" | "vlan" | "nlmon") => false,
            Some("bridge") => true,
            // Modules of the kernel make tunnels that nobody uses; these are switched off.
            Some(_) => self.is_up(),
        }
    }

    /// Whether it is plugged into that bridge.
    pub(super) fn is_part_of(&self, bridge: &str) -> bool {
        self.master.as_deref() == Some(bridge)
    }

    /// Whether it is the end of a machine's cable, on that bridge.
    pub(super) fn is_cable_of(&self, bridge: &str) -> bool {
        self.is_part_of(bridge) && names::is_cable(&self.ifname)
    }

    /// Whether it was switched on.
    pub(super) fn is_up(&self) -> bool {
        self.flags.iter().any(|flag| flag == "UP")
    }
}

/// The text that labels a cluster's bridge. What stands behind a semicolon can grow.
///
/// What may be reached is in the rules; the label repeats it for users who may not read them.
pub(super) fn label(
    cluster: &ClusterName,
    identity: Option<&Identity>,
    access: MachineAccess,
) -> String {
    match identity {
        None => format!("{LABEL}{cluster}"),
        Some(Identity { id, owner }) => {
            let access = access_word(access);
            format!("{LABEL}{cluster};id={id};owner={owner};access={access}")
        }
    }
}

const fn access_word(access: MachineAccess) -> &'static str {
    match access {
        MachineAccess::Host => "host",
        MachineAccess::Lan => "lan",
    }
}

/// Every interface of this computer.
pub(super) fn all() -> Result<Vec<Link>, DriverError> {
    // Details, because an alias is told with them alone.
    exec::ask("ip", &["-json", "-details", "address", "show"])
}

/// The interfaces through which this computer reaches other networks.
pub(super) fn uplinks() -> Result<Vec<String>, DriverError> {
    let routes: Vec<Route> = exec::ask("ip", &["-json", "-4", "route", "show", "default"])?;
    let devices = routes.into_iter().flat_map(|route| {
        let hops = route.nexthops.into_iter().map(|hop| hop.dev);
        // A route that leads nowhere (`unreachable`) names no interface, and is a way out all the same for the kernel.
        hops.chain([route.hop.dev])
    });
    Ok(devices.collect())
}

/// Every route of this computer that packets can take, of all tables: VPN clients write into tables of their own.
pub(super) fn routes() -> Result<Vec<Route>, DriverError> {
    let words = [
        "-json", "-4", "route", "show", "table", "all", "type", "unicast",
    ];
    exec::ask("ip", &words)
}

/// One route.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Route {
    #[serde(default)]
    dst: String,
    #[serde(flatten)]
    hop: Hop,
    #[serde(default)]
    nexthops: Vec<Hop>,
}

#[derive(Debug, Clone, Deserialize)]
struct Hop {
    #[serde(default)]
    dev: String,
    #[serde(default)]
    gateway: Option<String>,
}

impl Route {
    /// The networks that it leads to, with the computers that pass packets on, each with its interface. Of a default
    /// route there are only the latter.
    pub(super) fn networks(&self) -> impl Iterator<Item = (Ipv4Net, &str)> {
        let hops = || std::iter::once(&self.hop).chain(&self.nexthops);
        let network = self.dst.parse::<Ipv4Net>().ok();
        // `ip` writes a single address without its prefix.
        let network = network.or_else(|| Some(self.dst.parse::<Ipv4Addr>().ok()?.into()));
        let mut devices = hops().map(|hop| hop.dev.as_str());
        let device = devices.find(|device| !device.is_empty());
        let network = network.map(|network| (network.trunc(), device.unwrap_or_default()));
        let gateways = hops().filter_map(|hop| {
            let gateway: Ipv4Addr = hop.gateway.as_ref()?.parse().ok()?;
            Some((gateway.into(), hop.dev.as_str()))
        });
        network.into_iter().chain(gateways)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = r#"[
      {"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"addr_info":[
        {"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host"}]},
      {"ifindex":5,"ifname":"mul01","flags":["UP"],"ifalias":"mullion.dev/cluster=dev","addr_info":[
        {"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"},
        {"family":"inet","local":"10.77.0.1","prefixlen":24,"scope":"global","label":"mul01"}]},
      {"ifname":"br0","flags":[],"ifalias":"mine","linkinfo":{"info_kind":"bridge"},"addr_info":[]}
    ]"#;

    #[test]
    fn promise_09_a_bridge_of_the_version_before_is_the_clusters() {
        let shown = include_str!("../../../mullion/tests/adopted/ip-address.json");
        let links: Vec<Link> = serde_json::from_str(shown).unwrap();
        let own = links.iter().find(|link| link.cluster().is_some()).unwrap();
        assert_eq!(own.cluster(), Some("mullion".parse().unwrap()));
        assert_eq!(own.identity(), Ok(None));
        assert_eq!(own.ipv4(), Some("10.99.0.1/24".parse().unwrap()));
    }

    #[test]
    fn labels_addresses_and_state_are_read() {
        let links: Vec<Link> = serde_json::from_str(SHOWN).unwrap();
        assert_eq!(links[0].cluster(), None);
        assert_eq!(links[1].cluster(), Some("dev".parse().unwrap()));
        assert_eq!(links[1].ipv4(), Some("10.77.0.1/24".parse().unwrap()));
        assert_eq!(links[1].networks().count(), 1);
        assert!(links[1].is_up() && !links[2].is_up());
        assert_eq!(links[2].cluster(), None);
        assert!(links[2].joins_networks() && !links[0].joins_networks());
    }

    #[test]
    fn promise_06_a_bridge_with_a_label_that_cannot_be_read_is_in_the_way() {
        for rest in [
            ";",
            ";id=7;owner=0",
            ";uid=00000000000000000000000000000007",
        ] {
            let alias = format!("{LABEL}dev{rest}");
            let link = serde_json::json!({ "ifname": "mul01", "ifalias": alias });
            let link: Link = serde_json::from_value(link).unwrap();
            assert_eq!(link.cluster(), Some("dev".parse().unwrap()));
            assert!(link.identity().is_err(), "{rest}");
        }
    }

    #[test]
    fn promise_09_a_label_is_read_as_it_was_written() {
        let cluster: ClusterName = "a-b".parse().unwrap();
        let identity = Identity {
            id: mullion_plan::ClusterUid::of(7),
            owner: 1000,
        };
        let accesses = [MachineAccess::Host, MachineAccess::Lan];
        let identities = [None, Some(identity)];
        let both = identities
            .iter()
            .flat_map(|identity| accesses.map(|access| (identity.clone(), access)));
        for (identity, access) in both {
            let link = Link {
                ifname: "x".into(),
                ifalias: Some(label(&cluster, identity.as_ref(), access)),
                addr_info: Vec::new(),
                flags: Vec::new(),
                linkinfo: Kind::default(),
                master: None,
            };
            assert_eq!(link.cluster(), Some(cluster.clone()));
            assert_eq!(link.access(), identity.is_some().then_some(access));
            assert_eq!(link.identity(), Ok(identity.clone()));
            for wanted in accesses {
                let wish = NetworkWish {
                    cluster: cluster.clone(),
                    network: "10.9.0.0/24".parse().unwrap(),
                    access: wanted,
                    identity: identity.clone(),
                };
                assert_eq!(
                    link.is_labelled(&wish),
                    identity.is_none() || wanted == access
                );
                // A label of an older version gets the id.
                let own = Identity {
                    id: mullion_plan::ClusterUid::of(7),
                    owner: 1000,
                };
                let adopting = NetworkWish {
                    identity: Some(own),
                    ..wish.clone()
                };
                let is_enough = identity.is_some() && wanted == access;
                assert_eq!(link.is_labelled(&adopting), is_enough);
                // An id that is there stays.
                let older = NetworkWish {
                    identity: None,
                    ..wish
                };
                let is_enough = identity.is_none() || wanted == access;
                assert_eq!(link.is_labelled(&older), is_enough);
            }
        }
    }
}
