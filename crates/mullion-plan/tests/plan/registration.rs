//! Nodes that somebody deleted, and control planes that etcd cannot do without.

use mullion_plan::Perform as _;
use mullion_plan::{
    Action, ClusterFacts, EtcdFacts, Health, Inside, Kubeadm, MemberFacts, Observed, Obstacle,
    Plan, Power, Prior, StepId, plan_reset,
};
use mullion_spec::value::MachineName;
use mullion_testkit::{Blow, Dice, Until, World, run};

use crate::scene::{ids, look, of_machine, only_obstacle, planned, reason, up};
use crate::sketch::Sketch;

fn name(text: &str) -> MachineName {
    text.parse().unwrap()
}

fn three() -> (Sketch, World) {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let world = up(&sketch);
    (sketch, world)
}

/// The API server does not answer. etcd is still as it was found.
fn silence(observed: &mut Observed) -> &mut ClusterFacts {
    let cluster = observed.cluster.as_mut().unwrap();
    cluster.answers = false;
    cluster.nodes.clear();
    cluster.objects.clear();
    cluster
}

fn run_whole(plan: &Plan, world: &World) {
    assert_eq!(plan.obstacles(), []);
    let outcome = run(plan, world, Until::End, &mut Dice::new(3));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
}

fn inside<'a>(observed: &'a mut Observed, machine: &str) -> &'a mut Inside {
    let facts = observed.machines.get_mut(&name(machine)).unwrap();
    facts.inside.as_mut().unwrap()
}

fn resets(plan: &Plan) -> Vec<&str> {
    let ids = ids(plan).into_iter();
    ids.filter(|id| id.starts_with("reset/")).collect()
}

#[test]
fn promise_04_a_deleted_node_is_registered_again_and_nothing_is_reset() {
    let sketch = Sketch::small();
    for machine in ["cp1", "lin1", "win1"] {
        let world = up(&sketch);
        let before = look(&world, &sketch);
        world.strike(&name(machine), Blow::DeleteNode);
        let plan = planned(&sketch, &look(&world, &sketch));
        assert_eq!(
            of_machine(&plan, machine),
            [
                format!("inspect/{machine}"),
                format!("register/{machine}"),
                format!("certificates/{machine}"),
                format!("mark/{machine}"),
                format!("node-network/{machine}"),
                format!("ready/{machine}"),
            ]
        );
        assert_eq!(resets(&plan), [""; 0]);
        assert_eq!(
            reason(&plan, &format!("register/{machine}")),
            format!("{machine} has joined, and its Node object is gone")
        );
        run_whole(&plan, &world);
        let after = look(&world, &sketch);
        assert!(planned(&sketch, &after).is_empty());
        assert_eq!(
            after.cluster, before.cluster,
            "labels and taints are as before"
        );
        assert_eq!(world.snapshots(), []);
    }
}

#[test]
fn promise_04_every_node_object_may_be_gone_at_once() {
    let (sketch, world) = three();
    let before = look(&world, &sketch);
    for machine in ["cp1", "cp2", "cp3", "lin1", "win1"] {
        world.strike(&name(machine), Blow::DeleteNode);
    }
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(resets(&plan), [""; 0]);
    run_whole(&plan, &world);
    let after = look(&world, &sketch);
    assert!(planned(&sketch, &after).is_empty());
    assert_eq!(after.cluster, before.cluster);
}

#[test]
fn promise_04_a_control_plane_whose_etcd_cannot_be_asked_is_registered_again_too() {
    // Its static pod is the only other sign of its membership, and goes with its node.
    let sketch = Sketch::small();
    let mut observed = look(&up(&sketch), &sketch);
    let cluster = observed.cluster.as_mut().unwrap();
    cluster.nodes.remove("cp1");
    cluster.members.clear();
    cluster.etcd = None;
    let plan = planned(&sketch, &observed);
    assert!(
        ids(&plan).contains(&"register/cp1"),
        "{:?}",
        plan.obstacles()
    );
    assert_eq!(resets(&plan), [""; 0]);
}

