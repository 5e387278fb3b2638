//! What a cluster must keep clear of on this computer, and the networks that it has already.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use mullion_live::{ClusterState, StateError};
use mullion_machines::{Networks, has_machines, networks};
use mullion_spec::draft::{Addresses, Lookup, Surroundings};
use mullion_spec::networks::{Purpose, Relation, Settled, host_of, relation};
use mullion_spec::value::{Address, ClusterName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::environment::Environment;
use crate::lookup;

/// Where earlier versions chose networks for machines.
const EARLIER: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 99, 0, 0), 16);

/// Looks around for a cluster: at this computer's networks and at what earlier runs kept. It changes nothing.
pub fn of(cluster: &ClusterName, environment: &Environment) -> Result<Surroundings, StateError> {
    // Without the program that tells it, the kernel's table says the most important of it.
    let here = networks(cluster).unwrap_or_else(|_| by_table());
    let state = ClusterState::of(&environment.state, cluster);
    let kept = kept(&state, &here, has_machines(&environment.place, cluster))?;
    let others = ClusterState::all(&environment.state).into_iter();
    let others = others.filter(|other| other != cluster);
    let reserved = others.flat_map(|other| {
        // What of another cluster cannot be read is told when that cluster is asked for.
        let networks = ClusterState::of(&environment.state, &other).networks();
        let networks = networks.ok().flatten().unwrap_or_default();
        Purpose::ALL
            .into_iter()
            .filter_map(move |purpose| networks.of(purpose))
    });
    let is_open = |purpose: Purpose| kept.of(purpose).is_none();
    // They matter only to networks that are chosen.
    let proxies_here = if Purpose::ALL.into_iter().any(is_open) {
        addresses_of(proxies(environment), lookup::addresses)
    } else {
        Vec::new()
    };
    Ok(Surroundings {
        reserved: reserved.collect(),
        networks: here.others,
        resolvers: resolvers(),
        proxies: proxies_here,
        has_proxy: proxies(environment).next().is_some(),
        lookup: Lookup(lookup::addresses),
        kept,
        bridge: here.own,
    })
}

/// Variables that name a proxy for downloads.
pub const PROXIES: [&str; 6] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
];

/// The proxies that the environment names.
fn proxies(environment: &Environment) -> impl Iterator<Item = &str> {
    let values = PROXIES
        .iter()
        .filter_map(|name| environment.values.get(name)?.to_str());
    values.filter(|value| !value.is_empty())
}

/// The IPv4 addresses of proxies. A proxy on this computer itself has none that a network could take.
fn addresses_of<'a>(
    proxies: impl Iterator<Item = &'a str>,
    lookup: impl FnOnce(&BTreeSet<String>) -> Addresses,
) -> Vec<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut names = BTreeSet::new();
    for host in proxies.filter_map(host_of) {
        match host.parse::<Address>() {
            Ok(Address::Ip(IpAddr::V4(ip))) => found.extend([ip]),
            Ok(Address::Name(name)) => names.extend([name]),
            Ok(Address::Ip(IpAddr::V6(_))) | Err(_) => {}
        }
    }
    if !names.is_empty() {
        found.extend(lookup(&names).into_values().flatten());
    }
    found.retain(|address| !address.is_loopback());
    found.into_iter().collect()
}

/// Where this computer's resolver keeps its servers. The second file is systemd-resolved's: the first one then names only
/// its own address.
const RESOLVERS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// The DNS servers that this computer asks.
fn resolvers() -> Vec<Ipv4Addr> {
    let texts = RESOLVERS
        .iter()
        .filter_map(|path| fs_err::read_to_string(path).ok());
    texts.flat_map(|text| nameservers(&text)).collect()
}

/// The IPv4 addresses of the servers in a `resolv.conf`.
fn nameservers(text: &str) -> Vec<Ipv4Addr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse().ok()
    };
    text.lines().filter_map(server).collect()
}

