//! Node objects that somebody deleted: the nodes come back, and what etcd holds stays.

use serde_json::{Value, json};

use crate::kube::SETTLE;
use crate::lab::Lab;
use crate::trial::{Trial, until};

const NODES: [&str; 2] = ["cp1", "lin1"];
const ROLE: &str = "node-role.kubernetes.io/control-plane";

const FILE: &str = "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines:\n\
    - {name: cp, role: control-plane, os: linux, count: 1, labels: {tier: front}}\n\
    - {name: lin, role: worker, os: linux, count: 1, taints: [\"only=mine:PreferNoSchedule\"]}\n";

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_04_deleted_nodes_come_back_and_etcd_keeps_everything() {
    let mut trial = Trial::begin("promise_04_deleted_nodes_come_back_and_etcd_keeps_everything");
    let lab = Lab::new("lost", FILE);
    let _ = lab.up();
    trial.lap("up");

    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"},
        "data": {"value": "precious"},
    });
    lab.apply(&[kept]);
    lab.serve(&NODES);
    let marks = || NODES.map(|node| marks(&lab.get(&["node", node])));
    let (etcd, before) = (etcd_process(&lab), marks());
    for node in NODES {
        let _ = lab.kubectl(&["delete", "node", node]).good();
    }

    let plan = lab.run(&["plan"]).good();
    let plan = plan.says(&["restart kubelet on cp1", "restart kubelet on lin1"]);
    assert!(!plan.out.contains("reset"), "{plan}");
    let _ = lab
        .run(&["node", "reset", "cp1", "--yes"])
        .code(5)
        .says(&["last member of etcd", "mullion down"]);
    trial.lap("both nodes are deleted, and no reset is planned or done");

    let _ = lab.up();
    trial.lap("up registers both again");
    lab.is_up(&NODES);
    let map = lab.get(&["configmap", "kept"]);
    assert_eq!(map["data"]["value"], "precious");
    assert_eq!(etcd_process(&lab), etcd, "etcd ran on");
    // A node that was not Ready has a taint for it, which the controllers take away some time after it is.
    until("labels and taints are as before", SETTLE, || {
        let now = marks();
        if now == before {
            Ok(())
        } else {
            Err(format!("{now:?} and not {before:?}"))
        }
    });
    let taints = &lab.get(&["node", "cp1"])["spec"]["taints"];
    assert_eq!(taints[0]["key"], ROLE, "{taints}");
    let _ = lab.has_nothing_to_do();

    // Pods that nobody makes again are made by the test, where they went with their nodes.
    lab.serve(&NODES);
    for from in NODES {
        until("pods reach each other over the nodes", SETTLE, || {
            lab.connects(from, "on-lin1.proof:80")
                .and_then(|()| lab.connects(from, "on-cp1.proof:80"))
        });
    }
    trial.lap("everything is there, and pods reach each other");
    let _ = lab.down();
    trial.nothing_is_left();
}

/// Which process etcd is on the control plane.
fn etcd_process(lab: &Lab) -> String {
    let ran = lab.run(&["ssh", "cp1", "--", "pgrep -x etcd"]).good();
    let process = ran.out.trim().to_owned();
    assert!(process.parse::<u32>().is_ok(), "{ran}");
    process
}

/// A node's labels and taints.
fn marks(node: &Value) -> (Value, Value) {
    (
        node["metadata"]["labels"].clone(),
        node["spec"]["taints"].clone(),
    )
}
