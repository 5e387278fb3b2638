//! What outlives a restart of this computer, and what outlives the loss of the state folder.

use serde_json::Value;

use crate::computer::{restart, settings};
use crate::kube::SETTLE;
use crate::lab::Lab;
use crate::secrets;
use crate::trial::{Trial, until};

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn after_a_restart_of_the_computer_up_starts_what_is_stopped() {
    let mut trial = Trial::begin("after_a_restart_of_the_computer_up_starts_what_is_stopped");
    let lab = Lab::built_in("restart");
    let before = settings();
    let _ = lab.up();
    lab.serve(&NODES);
    let (cluster, labels) = (cluster_id(&lab), labels(&lab));
    trial.lap("up");

    restart(&lab, &NODES, &before);
    let status = lab.status();
    for machine in status["machines"].as_array().unwrap() {
        assert_eq!(machine["machine"], "off", "{status:#}");
    }
    assert_eq!(status["apiServer"], "silent", "{status:#}");
    let down = [
        "machines cp1, lin1, win1 are off",
        "the machine network of this computer is gone",
        "the API server does not answer",
    ];
    assert_eq!(status["down"], serde_json::json!(down), "{status:#}");
    let _ = lab
        .run(&["status"])
        .good()
        .says(&["down: ", "`mullion up` brings back what is down"]);
    let _ = lab.up();
    is_the_same(&lab, &cluster, &labels);
    trial.lap("after a restart of the computer all is Ready again");

    fs_err::remove_dir_all(lab.state()).unwrap();
    let status = lab.status();
    for machine in status["machines"].as_array().unwrap() {
        assert_eq!(machine["machine"], "running", "{status:#}");
    }
    let _ = lab.up();
    is_the_same(&lab, &cluster, &labels);
    secrets::are_private(&lab);
    trial.lap("without the state folder all is found by its label");

    // Another folder, no file, no state: the name is enough.
    fs_err::remove_dir_all(lab.state()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut down = lab.command(&["down", "--yes", "--cluster", &lab.name]);
    let running = lab.start_command(down.current_dir(elsewhere.path()));
    let _ = lab.end(running).good().says(&["nothing is left"]);
    assert!(!lab.kept().exists(), "{} is left", lab.kept().display());
    trial.nothing_is_left();
    trial.lap("down by the name alone leaves nothing");
}

/// The same machines are the same cluster, and it works.
#[track_caller]
fn is_the_same(lab: &Lab, cluster: &str, labels: &[Value]) {
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    assert_eq!(cluster_id(lab), cluster);
    assert_eq!(self::labels(lab), labels);
    lab.all_pods_run();
    for from in NODES {
        for to in ["on-cp1.proof:80", "on-lin1.proof:80", "on-win1.proof:80"] {
            until("pods reach each other", SETTLE, || lab.connects(from, to));
        }
    }
}

/// What tells one cluster from every other.
#[track_caller]
fn cluster_id(lab: &Lab) -> String {
    let space = lab.get(&["namespace", "kube-system"]);
    space["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The labels of all machines.
#[track_caller]
fn labels(lab: &Lab) -> Vec<Value> {
    let read = |machine: &&str| {
        let text = fs_err::read_to_string(lab.machine(machine).join("machine.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    NODES.iter().map(read).collect()
}
