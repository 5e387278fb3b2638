//! What a prepared machine lacks to be a node, and what the node lacks to be as wanted.

use std::collections::BTreeSet;

use mullion_spec::cluster::Duty;
use mullion_spec::value::Taint;
use mullion_spec::words::Os;

use super::machine::{Link, Wait, pending, pending_reason, prior};
use super::view::{Api, Item, Sight, View};
use crate::action::{Action, Connection, Membership, Prior, SnapshotBefore};
use crate::observed::{ClusterFacts, ClusterId, Inside, Kubeadm, NodeFacts};
use crate::stage::Stage;
use crate::wanted;

/// Until it is a node of the cluster.
pub(super) fn entry(view: &View<'_>, item: &Item<'_>, is_founder: bool) -> Vec<Link> {
    let stage = match item.duty() {
        Duty::LoadBalancer => return Vec::new(),
        Duty::ControlPlane => Stage::ControlPlane,
        Duty::Worker => Stage::Join,
    };
    let name = item.name();
    let residue = match item.sight {
        Sight::Seen(inside) => {
            let has_lost = inside.kubeadm == Some(Kubeadm::Finished);
            inside.joined.is_some() || inside.control_plane || has_lost
        }
        _ => false,
    };
    let reset = |reason: String| {
        // Where there is no cluster, what is left is of one that was never finished. The reset itself saves what it can.
        if matches!(view.api, Api::Absent) {
            let keeps_etcd = false;
            return vec![Link::new(stage, Action::Reset { keeps_etcd }, reason)];
        }
        let mut links: Vec<_> = saving(item, stage, &reason).into_iter().collect();
        let keeps_etcd = !links.is_empty();
        let reset = Link::new(stage, Action::Reset { keeps_etcd }, reason);
        links.push(reset.waits(&[Wait::ControlPlane]));
        links
    };
    let join = |prior, reason: String| {
        let action = Action::Join {
            duty: item.duty(),
            endpoint: view.endpoint.clone(),
            document: view.documents_of(item).join.clone(),
            taints: view.wishes[item.wish].taints.clone(),
            prior,
        };
        Link::new(stage, action, reason).waits(entering(item))
    };
    match view.api {
        Api::Absent => {
            let mut links = Vec::new();
            if residue {
                links.extend(reset(format!(
                    "{name} holds the rest of a cluster that is gone"
                )));
            }
            let prior = prior(item.sight);
            if is_founder {
                links.push(initialise(view, item, prior));
            } else {
                links.push(join(prior, "the cluster is new".into()));
            }
            links
        }
        // A control plane that holds its data already is left as it is by initialising it.
        Api::Hidden if is_founder => vec![initialise(view, item, prior(item.sight))],
        Api::Hidden | Api::Silent { .. } => {
            let (id, members) = match view.api {
                Api::Silent { id, members } => (id, members),
                _ => (None, None),
            };
            let is_member = members.is_some_and(|members| members.contains(name));
            match item.sight {
                Sight::Seen(inside) if belongs(inside, id, item.duty()) => return Vec::new(),
                // Where it is a node already, joining changes nothing.
                Sight::Blind => {
                    let reason = format!("nobody has looked whether {name} is a node");
                    return vec![join(Prior::Unknown, reason)];
                }
                _ => {}
            }
            let mut links = Vec::new();
            if residue {
                links.extend(reset(format!("{name} holds the rest of another cluster")));
            }
            if is_member {
                links.push(forget(stage, item, "it left etcd without a word"));
            }
            links.push(join(
                Prior::Unknown,
                format!("{name} is no node of this cluster"),
            ));
            links
        }
        Api::Known(cluster) => {
            let taints = &view.wishes[item.wish].taints;
            rejoin(item, cluster, stage, residue, taints, join)
        }
    }
}

