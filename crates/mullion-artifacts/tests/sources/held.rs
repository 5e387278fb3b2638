//! Every source is held to the same digests: none of them vouches for itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mullion_artifacts::bundle::{self, BundleError};
use mullion_artifacts::{Claims, DigestList, Origin, PublicKey, StoreError, Witness};
use mullion_plan::Unattended;

use super::server::{Reply, Server};
use super::*;

const HONEST: &[u8] = b"kubectl as upstream made it";
const SCRIPT: &[u8] = b"#!/bin/sh\nrm -rf /\n";

fn kubectl() -> Part {
    part("kubectl", PartKind::Program)
}

/// A mirror in the shape of a cache, with a script in the place of kubectl and a record that fits the script.
fn hostile_mirror(origin: &'static str) -> Server {
    let record = serde_json::json!({
        "version": 1,
        "item": {"is": "part", "name": "kubectl", "os": "linux", "kind": "program", "version": "1.0"},
        "file": "kubectl",
        "sha256": Sha256Digest::of(SCRIPT),
        "size": SCRIPT.len(),
        "origin": if origin == "build" {
            serde_json::json!({"from": "build"})
        } else {
            serde_json::json!({"from": "upstream", "address": "https://dl.example/kubectl", "witness": "catalog"})
        },
    });
    let record = record.to_string();
    Server::start(move |_, request| match request.target.as_str() {
        "/parts/linux/program/kubectl@1.0/record.json" => Reply::new(200, record.clone()),
        target if target.ends_with("kubectl.sha256") => {
            Reply::new(200, Sha256Digest::of(SCRIPT).to_string())
        }
        target if target.ends_with("/kubectl") => Reply::file(request, SCRIPT, "\"m\""),
        _ => Reply::new(404, ""),
    })
}

fn upstream() -> Server {
    Server::start(|_, request| match request.target.as_str() {
        "/kubectl.sha256" => Reply::new(200, Sha256Digest::of(HONEST).to_string()),
        "/kubectl" => Reply::file(request, HONEST, "\"u\""),
        _ => Reply::new(404, ""),
    })
}

fn artifact(upstream: &Server) -> [ArtifactRef; 1] {
    let mut artifact = program("kubectl", Some(upstream.address("/kubectl")));
    artifact.checksum = Some(upstream.address("/kubectl.sha256"));
    [artifact]
}

fn through(mirror: &Server) -> Sources {
    Sources {
        mirror: Some(mirror.address("")),
        ..sources()
    }
}

#[test]
fn promise_10_a_mirror_cannot_replace_what_was_fetched_before_even_without_the_cache() {
    for origin in ["upstream", "build"] {
        let (server, mirror) = (upstream(), hostile_mirror(origin));
        let ground = Ground::new();
        let artifacts = artifact(&server);
        let got = ground.read(&artifacts, &kubectl(), &sources()).unwrap();
        assert_eq!(got, HONEST);
        ground.store.purge().unwrap();
        assert!(!ground.store.has(&kubectl()));
        let error = ground
            .read(&artifacts, &kubectl(), &through(&mirror))
            .unwrap_err();
        assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
        let words = told(&error);
        for bytes in [HONEST, SCRIPT] {
            let digest = Sha256Digest::of(bytes);
            assert!(words.contains(digest.as_str()), "{words}");
        }
        assert!(words.contains(&server.address("/kubectl")), "{words}");
        assert!(words.contains(&mirror.address("")), "{words}");
        let remedy = error.hints().pop().unwrap();
        let file = remedy.split('`').nth(1).unwrap();
        assert!(Path::new(file).is_file(), "{remedy}");
        assert!(ground.files_of(&kubectl()).is_empty());
        // Upstream itself is held to it as well.
        let changed = Server::start(|_, request| Reply::file(request, SCRIPT, "\"u\""));
        let error = ground
            .read(&artifact(&changed), &kubectl(), &sources())
            .unwrap_err();
        assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
        // The remedy is one.
        fs::remove_file(file).unwrap();
        let _ = ground
            .read(
                &[program("kubectl", Some(changed.address("/kubectl")))],
                &kubectl(),
                &sources(),
            )
            .unwrap();
    }
}

