//! `kubeconfig` and `kubectl`, with a state folder as a run of `up` leaves it.

use std::os::unix::fs::PermissionsExt as _;

use mullion_artifacts::{Item, Store};
use mullion_plan::{Part, PartKind, Unattended};
use mullion_spec::words::Os;

use crate::Bench;
use crate::json::document;

const ADMIN: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: \"https://10.99.0.2:6443\", certificate-authority-data: QUJD}
contexts:
- name: kubernetes-admin@kubernetes
  context: {cluster: kubernetes, user: kubernetes-admin}
current-context: kubernetes-admin@kubernetes
users:
- name: kubernetes-admin
  user: {client-certificate-data: QUJD, client-key-data: QUJD}
";

fn up(name: &str) -> Bench {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        format!("metadata: {{name: {name}}}\nmachines: {{linux: 1}}\n"),
    );
    let folder = bench
        .path()
        .join(".local/state/mullion/clusters")
        .join(name);
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("kubeconfig"), ADMIN).unwrap();
    bench
}

fn mode(bench: &Bench, name: &str) -> u32 {
    let found = fs_err::metadata(bench.path().join(name)).unwrap();
    found.permissions().mode() & 0o777
}

#[test]
fn before_up_there_is_none_and_the_way_to_one_is_told() {
    let bench = Bench::new();
    for arguments in [
        &["kubeconfig"][..],
        &["kubeconfig", "--merge"],
        &["kubectl", "get", "nodes"],
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, 5, "{arguments:?} {}", ran.err);
        assert!(
            ran.err.contains("`mullion` is not up") && ran.err.contains("mullion up"),
            "{}",
            ran.err
        );
        assert!(ran.out.is_empty());
    }
    assert!(!bench.path().join(".kube").exists());
}

#[test]
fn the_kubeconfig_is_named_after_the_cluster() {
    let bench = up("demo");
    let ran = bench.run(&["kubeconfig"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("current-context: demo") && !ran.out.contains("kubernetes-admin@"),
        "{}",
        ran.out
    );
    let other = bench.run(&["kubeconfig", "--context", "work"]);
    assert!(other.out.contains("current-context: work"), "{}", other.out);
    let json = document(&bench.run(&["kubeconfig", "--json"]).out, "Kubeconfig");
    assert_eq!(json["kubeconfig"], ran.out);
    assert_eq!(json["context"], "demo");
    // From any folder.
    let elsewhere = bench.path().join("elsewhere");
    fs_err::create_dir(&elsewhere).unwrap();
    let far = bench
        .command()
        .current_dir(elsewhere)
        .args(["kubeconfig", "--cluster", "demo"])
        .output();
    assert_eq!(String::from_utf8(far.unwrap().stdout).unwrap(), ran.out);
}

#[test]
fn a_merge_keeps_the_users_contexts_mode_and_link() {
    let bench = up("demo");
    let mine = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: \"https://a\"}}]\n\
                contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n\
                current-context: a\n";
    bench.write("real", mine);
    let open = std::fs::Permissions::from_mode(0o640);
    fs_err::set_permissions(bench.path().join("real"), open).unwrap();
    fs_err::os::unix::fs::symlink("real", bench.path().join("config")).unwrap();
    // A link by a relative name is refused: in somebody else's repository it may lead anywhere.
    let ran = bench.run(&["kubeconfig", "--merge", "config"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("symbolic link"), "{}", ran.err);
    assert_eq!(bench.read("real"), mine);
    let link = bench.path().join("config");
    for (change, code) in [("changed", 0), ("unchanged", 0)] {
        let ran = bench.run(&["kubeconfig", "--merge", link.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        assert_eq!(document(&ran.out, "Kubeconfig")["change"], change);
    }
    let merged = bench.read("real");
    assert!(
        merged.contains("current-context: a") && merged.contains("name: demo"),
        "{merged}"
    );
    assert_eq!(mode(&bench, "real"), 0o640);
    assert!(bench.path().join("config").is_symlink());
}

#[test]
fn a_merge_goes_to_the_variable_or_to_the_usual_place() {
    let bench = up("demo");
    let ran = bench.run(&["kubeconfig", "--merge"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("made") && ran.err.contains(".kube/config"),
        "{}",
        ran.err
    );
    assert!(ran.out.is_empty(), "a merge writes no data");
    assert_eq!(mode(&bench, ".kube/config"), 0o600);
    let output = bench
        .command()
        .env("KUBECONFIG", "one:two")
        .args(["kubeconfig", "--merge"])
        .output();
    assert!(output.unwrap().status.success());
    assert!(bench.read("one").contains("name: demo") && !bench.path().join("two").exists());
}

#[test]
fn what_does_not_read_or_is_somebody_s_is_not_written() {
    let bench = up("demo");
    for (bad, word) in [
        ("clusters: [", "--merge FILE"),
        (
            "contexts: [{name: demo, context: {cluster: x, user: y}}]\n",
            "--context NAME",
        ),
    ] {
        bench.write("config", bad);
        let ran = bench.run(&["kubeconfig", "--merge", "config"]);
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(
            ran.err.contains(word) && ran.err.contains("config"),
            "{}",
            ran.err
        );
        assert_eq!(bench.read("config"), bad);
    }
}

#[test]
fn kubectl_is_the_clusters_own_and_its_exit_code_is_handed_on() {
    let bench = up("demo");
    let ran = bench.run(&["kubectl", "get", "pods"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("mullion artifacts fetch"), "{}", ran.err);
    let list = document(
        &bench.run(&["artifacts", "list", "--json"]).out,
        "Artifacts",
    );
    let row = list["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "kubectl")
        .unwrap();
    let part = Part {
        name: "kubectl".into(),
        os: Os::Linux,
        kind: PartKind::Program,
        version: row["version"].as_str().unwrap().into(),
    };
    bench.write(
        "kubectl",
        "#!/bin/sh\necho \"$KUBECONFIG\"\necho \"$@\"\ncat\nexit 7\n",
    );
    let store = Store::open(&bench.path().join(".cache/mullion")).unwrap();
    store
        .put(
            &Item::Part(part),
            &bench.path().join("kubectl"),
            &Unattended,
        )
        .unwrap();
    let mut command = bench.command();
    let output = command
        .args(["kubectl", "get", "pods", "-A", "--help"])
        .write_stdin("input")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let kubeconfig = bench
        .path()
        .join(".local/state/mullion/clusters/demo/kubeconfig");
    let expected = format!("{}\nget pods -A --help\ninput", kubeconfig.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
