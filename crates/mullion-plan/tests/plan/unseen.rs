//! Machines and clusters that nobody could look at, and what is kept, shared or awaited because of it.

use mullion_plan::{
    Action, ClusterUid, Documents, ExpectedProfile, Inspected, Kubeadm, MachineFacts, Observed,
    Obstacle, Prior, Stage, StepId, Trouble, Wanted,
};
use mullion_render::{Cgroups, Footing, Ground};
use mullion_testkit::{Blow, Dice, Until, plan, run};

use crate::scene::{ids, look, of_machine, planned, reason, up};
use crate::sketch::{Sketch, blinded, judge, read, wanted};

fn with_own_seats(count: u32) -> Sketch {
    let mut sketch = Sketch::small();
    sketch.seats.count = 0;
    sketch.old_seats.count = count;
    sketch.endpoint = count > 1;
    sketch
}

#[test]
fn the_first_of_several_control_planes_that_nobody_could_look_at_begins_the_cluster() {
    let sketch = with_own_seats(3);
    let world = sketch.world();
    // Nothing at all was found, or the machines were found and nobody could log in.
    for observed in [Observed::default(), blinded(look(&world, &sketch))] {
        let plan = planned(&sketch, &observed);
        let needs = |id: &str| -> Vec<String> {
            let step = plan.get(&StepId::new(id)).unwrap();
            step.needs.iter().map(ToString::to_string).collect()
        };
        let seats: Vec<_> = ids(&plan)
            .into_iter()
            .filter(|id| id.contains("/oldcp"))
            .filter(|id| id.starts_with("init/") || id.starts_with("join/"))
            .collect();
        assert_eq!(seats, ["init/oldcp1", "join/oldcp2", "join/oldcp3"]);
        assert!(!ids(&plan).contains(&"api/cluster"), "nothing answers yet");
        let init = plan.get(&StepId::new("init/oldcp1")).unwrap();
        let prior = Prior::Unknown;
        assert!(matches!(init.action, Action::Init { prior: found, .. } if found == prior));
        // A cluster that is there already answers only when most of its members run.
        assert_eq!(
            needs("init/oldcp1"),
            [
                "apply/oldcp1",
                "apply/oldcp2",
                "apply/oldcp3",
                "stock/linux"
            ]
        );
        // They are brought images.
        let stock = "stock/linux";
        assert_eq!(needs("join/oldcp2"), ["apply/oldcp2", "init/oldcp1", stock]);
        assert_eq!(needs("join/oldcp3"), ["apply/oldcp3", "join/oldcp2", stock]);
        let first = run(&plan, &world, Until::End, &mut Dice::new(2));
        assert!(first.failed.is_empty(), "{:?}", first.failed);
        assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
    }
}

#[test]
fn promise_06_a_machine_that_cannot_be_told_whose_it_is_stops_everything() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    let whole = look(&world, &sketch);
    let troubles = [
        Trouble::Unreadable {
            file: "/place/machine.json".into(),
            why: "is damaged".into(),
        },
        Trouble::Newer {
            file: "/place/machine.json".into(),
            version: "mullion.dev/machine/v2".into(),
        },
        Trouble::OtherCluster {
            found: ClusterUid::of(1),
            own: None,
            owner: Some(1000),
            file: "/state/id".into(),
        },
    ];
    for trouble in troubles {
        // As drivers tell it: nothing of the label is known.
        let mut observed = whole.clone();
        let facts = observed.machines.values_mut().next().unwrap();
        facts.ours = false;
        facts.whole = false;
        facts.inside = None;
        facts.trouble = Some(trouble.clone());
        let name = observed.machines.keys().next().unwrap().clone();
        let plan = planned(&sketch, &observed);
        let obstacle = Obstacle::LeftAlone {
            machine: Some(name),
            trouble: trouble.clone(),
        };
        assert!(plan.steps().is_empty());
        assert!(plan.obstacles().contains(&obstacle), "{plan:?}");
        // Also one that the file does not have, and a network.
        let mut observed = whole.clone();
        let facts = observed.machines.values().next().unwrap().clone();
        let stray = MachineFacts {
            ours: false,
            trouble: Some(trouble.clone()),
            ..facts
        };
        observed.machines.insert("stray".parse().unwrap(), stray);
        assert!(!planned(&sketch, &observed).obstacles().is_empty());
        let mut observed = whole.clone();
        for host in observed.hosts.values_mut() {
            host.trouble = Some(trouble.clone());
        }
        assert!(!planned(&sketch, &observed).obstacles().is_empty());
    }
}