#[test]
fn promise_10_upstreams_checksum_counts_more_than_the_one_beside_the_mirrors_file() {
    for origin in ["upstream", "build"] {
        let (server, mirror) = (upstream(), hostile_mirror(origin));
        let ground = Ground::new();
        let result = ground.read(&artifact(&server), &kubectl(), &through(&mirror));
        let error = result.unwrap_err();
        assert!(
            told(&error).contains(Sha256Digest::of(HONEST).as_str()),
            "{}",
            told(&error)
        );
        assert!(ground.files_of(&kubectl()).is_empty());
    }
}

#[test]
fn promise_10_a_mirror_over_plain_http_never_vouches_for_itself() {
    let mirror = hostile_mirror("upstream");
    let mut artifacts = [program(
        "kubectl",
        Some("https://dl.example/kubectl".into()),
    )];
    for checksum in [None, Some("https://dl.example/kubectl.sha256".to_owned())] {
        artifacts[0].checksum = checksum;
        let ground = Ground::new();
        let error = ground
            .read(&artifacts, &kubectl(), &through(&mirror))
            .unwrap_err();
        assert!(matches!(error, SupplyError::Nowhere { .. }), "{error:?}");
        assert!(ground.files_of(&kubectl()).is_empty());
        // With a list it is held to that.
        let mut listed = ground.listing(&[("kubectl", HONEST)]);
        listed.mirror = Some(mirror.address(""));
        let error = ground.read(&artifacts, &kubectl(), &listed).unwrap_err();
        assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
        let mut listed = ground.listing(&[("kubectl", SCRIPT)]);
        listed.mirror = Some(mirror.address(""));
        assert_eq!(
            ground.read(&artifacts, &kubectl(), &listed).unwrap(),
            SCRIPT
        );
    }
}

#[test]
fn promise_10_what_comes_from_a_mirror_is_recorded_so_whatever_the_mirror_says() {
    for origin in ["upstream", "build"] {
        let mirror = hostile_mirror(origin);
        let ground = Ground::new();
        let mut listed = ground.listing(&[("kubectl", SCRIPT)]);
        listed.mirror = Some(mirror.address(""));
        let artifacts = [program("kubectl", None)];
        let _ = ground.read(&artifacts, &kubectl(), &listed).unwrap();
        let record = ground.store.record(&Item::Part(kubectl())).unwrap();
        let Origin::Mirror { witness, .. } = record.origin else {
            panic!("{record:?}");
        };
        assert_eq!(witness, Witness::DigestList);
    }
}

#[test]
fn promise_10_an_image_of_a_mirror_is_asked_for_by_the_digest_that_upstream_has() {
    let manifest = |text: &str| {
        let config = Sha256Digest::of(text.as_bytes());
        serde_json::json!({
            "schemaVersion": 2,
            "config": {"digest": format!("sha256:{config}"), "size": text.len()},
            "layers": [],
        })
        .to_string()
    };
    let honest = manifest("honest");
    let answer = honest.clone();
    let server = Server::start(move |_, _| Reply::new(200, answer.clone()));
    // Whatever is asked for, by digest too.
    let mirror = Server::start(move |_, request| match request.target.as_str() {
        target if target.contains("/manifests/") => Reply::new(200, manifest("hostile")),
        target if target.contains("/blobs/") => Reply::file(request, b"hostile", "\"m\""),
        _ => Reply::new(404, ""),
    });
    let address = format!("127.0.0.1:{}/k8s/pause:3.10", server.port);
    let mut artifact = program("pause-image", Some(address));
    artifact.kind = ArtifactKind::Image;
    artifact.file = None;
    let pause = part("pause", PartKind::Image);
    let error = Ground::new()
        .read(&[artifact], &pause, &through(&mirror))
        .unwrap_err();
    let expected = Sha256Digest::of(honest.as_bytes());
    assert!(told(&error).contains(expected.as_str()), "{}", told(&error));
    assert!(
        mirror
            .seen()
            .iter()
            .any(|request| request.target.contains(expected.as_str())),
        "asked by tag"
    );
}

