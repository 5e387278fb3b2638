//! Networks: their form, their size, and that no two overlap.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::{Checker, GroupPlace};
use crate::cluster::{Carrier, Duty, Group, Host, Network};
use crate::draft::Surroundings;
use crate::finding::{Finding, Place, Severity};
use crate::raw::RawNetwork;
use crate::rules::{network as rule, shape as shape_rule};
use crate::source::Path;
use crate::value::Address;
use crate::words::{Backend, Cni, Os};

/// The least VXLAN identifier that Windows takes.
const WINDOWS_VNI: u32 = 4096;
/// The only VXLAN port that Windows takes.
const WINDOWS_VXLAN_PORT: u16 = 4789;

impl Checker<'_> {
    pub(super) fn network(
        &mut self,
        raw: &RawNetwork,
        groups: &[Group],
        places: &[GroupPlace],
        hosts: &[Host],
        surroundings: &Surroundings,
    ) -> Network {
        let at = Path::top().key("network");
        let windows = groups.iter().zip(places).find_map(|(group, place)| {
            let is_windows = group.system.os() == Os::Windows && !group.numbers.is_empty();
            is_windows.then(|| Place::Key(place.field("os")))
        });
        let usual = RawNetwork::default();
        let pods = self.net(
            &at.key("podCIDR"),
            &raw.pod_cidr,
            &usual.pod_cidr,
            windows.as_ref(),
        );
        let services = self.net(
            &at.key("serviceCIDR"),
            &raw.service_cidr,
            &usual.service_cidr,
            windows.as_ref(),
        );
        let machines = raw.machine_cidr.as_ref().map(|text| {
            self.net(
                &at.key("machineCIDR"),
                text,
                usual.machine_cidr.as_deref().unwrap_or_default(),
                windows.as_ref(),
            )
        });
        let makes_machines = groups.iter().any(|group| {
            matches!(group.carrier, Carrier::Made { .. }) && !group.numbers.is_empty()
        });
        let machines_in_use = machines.filter(|_| makes_machines);

        self.overlaps(&at, pods, services, machines_in_use, surroundings);
        self.sizes(raw, &at, pods, services, machines_in_use, groups);
        self.addresses_inside(&at, pods, services, groups, places, hosts);
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
            domain: self.domain(&at.key("domain"), &raw.domain),
            upstream_dns: self.upstream_dns(&at.key("upstreamDNS"), &raw.upstream_dns),
            policy: raw.policy,
        }
    }

    /// One IPv4 network, written by its first address.
    fn net(&mut self, path: &Path, text: &str, usual: &str, windows: Option<&Place>) -> Ipv4Net {
        let fallback = || usual.parse().unwrap_or_default();
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
            if let Some(windows) = windows {
                finding = finding
                    .message(format!(
                        "`{path}`: Windows has no IPv6 on an overlay network"
                    ))
                    .also(windows.clone(), "the cluster has Windows machines");
            }
            self.reject(finding, path);
            return fallback();
        }
        match text.parse::<Ipv4Net>() {
            Ok(net) if net.trunc() == net => net,
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
                fallback()
            }
        }
    }

    fn overlaps(
        &mut self,
        at: &Path,
        pods: Ipv4Net,
        services: Ipv4Net,
        machines: Option<Ipv4Net>,
        surroundings: &Surroundings,
    ) {
        let mut nets = vec![("podCIDR", pods), ("serviceCIDR", services)];
        nets.extend(machines.map(|net| ("machineCIDR", net)));
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
            for (taken, name) in &surroundings.networks {
                // What lies inside ours would vanish behind it; of a wider one, only a part does.
                let severity = if net.contains(taken) {
                    Severity::Error
                } else if taken.contains(net) {
                    Severity::Warning
                } else {
                    continue;
                };
                self.report(
                    Finding::new(&rule::TAKEN, at.key(*field))
                        .severity(severity)
                        .message(format!(
                            "`{field}` {net} overlaps {taken}, which this computer reaches by `{name}`"
                        )),
                );
            }
        }
    }

    fn sizes(
        &mut self,
        raw: &RawNetwork,
        at: &Path,
        pods: Ipv4Net,
        services: Ipv4Net,
        machines: Option<Ipv4Net>,
        groups: &[Group],
    ) {
        let share = raw.pod_cidr_size;
        let share_at = at.key("podCIDRSize");
        if share <= pods.prefix_len() || share > 28 {
            let finding = Finding::new(&rule::SHARE_SIZE, share_at.clone())
                .message(format!(
                    "a node's share of /{share} does not fit a pod network of /{}",
                    pods.prefix_len()
                ))
                .also(at.key("podCIDR"), format!("`podCIDR` is {pods}"))
                .hint(format!(
                    "take a number from {} to 28",
                    pods.prefix_len() + 1
                ));
            self.reject(finding, &share_at);
        } else {
            let nodes: u64 = count(groups, |group| group.duty != Duty::LoadBalancer);
            let room = 1_u64 << (share - pods.prefix_len());
            if nodes > room {
                self.report(
                    Finding::new(&rule::PODS_SMALL, at.key("podCIDR"))
                        .message(format!(
                            "{pods} has room for {room} nodes of /{share}, and there are {nodes}"
                        ))
                        .also(share_at, format!("each node takes a /{share}"))
                        .hint(format!(
                            "widen `podCIDR` to a /{} or wider",
                            share - bits(nodes)
                        )),
                );
            }
        }
        if !(12..=28).contains(&services.prefix_len()) {
            self.report(
                Finding::new(&rule::SERVICES_SIZE, at.key("serviceCIDR")).message(format!(
                    "a service network of /{} is not possible",
                    services.prefix_len()
                )),
            );
        }
        if let Some(net) = machines {
            let made = count(groups, |group| {
                matches!(group.carrier, Carrier::Made { .. })
            });
            // The network's own address, its broadcast and the gateway are not for machines.
            let room = (1_u64 << (32 - net.prefix_len())).saturating_sub(3);
            if made > room {
                self.report(
                    Finding::new(&rule::MACHINES_SMALL, at.key("machineCIDR"))
                        .message(format!(
                            "{net} has room for {room} machines, and there are {made}"
                        ))
                        .hint(format!(
                            "widen `machineCIDR` to a /{} or wider",
                            32 - bits(made + 3)
                        )),
                );
            }
        }
    }

    fn addresses_inside(
        &mut self,
        at: &Path,
        pods: Ipv4Net,
        services: Ipv4Net,
        groups: &[Group],
        places: &[GroupPlace],
        hosts: &[Host],
    ) {
        let hosts_at = Path::top().key("hosts");
        let of_hosts = hosts
            .iter()
            .enumerate()
            .map(|(index, host)| (&host.address, hosts_at.index(index).key("address")));
        let of_machines = groups.iter().zip(places).flat_map(|(group, place)| {
            let addresses: &[Address] = match &group.carrier {
                Carrier::Existing { addresses, .. } => addresses,
                Carrier::Made { .. } => &[],
            };
            let at = place.field("addresses");
            addresses
                .iter()
                .enumerate()
                .map(move |(index, address)| (address, at.index(index)))
        });
        for (address, path) in of_hosts.chain(of_machines) {
            let Address::Ip(IpAddr::V4(ip)) = address else {
                continue;
            };
            for (field, net) in [("podCIDR", pods), ("serviceCIDR", services)] {
                if net.contains(ip) {
                    self.report(
                        Finding::new(&rule::ADDRESS_INSIDE, path.clone())
                            .message(format!("{ip} lies inside `{field}` {net}"))
                            .also(at.key(field), format!("`{field}` is {net}")),
                    );
                }
            }
        }
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
        if raw.backend == Backend::HostGw {
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

    fn upstream_dns(&mut self, at: &Path, raw: &[String]) -> Vec<IpAddr> {
        raw.iter()
            .enumerate()
            .filter_map(|(index, text)| {
                let at = at.index(index);
                let parsed = text.parse().ok();
                if parsed.is_none() {
                    let finding = Finding::new(&shape_rule::BAD_VALUE, at.clone())
                        .message(format!("`{at}`: `{text}` is not an IP address"));
                    self.reject(finding, &at);
                }
                parsed
            })
            .collect()
    }
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
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
    (1..=32).find(|bits| things <= 1 << bits).unwrap_or(32)
}
