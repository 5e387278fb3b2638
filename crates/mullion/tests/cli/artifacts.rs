//! `artifacts`, as far as nothing is fetched.

use mullion_artifacts::{Item, Store};
use mullion_plan::{Part, PartKind, Unattended};
use mullion_spec::words::Os;

use crate::Bench;
use crate::json::document;

fn put(bench: &Bench, name: &str, version: &str) -> std::path::PathBuf {
    let part = Part {
        name: name.into(),
        os: Os::Linux,
        kind: PartKind::Program,
        version: version.into(),
    };
    bench.write("source", format!("the program {name}"));
    let store = Store::open(&bench.path().join(".cache/mullion")).unwrap();
    store
        .put(&Item::Part(part), &bench.path().join("source"), &Unattended)
        .unwrap()
}

#[test]
fn the_list_has_everything_that_the_file_needs_and_says_what_is_missing() {
    let bench = Bench::new();
    let list = document(
        &bench.run(&["artifacts", "list", "--json"]).out,
        "Artifacts",
    );
    let rows = list["artifacts"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cached"] == false));
    let named = |kind: &str, name: &str| {
        let is_it = |row: &&serde_json::Value| row["kind"] == kind && row["name"] == name;
        rows.iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{kind} {name}"))
            .clone()
    };
    for program in ["kubeadm", "kubelet", "kubectl", "containerd"] {
        assert_eq!(named("program", program)["os"], "linux");
    }
    assert!(rows.iter().any(|row| row["kind"] == "image"));
    named("root", "bookworm");
    let version = named("program", "kubeadm")["version"]
        .as_str()
        .unwrap()
        .to_owned();
    put(&bench, "kubeadm", &version);
    let ran = bench.run(&["artifacts", "list"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = ran
        .out
        .lines()
        .find(|line| line.contains(" kubeadm "))
        .unwrap();
    assert!(line.contains(" yes ") && line.contains("given"), "{line}");
    let missing = format!("{} missing", rows.len() - 1);
    assert!(ran.out.contains(&missing), "{}", ran.out);
}

#[test]
fn a_file_that_changed_in_the_cache_is_found_and_named() {
    let bench = Bench::new();
    let stored = put(&bench, "kubeadm", "1.0.0");
    let ran = bench.run(&["artifacts", "verify"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("1 artifact"), "{}", ran.out);
    fs_err::write(&stored, "something else").unwrap();
    let ran = bench.run(&["artifacts", "verify"]);
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("kubeadm 1.0.0") && ran.out.contains("is changed"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("mullion artifacts fetch"), "{}", ran.err);
    fs_err::remove_file(&stored).unwrap();
    let ran = bench.run(&["artifacts", "verify", "--json"]);
    assert_eq!(ran.code, 6);
    let verdict = document(&ran.out, "ArtifactsVerify");
    assert_eq!(verdict["sound"], false);
    assert_eq!(verdict["artifacts"][0]["state"], "missing");
}

/// Machines that exist already need no root file system, and nothing outside may be asked: every part is refused.
#[test]
fn without_a_way_out_every_missing_part_is_told_with_its_remedy() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "artifacts: {offline: true}\nmachines: [{name: cp, role: control-plane, addresses: [192.0.2.1]}]\n",
    );
    let ran = bench.run(&["artifacts", "fetch"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("mullion artifacts import") && ran.err.contains("could not be had"),
        "{}",
        ran.err
    );
    let ran = bench.run(&["artifacts", "bundle", "all.bundle", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let supply = document(&ran.out, "Supply");
    assert_eq!(supply["complete"], false);
    let rows = supply["artifacts"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["error"]["words"].is_string()),
        "{}",
        ran.out
    );
    assert!(!bench.path().join("all.bundle").exists());
    let ran = bench.run(&["artifacts", "bundle", "."]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_whole_cache_needs_nothing_and_becomes_a_bundle() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "artifacts: {offline: true}\nmachines: [{name: cp, role: control-plane, addresses: [192.0.2.1]}]\n",
    );
    let list = document(
        &bench.run(&["artifacts", "list", "--json"]).out,
        "Artifacts",
    );
    let store = Store::open(&bench.path().join(".cache/mullion")).unwrap();
    for row in list["artifacts"].as_array().unwrap() {
        let text = |field: &str| row[field].as_str().unwrap();
        let part: Part = serde_json::from_value(serde_json::json!({
            "name": text("name"), "os": text("os"), "kind": text("kind"), "version": text("version"),
        }))
        .unwrap();
        bench.write("source", format!("{part}"));
        store
            .put(&Item::Part(part), &bench.path().join("source"), &Unattended)
            .unwrap();
    }
    let ran = bench.run(&["artifacts", "fetch"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("0 artifacts to get"), "{}", ran.err);
    let ran = bench.run(&["artifacts", "bundle", "all.bundle", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let count = list["artifacts"].as_array().unwrap().len();
    assert_eq!(
        document(&ran.out, "Bundle")["artifacts"]
            .as_array()
            .unwrap()
            .len(),
        count
    );
    let ran = bench.run(&["artifacts", "verify", "all.bundle", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let verdict = document(&ran.out, "BundleVerify");
    assert_eq!(verdict["artifacts"].as_array().unwrap().len(), count);
    assert_eq!(verdict["lacks"].as_array().unwrap().len(), 0);

    // The same bundle for a cluster that needs more, then one byte of it changed, then its end lost.
    bench.write(
        "more.yaml",
        "kubernetes: {version: \"1.35\"}\nmachines: [{name: cp, role: control-plane, addresses: [192.0.2.1]}]\n",
    );
    let ran = bench.run(&["artifacts", "verify", "all.bundle", "-f", "more.yaml"]);
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("is not in it"), "{}", ran.out);
    let whole = fs_err::read(bench.path().join("all.bundle")).unwrap();
    // A header is 512 bytes long and has the mark of its kind at 257.
    let mut marks = whole.windows(5);
    let place = marks.rposition(|bytes| bytes == b"ustar").unwrap() + 255;
    let mut changed = whole.clone();
    changed[place] = b'b';
    for (bytes, words) in [
        (changed.as_slice(), "is damaged"),
        (&whole[..place], "is cut off"),
        (b"nothing of the kind".as_slice(), "is not a bundle"),
    ] {
        fs_err::write(bench.path().join("all.bundle"), bytes).unwrap();
        let ran = bench.run(&["artifacts", "verify", "all.bundle"]);
        assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

#[test]
fn the_cache_that_the_file_names_may_be_below_the_users_folder() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "artifacts: {cache: ~/else/where}\nmachines: {linux: 1}\n",
    );
    let ran = bench.run(&["artifacts", "list", "--json"]);
    let cache = bench.path().join("else/where").display().to_string();
    assert_eq!(
        document(&ran.out, "Artifacts")["cache"],
        cache,
        "{}",
        ran.err
    );
}
