//! A real API server on loopback.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// etcd, kube-apiserver and kube-controller-manager; they end with this value.
pub(crate) struct Server {
    programs: PathBuf,
    running: Vec<Child>,
    /// A kubeconfig of somebody who may do everything.
    pub(crate) kubeconfig: String,
    pub(crate) endpoint: String,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where something serves as a kubelet does. An address of its own, since the port is always the same.
pub(crate) const KUBELET: &str = "127.213.7.9";

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    pub(crate) fn start() -> Self {
        let programs = std::env::var("MULLION_TEST_BIN").expect(
            "MULLION_TEST_BIN names the folder with kube-apiserver, etcd, kubeadm and kubectl",
        );
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().to_owned();
        let (clients, peers, port) = (free_port(), free_port(), free_port());
        let endpoint = format!("127.0.0.1:{port}");
        let mut server = Self {
            programs: programs.into(),
            running: Vec::new(),
            kubeconfig: String::new(),
            url: format!("https://{endpoint}"),
            endpoint,
            folder,
            _folder: temporary,
        };
        let store = format!("http://127.0.0.1:{clients}");
        let peer = format!("http://127.0.0.1:{peers}");
        let data = server.path("etcd");
        server.spawn(
            "etcd",
            &[
                &format!("--data-dir={data}"),
                &format!("--listen-client-urls={store}"),
                &format!("--advertise-client-urls={store}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=default={peer}"),
                "--unsafe-no-fsync",
                "--log-level=error",
            ],
        );
        server.make_certificates();
        let pki = server.path("pki");
        server.spawn(
            "kube-apiserver",
            &[
                &format!("--etcd-servers={store}"),
                "--bind-address=127.0.0.1",
                &format!("--secure-port={port}"),
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=Node,RBAC",
                "--enable-bootstrap-token-auth",
                &format!("--client-ca-file={pki}/ca.crt"),
                &format!("--tls-cert-file={pki}/apiserver.crt"),
                &format!("--tls-private-key-file={pki}/apiserver.key"),
                &format!("--service-account-key-file={pki}/sa.pub"),
                &format!("--service-account-signing-key-file={pki}/sa.key"),
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            ],
        );
        let kubeconfig = server.path("super-admin.conf");
        server.spawn(
            "kube-controller-manager",
            &[
                &format!("--kubeconfig={kubeconfig}"),
                "--leader-elect=false",
                // It also plays a kubelet that serves with a certificate of the authority.
                &format!("--bind-address={KUBELET}"),
                "--secure-port=10250",
                &format!("--tls-cert-file={pki}/apiserver.crt"),
                &format!("--tls-private-key-file={pki}/apiserver.key"),
                "--controllers=certificatesigningrequest-signing-controller,disruption-controller,namespace-controller,\
                 serviceaccount-controller,garbage-collector-controller",
                &format!("--cluster-signing-cert-file={pki}/ca.crt"),
                &format!("--cluster-signing-key-file={pki}/ca.key"),
                &format!("--service-account-private-key-file={pki}/sa.key"),
            ],
        );
        server
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) {
        let log = fs_err::File::create(self.folder.join(format!("{program}.log"))).unwrap();
        let child = Command::new(self.programs.join(program))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.into_parts().0)
            .spawn()
            .unwrap();
        self.running.push(child);
    }

    fn make_certificates(&mut self) {
        let config = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: 10.99.0.11}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.4
certificatesDir: {}
controlPlaneEndpoint: {}
apiServer: {{certSANs: [127.0.0.1, {KUBELET}]}}
encryptionAlgorithm: ECDSA-P256
",
            self.path("pki"),
            self.endpoint
        );
        let file = self.path("kubeadm.yaml");
        fs_err::write(&file, config).unwrap();
        let config = format!("--config={file}");
        let folder = format!("--kubeconfig-dir={}", self.folder.display());
        for phase in [
            "certs/ca",
            "certs/apiserver",
            "certs/sa",
            "kubeconfig/super-admin",
        ] {
            let mut arguments = vec!["init", "phase"];
            arguments.extend(phase.split('/'));
            arguments.push(&config);
            if phase.starts_with("kubeconfig") {
                arguments.push(&folder);
            }
            assert!(self.run("kubeadm", &arguments, "").is_some(), "{phase}");
        }
        self.kubeconfig = fs_err::read_to_string(self.folder.join("super-admin.conf")).unwrap();
    }

    /// What a program prints; nothing where it fails.
    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Option<String> {
        let mut child = Command::new(self.programs.join(program))
            .args(arguments)
            .env("HOME", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            eprintln!(
                "{program} {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return None;
        }
        Some(String::from_utf8(output.stdout).unwrap())
    }

    pub(crate) fn kubectl_with(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        input: &str,
    ) -> String {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let arguments = [&[kubeconfig.as_str()], arguments].concat();
        self.run("kubectl", &arguments, input)
            .expect("kubectl fails")
    }

    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        self.kubectl_with(&self.folder.join("super-admin.conf"), arguments, input)
    }

    pub(crate) fn create(&self, object: &Value) {
        self.kubectl(&["create", "-f", "-"], &object.to_string());
    }

    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "-o", "json"], what].concat(), "");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn exists(&self, what: &[&str]) -> bool {
        let arguments = [&["get", "--ignore-not-found", "-o", "name"], what].concat();
        // A kind that is not known has no objects.
        let found = self.run(
            "kubectl",
            &[
                &[format!("--kubeconfig={}", self.path("super-admin.conf")).as_str()],
                &arguments[..],
            ]
            .concat(),
            "",
        );
        found.is_some_and(|text| !text.is_empty())
    }
}
