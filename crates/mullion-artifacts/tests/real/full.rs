//! A disk that is full.

use std::io::{Read as _, Write as _};
use std::process::Command;

use mullion_catalog::{ArtifactKind, Digest};
use mullion_plan::Unattended;

use super::*;

/// A file system of one megabyte that ends with the test.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "none"])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(status.success());
        Self(folder)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "needs root; cargo xtask test --slow runs it"]
fn a_full_disk_is_said_and_leaves_nothing_under_the_final_name() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/kubeadm", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = vec![7; 4 << 20];
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&body);
        }
    });
    let artifact = ArtifactRef {
        name: "kubeadm".into(),
        kind: ArtifactKind::Program,
        os: Os::Linux,
        version: "1.0".into(),
        file: Some("kubeadm".into()),
        address: Some(address),
        checksum: None,
        digest: Digest::Unknown,
        build: None,
        control_plane: false,
        source: "a test".into(),
    };
    let small = Small::mount();
    let store = Store::open(small.0.path()).unwrap();
    let wanted = part_of(&artifact).unwrap();
    let error = supply(&store, &[artifact], &wanted, &sources(), &Unattended).unwrap_err();
    let step = error.to_step_error();
    assert!(step.causes.join(" ").contains("No space left"), "{step:?}");
    assert!(step.hints[0].contains("make room"), "{step:?}");
    assert!(!store.has(&wanted));
}
