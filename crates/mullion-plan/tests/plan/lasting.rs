//! Settings that a cluster keeps from its beginning, and a node from its joining.

use std::collections::BTreeSet;

use mullion_plan::{
    Action, Applied, Archive, ClusterFacts, Fingerprint, Observed, Obstacle, OlderMark, Plan,
    StepKind, Unusable, Wanted, plan_reset,
};
use mullion_spec::words::MachineAccess;
use mullion_testkit::{Dice, Until, World, plan, run};
use mullion_wire::{Content, Sha256Digest};

use crate::scene::{ids, look, only_obstacle, planned, reason, up};
use crate::sketch::{Sketch, read, wanted};

/// A change of the cluster's facts, and the words that it comes to.
type Case<'a> = (&'a dyn Fn(&mut ClusterFacts), &'a str, &'a str);

fn found(observed: &Observed, change: &dyn Fn(&mut ClusterFacts)) -> Observed {
    let mut changed = observed.clone();
    change(changed.cluster.as_mut().unwrap());
    changed
}

#[test]
fn what_only_the_beginning_of_a_cluster_reads_cannot_be_changed_later() {
    let sketch = Sketch::small();
    let observed = look(&up(&sketch), &sketch);
    let gates = |on| Some([("NodeSwap".to_owned(), on)].into());
    let cases: [Case<'_>; 5] = [
        (
            &|cluster| cluster.pods = "10.1.0.0/16".parse().ok(),
            "the cluster's pod network is 10.1.0.0/16, and 10.244.0.0/16 is wanted",
            "10.1.0.0/16",
        ),
        (
            &|cluster| cluster.services = "10.2.0.0/16".parse().ok(),
            "the cluster's service network is 10.2.0.0/16, and 10.96.0.0/16 is wanted",
            "10.2.0.0/16",
        ),
        (
            &|cluster| cluster.domain = Some("other.local".into()),
            "the cluster's DNS domain is other.local, and cluster.local is wanted",
            "other.local",
        ),
        (
            &|cluster| cluster.pods_per_node = Some(25),
            "the cluster's share of the pod network for one node is /25, and /24 is wanted",
            "/25",
        ),
        (
            &|cluster| cluster.feature_gates = gates(true),
            "the cluster's set of feature gates is {NodeSwap: true}, and {} is wanted",
            "{NodeSwap: true}",
        ),
    ];
    for (change, words, value) in cases {
        let plan = planned(&sketch, &found(&observed, change));
        let obstacle = only_obstacle(&plan);
        assert!(matches!(obstacle, Obstacle::ClusterDiffers { .. }));
        assert_eq!(obstacle.words(), words);
        let hint = format!("write {value} into the file: ");
        assert!(obstacle.hint().starts_with(&hint), "{}", obstacle.hint());
    }
}

#[test]
fn a_cluster_that_is_as_wanted_or_does_not_tell_is_left_alone() {
    let sketch = Sketch::small();
    let observed = look(&up(&sketch), &sketch);
    let same = found(&observed, &|cluster| {
        cluster.domain = Some("cluster.local".into());
        cluster.pods_per_node = Some(24);
        cluster.feature_gates = Some([].into());
    });
    for observed in [observed, same] {
        let plan = planned(&sketch, &observed);
        assert!(plan.is_empty(), "{:?}", plan.obstacles());
    }
}

/// The sketch's plan, once a text in its file is another.
fn edited(sketch: &Sketch, old: &str, new: &str, observed: &Observed) -> Plan {
    let text = sketch.text();
    assert!(text.contains(old), "{text}");
    let cluster = read(&text.replace(old, new));
    plan(&wanted(&cluster, sketch), observed)
}

#[test]
fn a_gate_that_is_added_to_the_file_is_in_the_way_and_not_passed_over() {
    let sketch = Sketch::small();
    let none = |cluster: &mut ClusterFacts| cluster.feature_gates = Some([].into());
    let observed = found(&look(&up(&sketch), &sketch), &none);
    let kubernetes = "kubernetes: {featureGates: {NodeSwap: false}}\nnetwork:";
    let plan = edited(&sketch, "network:", kubernetes, &observed);
    assert_eq!(
        only_obstacle(&plan).words(),
        "the cluster's set of feature gates is {}, and {NodeSwap: false} is wanted"
    );
}