#[test]
fn promise_04_a_member_that_may_be_alive_is_not_taken_out_of_etcd_unseen() {
    let (sketch, world) = three();
    let before = look(&world, &sketch);
    world.strike(&name("cp3"), Blow::DeleteNode);
    let mut observed = look(&world, &sketch);
    assert!(
        observed
            .cluster
            .as_ref()
            .unwrap()
            .members
            .contains(&name("cp3"))
    );
    observed.machines.get_mut(&name("cp3")).unwrap().inside = None;
    let plan = planned(&sketch, &observed);
    let enters: Vec<_> = of_machine(&plan, "cp3")
        .into_iter()
        .filter(|id| {
            let kinds = ["drain/", "snapshot/", "reset/", "forget/", "join/"];
            kinds.iter().any(|kind| id.starts_with(kind))
        })
        .collect();
    assert_eq!(enters, ["join/cp3"]);
    let join = &plan.get(&StepId::new("join/cp3")).unwrap().action;
    let prior = Prior::Unknown;
    assert!(matches!(join, Action::Join { prior: found, .. } if *found == prior));
    // The machine answers when its turn comes, and is registered with its member.
    run_whole(&plan, &world);
    let after = look(&world, &sketch);
    assert!(planned(&sketch, &after).is_empty());
    assert_eq!(after.cluster, before.cluster);
}

#[test]
fn promise_04_a_member_that_joins_again_is_not_counted_twice() {
    let (mut sketch, world) = three();
    // cp3 left the file. cp1 could not be looked into, and etcd says that cp2 is not healthy.
    sketch.seats.count = 2;
    let mut observed = look(&world, &sketch);
    healthy(&mut observed, [true, false, true]);
    let cluster = observed.cluster.as_mut().unwrap();
    cluster.nodes.remove("cp1");
    observed.machines.get_mut(&name("cp1")).unwrap().inside = None;
    let risk = Obstacle::NoMajority {
        machine: name("cp3"),
        healthy: 1,
        others: 2,
    };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &risk);
}

#[test]
fn promise_04_a_registration_that_was_cut_off_is_finished_by_the_next_run() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    let before = look(&world, &sketch);
    world.strike(&name("cp1"), Blow::DeleteNode);
    let plan = planned(&sketch, &look(&world, &sketch));
    let place = plan
        .steps()
        .iter()
        .position(|step| step.id.as_str() == "register/cp1");
    world.arm(place.unwrap(), mullion_testkit::Fault::Half);
    let _ = run(&plan, &world, Until::End, &mut Dice::new(3));
    let next = planned(&sketch, &look(&world, &sketch));
    let register = next.get(&StepId::new("register/cp1")).unwrap();
    assert!(matches!(
        register.action,
        Action::Register {
            prior: Prior::Different,
            ..
        }
    ));
    assert_eq!(register.title(), "give node cp1 the labels of its role");
    run_whole(&next, &world);
    let after = look(&world, &sketch);
    assert!(planned(&sketch, &after).is_empty());
    assert_eq!(after.cluster, before.cluster);
}

#[test]
fn promise_04_a_machine_of_another_name_does_not_wait_for_a_registration() {
    // A machine of the user's that got another name in the file: its kubelet would register the old one.
    let sketch = Sketch::small();
    let observed = look(&up(&sketch), &sketch);
    let mut told = observed.clone();
    told.cluster.as_mut().unwrap().nodes.remove("lin1");
    inside(&mut told, "lin1").node = Some("old1".into());
    assert_eq!(resets(&planned(&sketch, &told)), ["reset/lin1"]);
    // An older agent does not tell its name.
    let mut untold = observed;
    let nodes = &mut untold.cluster.as_mut().unwrap().nodes;
    let node = nodes.remove("lin1").unwrap();
    inside(&mut untold, "lin1").node = None;
    assert_eq!(resets(&planned(&sketch, &untold)), [""; 0]);
    let nodes = &mut untold.cluster.as_mut().unwrap().nodes;
    nodes.insert("old1".into(), node);
    assert_eq!(resets(&planned(&sketch, &untold)), ["reset/lin1"]);
}

