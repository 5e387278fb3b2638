//! The crate against a real API server: etcd, kube-apiserver and kube-controller-manager on loopback, each on a free
//! port, with certificates by kubeadm, and kubectl as the witness.
//!
//! `MULLION_TEST_BIN` names the folder with those programs. There is no kubelet and no scheduler: nodes and pods are
//! objects that the test makes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "clippy takes only functions with `#[test]` for tests"
)]

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mullion_kube::{Api, KubeError, Look, Marks, Owner, Serving, Workload, kubeconfig};
use mullion_plan::{ErrorClass, Fingerprint, Unattended};
use mullion_spec::value::ClusterName;
use mullion_wire::Sha256Digest;
use serde_json::{Value, json};

use server::{KUBELET, Server};

fn cluster() -> ClusterName {
    "demo".parse().unwrap()
}

fn owner() -> Owner {
    Owner::new(&cluster(), None)
}

/// A part of the test, on what the parts before it left.
type Part = fn(&Server, &Api);

/// Looks until it is so, as the engine does.
fn until<T>(what: &str, mut look: impl FnMut() -> Look<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match look() {
            Look::So(value) => return value,
            Look::NotYet(words) => assert!(Instant::now() < deadline, "{what}: {words}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs Kubernetes' programs in the folder that MULLION_TEST_BIN names; cargo xtask test --slow runs it"]
fn a_real_api_server_does_what_is_asked_of_it() {
    let server = Server::start();
    let api = Api::connect(&server.kubeconfig, None).unwrap();
    until("the API server", || api.readiness(Duration::from_secs(2)));
    assert!(api.answers_at(&server.url, Duration::from_secs(2)));
    let parts: [(&str, Part); 9] = [
        ("identity", identity),
        ("strangers", strangers),
        ("kubeconfigs", kubeconfigs),
        ("nodes", nodes),
        ("objects", objects),
        ("kinds", kinds),
        ("tokens", tokens),
        ("certificates", certificates),
        ("drain", drain),
    ];
    for (name, part) in parts {
        let begun = Instant::now();
        part(&server, &api);
        println!("{name}: {} ms", begun.elapsed().as_millis());
    }
}

fn identity(server: &Server, api: &Api) {
    let authority = fs_err::read(server.folder.join("pki/ca.crt")).unwrap();
    let der = pem::parse(authority).unwrap().into_contents();
    assert_eq!(api.id().0, Sha256Digest::of(&der).to_string());
}

/// Another authority at the address, and an address with nobody.
fn strangers(server: &Server, _: &Api) {
    let wrong = k8s_openapi::ByteString(include_bytes!("../authority.pem").to_vec());
    let wrong = serde_json::to_value(wrong).unwrap();
    let kubeconfig: String = server
        .kubeconfig
        .lines()
        .map(
            |line| match line.split_once("certificate-authority-data: ") {
                Some((before, _)) => {
                    format!(
                        "{before}certificate-authority-data: {}\n",
                        wrong.as_str().unwrap()
                    )
                }
                None => format!("{line}\n"),
            },
        )
        .collect();
    let error = Api::connect(&kubeconfig, None)
        .unwrap()
        .facts(&owner())
        .unwrap_err();
    assert!(matches!(error, KubeError::Untrusted { .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Refused);
}

/// kubectl reads what is merged, and keeps it when it writes itself.
fn kubeconfigs(server: &Server, _: &Api) {
    let path = server.folder.join("user.conf");
    let mine = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://a'}}]\n\
                contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n\
                users: [{name: a, user: {token: b}}]\n";
    let merged = kubeconfig::merge(Some(mine), &server.kubeconfig, "demo").unwrap();
    fs_err::write(&path, merged).unwrap();
    let names = server.kubectl_with(&path, &["config", "get-contexts", "-o", "name"], "");
    assert_eq!(names, "a\ndemo\n");
    let current = server.kubectl_with(&path, &["config", "current-context"], "");
    assert_eq!(current, "a\n");
    let ready = server.kubectl_with(&path, &["--context", "demo", "get", "--raw", "/readyz"], "");
    assert_eq!(ready, "ok");
}

fn nodes(server: &Server, api: &Api) {
    for name in ["cp1", "lin1"] {
        server.create(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        }));
    }
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let taints = BTreeSet::from(["os=windows:NoSchedule".parse().unwrap()]);
    let none = BTreeSet::new();
    let no_taints = BTreeSet::new();
    let marks = Marks {
        labels: &labels,
        taints: &taints,
        drop_labels: &none,
        drop_taints: &no_taints,
    };
    assert!(api.mark("lin1", &marks, &owner()).unwrap().is_so());
    let version = |name: &str| server.get(&["node", name])["metadata"]["resourceVersion"].clone();
    let before = version("lin1");
    assert!(api.mark("lin1", &marks, &owner()).unwrap().is_so());
    assert_eq!(version("lin1"), before, "a second time changes nothing");
    assert!(!api.mark("nobody", &marks, &owner()).unwrap().is_so());

    let lin1 = api.facts(&owner()).unwrap().facts.nodes["lin1"].clone();
    assert!(lin1.ours && !lin1.cordoned && !lin1.ready);
    assert_eq!(lin1.labels["tier"], "gold");
    assert_eq!(lin1.set_taints, taints);
    assert!(lin1.taints.is_superset(&taints));
    assert!(
        !lin1
            .taints
            .iter()
            .any(|taint| taint.key.contains("control-plane"))
    );

    let dropping = Marks {
        labels: &BTreeMap::new(),
        taints: &no_taints,
        drop_labels: &lin1.set_labels,
        drop_taints: &lin1.set_taints,
    };
    assert!(api.mark("lin1", &dropping, &owner()).unwrap().is_so());
    let lin1 = api.facts(&owner()).unwrap().facts.nodes["lin1"].clone();
    assert!(!lin1.labels.contains_key("tier") && lin1.taints.is_disjoint(&taints));

    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        api.facts(&owner()).unwrap();
        best = best.min(begun.elapsed());
    }
    println!("facts: {} ms", best.as_millis());
    assert!(best < Duration::from_millis(150), "{best:?}");
    api.forget("cp1").unwrap();
    api.forget("cp1").unwrap();
}

fn flannel() -> Vec<Value> {
    let labels = json!({"app": "flannel"});
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "flannel", "namespace": "kube-flannel"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "flannel"}]},
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "flannel", "namespace": "kube-flannel", "labels": null}, "data": {"a": "b"},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "flannel"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
        }),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-flannel"}}),
    ]
}

