//! The one rule about networks that overlap, and the choice of free networks.
//!
//! Validation, planning and drivers ask [`relation`]; no one else compares a network of a cluster with a network of
//! a computer. [`choose`] picks a network that overlaps nothing of what is taken.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

/// A route that is wider than the widest private network, 10.0.0.0/8, leads to the internet and to no network of its
/// own. VPN clients split the default route into two or more such routes.
const WIDEST: u8 = 8;

/// The prefix length of a block that candidates are taken from.
const BLOCK: u8 = 16;

/// How a network of a cluster lies to a network of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// They share no address.
    Apart,
    /// The cluster's lies inside a wider one, which loses that part of it: a network that the user asks for may do that.
    Inside,
    /// The cluster's contains the other, or is the same: the other would be cut off.
    Covers,
}

/// How a network of a cluster lies to a network that a computer has or reaches. A default route is apart from all.
pub fn relation(ours: Ipv4Net, theirs: impl Into<IpNet>) -> Relation {
    let IpNet::V4(theirs) = theirs.into() else {
        return Relation::Apart;
    };
    if theirs.prefix_len() < WIDEST {
        Relation::Apart
    } else if ours.contains(&theirs) {
        Relation::Covers
    } else if theirs.contains(&ours) {
        Relation::Inside
    } else {
        Relation::Apart
    }
}

/// Whether two networks of one cluster share an address.
pub(crate) fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// What a network of a cluster is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Addresses of machines that Mullion creates.
    Machines,
    /// Addresses of pods.
    Pods,
    /// Addresses of services.
    Services,
}

impl Purpose {
    /// All of them, in the order in which networks are chosen.
    pub const ALL: [Self; 3] = [Self::Machines, Self::Pods, Self::Services];

    /// The field of `cluster.yaml`.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Machines => "machineCIDR",
            Self::Pods => "podCIDR",
            Self::Services => "serviceCIDR",
        }
    }

    /// The network that is taken where it is free.
    pub const fn usual(self) -> Ipv4Net {
        match self {
            Self::Machines => net(10, 99, 24),
            Self::Pods => net(10, 244, 16),
            Self::Services => net(10, 96, 16),
        }
    }
}

const fn net(first: u8, second: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), prefix)
}

/// The networks of one cluster, as far as they are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Addresses of machines that Mullion creates.
    pub machines: Option<Ipv4Net>,
    /// Addresses of pods.
    pub pods: Option<Ipv4Net>,
    /// Addresses of services.
    pub services: Option<Ipv4Net>,
}

impl Settled {
    /// The network for one purpose.
    pub const fn of(&self, purpose: Purpose) -> Option<Ipv4Net> {
        match purpose {
            Purpose::Machines => self.machines,
            Purpose::Pods => self.pods,
            Purpose::Services => self.services,
        }
    }

    /// Settles the network for one purpose.
    pub const fn set(&mut self, purpose: Purpose, network: Ipv4Net) {
        let slot = match purpose {
            Purpose::Machines => &mut self.machines,
            Purpose::Pods => &mut self.pods,
            Purpose::Services => &mut self.services,
        };
        *slot = Some(network);
    }
}

/// Addresses that are in use.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// First and last address of each range, in order; no two touch or overlap.
    ranges: Vec<(u32, u32)>,
}

impl Taken {
    /// Adds a network of the cluster itself, or single addresses.
    pub fn add(&mut self, network: Ipv4Net) {
        let (mut first, mut last) = ends(network);
        let begin = self
            .ranges
            .partition_point(|(_, end)| *end < first.saturating_sub(1));
        let end = self
            .ranges
            .partition_point(|(start, _)| *start <= last.saturating_add(1));
        for (start, stop) in self.ranges.drain(begin..end) {
            first = first.min(start);
            last = last.max(stop);
        }
        self.ranges.insert(begin, (first, last));
    }

    /// Adds a network that a computer has or reaches. A default route takes nothing.
    pub fn add_foreign(&mut self, network: Ipv4Net) {
        if network.prefix_len() >= WIDEST {
            self.add(network);
        }
    }

