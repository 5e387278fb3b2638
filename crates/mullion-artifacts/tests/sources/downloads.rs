//! Upstream, and all that can go wrong on the way.

use std::time::Instant;

use mullion_artifacts::{FetchError, Origin, Witness};
use mullion_plan::ErrorClass;

use super::server::{Manner, Reply, Server};
use super::*;

const TAG: &str = "\"one\"";

fn kubeadm(server: &Server, digest: Digest) -> [ArtifactRef; 1] {
    let mut artifact = program("kubeadm", Some(server.address("/kubeadm")));
    artifact.digest = digest;
    [artifact]
}

fn wanted() -> Part {
    part("kubeadm", PartKind::Program)
}

#[test]
fn a_download_is_held_against_upstreams_checksum_and_recorded() {
    let body = content(300_000);
    let sum = format!("{}\n", Sha256Digest::of(&body));
    let given = body.clone();
    let server = Server::start(move |_, request| match request.target.as_str() {
        "/kubeadm.sha256" => Reply::new(200, sum.clone()),
        _ => Reply::file(request, &given, TAG),
    });
    let mut artifacts = kubeadm(&server, Digest::Unknown);
    artifacts[0].checksum = Some(server.address("/kubeadm.sha256"));
    let ground = Ground::new();
    assert_eq!(
        ground.read(&artifacts, &wanted(), &sources()).unwrap(),
        body
    );
    let record = ground.store.record(&Item::Part(wanted())).unwrap();
    assert_eq!(
        record.origin,
        Origin::Upstream {
            address: server.address("/kubeadm"),
            witness: Witness::ChecksumFile
        }
    );
    assert_eq!(ground.files_of(&wanted()), ["kubeadm", "record.json"]);
    // The second time it is there.
    assert_eq!(
        ground.read(&artifacts, &wanted(), &sources()).unwrap(),
        body
    );
    assert_eq!(server.targets(), ["/kubeadm.sha256", "/kubeadm"]);
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_was() {
    let body = content(500_000);
    let given = body.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::file(request, &given, TAG);
        match number {
            0 => reply.sent(Manner::CutAfter(200_000)),
            1 => reply.sent(Manner::CutAfter(100_000)),
            _ => reply,
        }
    });
    let artifacts = kubeadm(&server, sha256(&body));
    let ground = Ground::new();
    assert_eq!(
        ground.read(&artifacts, &wanted(), &sources()).unwrap(),
        body
    );
    let ranges: Vec<_> = server
        .seen()
        .iter()
        .map(|request| request.header("range").map(str::to_owned))
        .collect();
    assert_eq!(
        ranges,
        [
            None,
            Some("bytes=200000-".into()),
            Some("bytes=300000-".into())
        ]
    );
    assert_eq!(server.seen()[1].header("if-range"), Some(TAG));
}

#[test]
fn where_ranges_are_ignored_it_begins_anew() {
    let body = content(500_000);
    let given = body.clone();
    let server = Server::start(move |number, _| {
        let reply = Reply::new(200, given.clone());
        match number {
            0 => reply.sent(Manner::CutAfter(200_000)),
            _ => reply,
        }
    });
    let artifacts = kubeadm(&server, sha256(&body));
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        body
    );
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_file_that_changed_in_between_is_taken_whole() {
    let (old, new) = (content(400_000), vec![7; 350_000]);
    let (first, second) = (old, new.clone());
    let server = Server::start(move |number, request| match number {
        0 => Reply::file(request, &first, TAG).sent(Manner::CutAfter(100_000)),
        _ => Reply::file(request, &second, "\"two\""),
    });
    let artifacts = kubeadm(&server, Digest::Unknown);
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        new
    );
}

#[test]
fn without_a_word_of_the_server_two_parts_are_never_joined() {
    let body = content(400_000);
    let given = body.clone();
    let server = Server::start(move |number, request| {
        let mut reply = Reply::file(request, &given, TAG);
        reply.headers.retain(|(name, _)| name != "etag");
        match number {
            0 => reply.sent(Manner::CutAfter(100_000)),
            _ => reply,
        }
    });
    let artifacts = kubeadm(&server, Digest::Unknown);
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        body
    );
    assert!(
        server
            .seen()
            .iter()
            .all(|request| request.header("range").is_none())
    );
}

