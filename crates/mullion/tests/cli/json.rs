//! Everything that is written as JSON has a version, a kind and a schema that it keeps.

use serde_json::Value;

use crate::Bench;

/// The document that a command wrote, which has that kind and keeps its schema.
pub(crate) fn document(out: &str, kind: &str) -> Value {
    let document: Value =
        serde_json::from_str(out).unwrap_or_else(|error| panic!("{kind}: {error}\n{out}"));
    assert_eq!(document["apiVersion"], "mullion.dev/v1alpha1", "{kind}");
    assert_eq!(document["kind"], kind);
    let validator = jsonschema::validator_for(&schema(kind)).unwrap();
    let breaches: Vec<_> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(breaches.is_empty(), "{kind}: {breaches:#?}\n{out}");
    document
}

fn schema(kind: &str) -> Value {
    mullion::views::schemas::all()
        .into_iter()
        .find(|(known, _)| *known == kind)
        .unwrap_or_else(|| panic!("{kind} has a schema"))
        .1
}

#[test]
fn every_document_keeps_its_schema() {
    let bench = Bench::new();
    bench.write("good.yaml", "machines: {linux: 1, windows: 1}\n");
    bench.write("bad.yaml", "machines: {linux: x}\nnetwrok: 1\n");
    for (kind, arguments) in [
        ("Validation", &["validate", "-f", "good.yaml"][..]),
        ("Validation", &["validate", "-f", "bad.yaml"]),
        ("Validation", &["validate", "-f", "missing.yaml"]),
        ("Validation", &["plan", "-f", "bad.yaml"]),
        ("Plan", &["plan", "-f", "good.yaml"]),
        ("Catalog", &["catalog"]),
        (
            "Why",
            &["catalog", "why", "kubernetes=1.36", "windows=2019"],
        ),
        ("Explanation", &["explain"]),
        ("Explanation", &["explain", "E0302"]),
        ("Version", &["version"]),
        ("Doctor", &["doctor", "-f", "good.yaml"]),
        ("Init", &["init", "-f", "new.yaml"]),
        ("Failure", &["explain", "E9999"]),
        ("Failure", &["init", "-f", "good.yaml"]),
    ] {
        let ran = bench.run(&[arguments, &["--json"]].concat());
        let document: Value = serde_json::from_str(&ran.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}\n{}", ran.out, ran.err));
        assert_eq!(
            document["apiVersion"], "mullion.dev/v1alpha1",
            "{arguments:?}"
        );
        assert_eq!(document["kind"], kind, "{arguments:?}");
        let validator = jsonschema::validator_for(&schema(kind)).unwrap();
        let breaches: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(breaches.is_empty(), "{arguments:?}: {breaches:#?}");
    }
}

/// A cluster with one machine that was made otherwise than its file says, and that never ran.
pub(crate) fn otherwise(bench: &Bench) {
    bench.write(
        "cluster.yaml",
        // Should nothing be in the way of `up` one day, it still makes nothing.
        "metadata: {name: bench-json}\nartifacts: {offline: true}\nmachines: {linux: 1}\n",
    );
    let machine = "place/clusters/bench-json/machines/cp1";
    fs_err::create_dir_all(bench.path().join(machine)).unwrap();
    let label = serde_json::json!({
        "version": "mullion.dev/machine/v1",
        "cluster": "bench-json",
        "name": "cp1",
        "template": {"name": "old", "fingerprint": "0000000000000000"},
        "templatePath": "/nowhere",
        "address": "10.99.0.2",
        "network": "10.99.0.0/24",
        "size": {"cpus": 1, "memory": "1GiB", "disk": "1GiB"},
        "whole": true,
        "ran": false,
        "hostKey": null,
    });
    bench.write(&format!("{machine}/machine.json"), label.to_string());
}

#[test]
fn what_is_looked_at_and_what_is_in_the_way_are_documents() {
    let bench = Bench::new();
    otherwise(&bench);
    let ran = bench.run(&["status", "--json"]);
    let status = document(&ran.out, "Status");
    assert_eq!(status["machines"][0]["name"], "cp1", "{status:#}");
    let ran = bench.run(&["up", "--until", "artifacts", "--json"]);
    if !*crate::HAS_NETWORK_OF_ITS_OWN {
        // Whoever is not root is told so.
        document(&ran.out, "Failure");
        assert_eq!(ran.code, 4);
        return;
    }
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let run = document(&ran.out, "Run");
    assert_eq!(run["changed"], false);
    assert_eq!(run["obstacles"][0]["kind"], "machine-differs", "{run:#}");
}

#[test]
#[ignore = "needs root, to remove what was made"]
fn a_removal_is_one_document_whether_there_was_anything_or_not() {
    let bench = Bench::new();
    otherwise(&bench);
    let ran = bench.run(&["down", "--json"]);
    let failure = document(&ran.out, "Failure");
    assert_eq!(ran.code, 2, "nobody was asked: {failure:#}");
    assert_eq!(
        failure["what"],
        "this would remove cluster `bench-json` with cp1"
    );
    for changed in [true, false] {
        let ran = bench.run(&["down", "--yes", "--json"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(document(&ran.out, "Run")["changed"], changed);
    }
    assert_eq!(
        fs_err::read_dir(bench.path().join("place"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn the_schema_of_the_file_takes_what_the_program_takes() {
    let validator = jsonschema::validator_for(&mullion_spec::schema()).unwrap();
    let good = serde_json::json!({"machines": {"linux": 1, "windows": 1}});
    assert!(validator.is_valid(&good));
    for bad in [
        serde_json::json!({"machines": {"linux": 1}, "netwrok": {}}),
        serde_json::json!({"machines": {"linux": "x"}}),
        serde_json::json!({"machines": [{"role": "worker"}]}),
        serde_json::json!({"network": {}}),
    ] {
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}
