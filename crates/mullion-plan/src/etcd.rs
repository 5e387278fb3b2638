//! What etcd says of its members, and whether it can do without one of them.

use std::collections::BTreeMap;

use mullion_spec::value::MachineName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Members of etcd, as etcd lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdFacts {
    /// By the id that etcd gave them: two members can have one name.
    pub members: BTreeMap<String, MemberFacts>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberFacts {
    /// Its name, which kubeadm takes from the node; empty where it never came up.
    pub name: String,
    /// The machine that holds its data, by its peer address or else its name; `None` where no machine fits.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub machine: Option<MachineName>,
    /// Whether it counts for the majority.
    pub voting: bool,
    /// What it said of its health.
    pub health: Health,
}

/// What a member of etcd says of its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// It has a leader, reads what the majority agreed on, and raised no alarm.
    Healthy,
    /// It answers, and waits for a majority of the members: nothing else is wrong with it.
    Leaderless,
    /// It does not answer, or it raised an alarm.
    Unhealthy,
}

/// Why etcd cannot do without a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Risk {
    /// It has the last member.
    Last,
    /// Without it, fewer than a majority of the others are healthy.
    NoMajority {
        /// How many of the others are healthy.
        healthy: usize,
        /// How many others there are.
        others: usize,
    },
    /// No member is known to be the machine's, and this one is known to be no other machine's.
    Unmatched {
        /// The member's name, or its id where it has no name.
        member: String,
    },
}

impl MemberFacts {
    /// Whether its data are, or may be, on that machine. Where name and address disagree, it may be either machine's.
    pub fn may_be_of(&self, machine: &MachineName) -> bool {
        self.machine.as_ref() == Some(machine) || self.name == machine.as_str()
    }
}

