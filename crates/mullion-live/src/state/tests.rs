use std::os::unix::fs::PermissionsExt as _;

use super::super::addresses::ADDRESSES;
use super::super::networks::NETWORKS;
use super::*;

#[test]
fn what_a_machine_runs_is_kept_and_an_older_record_is_read() {
    let record = r#"{"address":"192.0.2.1","login":{"user":"USER","key":null,"port":22,"jump":"ada@gate","host_key":null,"host_keys":{}}OS}"#;
    let read = |user: &str, os: &str| -> Taken {
        let text = record
            .replace("USER", user)
            .replace("OS}", &format!("{os}}}"));
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(read("root", "").os(), Os::Linux);
    assert_eq!(read("Administrator", "").os(), Os::Windows);
    let windows = read("ada", r#","os":"windows""#);
    assert_eq!(windows.os(), Os::Windows);
    let text = serde_json::to_string(&windows).unwrap();
    assert_eq!(serde_json::from_str::<Taken>(&text).unwrap(), windows);
}

#[test]
fn secrets_are_readable_by_their_owner_alone_and_survive() {
    let folder = tempfile::tempdir().unwrap();
    let name: ClusterName = "demo".parse().unwrap();
    assert!(ClusterState::find(folder.path(), &name).is_none());
    let state = ClusterState::of(folder.path(), &name);
    assert!(state.find_login_key().unwrap().is_none());
    assert_eq!(state.kubeconfig().unwrap().map(|_| ()), None);
    assert!(!state.folder().exists(), "looking creates nothing");
    let key = state.login_key().unwrap();
    assert_eq!(state.login_key().unwrap().public, key.public);
    state.keep_kubeconfig(&Secret::new("a: b")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let Key::File(private) = &key.private else {
        panic!("{key:?}");
    };
    assert_eq!(mode(private), 0o600);
    assert_eq!(mode(&state.kubeconfig_path()), 0o600);
    assert_eq!(mode(state.folder()), 0o700);
    assert_eq!(
        ClusterState::all(folder.path()),
        std::slice::from_ref(&name)
    );
    assert_eq!(state.kubeconfig().unwrap().unwrap().reveal(), "a: b");
    assert_eq!(
        (state.file().unwrap(), state.paths().unwrap()),
        (None, None)
    );
    state
        .keep_file(
            "machines: {}",
            Path::new("/srv"),
            (Path::new("/srv/lab"), Path::new("/srv/real")),
        )
        .unwrap();
    assert_eq!(state.file().unwrap().unwrap(), "machines: {}");
    assert_eq!(state.paths().unwrap().unwrap(), Path::new("/srv"));
    let file_folder = || state.file_folder().unwrap().unwrap();
    assert_eq!(file_folder(), Path::new("/srv/lab"));
    let real_file_folder = || state.real_file_folder().unwrap().unwrap();
    assert_eq!(real_file_folder(), Path::new("/srv/real"));
    // Older versions wrote the first two folders, or the first alone.
    fs_err::remove_file(state.folder().join(REAL_FILE_FOLDER)).unwrap();
    assert_eq!(real_file_folder(), Path::new("/srv/lab"));
    fs_err::remove_file(state.folder().join(FILE_FOLDER)).unwrap();
    assert_eq!(file_folder(), Path::new("/srv"));
    let saved = state.keep_snapshot("1-before-cp1.db", |out| out.write_all(b"whole"));
    let saved = saved.unwrap();
    assert_eq!(mode(&saved), 0o600);
    assert_eq!(mode(saved.parent().unwrap()), 0o700);
    let cut = state.keep_snapshot("2-before-cp1.db", |out| {
        out.write_all(b"ha")?;
        Err(std::io::Error::other("cut off"))
    });
    assert!(cut.is_err());
    let left = fs_err::read_dir(saved.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "nothing of a snapshot that is not whole stays");
    let machine = "cp1".parse().unwrap();
    for text in ["a\n", "b\n"] {
        let path = state.keep_known_hosts(&machine, text).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), text);
        assert_eq!(mode(&path), 0o600);
    }
    state.remove().unwrap();
    assert!(ClusterState::find(folder.path(), &name).is_none());
}

#[test]
fn promise_05_snapshots_of_etcd_outlive_the_cluster_and_only_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let name: ClusterName = "demo".parse().unwrap();
    let state = ClusterState::of(folder.path(), &name);
    assert_eq!(state.snapshots().unwrap(), [""; 0].map(PathBuf::from));
    state.remove_snapshots(&[]).unwrap();
    state.keep_id(&ClusterUid::of(1)).unwrap();
    let machine = "cp1".parse().unwrap();
    let saved = ["20260102T030405Z", "20260101T030405Z"].map(|time| {
        let name = snapshot_name(time, &machine);
        state
            .keep_snapshot(&name, |out| out.write_all(b"whole"))
            .unwrap()
    });
    state.clone().remove().unwrap();
    let [later, earlier] = saved;
    let both = [earlier, later];
    assert_eq!(state.snapshots().unwrap(), both);
    let mine = state.snapshots.join("notes.txt");
    fs_err::write(&mine, "the user's").unwrap();
    // One that the question did not name stays.
    state.remove_snapshots(&both[..1]).unwrap();
    assert_eq!(state.snapshots().unwrap(), both[1..]);
    state.remove_snapshots(&both[1..]).unwrap();
    assert_eq!(state.snapshots().unwrap().len(), 0);
    assert!(mine.exists());
    fs_err::remove_file(mine).unwrap();
    state.remove_snapshots(&[]).unwrap();
    assert!(!state.snapshots.exists());
}

