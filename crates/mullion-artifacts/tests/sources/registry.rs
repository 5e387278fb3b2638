//! Images from a registry that wants a token, answers with an index and sends blobs from elsewhere.

use std::collections::BTreeMap;
use std::io::Read as _;

use mullion_artifacts::part_of;
use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_spec::words::BuildPolicy;
use serde_json::{Value, json};

use super::server::{Manner, Reply, Server};
use super::*;

/// A registry's image: an index of two systems, of which ours has two layers.
struct Shelf {
    blobs: BTreeMap<String, Vec<u8>>,
    index: Vec<u8>,
    manifest: String,
    layer: String,
}

fn shelf() -> Shelf {
    let mut blobs = BTreeMap::new();
    let mut put = |bytes: Vec<u8>| {
        let digest = format!("sha256:{}", Sha256Digest::of(&bytes));
        let size = bytes.len();
        blobs.insert(digest.clone(), bytes);
        (digest, size)
    };
    let (config, config_size) = put(br#"{"architecture":"amd64","os":"linux"}"#.to_vec());
    let (layer, layer_size) = put(content(300_000));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"digest": config, "size": config_size},
        "layers": [{"digest": layer, "size": layer_size}],
    });
    let (manifest, _) = put(manifest.to_string().into_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [
        {"digest": "sha256:00", "platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": manifest, "platform": {"os": "linux", "architecture": "amd64"}},
    ]});
    Shelf {
        blobs,
        index: index.to_string().into_bytes(),
        manifest,
        layer,
    }
}

/// A registry with that image; `spoil` may change what it answers.
fn registry(spoil: impl Fn(usize, &str, Reply) -> Reply + Send + Sync + 'static) -> Server {
    let shelf = shelf();
    Server::start(move |number, request| {
        let host = request.header("host").unwrap_or_default().to_owned();
        let target = request.target.as_str();
        if target.starts_with("/token") {
            assert!(
                target.contains("scope=repository:k8s/pause:pull"),
                "{target}"
            );
            return Reply::new(200, r#"{"token":"let-me-in"}"#);
        }
        if let Some(digest) = target.strip_prefix("/elsewhere/") {
            let reply = Reply::file(request, &shelf.blobs[digest], "\"b\"");
            return spoil(number, target, reply);
        }
        if request.header("authorization") != Some("Bearer let-me-in") {
            let realm = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
            return Reply::new(401, "who are you").with("www-authenticate", realm);
        }
        let reply = match target.rsplit_once('/').unwrap() {
            ("/v2/k8s/pause/manifests", "3.10") => Reply::new(200, shelf.index.clone()),
            ("/v2/k8s/pause/manifests", digest) => Reply::new(200, shelf.blobs[digest].clone()),
            ("/v2/k8s/pause/blobs", digest) => {
                Reply::new(307, "").with("location", format!("/elsewhere/{digest}"))
            }
            _ => Reply::new(404, ""),
        };
        spoil(number, target, reply)
    })
}

fn pause(server: &Server) -> [ArtifactRef; 1] {
    let address = format!("127.0.0.1:{}/k8s/pause:3.10", server.port);
    let mut artifact = program("pause-image", Some(address));
    artifact.kind = ArtifactKind::Image;
    artifact.file = None;
    [artifact]
}

/// The files of an archive.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (path, bytes)
    });
    entries.collect()
}

fn wanted() -> Part {
    part("pause", PartKind::Image)
}

#[test]
fn an_image_is_pulled_for_its_system_into_an_archive() {
    let server = registry(|_, _, reply| reply);
    let archive = Ground::new()
        .read(&pause(&server), &wanted(), &sources())
        .unwrap();
    let files = files(&archive);
    let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    let entry = &index["manifests"][0];
    let shelf = shelf();
    assert_eq!(entry["digest"], shelf.manifest.as_str());
    assert_eq!(
        entry["annotations"]["io.containerd.image.name"],
        format!("127.0.0.1:{}/k8s/pause:3.10", server.port)
    );
    for digest in shelf.blobs.keys() {
        let path = format!("blobs/{}", digest.replace(':', "/"));
        assert_eq!(files[&path], shelf.blobs[digest], "{digest}");
    }
    assert!(files.contains_key("oci-layout"));
}