fn objects(server: &Server, api: &Api) {
    let (one, two) = (Fingerprint::of(&1), Fingerprint::of(&2));
    let set = "network-flannel";
    let begun = Instant::now();
    assert!(
        api.apply_set(set, &one, &flannel(), &owner())
            .unwrap()
            .is_so()
    );
    println!("applying 4 objects: {} ms", begun.elapsed().as_millis());
    let place = ["-n", "kube-flannel"];
    let daemons = server.get(&[&place[..], &["daemonset", "flannel"]].concat());
    assert_eq!(daemons["metadata"]["labels"]["mullion.dev/set"], set);
    assert_eq!(daemons["metadata"]["generation"], 1);
    assert_eq!(api.facts(&owner()).unwrap().facts.objects[set], one);
    assert!(
        !api.rolled_out(Workload::DaemonSet, "kube-flannel", "flannel")
            .unwrap()
            .is_so()
    );

    // The same again, then without the ConfigMap.
    assert!(
        api.apply_set(set, &one, &flannel(), &owner())
            .unwrap()
            .is_so()
    );
    let again = server.get(&[&place[..], &["daemonset", "flannel"]].concat());
    assert_eq!(
        again["metadata"]["resourceVersion"],
        daemons["metadata"]["resourceVersion"]
    );
    let fewer: Vec<_> = flannel()
        .into_iter()
        .filter(|object| object["kind"] != "ConfigMap")
        .collect();
    assert!(api.apply_set(set, &two, &fewer, &owner()).unwrap().is_so());
    assert!(!server.exists(&[&place[..], &["configmap", "flannel"]].concat()));
    assert_eq!(api.facts(&owner()).unwrap().facts.objects[set], two);

    // What is invalid is refused in the server's words, and the set is not taken for whole.
    let mut wrong = fewer.clone();
    wrong[0]["spec"]["template"]["spec"]["containers"] = json!([]);
    let error = api.apply_set(set, &one, &wrong, &owner()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Refused, "{error:?}");
    assert!(api.facts(&owner()).unwrap().facts.objects[set] != one);

    api.prove("smoke", &cluster()).unwrap();
    assert!(api.facts(&owner()).unwrap().facts.proven.contains("smoke"));
    api.forget_proofs().unwrap();
    assert!(api.facts(&owner()).unwrap().facts.proven.is_empty());

    until("removing the set", || {
        api.remove_set(set, &owner()).unwrap()
    });
    assert!(!server.exists(&["namespace", "kube-flannel"]));
    assert!(!server.exists(&["clusterrole", "flannel"]));
    assert!(api.facts(&owner()).unwrap().facts.objects.is_empty());
}