    /// Whether a network shares no address with what is taken.
    pub fn leaves(&self, network: Ipv4Net) -> bool {
        let (first, last) = ends(network);
        let next = self.ranges.partition_point(|(_, end)| *end < first);
        self.ranges.get(next).is_none_or(|(start, _)| *start > last)
    }
}

impl FromIterator<Ipv4Net> for Taken {
    fn from_iter<T: IntoIterator<Item = Ipv4Net>>(networks: T) -> Self {
        let mut taken = Self::default();
        for network in networks {
            taken.add_foreign(network);
        }
        taken
    }
}

fn ends(network: Ipv4Net) -> (u32, u32) {
    (network.network().into(), network.broadcast().into())
}

/// A free network: the usual one, or the first that is free in a fixed order.
pub fn choose(purpose: Purpose, taken: &Taken) -> Option<Ipv4Net> {
    let usual = purpose.usual();
    if taken.leaves(usual) {
        return Some(usual);
    }
    let first = Ipv4Net::new_assert(usual.network(), BLOCK).trunc();
    let mut blocks = std::iter::once(first).chain(blocks());
    blocks.find_map(|block| {
        let mut parts = block.subnets(usual.prefix_len()).ok()?;
        parts.find(|part| taken.leaves(*part))
    })
}

/// The private networks in blocks. Other programs mostly take the lowest free ones (container engines) or the highest
/// (a cloud's default network), so that the order begins between the two.
fn blocks() -> impl Iterator<Item = Ipv4Net> {
    let downwards = |first: u8, seconds: std::ops::RangeInclusive<u8>| {
        seconds.rev().map(move |second| net(first, second, BLOCK))
    };
    downwards(172, 16..=30)
        .chain([net(172, 31, BLOCK), net(192, 168, BLOCK)])
        .chain(downwards(100, 64..=127))
        .chain(downwards(10, 0..=255))
}

/// The ranges that [`choose`] takes networks from.
pub const RANGES: &str = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and 100.64.0.0/10";

