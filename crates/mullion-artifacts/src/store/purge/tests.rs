use std::path::Path;

use mullion_plan::{Part, PartKind, Unattended};
use mullion_spec::words::Os;

use super::*;
use crate::item::Item;

/// Every name in a folder, however deep, sorted; a folder's ends in a slash.
fn everything(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                found.push(format!("{name}/"));
                walk(folder, &path, found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

fn write(folder: &Path, files: &[&str]) {
    for file in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "years of work").unwrap();
    }
}

fn put(store: &Store, name: &str) -> PathBuf {
    let given = tempfile::tempdir().unwrap();
    let file = given.path().join(name);
    fs::write(&file, "program").unwrap();
    let part = Part {
        name: name.into(),
        os: Os::Linux,
        kind: PartKind::Program,
        version: "1.0".into(),
    };
    store.put(&Item::Part(part), &file, &Unattended).unwrap()
}

/// A cache as the version before marks left it.
fn unmarked(folder: &Path) -> Store {
    let store = Store::open(folder).unwrap();
    put(&store, "kubectl");
    fs::remove_file(folder.join(MARK)).unwrap();
    Store::open(folder).unwrap()
}

#[test]
fn promise_05_a_folder_with_the_users_own_files_is_neither_used_nor_purged() {
    let names: [&[&str]; 5] = [
        &["work/thesis.tex", "parts/engine.step", "layers/map.svg"],
        &["cluster.yaml"],
        // The folders of an older cache, and in one of them something that this program does not write there.
        &[
            "parts/linux/program/kubectl@1.0/kubectl",
            "locks/a.lock",
            "work/home/a",
        ],
        &["parts/engine.step", "locks/a.lock", "work/home/a"],
        &[
            "parts/linux/program/a@1/b.partial",
            "locks/a.lock",
            "work/thesis.tex",
        ],
    ];
    for files in names {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), files);
        let before = everything(folder.path());
        let store = Store::open(folder.path()).unwrap();
        let refused = |error: StoreError| {
            assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
            let shown = folder.path().display().to_string();
            assert!(error.to_string().contains(&shown), "{error}");
            assert!(error.hints()[0].contains("artifacts.cache"));
        };
        refused(store.check_use().unwrap_err());
        refused(store.check_purge().unwrap_err());
        refused(store.purge().unwrap_err());
        refused(store.lock_named("go", "Go", &Unattended).unwrap_err());
        refused(store.work("home").unwrap_err());
        assert_eq!(everything(folder.path()), before);
        assert!(store.list().is_empty());
    }
}

#[test]
fn promise_05_a_purge_takes_what_mullion_made_and_names_what_stays() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let store = Store::open(&place).unwrap();
    assert!(!place.exists(), "looking makes nothing");
    put(&store, "kubectl");
    store.work("go-k8s.io/kubernetes@v1").unwrap();
    let made = [
        "toolchains/go1.26.11/bin/go",
        "go-caches/path/pkg/mod/a",
        "parts/linux/program/kubelet@1.0/kubelet.partial",
        "parts/linux/program/kubelet@1.0/kubelet.partial.json",
    ];
    write(&place, &made);
    let users = [
        "thesis.tex",
        "parts/linux/program/kubectl@1.0/notes.txt",
        "work/thesis/a.tex",
        "toolchains/mine/bin/cc",
    ];
    write(&place, &users);
    let mut stays = store.purge().unwrap();
    stays.sort();
    let shown: Vec<_> = stays
        .iter()
        .map(|path| path.strip_prefix(&place).unwrap().display().to_string())
        .collect();
    assert_eq!(
        shown,
        [
            "parts/linux/program/kubectl@1.0/notes.txt",
            "thesis.tex",
            "toolchains/mine",
            "work/thesis"
        ]
    );
    let files: Vec<_> = everything(&place)
        .into_iter()
        .filter(|name| !name.ends_with('/'))
        .collect();
    let mut expected = users.map(str::to_owned).to_vec();
    expected.push(MARK.to_owned());
    expected.sort();
    assert_eq!(files, expected);
    // It is a cache still.
    put(&store, "kubectl");
    for file in users {
        fs::remove_file(place.join(file)).unwrap();
    }
    for left in ["work/thesis", "toolchains/mine"] {
        fs::remove_dir_all(place.join(left)).unwrap();
    }
    assert!(store.purge().unwrap().is_empty());
    assert!(!place.exists());
    assert!(store.purge().unwrap().is_empty());
}