/// A set that teaches the API server the kind of its own objects.
fn kinds(server: &Server, api: &Api) {
    let objects = [
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"b": 1}}),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        }),
    ];
    let fingerprint = Fingerprint::of(&"things");
    until("the kind", || {
        api.apply_set("addon-things", &fingerprint, &objects, &owner())
            .unwrap()
    });
    assert!(server.exists(&["things.example.org", "a"]));
    until("removing it", || {
        api.remove_set("addon-things", &owner()).unwrap()
    });
    assert!(!server.exists(&["crd", "things.example.org"]));
    let error = api
        .apply_set("addon-things", &fingerprint, &objects[..1], &owner())
        .unwrap_err();
    assert!(matches!(error, KubeError::UnknownKind { .. }), "{error:?}");
    assert!(api.remove_set("addon-things", &owner()).unwrap().is_so());
}

fn tokens(server: &Server, api: &Api) {
    let token = api
        .create_join_token(&server.endpoint, Duration::from_mins(10))
        .unwrap();
    let path = server.folder.join("discovery.conf");
    fs_err::write(&path, token.discovery.reveal()).unwrap();
    let begun = Instant::now();
    let who = server.kubectl_with(&path, &["auth", "whoami", "-o", "json"], "");
    println!("the token works after {} ms", begun.elapsed().as_millis());
    let who: Value = serde_json::from_str(&who).unwrap();
    let user = &who["status"]["userInfo"];
    assert_eq!(user["username"], format!("system:bootstrap:{}", token.id));
    let groups = user["groups"].as_array().unwrap();
    assert!(groups.contains(&"system:bootstrappers:kubeadm:default-node-token".into()));

    assert_eq!(api.sweep_tokens().unwrap(), 1);
    api.delete_token(&token.id).unwrap();
    assert!(!server.exists(&[
        "-n",
        "kube-system",
        "secret",
        &format!("bootstrap-token-{}", token.id)
    ]));
    assert!(!api.has_uploaded_certs().unwrap());
}

