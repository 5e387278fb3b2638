//! What makes machines nodes, keeps them so, and takes them out.

use std::collections::{BTreeMap, BTreeSet};

use mullion_plan::{Action, Carried, Connection, Document, Membership, Prior, SnapshotBefore};
use mullion_render::{InitDocument, JoinDocument};
use mullion_spec::cluster::Duty;
use mullion_spec::value::Taint;
use mullion_wire::{Certificate, Certificates, KubeadmPhase};
use serde_json::json;

use super::super::lock;
use super::world::{NOWHERE, World, name};
use super::{Case, change};

fn init(change: impl Fn(&mut InitDocument)) -> Document<InitDocument> {
    let mut document = InitDocument {
        configuration: vec![json!({"kind": "InitConfiguration"})],
        ignore: BTreeSet::new(),
        patches: "/patches".into(),
    };
    change(&mut document);
    Document::Known(Carried::new(document))
}

fn join(change: impl Fn(&mut JoinDocument)) -> Document<JoinDocument> {
    let mut document = JoinDocument {
        configuration: json!({"kind": "JoinConfiguration"}),
        discovery_path: "/discovery".into(),
        ignore: BTreeSet::new(),
        patches: "/patches".into(),
    };
    change(&mut document);
    Document::Known(Carried::new(document))
}

fn joining(world: &World, prior: Prior) -> Action {
    Action::Join {
        duty: Duty::Worker,
        endpoint: world.api.place(),
        document: join(|_| ()),
        taints: BTreeSet::new(),
        prior,
    }
}

fn taints(text: &str) -> BTreeSet<Taint> {
    [text.parse().unwrap()].into()
}

fn labels(value: &str) -> BTreeMap<String, String> {
    [("role".to_owned(), value.to_owned())].into()
}

const LIN1: &str = "/api/v1/nodes/lin1";

/// The node of `lin1`, as its kubelet registers it.
fn has_node(world: &World) {
    world.api.put(
        LIN1,
        json!({
            "metadata": {"labels": {"kubernetes.io/hostname": "lin1"}},
            "status": {"conditions": [
                {"type": "NetworkUnavailable", "status": "False"},
                {"type": "Ready", "status": "True"},
            ]},
        }),
    );
}

/// The agents tell that their machines are workers of the cluster.
fn has_joined(world: &World) {
    let authority = world.authority();
    let facts = &mut lock(&world.machine).facts;
    facts.joined = Some(authority);
    facts.kubeadm = Some(KubeadmPhase::Finished);
}

/// The agents tell that their control planes have certificates that end in years.
fn has_certificates(world: &World) {
    let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap();
    lock(&world.machine).facts.certificates = Some(Box::new(Certificates {
        first: Certificate {
            file: "pki/apiserver.crt".into(),
            issued: now,
            expires: now + (1 << 28),
        },
        authority: None,
        renewing: false,
        admin: None,
    }));
}

/// A node with a label and a taint of ours.
fn has_marks(world: &World) {
    let set = json!({"labels": ["ours"], "taints": ["ours:NoSchedule"]});
    world.api.put(
        LIN1,
        json!({
            "metadata": {
                "labels": {"ours": "1"},
                "annotations": {mullion_kube::SET_ANNOTATION: set.to_string()},
            },
            "spec": {"taints": [{"key": "ours", "effect": "NoSchedule"}]},
        }),
    );
}

