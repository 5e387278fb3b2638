//! Named situations, each with what the plan says of it.

use std::collections::BTreeSet;

use mullion_plan::{
    Action, Discover, Inside, Observed, Obstacle, Perform, Plan, Power, Prior, Reboot, Stage,
    StepId, facts_schema,
};
use mullion_testkit::{Blow, Dice, Until, World, plan, run};

use crate::scene::{ids, look, of_machine, only_obstacle, planned, reason, up};
use crate::sketch::{Sketch, read, wanted};

#[test]
fn a_new_machine_goes_through_the_stages_in_order() {
    let mut sketch = Sketch::small();
    sketch.windows.count = 1;
    sketch.windows.before = 1;
    sketch.windows.after = 1;
    let plan = planned(&sketch, &look(&sketch.world(), &sketch));
    assert_eq!(
        of_machine(&plan, "vm1"),
        [
            "make/vm1",
            "start/vm1",
            "reach/vm1",
            "inspect/vm1",
            "agent/vm1",
            "before/vm1",
            "features/vm1",
            "apply/vm1",
            "join/vm1",
            "certificates/vm1",
            "mark/vm1",
            "node-network/vm1",
            "ready/vm1",
            "after/vm1"
        ]
    );
    let stages: Vec<Stage> = plan.steps().iter().map(|step| step.stage).collect();
    assert!(stages.is_sorted());
    assert_eq!(reason(&plan, "make/vm1"), "vm1 does not exist");
    let reboots = |id: &str| plan.get(&StepId::new(id)).unwrap().reboot();
    assert_eq!(reboots("features/vm1"), Reboot::MayFollow);
    assert_eq!(reboots("apply/vm1"), Reboot::MayFollow);
    assert_eq!(reboots("apply/lin1"), Reboot::Never);
    // The stand-in has no Windows features, and nothing waits for another machine's join.
    assert!(!ids(&plan).contains(&"features/win1"));
    let join = plan.get(&StepId::new("join/vm1")).unwrap();
    let needs: Vec<_> = join.needs.iter().map(StepId::as_str).collect();
    assert_eq!(needs, ["apply/vm1", "init/cp1"]);
}

#[test]
fn control_planes_join_one_after_another_behind_their_load_balancer() {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let plan = planned(&sketch, &Observed::default());
    let needs = |id: &str| -> Vec<String> {
        let step = plan.get(&StepId::new(id)).unwrap();
        step.needs.iter().map(ToString::to_string).collect()
    };
    assert_eq!(needs("init/cp1"), ["apply/cp1", "apply/lb1"]);
    assert_eq!(needs("join/cp2"), ["apply/cp2", "init/cp1"]);
    assert_eq!(needs("join/cp3"), ["apply/cp3", "join/cp2"]);
    assert_eq!(needs("join/lin1"), ["apply/lin1", "join/cp3"]);
    assert!(of_machine(&plan, "lb1").contains(&"apply/lb1"));
    assert!(
        !of_machine(&plan, "lb1").contains(&"join/lb1"),
        "it is no node"
    );
}

#[test]
fn a_changed_part_is_named_with_both_versions() {
    let mut sketch = Sketch::small();
    let world = up(&sketch);
    sketch.containerd += 1;
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(
        reason(&plan, "apply/lin1"),
        "blueprint changed: containerd 2.2.2 to 2.2.3"
    );
    assert_eq!(
        reason(&plan, "ready/lin1"),
        "the services of lin1 were restarted"
    );
    assert!(
        !ids(&plan).iter().any(|id| id.starts_with("template/")),
        "templates are built for new machines only"
    );
    let fetch = "fetch/linux/program/containerd@2.2.3";
    assert_eq!(reason(&plan, fetch), "it is not in the cache");
}

#[test]
fn a_network_that_is_not_whole_is_finished_and_no_machine_is_touched() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    let mut observed = look(&world, &sketch);
    for host in observed.hosts.values_mut() {
        host.network_lacks = Some("its way out is gone".into());
    }
    let plan = planned(&sketch, &observed);
    assert_eq!(ids(&plan), ["host-network/@local", "verify/smoke"]);
    assert_eq!(
        reason(&plan, "host-network/@local"),
        "the network of this computer is not whole: its way out is gone"
    );
}

#[test]
fn a_changed_label_needs_no_more_than_a_mark() {
    let mut sketch = Sketch::small();
    let world = up(&sketch);
    sketch.linux.label = Some(9);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(ids(&plan), ["mark/lin1", "verify/smoke"]);
    run(&plan, &world, Until::End, &mut Dice::new(1));
    sketch.linux.label = None;
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(ids(&plan), ["mark/lin1", "verify/smoke"]);
    let mark = &plan.get(&StepId::new("mark/lin1")).unwrap().action;
    assert!(
        matches!(mark, Action::Mark { drop_labels, .. } if drop_labels.contains("example.com/tier"))
    );
}

