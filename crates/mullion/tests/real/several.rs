//! Several clusters on one computer, and several people at one cluster.

use std::time::{Duration, Instant};

use crate::lab::{Lab, PATIENCE};
use crate::trial::Trial;

const NODES: [&str; 2] = ["cp1", "lin1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn two_clusters_side_by_side() {
    let mut trial = Trial::begin("two_clusters_side_by_side");
    let labs = [Lab::linux("one", 1), Lab::linux("two", 1)];
    let ups = labs.each_ref().map(|lab| lab.start(&["up"]));

    // A second run of the same cluster, while the first goes on.
    let end = Instant::now() + PATIENCE;
    while labs[0].runs().is_empty() {
        assert!(Instant::now() < end, "no run was begun: {}", ups[0].err());
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = labs[0].run(&["up"]).code(4);
    let _ = second.says(&[
        "another run of cluster",
        "mullion up",
        &format!("process {}", ups[0].pid()),
    ]);
    let status = labs[0].status();
    let run = status["run"].as_str().unwrap_or_default();
    assert!(run.contains("mullion up"), "{status:#}");
    let _ = labs[0].run(&["down", "--yes"]).code(4);
    trial.lap("a second run of the same cluster is refused");

    for (lab, up) in labs.iter().zip(ups) {
        let _ = lab.end(up).good();
    }
    trial.lap("two clusters come up at once");
    for lab in &labs {
        lab.is_up(&NODES);
        let _ = lab.has_nothing_to_do();
        lab.all_pods_run();
    }
    let [one, two] = labs.each_ref().map(|lab| lab.address("cp1"));
    assert_ne!(one, two);
    trial.lap("both are Ready");
    let _ = labs[0].down();
    // What one leaves behind when it goes is not the other's.
    labs[1].is_up(&NODES);
    labs[1].serve(&NODES);
    crate::network::ports_are_open(&labs[1], &NODES);
    let _ = labs[1].down();
    trial.nothing_is_left();
    trial.lap("one goes, the other works, and goes too");
}