#[test]
fn promise_04_a_join_that_was_cut_off_is_begun_again_and_not_registered() {
    let sketch = Sketch::small();
    let mut observed = look(&up(&sketch), &sketch);
    observed.cluster.as_mut().unwrap().nodes.remove("lin1");
    let half = inside(&mut observed, "lin1");
    (half.kubeadm, half.joined) = (Some(Kubeadm::Begun), None);
    let plan = planned(&sketch, &observed);
    assert!(ids(&plan).contains(&"join/lin1"));
    assert!(!ids(&plan).contains(&"register/lin1"));
}

/// What the machine `machine` must lose its place for.
fn unfit(observed: &mut Observed, machine: &str) {
    inside(observed, machine).expired = Some("kubelet's certificate expired 3 days ago".into());
}

fn healthy(observed: &mut Observed, healthy: [bool; 3]) {
    let members = ["cp1", "cp2", "cp3"].into_iter().zip(healthy);
    let members = members.map(|(name, healthy)| {
        let member = MemberFacts {
            name: name.into(),
            machine: name.parse().ok(),
            voting: true,
            health: if healthy {
                Health::Healthy
            } else {
                Health::Unhealthy
            },
        };
        (name.to_owned(), member)
    });
    observed.cluster.as_mut().unwrap().etcd = Some(EtcdFacts {
        members: members.collect(),
    });
}

#[test]
fn promise_04_a_control_plane_is_emptied_only_where_a_healthy_majority_stays() {
    let (sketch, world) = three();
    let mut observed = look(&world, &sketch);
    unfit(&mut observed, "cp2");
    let plan = planned(&sketch, &observed);
    assert_eq!(
        of_machine(&plan, "cp2")[..5],
        [
            "inspect/cp2",
            "snapshot/cp2",
            "reset/cp2",
            "forget/cp2",
            "join/cp2"
        ]
    );
    let machine = name("cp2");
    // Its own etcd may be dead: the others are asked.
    healthy(&mut observed, [true, false, true]);
    assert_eq!(resets(&planned(&sketch, &observed)), ["reset/cp2"]);
    healthy(&mut observed, [true, true, false]);
    let risk = Obstacle::NoMajority {
        machine: machine.clone(),
        healthy: 1,
        others: 2,
    };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &risk);
    // Two of three are not healthy.
    healthy(&mut observed, [true, false, false]);
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &risk);
    // Nobody could ask.
    observed.cluster.as_mut().unwrap().etcd = None;
    let unknown = Obstacle::EtcdUnknown { machine };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &unknown);
}

#[test]
fn promise_04_who_is_no_member_by_etcds_word_may_be_emptied() {
    let (sketch, world) = three();
    let mut observed = look(&world, &sketch);
    // A join as a control plane that was cut off before it was a member.
    let cluster = observed.cluster.as_mut().unwrap();
    cluster.nodes.remove("cp3");
    cluster.members.remove(&name("cp3"));
    cluster.etcd.as_mut().unwrap().members.remove("cp3");
    let half = inside(&mut observed, "cp3");
    (half.kubeadm, half.joined) = (Some(Kubeadm::Begun), None);
    let plan = planned(&sketch, &observed);
    assert_eq!(plan.obstacles(), []);
    assert_eq!(resets(&plan), ["reset/cp3"]);
    assert!(ids(&plan).contains(&"snapshot/cp3"));
}

