//! A mirror that alone vouches for what it has, against `openssl s_server`. No machine is made.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::lab::Lab;
use crate::ran::tool;

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves a folder over TLS, with a certificate of the authority `ca.pem` in the folder.
fn serve(folder: &Path) -> (Server, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    fs_err::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    for line in [
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca"),
        &format!("req -new {key} -keyout mirror.key -out request.pem -subj /CN=localhost"),
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out mirror.pem -days 2 -extfile names",
    ] {
        let mut openssl = Command::new("openssl");
        let openssl = openssl.args(line.split(' ')).current_dir(folder);
        assert!(
            openssl.stderr(Stdio::null()).status().unwrap().success(),
            "{line}"
        );
    }
    let child = Command::new("openssl")
        .args(["s_server", "-quiet", "-WWW", "-cert", "mirror.pem"])
        .args(["-key", "mirror.key", "-accept", &port.to_string()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server(child);
    for _ in 0..100 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    (server, port)
}

#[test]
#[ignore = "needs openssl; cargo xtask test runs it"]
fn promise_10_a_mirror_that_is_trusted_at_its_first_use_is_warned_of() {
    let lab = Lab::new("mirror", "metadata: {name: NAME}\nmachines: {linux: 1}\n");
    let mirror = lab.path("mirror");
    fs_err::create_dir(&mirror).unwrap();
    let (_server, port) = serve(&mirror);
    // Upstream cannot be asked: nothing listens at the proxy.
    lab.write(&format!(
        "metadata: {{name: NAME}}\n\
         artifacts: {{cache: cache, build: never, mirror: \"https://localhost:{port}\"}}\n\
         proxy: {{http: \"http://127.0.0.1:9\", https: \"http://127.0.0.1:9\", no: [localhost]}}\n\
         trust: [{{file: mirror/ca.pem}}]\n\
         machines: [{{name: cp, role: control-plane, addresses: [192.0.2.1]}}]\n"
    ));
    let listed = lab.run(&["artifacts", "list", "--json"]);
    let listed = listed.json();
    let rows = listed["artifacts"].as_array().unwrap();
    let row = |row: &&serde_json::Value| row["name"] == "kubeadm" && row["kind"] == "program";
    let version = rows.iter().find(row).unwrap()["version"].as_str().unwrap();
    let folder = mirror.join(format!("parts/linux/program/kubeadm@{version}"));
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("kubeadm"), "anything").unwrap();
    let digest = tool(
        "sha256sum",
        &[&folder.join("kubeadm").display().to_string()],
    );
    let digest = digest.split(' ').next().unwrap();
    let record = json!({
        "version": 1,
        "item": {"is": "part", "name": "kubeadm", "os": "linux", "kind": "program", "version": version},
        "file": "kubeadm",
        "sha256": digest,
        "size": 8,
        // What the mirror says of itself.
        "origin": {"from": "build"},
    });
    fs_err::write(folder.join("record.json"), record.to_string()).unwrap();

    let mut fetch = lab.start(&["artifacts", "fetch"]);
    let limit = Instant::now() + Duration::from_mins(2);
    while !fetch.err().contains("warning: ") && !fetch.has_ended() {
        assert!(Instant::now() < limit, "{}", fetch.err());
        std::thread::sleep(Duration::from_millis(50));
    }
    let err = fetch.err();
    let line = err.lines().find(|line| line.starts_with("warning: "));
    let line = line.unwrap_or_else(|| panic!("no warning:\n{err}"));
    for word in ["program kubeadm", digest, "only the mirror", "first use"] {
        assert!(line.contains(word), "{line}");
    }
    // The rest is of no interest here.
    if !fetch.has_ended() {
        fetch.signal(Signal::INT);
    }
    let _ = lab.end(fetch);
    let listed = lab.run(&["artifacts", "list", "--json"]).json();
    let rows = listed["artifacts"].as_array().unwrap();
    let source = rows.iter().find(row).unwrap()["source"].as_str().unwrap();
    assert!(source.contains("mirror localhost"), "{source}");
    assert!(source.contains("alone vouched for it"), "{source}");
    // The machine of the file does not exist: nothing is to be taken down.
    lab.write("metadata: {name: NAME}\nmachines: {linux: 1}\n");
}