/// The host of a web address, which may lack its beginning: a name or an IPv4 address.
pub fn host_of(address: &str) -> Option<&str> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    // An IPv6 address stands in brackets.
    let host = host.split(':').next()?;
    (!host.is_empty() && !host.starts_with('[')).then_some(host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn chosen(taken: &[&str]) -> [String; 3] {
        let mut taken: Taken = taken.iter().map(|text| v4(text)).collect();
        Purpose::ALL.map(|purpose| {
            let Some(network) = choose(purpose, &taken) else {
                return "none".into();
            };
            taken.add(network);
            network.to_string()
        })
    }

    #[test]
    fn networks_that_share_an_address_overlap_and_a_default_route_does_not_count() {
        let of = |ours: &str, theirs: &str| relation(v4(ours), theirs.parse::<IpNet>().unwrap());
        assert_eq!(of("10.9.0.0/24", "10.0.0.0/8"), Relation::Inside);
        assert_eq!(of("10.9.0.0/24", "10.9.0.0/24"), Relation::Covers);
        assert_eq!(of("10.9.0.0/24", "10.9.0.7/32"), Relation::Covers);
        assert_eq!(of("10.9.0.0/16", "10.9.0.1/24"), Relation::Covers);
        assert_eq!(of("10.9.0.0/24", "10.9.1.0/24"), Relation::Apart);
        assert_eq!(of("10.9.0.0/24", "fd00::/64"), Relation::Apart);
        // A whole default route, and the halves that VPN clients write.
        assert_eq!(of("10.9.0.0/24", "0.0.0.0/0"), Relation::Apart);
        assert_eq!(of("10.9.0.0/24", "0.0.0.0/1"), Relation::Apart);
        assert_eq!(of("10.9.0.0/24", "::/0"), Relation::Apart);
    }

    #[test]
    fn networks_move_to_ranges_that_are_free() {
        let usual = ["10.99.0.0/24", "10.244.0.0/16", "10.96.0.0/16"];
        assert_eq!(chosen(&[]), usual);
        assert_eq!(chosen(&["0.0.0.0/1", "128.0.0.0/1"]), usual);
        assert_eq!(chosen(&["192.168.1.0/24", "172.17.0.0/16"]), usual);
        // A second cluster's bridge beside the first one's.
        assert_eq!(chosen(&["10.99.0.0/24"])[0], "10.99.1.0/24");
        let behind_vpn = ["172.30.0.0/24", "172.29.0.0/16", "172.28.0.0/16"];
        assert_eq!(chosen(&["10.0.0.0/8"]), behind_vpn);
        assert_eq!(
            chosen(&["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/24"]),
            ["192.168.1.0/24", "100.127.0.0/16", "100.126.0.0/16"]
        );
        assert_eq!(
            chosen(&["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"])[0],
            "100.127.0.0/24"
        );
        let all = [
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
        ];
        assert_eq!(chosen(&all), ["none"; 3]);
        assert_eq!(RANGES.replace(" and", ","), all.join(", "));
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let mut taken = Taken::default();
        for network in ["10.0.1.0/24", "10.0.3.0/24", "10.0.2.0/24", "0.0.0.0/32"] {
            taken.add(v4(network));
        }
        assert_eq!(taken.ranges.len(), 2);
        taken.add(v4("0.0.0.0/0"));
        assert_eq!(taken.ranges, [(0, u32::MAX)]);
        taken.add(v4("255.255.255.255/32"));
        assert_eq!(taken.ranges, [(0, u32::MAX)]);
    }

    fn networks() -> impl Strategy<Value = Vec<Ipv4Net>> {
        let first = prop_oneof![Just(10_u8), Just(172), Just(192), Just(100), any::<u8>()];
        let network = (first, any::<u8>(), any::<u8>(), any::<u8>(), 0..=32_u8).prop_map(
            |(one, two, three, four, prefix)| {
                let address = Ipv4Addr::new(one, two, three, four);
                Ipv4Net::new_assert(address, prefix).trunc()
            },
        );
        // Up to routing tables of thousands of networks.
        prop_oneof![
            proptest::collection::vec(network.clone(), 0..20),
            proptest::collection::vec(network, 0..2000),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_choice_overlaps_nothing_and_does_not_depend_on_the_order(networks in networks()) {
            let mut taken: Taken = networks.iter().copied().collect();
            let mut backwards: Taken = networks.iter().rev().copied().collect();
            prop_assert_eq!(&taken.ranges, &backwards.ranges);
            let mut own: Vec<Ipv4Net> = Vec::new();
            for purpose in Purpose::ALL {
                let Some(network) = choose(purpose, &taken) else {
                    continue;
                };
                prop_assert_eq!(choose(purpose, &backwards), Some(network));
                prop_assert_eq!(network.prefix_len(), purpose.usual().prefix_len());
                prop_assert_eq!(network.trunc(), network);
                for other in &networks {
                    prop_assert_eq!(relation(network, *other), Relation::Apart);
                }
                prop_assert!(!own.iter().any(|other| overlap(network, *other)));
                own.push(network);
                taken.add(network);
                backwards.add(network);
            }
        }
    }

    #[test]
    fn the_host_of_a_web_address_is_found() {
        for address in [
            "http://10.99.0.9",
            "https://10.99.0.9:3128/path?at=1",
            "http://user@10.99.0.9:3128",
        ] {
            assert_eq!(host_of(address), Some("10.99.0.9"), "{address}");
        }
        for address in [
            "http://proxy.example:3128",
            "proxy.example:3128",
            "https://proxy.example/10.99.0.9",
        ] {
            assert_eq!(host_of(address), Some("proxy.example"), "{address}");
        }
        for address in ["http://[fd00::1]:3128", "http://", ""] {
            assert_eq!(host_of(address), None, "{address}");
        }
    }
}
