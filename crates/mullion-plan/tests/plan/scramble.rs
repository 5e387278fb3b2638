//! Facts that contradict each other: what a broken discovery, or a world in change, may report.

use mullion_plan::{ClusterId, Fingerprint, MachineFacts, Observed, Place, Power};
use mullion_testkit::Dice;

/// Changes a handful of facts at random.
pub(crate) fn scramble(observed: &mut Observed, dice: &mut Dice) {
    for _ in 0..=dice.roll(8) {
        match dice.roll(4) {
            0 => scramble_supply(observed, dice),
            1 => scramble_machine(observed, dice),
            2 => scramble_cluster(observed, dice),
            _ => scramble_node(observed, dice),
        }
    }
}

fn scramble_supply(observed: &mut Observed, dice: &mut Dice) {
    match dice.roll(6) {
        0 => observed.artifacts.clear(),
        1 => observed.templates.clear(),
        2 => observed.hosts.clear(),
        3 => {
            let host = observed.hosts.entry(Place::Here).or_default();
            host.network = Some("10.99.7.0/24".parse().unwrap());
        }
        4 => {
            let host = observed.hosts.entry(Place::Here).or_default();
            host.network_lacks = Some("a part".into());
        }
        _ => {
            let host = observed.hosts.entry(Place::On("h1".parse().unwrap()));
            host.or_default().network = Some("10.99.0.0/24".parse().unwrap());
        }
    }
}

fn scramble_machine(observed: &mut Observed, dice: &mut Dice) {
    let names: Vec<_> = observed.machines.keys().cloned().collect();
    let Some(name) = names.get(dice.pick(names.len())) else {
        return;
    };
    let choice = dice.roll(14);
    let Some(facts) = observed.machines.get_mut(name) else {
        return;
    };
    match choice {
        0 => {
            observed.machines.remove(name);
        }
        1 => {
            let copy: MachineFacts = facts.clone();
            let stray = format!("stray{}", dice.roll(3)).parse().unwrap();
            observed.machines.insert(stray, copy);
        }
        2 => facts.ours = !facts.ours,
        3 => facts.made = !facts.made,
        4 => facts.whole = false,
        5 => facts.power = Power::Off,
        6 => facts.inside = None,
        7 => facts.address = None,
        8 => facts.address = Some("10.99.0.2".parse().unwrap()),
        9 => facts.template = None,
        _ => {
            let Some(inside) = &mut facts.inside else {
                return;
            };
            match choice {
                10 => inside.agent = None,
                11 => inside.reboot_pending = true,
                12 => inside.joined = Some(ClusterId("another".into())),
                _ => inside.control_plane = !inside.control_plane,
            }
        }
    }
}

fn scramble_cluster(observed: &mut Observed, dice: &mut Dice) {
    let choice = dice.roll(9);
    let Some(cluster) = &mut observed.cluster else {
        return;
    };
    match choice {
        0 => observed.cluster = None,
        1 => cluster.answers = false,
        2 => cluster.members.clear(),
        3 => {
            cluster.members.insert("nobody1".parse().unwrap());
        }
        4 => cluster.nodes.clear(),
        5 => cluster.objects.clear(),
        6 => {
            let odd = Fingerprint::of(&"odd");
            cluster.objects.insert("left-over".into(), odd);
        }
        7 => cluster.id = ClusterId("another".into()),
        _ => cluster.endpoint = None,
    }
}

fn scramble_node(observed: &mut Observed, dice: &mut Dice) {
    let Some(cluster) = &mut observed.cluster else {
        return;
    };
    let names: Vec<_> = cluster.nodes.keys().cloned().collect();
    let Some(name) = names.get(dice.pick(names.len())) else {
        return;
    };
    let choice = dice.roll(10);
    let Some(node) = cluster.nodes.get_mut(name) else {
        return;
    };
    match choice {
        0 => {
            cluster.nodes.remove(name);
        }
        1 => {
            let copy = node.clone();
            cluster.nodes.insert("Not.a-machine".into(), copy.clone());
            cluster.nodes.insert("stray9".into(), copy);
        }
        2 => node.ready = !node.ready,
        3 => node.network = !node.network,
        4 => node.certificates = false,
        5 => node.cordoned = true,
        6 => node.taints.clear(),
        7 => node.set_labels = ["gone".to_owned()].into(),
        8 => node.kubernetes = Some("1.35.0".parse().unwrap()),
        _ => node.address = Some("10.99.0.9".parse().unwrap()),
    }
}