/// The networks that a cluster has already.
fn kept(state: &ClusterState, here: &Networks, has_machines: bool) -> Result<Settled, StateError> {
    let is_empty = here.own.is_none() && !has_machines;
    let kubeconfig = state.kubeconfig()?;
    if let Some(kept) = state.networks()? {
        // The id says nothing here: a run writes it before it makes the first network, which may fail.
        let may_move = is_empty && kubeconfig.is_none() && state.taken()?.is_empty();
        // A run that ended before it made anything left only the choice. Since then, the computer may have got a route
        // to the same addresses.
        let is_free = |ours: &Ipv4Net| {
            let mut others = here.others.iter();
            !may_move || others.all(|(other, _)| relation(*ours, *other) == Relation::Apart)
        };
        return Ok(Settled {
            machines: kept.machines.filter(is_free),
            pods: kept.pods.filter(is_free),
            services: kept.services.filter(is_free),
        });
    }
    if is_empty && kubeconfig.is_none() {
        return Ok(Settled::default());
    }
    // Earlier versions kept no networks, and used the usual ones where the file named none.
    let server = kubeconfig.and_then(|text| server(text.reveal()));
    let around = server.and_then(|server| Ipv4Net::new(server, 24).ok());
    let around = around.filter(|network| EARLIER.contains(network));
    let machines = here.own.or(around.map(|network| network.trunc()));
    Ok(Settled {
        machines: machines.or(Some(Purpose::Machines.usual())),
        pods: Some(Purpose::Pods.usual()),
        services: Some(Purpose::Services.usual()),
    })
}

/// The address of the API server in a kubeconfig.
fn server(kubeconfig: &str) -> Option<Ipv4Addr> {
    let mut lines = kubeconfig.lines().map(str::trim);
    let server = lines.find_map(|line| line.strip_prefix("server: https://"))?;
    server.split(':').next()?.parse().ok()
}

/// What the kernel's own table says. Whose bridge is whose it does not say: none of ours is anybody's.
fn by_table() -> Networks {
    let table = fs_err::read_to_string("/proc/net/route").unwrap_or_default();
    let foreign = routes(&table).into_iter().filter(|route| !route.is_ours());
    Networks {
        own: None,
        others: foreign
            .map(|route| (route.network, route.interface))
            .collect(),
    }
}

