//! Root, asked for by whoever is not root.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::process::Command;

use crate::{Bench, Ran, ran};

/// Any user but root, and one that owns nothing.
const USER: u32 = 65534;

/// The program as that user runs it, without a terminal; root is needed to become somebody else.
fn as_user(bench: &Bench, arguments: &[&str]) -> Ran {
    let program = bench.path().join("mullion");
    if !program.exists() {
        fs_err::copy(assert_cmd::cargo::cargo_bin("mullion"), &program).unwrap();
    }
    chown(bench.path(), Some(USER), Some(USER)).unwrap();
    let user = USER.to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .arg(&program)
        .args(arguments)
        .env_clear()
        .env("HOME", bench.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HTTPS_PROXY", "http://me:hunter2@proxy.example")
        .env("MULLION_PLACE", bench.path().join("place"))
        .current_dir(bench.path());
    ran(command.output().unwrap())
}

#[test]
#[ignore = "needs root, to become another user"]
fn whoever_cannot_be_asked_is_told_what_to_type() {
    let bench = Bench::new();
    bench.write("my lab.yaml", "machines: {linux: 1}\n");
    let ran = as_user(&bench, &["-f", "my lab.yaml", "up"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let program = bench.path().join("mullion");
    let line = format!(
        "`sudo --preserve-env --preserve-env=HOME {} -f 'my lab.yaml' up`",
        program.display()
    );
    assert!(ran.err.contains(&line), "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
#[ignore = "needs root, to act for another user"]
fn what_root_writes_for_a_user_is_theirs() {
    let bench = Bench::new();
    chown(bench.path(), Some(USER), Some(USER)).unwrap();
    let user = USER.to_string();
    let output = bench
        .command()
        .env("SUDO_UID", &user)
        .env("SUDO_GID", &user)
        .args(["artifacts", "list"])
        .output();
    let ran = ran(output.unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for folder in [".cache", ".cache/mullion", ".cache/mullion/parts"] {
        let found = fs_err::metadata(bench.path().join(folder)).unwrap();
        assert_eq!(found.uid(), USER, "{folder}");
    }
}

#[test]
#[ignore = "needs root, whose runs alone change machines of this computer"]
fn another_users_run_of_the_same_cluster_is_waited_for_by_nobody() {
    let bench = Bench::new();
    let locks = bench.path().join("place/locks");
    fs_err::create_dir_all(&locks).unwrap();
    // Their state folder is another one; the machines are the same.
    let theirs = std::fs::File::create(locks.join("mullion.lock")).unwrap();
    theirs.lock().unwrap();
    let ran = bench.run(&["down", "--yes"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("another run of cluster `mullion`"),
        "{}",
        ran.err
    );
    drop(theirs);
    let ran = bench.run(&["down", "--yes"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!locks.exists());
}
