//! Networks, addresses, and what no step can cure.

use mullion_plan::{Action, ClusterId, Kubeadm, MachineFacts, Observed, Obstacle, Place, StepId};
use mullion_spec::words::Driver;
use mullion_testkit::{Dice, Until, plan, run};

use crate::scene::{look, only_obstacle, planned, up};
use crate::sketch::{Sketch, read, wanted};

#[test]
fn addresses_stay_and_the_lowest_free_one_is_taken() {
    let mut sketch = Sketch::small();
    sketch.linux.count = 3;
    let world = up(&sketch);
    let address = |observed: &Observed, name: &str| {
        let facts = &observed.machines[&name.parse().unwrap()];
        facts.address.unwrap().to_string()
    };
    let before = look(&world, &sketch);
    assert_eq!(address(&before, "cp1"), "10.99.0.2", "the gateway is .1");
    assert_eq!(address(&before, "lin2"), "10.99.0.4");
    // lin2 goes: its address is free once it is gone, and lin4 takes it.
    sketch.linux.skip = vec![2];
    sketch.linux.count = 2;
    for _ in 0..2 {
        let plan = planned(&sketch, &look(&world, &sketch));
        run(&plan, &world, Until::End, &mut Dice::new(5));
        sketch.linux.count = 3;
    }
    let after = look(&world, &sketch);
    assert_eq!(address(&after, "lin4"), "10.99.0.4");
    for name in ["cp1", "lin1", "lin3", "win1"] {
        assert_eq!(address(&after, name), address(&before, name), "{name}");
    }
}

#[test]
fn a_free_network_is_planned_and_made_beside_those_of_others() {
    let mut sketch = Sketch::small();
    sketch.free_network = true;
    for (foreign, network) in [
        (vec!["10.99.0.0/23", "2001:db8::/64"], "10.99.2.0/24"),
        (vec!["10.0.0.0/8"], "172.30.0.0/24"),
    ] {
        sketch.foreign = foreign;
        let world = sketch.world();
        let plan = planned(&sketch, &look(&world, &sketch));
        match &plan.get(&StepId::new("make/cp1")).unwrap().action {
            Action::MakeMachine { network: made, .. } => assert_eq!(made.to_string(), network),
            other => panic!("{other:?}"),
        }
        let outcome = run(&plan, &world, Until::End, &mut Dice::new(11));
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    }
}

fn host_foreign(observed: &mut Observed, network: &str) {
    let host = observed.hosts.entry(Place::Here).or_default();
    host.foreign.insert(network.parse().unwrap());
}

/// A change of the facts, the obstacle's words, and its hint.
type Case<'a> = (&'a dyn Fn(&mut Observed), &'a str, &'a str);

#[test]
fn each_thing_that_no_step_can_cure_is_said_with_its_way_out() {
    let sketch = Sketch::small();
    let observed = look(&up(&sketch), &sketch);
    let name = "lin1".parse().unwrap();
    let with = |change: &dyn Fn(&mut Observed)| {
        let mut changed = observed.clone();
        change(&mut changed);
        let plan = planned(&sketch, &changed);
        let obstacle = only_obstacle(&plan);
        (obstacle.words(), obstacle.hint())
    };
    let cases: [Case<'_>; 6] = [
        (
            &|o| o.cluster.as_mut().unwrap().kubernetes = "1.36.3".parse().ok(),
            "the cluster runs Kubernetes 1.36.3, and 1.36.4 is wanted",
            "write `version: \"1.36.3\"`; this release does not upgrade a running cluster",
        ),
        (
            &|o| o.machines.get_mut(&name).unwrap().ours = false,
            "a machine `lin1` exists that does not belong to this cluster",
            "rename the group in the file, or take `lin1` out of what it belongs to",
        ),
        (
            &|o| o.machines.get_mut(&name).unwrap().driver = Driver::Qemu,
            "`lin1` exists with driver qemu, and nspawn is wanted",
            "undo the change in the file, or give the group another name, so that its machines are made anew",
        ),
        (
            &|o| o.cluster.as_mut().unwrap().endpoint = Some("10.0.0.1:6443".into()),
            "the cluster's endpoint is 10.0.0.1:6443, and 10.99.0.2:6443 is wanted",
            "write 10.0.0.1:6443 into the file: a running cluster keeps it, and only a new one (`mullion down`, then \
             `mullion up`) can have another",
        ),
        (
            &|o| {
                o.hosts.get_mut(&Place::Here).unwrap().network = None;
                host_foreign(o, "10.99.0.128/25");
            },
            "the machine network 10.99.0.0/24 overlaps 10.99.0.128/25, in use on this computer",
            "give `network.machineCIDR` a network that is free",
        ),
        (
            &|o| {
                let facts = o.machines.get_mut(&name).unwrap();
                facts.address = Some("10.98.0.7".parse().unwrap());
            },
            "`lin1` has the address 10.98.0.7, outside of 10.99.0.0/24",
            "give `network.machineCIDR` the network that the machines are in",
        ),
    ];
    for (change, words, hint) in cases {
        assert_eq!(with(change), (words.to_owned(), hint.to_owned()));
    }
}