#[test]
fn promise_04_a_control_plane_of_another_cluster_is_not_emptied() {
    let (sketch, world) = three();
    let mut observed = look(&world, &sketch);
    inside(&mut observed, "cp3").joined = Some(mullion_plan::ClusterId("another".into()));
    assert_eq!(
        only_obstacle(&planned(&sketch, &observed)),
        &Obstacle::OtherControlPlane {
            machine: name("cp3")
        }
    );
}

#[test]
fn promise_04_control_planes_that_left_the_file_go_one_by_one_while_a_majority_stays() {
    let (mut sketch, world) = three();
    // With one control plane there is no load balancer, and the endpoint would move.
    let mut observed = look(&world, &sketch);
    sketch.seats.count = 2;
    let plan = planned(&sketch, &observed);
    assert_eq!(resets(&plan), ["reset/cp3"]);
    assert!(ids(&plan).contains(&"snapshot/cp3"));
    healthy(&mut observed, [true, false, true]);
    assert_eq!(
        only_obstacle(&planned(&sketch, &observed)),
        &Obstacle::NoMajority {
            machine: name("cp3"),
            healthy: 1,
            others: 2
        }
    );
    // One that is only off is started first; etcd is asked again before anything is emptied.
    world.strike(&name("cp2"), Blow::PowerLoss);
    let plan = planned(&sketch, &look(&world, &sketch));
    run_whole(&plan, &world);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    assert_eq!(world.snapshots(), [name("cp3")]);
}

#[test]
fn promise_04_what_etcd_says_when_its_turn_comes_decides() {
    // It was healthy when it was looked at, and is not any more when the step runs.
    let (mut sketch, world) = three();
    sketch.seats.count = 2;
    let plan = planned(&sketch, &look(&world, &sketch));
    world.strike(&name("cp1"), Blow::SickEtcd);
    let outcome = run(&plan, &world, Until::End, &mut Dice::new(3));
    let failed: Vec<_> = outcome.failed.keys().map(StepId::as_str).collect();
    assert!(failed.contains(&"snapshot/cp3"), "{failed:?}");
    assert!(!outcome.done.contains(&StepId::new("reset/cp3")));
    let observed = look(&world, &sketch);
    assert!(inside(&mut observed.clone(), "cp3").control_plane);
    // And the next plan says so before anything is touched.
    assert!(matches!(
        only_obstacle(&planned(&sketch, &observed)),
        Obstacle::NoMajority { .. }
    ));
    world.hide_etcd(true);
    assert!(matches!(
        only_obstacle(&planned(&sketch, &look(&world, &sketch))),
        Obstacle::EtcdUnknown { .. }
    ));
}

#[test]
fn promise_04_the_only_control_plane_is_not_reset_by_command() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    let machine = name("cp1");
    for deletes in [false, true] {
        if deletes {
            world.strike(&machine, Blow::DeleteNode);
        }
        let plan = plan_reset(&look(&world, &sketch), &machine);
        let machine = machine.clone();
        assert_eq!(only_obstacle(&plan), &Obstacle::LastMember { machine });
    }
    assert_eq!(
        plan_reset(&look(&world, &sketch), &name("lin1")).obstacles(),
        []
    );
}

#[test]
fn promise_04_a_silent_api_server_does_not_make_sick_members_healthy() {
    // etcd answers and says that cp2 is sick; the API server does not answer. cp3 left the file.
    let (mut sketch, world) = three();
    sketch.seats.count = 2;
    let mut observed = look(&world, &sketch);
    healthy(&mut observed, [true, false, true]);
    silence(&mut observed);
    let risk = Obstacle::NoMajority {
        machine: name("cp3"),
        healthy: 1,
        others: 2,
    };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &risk);
    // One that only waits for the others is well once they are back.
    let etcd = observed.cluster.as_mut().unwrap().etcd.as_mut().unwrap();
    for member in etcd.members.values_mut() {
        member.health = Health::Leaderless;
    }
    assert_eq!(planned(&sketch, &observed).obstacles(), []);
}

