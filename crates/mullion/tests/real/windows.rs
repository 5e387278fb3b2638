//! A cluster of both systems, with a stand-in for Windows.

use serde_json::json;

use crate::kube::{IMAGE, SETTLE, SPACE, pod_name};
use crate::lab::Lab;
use crate::network::{http, kubelets_serve};
use crate::ran::tool;
use crate::trial::{Trial, until};

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_mixed_cluster_comes_up_works_and_goes() {
    let mut trial = Trial::begin("a_mixed_cluster_comes_up_works_and_goes");
    let mut lab = Lab::built_in("mixed");
    // A lock of the caller's, which machines would keep if they were left what the program was given.
    let lock = lab.path("lock").display().to_string();
    lab.through = vec!["flock".into(), lock.clone()];
    let _ = lab.up();
    lab.through.clear();
    tool("flock", &["--nonblock", &lock, "true"]);
    trial.lap("up");
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    let status = lab.status();
    assert_eq!(status["machines"][2]["standIn"], true, "{status:#}");
    let node = lab.get(&["node", "win1"]);
    assert_eq!(
        node["status"]["nodeInfo"]["osImage"],
        "Windows Server 2022 Datacenter"
    );
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/os"], "windows");
    assert_eq!(labels["node.kubernetes.io/windows-build"], "10.0.20348");
    assert_eq!(labels["mullion.dev/stand-in"], "wine");
    trial.lap("three nodes, the third says that it stands in");

    lab.serve(&NODES);
    for (from, to) in [("lin1", "win1"), ("win1", "lin1")] {
        let pod = lab.get(&["pod", &pod_name(to), &format!("--namespace={SPACE}")]);
        let own = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
        let service = format!("{}:80", lab.service(to).0);
        let name = format!("{}.{SPACE}.svc.cluster.local:80", pod_name(to));
        for address in [own, service, name] {
            until("a pod connects", SETTLE, || lab.connects(from, &address));
        }
    }
    let (_, port) = lab.service("win1");
    for through in NODES {
        let place = format!("{}:{port}", lab.address(through));
        let body = until("a node's port answers", SETTLE, || {
            http(&place, "/hostname")
        });
        assert_eq!(body, pod_name("win1"), "{place}");
    }
    trial.lap("pods of both systems reach each other");
    kubelets_serve(&lab, &NODES);
    volumes_are_there(&lab);
    trial.lap("output, commands, ports and volumes of a Windows pod");

    let _ = lab.run(&["node", "reboot", "win1", "--yes"]).good();
    until("it is Ready again", SETTLE, || {
        let is_ready = lab.ready_nodes().contains("win1");
        is_ready.then_some(()).ok_or_else(|| "not yet".to_owned())
    });
    trial.lap("after another start it is a node again");
    it_is_reset_removed_and_added(&lab, &mut trial);
    let _ = lab.down().says(&["nothing is left"]);
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// A stand-in is emptied and joined anew, leaves with its machine, and comes back.
#[track_caller]
fn it_is_reset_removed_and_added(lab: &Lab, trial: &mut Trial) {
    let number = || lab.get(&["node", "win1"])["metadata"]["uid"].clone();
    let before = number();
    let _ = lab.run(&["node", "reset", "win1", "--yes"]).good();
    lab.is_up(&NODES);
    assert_ne!(number(), before, "the node is another one");
    trial.lap("node reset");
    let _ = lab.run(&["node", "remove", "win1", "--yes"]).good();
    lab.is_up(&NODES[..2]);
    lab.ready(&NODES[..2]);
    assert!(!lab.machine("win1").exists());
    let _ = lab.has_nothing_to_do();
    trial.lap("node remove");
    let _ = lab.run(&["node", "add", "win", "--yes"]).good();
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    trial.lap("node add");
}

/// A pod as people write it for Windows: by the class of its build, with volumes at Windows' paths.
#[track_caller]
fn volumes_are_there(lab: &Lab) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "volumes", "namespace": SPACE},
        "spec": {
            "runtimeClassName": "windows-2022",
            "os": {"name": "windows"},
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "server",
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": ["netexec"],
                "volumeMounts": [
                    {"name": "config", "mountPath": "C:\\config"},
                    {"name": "secret", "mountPath": "C:\\secret"},
                    {"name": "scratch", "mountPath": "C:\\scratch"},
                ],
            }],
            "volumes": [
                {"name": "config", "configMap": {"name": "words"}},
                {"name": "secret", "secret": {"secretName": "words"}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    });
    let named = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "words", "namespace": SPACE}});
    let mut config = named("ConfigMap");
    config["data"] = json!({"greeting": "hello"});
    let mut secret = named("Secret");
    secret["stringData"] = json!({"password": "open"});
    lab.apply(&[config, secret, pod]);
    lab.all_pods_run();
    let space = format!("--namespace={SPACE}");
    let inside = |script: &str| {
        let command = ["exec", &space, "volumes", "--", "/bin/sh", "-c", script];
        lab.kubectl(&command).good().out
    };
    assert_eq!(inside("cat /config/greeting"), "hello");
    assert_eq!(inside("cat /secret/password"), "open");
    assert_eq!(inside("echo x > /scratch/y; cat /scratch/y"), "x\n");
    let token = inside("cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3, "a token is there");
}