fn certificates(server: &Server, api: &Api) {
    let serving = |addresses: &[IpAddr]| Serving {
        addresses: addresses.to_vec(),
        ..Serving::default()
    };
    let known = serving(&["10.99.0.12".parse().unwrap()]);
    assert!(!api.approve_certificates("lin1", &known).unwrap().is_so());
    let ask = |name: &str, pem: &[u8]| {
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": k8s_openapi::ByteString(pem.into()),
                "signerName": "kubernetes.io/kubelet-serving",
                "usages": ["digital signature", "server auth"],
            },
        });
        let as_node = [
            "create",
            "--as=system:node:lin1",
            "--as-group=system:nodes",
            "-f",
            "-",
        ];
        server.kubectl(&as_node, &request.to_string());
    };
    ask("good", include_bytes!("../requests/lin1.pem"));
    assert!(!api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates);
    assert_eq!(
        api.approve_certificates("lin1", &known).unwrap(),
        Look::So(1)
    );
    assert!(api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates);
    until("the certificate", || {
        let request = server.get(&["csr", "good"]);
        match request["status"]["certificate"].as_str() {
            Some(_) => Look::So(()),
            None => Look::NotYet("it is not signed".into()),
        }
    });
    assert_eq!(
        api.approve_certificates("lin1", &known).unwrap(),
        Look::So(0)
    );

    ask("bad", include_bytes!("../requests/foreign-address.pem"));
    assert!(!api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates);
    let error = api.approve_certificates("lin1", &known).unwrap_err();
    assert!(matches!(error, KubeError::WrongRequest { .. }), "{error:?}");
    assert!(server.get(&["csr", "bad"])["status"]["conditions"].is_null());
    server.kubectl(&["delete", "csr", "bad", "good"], "");
    assert_eq!(
        api.approve_certificates("lin1", &known).unwrap(),
        Look::So(0),
        "it is written on the node"
    );

    // Nothing is written down, and requests are long gone: that the kubelet serves is proof enough.
    server.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lin2"}}));
    let nobody: IpAddr = "127.213.7.10".parse().unwrap();
    assert!(
        !api.approve_certificates("lin2", &serving(&[nobody]))
            .unwrap()
            .is_so()
    );
    let both = serving(&[nobody, KUBELET.parse().unwrap()]);
    assert_eq!(
        api.approve_certificates("lin2", &both).unwrap(),
        Look::So(0)
    );
    assert!(api.facts(&owner()).unwrap().facts.nodes["lin2"].certificates);
    api.forget("lin2").unwrap();
}

fn drain(server: &Server, api: &Api) {
    until("the namespace's account", || {
        if server.exists(&["serviceaccount", "default"]) {
            Look::So(())
        } else {
            Look::NotYet("there is none".into())
        }
    });
    server.create(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"nodeName": "lin1", "containers": [{"name": "main", "image": "web"}]},
    }));
    server.create(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }));
    // A pod that was never ready may always go, so this one is said to be.
    server.kubectl(
        &[
            "patch",
            "pod",
            "web",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#,
        ],
        "",
    );
    let mut words = String::new();
    until("the budget", || {
        match api.drain("lin1", &Unattended).unwrap() {
            Look::NotYet(said) if said.contains("disruption budget") => {
                words = said;
                Look::So(())
            }
            other => Look::NotYet(format!("{other:?}")),
        }
    });
    println!("{words}");
    assert!(api.facts(&owner()).unwrap().facts.nodes["lin1"].cordoned);
    server.kubectl(&["delete", "pdb", "web"], "");
    until("eviction", || {
        match api.drain("lin1", &Unattended).unwrap() {
            Look::NotYet(said) if said == "1 pod is still ending on lin1: default/web" => {
                Look::So(())
            }
            other => Look::NotYet(format!("{other:?}")),
        }
    });
    // No kubelet ends it. Once that is known, nobody waits.
    server.kubectl(
        &[
            "patch",
            "node",
            "lin1",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}"#,
        ],
        "",
    );
    until("nobody", || api.drain("lin1", &Unattended).unwrap());
    let nothing = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let marks = Marks {
        labels: &nothing.0,
        taints: &BTreeSet::new(),
        drop_labels: &nothing.1,
        drop_taints: &nothing.2,
    };
    assert!(api.mark("lin1", &marks, &owner()).unwrap().is_so());
    assert!(!api.facts(&owner()).unwrap().facts.nodes["lin1"].cordoned);
    api.forget("lin1").unwrap();
    assert!(api.facts(&owner()).unwrap().facts.nodes.is_empty());
}
