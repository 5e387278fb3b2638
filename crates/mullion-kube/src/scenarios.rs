//! Named scenarios against an API server in memory.

mod certificates;
mod drain;
mod nodes;
mod object_differences;
mod objects;
mod tokens;

use std::time::{Duration, Instant};

use http::Method;
use mullion_plan::{ClusterUid, ErrorClass};
use mullion_spec::value::ClusterName;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Api, Look, Owner};

fn cluster() -> ClusterName {
    "demo".parse().unwrap()
}

fn owner() -> Owner {
    Owner::new(&cluster(), Some(&ClusterUid::of(1)))
}

fn node(ready: &str) -> Value {
    json!({
        "metadata": {"labels": {"mullion.dev/cluster": "demo"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "message": "cni plugin not initialized"}]},
    })
}

fn words<T: std::fmt::Debug>(look: Look<T>) -> String {
    match look {
        Look::NotYet(words) => words,
        Look::So(value) => panic!("it is so: {value:?}"),
    }
}

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Api>();

#[test]
fn facts_of_a_running_cluster_are_one_look() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/cp1", node("True"));
    fake.put("/api/v1/nodes/lin1", node("False"));
    fake.put(
        "/api/v1/namespaces/kube-system/pods/etcd-cp1",
        json!({
            "metadata": {"labels": {"component": "etcd", "tier": "control-plane"}},
            "spec": {"nodeName": "cp1", "containers": []},
        }),
    );
    let view = fake.api().facts(&owner()).unwrap();
    assert_eq!(view.facts.kubernetes.unwrap().to_string(), "1.36.4");
    assert!(view.facts.nodes["cp1"].ready && view.facts.nodes["cp1"].ours);
    assert!(!view.facts.nodes["lin1"].ready);
    assert_eq!(view.facts.members.len(), 1);
    assert_eq!(fake.made().len(), 6);
    assert!(fake.changes().is_empty());
    assert_eq!(view, fake.api().facts(&owner()).unwrap());
}

#[test]
fn many_threads_share_one_connection() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/cp1", node("True"));
    let api = fake.api();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(api.node_ready("cp1").unwrap().is_so()));
        }
    });
}

#[test]
fn an_overloaded_failing_or_changing_api_server_is_asked_again_and_a_refusing_one_is_not() {
    let cases = [
        (429, ErrorClass::Unreachable),
        (500, ErrorClass::Unreachable),
        (503, ErrorClass::Unreachable),
        (409, ErrorClass::Conflict),
        (410, ErrorClass::Conflict),
        (401, ErrorClass::Refused),
        (403, ErrorClass::Refused),
    ];
    for (code, class) in cases {
        let fake = Fake::default();
        fake.put("/api/v1/nodes/cp1", node("True"));
        fake.answer_once(Method::GET, "/api/v1/nodes/cp1", code, "so it is");
        let api = fake.api();
        let error = api.node_ready("cp1").unwrap_err();
        assert_eq!(error.class(), class, "{code}");
        assert_eq!(fake.made().len(), 1, "nobody but the engine tries again");
        assert!(api.node_ready("cp1").unwrap().is_so());
    }
}

#[test]
fn an_api_server_that_is_not_ready_says_what_it_waits_for() {
    let fake = Fake::default();
    let report = "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed";
    fake.answer_once(Method::GET, "/readyz", 500, report);
    let api = fake.api();
    let patience = Duration::from_secs(5);
    assert_eq!(words(api.readiness(patience)), "it is not ready: etcd");
    assert!(api.answers(patience));
}

#[test]
fn a_silent_api_server_is_given_up_in_time() {
    let fake = Fake::default();
    fake.slow_down("/readyz");
    let api = fake.api();
    let begun = Instant::now();
    let look = api.readiness(Duration::from_millis(50));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(
        words(look),
        "cannot reach it: the API server does not answer: no answer within 50 ms"
    );
}

#[test]
fn nothing_at_the_address_is_told_as_such() {
    let kubeconfig = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1', certificate-authority-data: {}}}}}], \
         users: [{{name: a, user: {{token: secret-token}}}}]}}",
        serde_json::to_value(k8s_openapi::ByteString(
            include_bytes!("../tests/authority.pem").to_vec()
        ))
        .unwrap()
    );
    let api = Api::connect(&kubeconfig, None).unwrap();
    let error = api.facts(&owner()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unreachable);
    let line = error.in_one_line();
    assert!(
        line.ends_with("Connection refused (os error 111)"),
        "{line}"
    );
    assert_eq!(line.matches("refused").count(), 1, "{line}");
    let patience = Duration::from_secs(1);
    assert!(!api.answers(patience));
    assert!(!api.answers_at("https://127.0.0.1:2", patience));
    assert!(api.readiness_at("not an address", patience).is_err());
    assert!(!format!("{api:?}").contains("secret-token"));
}
