//! One machine, treated by itself because somebody asked for it: reset, or started anew.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use mullion_spec::value::MachineName;

use super::{Mark, Sheet, etcd};
use crate::action::{Action, Membership, SnapshotBefore};
use crate::documents::Rollout;
use crate::observed::Observed;
use crate::obstacle::{Obstacle, left_alone_in};
use crate::plan::Plan;
use crate::stage::Stage;
use mullion_render::API_PORT;

/// What takes a machine out of its cluster, so that a plan after it joins it anew.
///
/// Pure and total, as [`crate::plan()`] is. Where the API server is silent nobody is asked to drain or to forget it. A
/// machine that was not found gives an empty plan.
pub fn plan_reset(observed: &Observed, machine: &MachineName) -> Plan {
    if let Some(blocked) = blocked(observed, machine) {
        return blocked;
    }
    let Some(facts) = observed.machines.get(machine).filter(|facts| facts.ours) else {
        return Sheet::default().finish();
    };
    let cluster = observed.cluster.as_ref();
    let cluster = cluster.filter(|cluster| cluster.answers);
    let is_node = cluster.is_some_and(|cluster| cluster.nodes.contains_key(machine.as_str()));
    let is_member = cluster.is_some_and(|cluster| cluster.members.contains(machine));
    let mut actions = Vec::new();
    if is_node {
        actions.push((Stage::Retire, Action::Drain));
    }
    let inside = facts.inside.as_ref();
    let keeps_etcd = is_member || inside.is_some_and(|inside| inside.control_plane);
    if keeps_etcd {
        let before = SnapshotBefore::Reset;
        actions.push((Stage::Retire, Action::SaveEtcd { before }));
    }
    if inside.is_some() {
        actions.push((Stage::Retire, Action::Reset { keeps_etcd }));
    }
    if is_node || is_member {
        let membership = if is_member {
            Membership::NodeAndMember
        } else {
            Membership::NodeOnly
        };
        actions.push((Stage::Retire, Action::Forget { membership }));
    }
    let mut sheet = Sheet::default();
    sheet.chain(machine, actions, "is to join anew");
    let endangered = etcd::endangered(observed, &sheet.steps, |_| false);
    if endangered.is_empty() {
        sheet.finish()
    } else {
        Plan::blocked(endangered)
    }
}

/// What starts a machine anew and waits until it is back: a control plane until its API server answers, a node until it
/// is Ready. Those of `suites` that were proven before are proven again; one that was not may fail for another reason.
///
/// Pure and total, as [`crate::plan()`] is. A machine that was not found gives an empty plan.
pub fn plan_reboot(
    observed: &Observed,
    machine: &MachineName,
    suites: &[String],
    rollouts: &[Rollout],
) -> Plan {
    if let Some(blocked) = blocked(observed, machine) {
        return blocked;
    }
    let Some(facts) = observed.machines.get(machine).filter(|facts| facts.ours) else {
        return Sheet::default().finish();
    };
    let address = facts.address.map(|address| address.to_string());
    let address = address.unwrap_or_default();
    let endpoint = facts
        .address
        .map(|address| SocketAddr::new(address, API_PORT).to_string());
    let mut actions = vec![
        (Stage::Machines, Action::Reboot),
        (Stage::Machines, Action::Reach { address }),
    ];
    let cluster = observed.cluster.as_ref();
    let inside = facts.inside.as_ref();
    let is_control_plane = inside.is_some_and(|inside| inside.control_plane)
        || cluster.is_some_and(|cluster| cluster.members.contains(machine));
    // An API server that has just begun knows nobody's rights yet: asked for a node, it refuses.
    if is_control_plane && let Some(endpoint) = endpoint {
        actions.push((Stage::ControlPlane, Action::AwaitApi { endpoint }));
    }
    // Also of a silent cluster: it may be silent because this machine has to be started anew.
    let belongs = inside.is_some_and(|inside| inside.joined.is_some() || inside.control_plane);
    let is_node = |cluster: &crate::observed::ClusterFacts| {
        cluster.nodes.contains_key(machine.as_str()) || (!cluster.answers && belongs)
    };
    if cluster.is_some_and(is_node) {
        actions.push((Stage::Settle, Action::AwaitReady));
    }
    let mut sheet = Sheet::default();
    let tail = sheet.chain(machine, actions, "is to be started anew");
    let proven = cluster.map(|cluster| &cluster.proven);
    for suite in suites.iter().collect::<BTreeSet<_>>() {
        if proven.is_some_and(|proven| proven.contains(suite)) {
            let suite = suite.clone();
            let rollouts = rollouts.to_vec();
            let action = Action::Verify { suite, rollouts };
            let reason = format!("it passed before {machine} was started anew");
            sheet.push(Stage::Verify, None, action, reason, tail);
        }
    }
    sheet.finish()
}

