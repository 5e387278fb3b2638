//! Finds the machine of each member of etcd.
//!
//! kubeadm names a member after its node. A machine that has another name in the file now, or a member that never came
//! up, is known by its peer address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mullion_kube::EtcdMember;
use mullion_plan::{ClusterFacts, EtcdFacts, MachineFacts, MemberFacts, Observed, Power};
use mullion_spec::value::MachineName;

/// By what a member is known to be a machine's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// The name of its node, where its agent tells it.
    node: Option<String>,
    /// Its addresses, where it may hold the data of a member.
    addresses: BTreeSet<IpAddr>,
}

/// The traits of every machine of the file, and of every one that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Machines(BTreeMap<MachineName, Traits>);

impl Machines {
    /// What was found, and the names of the file.
    pub(super) fn of(
        file: impl Iterator<Item = MachineName>,
        observed: &Observed,
        cluster: &ClusterFacts,
    ) -> Self {
        let mut machines: BTreeMap<_, _> = file.map(|name| (name, Traits::default())).collect();
        for (name, facts) in observed.machines.iter().filter(|(_, facts)| facts.ours) {
            let node = facts.inside.as_ref();
            let node = node.and_then(|inside| inside.node.clone());
            let mut traits = Traits {
                node,
                addresses: BTreeSet::new(),
            };
            if may_hold(facts) {
                let known = traits.node.as_deref().unwrap_or(name.as_str());
                let node = cluster.nodes.get(known);
                let addresses = facts.address.into_iter();
                traits.addresses = addresses
                    .chain(node.and_then(|node| node.address))
                    .collect();
            }
            machines.insert(name.clone(), traits);
        }
        Self(machines)
    }

    /// The same with machines of the file that this run made, among them one that may hold data by now.
    pub(super) fn with(
        mut self,
        file: impl Iterator<Item = MachineName>,
        holder: &MachineName,
        address: Option<IpAddr>,
    ) -> Self {
        for name in file {
            self.0.entry(name).or_default();
        }
        let holder = self.0.entry(holder.clone()).or_default();
        holder.addresses.extend(address);
        self
    }

    /// The addresses by which a member is a machine's.
    pub(super) fn addresses(&self, machine: &MachineName) -> BTreeSet<IpAddr> {
        let traits = self.0.get(machine);
        let addresses = traits.map(|traits| traits.addresses.clone());
        addresses.unwrap_or_default()
    }

    /// The members, each with its machine.
    pub(super) fn facts(&self, members: &[EtcdMember]) -> EtcdFacts {
        let members = members.iter().map(|member| {
            let facts = MemberFacts {
                name: member.name.clone(),
                machine: self.machine(member).cloned(),
                voting: member.voting,
                health: member.health,
            };
            (member.id.clone(), facts)
        });
        EtcdFacts {
            members: members.collect(),
        }
    }

    fn machine(&self, member: &EtcdMember) -> Option<&MachineName> {
        let at_peer = self.only(|_, traits| !traits.addresses.is_disjoint(&member.peers));
        let named = |name: &MachineName, _: &Traits| name.as_str() == member.name;
        let of_node = |_: &MachineName, traits: &Traits| traits.node.as_ref() == Some(&member.name);
        at_peer
            .or_else(|| self.only(named))
            .or_else(|| self.only(of_node))
    }

    /// The machine that fits, where one alone does: several may be reached at one address, by different ports.
    fn only(&self, fits: impl Fn(&MachineName, &Traits) -> bool) -> Option<&MachineName> {
        let mut fitting = self.0.iter().filter(|(name, traits)| fits(name, traits));
        let (name, _) = fitting.next()?;
        fitting.next().is_none().then_some(name)
    }
}

