//! Three control planes, and a machine before them that everybody talks to.

use std::time::Duration;

use crate::computer::{cut_power, lose};
use crate::kube::SETTLE;
use crate::lab::Lab;
use crate::trial::{Trial, until};

const NODES: [&str; 4] = ["cp1", "cp2", "cp3", "lin1"];
const MACHINES: [&str; 5] = ["cp1", "cp2", "cp3", "lin1", "lb1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
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
