//! Certificates of one's own, against `openssl s_server`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mullion_artifacts::SupplyError;
use mullion_catalog::{ArtifactKind, Digest};
use mullion_plan::Unattended;

use super::*;

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn openssl(folder: &Path, line: &str) {
    let status = Command::new("openssl")
        .args(line.split(' '))
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{line}");
}

/// An authority, a certificate of it for this computer, and a server that shows it.
fn serve(folder: &Path) -> (Server, u16) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        folder,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca"),
    );
    openssl(
        folder,
        &format!("req -new {key} -keyout key.pem -out request.pem -subj /CN=localhost"),
    );
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        folder,
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names",
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let child = Command::new("openssl")
        .args([
            "s_server", "-quiet", "-WWW", "-cert", "cert.pem", "-key", "key.pem",
        ])
        .args(["-accept", &port.to_string()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..100 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    (Server(child), port)
}

#[test]
#[ignore = "needs openssl; cargo xtask test runs it"]
fn an_authority_of_ones_own_is_trusted_when_it_is_named_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeadm"), "over TLS").unwrap();
    let (_server, port) = serve(folder.path());
    let artifact = ArtifactRef {
        name: "kubeadm".into(),
        kind: ArtifactKind::Program,
        os: Os::Linux,
        version: "1.0".into(),
        file: Some("kubeadm".into()),
        address: Some(format!("https://localhost:{port}/kubeadm")),
        checksum: None,
        digest: Digest::Unknown,
        build: None,
        control_plane: false,
        source: "a test".into(),
    };
    let wanted = part_of(&artifact).unwrap();
    let store = Store::open(&folder.path().join("cache")).unwrap();
    let mut sources = sources();
    let error = supply(
        &store,
        std::slice::from_ref(&artifact),
        &wanted,
        &sources,
        &Unattended,
    )
    .unwrap_err();
    assert!(matches!(error, SupplyError::Nowhere { .. }), "{error:?}");
    let told = error.to_step_error().causes.join(" ");
    assert!(told.contains("certificate"), "{told}");
    sources.trust = vec![folder.path().join("ca.pem")];
    let path = supply(&store, &[artifact], &wanted, &sources, &Unattended).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "over TLS");
}