#[test]
fn promise_04_members_that_nobody_could_ask_do_not_count_as_healthy() {
    let (mut sketch, world) = three();
    sketch.seats.count = 2;
    let mut observed = look(&world, &sketch);
    silence(&mut observed).etcd = None;
    let machine = name("cp3");
    let unknown = Obstacle::EtcdUnknown { machine };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &unknown);
    let by_command = plan_reset(&observed, &name("cp2"));
    let machine = name("cp2");
    assert_eq!(
        only_obstacle(&by_command),
        &Obstacle::EtcdUnknown { machine }
    );
    // Nothing is emptied, nothing to fear.
    sketch.seats.count = 3;
    assert_eq!(planned(&sketch, &observed).obstacles(), []);
    // The plan starts the other two first, and etcd is asked again before the reset.
    sketch.seats.count = 2;
    for seat in ["cp1", "cp2"] {
        world.strike(&name(seat), Blow::PowerLoss);
    }
    world.hide_etcd(true);
    let observed = look(&world, &sketch);
    let cluster = observed.cluster.as_ref().unwrap();
    assert!(!cluster.answers && cluster.members == [name("cp3")].into());
    // Two that cannot be looked into may be members too: this is not the last one.
    let machine = name("cp3");
    assert_eq!(
        only_obstacle(&plan_reset(&observed, &machine)),
        &Obstacle::EtcdUnknown { machine }
    );
    world.hide_etcd(false);
    run_whole(&planned(&sketch, &observed), &world);
}

#[test]
fn promise_04_workers_that_are_started_do_not_stand_for_healthy_members() {
    let (mut sketch, _) = three();
    sketch.linux.count = 3;
    let world = up(&sketch);
    sketch.seats.count = 2;
    let mut observed = look(&world, &sketch);
    silence(&mut observed).etcd = None;
    let machines = observed.machines.iter_mut();
    for (_, facts) in machines.filter(|(name, _)| name.as_str().starts_with("lin")) {
        (facts.inside, facts.power) = (None, Power::Off);
    }
    let machine = name("cp3");
    let unknown = Obstacle::EtcdUnknown { machine };
    assert_eq!(only_obstacle(&planned(&sketch, &observed)), &unknown);
}

#[test]
fn promise_04_a_member_that_fits_no_machine_keeps_control_planes_from_being_emptied() {
    let (sketch, world) = three();
    let mut observed = look(&world, &sketch);
    unfit(&mut observed, "cp2");
    let cluster = observed.cluster.as_mut().unwrap();
    let member = cluster.etcd.as_mut().unwrap().members.get_mut("cp2");
    let member = member.unwrap();
    (member.name, member.machine) = ("old2".into(), None);
    cluster.members.remove(&name("cp2"));
    cluster.members.insert(name("old2"));
    let obstacles = planned(&sketch, &observed);
    let unknown = Obstacle::UnknownMember {
        machine: name("cp2"),
        member: "old2".into(),
    };
    assert!(obstacles.obstacles().contains(&unknown), "{obstacles:?}");
    assert_eq!(resets(&obstacles), [""; 0]);
}

#[test]
fn promise_04_a_reset_asks_etcd_again_after_the_snapshot() {
    // The snapshot was saved, and a member fell ill before the reset's turn came.
    let (mut sketch, world) = three();
    sketch.seats.count = 2;
    let plan = planned(&sketch, &look(&world, &sketch));
    let place = plan
        .steps()
        .iter()
        .position(|step| step.id.as_str() == "reset/cp3");
    let reset = &plan.steps()[place.unwrap()];
    assert_eq!(reset.action, Action::Reset { keeps_etcd: true });
    world.strike(&name("cp1"), Blow::SickEtcd);
    assert!(world.perform(reset, &mullion_plan::Unattended).is_err());
    assert!(inside(&mut look(&world, &sketch), "cp3").control_plane);
}