/// We hold no kubeconfig of the cluster.
fn forgets_kubeconfig(world: &World) {
    fs_err::remove_file(world.scene.state().kubeconfig_path()).unwrap();
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("cp1", |world| Action::Init {
            endpoint: world.api.place(),
            document: init(|_| ()),
            prior: Prior::Absent,
        })
        .calls(change!(
            Init.document = init(|document| document.configuration.push(json!({})))
        ))
        .calls(change!(
            Init.document = init(|document| document.ignore = ["Swap".into()].into())
        ))
        .calls(change!(
            Init.document = init(|document| document.patches = "/other".into())
        ))
        .calls(change!(Init.document = Document::AfterInspection)),
        // Somebody else answers at the endpoint: no kubeconfig leads there yet.
        Case::new("cp1", |world| Action::Init {
            endpoint: world.api.place(),
            document: init(|_| ()),
            prior: Prior::Unknown,
        })
        .within(forgets_kubeconfig)
        .calls(change!(Init.endpoint = NOWHERE.into()))
        .calls(change!(Init.prior = Prior::Absent)),
        Case::new("lin1", |world| joining(world, Prior::Absent))
            .calls(change!(Join.duty = Duty::ControlPlane))
            .calls(change!(Join.endpoint = "192.0.2.1:6443".into()))
            .calls(change!(
                Join.document = join(|document| document.configuration = json!({"kind": "Other"}))
            ))
            .calls(change!(
                Join.document = join(|document| document.discovery_path = "/other".into())
            ))
            .calls(change!(
                Join.document = join(|document| document.ignore = ["Swap".into()].into())
            ))
            .calls(change!(
                Join.document = join(|document| document.patches = "/other".into())
            ))
            .calls(change!(Join.document = Document::AfterInspection)),
        // A node already, which nobody could see when it was planned.
        Case::new("lin1", |world| joining(world, Prior::Unknown))
            .within(|world| {
                has_joined(world);
                has_node(world);
            })
            .calls(change!(Join.prior = Prior::Absent)),
        // Its Node object was deleted. The attempt before restarted its kubelet, which has registered it again.
        Case::new("lin1", |world| joining(world, Prior::Absent))
            .within(has_joined)
            .after(|world, adapter| {
                let first = world.perform(adapter, Some("lin1"), &joining(world, Prior::Absent));
                assert!(first.outcome[0].contains("NotYet"), "{first:#?}");
                has_node(world);
            })
            .calls(change!(Join.taints = taints("a:NoSchedule"))),
        Case::new("lin1", |_| Action::Register {
            labels: labels("a"),
            taints: taints("a:NoSchedule"),
            prior: Prior::Absent,
        })
        .within(has_node)
        .calls(change!(Register.labels = labels("b")))
        .calls(change!(Register.taints = taints("b:NoSchedule"))),
        Case::new("lin1", |_| Action::Register {
            labels: labels("a"),
            taints: taints("a:NoSchedule"),
            prior: Prior::Absent,
        })
        .calls(change!(Register.prior = Prior::Different)),
        // Of three members one is healthy: etcd cannot do without it, and a snapshot of it can be saved.
        Case::new("cp1", |_| Action::SaveEtcd {
            before: SnapshotBefore::Reset,
        })
        .within(|world| world.play_etcd(1))
        .calls(change!(SaveEtcd.before = SnapshotBefore::Renewal))
        .calls(change!(SaveEtcd.before = SnapshotBefore::Repair))
        .calls(change!(SaveEtcd.before = SnapshotBefore::Removal)),
        // Without a kubeconfig of ours, the machine is asked for its own before everything is removed.
        Case::new("cp1", |_| Action::SaveEtcd {
            before: SnapshotBefore::Removal,
        })
        .within(forgets_kubeconfig)
        .calls(change!(SaveEtcd.before = SnapshotBefore::Repair))
        .calls(change!(SaveEtcd.before = SnapshotBefore::Renewal)),
        Case::new("cp1", |world| Action::Renew {
            endpoint: Some(world.api.place()),
        })
        .within(has_certificates)
        .calls(change!(Renew.endpoint = Some(NOWHERE.into())))
        .calls(change!(Renew.endpoint = None)),
        Case::new("lin1", |_| Action::Drain).within(has_node),
        Case::new("cp1", |_| Action::Reset { keeps_etcd: true })
            .within(|world| world.play_etcd(3))
            .calls(change!(Reset.keeps_etcd = false)),
        Case::new("cp1", |_| Action::Forget {
            membership: Membership::NodeAndMember,
        })
        .within(|world| world.play_etcd(3))
        .calls(change!(Forget.membership = Membership::NodeOnly)),
        Case::new("lin1", |_| Action::ApproveCertificates)
            .within(has_node)
            .after(|_, adapter| {
                lock(&adapter.node_addresses).insert(name("lin1"), [10, 1, 0, 4].into());
            }),
        Case::new("lin1", |_| Action::Mark {
            labels: labels("a"),
            taints: taints("a:NoSchedule"),
            drop_labels: BTreeSet::new(),
            drop_taints: BTreeSet::new(),
        })
        .within(has_marks)
        .calls(change!(Mark.labels = labels("b")))
        .calls(change!(Mark.taints = taints("b:NoSchedule")))
        .calls(change!(Mark.drop_labels = ["ours".into()].into()))
        .calls(change!(Mark.drop_taints = taints("ours:NoSchedule"))),
        Case::new("lin1", |_| Action::AwaitNodeNetwork {
            connection: Connection::Stays,
        })
        .within(has_node)
        .calls(change!(AwaitNodeNetwork.connection = Connection::Drops)),
        Case::new("lin1", |_| Action::AwaitReady).within(has_node),
    ]
}