#[test]
fn of_somebody_elses_control_plane_only_the_networks_and_the_domain_matter() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n\
                metadata: {name: demo}\ncontrolPlane: {existing: {kubeconfig: ./admin.conf}}\n\
                machines: [{name: lin, role: worker, os: linux, count: 1}]\n";
    let cluster = read(text);
    let sketch = Sketch::small();
    let mut observed = Observed {
        cluster: look(&up(&sketch), &sketch).cluster,
        ..Observed::default()
    };
    let facts = observed.cluster.as_mut().unwrap();
    // Nobody asks its etcd, and its control planes are none of ours.
    facts.etcd = None;
    facts.nodes.get_mut("cp1").unwrap().ours = false;
    facts.endpoint = None;
    facts.pods_per_node = Some(25);
    facts.feature_gates = Some([("NodeSwap".to_owned(), true)].into());
    let wanted = wanted(&cluster, &sketch);
    assert_eq!(plan(&wanted, &observed).obstacles(), []);
    observed.cluster.as_mut().unwrap().domain = Some("other.local".into());
    assert_eq!(
        only_obstacle(&plan(&wanted, &observed)).words(),
        "the cluster's DNS domain is other.local, and cluster.local is wanted"
    );
}

#[test]
fn promise_09_a_node_without_the_clusters_id_is_marked_and_never_taken_for_a_leftover() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\n\
                metadata: {name: demo}\ncontrolPlane: {existing: {kubeconfig: ./admin.conf}}\n\
                machines: [{name: lin, role: worker, os: linux, count: 1}]\n";
    let cluster = read(text);
    let sketch = Sketch::small();
    let mut observed = look(&up(&sketch), &sketch);
    let wanted = wanted(&cluster, &sketch);
    let facts = observed.cluster.as_mut().unwrap();
    facts.etcd = None;
    facts.endpoint = None;
    facts.nodes.get_mut("cp1").unwrap().ours = false;
    observed.machines.retain(|name, _| name.as_str() == "lin1");
    let laid = |observed: &Observed| {
        let plan = plan(&wanted, observed);
        let has = |id: &str| plan.steps().iter().any(|step| step.id.as_str() == id);
        (has("forget/win1"), has("mark/lin1"))
    };
    assert_eq!(laid(&observed), (true, false), "both carry the id");
    let facts = observed.cluster.as_mut().unwrap();
    for name in ["lin1", "win1"] {
        facts.nodes.get_mut(name).unwrap().without_id = true;
    }
    // Another file of the same name may have made win1.
    assert_eq!(laid(&observed), (false, true));
}

#[test]
fn an_address_that_is_chosen_anew_is_said_to_wait_for_a_join() {
    let mut sketch = Sketch::small();
    sketch.old_linux.count = 1;
    let observed = look(&up(&sketch), &sketch);
    let group = "name: oldlin,";
    let chosen = format!("{group} nodeIP: 198.51.100.0/24,");
    let plan = edited(&sketch, group, &chosen, &observed);
    let reason = reason(&plan, "apply/oldlin1");
    let note = "a node takes its address when it joins, as after `mullion node reset oldlin1`";
    assert!(reason.ends_with(note), "{reason}");
}

