use mullion_spec::value::ClusterName;
use serde_json::json;

use super::*;

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn cluster() -> ClusterName {
    "demo".parse().unwrap()
}

/// A control plane, a worker of ours whose kubelet asks for a new certificate, and somebody else's node.
fn answers() -> Answers {
    let condition = |kind: &str, status: &str, words: &str| {
        json!({
            "type": kind, "status": status, "message": words, "reason": "Because",
            "lastTransitionTime": "2026-11-15T08:00:00Z", "lastHeartbeatTime": "2026-11-15T09:00:00Z",
        })
    };
    let info = |version: &str| {
        json!({
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.2.2",
            "kernelVersion": "6.18.44", "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "",
            "operatingSystem": "linux", "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": "",
        })
    };
    let request = |name: &str, sender: &str, status: serde_json::Value| {
        json!({
            "metadata": {"name": name},
            "spec": {"request": "", "signerName": SIGNER, "username": sender},
            "status": status,
        })
    };
    Answers {
        version: "v1.36.4".into(),
        nodes: vec![
            from_json(json!({
                "metadata": {
                    "name": "cp1", "creationTimestamp": "2026-11-15T07:00:00Z",
                    "labels": {
                        "kubernetes.io/os": "linux", "mullion.dev/cluster": "demo",
                        "node-role.kubernetes.io/control-plane": "", "tier": "gold",
                    },
                    "annotations": {
                        "mullion.dev/certificates": "approved",
                        "mullion.dev/set": r#"{"labels":["tier"],"taints":["os=windows:NoSchedule"]}"#,
                    },
                },
                "spec": {"taints": [
                    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                    {"key": "os", "value": "windows", "effect": "NoSchedule"},
                    {"key": "strange", "effect": "Strange"},
                ]},
                "status": {
                    "addresses": [
                        {"type": "Hostname", "address": "cp1"},
                        {"type": "InternalIP", "address": "10.99.0.11"},
                        {"type": "InternalIP", "address": "fd00::11"},
                    ],
                    "conditions": [
                        condition("NetworkUnavailable", "False", "Flannel is running on this node"),
                        condition("Ready", "True", "kubelet is posting ready status"),
                    ],
                    "nodeInfo": info("v1.36.4"),
                },
            })),
            from_json(json!({
                "metadata": {
                    "name": "lin1",
                    "labels": {"mullion.dev/cluster": "demo"},
                    "annotations": {
                        "mullion.dev/certificates": "approved", "mullion.dev/drained": "true", "mullion.dev/set": "not json",
                    },
                },
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [condition("Ready", "False", "cni plugin not initialized")],
                    "nodeInfo": info("v1.36.3-dirty"),
                },
            })),
            from_json(json!({
                "metadata": {"name": "node.example.org", "labels": {"mullion.dev/cluster": "other"}},
            })),
        ],
        requests: vec![
            from_json(request(
                "csr-old",
                "system:node:cp1",
                json!({"conditions": [
                {"type": "Approved", "status": "True"}], "certificate": "QQ=="}),
            )),
            from_json(request("csr-new", "system:node:lin1", json!({}))),
            from_json(request("csr-strange", "somebody", json!({}))),
        ],
        record: Some(from_json(json!({"data": {
            "set.network-flannel": r#"{"fingerprint":"0011223344556677","objects":[]}"#,
            "set.dns": r#"{"objects":[]}"#,
            "proven.smoke": "2026-11-15T09:00:00Z",
            "note": "of a person",
        }}))),
        kubeadm: Some(from_json(json!({"data": {"ClusterConfiguration":
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: lb1:6443\n\
             kubernetesVersion: v1.36.4\n\
             apiServer:\n  extraArgs:\n  - {name: feature-gates, value: NodeSwap=true}\n\
             controllerManager:\n  extraArgs:\n  - {name: node-cidr-mask-size, value: \"24\"}\nnetworking:\n  dnsDomain: cluster.local\n  podSubnet: fd01::/48,10.244.0.0/16\n  \
             serviceSubnet: 10.96.0.0/16\n"}}))),
        etcd: vec![
            from_json(
                json!({"metadata": {"name": "etcd-cp1"}, "spec": {"nodeName": "cp1", "containers": []}}),
            ),
            from_json(
                json!({"metadata": {"name": "etcd-x"}, "spec": {"nodeName": "node.example.org", "containers": []}}),
            ),
        ],
    }
}

fn seen(answers: &Answers) -> ClusterView {
    let server = http::Uri::from_static("https://10.99.0.11:6443");
    view(
        answers,
        ClusterId("id".into()),
        &server,
        &Owner::new(&cluster(), None),
    )
}

#[test]
fn answers_become_facts() {
    insta::assert_json_snapshot!(seen(&answers()).facts);
}

#[test]
fn people_see_more_of_a_node_than_plans_do() {
    insta::assert_debug_snapshot!(seen(&answers()).nodes["cp1"]);
}

#[test]
fn a_cluster_that_kubeadm_did_not_make_keeps_what_it_does_not_say_unknown() {
    let bare = Answers {
        version: "strange".into(),
        ..Answers::default()
    };
    let facts = seen(&bare).facts;
    assert_eq!(
        (facts.kubernetes, facts.pods, facts.services),
        (None, None, None)
    );
    assert_eq!(
        (facts.domain, facts.pods_per_node, facts.feature_gates),
        (None, None, None)
    );
    assert_eq!(facts.endpoint.as_deref(), Some("10.99.0.11:6443"));
    assert!(facts.answers && facts.nodes.is_empty() && facts.objects.is_empty());
}

#[test]
fn a_node_whose_request_waits_has_no_certificates_whatever_is_written_on_it() {
    let mut answers = answers();
    assert!(!seen(&answers).facts.nodes["lin1"].certificates);
    answers
        .requests
        .retain(|request| request.metadata.name.as_deref() != Some("csr-new"));
    assert!(seen(&answers).facts.nodes["lin1"].certificates);
    assert!(!seen(&answers).facts.nodes["node.example.org"].certificates);
}