/// A bundle with one program, as another computer wrote it.
fn bundled(bytes: &[u8]) -> (Ground, PathBuf) {
    let ground = Ground::new();
    let given = ground.folder.path().join("kubectl");
    fs::write(&given, bytes).unwrap();
    let item = Item::Part(kubectl());
    ground.store.put(&item, &given, &Unattended).unwrap();
    let file = ground.folder.path().join("all.bundle");
    bundle::write(&ground.store, &BTreeSet::from([item]), &file, &Unattended).unwrap();
    (ground, file)
}

fn from(file: &Path) -> Sources {
    Sources {
        bundle: Some(file.to_owned()),
        offline: true,
        ..sources()
    }
}

fn key_of(ground: &Ground) -> PublicKey {
    ground.store.ledger().unwrap().own_key().unwrap().unwrap()
}

#[test]
fn promise_10_a_bundle_of_another_computer_needs_its_key_or_a_list_of_digests() {
    let (theirs, file) = bundled(SCRIPT);
    let artifacts = [program("kubectl", None)];
    // Its own computer needs nothing.
    theirs.store.purge().unwrap();
    assert_eq!(
        theirs.read(&artifacts, &kubectl(), &from(&file)).unwrap(),
        SCRIPT
    );
    let ours = Ground::new();
    let error = ours.read(&artifacts, &kubectl(), &from(&file)).unwrap_err();
    let SupplyError::Bundle { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, BundleError::Unvouched { .. }), "{error:?}");
    let hints = error.hints().join("\n");
    assert!(
        hints.contains("--bundle-key") && hints.contains("--digests"),
        "{hints}"
    );
    // A list that the file names comes with the bundle, and does not help it.
    let mut listed = ours.listing(&[("kubectl", SCRIPT)]);
    listed.bundle = Some(file.clone());
    listed.offline = true;
    assert!(ours.read(&artifacts, &kubectl(), &listed).is_err());

    let import =
        |ground: &Ground, vouch: &Vouch| bundle::import(&ground.store, &file, vouch, &Unattended);
    let (other, _) = bundled(HONEST);
    let wrong = Vouch::Key(key_of(&other));
    assert!(matches!(
        import(&ours, &wrong),
        Err(BundleError::OtherKey { .. })
    ));
    assert!(matches!(
        import(&ours, &Vouch::Known),
        Err(BundleError::Unvouched { .. })
    ));
    let list = |bytes: &[u8]| {
        let path = ours.folder.path().join("list");
        fs::write(&path, format!("{}  kubectl\n", Sha256Digest::of(bytes))).unwrap();
        Vouch::Digests(DigestList::read(&path).unwrap())
    };
    assert!(matches!(
        import(&ours, &list(HONEST)),
        Err(BundleError::Unvouched { .. })
    ));
    assert!(!ours.store.has(&kubectl()));
    import(&ours, &list(SCRIPT)).unwrap();
    assert!(ours.store.has(&kubectl()));

    // A key is trusted from then on.
    let third = Ground::new();
    import(&third, &Vouch::Key(key_of(&theirs))).unwrap();
    third.store.purge().unwrap();
    assert_eq!(
        third.read(&artifacts, &kubectl(), &from(&file)).unwrap(),
        SCRIPT
    );
}

