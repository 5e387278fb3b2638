//! The whole story of one cluster: it comes, works, is repaired and goes.

use std::os::unix::fs::PermissionsExt as _;

use crate::computer::{cut_power, restart, settings};
use crate::kube::{SETTLE, name};
use crate::lab::Lab;
use crate::network::{kubelets_serve, policies_are_obeyed, ports_are_open, services_are_reached};
use crate::secrets;
use crate::trial::{Trial, until};
use crate::watcher::Watcher;

const NODES: [&str; 2] = ["cp1", "lin1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_cluster_comes_up_works_and_goes() {
    let mut trial = Trial::begin("a_cluster_comes_up_works_and_goes");
    let lab = Lab::linux("whole", 1);
    let before = settings();

    let watcher = Watcher::start();
    let _ = lab.up().says(&[
        "is up after",
        "mullion status",
        "mullion kubectl",
        "mullion down",
    ]);
    let memory = watcher.saw_no_fault();
    trial.lap(&format!("up (agents: {memory} kB at most)"));

    lab.is_up(&NODES);
    let nodes: Vec<_> = lab.list(&["nodes"]).iter().map(name).collect();
    assert_eq!(nodes, NODES);
    lab.all_pods_run();
    let _ = lab
        .run(&["status"])
        .good()
        .says(&["Ready", "nothing differs from the file"]);
    trial.lap("status: all Ready, nothing differs");

    let _ = lab.has_nothing_to_do();
    trial.lap("up again: nothing to do");

    lab.serve(&NODES);
    services_are_reached(&lab, &NODES);
    trial.lap("names and Services are reached from pods and nodes");
    ports_are_open(&lab, &NODES);
    kubelets_serve(&lab, &NODES);
    trial.lap("ports of nodes; exec, logs and port-forward");
    policies_are_obeyed(&lab, NODES);
    trial.lap("policies are obeyed");

    the_agent_is_small(&lab);
    trial.lap("the agent is small, and drift is told");

    secrets::are_private(&lab);
    secrets::are_in_no_log(&lab, &NODES);
    trial.lap("secrets are private, and in no log");

    other_commands(&lab);
    trial.lap("kubeconfig, ssh, console, runs");

    a_dead_worker_is_repaired(&lab);
    trial.lap("a worker that was killed is repaired");

    restart(&lab, &NODES, &before);
    one_up_brings_everything_back(&lab);
    trial.lap("after a restart of the computer one up brings everything back");

    let took = lab.down().took;
    trial.lap(&format!("down ({:.1} s)", took.as_secs_f32()));
    assert!(!lab.kept().exists(), "{} is left", lab.kept().display());
    trial.nothing_is_left();
    let _ = lab
        .run(&["down", "--yes"])
        .good()
        .says(&["nothing to remove"]);
    let _ = lab.run(&["kubectl", "get", "nodes"]).code(5);
    assert!(
        !lab.kept().exists(),
        "{} is there again",
        lab.kept().display()
    );
    trial.nothing_is_left();
    trial.lap("nothing is left, and down again finds nothing");
}

