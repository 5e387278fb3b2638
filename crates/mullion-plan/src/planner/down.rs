//! Taking everything away that was made, whatever the file says now.

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::value::MachineName;

use super::{Mark, Sheet};
use crate::action::{Action, Membership, SnapshotBefore};
use crate::observed::{Inside, MachineFacts, Observed, Place};
use crate::obstacle::{Obstacle, not_removable_in};
use crate::plan::Plan;
use crate::stage::Stage;

/// What becomes of the cluster whose machines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing of it stays: no node has to be drained or forgotten.
    Nothing,
    /// It is somebody else's and only loses our workers.
    Cluster,
}

/// What must happen so that nothing is left of what carries the cluster's label.
///
/// Pure and total, as [`crate::plan()`] is. Machines of others, and those that do not carry the label, are not touched.
/// `silent` are machines of the user's that may be in use and did not answer, with their addresses: they are tried
/// again, so that nobody is told that nothing is left. Where something of the cluster's name must be left as it is, the
/// plan has obstacles and no steps.
pub fn plan_down(observed: &Observed, rest: Rest, silent: &BTreeMap<MachineName, String>) -> Plan {
    let obstacles: BTreeSet<_> = not_removable_in(observed).collect();
    if !obstacles.is_empty() {
        return Plan::blocked(obstacles);
    }
    let mut sheet = Sheet::default();
    let ours = || observed.machines.iter().filter(|(_, facts)| facts.ours);
    // The disks of machines that we made go with everything else. A machine that exists already stays, and its owner may
    // miss what was in etcd. One snapshot is enough, from before the first member goes.
    let mut kept = ours().filter(|(_, facts)| !facts.made && holds_etcd(facts));
    let saved = kept.next().map(|(name, _)| {
        let before = SnapshotBefore::Removal;
        sheet.push(
            Stage::Retire,
            Some(name),
            Action::SaveEtcd { before },
            REASON,
            None,
        )
    });
    for (name, address) in silent {
        let address = address.clone();
        let reach = Action::Reach { address };
        let reached = sheet.push(Stage::Retire, Some(name), reach, SILENT, None);
        let release = Action::ReleaseMachine;
        sheet.push(
            Stage::Retire,
            Some(name),
            release,
            REASON,
            [reached].into_iter().chain(saved),
        );
    }
    let mut gone: BTreeMap<&Place, Vec<Mark>> = BTreeMap::new();
    for (name, facts) in ours() {
        let saved = saved.filter(|_| holds_etcd(facts));
        let last = sheet.lay_down(name, facts, rest, saved);
        if facts.made {
            gone.entry(&facts.place).or_default().extend(last);
        }
    }
    for (place, host) in &observed.hosts {
        if host.has_network() {
            let action = Action::RemoveNetwork {
                place: place.clone(),
            };
            let needs = gone.remove(place).unwrap_or_default();
            sheet.push(Stage::Retire, None, action, REASON, needs);
        }
    }
    sheet.into_plan().unwrap_or_else(|error| {
        let words = error.to_string();
        Plan::blocked(BTreeSet::from([Obstacle::OurFault { words }]))
    })
}

/// Whether a machine has a member of etcd. A control plane that kubeadm did not finish may have one, too.
fn holds_etcd(facts: &MachineFacts) -> bool {
    facts
        .inside
        .as_ref()
        .is_some_and(|inside| inside.control_plane)
}

const REASON: &str = "everything is to go";
const SILENT: &str = "it did not answer, and may hold what we laid down";

