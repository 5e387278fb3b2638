//! The API server, sets of objects, and suites.

use mullion_kube::Owner;
use mullion_plan::{Action, Carried, ClusterUid, Fingerprint, ObjectSet, Rollout, RolloutKind};
use serde_json::{Value, json};

use super::world::{NOWHERE, World, cluster};
use super::{Case, change};

fn settings(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {"value": value},
    })
}

/// The cluster has two sets of objects.
fn has_sets(world: &World) {
    let owner = Owner::new(&cluster(), Some(&ClusterUid::of(1)));
    for set in ["a", "b"] {
        let objects = [settings(set, "1")];
        let look = world
            .client()
            .apply_set(set, &Fingerprint::of(&set), &objects, &owner);
        assert!(look.unwrap().is_so());
    }
}

fn verify(rollouts: Vec<Rollout>) -> Action {
    Action::Verify {
        suite: "smoke".into(),
        rollouts,
    }
}

fn rollout(kind: RolloutKind, namespace: &str, name: &str) -> Vec<Rollout> {
    vec![Rollout {
        kind,
        namespace: namespace.into(),
        name: name.into(),
    }]
}

pub(super) fn cases() -> Vec<Case> {
    use RolloutKind::{DaemonSet, Deployment};
    vec![
        Case::new("cp1", |world| Action::AwaitApi {
            endpoint: world.api.place(),
        })
        .calls(change!(AwaitApi.endpoint = NOWHERE.into())),
        Case::new(None, |world| Action::AwaitApi {
            endpoint: world.api.place(),
        })
        .calls(change!(AwaitApi.endpoint = NOWHERE.into())),
        Case::new(None, |_| Action::ApplyObjects {
            set: "a".into(),
            objects: Carried::new(ObjectSet(vec![settings("a", "1")])),
        })
        .calls(change!(ApplyObjects.set = "b".into()))
        .calls(change!(
            ApplyObjects.objects = Carried::new(ObjectSet(vec![settings("a", "2")]))
        )),
        Case::new(None, |_| Action::RemoveObjects { set: "a".into() })
            .within(has_sets)
            .calls(change!(RemoveObjects.set = "b".into())),
        Case::new(None, |_| verify(rollout(DaemonSet, "a", "b")))
            .calls(change!(Verify.suite = "other".into()))
            .calls(change!(Verify.rollouts = Vec::new()))
            .calls(change!(Verify.rollouts = rollout(Deployment, "a", "b")))
            .calls(change!(Verify.rollouts = rollout(DaemonSet, "b", "b")))
            .calls(change!(Verify.rollouts = rollout(DaemonSet, "a", "a"))),
    ]
}
