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
    let mut facts: serde_json::Value =
        serde_json::from_str(include_str!("../adopted/observed.json")).unwrap();
    // What that version did not ask machines for, and this one does.
    let ground = serde_json::json!({
        "footing": "system-container", "cgroups": "v2", "canRaiseLimits": true, "hasSwap": false, "hasResolver": true,
    });
    for machine in ["cp1", "lin1"] {
        facts["machines"][machine]["ground"] = ground.clone();
    }
    bench.write("facts.json", facts.to_string());
    let ran = bench.run(&["plan", "--facts", "facts.json", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["cluster"], "mullion");
    assert_eq!(plan["obstacles"].as_array().unwrap().len(), 0, "{plan:#}");
    for step in plan["steps"].as_array().unwrap() {
        let id = step["id"].as_str().unwrap();
        let kind = id.split('/').next().unwrap();
        assert!(HARMLESS.contains(&kind), "{step:#}");
        if kind == "apply" {
            let reason = step["reason"].as_str().unwrap();
            assert!(reason.contains("an older version of Mullion"), "{reason}");
            assert_ne!(step["action"]["document"], "after-inspection");
        }
    }
}
