//! A file that changes between runs, and commands that change it.

use crate::lab::Lab;
use crate::network::services_are_reached;
use crate::trial::Trial;

const NODES: [&str; 2] = ["cp1", "lin1"];
const MORE: [&str; 3] = ["cp1", "lin1", "lin2"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn nodes_come_and_go_with_the_file() {
    let mut trial = Trial::begin("nodes_come_and_go_with_the_file");
    let lab = Lab::linux("file", 1);
    let _ = lab.up();
    trial.lap("up with one worker");

    lab.write(&Lab::text(2));
    let status = lab.status();
    let differences = status["differences"].to_string();
    assert!(differences.contains("join lin2"), "{status:#}");
    let _ = lab.up();
    lab.is_up(&MORE);
    let _ = lab.has_nothing_to_do();
    lab.serve(&MORE);
    services_are_reached(&lab, &MORE);
    trial.lap("the file says two: the second comes, and Services are reached from it");

    lab.write(&Lab::text(1));
    let _ = lab.run(&["up"]).code(2).says(&["lin2", "--yes"]);
    lab.ready(&MORE);
    let _ = lab.run(&["up", "--yes"]).good();
    lab.is_up(&NODES);
    lab.ready(&NODES);
    let _ = lab.has_nothing_to_do();
    assert!(!lab.machine("lin2").exists());
    services_are_reached(&lab, &NODES);
    trial.lap("the file says one: the second goes, and Services are reached");

    let commented = "# mine\n".to_owned() + &Lab::text(1) + "# the end\n";
    lab.write(&commented);
    let _ = lab.run(&["node", "add", "lin", "--yes"]).good();
    let file = fs_err::read_to_string(lab.path("cluster.yaml")).unwrap();
    assert_eq!(
        file,
        commented
            .replace("linux: 1", "linux: 2")
            .replace("NAME", &lab.name)
    );
    lab.is_up(&MORE);
    trial.lap("node add");
    let _ = lab.run(&["node", "remove", "lin2", "--yes"]).good();
    lab.is_up(&NODES);
    trial.lap("node remove");
    let _ = lab.run(&["node", "reboot", "lin1", "--yes"]).good();
    lab.is_up(&NODES);
    trial.lap("node reboot");
    let _ = lab.run(&["node", "reset", "lin1", "--yes"]).good();
    lab.is_up(&NODES);
    services_are_reached_again(&lab);
    trial.lap("node reset");

    let _ = lab.down();
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// A node that was reset has lost its pods, which nobody makes again.
fn services_are_reached_again(lab: &Lab) {
    let _ = lab
        .kubectl(&["delete", "namespace", crate::kube::SPACE])
        .good();
    lab.serve(&NODES);
    services_are_reached(lab, &NODES);
}