fn other_commands(lab: &Lab) {
    // A kubeconfig of the user's own stays as it was, but for what is added.
    let file = lab.path("config");
    let own = "apiVersion: v1\nkind: Config\ncurrent-context: mine\npreferences: {}\n\
        clusters:\n- name: mine\n  cluster: {server: https://192.0.2.1:6443}\n\
        contexts:\n- name: mine\n  context: {cluster: mine, user: me}\nusers:\n- name: me\n  user: {token: abc}\n";
    fs_err::write(&file, own).unwrap();
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let path = file.display().to_string();
    let _ = lab
        .run(&["kubeconfig", "--merge", &path, "--context", "ours"])
        .good();
    let mode = fs_err::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let view = [
        "kubectl",
        "config",
        "view",
        "--output=json",
        "--kubeconfig",
        &path,
    ];
    let merged = lab.run(&view).good().json();
    let contexts: Vec<_> = merged["contexts"].as_array().unwrap().iter().collect();
    for wanted in ["mine", "ours"] {
        assert!(
            contexts.iter().any(|context| context["name"] == wanted),
            "{merged:#}"
        );
    }
    let nodes = [
        "kubectl",
        "--kubeconfig",
        &path,
        "--context=ours",
        "get",
        "nodes",
    ];
    let _ = lab.run(&nodes).good().says(&NODES);
    let printed = lab.run(&["kubeconfig"]).good().out;
    assert!(printed.contains("client-key-data"), "no kubeconfig");

    for node in NODES {
        let ran = lab.run(&["ssh", node, "--", "hostname"]).good();
        assert_eq!(ran.out.trim(), node);
    }
    let _ = lab.run(&["ssh", "lin1", "--", "exit 7"]).code(7);
    let ran = lab.run(&["console", "cp1"]).good();
    assert!(ran.out.lines().count() > 5, "{ran}");

    let runs = lab.run(&["runs", "--json"]).good().json();
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{runs:#?}");
    let is_done = |run: &serde_json::Value| run["state"] == "done";
    assert!(runs.iter().all(is_done), "{runs:#?}");
    let first = runs.last().unwrap()["run"].as_str().unwrap();
    let _ = lab
        .run(&["runs", "show", first, "--html", "run.html"])
        .good();
    let page = fs_err::read_to_string(lab.path("run.html")).unwrap();
    for word in ["<svg", "cp1", "lin1", "join"] {
        assert!(page.contains(word), "the page has no `{word}`");
    }
}

/// It has less than 20 MB to work in, of which most is never touched; and what somebody changed it tells.
fn the_agent_is_small(lab: &Lab) {
    let agent = "/usr/local/lib/mullion/mullion-agent";
    let script = format!(
        "stat -c %s {agent}; ulimit -v 20000; echo '{{\"version\":1,\"ask\":\"facts\"}}' | {agent} serve"
    );
    let ran = lab.run(&["ssh", "lin1", "--", &script]).good();
    let size: u64 = ran.out.lines().next().unwrap().trim().parse().unwrap();
    assert!(size < 8_000_000, "{size} bytes");
    assert!(ran.out.contains("\"facts\""), "{ran}");

    let _ = lab
        .run(&["ssh", "lin1", "--", "echo >> /etc/crictl.yaml"])
        .good();
    let _ = lab
        .run(&["status"])
        .good()
        .says(&["`/etc/crictl.yaml` was changed"]);
    let _ = lab.up();
    let _ = lab.has_nothing_to_do();
}

fn a_dead_worker_is_repaired(lab: &Lab) {
    cut_power(lab, "lin1");
    let status = lab.status();
    assert_eq!(status["machines"][1]["name"], "lin1", "{status:#}");
    assert_eq!(status["machines"][1]["machine"], "off", "{status:#}");
    let differences = status["differences"].as_array().unwrap();
    let is_told =
        |line: &serde_json::Value| line.as_str().is_some_and(|line| line.contains("lin1"));
    assert!(differences.iter().any(is_told), "{status:#}");
    let _ = lab.run(&["up", "--only", "lin1"]).good();
    serves_again(lab);
}

/// Nothing of the cluster runs: machines, mounts, the bridge and what is below `/run` went with the restart.
fn one_up_brings_everything_back(lab: &Lab) {
    let status = lab.status();
    for machine in status["machines"].as_array().unwrap() {
        assert_eq!(machine["machine"], "off", "{status:#}");
    }
    assert_eq!(status["apiServer"], "silent", "{status:#}");
    let down = [
        "machines cp1, lin1 are off",
        "the machine network of this computer is gone",
        "the API server does not answer",
    ];
    assert_eq!(status["down"], serde_json::json!(down), "{status:#}");
    let _ = lab.up();
    serves_again(lab);
}

/// All nodes are Ready, and the pods that served before serve again.
fn serves_again(lab: &Lab) {
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    lab.all_pods_run();
    for from in NODES {
        until("the pods serve again", SETTLE, || {
            lab.connects(from, "on-lin1.proof:80")
                .and_then(|()| lab.connects(from, "on-cp1.proof:80"))
        });
    }
}