#[test]
fn promise_06_state_that_cannot_be_read_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let name: ClusterName = "demo".parse().unwrap();
    let state = ClusterState::of(folder.path(), &name);
    fs_err::create_dir_all(state.folder()).unwrap();
    let names = [
        TAKEN,
        PROOFS,
        NETWORKS,
        ADDRESSES,
        ID,
        FILE,
        PATHS,
        FILE_FOLDER,
        REAL_FILE_FOLDER,
        KUBECONFIG,
        PRIVATE_KEY,
    ];
    let all = |state: &ClusterState| {
        [
            (TAKEN, state.taken().map(|_| ())),
            (PROOFS, state.proofs().map(|_| ())),
            (NETWORKS, state.networks().map(|_| ())),
            (ADDRESSES, state.addresses().map(|_| ())),
            (ID, state.id().map(|_| ())),
            (FILE, state.file().map(|_| ())),
            (PATHS, state.paths().map(|_| ())),
            (FILE_FOLDER, state.file_folder().map(|_| ())),
            (REAL_FILE_FOLDER, state.real_file_folder().map(|_| ())),
            (KUBECONFIG, state.kubeconfig().map(|_| ())),
            (PRIVATE_KEY, state.login_key().map(|_| ())),
        ]
    };
    let told = |error: StateError| {
        let cause = std::error::Error::source(&error);
        let cause = cause.map(ToString::to_string).unwrap_or_default();
        format!("{error}: {cause}")
    };
    for make in ["mkdir", "mkfifo", "ln -s nowhere"] {
        for name in names {
            let path = state.folder().join(name);
            let line = format!("{make} '{}'", path.display());
            let made = std::process::Command::new("sh")
                .args(["-c", &line])
                .status();
            assert!(made.unwrap().success());
        }
        assert!(state.check().is_err(), "{make}");
        for (name, result) in all(&state) {
            let error = told(result.unwrap_err());
            assert!(error.contains(name), "{make} {name}: {error}");
        }
        for name in names {
            let path = state.folder().join(name);
            let _ = fs_err::remove_file(&path).or_else(|_| fs_err::remove_dir(&path));
        }
    }
    for text in ["", "{\"a\":", "[]", "{\"lin1\":{}}"] {
        fs_err::write(state.folder().join(TAKEN), text).unwrap();
        let error = told(state.taken().unwrap_err());
        assert!(error.contains(TAKEN), "{text}: {error}");
    }
    for (name, newer) in [
        (TAKEN, r#"{"version":2,"machines":[]}"#),
        (PROOFS, r#"{"version":2,"passed":{}}"#),
        (NETWORKS, r#"{"version":2,"pods":{}}"#),
        (ADDRESSES, r#"{"version":2,"machines":[]}"#),
    ] {
        fs_err::write(state.folder().join(name), newer).unwrap();
        for (other, result) in all(&state) {
            let is_newer = matches!(result, Err(StateError::Newer { .. }));
            assert_eq!(is_newer, other == name, "{other} beside {name}");
        }
        assert!(state.check().is_err(), "{name}");
        fs_err::remove_file(state.folder().join(name)).unwrap();
    }
    fs_err::write(state.folder().join(ID), "not an id").unwrap();
    assert!(matches!(state.id(), Err(StateError::Damaged { .. })));
    // A folder that is no folder.
    fs_err::remove_dir_all(state.folder()).unwrap();
    fs_err::os::unix::fs::symlink("nowhere", state.folder()).unwrap();
    let found = ClusterState::find(folder.path(), &name).unwrap();
    for (_, result) in all(&found).into_iter().take(names.len() - 1) {
        assert!(told(result.unwrap_err()).contains("demo"));
    }
    assert!(found.keep_id(&ClusterUid::of(1)).is_err());
}

#[test]
fn promise_09_the_id_of_a_cluster_is_kept_with_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let name: ClusterName = "demo".parse().unwrap();
    let state = ClusterState::of(folder.path(), &name);
    assert_eq!(state.id().unwrap(), None);
    let id = ClusterUid::of(0xfeed);
    state.keep_id(&id).unwrap();
    assert_eq!(state.id().unwrap(), Some(id));
}
