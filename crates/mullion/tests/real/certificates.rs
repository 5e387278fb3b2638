//! Certificates of a control plane that end soon, and that have expired: `up` renews them, and what etcd holds stays.

use std::process::Command;
use std::time::{Duration, Instant};

use mullion_kube::kubeconfig::client_certificate_id;
use serde_json::{Value, json};

use crate::kube::SETTLE;
use crate::lab::Lab;
use crate::trial::{Trial, until};

const FILE: &str = "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines:\n\
    - {name: cp, role: control-plane, os: linux, count: 1, schedulable: true}\n";

/// So long are the certificates good that expire during the test.
const SHORT: Duration = Duration::from_secs(20);

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_04_certificates_that_end_soon_are_renewed_after_a_snapshot() {
    let mut trial =
        Trial::begin("promise_04_certificates_that_end_soon_are_renewed_after_a_snapshot");
    let lab = up("cert");
    trial.lap("up");
    let found = certificates(&lab);
    let days = |what: &str| found[what]["daysLeft"].as_i64().unwrap();
    assert!(days("first") >= 363, "{found}");
    assert!(days("authority") > 3600, "{found}");
    assert_eq!(found["warnings"], json!([]));

    let (served, admin) = (served(&lab), kept_certificate(&lab));
    age_one(&lab, "cp1");
    let found = certificates(&lab);
    assert_eq!(found["first"]["file"], "pki/front-proxy-client.crt");
    let _ = lab.run(&["status"]).good().says(&[
        "warning: the certificate",
        "ends in 4 days",
        "renew the certificates of cp1",
    ]);
    let ran = lab.up().says(&["saved a snapshot of etcd: "]);
    let mut lines = ran.err.lines();
    let snapshot = lines.find_map(|line| line.strip_prefix("saved a snapshot of etcd: "));
    let snapshot = fs_err::metadata(snapshot.unwrap()).unwrap();
    assert!(snapshot.len() > 10_000, "{snapshot:?}");
    trial.lap("up renews what ends in four days, after a snapshot");
    is_new(&lab, &served, &admin);
    let _ = lab.down();
    trial.nothing_is_left();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn expired_certificates_are_renewed_though_the_api_server_refuses() {
    let mut trial = Trial::begin("expired_certificates_are_renewed_though_the_api_server_refuses");
    let lab = up("old");
    trial.lap("up");
    let (served, admin) = (served(&lab), kept_certificate(&lab));
    let expired = shorten(&lab);
    std::thread::sleep(expired.saturating_duration_since(Instant::now()));
    let status = lab.status();
    assert_eq!(status["apiServer"], "silent", "{status:#}");
    assert_eq!(certificates(&lab)["first"]["daysLeft"], -1);
    trial.lap("the certificates have expired");
    let _ = lab
        .up()
        .says(&["saved no snapshot of etcd before the certificates of cp1 are renewed"]);
    trial.lap("up renews them though the API server refuses");
    is_new(&lab, &served, &admin);
    let _ = lab.down();
    trial.nothing_is_left();
}

/// A cluster of one machine, with an object that must stay.
fn up(word: &str) -> Lab {
    let lab = Lab::new(word, FILE);
    let _ = lab.up();
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"},
        "data": {"value": "precious"},
    });
    lab.apply(&[kept]);
    lab
}

/// Everything is as before, with certificates of a year: on the disk, on the wire and in the kubeconfig that is kept.
#[track_caller]
fn is_new(lab: &Lab, served: &str, admin: &str) {
    lab.is_up(&["cp1"]);
    let found = certificates(lab);
    assert!(
        found["first"]["daysLeft"].as_i64().unwrap() >= 363,
        "{found}"
    );
    assert_eq!(found["warnings"], json!([]));
    assert_ne!(
        self::served(lab),
        served,
        "the API server serves the old one"
    );
    assert_ne!(kept_certificate(lab), admin, "the old kubeconfig is kept");
    until("the kept object is read", SETTLE, || {
        let map = lab.get(&["configmap", "kept"]);
        match map["data"]["value"].as_str() {
            Some("precious") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let _ = lab.has_nothing_to_do();
}

fn certificates(lab: &Lab) -> Value {
    certificates_of(lab, "cp1")
}

/// What `status` tells of the certificates of a control plane.
#[track_caller]
pub(crate) fn certificates_of(lab: &Lab, machine: &str) -> Value {
    let status = lab.status();
    let found = status["machines"].as_array().unwrap();
    let machine = found.iter().find(|found| found["name"] == machine);
    machine.unwrap_or_else(|| panic!("{status:#}"))["certificates"].clone()
}

/// The certificate that the API server serves.
fn served(lab: &Lab) -> String {
    let place = format!("{}:6443", lab.address("cp1"));
    let script = format!(
        "openssl s_client -connect {place} </dev/null 2>/dev/null | openssl x509 -noout -serial -enddate"
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("serial="), "{text}");
    text
}

/// The admin's certificate in the kubeconfig that is kept.
fn kept_certificate(lab: &Lab) -> String {
    let text = fs_err::read_to_string(lab.kept().join("kubeconfig")).unwrap();
    client_certificate_id(&text).unwrap()
}

fn ssh(lab: &Lab, machine: &str, command: &str) -> String {
    lab.run(&["ssh", machine, "--", command]).good().out
}

/// Puts a certificate in the place of one of kubeadm's on a control plane that was issued 360 days ago and ends in five
/// days.
pub(crate) fn age_one(lab: &Lab, machine: &str) {
    let folder = lab.path(&format!("aged-{machine}"));
    fs_err::create_dir(&folder).unwrap();
    let pki = "/etc/kubernetes/pki";
    for name in [
        "front-proxy-ca.crt",
        "front-proxy-ca.key",
        "front-proxy-client.key",
    ] {
        let text = ssh(lab, machine, &format!("cat {pki}/{name}"));
        fs_err::write(folder.join(name), text).unwrap();
    }
    let settings = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n\
        policy=p\nx509_extensions=e\ncertificate=front-proxy-ca.crt\nprivate_key=front-proxy-ca.key\n\
        [p]\ncommonName=supplied\n[e]\nextendedKeyUsage=clientAuth\n[req]\ndistinguished_name=n\n[n]\n";
    fs_err::write(folder.join("settings"), settings).unwrap();
    let script = "touch index; echo 1000 > serial; \
        openssl req -config settings -new -key front-proxy-client.key -subj /CN=front-proxy-client -out request && \
        openssl ca -config settings -batch -notext -in request -out aged.crt \
        -startdate $(date -u -d '360 days ago' +%Y%m%d%H%M%SZ) -enddate $(date -u -d '5 days' +%Y%m%d%H%M%SZ)";
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let aged = fs_err::read_to_string(folder.join("aged.crt")).unwrap();
    let path = format!("{pki}/front-proxy-client.crt");
    let command = format!("cat > {path} && touch -d '360 days ago' {path}");
    let _ = lab
        .run_with(&["ssh", machine, "--", &command], &aged)
        .good();
}

/// Lets kubeadm issue certificates that are good for [`SHORT`]; gives back when they have expired.
fn shorten(lab: &Lab) -> Instant {
    let version = ssh(lab, "cp1", "kubeadm version -o short");
    let settings = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {}\n\
         certificateValidityPeriod: {}s\n",
        version.trim(),
        SHORT.as_secs()
    );
    let command = "cat > /root/short.yaml && kubeadm certs renew all --config /root/short.yaml && rm /root/short.yaml";
    let _ = lab
        .run_with(&["ssh", "cp1", "--", command], &settings)
        .good();
    Instant::now() + SHORT + Duration::from_secs(2)
}