/// What the names of our own bridges begin with.
const OURS: &str = "mul";

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
    use mullion_plan::ClusterUid;
    use mullion_wire::Secret;

    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn here(own: Option<&str>, others: &[&str]) -> Networks {
        let others = others.iter().map(|text| (net(text), "eth0".into()));
        Networks {
            own: own.map(net),
            others: others.collect(),
        }
    }

    #[test]
    fn promise_08_a_cluster_of_an_earlier_version_keeps_its_networks() {
        let folder = tempfile::tempdir().unwrap();
        let state = ClusterState::of(folder.path(), &"demo".parse().unwrap());
        let vpn = ["10.0.0.0/8"];
        assert_eq!(
            kept(&state, &here(None, &vpn), false).unwrap(),
            Settled::default()
        );
        let usual = Settled {
            machines: Some(net("10.99.0.0/24")),
            pods: Some(net("10.244.0.0/16")),
            services: Some(net("10.96.0.0/16")),
        };
        assert_eq!(kept(&state, &here(None, &vpn), true).unwrap(), usual);
        let own = kept(&state, &here(Some("10.99.7.0/24"), &vpn), true).unwrap();
        assert_eq!(own.machines, Some(net("10.99.7.0/24")));
        assert_eq!(own.pods, usual.pods);
        // The bridge went with a restart of the computer: the way to the API server tells where the machines are.
        let text = "clusters:\n- cluster:\n    server: https://10.99.3.2:6443\n";
        state.keep_kubeconfig(&Secret::new(text)).unwrap();
        let found = kept(&state, &here(None, &vpn), true).unwrap();
        assert_eq!(found.machines, Some(net("10.99.3.0/24")));
        let text = "clusters:\n- cluster:\n    server: https://api.example:6443\n";
        state.keep_kubeconfig(&Secret::new(text)).unwrap();
        assert_eq!(kept(&state, &here(None, &vpn), false).unwrap(), usual);
    }

    #[test]
    fn what_was_chosen_moves_away_from_new_routes_until_something_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let state = ClusterState::of(folder.path(), &"demo".parse().unwrap());
        let (pods, services) = (net("172.29.0.0/16"), net("172.28.0.0/16"));
        let machines = Some(net("172.30.0.0/24"));
        state.keep_networks(machines, pods, services).unwrap();
        let all = Settled {
            machines,
            pods: Some(pods),
            services: Some(services),
        };
        let of = |others: &[&str], has_machines| {
            kept(&state, &here(None, others), has_machines).unwrap()
        };
        assert_eq!(of(&["10.0.0.0/8"], false), all);
        let vpn = ["172.16.0.0/12"];
        assert_eq!(of(&vpn, false), Settled::default(), "inside of it");
        assert_eq!(of(&vpn, true), all, "machines are in it");
        let own = here(Some("172.30.0.0/24"), &vpn);
        assert_eq!(kept(&state, &own, false).unwrap(), all, "the bridge is up");
        let one = Settled {
            machines: None,
            ..all
        };
        assert_eq!(of(&["172.30.0.0/24"], false), one);
        // A run that could not make the network has written the id before.
        state.keep_id(&ClusterUid::of(1)).unwrap();
        assert_eq!(of(&["172.30.0.0/24"], false), one);
        // From here on the API server, wherever it runs, has these networks.
        state.keep_kubeconfig(&Secret::new("server: x")).unwrap();
        assert_eq!(of(&vpn, false), all);
    }

    #[test]
    fn what_was_chosen_stays_once_a_machine_of_the_user_holds_something_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let state = ClusterState::of(folder.path(), &"demo".parse().unwrap());
        let (pods, services) = (net("10.244.0.0/16"), net("10.96.0.0/16"));
        state.keep_networks(None, pods, services).unwrap();
        let vpn = here(None, &["10.0.0.0/8"]);
        assert_eq!(kept(&state, &vpn, false).unwrap(), Settled::default());
        let taken = r#"{"old": {"address": "192.0.2.1", "login": {"user": "root", "key": null, "port": 22,
            "jump": null, "host_key": null, "host_keys": {}}}}"#;
        let taken = serde_json::from_str(taken).unwrap();
        state.keep_taken(&taken).unwrap();
        let found = kept(&state, &vpn, false).unwrap();
        assert_eq!((found.pods, found.services), (Some(pods), Some(services)));
    }

    #[test]
    fn proxies_of_the_environment_are_found_by_address_and_by_name() {
        let of = |variables: &[(&str, &str)]| {
            let environment = Environment::new("/".into(), |name| {
                let mut variables = variables.iter();
                let found = variables.find(|(variable, _)| *variable == name);
                found.map(|(_, value)| value.into())
            });
            addresses_of(proxies(&environment), |names| {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                assert_eq!(names, ["proxy.example"], "what is looked up");
                let addresses = vec![[10, 96, 0, 9].into(), [10, 99, 0, 9].into()];
                [("proxy.example".to_owned(), addresses)].into()
            })
        };
        let addresses =
            |all: &[[u8; 4]]| all.iter().copied().map(Ipv4Addr::from).collect::<Vec<_>>();
        assert!(of(&[("no_proxy", "10.0.0.1"), ("HTTP_PROXY", "")]).is_empty());
        assert_eq!(
            of(&[
                ("http_proxy", "http://me:hunter2@10.99.0.9:3128/"),
                ("ALL_PROXY", "10.244.0.9:1080"),
                ("HTTPS_PROXY", "http://127.0.0.1:3128"),
                ("https_proxy", "http://[fd00::1]:3128"),
            ]),
            addresses(&[[10, 99, 0, 9], [10, 244, 0, 9]])
        );
        assert_eq!(
            of(&[("HTTPS_PROXY", "http://proxy.example:3128")]),
            addresses(&[[10, 96, 0, 9], [10, 99, 0, 9]])
        );
    }

    #[test]
    fn dns_servers_are_read_from_their_lines() {
        let text = "# nameserver 10.0.0.1\nsearch lan\nnameserver 10.99.0.53\nnameserver\tfe80::1%eth0\n\
            nameserver 127.0.0.53 # ours\nnameserver\n";
        let servers = [[10, 99, 0, 53], [127, 0, 0, 53]].map(Ipv4Addr::from);
        assert_eq!(nameservers(text), servers);
    }

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