#[test]
fn promise_10_a_bundle_that_was_changed_after_it_was_signed_is_refused() {
    let (theirs, file) = bundled(HONEST);
    // The file and its digest in the index, as a hostile courier would change them.
    let bytes = fs::read(&file).unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let changed = file.with_extension("changed");
    let unsigned = file.with_extension("unsigned");
    for (path, is_signed) in [(&changed, true), (&unsigned, false)] {
        let mut tar = tar::Builder::new(fs::File::create(path).unwrap());
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().into_owned();
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
            if name == Path::new("mullion-bundle.sig") && !is_signed {
                continue;
            }
            if name.ends_with("kubectl") {
                data = SCRIPT.to_vec();
            } else if name == Path::new("mullion-bundle.json") {
                let mut index: serde_json::Value = serde_json::from_slice(&data).unwrap();
                index["items"][0]["sha256"] = Sha256Digest::of(SCRIPT).to_string().into();
                index["items"][0]["size"] = SCRIPT.len().into();
                data = serde_json::to_vec(&index).unwrap();
            }
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, &data[..]).unwrap();
        }
        tar.into_inner().unwrap();
    }
    assert!(archive.entries().unwrap().count() > 1);
    let ours = Ground::trusting(&theirs, &file);
    let artifacts = [program("kubectl", None)];
    for bad in [changed, unsigned] {
        let error = ours.read(&artifacts, &kubectl(), &from(&bad)).unwrap_err();
        let SupplyError::Bundle { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(
            matches!(
                source,
                BundleError::BadSignature { .. } | BundleError::Unvouched { .. }
            ),
            "{error:?}"
        );
        let vouch = Vouch::Key(key_of(&theirs));
        assert!(bundle::import(&ours.store, &bad, &vouch, &Unattended).is_err());
        assert!(!ours.store.has(&kubectl()));
    }
}

#[test]
fn promise_10_a_bundle_cannot_bring_another_digest_for_what_was_fetched_before() {
    let server = upstream();
    let changed = Server::start(|_, request| Reply::file(request, SCRIPT, "\"u\""));
    // A computer whose upstream was hostile, and which we trust.
    let theirs = Ground::new();
    let hostile = [program("kubectl", Some(changed.address("/kubectl")))];
    let _ = theirs.read(&hostile, &kubectl(), &sources()).unwrap();
    let file = theirs.folder.path().join("all.bundle");
    let items = BTreeSet::from([Item::Part(kubectl())]);
    bundle::write(&theirs.store, &items, &file, &Unattended).unwrap();

    let ours = Ground::new();
    let artifacts = artifact(&server);
    let _ = ours.read(&artifacts, &kubectl(), &sources()).unwrap();
    ours.store.purge().unwrap();
    let vouch = Vouch::Key(key_of(&theirs));
    let error = bundle::import(&ours.store, &file, &vouch, &Unattended).unwrap_err();
    assert!(matches!(error, BundleError::NewDigest { .. }), "{error:?}");
    let error = ours.read(&artifacts, &kubectl(), &from(&file)).unwrap_err();
    assert!(
        told(&error).contains(Sha256Digest::of(HONEST).as_str()),
        "{}",
        told(&error)
    );
    assert!(!ours.store.has(&kubectl()));
}

#[test]
fn promise_10_a_bundle_that_claims_absurd_sizes_is_refused_without_filling_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.bundle");
    let item = serde_json::json!(
        {"is": "part", "name": "kubectl", "os": "linux", "kind": "program", "version": "1.0"}
    );
    let record = serde_json::json!({
        "version": 1, "item": item, "file": "kubectl", "sha256": Sha256Digest::of(b""),
        "size": u64::MAX, "origin": {"from": "build"},
    });
    let mut second = record.clone();
    second["item"]["name"] = "kubeadm".into();
    let index = serde_json::json!({"version": 1, "items": [record, second]}).to_string();
    let mut tar = tar::Builder::new(fs::File::create(&file).unwrap());
    for (name, data) in [
        ("mullion-bundle.json", index.as_bytes()),
        ("parts/linux/program/kubectl@1.0/kubectl", b""),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, name, data).unwrap();
    }
    tar.into_inner().unwrap();
    let error = bundle::verify(&file, &Unattended).unwrap_err();
    assert!(matches!(error, BundleError::CutOff { .. }), "{error:?}");
}