#[test]
fn patches_that_changed_are_laid_down_and_said_to_wait_for_a_join() {
    let sketch = Sketch::small();
    let world = sketch.world();
    let patch = "etcd.yaml";
    let patches = format!("kubernetes: {{patches: [{patch}]}}\nnetwork:");
    let cluster = read(&sketch.text().replacen("network:", &patches, 1));
    let with = |contents: &str| Wanted {
        contents: [(patch.into(), Content::Text(contents.into()))].into(),
        ..wanted(&cluster, &sketch)
    };
    let first = plan(&with("one"), &look(&world, &sketch));
    run(&first, &world, Until::End, &mut Dice::new(7));
    assert!(plan(&with("one"), &look(&world, &sketch)).is_empty());
    assert_eq!(
        reason(&plan(&with("two"), &look(&world, &sketch)), "apply/lin1"),
        "blueprint changed: file /etc/kubernetes/patches/etcd.yaml; a node takes patches when it joins, as after \
         `mullion node reset lin1`"
    );
    // One that is no node takes them when it becomes one.
    let reset = plan_reset(&look(&world, &sketch), &"lin1".parse().unwrap());
    run(&reset, &world, Until::End, &mut Dice::new(3));
    assert_eq!(
        reason(&plan(&with("two"), &look(&world, &sketch)), "apply/lin1"),
        "blueprint changed: file /etc/kubernetes/patches/etcd.yaml"
    );
}

#[test]
fn an_image_that_changed_is_brought_to_nodes_that_are_up() {
    let sketch = Sketch::small();
    let world = sketch.world();
    let images = "images: [{ref: app.lan/app:1, archive: ./app.tar}]\nnetwork:";
    let cluster = read(&sketch.text().replacen("network:", images, 1));
    let with = |archive: &str, unusable| {
        let archive = Archive {
            reference: "app.lan/app:1".into(),
            file: "/srv/app.tar".into(),
            sha256: Some(Sha256Digest::of(archive.as_bytes())),
            unusable,
        };
        Wanted {
            archives: vec![archive],
            ..wanted(&cluster, &sketch)
        }
    };
    let first = plan(&with("one", None), &look(&world, &sketch));
    run(&first, &world, Until::End, &mut Dice::new(7));
    let observed = look(&world, &sketch);
    assert!(plan(&with("one", None), &observed).is_empty());
    let gone = Unusable {
        why: "it is gone".into(),
        remedy: "bring it back".into(),
    };
    let unusable = with("one", Some(gone));
    let words = only_obstacle(&plan(&unusable, &observed)).to_string();
    let expected = "the archive of images `/srv/app.tar` cannot be used: it is gone";
    assert_eq!(words, expected, "before anything is touched");
    let changed = plan(&with("two", None), &observed);
    assert_eq!(
        reason(&changed, "apply/lin1"),
        "blueprint changed: image app.lan/app:1"
    );
    // No machine is made again, and none leaves the cluster.
    for step in changed.steps() {
        let id = step.id.to_string();
        assert!(
            !id.starts_with("make") && !id.contains("reset") && !id.starts_with("remove"),
            "{id}"
        );
    }
    // Windows nodes are brought no images.
    assert!(
        !ids(&changed).contains(&"apply/win1"),
        "{:?}",
        ids(&changed)
    );
}

#[test]
fn a_feature_that_is_not_asked_for_any_more_is_said_to_stay() {
    let mut sketch = Sketch::small();
    sketch.old_windows.count = 1;
    let world = sketch.world();
    let with = read(&format!("windows: {{hyperv: true}}\n{}", sketch.text()));
    let first = plan(&wanted(&with, &sketch), &look(&world, &sketch));
    run(&first, &world, Until::End, &mut Dice::new(7));
    let observed = look(&world, &sketch);
    assert!(plan(&wanted(&with, &sketch), &observed).is_empty());
    let note = "the feature Microsoft-Hyper-V stays installed, since other programs may use it";
    let off = planned(&sketch, &observed);
    assert_eq!(
        reason(&off, "apply/oldwin1"),
        format!("blueprint changed: file /settings, feature Microsoft-Hyper-V is gone; {note}")
    );
    // It is said once, not with every other change.
    let text = format!("windows: {{hyperv: true, rdp: true}}\n{}", sketch.text());
    let on = plan(&wanted(&read(&text), &sketch), &observed);
    assert_eq!(
        reason(&on, "apply/oldwin1"),
        "blueprint changed: file /settings"
    );
}