#[test]
fn an_image_that_a_file_names_by_tag_and_digest_is_fetched_by_its_digest() {
    let pull = |server: &Server| {
        let digest = shelf().manifest;
        let host = format!("127.0.0.1:{}", server.port);
        let text = format!(
            "machines: {{linux: 1}}\nimages: [{{ref: \"{host}/k8s/pause:3.10@{digest}\"}}]\n"
        );
        let draft = Draft::read(Source::new("f", &text), &Surroundings::default());
        let model = Catalog::builtin().judge(draft).model.unwrap();
        let mut artifacts = model.artifacts().iter();
        let named = artifacts.find(|artifact| artifact.name.starts_with(&host));
        let part = part_of(named.unwrap()).unwrap();
        assert_eq!(part.name, format!("{host}/k8s/pause"));
        assert_eq!(part.version, digest);
        Ground::new().read(model.artifacts(), &part, &sources())
    };
    let server = registry(|_, _, reply| reply);
    let files = files(&pull(&server).unwrap());
    let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    // Runtimes leave out the tag beside a digest, and look for the image without it.
    assert_eq!(
        index["manifests"][0]["annotations"]["io.containerd.image.name"],
        format!("127.0.0.1:{}/k8s/pause@{}", server.port, shelf().manifest)
    );
    let spoiled = registry(|_, target, reply| {
        if target.contains("/manifests/sha256:") {
            Reply::new(200, r#"{"schemaVersion":2}"#)
        } else {
            reply
        }
    });
    let error = told(&pull(&spoiled).unwrap_err());
    assert!(error.contains("sha256"), "{error}");
}

#[test]
fn the_same_image_gives_the_same_bytes() {
    let server = registry(|_, _, reply| reply);
    let pull = || {
        Ground::new()
            .read(&pause(&server), &wanted(), &sources())
            .unwrap()
    };
    assert!(pull() == pull());
}

#[test]
fn a_blob_that_breaks_off_goes_on() {
    let layer = shelf().layer;
    let target = format!("/elsewhere/{layer}");
    let spoilt = target.clone();
    let first = std::sync::Once::new();
    let server = registry(move |_, seen, reply| {
        let mut manner = Manner::Whole;
        if seen == spoilt {
            first.call_once(|| manner = Manner::CutAfter(100_000));
        }
        reply.sent(manner)
    });
    Ground::new()
        .read(&pause(&server), &wanted(), &sources())
        .unwrap();
    let seen = server.seen();
    let ranges: Vec<_> = seen
        .iter()
        .filter(|request| request.target == target)
        .map(|request| request.header("range"))
        .collect();
    assert_eq!(ranges, [None, Some("bytes=100000-")]);
    // What let us in at the registry is not said elsewhere only where the host is another; here it is the same.
    assert!(
        seen.iter()
            .any(|request| request.header("authorization").is_some())
    );
}

#[test]
fn a_blob_that_is_not_what_its_digest_says_is_refused() {
    let server = registry(|_, target, mut reply| {
        if target.starts_with("/elsewhere/") {
            reply.body.fill(0);
        }
        reply
    });
    let ground = Ground::new();
    let error = ground
        .read(&pause(&server), &wanted(), &sources())
        .unwrap_err();
    assert!(told(&error).contains("is expected"), "{}", told(&error));
    assert!(!ground.store.has(&wanted()));
}

#[test]
fn an_image_for_other_systems_only_is_not_there() {
    let server = registry(|_, target, mut reply| {
        if target.ends_with("/3.10") {
            let text = String::from_utf8(reply.body).unwrap();
            reply.body = text.replace("amd64", "riscv64").into_bytes();
        }
        reply
    });
    let error = Ground::new()
        .read(&pause(&server), &wanted(), &sources())
        .unwrap_err();
    assert!(
        told(&error).contains("for linux on amd64 is not there"),
        "{}",
        told(&error)
    );
}

#[test]
fn a_registry_that_lets_nobody_in_is_told() {
    let server =
        Server::start(|_, _| Reply::new(401, "no").with("www-authenticate", "Basic realm=\"x\""));
    let error = Ground::new()
        .read(&pause(&server), &wanted(), &sources())
        .unwrap_err();
    assert!(told(&error).contains("answered 401"), "{}", told(&error));
}

#[test]
fn a_mirrors_registry_has_the_repositories_of_others_below_their_names() {
    let shelf = shelf();
    let server = Server::start(move |_, request| {
        let base = "/v2/registry.example/k8s/pause/";
        match request
            .target
            .strip_prefix(base)
            .and_then(|rest| rest.split_once('/'))
        {
            Some(("manifests", "3.10")) => Reply::new(200, shelf.index.clone()),
            Some(("manifests" | "blobs", digest)) => {
                Reply::file(request, &shelf.blobs[digest], "\"b\"")
            }
            _ => Reply::new(404, ""),
        }
    });
    let mut artifacts = pause(&server);
    artifacts[0].address = Some("registry.example/k8s/pause:3.10".into());
    // Upstream cannot be asked, and the mirror is not HTTPS: a list vouches for the image.
    let ground = Ground::new();
    let mut mirrored = ground.listing(&[("pause.tar", b"something else")]);
    mirrored.mirror = Some(server.address(""));
    let error = ground.read(&artifacts, &wanted(), &mirrored).unwrap_err();
    let SupplyError::NewDigest { found, .. } = error else {
        panic!("{error:?}");
    };
    fs::write(
        mirrored.digests.as_ref().unwrap(),
        format!("{found}  parts/linux/image/pause@1.0/pause.tar\n"),
    )
    .unwrap();
    let archive = ground.read(&artifacts, &wanted(), &mirrored).unwrap();
    let index: Value = serde_json::from_slice(&files(&archive)["index.json"]).unwrap();
    assert_eq!(
        index["manifests"][0]["annotations"]["io.containerd.image.name"],
        "registry.example/k8s/pause:3.10"
    );
}

#[test]
fn where_no_registry_answers_the_image_is_made_of_its_program_and_always_alike() {
    let make = || {
        let nobody = Server::start(|_, _| Reply::new(404, ""));
        let (ground, mut artifacts) = makeable(&nobody);
        artifacts[1].address = Some("no-registry.invalid/pause:3.10".into());
        ground.read(&artifacts, &wanted(), &sources()).unwrap()
    };
    let archive = make();
    assert!(archive == make());
    let outer = files(&archive);
    let follow = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = &outer[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(format!("sha256:{}", Sha256Digest::of(bytes)), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes.clone()
    };
    let index: Value = serde_json::from_slice(&outer["index.json"]).unwrap();
    let manifest: Value = serde_json::from_slice(&follow(&index["manifests"][0])).unwrap();
    let config: Value = serde_json::from_slice(&follow(&manifest["config"])).unwrap();
    assert_eq!(config["config"]["Entrypoint"], json!(["/pause"]));
    let layer = follow(&manifest["layers"][0]);
    assert_eq!(
        config["rootfs"]["diff_ids"],
        json!([manifest["layers"][0]["digest"]])
    );
    let inner = files(&layer);
    assert_eq!(inner["pause"], b"the program");
    assert!(inner.contains_key("tmp/") && inner.contains_key("etc/passwd"));
}

#[test]
fn an_image_for_windows_comes_with_all_its_builds() {
    let mut blobs = BTreeMap::new();
    let mut put = |bytes: Vec<u8>| {
        let digest = format!("sha256:{}", Sha256Digest::of(&bytes));
        blobs.insert(digest.clone(), bytes);
        digest
    };
    let manifests: Vec<_> = ["10.0.20348.1", "10.0.26100.1"]
        .iter()
        .map(|build| {
            let config = put(format!("config of {build}").into_bytes());
            let layer = put(format!("layer of {build}").into_bytes());
            let manifest = json!({"config": {"digest": config}, "layers": [
                {"digest": layer},
                {"digest": format!("sha256:{}", "0".repeat(64)), "urls": ["https://elsewhere.example/layer"]},
            ]});
            let digest = put(manifest.to_string().into_bytes());
            json!({"digest": digest, "platform": {"os": "windows", "architecture": "amd64", "os.version": build}})
        })
        .collect();
    let index = json!({"schemaVersion": 2, "manifests": manifests}).to_string();
    let shelf = blobs.clone();
    let server = Server::start(move |_, request| match request.target.rsplit('/').next() {
        Some("3.10") => Reply::new(200, index.clone()),
        Some(digest) => Reply::file(request, &shelf[digest], "\"b\""),
        None => Reply::new(404, ""),
    });
    let mut artifacts = pause(&server);
    artifacts[0].os = Os::Windows;
    let mut wanted = wanted();
    wanted.os = Os::Windows;
    let archive = Ground::new().read(&artifacts, &wanted, &sources()).unwrap();
    let files = files(&archive);
    let top: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    let digest = top["manifests"][0]["digest"].as_str().unwrap();
    let inner = &files[&format!("blobs/{}", digest.replace(':', "/"))];
    let inner: Value = serde_json::from_slice(inner).unwrap();
    assert_eq!(inner["manifests"].as_array().unwrap().len(), 2);
    for digest in blobs.keys() {
        assert!(
            files.contains_key(&format!("blobs/{}", digest.replace(':', "/"))),
            "{digest}"
        );
    }
}

/// A cache with a program, and the image that can be made of it or pulled from that server.
fn makeable(server: &Server) -> (Ground, [ArtifactRef; 2]) {
    let ground = Ground::new();
    let given = ground.folder.path().join("pause");
    fs::write(&given, "the program").unwrap();
    let item = Item::Part(part("pause", PartKind::Program));
    ground.store.put(&item, &given, &Ears::default()).unwrap();
    let [mut image] = pause(server);
    image.build = Some(mullion_catalog::Build::Image(mullion_catalog::ImageBuild {
        program: "pause".into(),
        path: "/pause".into(),
        entrypoint: vec!["/pause".into()],
        needs: Vec::new(),
        tried: true,
    }));
    (ground, [program("pause", None), image])
}

#[test]
fn what_is_always_built_is_not_pulled_and_what_was_pulled_is_built_anew() {
    let server = registry(|_, _, reply| reply);
    let (ground, artifacts) = makeable(&server);
    let mut sources = sources();
    let pulled = ground.read(&artifacts, &wanted(), &sources).unwrap();
    let asked = server.seen().len();
    assert!(asked > 0);
    sources.build = BuildPolicy::Always;
    let made = ground.read(&artifacts, &wanted(), &sources).unwrap();
    assert!(made != pulled);
    assert_eq!(server.seen().len(), asked);
    // And what was built is as good as any afterwards.
    sources.build = BuildPolicy::Auto;
    assert!(ground.read(&artifacts, &wanted(), &sources).unwrap() == made);
}

#[test]
fn what_is_never_built_may_still_be_put_together_but_not_compiled() {
    let server = Server::start(|_, _| Reply::new(404, ""));
    let (ground, mut artifacts) = makeable(&server);
    let mut sources = sources();
    sources.build = BuildPolicy::Never;
    ground.read(&artifacts, &wanted(), &sources).unwrap();
    let module = mullion_catalog::GoModule {
        path: "example.org/none".into(),
        version: "v1.0.0".into(),
        sum: Digest::Unknown,
        in_checksum_database: true,
        replace: mullion_catalog::Replace::DropLocal,
        staging_version: None,
    };
    artifacts[0].build = Some(mullion_catalog::Build::C(mullion_catalog::CBuild {
        module,
        file: "pause.c".into(),
        flags: Vec::new(),
        tried: false,
    }));
    let error = Ground::new()
        .read(&artifacts, &part("pause", PartKind::Program), &sources)
        .unwrap_err();
    assert!(matches!(error, SupplyError::Nowhere { .. }), "{error:?}");
}
