//! Certificates of control planes that end soon, or have expired.

use std::collections::BTreeSet;

use mullion_plan::{Action, Plan, SnapshotBefore, Step, StepId};
use mullion_spec::value::MachineName;
use mullion_testkit::{Blow, Dice, Fault, Until, World, run};

use crate::scene::{ids, look, of_machine, planned, reason, up};
use crate::sketch::Sketch;

fn name(text: &str) -> MachineName {
    text.parse().unwrap()
}

fn seats(count: u16) -> (Sketch, World) {
    let mut sketch = Sketch::small();
    sketch.seats.count = count.into();
    let world = up(&sketch);
    (sketch, world)
}

fn strike(world: &World, machines: &[&str], blow: Blow) {
    for machine in machines {
        world.strike(&name(machine), blow);
    }
}

fn run_whole(plan: &Plan, world: &World) {
    assert_eq!(plan.obstacles(), []);
    let outcome = run(plan, world, Until::End, &mut Dice::new(3));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
}

fn step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    let step = plan.get(&StepId::new(id));
    step.unwrap_or_else(|| panic!("{id} is not in {:?}", ids(plan)))
}

/// Whether a step waits for another, through whatever is between them.
fn waits(plan: &Plan, id: &str, other: &str) -> bool {
    let mut open = vec![StepId::new(id)];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if id.as_str() == other {
            return true;
        }
        if seen.insert(id.clone()) {
            open.extend(plan.get(&id).unwrap().needs.iter().cloned());
        }
    }
    false
}

#[test]
fn old_certificates_are_renewed_after_a_snapshot_and_nothing_else_changes() {
    let (sketch, world) = seats(1);
    let before = look(&world, &sketch);
    strike(&world, &["cp1"], Blow::OldCertificates);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(of_machine(&plan, "cp1"), ["snapshot/cp1", "renew/cp1"]);
    let others: Vec<_> = ids(&plan)
        .into_iter()
        .filter(|id| !id.ends_with("/cp1"))
        .collect();
    assert_eq!(others, ["verify/smoke"]);
    assert_eq!(reason(&plan, "renew/cp1"), "cp1: its certificates are old");
    let renew = step(&plan, "renew/cp1");
    assert_eq!(
        renew.title(),
        "renew the certificates of cp1 and restart its control plane"
    );
    assert!(matches!(&renew.action, Action::Renew { endpoint: Some(_) }));
    assert!(waits(&plan, "renew/cp1", "snapshot/cp1"));
    let snapshot = step(&plan, "snapshot/cp1");
    let wanted = Action::SaveEtcd {
        before: SnapshotBefore::Renewal,
    };
    assert_eq!(snapshot.action, wanted);
    run_whole(&plan, &world);
    // etcd's last member is saved too: nothing is emptied.
    assert_eq!(world.snapshots(), [name("cp1")]);
    let after = look(&world, &sketch);
    assert_eq!(after.cluster, before.cluster);
    assert!(planned(&sketch, &after).is_empty());
}