/// Compares what the machine and the API server say of each other.
fn rejoin(
    item: &Item<'_>,
    cluster: &ClusterFacts,
    stage: Stage,
    residue: bool,
    taints: &BTreeSet<Taint>,
    join: impl Fn(Prior, String) -> Link,
) -> Vec<Link> {
    let name = item.name();
    let node = cluster.nodes.get(name.as_str());
    let is_member = cluster.members.contains(name);
    let says_so = match item.sight {
        Sight::Fresh => false,
        // Nobody could ask it; the API server's word is good enough to leave it alone.
        Sight::Blind => true,
        Sight::Seen(inside) => belongs(inside, Some(&cluster.id), item.duty()),
    };
    // The control plane of an existing cluster has members that are no machines of ours.
    let is_seat = item.duty() == Duty::ControlPlane;
    let fits = is_member == is_seat;
    match node {
        Some(node) if says_so && fits => {
            // A run that was cut off after the registration leaves it to the next.
            let lacks_role = is_seat && !node.labels.contains_key(wanted::CONTROL_PLANE_LABEL);
            let reason = || format!("node {name} lacks the labels of its role");
            let link = lacks_role.then(|| register(item, taints, Prior::Different, reason()));
            return link.into_iter().collect();
        }
        // Its static pods go with its node, so only etcd itself can tell that it is no member.
        None if is_still_joined(item, cluster) && (fits || (is_seat && cluster.etcd.is_none())) => {
            let reason = format!("{name} has joined, and its Node object is gone");
            return vec![register(item, taints, Prior::Absent, reason)];
        }
        _ => {}
    }
    // Its kubelet and its member of etcd may run. The join asks the machine first, and registers a node that has joined.
    if node.is_none() && is_seat && matches!(item.sight, Sight::Blind) {
        let reason = format!("{name} has no Node object, and its machine did not answer");
        return vec![join(Prior::Unknown, reason)];
    }
    let mut links = Vec::new();
    let why = match (node, item.sight) {
        (None, Sight::Seen(_)) if residue => format!("{name} began to join and is no node"),
        (None, _) => format!("{name} is no node"),
        (
            Some(_),
            Sight::Seen(Inside {
                expired: Some(why), ..
            }),
        ) => format!("{name}: {why}"),
        (Some(_), Sight::Fresh) => format!("{name} is made anew, and its old node is left"),
        (Some(_), _) if !fits => format!("{name} changes its role"),
        (Some(_), _) => format!("{name} lost its membership"),
    };
    let is_there = !matches!(item.sight, Sight::Fresh);
    // A kubelet that is let in nowhere ends no pod: nobody would see them go.
    let is_deaf = matches!(item.sight, Sight::Seen(inside) if inside.expired.is_some());
    if node.is_some() && is_there && !is_deaf {
        links.push(Link::new(stage, Action::Drain, why.clone()).waits(&[Wait::ControlPlane]));
    }
    if residue || (is_there && node.is_some()) {
        let saves = if is_member {
            Some(save(stage, &why))
        } else {
            saving(item, stage, &why)
        };
        let keeps_etcd = saves.is_some();
        links.extend(saves);
        let reset = Link::new(stage, Action::Reset { keeps_etcd }, why.clone());
        links.push(reset.waits(&[Wait::ControlPlane]));
    }
    if node.is_some() || is_member {
        links.push(forget_as(stage, why.clone(), is_member));
    }
    let prior = match item.sight {
        _ if node.is_some() || is_member => Prior::Different,
        sight => prior(sight),
    };
    links.push(join(prior, why));
    links
}

/// Whether a machine is a node of the cluster by its own word, whole and under this name, so that its kubelet registers
/// it when it starts.
fn is_still_joined(item: &Item<'_>, cluster: &ClusterFacts) -> bool {
    let Sight::Seen(inside) = item.sight else {
        return false;
    };
    let name = item.name().as_str();
    let is_named = if let Some(node) = &inside.node {
        node == name
    } else {
        // An older agent does not tell: then it is another node's that has this machine's address.
        let own = item.facts.and_then(|facts| facts.address);
        let mut nodes = cluster.nodes.values();
        own.is_none() || !nodes.any(|node| node.address == own)
    };
    is_named
        && inside.kubeadm != Some(Kubeadm::Begun)
        && belongs(inside, Some(&cluster.id), item.duty())
}

fn register(item: &Item<'_>, taints: &BTreeSet<Taint>, prior: Prior, reason: String) -> Link {
    let duty = item.duty();
    let action = Action::Register {
        labels: wanted::role_labels(duty),
        taints: taints.clone(),
        prior,
    };
    let stage = match duty {
        Duty::ControlPlane => Stage::ControlPlane,
        _ => Stage::Join,
    };
    Link::new(stage, action, reason).waits(&[Wait::ControlPlane])
}