#[test]
fn promise_05_a_purge_follows_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    write(
        &outside,
        &["home/a", "linux/program/a@1/record.json", "b.lock", "go1/c"],
    );
    let before = everything(&outside);
    let place = folder.path().join("cache");
    let store = Store::open(&place).unwrap();
    put(&store, "kubectl");
    fs::create_dir_all(place.join("go-caches")).unwrap();
    for (link, target) in [
        ("work/home", outside.join("home")),
        ("go-caches/path", outside.clone()),
        ("toolchains", outside.clone()),
        ("roots", outside.clone()),
        ("parts/windows", outside.join("linux")),
        ("parts/linux/program/kubelet@1.0", outside.join("home")),
    ] {
        std::os::unix::fs::symlink(target, place.join(link)).unwrap();
    }
    let stays = store.purge().unwrap();
    assert_eq!(everything(&outside), before);
    // A link of a name that is ours goes where a folder of ours would; one in the place of a folder that is entered stays.
    for link in ["toolchains", "roots", "parts/windows"] {
        assert!(stays.contains(&place.join(link)), "{link}: {stays:?}");
    }
}

#[test]
fn promise_05_an_older_cache_is_recognised_and_marked_when_it_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let store = unmarked(folder.path());
    assert_eq!(store.list().len(), 1);
    assert!(!folder.path().join(MARK).exists(), "looking marks nothing");
    put(&store, "kubelet");
    assert!(folder.path().join(MARK).exists());
    assert_eq!(store.list().len(), 2);

    let folder = tempfile::tempdir().unwrap();
    let store = unmarked(folder.path());
    assert!(store.purge().unwrap().is_empty());
    assert!(!folder.path().exists());

    // The same with one file of somebody else's is no cache.
    let folder = tempfile::tempdir().unwrap();
    let store = unmarked(folder.path());
    write(folder.path(), &["cluster.yaml"]);
    assert!(matches!(store.purge(), Err(StoreError::Foreign { .. })));

    // What `validate` of that version left.
    let folder = tempfile::tempdir().unwrap();
    for name in [PARTS, LOCKS, WORK] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    put(&Store::open(folder.path()).unwrap(), "kubectl");
}

#[test]
fn promise_05_a_mark_that_is_newer_or_not_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = unmarked(folder.path());
    fs::write(
        folder.path().join(MARK),
        r#"{"format": "mullion.dev/cache/v9"}"#,
    )
    .unwrap();
    assert!(matches!(store.purge(), Err(StoreError::Newer { .. })));
    assert!(matches!(store.check_use(), Err(StoreError::Newer { .. })));
    for text in ["", "{}", r#"{"format": "theirs"}"#] {
        fs::write(folder.path().join(MARK), text).unwrap();
        assert!(matches!(store.purge(), Err(StoreError::Foreign { .. })));
    }
    fs::remove_file(folder.path().join(MARK)).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join(MARK)).unwrap();
    assert!(matches!(store.purge(), Err(StoreError::Foreign { .. })));
}

#[test]
fn what_is_being_got_is_not_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let lock = store.lock_named("go", "Go", &Unattended).unwrap();
    assert!(matches!(store.purge(), Err(StoreError::Busy { .. })));
    assert!(folder.path().join(PARTS).is_dir());
    drop(lock);
    store.purge().unwrap();
}
