//! A cluster of the last version without ids, marks and guards: its state is in `tests/adopted`.

use crate::Bench;

/// What a plan may do with a cluster that works: nothing here ends a machine, a node or a member of etcd.
const HARMLESS: [&str; 10] = [
    "host-network",
    "inspect",
    "agent",
    "apply",
    "api",
    "objects",
    "ready",
    "node-network",
    "mark",
    "verify",
];

#[test]
fn promise_06_a_cluster_of_the_version_before_is_adopted() {
    let bench = Bench::new();
    bench.write("facts.json", include_str!("../adopted/observed.json"));
    let ran = bench.run(&["plan", "--facts", "facts.json", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["cluster"], "mullion");
    assert_eq!(plan["obstacles"].as_array().unwrap().len(), 0, "{plan:#}");
    for step in plan["steps"].as_array().unwrap() {
        let id = step["id"].as_str().unwrap();
        let kind = id.split('/').next().unwrap();
        assert!(HARMLESS.contains(&kind), "{step:#}");
    }
}
