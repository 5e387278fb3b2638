//! Certificates of one's own, against `openssl s_server`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mullion_artifacts::{Claims, Custody, Ledger, StoreError, SupplyError, Witness};
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
#[ignore = "needs openssl; cargo xtask test --slow runs it"]
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

#[test]
#[ignore = "needs openssl; cargo xtask test runs it"]
fn promise_10_what_only_a_mirror_vouches_for_is_told_and_pinned_at_its_first_use() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("dl.example");
    fs::create_dir(&files).unwrap();
    let put = |text: &str| {
        let digest = mullion_wire::Sha256Digest::of(text.as_bytes());
        fs::write(files.join("kubectl"), text).unwrap();
        fs::write(files.join("kubectl.sha256"), digest.to_string()).unwrap();
        digest
    };
    let digest = put("first");
    let (_server, port) = serve(folder.path());
    let artifact = ArtifactRef {
        name: "kubectl".into(),
        kind: ArtifactKind::Program,
        os: Os::Linux,
        version: "1.0".into(),
        file: Some("kubectl".into()),
        address: Some("https://dl.example/kubectl".into()),
        checksum: Some("https://dl.example/kubectl.sha256".into()),
        digest: Digest::Unknown,
        build: None,
        control_plane: false,
        source: "a test".into(),
    };
    let wanted = part_of(&artifact).unwrap();
    let sources = Sources {
        mirror: Some(format!("https://localhost:{port}")),
        trust: vec![folder.path().join("ca.pem")],
        ..sources()
    };
    let open = |claims| {
        let custody = Custody {
            ledger: Ledger::new(folder.path().join("state")),
            is_named: false,
            owner: None,
            claims,
        };
        Store::open_with(&folder.path().join("cache"), custody).unwrap()
    };
    let trust = sources.trust.clone();
    let store = open(Claims::new(sources.mirror.clone(), None, trust));
    let artifacts = [artifact];
    let path = supply(&store, &artifacts, &wanted, &sources, &Unattended).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "first");
    let notices = sources.notices.take();
    assert!(
        matches!(&notices[..], [line] if line.contains(digest.as_str()) && line.contains("first use")),
        "{notices:?}"
    );
    let record = store.record(&Item::Part(wanted.clone())).unwrap();
    assert!(
        matches!(
            &record.origin,
            Origin::Mirror {
                witness: Witness::MirrorChecksum,
                ..
            }
        ),
        "{record:?}"
    );
    // The mirror's word counts for files that name the mirror.
    assert!(!open(Claims::default()).has(&wanted));
    // From now on it is that, whatever the mirror says.
    put("second");
    store.purge().unwrap();
    let error = supply(&store, &artifacts, &wanted, &sources, &Unattended).unwrap_err();
    assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_10_root_uses_no_cache_that_others_can_write_to() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let open = |owner| {
        let custody = Custody {
            ledger: Ledger::new(folder.path().join("state")),
            is_named: false,
            owner,
            claims: Claims::default(),
        };
        Store::open_with(&cache, custody).unwrap()
    };
    let given = folder.path().join("kubectl");
    fs::write(&given, "program").unwrap();
    let part = Part {
        name: "kubectl".into(),
        os: Os::Linux,
        kind: PartKind::Program,
        version: "1.0".into(),
    };
    let item = Item::Part(part.clone());
    open(None).put(&item, &given, &Unattended).unwrap();
    assert!(open(None).has(&part));
    let parts = cache.join("parts");
    let set = |mode| fs::set_permissions(&parts, std::fs::Permissions::from_mode(mode)).unwrap();
    let user = Some((4242, 4242));
    set(0o777);
    for owner in [None, user] {
        let error = open(owner).check_use().unwrap_err();
        assert!(matches!(error, StoreError::Exposed { .. }), "{error:?}");
        assert!(!open(owner).has(&part));
    }
    set(0o755);
    chown(&parts, Some(4242), Some(4242)).unwrap();
    // A group that others may be in, and a folder above in which the cache could be swapped.
    chown(&parts, Some(4242), Some(100)).unwrap();
    set(0o775);
    assert!(!open(Some((4242, 100))).has(&part));
    set(0o755);
    assert!(open(Some((4242, 100))).has(&part));
    let above = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path(), mode).unwrap();
    };
    chown(folder.path(), None, Some(100)).unwrap();
    above(0o770);
    let error = open(user).check_use().unwrap_err();
    assert!(
        matches!(&error, StoreError::Exposed { place, .. } if *place == folder.path()),
        "{error:?}"
    );
    above(0o700);
    chown(&parts, Some(4242), Some(4242)).unwrap();
    // Who asked for root is trusted, and nobody else.
    assert!(open(user).has(&part));
    assert!(!open(None).has(&part));
    assert!(!open(Some((7, 7))).has(&part));
}
