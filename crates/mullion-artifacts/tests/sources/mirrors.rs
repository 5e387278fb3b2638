//! The mirror comes before upstream, in any of its shapes.

use mullion_artifacts::{Origin, Witness};

use super::server::{Reply, Server};
use super::*;

fn wanted() -> Part {
    part("kubeadm", PartKind::Program)
}

#[test]
fn a_cache_that_somebody_serves_is_a_mirror() {
    // Somebody filled a cache.
    let filled = Ground::new();
    let given = filled.folder.path().join("kubeadm");
    fs::write(&given, "their kubeadm").unwrap();
    let item = Item::Part(wanted());
    filled.store.put(&item, &given, &Ears::default()).unwrap();
    let served = filled.store.folder().to_owned();
    let mirror = Server::start(move |_, request| {
        match fs::read(served.join(request.target.trim_start_matches("/files/"))) {
            Ok(bytes) => Reply::file(request, &bytes, "\"x\""),
            Err(_) => Reply::new(404, ""),
        }
    });
    let upstream = Server::start(|_, request| Reply::file(request, b"upstream's", "\"x\""));
    let artifacts = [program("kubeadm", Some(upstream.address("/kubeadm")))];
    let ground = Ground::new();
    let mut mirrored = ground.listing(&[("kubeadm", b"their kubeadm")]);
    mirrored.mirror = Some(mirror.address("/files/"));
    assert_eq!(
        ground.read(&artifacts, &wanted(), &mirrored).unwrap(),
        b"their kubeadm"
    );
    assert!(upstream.seen().is_empty());
    assert_eq!(
        ground.store.record(&item).unwrap().origin,
        Origin::Mirror {
            address: mirror.address("/files/parts/linux/program/kubeadm@1.0/kubeadm"),
            witness: Witness::DigestList
        }
    );
}

#[test]
fn upstreams_files_below_their_host_are_a_mirror() {
    let body = b"mirrored kubeadm";
    let mirror = Server::start(move |_, request| match request.target.as_str() {
        "/dl.example/v1/kubeadm" => Reply::file(request, body, "\"x\""),
        "/dl.example/v1/kubeadm.sha256" => Reply::new(200, Sha256Digest::of(body).to_string()),
        _ => Reply::new(404, ""),
    });
    let mut artifact = program("kubeadm", Some("https://dl.example/v1/kubeadm".into()));
    artifact.checksum = Some("https://dl.example/v1/kubeadm.sha256".into());
    let ground = Ground::new();
    let mut mirrored = ground.listing(&[("dl.example/v1/kubeadm", body)]);
    mirrored.mirror = Some(mirror.address(""));
    assert_eq!(
        ground.read(&[artifact], &wanted(), &mirrored).unwrap(),
        body
    );
}

#[test]
fn a_mirror_that_has_it_not_leaves_it_to_upstream() {
    let mirror = Server::start(|_, _| Reply::new(404, ""));
    let upstream = Server::start(|_, request| Reply::file(request, b"upstream's", "\"x\""));
    let artifacts = [program("kubeadm", Some(upstream.address("/kubeadm")))];
    let ground = Ground::new();
    let mut mirrored = ground.listing(&[("kubeadm", b"upstream's")]);
    mirrored.mirror = Some(mirror.address(""));
    assert_eq!(
        ground.read(&artifacts, &wanted(), &mirrored).unwrap(),
        b"upstream's"
    );
    assert_eq!(mirror.seen().len(), 2);
}

#[test]
fn a_mirror_that_serves_something_else_is_refused_and_not_passed_over() {
    let mirror = Server::start(|_, request| match request.target.as_str() {
        target if target.ends_with("record.json") => Reply::new(404, ""),
        _ => Reply::file(request, b"something else", "\"x\""),
    });
    let upstream = Server::start(|_, request| Reply::file(request, b"upstream's", "\"x\""));
    let mut artifact = program("kubeadm", Some(upstream.address("/kubeadm")));
    artifact.digest = sha256(b"upstream's");
    let mut mirrored = sources();
    mirrored.mirror = Some(mirror.address(""));
    let error = Ground::new()
        .read(&[artifact], &wanted(), &mirrored)
        .unwrap_err();
    assert!(told(&error).contains("is expected"), "{}", told(&error));
    assert!(error.hints()[0].contains("mirror"), "{:?}", error.hints());
}