#[test]
fn a_cluster_begins_on_a_control_plane_that_may_hold_it_rather_than_on_a_new_one() {
    let mut sketch = with_own_seats(2);
    sketch.seats.count = 1;
    let world = up(&sketch);
    world.strike(&"cp1".parse().unwrap(), Blow::Wipe);
    let plan = planned(&sketch, &blinded(look(&world, &sketch)));
    assert!(of_machine(&plan, "oldcp1").contains(&"init/oldcp1"));
    assert!(of_machine(&plan, "cp1").contains(&"join/cp1"));
    let join = plan.get(&StepId::new("join/cp1")).unwrap();
    assert!(join.needs.contains(&StepId::new("init/oldcp1")));
}

#[test]
fn no_reason_speaks_of_a_look_that_nobody_took() {
    let sketch = with_own_seats(3);
    let plan = planned(&sketch, &Observed::default());
    assert_eq!(
        reason(&plan, "reach/oldcp1"),
        "nobody has looked at oldcp1 yet"
    );
    assert_eq!(
        reason(&plan, "agent/oldcp1"),
        "nobody has looked at the agent of oldcp1 yet"
    );
    assert_eq!(
        reason(&plan, "join/oldcp2"),
        "nobody has looked whether oldcp2 is a node"
    );
    assert_eq!(reason(&plan, "mark/oldcp2"), "oldcp2 may be a new node");
    assert_eq!(
        reason(&plan, "objects/dns"),
        "nobody has asked the API server yet"
    );
    for step in plan.steps() {
        let claims = ["answer", "could", "is a new node"];
        let claim = claims.iter().find(|words| step.reason.contains(*words));
        assert_eq!(claim, None, "{}: {}", step.id, step.reason);
    }
    // Where somebody did ask, the words say so.
    let world = up(&sketch);
    for seat in ["oldcp2", "oldcp3"] {
        world.strike(&seat.parse().unwrap(), Blow::Blip);
    }
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(
        reason(&plan, "objects/dns"),
        "the API server did not answer"
    );
}

#[test]
fn what_nobody_could_look_at_is_kept_as_long_as_the_api_server_is_silent() {
    let mut sketch = Sketch::small();
    sketch.linux.count = 2;
    let world = up(&sketch);
    sketch.linux.count = 1;
    for machine in ["cp1", "lin2"] {
        world.strike(&machine.parse().unwrap(), Blow::PowerLoss);
    }
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(of_machine(&plan, "lin2"), [] as [&str; 0]);
    let outcome = run(
        &plan,
        &world,
        Until::Stage(Stage::Retire),
        &mut Dice::new(4),
    );
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    // Now the API server can be asked, and what it says is enough to let the machine go.
    let plan = planned(&sketch, &look(&world, &sketch));
    assert_eq!(
        of_machine(&plan, "lin2"),
        ["drain/lin2", "forget/lin2", "remove/lin2"]
    );
}