/// The snapshot before a machine is emptied that holds, or may hold, etcd's data.
fn saving(item: &Item<'_>, stage: Stage, why: &str) -> Option<Link> {
    let may_hold = match item.sight {
        Sight::Fresh => false,
        Sight::Blind => item.is_seat(),
        Sight::Seen(inside) => inside.control_plane,
    };
    may_hold.then(|| save(stage, why))
}

fn save(stage: Stage, why: &str) -> Link {
    let before = SnapshotBefore::Reset;
    Link::new(stage, Action::SaveEtcd { before }, why).waits(&[Wait::ControlPlane])
}

/// New certificates for a control plane that stays one, where the old ones end soon.
pub(super) fn renewal(view: &View<'_>, item: &Item<'_>, enter: &[Link]) -> Vec<Link> {
    let Sight::Seen(inside) = item.sight else {
        return Vec::new();
    };
    let Some(why) = inside.renewal() else {
        return Vec::new();
    };
    // One that joins anew gets new ones with that.
    let is_kept = enter.iter().all(Link::is_registration);
    let (before, endpoint) = match view.api {
        Api::Known(_) => (SnapshotBefore::Renewal, Some(item.own_endpoint())),
        // Its API server answers when most members of etcd have certificates that are good.
        Api::Silent { .. } => (SnapshotBefore::Repair, None),
        Api::Absent | Api::Hidden => return Vec::new(),
    };
    if !item.is_seat() || !is_kept {
        return Vec::new();
    }
    let reason = format!("{}: {why}", item.name());
    [Action::SaveEtcd { before }, Action::Renew { endpoint }]
        .map(|action| Link::new(Stage::ControlPlane, action, reason.clone()))
        .into()
}

