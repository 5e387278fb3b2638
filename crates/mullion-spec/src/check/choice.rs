//! The networks of a cluster: those that the file names, those that the cluster has already, and free ones for the rest.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::Checker;
use crate::cluster::{Carrier, ControlPlane, Group, Host, NodeIp};
use crate::draft::{Addresses, Surroundings};
use crate::finding::{Finding, Place, Severity};
use crate::networks::{Purpose, RANGES, Relation, Settled, Taken, choose, host_of, relation};
use crate::raw::RawCluster;
use crate::rules::network as rule;
use crate::source::Path;
use crate::value::Address;

/// Addresses of computers that the file names or this computer needs: networks that Mullion chooses do not contain them.
#[derive(Default)]
pub(super) struct Named {
    /// Outside of every network of the cluster.
    outside: Vec<Ipv4Net>,
    /// Outside of the pod and service networks; they may lie in the machine network.
    outside_overlay: Vec<Ipv4Net>,
}

impl Named {
    pub(super) fn of(
        groups: &[Group],
        hosts: &[Host],
        control_plane: &ControlPlane,
        file: &RawCluster,
        surroundings: &Surroundings,
        found: &Addresses,
    ) -> Self {
        let mut named = Self::default();
        let addresses = hosts.iter().map(|host| &host.address);
        named.outside.extend(addresses.filter_map(v4));
        let logins = hosts.iter().map(|host| &host.login);
        let logins = logins.chain(groups.iter().filter_map(|group| match &group.carrier {
            Carrier::Existing { login, .. } => Some(login),
            Carrier::Made { .. } => None,
        }));
        let jumps = logins.filter_map(|login| login.jump.as_ref());
        named
            .outside
            .extend(jumps.filter_map(|jump| v4(&jump.address)));
        let by_address = servers(file).filter_map(|host| host.parse().ok());
        let by_name = found.values().flatten().copied();
        let dns = file.network.upstream_dns.iter();
        let dns = dns.filter_map(|text| text.parse().ok());
        let ours = surroundings.resolvers.iter().chain(&surroundings.proxies);
        let known = by_address.chain(by_name).chain(dns);
        let known = known.chain(ours.copied());
        named
            .outside
            .extend(known.map(|ip: Ipv4Addr| Ipv4Net::from(ip)));
        for group in groups {
            let node_ip = match group.node_ip {
                Some(NodeIp::Address(IpAddr::V4(ip))) => Some(Ipv4Net::from(ip)),
                Some(NodeIp::Network(IpNet::V4(net))) => Some(net),
                _ => None,
            };
            match &group.carrier {
                Carrier::Existing { addresses, .. } => {
                    named.outside.extend(addresses.iter().filter_map(v4));
                    named.outside.extend(node_ip);
                }
                Carrier::Made { .. } => named.outside_overlay.extend(node_ip),
            }
        }
        if let ControlPlane::Made {
            endpoint: Some(endpoint),
        } = control_plane
        {
            named.outside_overlay.extend(v4(&endpoint.address));
        }
        named
    }

    fn kept_out_of(&self, purpose: Purpose) -> impl Iterator<Item = Ipv4Net> {
        let overlay = match purpose {
            Purpose::Machines => [].as_slice(),
            Purpose::Pods | Purpose::Services => &self.outside_overlay,
        };
        self.outside.iter().chain(overlay).copied()
    }
}

fn v4(address: &Address) -> Option<Ipv4Net> {
    match address {
        Address::Ip(IpAddr::V4(ip)) => Some((*ip).into()),
        _ => None,
    }
}

/// The names of existing machines that this computer looks up. What lies behind a jump host is looked up there.
pub(super) fn names_of_machines(groups: &[Group]) -> BTreeSet<String> {
    let addresses = groups.iter().filter_map(|group| match &group.carrier {
        Carrier::Existing {
            addresses, login, ..
        } => login.jump.is_none().then_some(addresses),
        Carrier::Made { .. } => None,
    });
    let names = addresses.flatten().filter_map(|address| match address {
        Address::Name(name) => Some(name.clone()),
        Address::Ip(_) => None,
    });
    names.collect()
}