/// Whether a machine has the data of a member, or nobody could look.
fn may_hold(facts: &MachineFacts) -> bool {
    match &facts.inside {
        Some(inside) => inside.control_plane,
        None => facts.whole && facts.power != Power::New,
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Health, Risk};

    use super::*;

    fn machine(name: &str) -> MachineName {
        name.parse().unwrap()
    }

    fn machines(traits: &[(&str, Option<&str>, &[&str])]) -> Machines {
        let traits = traits.iter().map(|(name, node, addresses)| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            let traits = Traits {
                node: node.map(str::to_owned),
                addresses: addresses.collect(),
            };
            (machine(name), traits)
        });
        Machines(traits.collect())
    }

    fn member(id: u64, name: &str, peer: &str, healthy: bool) -> EtcdMember {
        EtcdMember {
            id: id.to_string(),
            name: name.into(),
            peers: peer.parse().into_iter().collect(),
            voting: true,
            health: if healthy {
                Health::Healthy
            } else {
                Health::Unhealthy
            },
        }
    }

    fn matched(machines: &Machines, member: EtcdMember) -> Option<String> {
        let facts = machines.facts(&[member]);
        let member = facts.members.into_values().next();
        member.unwrap().machine.map(|machine| machine.to_string())
    }

    #[test]
    fn promise_04_two_members_of_one_name_are_two_members() {
        let known = machines(&[("cp1", None, &["10.99.0.2"]), ("cp2", None, &[])]);
        let facts = known.facts(&[
            member(1, "cp1", "10.99.0.2", true),
            member(2, "cp1", "10.99.0.9", false),
            member(3, "cp2", "10.99.0.3", true),
        ]);
        assert_eq!(facts.members.len(), 3);
        assert!(matches!(
            facts.may_lose(&machine("cp2")),
            Err(Risk::NoMajority {
                healthy: 0 | 1,
                others: 2
            })
        ));
    }

    #[test]
    fn promise_04_a_machine_that_this_run_made_is_matched_by_name_and_address() {
        let [cp1, cp2] = ["cp1", "cp2"].map(machine);
        let address = "10.99.0.3".parse().ok();
        // The list is empty: the cluster did not exist when the run began.
        let known = Machines::default().with([cp1, cp2.clone()].into_iter(), &cp2, address);
        let first = || member(1, "cp1", "10.99.0.2", true);
        let alone = known.facts(&[first()]);
        assert_eq!(alone.may_lose(&cp2), Ok(()), "it is no member yet");
        let unnamed = member(2, "", "10.99.0.3", false);
        let begun = known.facts(&[first(), unnamed]);
        assert_eq!(begun.may_lose(&cp2), Ok(()));
        assert!(begun.may_lose(&machine("cp1")).is_err());
    }

    #[test]
    fn promise_04_a_member_without_a_name_counts() {
        let known = machines(&[("cp1", None, &["10.99.0.2"])]);
        let unnamed = || member(2, "", "10.99.0.9", false);
        let two = known.facts(&[member(1, "cp1", "10.99.0.2", true), unnamed()]);
        assert_eq!(two.members.len(), 2);
        assert!(two.may_lose(&machine("cp1")).is_err());
        let learner = EtcdMember {
            voting: false,
            ..unnamed()
        };
        let filled = known.facts(&[member(1, "cp1", "10.99.0.2", true), learner]);
        assert_eq!(filled.may_lose(&machine("cp1")), Err(Risk::Last));
    }

    #[test]
    fn promise_04_a_member_of_another_name_is_matched_by_its_peer_address() {
        let known = machines(&[
            ("cp1", Some("old1"), &["10.99.0.2"]),
            ("cp2", Some("old2"), &[]),
            ("cp3", None, &[]),
        ]);
        let of = |name, peer| matched(&known, member(1, name, peer, true));
        assert_eq!(of("any", "10.99.0.2").as_deref(), Some("cp1"));
        assert_eq!(of("", "10.99.0.2").as_deref(), Some("cp1"));
        assert_eq!(of("cp3", "10.99.0.7").as_deref(), Some("cp3"));
        assert_eq!(of("old2", "10.99.0.7").as_deref(), Some("cp2"));
        assert_eq!(of("any", "10.99.0.7"), None);
        assert_eq!(of("", ""), None);
        // The address says more than the name.
        assert_eq!(of("cp3", "10.99.0.2").as_deref(), Some("cp1"));
        // An address that several machines are reached at says nothing.
        let shared = machines(&[("cp1", None, &["127.0.0.1"]), ("cp2", None, &["127.0.0.1"])]);
        let named = member(1, "cp2", "127.0.0.1", true);
        assert_eq!(matched(&shared, named).as_deref(), Some("cp2"));
        assert_eq!(matched(&shared, member(1, "any", "127.0.0.1", true)), None);
    }
}
