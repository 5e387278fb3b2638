//! Every rule of the error catalogue is broken by its own example.

use std::collections::BTreeSet;

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings, Verdict};
use mullion_spec::finding::Severity;
use mullion_spec::rules::{self, Rule};
use mullion_spec::source::Source;

fn judge(text: &str) -> Verdict {
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    Catalog::builtin().judge(draft).verdict
}

fn codes(verdict: &Verdict) -> BTreeSet<&'static str> {
    verdict
        .findings
        .iter()
        .map(|located| located.finding.rule.code)
        .collect()
}

/// Rules about what cannot be said in a file's text: the file itself, this computer, a running cluster.
const WITHOUT_EXAMPLE: [&str; 6] = ["E0101", "E0102", "E0103", "E0104", "E0113", "E0413"];

fn is_without_example(rule: &Rule) -> bool {
    WITHOUT_EXAMPLE.contains(&rule.code) || rule.name == "version-skew"
}

#[test]
fn every_example_breaks_its_rule_and_names_a_place() {
    for rule in rules::all() {
        let Some(example) = rule.example else {
            assert!(is_without_example(rule), "{} lacks an example", rule.code);
            continue;
        };
        let verdict = judge(example);
        let found = verdict
            .findings
            .iter()
            .find(|located| located.finding.rule.code == rule.code);
        let found = found.unwrap_or_else(|| {
            panic!(
                "{} is not broken by its example, but {:?}",
                rule.code,
                codes(&verdict)
            )
        });
        assert_eq!(found.finding.severity, rule.severity, "{}", rule.code);
        assert!(
            found.position.is_some() || rule.code == "E0111",
            "{} has no place",
            rule.code
        );
    }
}

/// An example shows one mistake, so that a reader sees which; where a second one cannot be avoided it is named here.
#[test]
fn an_example_breaks_no_other_rule() {
    let inseparable = [
        ("E0409", "E0902"),
        ("E0506", "E0902"),
        ("E0611", "E0612"),
        ("E0610", "E0612"),
        ("E0314", "E0903"),
    ];
    for rule in rules::all() {
        let Some(example) = rule.example else {
            continue;
        };
        let mut codes = codes(&judge(example));
        codes.remove(rule.code);
        codes.retain(|other| !inseparable.contains(&(rule.code, other)));
        assert!(codes.is_empty(), "{} also breaks {codes:?}", rule.code);
    }
}

#[test]
fn what_upstream_calls_unsupported_is_a_warning_for_who_asks() {
    let file = |allow: &str| {
        format!(
            "kubernetes: {{version: \"1.36\"{allow}}}\n\
             machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, version: \"2019\"}}\n"
        )
    };
    let refused = judge(&file(""));
    assert_eq!(refused.count(Severity::Error), 1);
    let finding = &refused.findings[0].finding;
    assert!(
        finding.message.contains("1.34"),
        "names the last good version: {}",
        finding.message
    );
    let allowed = judge(&file(", allowUnsupported: true"));
    assert_eq!(allowed.count(Severity::Error), 0);
    assert_eq!(allowed.count(Severity::Warning), 1);
}

#[test]
fn the_smallest_file_is_sound() {
    let verdict = judge("machines: {linux: 1, windows: 1}");
    assert_eq!(codes(&verdict), BTreeSet::new());
    let draft = Draft::read(
        Source::new("f", "machines: {linux: 1, windows: 1}"),
        &Surroundings::default(),
    );
    let model = Catalog::builtin().judge(draft).model.unwrap();
    let names: Vec<_> = model
        .cluster()
        .machines()
        .map(|machine| machine.name.to_string())
        .collect();
    assert_eq!(names, ["cp1", "lin1", "win1"]);
    assert_eq!(model.kubernetes().version.to_string(), "1.36.4");
    assert!(!model.artifacts().is_empty());
}

#[test]
fn a_file_with_an_error_gives_no_model() {
    let draft = Draft::read(
        Source::new("f", "machines: {linux: x}"),
        &Surroundings::default(),
    );
    assert!(Catalog::builtin().judge(draft).model.is_none());
}