#[test]
fn promise_10_a_cache_that_came_with_the_cluster_file_does_not_count_until_it_is_adopted() {
    // Somebody filled a cache and put it into a repository.
    let (theirs, _) = bundled(SCRIPT);
    for is_marked in [true, false] {
        let ours = Ground::named(true);
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .args([theirs.store.folder(), ours.store.folder()])
            .status();
        assert!(copied.unwrap().success());
        if !is_marked {
            // As the version before marks made it.
            fs::remove_file(ours.store.folder().join("mullion-cache.json")).unwrap();
        }
        assert!(!ours.store.has(&kubectl()));
        let given = ours.folder.path().join("kubectl");
        fs::write(&given, "ours").unwrap();
        let put = ours.store.put(&Item::Part(kubectl()), &given, &Unattended);
        for error in [
            put.unwrap_err(),
            ours.store.check_use().unwrap_err(),
            ours.store.purge().unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Elsewhere { .. }), "{error:?}");
            assert!(error.hints()[0].contains("artifacts adopt"));
        }
        ours.store.adopt().unwrap();
        assert!(ours.store.has(&kubectl()));
        let custody = custody(ours.folder.path(), true);
        let again = Store::open_with(ours.store.folder(), custody).unwrap();
        assert!(again.has(&kubectl()), "it stays adopted");
    }
    // One that was made here needs nothing.
    let ours = Ground::named(true);
    let given = ours.folder.path().join("kubectl");
    fs::write(&given, "ours").unwrap();
    let item = Item::Part(kubectl());
    ours.store.put(&item, &given, &Unattended).unwrap();
    assert!(ours.store.has(&kubectl()));
}

#[test]
fn promise_05_a_copied_mark_lets_no_purge_empty_a_cache_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt as _;
    let open_to_all = |store: &Store| {
        let mode = std::fs::Permissions::from_mode(0o777);
        fs::set_permissions(store.folder().join("parts"), mode).unwrap();
    };
    let item = Item::Part(kubectl());
    let (theirs, _) = bundled(SCRIPT);
    for is_marked in [true, false] {
        let ours = Ground::named(true);
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .args([theirs.store.folder(), ours.store.folder()])
            .status();
        assert!(copied.unwrap().success());
        let mark = ours.store.folder().join("mullion-cache.json");
        if !is_marked {
            fs::remove_file(&mark).unwrap();
        }
        open_to_all(&ours.store);
        for error in [
            ours.store.check_purge().unwrap_err(),
            ours.store.purge().unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Elsewhere { .. }), "{error:?}");
        }
        assert!(ours.store.folder().join(item.folder()).is_dir());
        assert_eq!(mark.exists(), is_marked, "nothing is written either");
        let noted = ours.folder.path().join("state/caches");
        assert!(!noted.exists(), "a refused purge adopts nothing");
    }
    // One that was made here is emptied, whoever can write to it.
    let ours = Ground::named(true);
    let given = ours.folder.path().join("kubectl");
    fs::write(&given, "ours").unwrap();
    ours.store.put(&item, &given, &Unattended).unwrap();
    open_to_all(&ours.store);
    ours.store.purge().unwrap();
    assert!(!ours.store.folder().exists());
}

/// The store of another cluster of the same user, whose file names these sources.
fn cluster(ground: &Ground, sources: &Sources) -> Store {
    let mut custody = custody(ground.folder.path(), false);
    let (mirror, digests) = (sources.mirror.clone(), sources.digests.clone());
    custody.claims = Claims::new(mirror, digests, sources.trust.clone());
    Store::open_with(ground.store.folder(), custody).unwrap()
}

fn get(
    store: &Store,
    artifacts: &[ArtifactRef],
    sources: &Sources,
) -> Result<Vec<u8>, SupplyError> {
    supply(store, artifacts, &kubectl(), sources, &Ears::default())
        .map(|path| fs::read(path).unwrap())
}