#[test]
fn control_planes_of_a_running_cluster_are_disturbed_one_after_another() {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let world = up(&sketch);
    sketch.containerd += 1;
    sketch.linux.label = Some(7);
    let plan = planned(&sketch, &look(&world, &sketch));
    let needs = |id: &str| -> Vec<String> {
        let step = plan.get(&StepId::new(id)).unwrap();
        step.needs.iter().map(ToString::to_string).collect()
    };
    assert_eq!(needs("api/cp1"), ["apply/cp1"]);
    assert!(needs("apply/cp2").contains(&"api/cp1".to_owned()));
    assert!(needs("apply/cp3").contains(&"api/cp2".to_owned()));
    assert!(needs("mark/lin1").contains(&"api/cp3".to_owned()));
    let wait = plan.get(&StepId::new("api/cp1")).unwrap();
    assert_eq!(wait.stage, Stage::Prepare);
    assert_eq!(wait.reason, "etcd needs cp1 back before anything else");
    let own = |observed: &Observed| {
        let facts = &observed.machines[&"cp1".parse().unwrap()];
        format!("{}:6443", facts.address.unwrap())
    };
    let observed = look(&world, &sketch);
    assert!(
        matches!(&wait.action, Action::AwaitApi { endpoint } if *endpoint == own(&observed)),
        "its own one, not whichever the load balancer asks"
    );
    let outcome = run(&plan, &world, Until::End, &mut Dice::new(6));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn a_lost_control_plane_is_not_awaited_before_it_is_one_again() {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let world = up(&sketch);
    world.strike(&"cp2".parse().unwrap(), Blow::Wipe);
    sketch.containerd += 1;
    let plan = planned(&sketch, &look(&world, &sketch));
    let awaited: Vec<_> = ids(&plan)
        .into_iter()
        .filter(|id| id.starts_with("api/"))
        .collect();
    assert_eq!(awaited, ["api/cp1", "api/cp3"]);
    let outcome = run(&plan, &world, Until::End, &mut Dice::new(8));
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert!(planned(&sketch, &look(&world, &sketch)).is_empty());
}

#[test]
fn a_machine_of_which_too_little_is_known_is_inspected_before_its_documents_are_rendered() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let model = judge(&sketch);
    let wanted = Wanted::of(&model);
    let ground = Ground {
        footing: Footing::Computer,
        cgroups: Cgroups::V2,
        can_raise_limits: true,
        has_swap: false,
        has_resolver: true,
    };
    let world = sketch.world().with_ground(ground);
    let name = "oldlin1".parse().unwrap();
    let planned = |observed: &Observed| {
        let documents = Documents::render(&model, &wanted, observed);
        let plan = mullion_plan::plan(&wanted, observed, &documents);
        assert_eq!(plan.obstacles(), []);
        let of = |id: &str| plan.get(&StepId::new(id)).unwrap().clone();
        (documents, of("inspect/oldlin1"), of("apply/oldlin1"))
    };
    let seen = look(&world, &sketch);
    let (documents, inspect, apply) = planned(&seen);
    let known = documents.of(&name).machine.known().unwrap().clone();
    assert!(
        matches!(&inspect.action, Action::Inspect { profile: ExpectedProfile::Known(found), .. } if *found == ground)
    );
    assert!(
        matches!(&apply.action, Action::ApplyBlueprint { document } if document.known() == Some(&known))
    );
    // Nobody can log in: what it stands on is found out in the run, and gives the same document.
    let unseen = blinded(seen);
    let (documents, inspect, apply) = planned(&unseen);
    assert_eq!(documents.of(&name).machine.known(), None);
    let title = inspect.title();
    assert!(title.ends_with("then render its documents"), "{title}");
    assert!(
        matches!(&apply.action, Action::ApplyBlueprint { document } if document.known().is_none())
    );
    let found = Inspected {
        ground: Some(ground),
        ..Inspected::default()
    };
    let none = std::collections::BTreeMap::new();
    let found = (&name, &found);
    let rendered = Documents::after_inspection(&model, &wanted, &unseen, found, &none);
    assert_eq!(rendered.unwrap().machine.known(), Some(&known));
}