#[test]
fn promise_06_a_mark_of_an_older_version_is_written_anew_and_nothing_is_made_or_reset() {
    use StepKind::{ApplyBlueprint, AwaitApi, AwaitNodeNetwork, AwaitReady, Inspect, Verify};

    let sketch = Sketch::small();
    let cluster = sketch.cluster();
    let wanted = wanted(&cluster, &sketch);
    let mut observed = look(&up(&sketch), &sketch);
    let older = OlderMark {
        fingerprint: Fingerprint::of(&"older"),
        topics: [("duty".into(), "worker".into())].into(),
    };
    for machine in observed.machines.values_mut() {
        let inside = machine.inside.as_mut().unwrap();
        inside.blueprint = Some(Applied::Older(older.clone()));
    }
    let plan = plan(&wanted, &observed);
    assert_eq!(
        reason(&plan, "apply/lin1"),
        "blueprint changed: an older version of Mullion wrote its mark"
    );
    let kinds: BTreeSet<_> = plan.steps().iter().map(|step| step.action.kind()).collect();
    assert_eq!(
        kinds,
        [
            ApplyBlueprint,
            AwaitApi,
            AwaitNodeNetwork,
            AwaitReady,
            Inspect,
            Verify
        ]
        .into()
    );
}

#[test]
fn other_dns_servers_reach_the_load_balancer_and_make_no_machine_again() {
    let mut sketch = Sketch::small();
    sketch.seats.count = 3;
    let plain = sketch.text();
    let with = |server: &str| {
        let servers = format!("network: {{upstreamDNS: [{server}], ");
        read(&plain.replacen("network: {", &servers, 1))
    };
    let (none, one, other) = (read(&plain), with("192.0.2.1"), with("192.0.2.2"));
    let now = |world: &World, cluster| plan(&wanted(cluster, &sketch), &look(world, &sketch));
    let world = sketch.world();
    run(&now(&world, &none), &world, Until::End, &mut Dice::new(7));
    for cluster in [&one, &other, &none] {
        let changed = now(&world, cluster);
        let why = reason(&changed, "apply/lb1");
        assert!(why.starts_with("blueprint changed: DNS servers"), "{why}");
        assert!(!ids(&changed).iter().any(|id| id.starts_with("make/")));
        run(&changed, &world, Until::End, &mut Dice::new(7));
        assert!(now(&world, cluster).is_empty());
    }
}

#[test]
fn promise_08_from_where_machines_are_reachable_changes_in_place() {
    let sketch = Sketch::small();
    let world = up(&sketch);
    let mut observed = look(&world, &sketch);
    let access = |plan: &Plan| match &plan.steps()[0].action {
        Action::MakeNetwork { access, .. } => *access,
        other => panic!("{other:?}"),
    };
    // The file opens it: the network is made again, and no machine is touched.
    let plan = edited(
        &sketch,
        "network: {",
        "network: {machineAccess: lan, ",
        &observed,
    );
    assert_eq!(ids(&plan), ["host-network/@local", "verify/smoke"]);
    assert_eq!(access(&plan), MachineAccess::Lan);
    let step = &plan.steps()[0];
    let title = step.action.title(None);
    assert!(title.ends_with("reachable from other networks"), "{title}");
    // A cluster of an older version has no guard: the first plan adds it, and nothing else.
    for host in observed.hosts.values_mut() {
        host.network_access = Some(MachineAccess::Lan);
    }
    let plan = planned(&sketch, &observed);
    assert_eq!(ids(&plan), ["host-network/@local", "verify/smoke"]);
    assert_eq!(access(&plan), MachineAccess::Host);
    assert_eq!(
        reason(&plan, "host-network/@local"),
        "`network.machineAccess` is `host`, and the firewall lets other networks in"
    );
    // Facts of an older version, or of a user who may not read the rules, say nothing of it.
    for host in observed.hosts.values_mut() {
        host.network_access = None;
    }
    assert!(planned(&sketch, &observed).steps().is_empty());
}