#[test]
fn an_emptied_cache_does_not_disturb_a_cluster_that_is_as_wanted() {
    let sketch = Sketch::small();
    let mut observed = look(&up(&sketch), &sketch);
    observed.artifacts.clear();
    observed.templates.clear();
    assert!(planned(&sketch, &observed).is_empty());
}

#[test]
fn an_emptied_cache_is_filled_for_a_machine_whose_template_is_there() {
    let mut sketch = Sketch::small();
    let world = up(&sketch);
    sketch.linux.count += 1;
    let mut observed = look(&world, &sketch);
    observed.artifacts.clear();
    let plan = planned(&sketch, &observed);
    assert!(!ids(&plan).iter().any(|id| id.starts_with("template/")));
    // What the machine is told names the digests of programs, and those are the cache's.
    let fetch = "fetch/linux/program/containerd@2.2.2";
    assert_eq!(reason(&plan, fetch), "it is not in the cache");
}

#[test]
fn an_emptied_cache_is_filled_for_a_machine_that_is_brought_images() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let world = up(&sketch);
    // Both lost their place in the cluster, and keep their blueprints.
    for name in ["lin1", "oldlin1"] {
        let mut observed = look(&world, &sketch);
        observed.artifacts.clear();
        let nodes = &mut observed.cluster.as_mut().unwrap().nodes;
        assert!(nodes.remove(name).is_some());
        let machine = observed.machines.get_mut(&name.parse().unwrap()).unwrap();
        let inside = machine.inside.as_mut().unwrap();
        (inside.joined, inside.kubeadm) = (None, None);
        let plan = planned(&sketch, &observed);
        assert!(ids(&plan).contains(&format!("join/{name}").as_str()));
        let is_filled = ids(&plan).iter().any(|id| id.starts_with("fetch/linux/"));
        // The other one has them from its template.
        assert_eq!(is_filled, name == "oldlin1", "{name}");
    }
}

#[test]
fn what_the_file_no_longer_has_leaves_in_order() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let world = up(&sketch);
    sketch.linux.count = 0;
    sketch.old_linux.count = 0;
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(
        of_machine(&plan, "lin1"),
        ["drain/lin1", "reset/lin1", "forget/lin1", "remove/lin1"]
    );
    assert_eq!(
        of_machine(&plan, "oldlin1"),
        [
            "drain/oldlin1",
            "reset/oldlin1",
            "forget/oldlin1",
            "release/oldlin1"
        ],
        "a machine of the user's is left as it was found"
    );
    assert_eq!(reason(&plan, "drain/lin1"), "lin1 is not in the file");
    assert_eq!(
        reason(&plan, "mark/cp1"),
        "its taints differ from the file's",
        "with no Linux worker left, the control plane takes pods"
    );
}

#[test]
fn a_control_plane_that_is_only_off_is_started_and_nothing_is_reset() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    world.strike(&"cp1".parse().unwrap(), Blow::PowerLoss);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(reason(&plan, "start/cp1"), "cp1 is off");
    let init = plan.get(&StepId::new("init/cp1")).unwrap();
    assert_eq!(init.reason, "it is not known whether there is a cluster");
    let destroys = ["reset/", "forget/", "drain/", "remove/"];
    let destroying = |id: &&str| destroys.iter().any(|word| id.starts_with(word));
    assert_eq!(ids(&plan).into_iter().find(destroying), None);
    run(&plan, &world, Until::End, &mut Dice::new(3));
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn a_lost_control_plane_begins_a_new_cluster_and_the_workers_move() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    world.strike(&"cp1".parse().unwrap(), Blow::Wipe);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(reason(&plan, "init/cp1"), "there is no cluster");
    assert_eq!(
        reason(&plan, "reset/lin1"),
        "lin1 holds the rest of a cluster that is gone"
    );
}

#[test]
fn a_lost_member_is_forgotten_before_it_joins_again() {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let world = up(&sketch);
    world.strike(&"cp2".parse().unwrap(), Blow::Wipe);
    let observed = look(&world, &sketch);
    let plan = planned(&sketch, &observed);
    let steps = of_machine(&plan, "cp2");
    let forget = steps.iter().position(|id| *id == "forget/cp2");
    let join = steps.iter().position(|id| *id == "join/cp2");
    assert!(forget.is_some() && forget < join, "{steps:?}");
    let make = &plan.get(&StepId::new("make/cp2")).unwrap().action;
    let Action::MakeMachine { address, .. } = make else {
        panic!("{make:?}")
    };
    let node = &observed.cluster.as_ref().unwrap().nodes["cp2"];
    assert_eq!(
        node.address,
        Some((*address).into()),
        "it keeps its address"
    );
    // A second loss leaves etcd without a majority, and no plan can cure that.
    world.strike(&"cp3".parse().unwrap(), Blow::Wipe);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(
        only_obstacle(&plan),
        &Obstacle::QuorumLost {
            members: 3,
            left: 1
        }
    );
}

