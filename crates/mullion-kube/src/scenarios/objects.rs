use mullion_plan::Fingerprint;

use super::*;
use crate::{KubeError, Workload};

const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/mullion-sets";
const DAEMONS: &str = "/apis/apps/v1/namespaces/kube-flannel/daemonsets/flannel";
const SETTINGS: &str = "/api/v1/namespaces/kube-flannel/configmaps/flannel";

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    })
}

fn flannel() -> Vec<Value> {
    // In the wrong order, as a user's file may have them.
    vec![
        object("apps/v1", "DaemonSet", Some("kube-flannel"), "flannel"),
        object("v1", "ConfigMap", Some("kube-flannel"), "flannel"),
        object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            None,
            "flannel",
        ),
        object("v1", "Namespace", None, "kube-flannel"),
    ]
}

fn apply(api: &Api, version: u8, objects: &[Value]) -> Result<Look, KubeError> {
    api.apply_set(
        "network-flannel",
        &Fingerprint::of(&version),
        objects,
        &owner(),
    )
}

fn fingerprint(api: &Api) -> Option<Fingerprint> {
    let facts = api.facts(&owner()).unwrap().facts;
    facts.objects.get("network-flannel").cloned()
}

#[test]
fn a_set_is_applied_in_order_labelled_and_written_down_last() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    assert_eq!(
        fake.changes(),
        [
            format!("PATCH {RECORD}"),
            "PATCH /api/v1/namespaces/kube-flannel".into(),
            "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/flannel".into(),
            format!("PATCH {SETTINGS}"),
            format!("PATCH {DAEMONS}"),
            format!("PATCH {RECORD}"),
        ]
    );
    let labels = &fake.at(DAEMONS).unwrap()["metadata"]["labels"];
    assert_eq!(
        *labels,
        json!({"mullion.dev/set": "network-flannel", "mullion.dev/cluster": "demo", "mullion.dev/cluster-id": ClusterUid::of(1).as_str()})
    );
    let made = fake.made();
    let applied = made.iter().find(|made| made.path == DAEMONS).unwrap();
    assert!(applied.query.contains("fieldManager=mullion") && applied.query.contains("force=true"));
    assert_eq!(fingerprint(&api), Some(Fingerprint::of(&1_u8)));
}

#[test]
fn applying_the_same_again_writes_nothing_down_before_it_is_done() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    fake.forget_requests();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    let notes = fake
        .changes()
        .iter()
        .filter(|change| change.contains("mullion-sets"))
        .count();
    assert_eq!(notes, 1);
}

#[test]
fn what_is_no_longer_in_a_set_is_pruned() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    let fewer: Vec<_> = flannel()
        .into_iter()
        .filter(|object| object["kind"] != "ConfigMap")
        .collect();
    assert!(apply(&api, 2, &fewer).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_none());
    assert!(fake.at(DAEMONS).is_some());
    assert_eq!(fingerprint(&api), Some(Fingerprint::of(&2_u8)));
}

#[test]
fn an_object_that_another_set_took_over_is_not_pruned() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    let settings = [flannel().remove(1)];
    let taken = api.apply_set("policy", &Fingerprint::of(&1), &settings, &owner());
    assert!(taken.unwrap().is_so());
    assert!(apply(&api, 2, &flannel()[..1]).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_some(), "it is the other set's now");
    let objects = api.facts(&owner()).unwrap().facts.objects;
    assert_eq!(objects.len(), 2, "each set has its own place: {objects:?}");
}

#[test]
fn promise_09_two_clusters_do_not_delete_each_others_sets() {
    let fake = Fake::default();
    let api = fake.api();
    let theirs = Owner::new(&"other".parse().unwrap(), Some(&ClusterUid::of(2)));
    let set = "network-flannel";
    let apply_as = |owner: &Owner, version: u8, objects: &[Value]| {
        let fingerprint = Fingerprint::of(&version);
        api.apply_set(set, &fingerprint, objects, owner).unwrap()
    };
    let sets = |owner: &Owner| api.facts(owner).unwrap().facts.objects;
    assert!(apply_as(&owner(), 1, &flannel()).is_so());
    let labels = &fake.at(SETTINGS).unwrap()["metadata"]["labels"];
    assert_eq!(labels[crate::keys::ID_LABEL], ClusterUid::of(1).as_str());
    assert!(
        sets(&theirs).is_empty(),
        "planning would remove what it sees"
    );
    assert!(api.remove_set(set, &theirs).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_some() && fake.at(DAEMONS).is_some());
    // Both apply a set of one name: each finds its own again, and neither prunes what the other has.
    let settings = [flannel().remove(1)];
    assert!(apply_as(&theirs, 2, &settings).is_so());
    assert_eq!(sets(&theirs)[set], Fingerprint::of(&2_u8));
    assert_eq!(sets(&owner())[set], Fingerprint::of(&1_u8));
    assert!(
        apply_as(&theirs, 3, &[]).is_so(),
        "pruned, and it is theirs"
    );
    assert!(fake.at(SETTINGS).is_none() && fake.at(DAEMONS).is_some());
    assert!(apply_as(&theirs, 4, &settings).is_so());
    assert!(api.remove_set(set, &owner()).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_some(), "it is theirs now");
    assert!(fake.at(DAEMONS).is_none());
    assert!(sets(&owner()).is_empty());
    assert_eq!(sets(&theirs)[set], Fingerprint::of(&4_u8));
}