#[test]
fn groups_that_differ_in_settings_alone_share_a_template() {
    let file = |more: &str| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\nmachines:\n\
             - {{name: cp, role: control-plane, os: linux, count: 1}}\n\
             - {{name: one, role: worker, os: windows, count: 1, driver: qemu, media: {{iso: ./server.iso}}}}\n\
             - {{name: two, role: worker, os: windows, count: 1, driver: qemu, media: {{iso: ./server.iso}}, {more}}}\n"
        )
    };
    let templates = |more: &str| {
        let cluster = read(&file(more));
        let plan = plan(&wanted(&cluster, &Sketch::small()), &Observed::default());
        let is_windows = |id: &&str| id.starts_with("template/windows");
        ids(&plan).into_iter().filter(is_windows).count()
    };
    assert_eq!(templates("rdp: true"), 1);
    assert_eq!(templates("hyperv: true"), 1);
    assert_eq!(templates("desktop: true"), 2);
    assert_eq!(templates("updates: [KB5068787]"), 2);
}

#[test]
fn hyper_v_is_enabled_where_the_file_asks_for_it() {
    let features = |more: &str, id: &str| {
        let cluster = read(&format!(
            "machines:\n- {{name: cp, role: control-plane}}\n- {{name: win, os: windows{more}}}\n"
        ));
        let plan = plan(&wanted(&cluster, &Sketch::small()), &Observed::default());
        let step = plan.get(&StepId::new(id))?;
        match &step.action {
            Action::EnableFeatures { features, .. } => Some(features.clone()),
            other => panic!("{other:?}"),
        }
    };
    let made = ", driver: qemu, media: {iso: ./server.iso}";
    assert_eq!(features(made, "features/win1").unwrap(), ["Containers"]);
    let both = features(&format!("{made}, hyperv: true"), "features/win1");
    assert_eq!(both.unwrap(), ["Containers", "Microsoft-Hyper-V"]);
    // What stands in for Windows has no features.
    assert_eq!(features(", hyperv: true", "features/win1"), None);
}

#[test]
fn promise_04_a_machine_that_may_hold_the_only_etcd_is_not_removed_unseen() {
    let begun = Sketch::small();
    let world = up(&begun);
    let mut observed = look(&world, &begun);
    // Nobody can log in, the kubeconfig is lost, and the file calls the control plane by another name.
    observed.cluster = None;
    let machines = std::mem::take(&mut observed.machines);
    for (name, mut facts) in machines {
        facts.inside = None;
        let name = if name.as_str() == "cp1" {
            "old1".parse().unwrap()
        } else {
            name
        };
        observed.machines.insert(name, facts);
    }
    let plan = planned(&begun, &observed);
    assert!(plan.steps().is_empty(), "{:?}", ids(&plan));
    let is_it = |obstacle: &Obstacle| matches!(obstacle, Obstacle::EtcdUnknown { .. });
    assert!(plan.obstacles().iter().any(is_it), "{:?}", plan.obstacles());
}

#[test]
fn promise_04_a_control_plane_is_not_emptied_where_the_kubeconfig_is_lost() {
    let begun = Sketch::small();
    let world = up(&begun);
    let mut observed = look(&world, &begun);
    observed.cluster = None;
    let machine = "cp1".parse().unwrap();
    let is_it = |obstacle: &Obstacle| matches!(obstacle, Obstacle::EtcdUnknown { .. });
    let by_command = mullion_plan::plan_reset(&observed, &machine);
    assert!(by_command.obstacles().iter().any(is_it), "{by_command:?}");
    // The file calls the control plane by another name.
    let mut facts = observed.machines.remove(&machine).unwrap();
    let renamed = |facts| {
        let mut observed = observed.clone();
        observed.machines.insert("old1".parse().unwrap(), facts);
        planned(&begun, &observed)
    };
    let plan = renamed(facts.clone());
    assert!(plan.obstacles().iter().any(is_it), "{:?}", plan.obstacles());
    // Its `kubelet.conf` is gone too.
    facts.inside.as_mut().unwrap().joined = None;
    let plan = renamed(facts.clone());
    assert!(plan.obstacles().iter().any(is_it), "{:?}", plan.obstacles());
    // What kubeadm did not finish holds nothing.
    facts.inside.as_mut().unwrap().kubeadm = Some(Kubeadm::Begun);
    assert!(renamed(facts).obstacles().is_empty());
}