#[test]
fn promise_10_a_list_that_a_file_names_counts_for_files_that_name_the_same_list() {
    let (server, mirror) = (upstream(), hostile_mirror("upstream"));
    let ground = Ground::new();
    let artifacts = artifact(&server);
    // A file of somebody else brings a mirror, and a list that vouches for it.
    let mut hostile = ground.listing(&[("kubectl", SCRIPT)]);
    hostile.mirror = Some(mirror.address(""));
    let theirs = cluster(&ground, &hostile);
    assert_eq!(get(&theirs, &artifacts, &hostile).unwrap(), SCRIPT);
    assert!(theirs.has(&kubectl()));
    // The user's own cluster neither gets that nor is refused what upstream has.
    let ours = cluster(&ground, &sources());
    assert!(!ours.has(&kubectl()), "the other file's word counted");
    assert_eq!(get(&ours, &artifacts, &sources()).unwrap(), HONEST);
    assert!(ours.has(&kubectl()));
    // Upstream's word is known now: the list cannot replace what came from there.
    let theirs = cluster(&ground, &hostile);
    ground.store.purge().unwrap();
    let error = get(&theirs, &artifacts, &hostile).unwrap_err();
    assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
    assert_eq!(get(&ours, &artifacts, &sources()).unwrap(), HONEST);
}

#[test]
fn promise_10_a_bundle_does_not_carry_the_word_of_one_file_to_every_file() {
    let ground = Ground::new();
    // Certificates that a file of somebody else names let its author speak for upstream.
    let changed = Server::start(|_, request| Reply::file(request, SCRIPT, "\"u\""));
    let hostile = [program("kubectl", Some(changed.address("/kubectl")))];
    let certificates = ground.folder.path().join("certificates");
    fs::write(&certificates, "theirs").unwrap();
    let theirs = || {
        cluster(
            &ground,
            &Sources {
                trust: vec![certificates.clone()],
                ..sources()
            },
        )
    };
    let ours = || cluster(&ground, &sources());
    assert_eq!(get(&theirs(), &hostile, &sources()).unwrap(), SCRIPT);
    assert!(theirs().has(&kubectl()) && !ours().has(&kubectl()));
    // The same bytes again, from a bundle whose author nobody here knows.
    let (_author, file) = bundled(SCRIPT);
    ground.store.purge().unwrap();
    assert_eq!(get(&theirs(), &hostile, &from(&file)).unwrap(), SCRIPT);
    assert!(theirs().has(&kubectl()) && !ours().has(&kubectl()));
    let server = upstream();
    let got = get(&ours(), &artifact(&server), &sources()).unwrap();
    assert_eq!(got, HONEST);
}

/// A bundle with this index and these files, signed with a key of its own.
fn forged(items: &[serde_json::Value], files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.bundle");
    let index = serde_json::json!({"version": 1, "items": items}).to_string();
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    for (name, data) in [("mullion-bundle.json", index.as_bytes())]
        .iter()
        .chain(files)
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, name, *data).unwrap();
    }
    tar.into_inner().unwrap();
    (folder, path)
}

fn indexed(name: &str, file: &str, bytes: &[u8]) -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "item": {"is": "part", "name": name, "os": "linux", "kind": "program", "version": "1.0"},
        "file": file, "sha256": Sha256Digest::of(bytes), "size": bytes.len(),
        "origin": {"from": "upstream", "address": "https://dl.example/kubectl", "witness": "catalog"},
    })
}

fn list_of(ground: &Ground, lines: &[(&str, &[u8])]) -> Vouch {
    let sources = ground.listing(lines);
    Vouch::Digests(DigestList::read(&sources.digests.unwrap()).unwrap())
}

