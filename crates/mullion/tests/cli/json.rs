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
