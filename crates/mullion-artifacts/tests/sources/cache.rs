//! The cache folder itself.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

use mullion_artifacts::{Origin, Soundness};
use mullion_plan::Unattended;

use super::server::{Manner, Reply, Server};
use super::*;

fn put(ground: &Ground, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let given = ground.folder.path().join(name);
    fs::write(&given, bytes).unwrap();
    let item = Item::Part(part(name, PartKind::Program));
    ground.store.put(&item, &given, &Unattended).unwrap()
}

#[test]
fn what_is_put_in_is_found_and_listed() {
    let ground = Ground::new();
    let path = put(&ground, "kubeadm", b"abc");
    let kubeadm = part("kubeadm", PartKind::Program);
    assert_eq!(ground.store.path(&kubeadm).unwrap(), path);
    assert!(path.ends_with("parts/linux/program/kubeadm@1.0/kubeadm"));
    assert_eq!(
        ground.store.digest(&kubeadm),
        Some(Sha256Digest::of(b"abc"))
    );
    assert_eq!(
        ground.store.parts().into_iter().collect::<Vec<_>>(),
        [kubeadm]
    );
    assert_eq!(ground.store.list()[0].origin, Origin::Given);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn a_file_that_was_changed_is_no_longer_there() {
    let ground = Ground::new();
    let path = put(&ground, "kubeadm", b"abc");
    let kubeadm = part("kubeadm", PartKind::Program);
    fs::write(&path, "abd").unwrap();
    assert!(!ground.store.has(&kubeadm));
    fs::remove_file(&path).unwrap();
    assert!(!ground.store.has(&kubeadm));
}

#[test]
fn promise_05_a_cache_is_known_here_before_another_thread_can_see_its_mark() {
    for _ in 0..20 {
        let ground = Ground::named(true);
        let begin = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (ground, begin) = (&ground, &begin);
                scope.spawn(move || {
                    begin.wait();
                    put(ground, &format!("one{number}"), b"abc");
                });
            }
        });
        let noted = fs::read_dir(ground.folder.path().join("state/caches"));
        assert_eq!(noted.unwrap().count(), 1, "one mark counts, one id is kept");
    }
}

#[test]
fn a_cache_that_was_copied_is_as_good() {
    let ground = Ground::new();
    let path = put(&ground, "kubeadm", b"abc");
    // Another time, the same bytes.
    fs::write(&path, "abc").unwrap();
    let kubeadm = part("kubeadm", PartKind::Program);
    assert!(ground.store.has(&kubeadm));
    let record = ground.store.record(&Item::Part(kubeadm)).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(record.modified.unwrap().nanos, since.subsec_nanos());
}

#[test]
fn verifying_looks_at_every_byte() {
    let ground = Ground::new();
    let changed = put(&ground, "changed", b"abc");
    let missing = put(&ground, "missing", b"abc");
    put(&ground, "sound", b"abc");
    // With the recorded time and size only the bytes can tell.
    let modified = fs::metadata(&changed).unwrap().modified().unwrap();
    fs::write(&changed, "abd").unwrap();
    let file = std::fs::File::options().write(true).open(&changed).unwrap();
    file.set_modified(modified).unwrap();
    fs::remove_file(missing).unwrap();
    let verdicts = ground.store.verify(&Unattended).unwrap();
    let told: Vec<_> = verdicts
        .iter()
        .map(|one| (one.item.part().unwrap().name.as_str(), one.state))
        .collect();
    assert_eq!(
        told,
        [
            ("changed", Soundness::Changed),
            ("missing", Soundness::Missing),
            ("sound", Soundness::Sound)
        ]
    );
}

#[test]
fn a_file_without_a_record_counts_as_nothing() {
    let ground = Ground::new();
    let path = put(&ground, "kubeadm", b"abc");
    // As after a power cut between the two renames.
    fs::remove_file(path.with_file_name("record.json")).unwrap();
    assert!(!ground.store.has(&part("kubeadm", PartKind::Program)));
    let server = Server::start(|_, request| Reply::file(request, b"fetched", "\"x\""));
    let artifacts = [program("kubeadm", Some(server.address("/kubeadm")))];
    let kubeadm = part("kubeadm", PartKind::Program);
    assert_eq!(
        ground.read(&artifacts, &kubeadm, &sources()).unwrap(),
        b"fetched"
    );
}

#[test]
fn a_record_that_leads_elsewhere_is_not_believed() {
    let ground = Ground::new();
    let path = put(&ground, "kubeadm", b"abc");
    let record = path.with_file_name("record.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(
        &record,
        text.replace(
            "\"file\": \"kubeadm\"",
            "\"file\": \"../../../../../given\"",
        ),
    )
    .unwrap();
    assert!(!ground.store.has(&part("kubeadm", PartKind::Program)));
}

#[test]
fn several_that_want_one_part_fetch_it_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = Server::start(move |_, request| {
        counted.fetch_add(1, Ordering::SeqCst);
        Reply::file(request, &content(100_000), "\"x\"")
            .sent(Manner::Slow(20_000, Duration::from_millis(30)))
    });
    let artifacts = [program("kubeadm", Some(server.address("/kubeadm")))];
    let ground = Ground::new();
    // Each opens the cache for itself, as another process would: the lock is the file's.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(ground.store.folder()).unwrap();
                let kubeadm = part("kubeadm", PartKind::Program);
                supply(&store, &artifacts, &kubeadm, &sources(), &Unattended).unwrap();
            });
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn whoever_waits_for_another_can_be_called_off() {
    let server = Server::start(|_, request| {
        Reply::file(request, &content(100_000), "\"x\"")
            .sent(Manner::Slow(5_000, Duration::from_millis(50)))
    });
    let artifacts = [program("kubeadm", Some(server.address("/kubeadm")))];
    let ground = Ground::new();
    let kubeadm = part("kubeadm", PartKind::Program);
    thread::scope(|scope| {
        let first = scope.spawn(|| ground.read(&artifacts, &kubeadm, &sources()));
        while server.seen().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        let ears = Ears::default();
        ears.off.store(true, Ordering::SeqCst);
        let error = ground
            .attended(&artifacts, &kubeadm, &sources(), &ears)
            .unwrap_err();
        assert!(matches!(error, SupplyError::CalledOff), "{error:?}");
        assert!(first.join().unwrap().is_ok());
    });
}

#[test]
fn a_folder_that_cannot_be_one_is_named() {
    let ground = Ground::new();
    let file = ground.folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("cache")).unwrap_err();
    assert!(error.to_string().contains("file/cache"), "{error}");
}