#[test]
fn a_wrong_digest_is_refused_and_nothing_is_kept() {
    let server = Server::start(|_, request| Reply::file(request, b"not kubeadm", TAG));
    let artifacts = kubeadm(&server, sha256(b"kubeadm"));
    let ground = Ground::new();
    let error = ground.read(&artifacts, &wanted(), &sources()).unwrap_err();
    assert!(
        matches!(
            &error,
            SupplyError::Fetch {
                source: FetchError::Digest { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Refused);
    insta::assert_snapshot!(
        steady(&told(&error), &[server.port], ground.folder.path()),
        @"program kubeadm 1.0 for linux could not be fetched | http://SERVER/kubeadm has the SHA-256 8c154fd902d781c5842b90612b0fc577e05f0fb9d72fa38ba4d5f0309060d796, but d5be5966597725a3cc0fa65c23fdcbd49dc3fae514a1ca0d439a56086565c5cc is expected"
    );
    assert!(
        ground.files_of(&wanted()).is_empty(),
        "{:?}",
        ground.files_of(&wanted())
    );
}

#[test]
fn the_rest_of_another_file_is_noticed_and_fetched_again() {
    let body = content(300_000);
    let given = body.clone();
    let server = Server::start(move |_, request| Reply::file(request, &given, TAG));
    let artifacts = kubeadm(&server, sha256(&body));
    let ground = Ground::new();
    ground.store.adopt().unwrap();
    let folder = ground.store.folder().join(Item::Part(wanted()).folder());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("kubeadm.partial"), vec![9; 1000]).unwrap();
    assert_eq!(
        ground.read(&artifacts, &wanted(), &sources()).unwrap(),
        body
    );
}

#[test]
fn redirects_are_followed_to_their_end() {
    let body = content(1000);
    let given = body.clone();
    let server = Server::start(move |_, request| match request.target.as_str() {
        "/kubeadm" => Reply::new(302, "").with("location", "/b/c"),
        "/b/c" => Reply::new(307, "").with("location", "d"),
        _ => Reply::file(request, &given, TAG),
    });
    let artifacts = kubeadm(&server, sha256(&body));
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        body
    );
    assert_eq!(server.targets(), ["/kubeadm", "/b/c", "/b/d"]);
}

#[test]
fn redirects_without_end_are_given_up() {
    let server = Server::start(|_, _| Reply::new(302, "").with("location", "/kubeadm"));
    let artifacts = kubeadm(&server, Digest::Unknown);
    let error = Ground::new()
        .read(&artifacts, &wanted(), &sources())
        .unwrap_err();
    assert!(matches!(error, SupplyError::Nowhere { .. }), "{error:?}");
    assert!(told(&error).contains("is not followed"), "{}", told(&error));
}

#[test]
fn what_is_not_there_is_said_with_its_address() {
    let server = Server::start(|_, _| Reply::new(404, "no"));
    let artifacts = kubeadm(&server, Digest::Unknown);
    let ground = Ground::new();
    let error = ground.read(&artifacts, &wanted(), &sources()).unwrap_err();
    insta::assert_snapshot!(
        steady(&told(&error), &[server.port], ground.folder.path()),
        @"program kubeadm 1.0 for linux could not be had anywhere | upstream: http://SERVER/kubeadm is not there"
    );
    // Asking again would not help.
    assert_eq!(server.seen().len(), 1);
    assert!(!error.to_step_error().hints.is_empty());
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let body = content(1000);
    let given = body.clone();
    let server = Server::start(move |number, request| match number {
        0 | 1 => Reply::new(503, "later"),
        _ => Reply::file(request, &given, TAG),
    });
    let artifacts = kubeadm(&server, sha256(&body));
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        body
    );
}

#[test]
fn a_slow_download_tells_how_far_it_is() {
    let body = content(200_000);
    let given = body.clone();
    let server = Server::start(move |_, request| {
        let pause = Duration::from_millis(60);
        Reply::file(request, &given, TAG).sent(Manner::Slow(20_000, pause))
    });
    let artifacts = kubeadm(&server, sha256(&body));
    let ears = Ears::default();
    let got = Ground::new().attended(&artifacts, &wanted(), &sources(), &ears);
    assert_eq!(got.unwrap(), body);
    let amounts = ears.amounts();
    assert!(amounts.len() >= 4, "{amounts:?}");
    assert!(amounts.is_sorted());
    assert_eq!(amounts.last(), Some(&(200_000, Some(200_000))));
}