/// The plan where the machine must be left as it is.
fn blocked(observed: &Observed, machine: &MachineName) -> Option<Plan> {
    let is_it = |obstacle: &Obstacle| matches!(obstacle, Obstacle::LeftAlone { machine: Some(name), .. } if name == machine);
    let obstacles: BTreeSet<_> = left_alone_in(observed).filter(is_it).collect();
    (!obstacles.is_empty()).then(|| Plan::blocked(obstacles))
}

impl Sheet {
    /// One step after another; gives the last.
    fn chain(
        &mut self,
        machine: &MachineName,
        actions: Vec<(Stage, Action)>,
        why: &str,
    ) -> Option<Mark> {
        let mut tail = None;
        for (stage, action) in actions {
            let reason = format!("{machine} {why}");
            tail = Some(self.push(stage, Some(machine), action, reason, tail));
        }
        tail
    }

    fn finish(self) -> Plan {
        self.into_plan().unwrap_or_else(|error| {
            let words = error.to_string();
            Plan::blocked(BTreeSet::from([Obstacle::OurFault { words }]))
        })
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::words::Driver;

    use super::*;
    use crate::etcd::{EtcdFacts, Health, MemberFacts};
    use crate::observed::{ClusterFacts, ClusterId, Inside, MachineFacts, NodeFacts, Place, Power};

    fn world(answers: bool, reached: bool) -> Observed {
        let mut observed = Observed::default();
        let inside = Inside {
            agent: Some("1".into()),
            joined: Some(ClusterId("a".into())),
            ..Inside::default()
        };
        for name in ["cp1", "lin1", "lb1"] {
            let facts = MachineFacts {
                ours: true,
                made: true,
                whole: true,
                driver: Driver::Ssh,
                place: Place::Here,
                power: Power::On,
                size: None,
                template: None,
                address: Some("10.99.0.2".parse().unwrap()),
                inside: reached.then(|| Inside {
                    joined: inside.joined.clone().filter(|_| name != "lb1"),
                    ..inside.clone()
                }),
                ground: None,
                addresses: Vec::new(),
                autostart: None,
                claimed_by: None,
                trouble: None,
            };
            observed.machines.insert(name.parse().unwrap(), facts);
        }
        let nodes = ["cp1", "lin1"].map(|name| (name.to_owned(), NodeFacts::default()));
        observed.cluster = Some(ClusterFacts {
            id: ClusterId("a".into()),
            answers,
            kubernetes: None,
            endpoint: None,
            pods: None,
            services: None,
            pods_per_node: None,
            domain: None,
            feature_gates: None,
            members: ["cp1".parse().unwrap()].into(),
            etcd: None,
            nodes: if answers { nodes.into() } else { [].into() },
            objects: [].into(),
            proven: [].into(),
        });
        observed
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.steps().iter().map(|step| step.id.as_str()).collect()
    }

    fn reset(observed: &Observed, name: &str) -> Plan {
        plan_reset(observed, &name.parse().unwrap())
    }

    fn reboot(observed: &Observed, name: &str) -> Plan {
        plan_reboot(observed, &name.parse().unwrap(), &["smoke".into()], &[])
    }

    #[test]
    fn a_node_is_drained_reset_and_forgotten_one_after_another() {
        let world = world(true, true);
        let plan = reset(&world, "lin1");
        assert_eq!(ids(&plan), ["drain/lin1", "reset/lin1", "forget/lin1"]);
        assert!(plan.steps()[1..].iter().all(|step| step.needs.len() == 1));
    }

    #[test]
    fn promise_04_a_control_plane_is_reset_only_where_etcd_can_do_without_it() {
        let mut world = world(true, true);
        let obstacles = |world: &Observed| reset(world, "cp1").obstacles().to_vec();
        let machine: MachineName = "cp1".parse().unwrap();
        assert_eq!(
            obstacles(&world),
            [Obstacle::EtcdUnknown {
                machine: machine.clone()
            }]
        );
        let member = |name: &str, healthy| MemberFacts {
            name: name.into(),
            machine: name.parse().ok(),
            voting: true,
            health: if healthy {
                Health::Healthy
            } else {
                Health::Unhealthy
            },
        };
        let say = |world: &mut Observed, members: &[(&str, bool)]| {
            let members = members.iter();
            let members =
                members.map(|(name, healthy)| ((*name).to_owned(), member(name, *healthy)));
            let cluster = world.cluster.as_mut().unwrap();
            cluster.etcd = Some(EtcdFacts {
                members: members.collect(),
            });
        };
        say(&mut world, &[("cp1", true)]);
        assert_eq!(
            obstacles(&world),
            [Obstacle::LastMember {
                machine: machine.clone()
            }]
        );
        say(&mut world, &[("cp1", true), ("cp2", true), ("cp3", false)]);
        assert_eq!(
            obstacles(&world),
            [Obstacle::NoMajority {
                machine,
                healthy: 1,
                others: 2
            }]
        );
        say(&mut world, &[("cp1", true), ("cp2", true), ("cp3", true)]);
        let plan = reset(&world, "cp1");
        assert_eq!(
            ids(&plan),
            ["drain/cp1", "snapshot/cp1", "reset/cp1", "forget/cp1"]
        );
        let membership = Membership::NodeAndMember;
        assert_eq!(plan.steps()[3].action, Action::Forget { membership });
    }

    #[test]
    fn nobody_is_asked_who_does_not_answer() {
        assert_eq!(ids(&reset(&world(false, true), "lin1")), ["reset/lin1"]);
        assert_eq!(
            ids(&reset(&world(true, false), "lin1")),
            ["drain/lin1", "forget/lin1"]
        );
        assert!(reset(&world(true, true), "lin9").is_empty());
    }

    #[test]
    fn a_machine_started_anew_is_reached_and_its_node_waited_for() {
        let plan = reboot(&world(true, true), "lin1");
        assert_eq!(ids(&plan), ["reboot/lin1", "reach/lin1", "ready/lin1"]);
        assert_eq!(
            plan.steps()[1].action,
            Action::Reach {
                address: "10.99.0.2".into()
            }
        );
        let silent = reboot(&world(false, true), "cp1");
        assert_eq!(
            ids(&silent),
            ["reboot/cp1", "reach/cp1", "api/cp1", "ready/cp1"]
        );
        let endpoint = "10.99.0.2:6443".into();
        assert_eq!(silent.steps()[2].action, Action::AwaitApi { endpoint });
        let balancer = reboot(&world(true, true), "lb1");
        assert_eq!(ids(&balancer), ["reboot/lb1", "reach/lb1"]);
        assert!(reboot(&Observed::default(), "lin1").is_empty());
    }

    #[test]
    fn what_was_proven_before_a_machine_is_started_anew_is_proven_again() {
        let mut world = world(true, true);
        let proven = ["other".to_owned(), "smoke".to_owned()];
        world.cluster.as_mut().unwrap().proven = proven.into();
        let plan = reboot(&world, "lin1");
        let steps = ["reboot/lin1", "reach/lin1", "ready/lin1", "verify/smoke"];
        assert_eq!(ids(&plan), steps);
        assert_eq!(plan.steps()[3].needs.len(), 1, "after the others");
        let balancer = reboot(&world, "lb1");
        assert_eq!(ids(&balancer), ["reboot/lb1", "reach/lb1", "verify/smoke"]);
    }
}
