//! Proofs with real traffic: names, Services, policies, ports.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::kube::{PORT, SETTLE, SPACE, pod_name};
use crate::lab::Lab;
use crate::trial::until;

/// How long a rule of the network may take to reach every node.
const RULES: Duration = Duration::from_mins(1);

/// What a server answers to that path.
pub(crate) fn http(address: &str, path: &str) -> Result<String, String> {
    let patience = Duration::from_secs(3);
    let words = |error: &dyn std::fmt::Display| format!("http://{address}{path}: {error}");
    let place: SocketAddr = address.parse().map_err(|error| words(&error))?;
    let mut stream = TcpStream::connect_timeout(&place, patience).map_err(|error| words(&error))?;
    stream.set_read_timeout(Some(patience)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|error| words(&error))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| words(&"no answer"))?;
    if head.starts_with("HTTP/1.1 200") {
        Ok(body.to_owned())
    } else {
        Err(words(&head))
    }
}

/// Every pod reaches every other's Service by address and by name, and the API server by name; nodes do so by address.
#[track_caller]
pub(crate) fn services_are_reached(lab: &Lab, nodes: &[&str]) {
    for from in nodes {
        let names = ["kubernetes.default.svc.cluster.local:443".to_owned()].into_iter();
        let names = names.chain(
            nodes
                .iter()
                .map(|to| format!("{}.{SPACE}:80", pod_name(to))),
        );
        let addresses = nodes.iter().map(|to| format!("{}:80", lab.service(to).0));
        for address in names.chain(addresses) {
            until("a pod connects", SETTLE, || lab.connects(from, &address));
        }
        // A stand-in's login has Windows' programs, none of which asks for a page.
        if from.starts_with("win") {
            continue;
        }
        for to in nodes {
            let (address, _) = lab.service(to);
            // The node's own way, without a pod: what answers tells its name.
            let script = format!(
                "exec 3<>/dev/tcp/{address}/80; printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
            );
            let ran = lab.run(&["ssh", from, "--", "bash", "-c", &script]).good();
            assert!(ran.out.ends_with(&pod_name(to)), "{ran}");
        }
    }
}

/// Every node opens every Service's port to this computer.
#[track_caller]
pub(crate) fn ports_are_open(lab: &Lab, nodes: &[&str]) {
    for to in nodes {
        let (_, port) = lab.service(to);
        for through in nodes {
            let place = format!("{}:{port}", lab.address(through));
            let body = until("a node's port answers", SETTLE, || {
                http(&place, "/hostname")
            });
            assert_eq!(body, pod_name(to), "{place}");
        }
    }
}

/// A policy keeps out whom it names, and lets in whom it names, on one node and across; without it all is as before.
#[track_caller]
pub(crate) fn policies_are_obeyed(lab: &Lab, nodes: [&str; 2]) {
    let [friend, stranger] = nodes;
    let reaches =
        |from: &str, to: &str| lab.connects(from, &format!("{}.{SPACE}:80", pod_name(to)));
    let policy = |ingress: serde_json::Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "door", "namespace": SPACE},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress},
        })
    };
    let is_kept_out = |from: &str, to: &str| match reaches(from, to) {
        Ok(()) => Err(format!("{from} still reaches {to}")),
        Err(words)
            if words.contains("TIMEOUT")
                || words.contains("REFUSED")
                || words.contains("OTHER") =>
        {
            Ok(())
        }
        Err(words) => panic!("no answer about the network: {words}"),
    };
    lab.apply(&[policy(json!([]))]);
    for (from, to) in [(friend, stranger), (stranger, friend)] {
        until("nobody is let in", RULES, || is_kept_out(from, to));
    }
    let from_friend = json!({"podSelector": {"matchLabels": {"on": friend}}});
    lab.apply(&[policy(
        json!([{"from": [from_friend], "ports": [{"port": PORT}]}]),
    )]);
    until("the friend is let in", RULES, || reaches(friend, stranger));
    until("the stranger is not", RULES, || {
        is_kept_out(stranger, friend)
    });
    let space = format!("--namespace={SPACE}");
    let _ = lab
        .kubectl(&["delete", "networkpolicy", "door", &space])
        .good();
    for (from, to) in [(friend, stranger), (stranger, friend)] {
        until("everybody is let in again", RULES, || reaches(from, to));
    }
}

/// What the API server asks of kubelets: output, commands and ports of pods.
#[track_caller]
pub(crate) fn kubelets_serve(lab: &Lab, nodes: &[&str]) {
    let space = format!("--namespace={SPACE}");
    for node in nodes {
        let pod = pod_name(node);
        let ran = lab.inside(node, &["/agnhost", "--help"]).good();
        assert!(!ran.out.is_empty(), "{ran}");
        let ran = lab.kubectl(&["logs", &space, &pod]).good();
        assert!(!ran.out.is_empty(), "{ran}");
        let forward = lab.start(&[
            "kubectl",
            "port-forward",
            &space,
            &format!("pod/{pod}"),
            &format!(":{PORT}"),
        ]);
        let place = until("the port is forwarded", SETTLE, || {
            let said = forward.out();
            let place = said
                .split_whitespace()
                .find(|word| word.starts_with("127.0.0.1:"));
            place
                .map(str::to_owned)
                .ok_or_else(|| said.clone() + &forward.err())
        });
        assert_eq!(http(&place, "/hostname").unwrap(), pod);
    }
    // Certificates of kubelets are the cluster's, and nobody's who is not a node.
    let requests = lab.list(&["certificatesigningrequests"]);
    let serving = requests.iter().filter(|request| {
        request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
            && request["status"]["certificate"].is_string()
    });
    let asked: Vec<_> = serving
        .filter_map(|request| request["spec"]["username"].as_str())
        .collect();
    for node in nodes {
        assert!(
            asked.contains(&format!("system:node:{node}").as_str()),
            "{asked:?}"
        );
    }
    let is_known = |user: &&str| {
        nodes
            .iter()
            .any(|node| *user == format!("system:node:{node}"))
    };
    assert!(asked.iter().all(is_known), "{asked:?}");
}
