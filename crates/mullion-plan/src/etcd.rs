//! What etcd says of its members, and whether it can do without one of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Members of etcd, as etcd lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdFacts {
    /// By name, which is their node's. One that never came up has no name, and is under a name that no machine has.
    pub members: BTreeMap<String, MemberFacts>,
}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberFacts {
    /// Whether it counts for the majority.
    pub voting: bool,
    /// Whether it said that it is healthy.
    pub healthy: bool,
}

/// Why etcd cannot do without a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// It is the last one.
    Last,
    /// Without it, fewer than a majority of the others are healthy.
    NoMajority {
        /// How many of the others are healthy.
        healthy: usize,
        /// How many others there are.
        others: usize,
    },
}

impl EtcdFacts {
    /// Whether etcd goes on without that member. One that is none, or that does not vote, is not missed.
    pub fn may_lose(&self, name: &str) -> Result<(), Risk> {
        if !self.members.get(name).is_some_and(|member| member.voting) {
            return Ok(());
        }
        let voting = self.members.iter().filter(|(_, member)| member.voting);
        let others: Vec<_> = voting.filter(|(other, _)| *other != name).collect();
        let healthy = others.iter().filter(|(_, member)| member.healthy).count();
        match others.len() {
            0 => Err(Risk::Last),
            others if healthy * 2 > others => Ok(()),
            others => Err(Risk::NoMajority { healthy, others }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(members: &[(&str, bool, bool)]) -> EtcdFacts {
        let members = members.iter().map(|(name, voting, healthy)| {
            let member = MemberFacts {
                voting: *voting,
                healthy: *healthy,
            };
            ((*name).to_owned(), member)
        });
        EtcdFacts {
            members: members.collect(),
        }
    }

    #[test]
    fn promise_04_the_last_member_is_never_done_without() {
        assert_eq!(
            facts(&[("cp1", true, true)]).may_lose("cp1"),
            Err(Risk::Last)
        );
        // One that is still being filled holds nothing that could be relied on.
        let filled = facts(&[("cp1", true, true), ("cp2", false, true)]);
        assert_eq!(filled.may_lose("cp1"), Err(Risk::Last));
        assert_eq!(filled.may_lose("cp2"), Ok(()));
        assert_eq!(filled.may_lose("cp9"), Ok(()));
    }

    #[test]
    fn promise_04_a_majority_of_healthy_members_must_stay() {
        let of = |healthy: [bool; 3]| {
            let [a, b, c] = healthy;
            facts(&[("cp1", true, a), ("cp2", true, b), ("cp3", true, c)])
        };
        assert_eq!(of([true, true, true]).may_lose("cp3"), Ok(()));
        assert_eq!(
            of([true, true, false]).may_lose("cp3"),
            Ok(()),
            "the dead one"
        );
        let risk = Risk::NoMajority {
            healthy: 1,
            others: 2,
        };
        assert_eq!(of([true, false, true]).may_lose("cp3"), Err(risk));
        assert_eq!(
            of([true, false, false]).may_lose("cp3"),
            Err(risk),
            "two of three are dead"
        );
        let two = facts(&[("cp1", true, true), ("cp2", true, true)]);
        assert_eq!(two.may_lose("cp2"), Ok(()));
        let lame = facts(&[("cp1", true, false), ("cp2", true, true)]);
        assert!(lame.may_lose("cp2").is_err());
    }
}
