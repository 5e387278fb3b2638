//! What `plan --diff` shows is what `up` changes, and a saved plan is run as it was shown or not at all.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::lab::Lab;
use crate::trial::Trial;

const FILE: &str = "\
metadata: {name: NAME}
kubernetes: {patches: [kubeletconfiguration+merge.yaml]}
network: {machineCIDR: null, mtu: MTU}
machines:
- {name: cp, role: control-plane}
- {name: lin, count: 1, labels: {example.com/tier: TIER}, files: [{from: motd, to: /etc/motd.mullion}]}
";

fn file(mtu: &str, tier: &str) -> String {
    FILE.replace("MTU", mtu).replace("TIER", tier)
}

fn patch(pods: u32) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {pods}\n"
    )
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn what_a_plan_shows_is_what_a_run_changes() {
    let mut trial = Trial::begin("what_a_plan_shows_is_what_a_run_changes");
    let lab = Lab::new("shown", &file("1400", "one"));
    fs_err::write(lab.path("motd"), "first\nsecond\n").unwrap();
    fs_err::write(lab.path("kubeletconfiguration+merge.yaml"), patch(50)).unwrap();
    let _ = lab.up();
    let shown = lab.run(&["plan", "--diff"]).good();
    assert!(!shown.out.contains("@@"), "nothing differs: {shown}");
    trial.lap("up: nothing differs");

    lab.write(&file("1300", "two"));
    fs_err::write(lab.path("motd"), "first\nchanged\n").unwrap();
    fs_err::write(lab.path("kubeletconfiguration+merge.yaml"), patch(60)).unwrap();
    let text = lab.run(&["plan", "--diff"]).good();
    for line in [
        "-second",
        "+changed",
        "-maxPods: 50",
        "+maxPods: 60",
        "1300",
        "metadata.labels[example.com/tier]",
    ] {
        assert!(text.out.contains(line), "{line}: {text}");
    }
    let saved = lab.path("saved.json").display().to_string();
    let plan = lab
        .run(&["plan", "--diff", "--json", "--out", &saved])
        .good();
    let plan = plan.json();
    trial.lap("an MTU, a label, a file and a patch are shown line by line");

    fs_err::set_permissions(&saved, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _ = lab.run(&["up", "--plan", &saved]).code(2).says(&["600"]);
    fs_err::set_permissions(&saved, std::fs::Permissions::from_mode(0o600)).unwrap();
    let _ = lab.run(&["up", "--plan", &saved]).good();
    assert_eq!(changed_by_the_last_run(&lab), told(&plan));
    the_api_has_what_was_shown(&lab, &plan);
    trial.lap("the saved plan changes what was shown, and nothing else");

    let _ = lab
        .run(&["up", "--plan", &saved])
        .code(5)
        .says(&["no longer needed"]);
    let _ = lab.has_nothing_to_do();
    let mut other: Value = serde_json::from_str(&fs_err::read_to_string(&saved).unwrap()).unwrap();
    other["id"] = "0123456789abcdef0123456789abcdef".into();
    fs_err::write(&saved, other.to_string()).unwrap();
    let _ = lab
        .run(&["up", "--plan", &saved])
        .code(5)
        .says(&["another cluster"]);
    trial.lap("a plan that is done, or another cluster's, is refused");
    let _ = lab.down();
    trial.nothing_is_left();
}

/// What agents are told to change, by the plan: the machine, and the words that its agent reports.
fn told(plan: &Value) -> BTreeSet<String> {
    let machines = plan["diff"]["machines"].as_array().unwrap();
    let changes = machines.iter().flat_map(|machine| {
        let name = machine["machine"].as_str().unwrap();
        let differences = machine["differences"].as_array().unwrap();
        differences.iter().map(move |difference| {
            let what = difference["what"].as_str().unwrap();
            format!("{name}: {what}")
        })
    });
    changes.collect()
}

/// What agents reported to have changed in the last run: its log has a line each, such as `… apply/lin1: changed …`.
fn changed_by_the_last_run(lab: &Lab) -> BTreeSet<String> {
    let run = lab.runs().pop().expect("a run");
    let log = fs_err::read_to_string(run.join("log.txt")).unwrap();
    let changes = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" apply/")?;
        let (machine, what) = rest.split_once(": changed ")?;
        Some(format!("{machine}: {what}"))
    });
    changes.collect()
}

/// Every field that the plan shows has the value that the plan shows.
fn the_api_has_what_was_shown(lab: &Lab, plan: &Value) {
    let sets = plan["diff"]["sets"].as_array().unwrap();
    let mut fields = 0;
    for object in sets
        .iter()
        .flat_map(|set| set["objects"].as_array().unwrap())
    {
        let kind = object["kind"].as_str().unwrap();
        let name = object["name"].as_str().unwrap();
        let mut arguments = vec!["get", kind, name, "-o", "json"];
        if let Some(namespace) = object["namespace"].as_str() {
            arguments.extend(["-n", namespace]);
        }
        let found = lab.kubectl(&arguments).good();
        for field in object["fields"].as_array().unwrap() {
            fields += 1;
            let Some(after) = field["after"].as_str() else {
                continue;
            };
            let inside = serde_json::to_string(after).unwrap();
            let inside = inside.trim_matches('"');
            assert!(
                found.out.contains(inside),
                "{kind} {name} {}: {after}\n{found}",
                field["path"]
            );
        }
    }
    assert!(fields > 1, "an MTU and a label: {sets:?}");
}