impl Sheet {
    fn lay_down(
        &mut self,
        name: &MachineName,
        facts: &MachineFacts,
        rest: Rest,
        saved: Option<Mark>,
    ) -> Option<Mark> {
        let inside = facts.inside.as_ref();
        let belongs = inside.is_some_and(Inside::is_of_cluster);
        let mut actions = Vec::new();
        if rest == Rest::Cluster {
            actions.push(Action::Drain);
        }
        // What is removed whole needs no tidying inside.
        if belongs && !facts.made {
            let keeps_etcd = false;
            actions.push(Action::Reset { keeps_etcd });
        }
        if rest == Rest::Cluster {
            let membership = Membership::NodeOnly;
            actions.push(Action::Forget { membership });
        }
        if facts.made {
            actions.push(Action::RemoveMachine);
        } else if inside.is_some_and(|inside| inside.agent.is_some()) {
            actions.push(Action::ReleaseMachine);
        }
        let mut tail = saved;
        for action in actions {
            tail = Some(self.push(Stage::Retire, Some(name), action, REASON, tail));
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::words::Driver;

    use super::*;
    use crate::observed::{HostFacts, Power};

    fn machine(ours: bool, made: bool) -> MachineFacts {
        MachineFacts {
            ours,
            made,
            whole: true,
            driver: Driver::Ssh,
            place: Place::Here,
            power: Power::On,
            size: None,
            template: None,
            address: None,
            inside: Some(Inside {
                agent: Some("1".into()),
                joined: Some(crate::observed::ClusterId("a".into())),
                ..Inside::default()
            }),
            ground: None,
            addresses: Vec::new(),
            autostart: None,
            claimed_by: None,
            trouble: None,
        }
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.steps().iter().map(|step| step.id.as_str()).collect()
    }

    #[test]
    fn what_we_made_is_removed_and_what_we_found_is_left_as_it_was() {
        let mut observed = Observed::default();
        let network = HostFacts {
            network: Some("10.99.0.0/24".parse().unwrap()),
            ..HostFacts::default()
        };
        observed.hosts.insert(Place::Here, network);
        for (name, ours, made) in [("a1", true, true), ("b1", true, false), ("c1", false, true)] {
            let facts = machine(ours, made);
            observed.machines.insert(name.parse().unwrap(), facts);
        }
        let none = BTreeMap::new();
        let plan = plan_down(&observed, Rest::Nothing, &none);
        assert_eq!(
            ids(&plan),
            [
                "remove/a1",
                "reset/b1",
                "release/b1",
                "no-host-network/@local"
            ]
        );
        let network = &plan.steps()[3];
        assert_eq!(network.needs.len(), 1, "it waits for the machines on it");
        let others = plan_down(&observed, Rest::Cluster, &none);
        assert!(ids(&others).contains(&"drain/b1") && ids(&others).contains(&"forget/b1"));
        assert!(plan_down(&Observed::default(), Rest::Nothing, &none).is_empty());
    }

    #[test]
    fn promise_06_what_cannot_be_told_whose_it_is_keeps_everything() {
        use crate::identity::{ClusterUid, Trouble};
        let newer = Trouble::Newer {
            file: "/place/machine.json".into(),
            version: "v2".into(),
        };
        let other = Trouble::OtherCluster {
            found: ClusterUid::of(1),
            own: Some(ClusterUid::of(2)),
            owner: Some(1000),
            file: "/state/id".into(),
        };
        for (ours, made, trouble) in [(false, true, newer), (false, false, other)] {
            let mut observed = Observed::default();
            let facts = MachineFacts {
                trouble: Some(trouble),
                ..machine(ours, made)
            };
            observed
                .machines
                .insert("a1".parse().unwrap(), machine(true, true));
            observed.machines.insert("b1".parse().unwrap(), facts);
            let plan = plan_down(&observed, Rest::Nothing, &BTreeMap::new());
            assert!(plan.steps().is_empty());
            let obstacle = plan.obstacles().iter().next().unwrap();
            let words = obstacle.words();
            assert!(words.contains("`b1`"), "{words}");
            if made {
                assert!(words.contains("/place/machine.json"), "{words}");
            } else {
                for id in [1, 2] {
                    assert!(words.contains(ClusterUid::of(id).as_str()), "{words}");
                }
                assert!(obstacle.hint().contains("/state/id"));
            }
        }
    }

    #[test]
    fn a_machine_that_we_made_goes_whatever_its_agent_says() {
        let mut observed = Observed::default();
        let facts = MachineFacts {
            trouble: Some(crate::identity::Trouble::Agent {
                why: "its state is newer".into(),
                hint: None,
            }),
            ..machine(true, true)
        };
        observed.machines.insert("a1".parse().unwrap(), facts);
        let plan = plan_down(&observed, Rest::Nothing, &BTreeMap::new());
        assert_eq!(ids(&plan), ["remove/a1"]);
    }

    #[test]
    fn promise_04_a_snapshot_is_saved_before_control_planes_that_exist_already_are_reset() {
        let seat = |made: bool| {
            let mut facts = machine(true, made);
            facts.inside.as_mut().unwrap().control_plane = true;
            facts
        };
        let mut observed = Observed::default();
        for (name, facts) in [
            ("cp1", seat(true)),
            ("cp2", seat(false)),
            ("cp3", seat(false)),
            ("lin1", machine(true, false)),
        ] {
            observed.machines.insert(name.parse().unwrap(), facts);
        }
        let none = BTreeMap::new();
        let plan = plan_down(&observed, Rest::Nothing, &none);
        let before = SnapshotBefore::Removal;
        let saves = |plan: &Plan| {
            let steps = plan.steps().iter();
            let saves = steps.filter(|step| matches!(step.action, Action::SaveEtcd { .. }));
            saves
                .map(|step| (step.id.to_string(), step.action.clone()))
                .collect::<Vec<_>>()
        };
        let wanted = ("snapshot/cp2".to_owned(), Action::SaveEtcd { before });
        assert_eq!(saves(&plan), [wanted], "once");
        let waits = |id: &str| {
            let needs = &plan.get(&crate::StepId::new(id)).unwrap().needs;
            needs.iter().any(|need| need.as_str() == "snapshot/cp2")
        };
        assert!(waits("remove/cp1") && waits("reset/cp2") && waits("reset/cp3"));
        assert!(!waits("reset/lin1"));
        // What we made goes with its disk.
        observed.machines.retain(|_, facts| facts.made);
        assert!(saves(&plan_down(&observed, Rest::Nothing, &none)).is_empty());
    }

    #[test]
    fn a_machine_that_does_not_answer_is_not_forgotten() {
        let silent = BTreeMap::from([("b1".parse().unwrap(), "192.0.2.7".to_owned())]);
        let plan = plan_down(&Observed::default(), Rest::Nothing, &silent);
        assert_eq!(ids(&plan), ["reach/b1", "release/b1"]);
    }

    #[test]
    fn a_network_that_was_only_begun_goes_too() {
        let mut observed = Observed::default();
        let begun = HostFacts {
            network_lacks: Some("its bridge has no address".into()),
            ..HostFacts::default()
        };
        observed.hosts.insert(Place::Here, begun);
        let plan = plan_down(&observed, Rest::Nothing, &BTreeMap::new());
        assert_eq!(ids(&plan), ["no-host-network/@local"]);
    }
}