/// The names of the proxies and the mirror that the file names.
pub(super) fn names_of_servers(file: &RawCluster) -> impl Iterator<Item = String> {
    let names = servers(file).filter(|host| matches!(host.parse(), Ok(Address::Name(_))));
    names.map(str::to_owned)
}

/// The hosts of the proxies and the mirror that the file names.
fn servers(file: &RawCluster) -> impl Iterator<Item = &str> {
    let (proxy, mirror) = (&file.proxy, &file.artifacts.mirror);
    let servers = [&proxy.http, &proxy.https, mirror].into_iter().flatten();
    servers.filter_map(|text| host_of(text))
}

impl Checker<'_> {
    /// Completes what the file says: by what the cluster has already, or else by a free network.
    pub(super) fn settle(
        &mut self,
        at: &Path,
        written: Settled,
        purposes: &[Purpose],
        named: &Named,
        surroundings: &Surroundings,
    ) -> Settled {
        let kept = surroundings.kept;
        let mut settled = Settled {
            machines: written.machines.or(kept.machines),
            pods: written.pods.or(kept.pods),
            services: written.services.or(kept.services),
        };
        let networks = surroundings.networks.iter().map(|(network, _)| *network);
        let mut taken: Taken = networks.collect();
        for purpose in purposes {
            // One that cannot be used takes nothing.
            if let Some(network) = settled.of(*purpose)
                && !self.is_left_out(&at.key(purpose.field()))
            {
                taken.add(network);
            }
        }
        let mut causes = BTreeSet::new();
        for &purpose in purposes {
            if settled.of(purpose).is_some() {
                continue;
            }
            let mut taken_here = taken.clone();
            named
                .kept_out_of(purpose)
                .for_each(|network| taken_here.add(network));
            if purpose == Purpose::Machines {
                let reserved = surroundings.reserved.iter();
                reserved.for_each(|network| taken_here.add_foreign(*network));
            }
            let chosen = choose(purpose, &taken_here);
            if chosen.is_none() {
                let field = purpose.field();
                self.report(
                    Finding::new(&rule::NO_FREE, at.key(field)).message(format!(
                        "no network is free for `{field}` in {RANGES}"
                    )).hint(format!(
                        "set `network.{field}` to a network that nobody needs from this computer; it may lie inside a wider one"
                    )),
                );
            }
            let network = chosen.unwrap_or(purpose.usual());
            if network != purpose.usual() {
                causes.insert(cause(purpose, surroundings));
            }
            taken.add(network);
            settled.set(purpose, network);
        }
        self.tell_moved(at, written, &settled, purposes, &causes);
        settled
    }

    /// Says which networks are not the usual ones, though the file does not name them.
    fn tell_moved(
        &mut self,
        at: &Path,
        written: Settled,
        settled: &Settled,
        purposes: &[Purpose],
        causes: &BTreeSet<String>,
    ) {
        let moved = purposes.iter().filter_map(|purpose| {
            let network = settled.of(*purpose)?;
            let is_moved = written.of(*purpose).is_none() && network != purpose.usual();
            is_moved.then(|| format!("`{}` {network}", purpose.field()))
        });
        let moved: Vec<_> = moved.collect();
        if moved.is_empty() {
            return;
        }
        let why = if causes.is_empty() {
            "as before".to_owned()
        } else {
            let causes: Vec<_> = causes.iter().map(String::as_str).collect();
            format!("since {}", causes.join(" and "))
        };
        let message = format!("the cluster uses {}, {why}", moved.join(", "));
        // Mostly there is no line about networks.
        let place = if self.root.says(at) {
            Place::Key(at.clone())
        } else {
            Place::File
        };
        self.report(Finding::new(&rule::MOVED, place).message(message));
    }

    /// Holds the networks that the file names, or that the cluster has already, against this computer's. Those that
    /// were chosen just now overlap nothing.
    pub(super) fn taken(
        &mut self,
        at: &Path,
        written: Settled,
        purposes: &[Purpose],
        surroundings: &Surroundings,
    ) {
        for &purpose in purposes {
            let kept = surroundings.kept.of(purpose);
            let Some(net) = written.of(purpose).or(kept) else {
                continue;
            };
            let is_kept = kept == Some(net);
            // Planning and drivers let the machine network be where its bridge is. No one makes the other networks on
            // this computer, and a cluster that has them keeps them.
            let works = match purpose {
                Purpose::Machines => surroundings.bridge == Some(net),
                Purpose::Pods | Purpose::Services => is_kept,
            };
            for (taken, name) in widest(&surroundings.networks, net) {
                let severity = match relation(net, *taken) {
                    // What lies inside ours would vanish behind it.
                    Relation::Covers if !works => Severity::Error,
                    // It came later, and the cluster cannot move any more.
                    Relation::Covers => Severity::Warning,
                    // Of a wider one, only a part vanishes.
                    Relation::Inside if written.of(purpose).is_some() => Severity::Warning,
                    Relation::Inside | Relation::Apart => continue,
                };
                let field = purpose.field();
                let mut finding = Finding::new(&rule::TAKEN, at.key(field))
                    .severity(severity)
                    .message(format!(
                        "`{field}` {net} overlaps {taken}, which this computer reaches by `{name}`"
                    ));
                if is_kept && severity == Severity::Error {
                    let free = match written.of(purpose) {
                        Some(_) => format!("with another `{field}`"),
                        None => "which chooses a free network".to_owned(),
                    };
                    finding = finding
                        .hint(format!("disconnect `{name}` from {taken}, and run `mullion up` again"))
                        .hint(format!(
                            "or make the cluster again: `mullion down`, and then `mullion up`, {free}; what the cluster holds is lost"
                        ));
                }
                self.report(finding);
            }
        }
    }
}

