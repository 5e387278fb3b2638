//! What is away for a while: an API server during a join, a worker for longer than its certificate is good for.

use std::time::Duration;

use crate::faults::begun;
use crate::lab::Lab;
use crate::ran::tool;
use crate::trial::{Trial, until};

const NODES: [&str; 2] = ["cp1", "lin1"];

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn an_api_server_that_is_away_during_a_join_is_waited_for() {
    let mut trial = Trial::begin("an_api_server_that_is_away_during_a_join_is_waited_for");
    let lab = Lab::linux("away", 1);
    let mut up = lab.start(&["up"]);
    begun(&lab, &mut up, "join/lin1");
    let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
    // Away for good: it comes back by a timer of the machine's own, long after the join has met nobody.
    let script = format!(
        "mv {manifest} /root/ && pkill -x kube-apiserver; \
         systemd-run --quiet --on-active=25 mv /root/kube-apiserver.yaml {manifest}"
    );
    let _ = lab.run(&["ssh", "cp1", "--", &script]).good();
    let _ = lab.end(up).good();
    trial.lap("the API server goes and comes back while a worker joins");
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    let _ = lab.down();
    trial.nothing_is_left();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_worker_whose_certificate_has_expired_joins_anew() {
    let mut trial = Trial::begin("a_worker_whose_certificate_has_expired_joins_anew");
    let lab = Lab::linux("stale", 1);
    let _ = lab.up();
    trial.lap("up");
    let pair = lab.path("expired").display().to_string();
    tool(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "0",
            "-subj",
            "/O=system:nodes/CN=system:node:lin1",
            "-keyout",
            &pair,
            "-out",
            &format!("{pair}.crt"),
        ],
    );
    let certificate = fs_err::read_to_string(format!("{pair}.crt")).unwrap();
    let key = fs_err::read_to_string(&pair).unwrap();
    // As after a long time off: the file is there, and nobody takes it any more.
    let script = format!(
        "cat > /var/lib/kubelet/pki/kubelet-client-current.pem <<'END'\n{certificate}{key}END\nsystemctl restart kubelet"
    );
    let _ = lab.run(&["ssh", "lin1", "--", &script]).good();
    until("status tells it", Duration::from_mins(1), || {
        let status = lab.status();
        let told = status["differences"].to_string();
        if told.contains("certificate expired") {
            Ok(())
        } else {
            Err(told)
        }
    });
    trial.lap("the worker's certificate has expired, and status says so");
    let _ = lab.run(&["up", "--yes"]).good();
    lab.is_up(&NODES);
    lab.all_pods_run();
    let _ = lab.has_nothing_to_do();
    trial.lap("up lets it join anew");
    let _ = lab.down();
    trial.nothing_is_left();
}
