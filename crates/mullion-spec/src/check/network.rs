//! Networks: their form, their size, and that no two overlap.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::addresses::{Networks, ipv4_net, special};
use super::choice::{Named, names_of_machines, names_of_servers};
use super::{Checker, GroupPlace};
use crate::cluster::{Carrier, ControlPlane, Duty, Group, Host, Network};
use crate::draft::{Addresses, Surroundings};
use crate::finding::{Finding, Place};
use crate::networks::{Purpose, Settled, overlap};
use crate::raw::{RawCluster, RawNetwork};
use crate::rules::{network as rule, shape as shape_rule};
use crate::source::Path;
use crate::value::Address;
use crate::words::{Backend, Cni, Os};

/// The least VXLAN identifier that Windows takes.
const WINDOWS_VNI: u32 = 4096;
/// The only VXLAN port that Windows takes.
const WINDOWS_VXLAN_PORT: u16 = 4789;
/// How many bits kubeadm and kube-controller-manager allow between the pod network and a node's share.
const MOST_SHARE_BITS: u8 = 16;
/// The prefix of the smallest share that a node can work with.
const SMALLEST_SHARE: u8 = 28;
/// The prefix of a node's share where nobody says so.
const USUAL_SHARE: u8 = 24;

impl Checker<'_> {
    pub(super) fn network(
        &mut self,
        file: &RawCluster,
        groups: &[Group],
        places: &[GroupPlace],
        hosts: &[Host],
        control_plane: &ControlPlane,
        surroundings: &Surroundings,
    ) -> Network {
        let raw = &file.network;
        let at = Path::top().key("network");
        let windows = groups.iter().zip(places).find_map(|(group, place)| {
            let is_windows = group.system.os() == Os::Windows && !group.numbers.is_empty();
            is_windows.then(|| Place::Key(place.field("os")))
        });
        let makes_machines = groups
            .iter()
            .any(|group| group.carrier.is_made() && !group.numbers.is_empty());
        let mut given = |purpose: Purpose, text: Option<&str>| {
            let at = at.key(purpose.field());
            let text = text.filter(|_| self.root.says(&at))?;
            Some(self.net(&at, text, purpose.usual(), windows.as_ref()))
        };
        let written = Settled {
            machines: given(Purpose::Machines, raw.machine_cidr.as_deref()),
            pods: given(Purpose::Pods, Some(&raw.pod_cidr)),
            services: given(Purpose::Services, Some(&raw.service_cidr)),
        };
        let needed = |purpose: &Purpose| *purpose != Purpose::Machines || makes_machines;
        let purposes: Vec<_> = Purpose::ALL.into_iter().filter(needed).collect();
        let is_settled = |purpose: &Purpose| {
            let kept = surroundings.kept.of(*purpose);
            written.of(*purpose).or(kept).is_some()
        };
        let mut hostnames = names_of_machines(groups);
        // What else the file names matters only to networks that are chosen.
        if !purposes.iter().all(is_settled) {
            hostnames.extend(names_of_servers(file));
        }
        let found = if hostnames.is_empty() {
            Addresses::new()
        } else {
            (surroundings.lookup.0)(&hostnames)
        };
        let named = Named::of(groups, hosts, control_plane, file, surroundings, &found);
        let settled = self.settle(&at, written, &purposes, &named, surroundings);
        let pods = settled.pods.unwrap_or(Purpose::Pods.usual());
        let services = settled.services.unwrap_or(Purpose::Services.usual());
        // Where no machine is made, the file's word is shown and nothing is chosen.
        let unused = || raw.machine_cidr.as_ref().map(|_| Purpose::Machines.usual());
        let machines = if makes_machines {
            settled.machines
        } else {
            written.machines.or_else(unused)
        };
        let nets = Networks {
            pods,
            services,
            machines: machines.filter(|_| makes_machines),
        };
        self.overlaps(&at, nets);
        self.taken(&at, written, &purposes, surroundings);
        self.sizes(raw, &at, nets, groups, places);
        self.addresses_of_computers(nets, groups, places, hosts, control_plane, &found);
        self.backend(raw, &at, groups, places, windows.as_ref());
        if let Some(mtu) = raw.mtu {
            self.within(&at.key("mtu"), mtu.into(), 1280, 9000);
        }
        if raw.cni == Cni::None && raw.policy && self.root.says(&at.key("policy")) {
            self.report(
                Finding::new(&rule::POLICY, at.key("policy"))
                    .also(at.key("cni"), "no plugin is installed"),
            );
        }
        Network {
            cni: raw.cni,
            backend: raw.backend,
            vni: raw.vni,
            port: raw.port,
            mtu: raw.mtu.and_then(|mtu| u16::try_from(mtu).ok()),
            pods,
            pods_per_node: raw.pod_cidr_size,
            services,
            machines,
            machine_access: raw.machine_access,
            domain: self.domain(&at.key("domain"), &raw.domain),
            upstream_dns: self.upstream_dns(&at.key("upstreamDNS"), &raw.upstream_dns, nets),
            policy: raw.policy,
        }
    }

    /// One IPv4 network, written by its first address.
    fn net(&mut self, path: &Path, text: &str, usual: Ipv4Net, windows: Option<&Place>) -> Ipv4Net {
        let first = text.split(',').next().unwrap_or_default().trim();
        let is_ipv6 = text
            .split(',')
            .any(|part| matches!(part.trim().parse::<IpNet>(), Ok(IpNet::V6(_))));
        if is_ipv6 || (text.contains(',') && first.parse::<Ipv4Net>().is_ok()) {
            let mut finding = Finding::new(&rule::IPV6, path.clone()).message(if is_ipv6 {
                format!("`{path}`: IPv6 is not possible here")
            } else {
                format!("`{path}`: only one network can be given")
            });
            finding = finding.hint("give one IPv4 network");
            if let Some(windows) = windows {
                finding = finding
                    .message(format!(
                        "`{path}`: Windows has no IPv6 on an overlay network"
                    ))
                    .also(windows.clone(), "the cluster has Windows machines");
            }
            self.reject(finding, path);
            return usual;
        }
        match text.parse::<Ipv4Net>() {
            Ok(net) if ipv4_net(text).is_none() => {
                let finding = Finding::new(&shape_rule::BAD_VALUE, path.clone())
                    .message(format!(
                        "`{path}`: the numbers of `{text}` have leading zeros, which some programs read as octal"
                    ))
                    .hint(format!("where that is meant, write `{}`", net.trunc()));
                self.reject(finding, path);
                net.trunc()
            }
            Ok(net) if net.trunc() == net => {
                if let Some((special, meaning)) = special(net) {
                    let message = if special.contains(&net) {
                        format!("`{path}`: {net} cannot be used, it is {meaning}")
                    } else {
                        format!("`{path}`: {net} cannot be used, {special} in it is {meaning}")
                    };
                    let finding =
                        Finding::new(&rule::SPECIAL_NETWORK, path.clone()).message(message);
                    self.reject(finding, path);
                }
                net
            }
            Ok(net) => {
                let finding = Finding::new(&rule::HOST_BITS, path.clone())
                    .message(format!("`{path}`: `{net}` has bits beyond its prefix"))
                    .hint(format!("write `{}`", net.trunc()));
                self.reject(finding, path);
                net.trunc()
            }
            Err(_) => {
                let finding = Finding::new(&shape_rule::BAD_VALUE, path.clone())
                    .message(format!("`{path}`: `{text}` is not a network like {usual}"));
                self.reject(finding, path);
                usual
            }
        }
    }

    fn overlaps(&mut self, at: &Path, nets: Networks) {
        let nets = nets.all();
        for (index, (field, net)) in nets.iter().enumerate() {
            for (other, other_net) in &nets[index + 1..] {
                if overlap(*net, *other_net) {
                    // A default has no line of its own: the caret goes to the one that was written.
                    let written = |field: &str| self.root.says(&at.key(field));
                    let (main, second) = if written(field) || !written(other) {
                        ((field, net), (other, other_net))
                    } else {
                        ((other, other_net), (field, net))
                    };
                    self.report(
                        Finding::new(&rule::OVERLAP, at.key(*main.0))
                            .message(format!(
                                "`{}` {} overlaps `{}` {}",
                                main.0, main.1, second.0, second.1
                            ))
                            .also(at.key(*second.0), format!("`{}` is {}", second.0, second.1)),
                    );
                }
            }
        }
    }

    fn sizes(
        &mut self,
        raw: &RawNetwork,
        at: &Path,
        nets: Networks,
        groups: &[Group],
        places: &[GroupPlace],
    ) {
        // A number of machines that is out of range says nothing about the room that they need.
        let is_counted = places
            .iter()
            .all(|place| !self.is_left_out(&place.field("count")));
        let nodes = count(groups, |group| group.duty != Duty::LoadBalancer);
        self.shares(raw, at, nets.pods, nodes, is_counted);
        if !(12..=28).contains(&nets.services.prefix_len()) {
            self.report(
                Finding::new(&rule::SERVICES_SIZE, at.key("serviceCIDR")).message(format!(
                    "a service network of /{} is not possible",
                    nets.services.prefix_len()
                )),
            );
        }
        if is_counted {
            let made = count(groups, |group| group.carrier.is_made());
            self.room_for_machines(at, nets.machines, made);
        }
    }

    /// Sees that nodes' shares are parts of the pod network, and that there are enough of them.
    fn shares(&mut self, raw: &RawNetwork, at: &Path, pods: Ipv4Net, nodes: u64, is_counted: bool) {
        let share = raw.pod_cidr_size;
        let share_at = at.key("podCIDRSize");
        let prefix = pods.prefix_len();
        // A share as large as the network is possible: there is one.
        let least = prefix.saturating_add(bits(nodes));
        let most = SMALLEST_SHARE.min(prefix.saturating_add(MOST_SHARE_BITS));
        let wider = |share: u8| {
            let widest = share.saturating_sub(bits(nodes));
            format!("widen `podCIDR` to a /{widest} or wider")
        };
        if share > SMALLEST_SHARE || share < prefix || share - prefix > MOST_SHARE_BITS {
            let message = if share >= prefix && share - prefix > MOST_SHARE_BITS {
                format!(
                    "a node's share of /{share} is more than {MOST_SHARE_BITS} bits smaller than a pod network of /{prefix}"
                )
            } else {
                format!("a node's share of /{share} does not fit a pod network of /{prefix}")
            };
            let finding = if least > most {
                // No share would do: the network itself is too small.
                Finding::new(&rule::SHARE_SIZE, at.key("podCIDR"))
                    .also(share_at.clone(), format!("`podCIDRSize` is {share}"))
                    .hint(wider(share.min(USUAL_SHARE)))
            } else {
                let finding = Finding::new(&rule::SHARE_SIZE, share_at.clone())
                    .also(at.key("podCIDR"), format!("`podCIDR` is {pods}"));
                if least == most {
                    finding.hint(format!("write `podCIDRSize: {least}`"))
                } else {
                    finding.hint(format!("take a number from {least} to {most}"))
                }
            };
            self.reject(finding.message(message), &share_at);
            return;
        }
        let room = 1_u64 << (share - prefix);
        if nodes > room && is_counted {
            let things = if room == 1 { "node" } else { "nodes" };
            self.report(
                Finding::new(&rule::PODS_SMALL, at.key("podCIDR"))
                    .message(format!(
                        "{pods} has room for {room} {things} of /{share}, and there are {nodes}"
                    ))
                    .also(share_at, format!("each node takes a /{share}"))
                    .hint(wider(share)),
            );
        }
    }

    fn room_for_machines(&mut self, at: &Path, machines: Option<Ipv4Net>, made: u64) {
        let Some(net) = machines else {
            return;
        };
        // The network's own address, its broadcast and the gateway are not for machines.
        let room = (1_u64 << (32 - net.prefix_len())).saturating_sub(3);
        if made <= room {
            return;
        }
        let needed = 32 - bits(made + 3);
        let is_written = self.root.says(&at.key("machineCIDR"));
        let finding = Finding::new(&rule::MACHINES_SMALL, at.key("machineCIDR"));
        self.report(if is_written {
            finding
                .message(format!(
                    "{net} has room for {room} machines, and there are {made}"
                ))
                .hint(format!("widen `machineCIDR` to a /{needed} or wider"))
        } else {
            finding
                .message(format!(
                    "the /{} that is taken has room for {room} machines, and there are {made}",
                    net.prefix_len()
                ))
                .hint(format!("set `machineCIDR` to a /{needed} or wider"))
        });
    }

    fn backend(
        &mut self,
        raw: &RawNetwork,
        at: &Path,
        groups: &[Group],
        places: &[GroupPlace],
        windows: Option<&Place>,
    ) {
        self.within(&at.key("vni"), raw.vni.into(), 1, (1 << 24) - 1);
        self.within(&at.key("port"), raw.port.into(), 1, u16::MAX.into());
        if raw.backend == Backend::Vxlan
            && raw.cni != Cni::None
            && let Some(windows) = windows
        {
            if raw.vni < WINDOWS_VNI {
                self.report(
                    Finding::new(&rule::VNI, at.key("vni"))
                        .message(format!("Windows takes no VXLAN identifier below {WINDOWS_VNI}, and `vni` is {}", raw.vni))
                        .also(windows.clone(), "the cluster has Windows machines"),
                );
            }
            if raw.port != WINDOWS_VXLAN_PORT {
                self.report(
                    Finding::new(&rule::VXLAN_PORT, at.key("port"))
                        .message(format!("Windows takes no VXLAN port but {WINDOWS_VXLAN_PORT}, and `port` is {}", raw.port))
                        .also(windows.clone(), "the cluster has Windows machines"),
                );
            }
        }
        // Of the network plugins only flannel has the backend; of the others, another rule says so.
        if raw.backend == Backend::HostGw && raw.cni == Cni::Flannel {
            self.one_segment(at, groups, places);
        }
    }

    /// Sees that machines share a segment: one host's bridge, or existing machines of one network.
    fn one_segment(&mut self, at: &Path, groups: &[Group], places: &[GroupPlace]) {
        let mut first: Option<(String, &GroupPlace)> = None;
        for (group, place) in groups
            .iter()
            .zip(places)
            .filter(|(group, _)| !group.numbers.is_empty())
        {
            let segments: Vec<String> = match &group.carrier {
                Carrier::Made { host: None, .. } => vec!["this computer's bridge".into()],
                Carrier::Made {
                    host: Some(host), ..
                } => vec![format!("the bridge of host {host}")],
                // What lies between existing machines is unknown; another /24 is most likely a router away.
                Carrier::Existing { addresses, .. } => addresses
                    .iter()
                    .filter_map(|address| match address {
                        Address::Ip(IpAddr::V4(ip)) => Ipv4Net::new(*ip, 24)
                            .ok()
                            .map(|net| net.trunc().to_string()),
                        _ => None,
                    })
                    .collect(),
            };
            for segment in segments {
                match &first {
                    None => first = Some((segment, place)),
                    Some((other, other_place)) if *other != segment => {
                        self.report(
                            Finding::new(&rule::HOST_GW, at.key("backend"))
                                .also(at.key("cni"), "the network plugin")
                                .message(format!(
                                    "`host-gw` needs all machines on one segment, and they are on {other} and on {segment}"
                                ))
                                .also(Place::Key(other_place.field("name")), format!("on {other}"))
                                .also(Place::Key(place.field("name")), format!("on {segment}")),
                        );
                        return;
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn domain(&mut self, path: &Path, text: &str) -> String {
        if !matches!(text.parse(), Ok(Address::Name(_)))
            || text.bytes().any(|byte| byte.is_ascii_uppercase())
        {
            let finding = Finding::new(&shape_rule::BAD_VALUE, path.clone()).message(format!(
                "`{path}`: `{text}` is not a DNS domain in lower case"
            ));
            self.reject(finding, path);
        }
        text.to_owned()
    }

    fn upstream_dns(&mut self, at: &Path, raw: &[String], nets: Networks) -> Vec<IpAddr> {
        raw.iter()
            .enumerate()
            .filter_map(|(index, text)| {
                let at = at.index(index);
                let parsed = text.parse().ok();
                if let Some(server) = parsed {
                    self.server_apart(&at, server, nets);
                } else {
                    let finding = Finding::new(&shape_rule::BAD_VALUE, at.clone())
                        .message(format!("`{at}`: `{text}` is not an IP address"));
                    self.reject(finding, &at);
                }
                parsed
            })
            .collect()
    }
}

fn count(groups: &[Group], which: impl Fn(&Group) -> bool) -> u64 {
    groups
        .iter()
        .filter(|group| which(group))
        .map(|group| group.numbers.len() as u64)
        .sum()
}

/// How many bits it takes to tell that many things apart.
fn bits(things: u64) -> u8 {
    (0..=32).find(|bits| things <= 1 << bits).unwrap_or(32)
}