impl EtcdFacts {
    /// Whether any member is, or may be, a machine's.
    pub fn has_member_of(&self, machine: &MachineName) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.may_be_of(machine))
    }

    /// Whether etcd goes on without a machine that holds, or may hold, its data.
    pub fn may_lose(&self, machine: &MachineName) -> Result<(), Risk> {
        let voting = || self.members.iter().filter(|(_, member)| member.voting);
        let lost = voting().filter(|(_, member)| member.may_be_of(machine));
        let left: Vec<_> = voting()
            .filter(|(_, member)| !member.may_be_of(machine))
            .collect();
        if lost.count() == 0 {
            // A learner is not missed. A member that fits no machine may be the one whose data are on this machine.
            let stray = left.iter().find(|(_, member)| member.machine.is_none());
            return match stray {
                Some((id, member)) if !self.has_member_of(machine) => Err(Risk::Unmatched {
                    member: match member.name.as_str() {
                        "" => (*id).clone(),
                        name => name.to_owned(),
                    },
                }),
                _ => Ok(()),
            };
        }
        if left.is_empty() {
            return Err(Risk::Last);
        }
        let healthy = left.iter();
        let healthy = healthy.filter(|(_, member)| member.health == Health::Healthy);
        let healthy = healthy.count();
        // A machine leaves with one member. A second one of its name stays listed until it is forgotten.
        let others = voting().count() - 1;
        if healthy * 2 > others {
            Ok(())
        } else {
            Err(Risk::NoMajority { healthy, others })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> MachineName {
        name.parse().unwrap()
    }

    fn member(name: &str, voting: bool, healthy: bool) -> MemberFacts {
        MemberFacts {
            name: name.into(),
            machine: name.parse().ok(),
            voting,
            health: if healthy {
                Health::Healthy
            } else {
                Health::Unhealthy
            },
        }
    }

    fn of(members: impl IntoIterator<Item = MemberFacts>) -> EtcdFacts {
        let members = members.into_iter().enumerate();
        EtcdFacts {
            members: members
                .map(|(id, member)| (id.to_string(), member))
                .collect(),
        }
    }

    fn facts(members: &[(&str, bool, bool)]) -> EtcdFacts {
        let members = members.iter();
        of(members.map(|(name, voting, healthy)| member(name, *voting, *healthy)))
    }

    #[test]
    fn promise_04_the_last_member_is_never_done_without() {
        let may_lose = |facts: &EtcdFacts, name| facts.may_lose(&machine(name));
        let one = facts(&[("cp1", true, true)]);
        assert_eq!(may_lose(&one, "cp1"), Err(Risk::Last));
        // One that is still being filled holds nothing that could be relied on.
        let filled = facts(&[("cp1", true, true), ("cp2", false, true)]);
        assert_eq!(may_lose(&filled, "cp1"), Err(Risk::Last));
        assert_eq!(may_lose(&filled, "cp2"), Ok(()));
        assert_eq!(may_lose(&filled, "cp9"), Ok(()));
    }

    #[test]
    fn promise_04_a_majority_of_healthy_members_must_stay() {
        let three = |healthy: [bool; 3]| {
            let [a, b, c] = healthy;
            facts(&[("cp1", true, a), ("cp2", true, b), ("cp3", true, c)])
        };
        let may_lose = |facts: EtcdFacts, name| facts.may_lose(&machine(name));
        assert_eq!(may_lose(three([true, true, true]), "cp3"), Ok(()));
        assert_eq!(
            may_lose(three([true, true, false]), "cp3"),
            Ok(()),
            "the dead one"
        );
        let risk = || Risk::NoMajority {
            healthy: 1,
            others: 2,
        };
        assert_eq!(may_lose(three([true, false, true]), "cp3"), Err(risk()));
        assert_eq!(
            may_lose(three([true, false, false]), "cp3"),
            Err(risk()),
            "two of three are dead"
        );
        let two = facts(&[("cp1", true, true), ("cp2", true, true)]);
        assert_eq!(may_lose(two, "cp2"), Ok(()));
        let lame = facts(&[("cp1", true, false), ("cp2", true, true)]);
        assert!(may_lose(lame, "cp2").is_err());
    }

    #[test]
    fn promise_04_two_members_of_one_name_count_twice() {
        // The dead one stays listed when the machine leaves with the other: one of two is no majority.
        let dead = facts(&[
            ("cp1", true, true),
            ("cp2", true, true),
            ("cp2", true, false),
        ]);
        assert_eq!(
            dead.may_lose(&machine("cp2")),
            Err(Risk::NoMajority {
                healthy: 1,
                others: 2
            })
        );
        assert!(dead.may_lose(&machine("cp1")).is_err());
        let more = facts(&[
            ("cp1", true, true),
            ("cp2", true, true),
            ("cp2", true, false),
            ("cp3", true, true),
        ]);
        assert_eq!(more.may_lose(&machine("cp2")), Ok(()));
    }

    #[test]
    fn promise_04_a_member_of_another_name_is_known_by_its_machine() {
        let mut renamed = member("old1", true, true);
        renamed.machine = Some(machine("cp1"));
        let alone = of([renamed.clone()]);
        assert_eq!(alone.may_lose(&machine("cp1")), Err(Risk::Last));
        // Name and address disagree: it may be either's.
        let mut swapped = member("cp2", true, true);
        swapped.machine = Some(machine("cp1"));
        let two = of([swapped, member("cp3", true, false)]);
        for name in ["cp1", "cp2"] {
            assert!(two.may_lose(&machine(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn promise_04_a_member_that_fits_no_machine_may_be_any_machines() {
        for (name, told) in [("old1", "old1"), ("", "0")] {
            let stray = MemberFacts {
                machine: None,
                ..member(name, true, true)
            };
            let stray = of([stray, member("cp2", true, true)]);
            assert_eq!(
                stray.may_lose(&machine("cp1")),
                Err(Risk::Unmatched {
                    member: told.into()
                })
            );
            // This one has a member of its own, and etcd says that the other is healthy.
            assert_eq!(stray.may_lose(&machine("cp2")), Ok(()));
        }
    }
}