#[test]
fn a_connection_that_falls_silent_is_left_and_gone_on_with() {
    let body = content(200_000);
    let given = body.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::file(request, &given, TAG);
        match number {
            0 => reply.sent(Manner::StallAfter(50_000)),
            _ => reply,
        }
    });
    let artifacts = kubeadm(&server, sha256(&body));
    let begun = Instant::now();
    assert_eq!(
        Ground::new()
            .read(&artifacts, &wanted(), &sources())
            .unwrap(),
        body
    );
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(server.seen()[1].header("range"), Some("bytes=50000-"));
}

#[test]
fn a_connection_that_always_breaks_is_given_up() {
    let server = Server::start(|_, _| Reply::new(200, content(1000)).sent(Manner::CutAfter(0)));
    let artifacts = kubeadm(&server, Digest::Unknown);
    let error = Ground::new()
        .read(&artifacts, &wanted(), &sources())
        .unwrap_err();
    assert!(
        told(&error).contains("broke off 3 times"),
        "{}",
        told(&error)
    );
    assert_eq!(error.class(), ErrorClass::Unreachable);
}

#[test]
fn what_was_called_off_goes_on_the_next_time() {
    let body = content(2_000_000);
    let given = body.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::file(request, &given, TAG);
        match number {
            0 => reply.sent(Manner::Slow(100_000, Duration::from_millis(50))),
            _ => reply,
        }
    });
    let artifacts = kubeadm(&server, sha256(&body));
    let ground = Ground::new();
    let ears = Ears {
        off_after: Some(300_000),
        ..Ears::default()
    };
    let begun = Instant::now();
    let error = ground
        .attended(&artifacts, &wanted(), &sources(), &ears)
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Interrupted, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(
        ground.files_of(&wanted()),
        ["kubeadm.partial", "kubeadm.partial.json"]
    );
    assert_eq!(
        ground.read(&artifacts, &wanted(), &sources()).unwrap(),
        body
    );
    let range = server.seen()[1].header("range").unwrap().to_owned();
    assert!(
        range.starts_with("bytes=") && range != "bytes=0-",
        "{range}"
    );
}

