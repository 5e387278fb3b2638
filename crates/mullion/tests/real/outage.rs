//! What is away for a while: an API server during a join, a worker for longer than its certificate is good for.

use std::time::Duration;

use crate::faults::begun;
use crate::lab::Lab;
use crate::trial::{Trial, until};

const NODES: [&str; 2] = ["cp1", "lin1"];

/// The certificate of a kubelet `lin1` that was good for the first day of 2020.
const EXPIRED: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBSjCB8gIBATAKBggqhkjOPQQDAjAyMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMx\n\
GTAXBgNVBAMMEHN5c3RlbTpub2RlOmxpbjEwHhcNMjAwMTAxMDAwMDAwWhcNMjAw\n\
MTAyMDAwMDAwWjAyMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxGTAXBgNVBAMMEHN5\n\
c3RlbTpub2RlOmxpbjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASpPab4v+cf\n\
kGc9vnRNeFGufKwGyFjND9nM7MyETYaQFA/Ke8+6+uTCwFftdoVCHJQ0dUXL7KUV\n\
8bLrHW3Oi/dNMAoGCCqGSM49BAMCA0cAMEQCIHmoiaSeCPTzItb7ZS+YmPIpLJY0\n\
zEr5SfDLC2x8BD6RAiAeR1azpYbIfRpRMi9xK6//XJVO8lQKKwkTa1N48FQEGw==\n\
-----END CERTIFICATE-----";

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
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
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_worker_whose_certificate_has_expired_joins_anew() {
    let mut trial = Trial::begin("a_worker_whose_certificate_has_expired_joins_anew");
    let lab = Lab::linux("stale", 1);
    let _ = lab.up();
    trial.lap("up");
    // As after a long time off: the file is there, and nobody takes it any more.
    let script = format!(
        "cat > /var/lib/kubelet/pki/kubelet-client-current.pem <<'END'\n{EXPIRED}\nEND\nsystemctl restart kubelet"
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