#[test]
fn promise_10_a_line_for_one_program_does_not_vouch_for_another_under_its_name() {
    let ours = Ground::new();
    let list = list_of(&ours, &[("kubeadm", HONEST)]);
    let (_folder, file) = forged(&[indexed("kubectl", "kubeadm", HONEST)], &[("a", HONEST)]);
    let error = bundle::import(&ours.store, &file, &list, &Unattended).unwrap_err();
    assert!(matches!(error, BundleError::Unvouched { .. }), "{error:?}");
    let (_folder, file) = forged(&[indexed("kubeadm", "kubeadm", HONEST)], &[("a", HONEST)]);
    bundle::import(&ours.store, &file, &list, &Unattended).unwrap();
    // The record says who vouched for it, whatever the bundle says.
    let [record] = &ours.store.list()[..] else {
        panic!("{:?}", ours.store.list());
    };
    let Origin::Upstream { witness, .. } = &record.origin else {
        panic!("{record:?}");
    };
    assert_eq!(*witness, Witness::DigestList);
}

#[test]
fn promise_10_a_bundle_that_names_an_item_twice_is_refused_before_anything_is_taken() {
    let ours = Ground::new();
    let list = list_of(&ours, &[("kubectl", HONEST), ("kubectl", SCRIPT)]);
    let twice = [
        indexed("kubectl", "kubectl", HONEST),
        indexed("kubectl", "kubectl", SCRIPT),
    ];
    let (_folder, file) = forged(&twice, &[("a", HONEST), ("a", SCRIPT)]);
    let error = bundle::import(&ours.store, &file, &list, &Unattended).unwrap_err();
    assert!(matches!(error, BundleError::Twice { .. }), "{error:?}");
    assert!(bundle::verify(&file, &Unattended).is_err());
    assert!(ours.store.list().is_empty());
    // The names differ, the folder is the same.
    let same = [
        indexed("kube ctl", "kubectl", HONEST),
        indexed("kube_ctl", "kubectl", SCRIPT),
    ];
    let (_folder, file) = forged(&same, &[("a", HONEST), ("a", SCRIPT)]);
    assert!(bundle::verify(&file, &Unattended).is_err());
}

#[test]
fn promise_10_a_bundle_whose_files_have_names_of_the_caches_own_is_refused() {
    for name in [
        "record.json",
        "../../x",
        "a/b",
        ".",
        "kubectl.partial",
        "x.new",
    ] {
        let ours = Ground::new();
        let sources = ours.listing(&[("parts/linux/program/kubectl@1.0/x", HONEST)]);
        let list = Vouch::Digests(DigestList::read(&sources.digests.unwrap()).unwrap());
        let (_folder, file) = forged(&[indexed("kubectl", name, HONEST)], &[("a", HONEST)]);
        let error = bundle::import(&ours.store, &file, &list, &Unattended).unwrap_err();
        assert!(
            matches!(error, BundleError::Name { .. }),
            "{name}: {error:?}"
        );
        assert!(bundle::verify(&file, &Unattended).is_err());
        assert!(ours.store.list().is_empty());
    }
}

#[test]
fn promise_10_an_index_names_its_manifests_by_digest_and_by_nothing_else() {
    // Upstream vouches for the index. A mirror could give anything under a name.
    let server = Server::start(|_, request| {
        let platform = serde_json::json!({"os": "linux", "architecture": "amd64"});
        let config = format!("sha256:{}", Sha256Digest::of(SCRIPT));
        match request.target.as_str() {
            "/v2/k8s/pause/manifests/3.10" => Reply::new(
                200,
                serde_json::json!({"manifests": [{"digest": "hostile", "platform": platform}]})
                    .to_string(),
            ),
            target if target.contains("/manifests/") => Reply::new(
                200,
                serde_json::json!({"config": {"digest": config}, "layers": []}).to_string(),
            ),
            _ => Reply::file(request, SCRIPT, "\"u\""),
        }
    });
    let mut artifact = program(
        "pause-image",
        Some(format!("127.0.0.1:{}/k8s/pause:3.10", server.port)),
    );
    artifact.kind = ArtifactKind::Image;
    artifact.file = None;
    let pause = part("pause", PartKind::Image);
    let result = Ground::new().read(&[artifact], &pause, &sources());
    let words = told(&result.unwrap_err());
    assert!(words.contains("an index of digests"), "{words}");
    let targets = server.targets();
    assert!(!targets.iter().any(|target| target.ends_with("hostile")));
}