/// What is in the way of the usual network.
fn cause(purpose: Purpose, surroundings: &Surroundings) -> String {
    let usual = purpose.usual();
    let overlaps = |network: &Ipv4Net| relation(usual, *network) != Relation::Apart;
    let mut networks = surroundings.networks.iter();
    if let Some((network, name)) = networks.find(|(network, _)| overlaps(network)) {
        return format!("this computer reaches {network} by `{name}`");
    }
    let mut reserved = surroundings.reserved.iter();
    if let Some(network) = reserved.find(|net| purpose == Purpose::Machines && overlaps(net)) {
        return format!("another cluster has {network}");
    }
    let within = |servers: &[Ipv4Addr]| servers.iter().copied().find(|one| usual.contains(one));
    if let Some(server) = within(&surroundings.resolvers) {
        return format!("this computer asks the DNS server {server}");
    }
    if let Some(proxy) = within(&surroundings.proxies) {
        return format!("this computer uses the proxy {proxy}");
    }
    "the file has addresses in the usual ones".to_owned()
}

/// Networks that overlap one of the cluster's, without those that lie in another of them: an interface's own address
/// says nothing that its network does not say.
fn widest(networks: &[(Ipv4Net, String)], net: Ipv4Net) -> Vec<&(Ipv4Net, String)> {
    let overlaps = |(network, _): &&(Ipv4Net, String)| relation(net, *network) != Relation::Apart;
    let mut found: Vec<_> = networks.iter().filter(overlaps).collect();
    found.sort();
    let mut said: Option<Ipv4Net> = None;
    found.retain(|(network, _)| {
        let is_said = said.is_some_and(|said| said.contains(network));
        if !is_said && relation(net, *network) == Relation::Covers {
            said = Some(*network);
        }
        !is_said
    });
    found
}
