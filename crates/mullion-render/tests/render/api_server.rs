//! A real API server, with nothing behind it, takes every object.
//!
//! Needs `etcd`, `kube-apiserver`, `kubeadm` and `kubectl` in the folder `MULLION_TEST_BIN`; no root, no network but
//! loopback.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mullion_render::objects;
use serde_json::json;

use crate::scene::{LARGE, SMALL, TRIO, computer, container, model, setting};
use crate::upstream::{program, say};

/// A program in the background: ended with the test, however that ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// What the test logs in with.
const PASS: &str = "test-only";

struct ApiServer {
    address: String,
    _programs: [Running; 2],
}

impl ApiServer {
    fn start(folder: &Path) -> Self {
        // Without a configuration it would ask the internet for the newest version.
        let config = json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": "v1.36.4",
            "certificatesDir": folder,
        });
        fs_err::write(folder.join("kubeadm.yaml"), config.to_string()).unwrap();
        say(Command::new(program("kubeadm"))
            .args(["init", "phase", "certs", "sa", "--config"])
            .arg(folder.join("kubeadm.yaml")));
        let user = format!("{PASS},tester,1,system:masters\n");
        fs_err::write(folder.join("users.csv"), user).unwrap();
        let client = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let port = free_port();
        let etcd = Running::start(
            Command::new(program("etcd"))
                .arg("--data-dir")
                .arg(folder.join("etcd"))
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}")]),
        );
        let api = Running::start(
            Command::new(program("kube-apiserver"))
                .arg(format!("--etcd-servers={client}"))
                .arg(format!("--secure-port={port}"))
                .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
                .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
                .arg("--token-auth-file")
                .arg(folder.join("users.csv"))
                .args(["--service-account-issuer=https://kubernetes.default.svc"])
                // Wide enough for the addresses of both clusters' services.
                .args(["--service-cluster-ip-range=10.96.0.0/12"])
                .arg("--cert-dir")
                .arg(folder)
                .arg("--service-account-key-file")
                .arg(folder.join("sa.pub"))
                .arg("--service-account-signing-key-file")
                .arg(folder.join("sa.key")),
        );
        let server = Self {
            address: format!("https://127.0.0.1:{port}"),
            _programs: [etcd, api],
        };
        let deadline = Instant::now() + Duration::from_mins(2);
        while !server.is_ready() {
            assert!(Instant::now() < deadline, "the API server is not ready");
            sleep(Duration::from_millis(300));
        }
        server
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(program("kubectl"));
        command.args(["--server", &self.address, "--insecure-skip-tls-verify"]);
        command.args(["--token", PASS]);
        // Nothing of the user's is read.
        command.env("KUBECONFIG", "/dev/null");
        command
    }

    fn is_ready(&self) -> bool {
        let mut command = self.kubectl();
        let output = command.args(["get", "--raw", "/readyz"]).output().unwrap();
        output.status.success()
    }
}

#[test]
#[ignore = "needs upstream's programs in MULLION_TEST_BIN; cargo xtask test --slow runs it"]
fn every_object_is_taken_and_no_field_of_it_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::start(folder.path());
    let mixed = SMALL.replace("linux: 1", "linux: 1, windows: 1");
    for (text, ground) in [
        (SMALL, container()),
        (TRIO, computer()),
        (LARGE, computer()),
        (&mixed, container()),
    ] {
        let model = model(text, "1.36.4");
        let setting = setting(&model, ground);
        for set in [
            "network-flannel",
            "service-proxy",
            "policy",
            "dns",
            "runtime-classes",
        ] {
            // Its address is not in this server's network of services.
            if set == "dns" && text == LARGE {
                continue;
            }
            let objects = objects(&setting, set).unwrap().unwrap();
            for object in objects {
                let file = folder.path().join("object.json");
                fs_err::write(&file, object.to_string()).unwrap();
                say(server
                    .kubectl()
                    .args(["apply", "--server-side", "--force-conflicts"])
                    .args(["--validate=strict", "--filename"])
                    .arg(&file));
            }
        }
    }
}