/// What a machine waits for before it enters. One that exists already is brought images.
fn entering(item: &Item<'_>) -> &'static [Wait] {
    let group = item.group();
    if group.carrier.is_made() || group.system.os() == Os::Windows {
        &[Wait::ControlPlane]
    } else {
        &[Wait::ControlPlane, Wait::Stock(Os::Linux)]
    }
}

fn initialise(view: &View<'_>, item: &Item<'_>, prior: Prior) -> Link {
    let action = Action::Init {
        endpoint: view.endpoint.clone(),
        document: view.documents_of(item).init.clone(),
        prior,
    };
    let reason = match prior {
        Prior::Unknown => "it is not known whether there is a cluster",
        _ => "there is no cluster",
    };
    Link::new(Stage::ControlPlane, action, reason).waits(entering(item))
}

fn forget(stage: Stage, item: &Item<'_>, why: &str) -> Link {
    forget_as(stage, format!("{}: {why}", item.name()), true)
}

fn forget_as(stage: Stage, reason: String, is_member: bool) -> Link {
    let membership = if is_member {
        Membership::NodeAndMember
    } else {
        Membership::NodeOnly
    };
    Link::new(stage, Action::Forget { membership }, reason).waits(&[Wait::ControlPlane])
}

/// Whether a machine says that it belongs to that cluster, in that role.
fn belongs(inside: &Inside, id: Option<&ClusterId>, duty: Duty) -> bool {
    let is_here = match id {
        Some(id) => inside.joined.as_ref() == Some(id),
        None => inside.joined.is_some(),
    };
    is_here && inside.expired.is_none() && inside.control_plane == (duty == Duty::ControlPlane)
}

/// What was known of the node that the links of [`entry`] make; `None` when there are none.
pub(super) fn entrance(links: &[Link]) -> Option<Prior> {
    links.iter().find_map(|link| match link.action {
        Action::Init { prior, .. }
        | Action::Join { prior, .. }
        | Action::Register {
            prior: prior @ Prior::Absent,
            ..
        } => Some(prior),
        _ => None,
    })
}

/// Until the node is as wanted, and the user's last commands have run.
pub(super) fn settling(
    view: &View<'_>,
    item: &Item<'_>,
    entrance: Option<Prior>,
    is_restarted: bool,
) -> Vec<Link> {
    let mut links = Vec::new();
    let name = item.name();
    if item.duty() != Duty::LoadBalancer {
        let node = node(view, item).filter(|_| entrance.is_none());
        // Why everything is planned: the node is new, or it may be, or nobody could ask for it.
        let new = match entrance {
            Some(Prior::Absent | Prior::Different) => format!("{name} is a new node"),
            Some(Prior::Unknown) => format!("{name} may be a new node"),
            None => view.api_reason().into(),
        };
        match node {
            Some(node) if node.certificates => {}
            Some(_) => links.push(certificates(format!("{name} waits for its certificates"))),
            None => links.push(certificates(new.clone())),
        }
        links.extend(marking(view, item, node, &new));
        if view.has_network_plugin() {
            let is_windows = item.group().system.os() == Os::Windows;
            let network = match node {
                None => Some(new.clone()),
                Some(node) if !node.network => Some(format!("the network of {name} is not up")),
                Some(_) if is_windows && is_restarted => {
                    Some(format!("{name} may have been restarted"))
                }
                Some(_) => None,
            };
            let ready = match node {
                None => Some(new),
                Some(node) if !node.ready => Some(format!("{name} is not Ready")),
                Some(_) if is_restarted => Some(format!("the services of {name} were restarted")),
                Some(_) => network.clone(),
            };
            let connection = if is_windows {
                Connection::Drops
            } else {
                Connection::Stays
            };
            links.extend(network.map(|reason| {
                let action = Action::AwaitNodeNetwork { connection };
                Link::new(Stage::Settle, action, reason).waits(&[Wait::Objects])
            }));
            links.extend(ready.map(|reason| {
                Link::new(Stage::Settle, Action::AwaitReady, reason).waits(&[Wait::Objects])
            }));
        }
    }
    let wish = &view.wishes[item.wish];
    let commands = pending(&wish.after, item.sight, |inside| &inside.after);
    if !commands.is_empty() {
        let reason = pending_reason(commands.len());
        let variables = view.documents_of(item).variables.clone();
        let action = Action::RunAfter {
            commands,
            variables,
        };
        links.push(Link::new(Stage::After, action, reason));
    }
    links
}

fn certificates(reason: String) -> Link {
    Link::new(Stage::Settle, Action::ApproveCertificates, reason).waits(&[Wait::ControlPlane])
}

fn marking(view: &View<'_>, item: &Item<'_>, node: Option<&NodeFacts>, new: &str) -> Option<Link> {
    let labels = wanted::labels(item.group());
    let taints = &view.wishes[item.wish].taints;
    let mut drop_labels = BTreeSet::new();
    let mut drop_taints = BTreeSet::new();
    let reason = match node {
        None => new.to_owned(),
        Some(node) => {
            drop_labels = node
                .set_labels
                .iter()
                .filter(|key| !labels.contains_key(*key))
                .cloned()
                .collect();
            let kubeadm = mullion_render::control_plane_taint();
            drop_taints = node
                .taints
                .iter()
                .filter(|taint| node.set_taints.contains(taint) || **taint == kubeadm)
                .filter(|taint| !taints.contains(taint))
                .cloned()
                .collect();
            let keys: BTreeSet<_> = labels.keys().cloned().collect();
            let lacks_label = labels
                .iter()
                .any(|(key, value)| node.labels.get(key) != Some(value));
            if lacks_label || node.set_labels != keys {
                "its labels differ from the file's".into()
            } else if !taints.is_subset(&node.taints)
                || !drop_taints.is_empty()
                || node.set_taints != *taints
            {
                "its taints differ from the file's".into()
            } else if node.cordoned {
                "it was drained".into()
            } else if !node.ours {
                "it does not carry the cluster's label".into()
            } else if node.without_id {
                "it does not carry the cluster's id".into()
            } else {
                return None;
            }
        }
    };
    let action = Action::Mark {
        labels,
        taints: taints.clone(),
        drop_labels,
        drop_taints,
    };
    Some(Link::new(Stage::Settle, action, reason).waits(&[Wait::ControlPlane]))
}

/// The machine's node, if the API server answers and knows it.
pub(super) fn node<'a>(view: &View<'a>, item: &Item<'_>) -> Option<&'a NodeFacts> {
    match view.api {
        Api::Known(cluster) => cluster.nodes.get(item.name().as_str()),
        _ => None,
    }
}