#[test]
fn an_existing_cluster_that_does_not_answer_is_in_the_way() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n\
                controlPlane: {existing: {kubeconfig: ./admin.conf}}\n\
                machines: [{name: lin, role: worker, os: linux, count: 1}]\n";
    let cluster = read(text);
    let plan = plan(&wanted(&cluster, &Sketch::small()), &Observed::default());
    assert_eq!(only_obstacle(&plan), &Obstacle::ExistingSilent);
}

#[test]
fn a_machine_that_another_cluster_uses_is_not_taken_from_it() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let mut observed = look(&up(&sketch), &sketch);
    let mut machines = observed.machines.iter_mut();
    let (name, facts) = machines.find(|(_, facts)| !facts.made).unwrap();
    facts.ours = false;
    let machine = name.clone();
    let plan = planned(&sketch, &observed);
    let cluster = None;
    assert_eq!(
        only_obstacle(&plan),
        &Obstacle::NotOurs { machine, cluster }
    );
}

#[test]
fn promise_09_a_machine_that_another_cluster_claims_is_not_taken_although_its_blueprint_is_undone()
{
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let mut observed = look(&up(&sketch), &sketch);
    let mut machines = observed.machines.iter_mut();
    let (name, facts) = machines.find(|(_, facts)| !facts.made).unwrap();
    let machine = name.clone();
    // A load balancer, or one that was prepared and never joined, with a file that somebody edited.
    facts.ours = false;
    facts.inside = Some(mullion_plan::Inside {
        agent: Some("1".into()),
        drift: vec!["`/etc/haproxy/haproxy.cfg` was changed".into()],
        ..mullion_plan::Inside::default()
    });
    facts.claimed_by = Some("other".into());
    let plan = planned(&sketch, &observed);
    let obstacle = only_obstacle(&plan);
    let cluster = Some("other".to_owned());
    assert_eq!(
        obstacle,
        &Obstacle::NotOurs {
            machine: machine.clone(),
            cluster
        }
    );
    assert!(obstacle.words().contains("`other`"), "{obstacle}");
    // `down` leaves it as it is, and is not held up by it.
    let down = mullion_plan::plan_down(
        &observed,
        mullion_plan::Rest::Nothing,
        &std::collections::BTreeMap::new(),
    );
    assert!(down.obstacles().is_empty());
    let of_it = |step: &&mullion_plan::Step| step.machine.as_ref() == Some(&machine);
    assert_eq!(down.steps().iter().filter(of_it).count(), 0);
}

#[test]
fn kubernetes_of_somebody_else_is_never_reset() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let mut observed = look(&up(&sketch), &sketch);
    let mut machines = observed.machines.iter_mut();
    let (name, facts) = machines.find(|(_, facts)| !facts.made).unwrap();
    let inside = facts.inside.as_mut().unwrap();
    inside.joined = Some(ClusterId("another".into()));
    inside.kubeadm = Some(Kubeadm::Foreign);
    let machine = name.clone();
    let plan = planned(&sketch, &observed);
    assert_eq!(only_obstacle(&plan), &Obstacle::Occupied { machine });
}

#[test]
fn the_only_control_plane_is_never_reset_by_itself() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    for why in [None, Some("kubelet's certificate expired".to_owned())] {
        let mut observed = look(&world, &sketch);
        let mut machines = observed.machines.iter_mut();
        let is_seat = |facts: &MachineFacts| facts.inside.as_ref().unwrap().control_plane;
        let (name, facts) = machines.find(|(_, facts)| is_seat(facts)).unwrap();
        let inside = facts.inside.as_mut().unwrap();
        inside.kubeadm = Some(Kubeadm::Finished);
        inside.expired.clone_from(&why);
        if why.is_none() {
            inside.joined = None;
        }
        let name = name.clone();
        for is_seen in [true, false] {
            if !is_seen {
                observed.cluster = None;
            }
            let plan = planned(&sketch, &observed);
            assert!(
                matches!(only_obstacle(&plan), Obstacle::Damaged { machine, .. } if *machine == name),
                "{:?}",
                plan.obstacles()
            );
        }
    }
}

#[test]
fn a_worker_that_nobody_lets_in_any_more_joins_anew() {
    let sketch = Sketch::small();
    let mut observed = look(&up(&sketch), &sketch);
    let mut machines = observed.machines.iter_mut();
    let is_worker = |facts: &MachineFacts| !facts.inside.as_ref().unwrap().control_plane;
    let (name, facts) = machines.find(|(_, facts)| is_worker(facts)).unwrap();
    facts.inside.as_mut().unwrap().expired = Some("kubelet's certificate expired".into());
    let name = name.clone();
    let plan = planned(&sketch, &observed);
    let ids: Vec<_> = plan.steps().iter().map(|step| step.id.as_str()).collect();
    for verb in ["reset", "forget", "join"] {
        assert!(ids.contains(&format!("{verb}/{name}").as_str()), "{ids:?}");
    }
    assert!(!ids.iter().any(|id| id.starts_with("drain")), "{ids:?}");
}