#[test]
fn a_pending_reboot_is_a_step_of_its_own() {
    let mut sketch = Sketch::small();
    sketch.old_windows.count = 1;
    let mut observed = look(&up(&sketch), &sketch);
    let machine = "oldwin1".parse().unwrap();
    let facts = observed.machines.get_mut(&machine).unwrap();
    facts.inside.as_mut().unwrap().reboot_pending = true;
    let plan = planned(&sketch, &observed);
    assert_eq!(
        ids(&plan),
        [
            "inspect/oldwin1",
            "reboot/oldwin1",
            "node-network/oldwin1",
            "ready/oldwin1",
            "verify/smoke"
        ]
    );
}

#[test]
fn a_node_that_is_as_wanted_is_not_restarted_for_what_windows_waits_for_itself() {
    let mut sketch = Sketch::small();
    sketch.old_windows.count = 1;
    let mut observed = look(&up(&sketch), &sketch);
    let machine = "oldwin1".parse().unwrap();
    let inside = |observed: &mut Observed, change: &dyn Fn(&mut Inside)| {
        let facts = observed.machines.get_mut(&machine).unwrap();
        change(facts.inside.as_mut().unwrap());
    };
    inside(&mut observed, &|inside| {
        inside.reboot_pending = true;
        inside.reboot_of_system = true;
    });
    assert!(planned(&sketch, &observed).is_empty());
    let restarts = |change: &dyn Fn(&mut Inside)| {
        let mut observed = observed.clone();
        inside(&mut observed, change);
        ids(&planned(&sketch, &observed)).contains(&"reboot/oldwin1")
    };
    // Something of ours waits too; the blueprint is to be applied; it is no node.
    assert!(restarts(&|inside| inside.reboot_of_system = false));
    assert!(restarts(&|inside| inside.blueprint = None));
    assert!(restarts(&|inside| inside.joined = None));
    assert!(!restarts(&|inside| inside.agent = Some("older".into())));
}

#[test]
fn nobody_is_treated_as_absent_because_they_could_not_be_asked() {
    let mut sketch = Sketch::small();
    sketch.linux.count = 2;
    let world = up(&sketch);
    world.strike(&"lin1".parse().unwrap(), Blow::Blip);
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(reason(&plan, "reach/lin1"), "nobody has looked at lin1 yet");
    let steps = of_machine(&plan, "lin1");
    assert!(!steps.contains(&"join/lin1"), "the API server knows it");
    let apply = plan.get(&StepId::new("apply/lin1")).unwrap();
    assert_eq!(
        apply.reason,
        "nobody has looked at the blueprint of lin1 yet"
    );
}

#[test]
fn a_machine_that_was_made_and_never_ran_is_only_started() {
    let sketch = Sketch::small();
    let world = sketch.world();
    let first = planned(&sketch, &look(&world, &sketch));
    let until = Until::Stage(Stage::Hosts);
    run(&first, &world, until, &mut Dice::new(1));
    let made = plan_of_makes(&first, &world);
    assert_eq!(made, 3);
    let observed = look(&world, &sketch);
    assert_eq!(
        observed.machines[&"lin1".parse().unwrap()].power,
        Power::New
    );
    let plan = planned(&sketch, &observed);
    assert_eq!(reason(&plan, "start/lin1"), "lin1 never ran");
    assert!(!ids(&plan).contains(&"make/lin1"));
    let join = &plan.get(&StepId::new("join/lin1")).unwrap().action;
    assert!(matches!(
        join,
        Action::Join {
            prior: Prior::Absent,
            ..
        }
    ));
}

fn plan_of_makes(plan: &Plan, world: &World) -> usize {
    let makes = plan
        .steps()
        .iter()
        .filter(|step| matches!(step.action, Action::MakeMachine { .. }));
    makes
        .map(|step| world.perform(step, &mullion_plan::Unattended).unwrap())
        .count()
}