#[test]
fn control_planes_are_renewed_one_after_another() {
    let (sketch, world) = seats(3);
    strike(&world, &["cp1", "cp2", "cp3"], Blow::OldCertificates);
    let plan = planned(&sketch, &look(&world, &sketch));
    for (later, earlier) in [("cp2", "cp1"), ("cp3", "cp2")] {
        let (snapshot, renew) = (format!("snapshot/{later}"), format!("renew/{earlier}"));
        assert!(waits(&plan, &snapshot, &renew), "{:?}", ids(&plan));
    }
    run_whole(&plan, &world);
    assert_eq!(world.snapshots(), ["cp1", "cp2", "cp3"].map(name));
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn one_that_is_good_is_left_alone() {
    let (sketch, world) = seats(3);
    strike(&world, &["cp2"], Blow::OldCertificates);
    let plan = planned(&sketch, &look(&world, &sketch));
    let renewed: Vec<_> = ids(&plan)
        .into_iter()
        .filter(|id| id.starts_with("renew/"))
        .collect();
    assert_eq!(renewed, ["renew/cp2"]);
    // A worker has none, whatever somebody says of it.
    strike(&world, &["lin1"], Blow::OldCertificates);
    assert_eq!(planned(&sketch, &look(&world, &sketch)), plan);
}

#[test]
fn expired_certificates_are_renewed_though_nobody_answers() {
    for count in [1, 3] {
        let (sketch, world) = seats(count);
        let all = &["cp1", "cp2", "cp3"][..usize::from(count)];
        strike(&world, all, Blow::ExpiredCertificates);
        let observed = look(&world, &sketch);
        assert!(!observed.cluster.as_ref().unwrap().answers);
        let plan = planned(&sketch, &observed);
        for machine in all {
            let renew = format!("renew/{machine}");
            assert!(waits(&plan, "api/cluster", &renew), "{:?}", ids(&plan));
            // Its own API server needs the others' etcd, so nobody waits for it.
            let action = &step(&plan, &renew).action;
            assert_eq!(*action, Action::Renew { endpoint: None });
            let snapshot = step(&plan, &format!("snapshot/{machine}"));
            let wanted = Action::SaveEtcd {
                before: SnapshotBefore::Repair,
            };
            assert_eq!(snapshot.action, wanted);
        }
        assert!(ids(&plan).iter().all(|id| !id.starts_with("reset/")));
        run_whole(&plan, &world);
        // Of three, the last is renewed when the other two answer again.
        let saved = world.snapshots().len();
        assert_eq!(saved, usize::from(count > 1));
        assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    }
}

#[test]
fn one_expired_of_three_is_renewed_while_the_others_answer() {
    let (sketch, world) = seats(3);
    strike(&world, &["cp3"], Blow::ExpiredCertificates);
    let observed = look(&world, &sketch);
    assert!(observed.cluster.as_ref().unwrap().answers);
    let plan = planned(&sketch, &observed);
    run_whole(&plan, &world);
    assert_eq!(world.snapshots(), [name("cp3")]);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn a_renewal_that_is_cut_off_anywhere_is_finished_by_the_next_run() {
    for blow in [Blow::OldCertificates, Blow::ExpiredCertificates] {
        for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::Half] {
            for count in 0..7 {
                let (sketch, world) = seats(3);
                strike(&world, &["cp1", "cp2", "cp3"], blow);
                let plan = planned(&sketch, &look(&world, &sketch));
                world.arm(count, fault);
                let cut = run(&plan, &world, Until::End, &mut Dice::new(3));
                assert!(cut.interrupted, "{blow:?}, {fault:?}, {count}");
                let next = planned(&sketch, &look(&world, &sketch));
                run_whole(&next, &world);
                let rest = planned(&sketch, &look(&world, &sketch));
                assert!(
                    rest.is_empty(),
                    "{blow:?}, {fault:?}, {count}: {:?}",
                    ids(&rest)
                );
            }
        }
    }
}

#[test]
fn a_further_control_plane_joins_after_the_renewals() {
    let (mut sketch, world) = seats(3);
    strike(&world, &["cp1"], Blow::OldCertificates);
    sketch.seats.count = 5;
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(plan.obstacles(), []);
    assert!(waits(&plan, "join/cp4", "renew/cp1"), "{:?}", ids(&plan));
    run_whole(&plan, &world);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn one_that_joins_anew_and_one_whose_node_was_deleted_are_not_mixed_up() {
    let (sketch, world) = seats(3);
    strike(&world, &["cp2"], Blow::OldCertificates);
    strike(&world, &["cp2"], Blow::DeleteNode);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert!(
        waits(&plan, "register/cp2", "renew/cp2"),
        "{:?}",
        ids(&plan)
    );
    run_whole(&plan, &world);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    // A kubelet that is let in nowhere: the machine joins anew, and gets new certificates with that.
    strike(&world, &["cp2"], Blow::OldCertificates);
    let mut observed = look(&world, &sketch);
    let facts = observed.machines.get_mut(&name("cp2")).unwrap();
    facts.inside.as_mut().unwrap().expired = Some("kubelet's certificate expired".into());
    let plan = planned(&sketch, &observed);
    assert!(plan.get(&StepId::new("renew/cp2")).is_none());
    let before = SnapshotBefore::Reset;
    assert_eq!(
        step(&plan, "snapshot/cp2").action,
        Action::SaveEtcd { before }
    );
}