#[test]
fn a_webhook_that_refuses_leaves_the_set_unfinished_and_known() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()[1..]).unwrap().is_so());
    let words = "admission webhook \"guard.example\" denied the request: no daemons here";
    fake.answer_once(Method::PATCH, DAEMONS, 403, words);
    let error = apply(&api, 2, &flannel()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Refused);
    assert_eq!(
        error.in_one_line(),
        format!("cannot apply DaemonSet kube-flannel/flannel: the API server refuses: {words}")
    );
    let unfinished = fingerprint(&api).unwrap();
    assert_ne!(
        unfinished,
        Fingerprint::of(&1_u8),
        "it is no longer what it was"
    );
    assert_ne!(
        unfinished,
        Fingerprint::of(&2_u8),
        "and not yet what it should be"
    );
    assert!(api.remove_set("network-flannel", &owner()).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_none());
}

#[test]
fn a_run_that_is_cut_off_and_then_wants_less_leaves_nothing_behind() {
    let fake = Fake::default();
    let api = fake.api();
    fake.answer_once(Method::PATCH, DAEMONS, 503, "gone");
    assert_eq!(
        apply(&api, 1, &flannel()).unwrap_err().class(),
        ErrorClass::Unreachable
    );
    assert!(fake.at(SETTINGS).is_some(), "half of it is there");
    assert!(apply(&api, 2, &flannel()[..1]).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_none());
    assert!(fake.at("/api/v1/namespaces/kube-flannel").is_none());
}

#[test]
fn removing_goes_the_other_way_and_forgets_the_set_last() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    fake.forget_requests();
    assert!(api.remove_set("network-flannel", &owner()).unwrap().is_so());
    assert_eq!(
        fake.changes(),
        [
            format!("DELETE {DAEMONS}"),
            format!("DELETE {SETTINGS}"),
            "DELETE /apis/rbac.authorization.k8s.io/v1/clusterroles/flannel".into(),
            "DELETE /api/v1/namespaces/kube-flannel".into(),
            format!("PATCH {RECORD}"),
        ]
    );
    assert_eq!(fingerprint(&api), None);
    assert!(
        api.remove_set("network-flannel", &owner()).unwrap().is_so(),
        "removing twice is removing once"
    );
}

#[test]
fn a_namespace_that_takes_its_time_is_waited_for() {
    let fake = Fake::default();
    let api = fake.api();
    let namespace = [object("v1", "Namespace", None, "kube-flannel")];
    assert!(apply(&api, 1, &namespace).unwrap().is_so());
    let path = "/api/v1/namespaces/kube-flannel";
    let mut ending = fake.at(path).unwrap();
    ending["metadata"]["deletionTimestamp"] = "2026-11-15T09:00:00Z".into();
    fake.put(path, ending);
    let look = api.remove_set("network-flannel", &owner()).unwrap();
    assert_eq!(words(look), "Namespace kube-flannel is still being deleted");
    assert!(
        fingerprint(&api).is_some(),
        "it is not forgotten before it is gone"
    );
}

#[test]
fn an_object_of_somebody_elses_making_is_not_deleted_with_the_set() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    fake.put(SETTINGS, json!({"metadata": {"labels": {}}}));
    assert!(api.remove_set("network-flannel", &owner()).unwrap().is_so());
    assert!(fake.at(SETTINGS).is_some());
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "names": {"kind": "Thing"}},
    })
}

const DISCOVERY: &str = "/apis/example.org/v1";

fn serve_things(fake: &Fake) {
    fake.put(
        DISCOVERY,
        json!({
            "kind": "APIResourceList", "groupVersion": "example.org/v1",
            "resources": [{
                "name": "things", "singularName": "thing", "kind": "Thing", "namespaced": true,
                "verbs": ["get", "patch", "delete"],
            }],
        }),
    );
}

