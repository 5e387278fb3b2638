//! Makes a real template out of a distribution's root file system, real programs and real images.
//!
//! `MULLION_TEST_PARTS` names a folder with `root.tar`, programs in `bin/` (`containerd` and `ctr` among
//! them) and image archives in `images/`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use mullion_plan::{Attend, Fingerprint, News, TemplateId, Unattended};
use mullion_template::{LinuxTemplate, Program, TemplateError, Templates};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn wish(name: &str) -> LinuxTemplate {
    let parts = PathBuf::from(
        std::env::var("MULLION_TEST_PARTS").expect("MULLION_TEST_PARTS names the folder of parts"),
    );
    let programs = files(&parts.join("bin")).into_iter().map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Program::new(name, path)
    });
    LinuxTemplate {
        id: TemplateId {
            name: name.into(),
            fingerprint: Fingerprint::of(&name),
        },
        root_tar: parts.join("root.tar").into(),
        programs: programs.collect(),
        images: files(&parts.join("images"))
            .into_iter()
            .map(Into::into)
            .collect(),
    }
}

/// Everything that could stay behind on this computer. Of what others do on it nothing is told.
fn traces() -> BTreeSet<String> {
    let own = format!(".partial-{}/", std::process::id());
    let mounts = fs_err::read_to_string("/proc/self/mounts").unwrap();
    let run = files(Path::new("/run")).into_iter();
    let run = run.map(|path| path.display().to_string());
    let processes = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
    mounts
        .lines()
        .map(str::to_owned)
        .chain(run.filter(|path| path.contains("containerd")))
        .chain(
            processes
                .lines()
                .filter(|line| line.contains(&own))
                .map(str::to_owned),
        )
        .chain([format!(
            "/opt/containerd: {}",
            Path::new("/opt/containerd").exists()
        )])
        .collect()
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_template_is_made_whole_and_leaves_nothing_else_behind() {
    let before = traces();
    let place = tempfile::tempdir().unwrap();
    let templates = Templates::new(place.path());
    let wish = wish("linux");
    let begun = Instant::now();
    let path = templates.build_linux(&wish, &Unattended).unwrap();
    println!("template built in {:.1?}", begun.elapsed());
    let again = Instant::now();
    assert_eq!(templates.build_linux(&wish, &Unattended).unwrap(), path);
    println!("built again in {:.1?}", again.elapsed());

    let record = templates.record(&wish.id).unwrap().unwrap();
    assert_eq!(record.programs.len(), wish.programs.len());
    assert!(
        record.images.len() >= wish.images.len(),
        "{:?}",
        record.images
    );
    assert!(path.join("root/usr/local/bin/containerd").is_file());
    let identity = "containerd/io.containerd.grpc.v1.introspection";
    assert!(!path.join(identity).exists());
    let store = path.join("containerd/io.containerd.snapshotter.v1.overlayfs/snapshots");
    assert!(files(&store).len() >= wish.images.len());
    assert_eq!(templates.find().unwrap(), BTreeSet::from([wish.id.clone()]));
    assert_eq!(files(place.path()), [path]);

    templates.purge(&BTreeSet::new(), &Unattended).unwrap();
    assert!(files(place.path()).is_empty());
    assert_eq!(traces(), before);
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn an_archive_that_is_none_is_named_and_leaves_nothing_behind() {
    let before = traces();
    let place = tempfile::tempdir().unwrap();
    let bad = place.path().join("bad.tar");
    fs_err::write(&bad, "this is no archive").unwrap();
    let templates = Templates::new(place.path().join("templates"));
    let mut wish = wish("bad");
    wish.images = vec![bad.clone().into()];
    match templates.build_linux(&wish, &Unattended) {
        Err(TemplateError::Image { path, .. }) => assert_eq!(path, bad),
        other => panic!("{other:?}"),
    }
    assert!(templates.find().unwrap().is_empty());
    assert!(files(templates.place()).is_empty());
    assert_eq!(traces(), before);
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_build_that_is_called_off_ends_soon_and_leaves_nothing_behind() {
    struct AfterImages(std::sync::atomic::AtomicBool);
    impl Attend for AfterImages {
        fn hear(&self, news: News) {
            if matches!(news, News::Line(line) if line.starts_with("importing")) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        fn is_called_off(&self) -> bool {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
    }
    let before = traces();
    let place = tempfile::tempdir().unwrap();
    let templates = Templates::new(place.path());
    let off = AfterImages(false.into());
    let result = templates.build_linux(&wish("off"), &off);
    assert!(
        matches!(result, Err(TemplateError::CalledOff)),
        "{result:?}"
    );
    assert!(templates.find().unwrap().is_empty());
    assert_eq!(traces(), before);
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn two_that_want_the_same_template_make_it_once() {
    let place = tempfile::tempdir().unwrap();
    let templates = Templates::new(place.path());
    let mut wish = wish("twice");
    wish.images.truncate(1);
    let build = || templates.build_linux(&wish, &Unattended).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(build);
        assert_eq!(build(), other.join().unwrap());
    });
    assert_eq!(files(place.path()).len(), 1);
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn what_a_killed_build_leaves_is_removed_by_the_next() {
    const CHILD: &str = "MULLION_TEST_CHILD";
    if let Some(place) = std::env::var_os(CHILD) {
        let _ = Templates::new(place).build_linux(&wish("killed"), &Unattended);
        return;
    }
    // As long as a path may be: a socket's may not.
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("x".repeat(120));
    let templates = Templates::new(&place);
    let processes = || {
        let output = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = place.display().to_string();
        text.lines().filter(|line| line.contains(&own)).count()
    };
    // In the middle of unpacking, and of importing.
    for delay in [300, 3000, 5000] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "what_a_killed_build_leaves_is_removed_by_the_next",
            ])
            .args(["--include-ignored", "--nocapture"])
            .env(CHILD, &place)
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(templates.find().unwrap().is_empty());
        assert!(!files(&place).is_empty(), "it was killed too early");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(processes(), 0, "containerd outlived its builder");
    let mut other = wish("another");
    other.images.truncate(1);
    let path = templates.build_linux(&other, &Unattended).unwrap();
    assert_eq!(files(&place), [path]);
}