#[test]
fn a_worker_that_becomes_a_control_plane_leaves_and_joins_anew() {
    let file = |role: &str| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n\
             controlPlane: {{endpoint: \"api.example:6443\"}}\n\
             machines:\n- {{name: cp, role: control-plane, os: linux, count: 1}}\n\
             - {{name: more, role: {role}, os: linux, count: 2}}\n"
        )
    };
    let world = World::default();
    let converge = |role: &str, seed| {
        let cluster = read(&file(role));
        let wanted = wanted(&cluster, &Sketch::small());
        let first = plan(&wanted, &world.observe(&cluster).unwrap());
        let outcome = run(&first, &world, Until::End, &mut Dice::new(seed));
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let observed = world.observe(&cluster).unwrap();
        assert!(plan(&wanted, &observed).is_empty());
        (first, observed.cluster.unwrap().members.len())
    };
    for seed in 0..8 {
        assert_eq!(converge("worker", seed).1, 1);
        let (growth, members) = converge("control-plane", seed);
        assert_eq!(members, 3);
        assert_eq!(
            of_machine(&growth, "more1"),
            [
                "inspect/more1",
                "apply/more1",
                "drain/more1",
                "reset/more1",
                "forget/more1",
                "join/more1",
                "certificates/more1",
                "mark/more1",
                "node-network/more1",
                "ready/more1"
            ]
        );
    }
}

#[test]
fn the_world_refuses_what_real_ones_refuse() {
    let sketch = Sketch::small();
    let first = planned(&sketch, &look(&sketch.world(), &sketch));
    // Gates that only look are missed by nobody here, nor is what only real traffic would miss.
    let gates = ["inspect", "reach", "certificates", "mark", "ready", "stock"];
    let unproven = ["objects/policy", "objects/runtime-classes"];
    let mut refused = 0;
    for skipped in first.steps() {
        let kind = skipped.action.kind().word();
        let is_unproven = unproven.contains(&skipped.id.as_str());
        if gates.contains(&kind) || is_unproven || first.after(&skipped.id).next().is_none() {
            continue;
        }
        let world = sketch.world();
        let mut failed = BTreeSet::new();
        for step in first.steps().iter().filter(|step| step.id != skipped.id) {
            if world.perform(step, &mullion_plan::Unattended).is_err() {
                failed.insert(step.id.as_str());
            }
        }
        assert!(!failed.is_empty(), "nobody misses {}", skipped.id);
        refused += 1;
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn ten_thousand_machines_are_planned_with_edges_in_proportion() {
    let file = |machines: u32| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n\
             network: {{machineCIDR: 10.128.0.0/16, podCIDR: 10.0.0.0/10, podCIDRSize: 26}}\n\
             machines:\n- {{name: cp, role: control-plane, os: linux, count: 3}}\n\
             - {{name: lin, role: worker, os: linux, count: {machines}}}\n"
        )
    };
    let mut edges = BTreeSet::new();
    for machines in [1_000, 10_000] {
        let cluster = read(&file(machines));
        let plan = plan(&wanted(&cluster, &Sketch::small()), &Observed::default());
        assert_eq!(plan.obstacles(), []);
        assert!(plan.steps().len() > 10 * machines as usize);
        let needs: usize = plan.steps().iter().map(|step| step.needs.len()).sum();
        edges.insert(needs / machines as usize);
    }
    assert_eq!(edges.len(), 1, "as many a machine, however many there are");
}

#[test]
fn the_schema_of_facts_names_their_form() {
    let schema = facts_schema().to_string();
    assert!(schema.contains("mullion.dev/facts/v1"));
    assert!(schema.contains("rebootPending"));
}

#[test]
fn of_a_finished_cluster_a_renewal_is_a_thing_to_do_and_a_file_to_rename_is_none() {
    let sketch = Sketch::small();
    let world = sketch.world();
    let first = planned(&sketch, &look(&world, &sketch));
    run(&first, &world, Until::End, &mut Dice::new(1));
    let mut observed = look(&world, &sketch);
    let name = {
        let (name, machine) = observed.machines.iter_mut().next().unwrap();
        let inside = machine.inside.as_mut().unwrap();
        inside.next_start = Some("files are renamed at the next start".into());
        name.clone()
    };
    assert!(planned(&sketch, &observed).is_empty());
    // A kubelet asks for another certificate long after its node was made.
    let nodes = &mut observed.cluster.as_mut().unwrap().nodes;
    nodes.get_mut(name.as_str()).unwrap().certificates = false;
    let next = planned(&sketch, &observed);
    let ids: Vec<_> = next.steps().iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, [&*format!("certificates/{name}"), "verify/smoke"]);
}

#[test]
fn a_run_that_was_cut_off_before_its_suites_leaves_them_to_the_next() {
    let sketch = Sketch::small();
    let world = sketch.world();
    let first = planned(&sketch, &look(&world, &sketch));
    run(
        &first,
        &world,
        Until::Stage(Stage::Retire),
        &mut Dice::new(1),
    );
    let next = planned(&sketch, &look(&world, &sketch));
    let ids: Vec<_> = next.steps().iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["verify/smoke"]);
    run(&next, &world, Until::End, &mut Dice::new(1));
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}