#[test]
fn a_silent_server_can_be_called_off_at_once() {
    let server = Server::start(|_, _| Reply::new(200, content(1000)).sent(Manner::StallAfter(1)));
    let artifacts = kubeadm(&server, Digest::Unknown);
    let mut patient = sources();
    patient.patience.stall = Duration::from_mins(1);
    let ears = Ears {
        off_after: Some(0),
        ..Ears::default()
    };
    let begun = Instant::now();
    let error = Ground::new()
        .attended(&artifacts, &wanted(), &patient, &ears)
        .unwrap_err();
    assert!(matches!(error, SupplyError::CalledOff), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_host_that_does_not_answer_is_asked_once_for_all_parts() {
    // A port that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = |name: &str| Some(format!("http://127.0.0.1:{port}/{name}"));
    let artifacts = [
        program("kubeadm", address("kubeadm")),
        program("kubelet", address("kubelet")),
    ];
    let (ground, sources) = (Ground::new(), sources());
    let first = ground.read(&artifacts, &wanted(), &sources).unwrap_err();
    assert!(
        told(&first).contains("could not be reached"),
        "{}",
        told(&first)
    );
    assert_eq!(
        sources.reach.lost().into_iter().collect::<Vec<_>>(),
        [format!("127.0.0.1:{port}")]
    );
    let kubelet = part("kubelet", PartKind::Program);
    let second = ground
        .read(&artifacts, &kubelet, &sources.clone())
        .unwrap_err();
    assert!(
        told(&second).contains("was not asked again"),
        "{}",
        told(&second)
    );
}

#[test]
fn a_name_that_is_not_known_is_no_long_wait() {
    let artifacts = [program(
        "kubeadm",
        Some("https://no-such-host.invalid/kubeadm".into()),
    )];
    let begun = Instant::now();
    let error = Ground::new()
        .read(&artifacts, &wanted(), &sources())
        .unwrap_err();
    assert!(matches!(error, SupplyError::Nowhere { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn offline_opens_no_connection_and_names_the_part() {
    let server = Server::start(|_, request| Reply::file(request, b"kubeadm", TAG));
    let artifacts = kubeadm(&server, Digest::Unknown);
    let mut offline = sources();
    offline.offline = true;
    offline.mirror = Some(server.address("/mirror"));
    let error = Ground::new()
        .read(&artifacts, &wanted(), &offline)
        .unwrap_err();
    insta::assert_snapshot!(told(&error), @"program kubeadm 1.0 for linux is neither in the cache nor in a bundle, and nothing outside may be asked");
    assert!(error.hints()[0].contains("mullion artifacts bundle"));
    assert!(server.seen().is_empty());
}

#[test]
fn the_proxy_is_asked_save_for_what_goes_without_it() {
    let proxy = Server::start(|_, request| Reply::file(request, b"through the proxy", TAG));
    let server = Server::start(|_, request| Reply::file(request, b"straight", TAG));
    let artifacts = [program(
        "kubeadm",
        Some("http://upstream.invalid/kubeadm".into()),
    )];
    let mut proxied = sources();
    proxied.proxy.http = Some(proxy.address(""));
    proxied.proxy.no = vec!["127.0.0.0/8".into()];
    let got = Ground::new().read(&artifacts, &wanted(), &proxied).unwrap();
    assert_eq!(got, b"through the proxy");
    assert_eq!(proxy.targets(), ["upstream.invalid:80 /kubeadm"]);
    let artifacts = kubeadm(&server, Digest::Unknown);
    assert_eq!(
        Ground::new().read(&artifacts, &wanted(), &proxied).unwrap(),
        b"straight"
    );
    assert_eq!(proxy.seen().len(), 1);
}

#[test]
fn certificates_that_are_none_are_named() {
    let ground = Ground::new();
    let file = ground.folder.path().join("ca.pem");
    fs::write(&file, "no certificate").unwrap();
    let server = Server::start(|_, request| Reply::file(request, b"kubeadm", TAG));
    let mut trusting = sources();
    trusting.trust = vec![file];
    let error = ground
        .read(&kubeadm(&server, Digest::Unknown), &wanted(), &trusting)
        .unwrap_err();
    assert!(
        told(&error).contains("ca.pem could not be read"),
        "{}",
        told(&error)
    );
}

#[test]
fn a_program_comes_out_of_the_archive_that_holds_it() {
    let archive = {
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));
        for (path, text) in [("bin/ctr", "ctr"), ("bin/containerd", "containerd itself")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o755);
            tar.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    };
    let sum = format!("{}  containerd.tar.gz\n", Sha256Digest::of(&archive));
    let server = Server::start(move |_, request| match request.target.as_str() {
        "/containerd.tar.gz" => Reply::file(request, &archive, TAG),
        _ => Reply::new(200, sum.clone()),
    });
    let mut holder = program(
        "containerd-archive",
        Some(server.address("/containerd.tar.gz")),
    );
    holder.kind = ArtifactKind::Archive;
    holder.file = Some("containerd.tar.gz".into());
    holder.checksum = Some(server.address("/containerd.tar.gz.sha256sum"));
    let programs = ["containerd", "ctr", "missing"].map(Into::into).to_vec();
    holder.build = Some(mullion_catalog::Build::Parts { programs });
    let artifacts = [
        holder,
        program("containerd", None),
        program("ctr", None),
        program("missing", None),
    ];
    let ground = Ground::new();
    let of = |name| ground.read(&artifacts, &part(name, PartKind::Program), &sources());
    assert_eq!(of("containerd").unwrap(), b"containerd itself");
    assert_eq!(of("ctr").unwrap(), b"ctr");
    // One archive serves both.
    assert_eq!(server.seen().len(), 2);
    let error = of("missing").unwrap_err();
    insta::assert_snapshot!(told(&error), @"archive containerd-archive 1.0 for linux holds no file `missing` for program missing 1.0 for linux");
}

/// Nobody vouches for it: what comes first is taken, which is told, and nothing else after it.
#[test]
fn what_was_fetched_once_is_pinned() {
    const SEEN: &[u8] = b"the first";
    let server = Server::start(|number, request| match number {
        0 | 2 => Reply::file(request, SEEN, TAG),
        _ => Reply::file(request, b"the other", "\"two\""),
    });
    let artifacts = kubeadm(&server, Digest::Unknown);
    let (ground, ears) = (Ground::new(), Ears::default());
    let path = supply(&ground.store, &artifacts, &wanted(), &sources(), &ears).unwrap();
    let digest = Sha256Digest::of(SEEN);
    let told_of_it = News::Line(format!(
        "nobody publishes a digest of program kubeadm 1.0 for linux: sha256:{digest}, as it came now, is pinned"
    ));
    assert!(
        ears.heard.lock().unwrap().contains(&told_of_it),
        "{:?}",
        ears.heard
    );
    let record = || ground.store.record(&Item::Part(wanted())).unwrap();
    let first = record();
    let address = server.address("/kubeadm");
    let witness = Witness::Connection;
    assert_eq!(first.origin, Origin::Upstream { address, witness });
    assert_eq!(first.sha256, digest);
    // Spoilt or gone, only the same is taken again, and nobody vouches for that either.
    fs::write(&path, "spoilt").unwrap();
    let error = ground.read(&artifacts, &wanted(), &sources()).unwrap_err();
    assert!(matches!(error, SupplyError::NewDigest { .. }), "{error:?}");
    fs::remove_file(&path).unwrap();
    let again = ground.read(&artifacts, &wanted(), &sources()).unwrap();
    assert_eq!(again, SEEN);
    assert_eq!(record().origin, first.origin);
}

#[test]
fn promise_10_a_body_without_end_does_not_fill_the_disk() {
    for has_length in [false, true] {
        let (length, manner) = if has_length {
            (9 << 20, Manner::Whole)
        } else {
            (1 << 16, Manner::Endless)
        };
        let server = Server::start(move |_, _| Reply::new(200, vec![7; length]).sent(manner));
        let ground = Ground::new();
        let artifacts = kubeadm(&server, sha256(b"something else"));
        let error = ground.read(&artifacts, &wanted(), &sources());
        let words = told(&error.unwrap_err());
        assert!(words.contains("more than any artifact"), "{words}");
        assert_eq!(ground.files_of(&wanted()), Vec::<String>::new());
    }
}

#[test]
fn promise_10_a_server_that_always_makes_it_begin_anew_is_given_up() {
    // A piece of a file, and the rest of another length.
    let server = Server::start(|_, request| match request.header("range") {
        None => Reply::new(200, content(1000)).sent(Manner::CutAfter(10)),
        Some(_) => Reply::new(206, content(10)).with("content-range", "bytes 10-19/20"),
    });
    let ground = Ground::new();
    let artifacts = kubeadm(&server, sha256(b"something else"));
    let error = ground.read(&artifacts, &wanted(), &sources());
    let words = told(&error.unwrap_err());
    assert!(words.contains("broke off"), "{words}");
    assert!(server.seen().len() < 20, "{}", server.seen().len());
}

#[test]
fn promise_10_a_server_that_dribbles_is_given_up() {
    let pause = Duration::from_millis(25);
    for manner in [Manner::Slow(1, pause), Manner::SlowHead(pause)] {
        let server = Server::start(move |_, request| {
            Reply::file(request, &content(2000), "\"a\"").sent(manner)
        });
        let ground = Ground::new();
        let mut sources = sources();
        sources.patience.window = Duration::from_millis(500);
        sources.patience.least = 200;
        let begun = Instant::now();
        let error = ground.read(&kubeadm(&server, Digest::Unknown), &wanted(), &sources);
        let words = told(&error.unwrap_err());
        assert!(words.contains("broke off"), "{words}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{manner:?}");
    }
}

#[test]
fn a_slow_server_that_keeps_the_least_pace_is_waited_for() {
    let body = content(400);
    let server = Server::start(|_, request| {
        let manner = Manner::Slow(20, Duration::from_millis(25));
        Reply::file(request, &content(400), "\"a\"").sent(manner)
    });
    let ground = Ground::new();
    let mut sources = sources();
    sources.patience.window = Duration::from_millis(250);
    sources.patience.least = 20;
    let artifacts = kubeadm(&server, Digest::Unknown);
    assert_eq!(ground.read(&artifacts, &wanted(), &sources).unwrap(), body);
    assert_eq!(server.seen().len(), 1);
}
