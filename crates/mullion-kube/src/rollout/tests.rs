use serde_json::{Value, json};

use super::*;

fn daemons(status: &Value) -> Look {
    let set = json!({
        "metadata": {"name": "flannel", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "flannel"}}, "template": {}},
        "status": status,
    });
    of_daemons(&serde_json::from_value(set).unwrap()).look
}

fn deployment(status: &Value) -> Look {
    let deployment = json!({
        "metadata": {"name": "coredns", "generation": 2},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}, "template": {}},
        "status": status,
    });
    of_deployment(&serde_json::from_value(deployment).unwrap()).look
}

#[test]
fn daemons_are_out_when_every_node_has_a_new_one_that_is_available() {
    let status = |seen: i64, wanted: i32, updated: i32, available: i32| {
        daemons(&json!({
            "observedGeneration": seen, "desiredNumberScheduled": wanted, "updatedNumberScheduled": updated,
            "numberAvailable": available, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }))
    };
    assert_eq!(
        status(1, 2, 2, 2),
        Look::not_yet("nobody has looked at flannel yet")
    );
    assert_eq!(
        status(2, 2, 1, 2),
        Look::not_yet("1 of 2 pods of flannel are new")
    );
    assert_eq!(
        status(2, 2, 2, 1),
        Look::not_yet("1 of 2 pods of flannel are available")
    );
    assert_eq!(status(2, 2, 2, 2), Look::So(()));
    assert_eq!(status(2, 0, 0, 0), Look::So(()), "no node wants one");
    assert!(!daemons(&Value::Null).is_so());
}

#[test]
fn a_deployment_is_out_when_all_its_pods_are_new_and_available() {
    let status = |seen: i64, all: i32, updated: i32, available: i32| {
        deployment(&json!({
            "observedGeneration": seen, "replicas": all, "updatedReplicas": updated, "availableReplicas": available,
        }))
    };
    assert_eq!(
        status(1, 2, 2, 2),
        Look::not_yet("nobody has looked at coredns yet")
    );
    assert_eq!(
        status(2, 2, 1, 2),
        Look::not_yet("1 of 2 pods of coredns are new")
    );
    assert_eq!(
        status(2, 3, 2, 2),
        Look::not_yet("1 old pods of coredns are still there")
    );
    assert_eq!(
        status(2, 2, 2, 1),
        Look::not_yet("1 of 2 pods of coredns are available")
    );
    assert_eq!(status(2, 2, 2, 2), Look::So(()));
}

#[test]
fn what_keeps_a_pod_from_running_is_told() {
    let told = |status: Value| {
        let pod = json!({
            "metadata": {"name": "flannel-x"}, "spec": {"nodeName": "lin1", "containers": []}, "status": status,
        });
        trouble(&serde_json::from_value(pod).unwrap())
    };
    let container = |state: Value| {
        json!({"containerStatuses": [
            {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
    };
    let waits = |reason: &str, message: &str| {
        told(container(
            json!({"waiting": {"reason": reason, "message": message}}),
        ))
    };
    assert_eq!(
        waits("ErrImageNeverPull", "image is not present\nmore").as_deref(),
        Some("flannel-x on lin1: container main waits, ErrImageNeverPull: image is not present")
    );
    assert_eq!(
        waits("CrashLoopBackOff", "").as_deref(),
        Some("flannel-x on lin1: container main waits, CrashLoopBackOff")
    );
    assert_eq!(waits("ContainerCreating", ""), None);
    assert_eq!(
        told(container(json!({"terminated": {"exitCode": 2}}))).as_deref(),
        Some("flannel-x on lin1: container main ended with status 2")
    );
    assert_eq!(
        told(json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]})).as_deref(),
        Some("flannel-x: 0/1 nodes are available")
    );
    assert_eq!(told(container(json!({"running": {}}))), None);
}
