//! Three control planes, and a machine before them that everybody talks to.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;

use crate::certificates::{age_one, certificates_of};
use crate::computer::{cut_power, lose};
use crate::killed::journal;
use crate::kube::SETTLE;
use crate::lab::Lab;
use crate::trial::{Trial, until};

const NODES: [&str; 4] = ["cp1", "cp2", "cp3", "lin1"];
const MACHINES: [&str; 5] = ["cp1", "cp2", "cp3", "lin1", "lb1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn three_control_planes_behind_a_load_balancer() {
    let mut trial = Trial::begin("three_control_planes_behind_a_load_balancer");
    let lab = Lab::new(
        "three",
        "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines:\n\
         - {name: cp, role: control-plane, count: 3}\n- {name: lin, role: worker, count: 1}\n",
    );
    let _ = lab.up();
    trial.lap("up");

    let status = lab.status();
    let mut names: Vec<_> = status["machines"].as_array().unwrap().iter().collect();
    names.sort_by_key(|machine| machine["name"].as_str());
    let names: Vec<_> = names
        .iter()
        .filter_map(|machine| machine["name"].as_str())
        .collect();
    let mut wanted = MACHINES;
    wanted.sort_unstable();
    assert_eq!(names, wanted, "{status:#}");
    assert_eq!(status["differences"], serde_json::json!([]), "{status:#}");
    let balancer = format!("{}:6443", lab.address("lb1"));
    assert_eq!(status["endpoint"], balancer, "{status:#}");
    assert_eq!(lab.ready_nodes(), NODES.map(String::from).into());
    lab.all_pods_run();
    let members = lab.list(&[
        "pods",
        "--namespace=kube-system",
        "--selector=component=etcd",
    ]);
    assert_eq!(members.len(), 3);
    let _ = lab.has_nothing_to_do();
    trial.lap("all Ready, three members, nothing to do");

    // Not the first to come, which is also the one that most often is thought to be there.
    cut_power(&lab, "cp1");
    until(
        "the API server answers by the others",
        Duration::from_mins(1),
        || {
            let ran = lab.kubectl(&["get", "nodes", "--request-timeout=5s"]);
            if ran.code == 0 {
                Ok(())
            } else {
                Err(ran.to_string())
            }
        },
    );
    trial.lap("one is killed, and the API server answers");
    let _ = lab.up();
    become_ready(&lab);
    lab.all_pods_run();
    let _ = lab.has_nothing_to_do();
    trial.lap("up repairs it");

    a_reset_saves_what_etcd_holds(&lab);
    trial.lap("one is reset: only with a healthy majority, and after a snapshot");

    two_are_renewed_one_after_the_other(&lab);
    trial.lap("up renews the old certificates of two, one after the other");

    // A machine that is lost with its disk: etcd must let it go before another one can come.
    lose(&lab, "cp3");
    let _ = lab.run(&["up", "--yes"]).good();
    become_ready(&lab);
    let _ = lab.has_nothing_to_do();
    trial.lap("one is lost with its disk, and made anew");

    let _ = lab.down();
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// A control plane is reset while etcd can do without it, and what etcd holds is saved first.
fn a_reset_saves_what_etcd_holds(lab: &Lab) {
    const MANIFEST: &str = "/etc/kubernetes/manifests/etcd.yaml";
    let reset = || lab.run(&["node", "reset", "cp2", "--yes"]);
    let away = format!("mv {MANIFEST} /root/");
    let _ = lab.run(&["ssh", "cp1", "--", &away]).good();
    until("etcd of cp1 ends", SETTLE, || {
        let ran = lab.run(&["ssh", "cp1", "--", "! pgrep -x etcd"]);
        if ran.code == 0 {
            Ok(())
        } else {
            Err(ran.to_string())
        }
    });
    let refused = "only 1 of the 2 other members of etcd is healthy";
    let _ = reset().code(5).says(&[refused]);
    let back = format!("mv /root/etcd.yaml {MANIFEST}");
    let _ = lab.run(&["ssh", "cp1", "--", &back]).good();
    until("etcd of cp1 is back", SETTLE, || {
        let ran = lab.kubectl(&["get", "--raw=/readyz", "--request-timeout=5s"]);
        let etcd = lab.run(&["ssh", "cp1", "--", "pgrep -x etcd"]);
        if ran.code == 0 && etcd.code == 0 {
            Ok(())
        } else {
            Err(format!("{ran}{etcd}"))
        }
    });
    become_ready(lab);
    // It may lag behind the others for a moment, and is not healthy until then.
    until("cp2 is reset", SETTLE, || {
        let ran = reset();
        if ran.code == 0 && ran.to_string().contains("saved a snapshot of etcd: ") {
            Ok(())
        } else {
            Err(ran.to_string())
        }
    });
    let _ = saved_once(lab);
    become_ready(lab);
    let _ = lab.has_nothing_to_do();
}

/// The certificates of two control planes end in days. One `up` renews both, each after a snapshot, and begins with the
/// second only when the first is back.
fn two_are_renewed_one_after_the_other(lab: &Lab) {
    let good = |machine: &str| {
        let found = certificates_of(lab, machine);
        assert!(
            found["first"]["daysLeft"].as_i64().unwrap() >= 363,
            "{machine}: {found}"
        );
        assert_eq!(found["warnings"], serde_json::json!([]), "{machine}");
    };
    let kept = || {
        let command = "cat /etc/kubernetes/pki/*.crt /etc/kubernetes/pki/etcd/*.crt";
        lab.run(&["ssh", "cp3", "--", command]).good().out
    };
    let before = kept();
    for machine in ["cp1", "cp2"] {
        age_one(lab, machine);
        let found = certificates_of(lab, machine);
        assert_eq!(found["first"]["file"], "pki/front-proxy-client.crt");
        // Five days less what has passed since, which may be less than a second.
        let left = found["first"]["daysLeft"].as_i64().unwrap();
        assert!((4..=5).contains(&left), "{machine}: {found}");
    }
    let ran = lab.up().says(&[
        "renewed the certificates of cp1",
        "renewed the certificates of cp2",
    ]);
    let lines = ran.err.lines();
    let saved: BTreeSet<_> = lines
        .filter_map(|line| line.strip_prefix("saved a snapshot of etcd: "))
        .collect();
    assert_eq!(saved.len(), 2, "{ran}");
    let lines = journal(lab.runs().last().unwrap());
    let is_it = |line: &Value, kind: &str, step: &str| line["line"] == kind && line["step"] == step;
    let begin = |step: &str| lines.iter().position(|line| is_it(line, "begin", step));
    let end = |step: &str| lines.iter().rposition(|line| is_it(line, "end", step));
    let steps = [
        begin("snapshot/cp1"),
        begin("renew/cp1"),
        end("renew/cp1"),
        begin("snapshot/cp2"),
        begin("renew/cp2"),
        end("renew/cp2"),
    ];
    assert!(steps.iter().all(Option::is_some), "{steps:?}\n{ran}");
    assert!(steps.is_sorted(), "{steps:?}\n{ran}");
    for step in ["snapshot/cp3", "renew/cp3"] {
        assert_eq!(begin(step), None, "{ran}");
    }
    become_ready(lab);
    for machine in ["cp1", "cp2", "cp3"] {
        good(machine);
    }
    assert_eq!(kept(), before, "cp3 has other certificates");
    let _ = lab.has_nothing_to_do();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_04_a_reset_saves_what_etcd_holds_and_down_keeps_it() {
    let mut trial = Trial::begin("promise_04_a_reset_saves_what_etcd_holds_and_down_keeps_it");
    let lab = Lab::new(
        "saved",
        "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines:\n\
         - {name: cp, role: control-plane, count: 2}\n",
    );
    let _ = lab.up();
    trial.lap("up");
    let reset = lab.run(&["node", "reset", "cp2", "--yes"]).good();
    let _ = reset.says(&["saved a snapshot of etcd: "]);
    let saved = saved_once(&lab);
    trial.lap("one is reset after a snapshot, and joins again");
    let kept = format!("kept the etcd snapshot `{}`", saved.display());
    let _ = lab.down().says(&[&kept]);
    assert!(saved.exists());
    trial.nothing_is_left();
    trial.lap("down leaves the snapshot and nothing else");
}

/// The one snapshot that was saved: whole, and readable by its owner alone.
fn saved_once(lab: &Lab) -> std::path::PathBuf {
    let saved = fs_err::read_dir(lab.state().join("snapshots").join(&lab.name)).unwrap();
    let saved: Vec<_> = saved.map(|entry| entry.unwrap()).collect();
    assert_eq!(saved.len(), 1, "{saved:?}");
    let file = saved[0].metadata().unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert!(file.len() > 100_000, "{} bytes", file.len());
    saved[0].path()
}

fn become_ready(lab: &Lab) {
    until("all nodes are Ready", SETTLE, || {
        let ready = lab.ready_nodes();
        if ready.len() == NODES.len() {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    });
}