#[test]
fn a_kind_that_the_set_defines_is_waited_for() {
    let fake = Fake::default();
    let api = fake.api();
    let objects = [object("example.org/v1", "Thing", None, "a"), definition()];
    let look = apply(&api, 1, &objects).unwrap();
    assert_eq!(
        words(look),
        "the API server does not serve kind `Thing` yet"
    );
    serve_things(&fake);
    let thing = "/apis/example.org/v1/namespaces/default/things/a";
    fake.answer_once(
        Method::PATCH,
        thing,
        404,
        "the server could not find the requested resource",
    );
    assert!(!apply(&api, 1, &objects).unwrap().is_so());
    assert!(apply(&api, 1, &objects).unwrap().is_so());
    assert!(fake.at(thing).is_some());
    assert!(api.remove_set("network-flannel", &owner()).unwrap().is_so());
    assert!(fake.at(thing).is_none());
}

#[test]
fn a_kind_that_nobody_knows_is_refused() {
    let fake = Fake::default();
    let error = apply(
        &fake.api(),
        1,
        &[object("example.org/v1", "Thing", None, "a")],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cluster does not know objects of kind `Thing` in `example.org/v1`"
    );
    assert_eq!(error.class(), ErrorClass::Refused);
}

#[test]
fn a_list_is_taken_for_what_is_in_it_and_a_thing_that_is_no_object_is_named() {
    let fake = Fake::default();
    let api = fake.api();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": flannel()});
    assert!(apply(&api, 1, &[list]).unwrap().is_so());
    assert!(fake.at(DAEMONS).is_some());
    fake.forget_requests();
    let nameless = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}});
    let error = apply(&api, 2, &[flannel().remove(0), nameless]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "object 2 of set `network-flannel` has no metadata.name"
    );
    assert!(
        fake.made().is_empty(),
        "nothing is done before everything is read"
    );
}

#[test]
fn sets_that_are_applied_at_once_do_not_meet() {
    let fake = Fake::default();
    let api = fake.api();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let api = &api;
            scope.spawn(move || {
                let settings = object("v1", "ConfigMap", Some("a"), &format!("settings-{number}"));
                let fingerprint = Fingerprint::of(&number);
                let set = format!("addon-{number}");
                assert!(
                    api.apply_set(&set, &fingerprint, &[settings], &owner())
                        .unwrap()
                        .is_so()
                );
            });
        }
    });
    assert_eq!(api.facts(&owner()).unwrap().facts.objects.len(), 8);
}

#[test]
fn proofs_last_until_they_are_forgotten() {
    let fake = Fake::default();
    let api = fake.api();
    api.forget_proofs().unwrap();
    assert!(apply(&api, 1, &flannel()).unwrap().is_so());
    api.prove("smoke", &cluster()).unwrap();
    api.prove("network", &cluster()).unwrap();
    let proven = |api: &Api| api.facts(&owner()).unwrap().facts.proven;
    assert_eq!(
        proven(&api).into_iter().collect::<Vec<_>>(),
        ["network", "smoke"]
    );
    api.forget_proofs().unwrap();
    assert!(proven(&api).is_empty());
    assert_eq!(
        fingerprint(&api),
        Some(Fingerprint::of(&1_u8)),
        "sets are not forgotten"
    );
}

#[test]
fn a_workload_that_does_not_come_up_says_why() {
    let fake = Fake::default();
    let api = fake.api();
    let look = api
        .rolled_out(Workload::DaemonSet, "kube-flannel", "flannel")
        .unwrap();
    assert_eq!(words(look), "there is no kube-flannel/flannel yet");
    fake.put(
        DAEMONS,
        json!({
            "metadata": {"generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "flannel"}}, "template": {}},
            "status": {
                "observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1,
                "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 1,
            },
        }),
    );
    fake.put(
        "/api/v1/namespaces/kube-flannel/pods/flannel-x",
        json!({
            "metadata": {"labels": {"app": "flannel"}},
            "spec": {"nodeName": "lin1", "containers": []},
            "status": {"containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 3,
                "state": {"waiting": {"reason": "ErrImageNeverPull"}},
            }]},
        }),
    );
    let look = api
        .rolled_out(Workload::DaemonSet, "kube-flannel", "flannel")
        .unwrap();
    assert_eq!(
        words(look),
        "1 of 2 pods of flannel are available: flannel-x on lin1: container main waits, ErrImageNeverPull"
    );
    let deployment = json!({
        "metadata": {"generation": 1},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    });
    fake.put(
        "/apis/apps/v1/namespaces/kube-system/deployments/coredns",
        deployment,
    );
    let look = api
        .rolled_out(Workload::Deployment, "kube-system", "coredns")
        .unwrap();
    assert!(look.is_so());
}
