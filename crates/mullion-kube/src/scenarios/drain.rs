use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mullion_plan::{Attend, News, Unattended};

use super::*;

const PODS: &str = "/api/v1/namespaces/shop/pods";

#[derive(Default)]
struct Listener {
    lines: Mutex<Vec<String>>,
    is_called_off: AtomicBool,
}

impl Attend for Listener {
    fn hear(&self, news: News) {
        if let News::Line(line) = news {
            self.lines.lock().unwrap().push(line);
        }
    }
    fn is_called_off(&self) -> bool {
        self.is_called_off.load(Ordering::Relaxed)
    }
}

fn pod(owner: Option<&str>) -> Value {
    let owners = owner.map(|kind| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "x", "controller": true}])
    });
    json!({
        "metadata": {"ownerReferences": owners},
        "spec": {"nodeName": "lin1", "containers": []},
    })
}

fn node_with(pods: &[(&str, Value)]) -> Fake {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("True"));
    for (name, pod) in pods {
        fake.put(&format!("{PODS}/{name}"), pod.clone());
    }
    fake
}

#[test]
fn pods_leave_and_daemons_and_static_ones_stay() {
    let mut elsewhere = pod(None);
    elsewhere["spec"]["nodeName"] = "lin2".into();
    let mut mirror = pod(None);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let fake = node_with(&[
        ("alone", pod(None)),
        ("elsewhere", elsewhere),
        ("of-daemon", pod(Some("DaemonSet"))),
        ("of-set", pod(Some("ReplicaSet"))),
        ("static", mirror),
    ]);
    let api = fake.api();
    let listener = Listener::default();
    let look = api.drain("lin1", &listener).unwrap();
    assert_eq!(
        words(look),
        "2 pods are still ending on lin1: shop/alone, shop/of-set"
    );
    assert_eq!(
        *listener.lines.lock().unwrap(),
        [
            "no new pods for lin1",
            "evicting shop/alone",
            "evicting shop/of-set"
        ]
    );
    let node = fake.at("/api/v1/nodes/lin1").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(api.drain("lin1", &Unattended).unwrap(), Look::So(()));
    for name in ["elsewhere", "of-daemon", "static"] {
        assert!(fake.at(&format!("{PODS}/{name}")).is_some(), "{name}");
    }
}

#[test]
fn a_disruption_budget_is_waited_for_in_its_own_words() {
    let fake = node_with(&[("web", pod(Some("ReplicaSet")))]);
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    fake.answer_once(Method::POST, &format!("{PODS}/web/eviction"), 429, budget);
    let api = fake.api();
    let look = api.drain("lin1", &Unattended).unwrap();
    assert_eq!(words(look), format!("shop/web may not go yet: {budget}"));
    assert!(!api.drain("lin1", &Unattended).unwrap().is_so());
    assert!(api.drain("lin1", &Unattended).unwrap().is_so());
}

#[test]
fn a_pod_of_the_same_name_that_came_since_is_left() {
    let fake = node_with(&[("db-0", pod(Some("StatefulSet")))]);
    fake.answer_once(
        Method::POST,
        &format!("{PODS}/db-0/eviction"),
        409,
        "another uid",
    );
    assert!(!fake.api().drain("lin1", &Unattended).unwrap().is_so());
    let eviction = fake
        .made()
        .into_iter()
        .find(|made| made.path.ends_with("eviction"));
    let uid = &fake.at(&format!("{PODS}/db-0")).unwrap()["metadata"]["uid"];
    assert_eq!(
        eviction.unwrap().body["deleteOptions"]["preconditions"]["uid"],
        *uid
    );
}

#[test]
fn pods_that_end_are_waited_for_unless_nobody_is_left_to_end_them() {
    let mut ending = pod(None);
    ending["metadata"]["deletionTimestamp"] = "2026-11-15T09:00:00Z".into();
    let fake = node_with(&[("slow", ending)]);
    let api = fake.api();
    let look = api.drain("lin1", &Unattended).unwrap();
    assert_eq!(words(look), "1 pod is still ending on lin1: shop/slow");
    assert!(
        fake.changes()
            .iter()
            .all(|change| !change.contains("eviction"))
    );
    fake.put("/api/v1/nodes/lin1", node("Unknown"));
    assert!(api.drain("lin1", &Unattended).unwrap().is_so());
}

#[test]
fn a_node_that_is_not_there_is_drained() {
    let fake = Fake::default();
    assert!(fake.api().drain("lin1", &Unattended).unwrap().is_so());
    assert!(fake.changes().is_empty());
}

#[test]
fn draining_can_be_called_off() {
    let fake = node_with(&[("web", pod(None))]);
    let listener = Listener::default();
    listener.is_called_off.store(true, Ordering::Relaxed);
    let error = fake.api().drain("lin1", &listener).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted);
    assert!(fake.at(&format!("{PODS}/web")).is_some());
}
