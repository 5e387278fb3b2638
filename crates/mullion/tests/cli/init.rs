//! `init` writes files that `validate` and `plan` take.

use crate::Bench;

#[test]
fn every_profile_validates_and_plans_in_an_empty_folder() {
    for profile in ["local", "existing-machines"] {
        let bench = Bench::new();
        let ran = bench.run(&["init", "--profile", profile, "--name", "demo"]);
        assert_eq!(ran.code, 0, "{profile}\n{}", ran.err);
        assert!(bench.read("cluster.yaml").contains("name: demo"));
        let ran = bench.run(&["validate"]);
        assert_eq!(ran.code, 0, "{profile}\n{}", ran.err);
        let ran = bench.run(&["plan"]);
        assert_eq!(ran.code, 0, "{profile}\n{}", ran.err);
        assert!(ran.out.contains("3 machines"), "{}", ran.out);
    }
}

#[test]
fn a_profile_whose_driver_comes_later_is_refused_with_a_remedy() {
    let bench = Bench::new();
    let ran = bench.run(&["init", "--profile", "windows-vm"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    for words in [
        "this release cannot make the profile `windows-vm`",
        "[E0901] this release does not have driver",
        "take one of `nspawn`, `wine`, `ssh`",
        "install it yourself and give its address with `addresses`",
    ] {
        assert!(ran.err.contains(words), "{words}\n{}", ran.err);
    }
    assert!(
        fs_err::read_dir(bench.path()).unwrap().next().is_none(),
        "nothing is written"
    );
}

#[test]
fn nobody_is_asked_where_nobody_could_answer() {
    let bench = Bench::new();
    let ran = bench.run(&["init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        bench
            .read("cluster.yaml")
            .contains("machines: {linux: 1, windows: 1}")
    );
}

#[test]
fn a_file_that_is_there_stays_unless_told_otherwise() {
    let bench = Bench::new();
    bench.write("cluster.yaml", "mine\n");
    let ran = bench.run(&["init", "--profile", "local"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("`cluster.yaml` is there already"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(bench.read("cluster.yaml"), "mine\n");
    let ran = bench.run(&["init", "--profile", "local", "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_ne!(bench.read("cluster.yaml"), "mine\n");
    let names: Vec<_> = fs_err::read_dir(bench.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["cluster.yaml"], "nothing is left beside it");
}

#[test]
fn kubeinit_s_words_become_a_file() {
    let bench = Bench::new();
    let ran = bench.run(&[
        "init",
        "--spec",
        "k8s-nspawn-1-2-1",
        "--compute-os",
        "windows",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("1 control plane, 2 Windows workers"),
        "{}",
        ran.out
    );

    let bench = Bench::new();
    let ran = bench.run(&[
        "init",
        "--spec",
        "k8s-libvirt-1-2-1",
        "--compute-os",
        "windows",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("[E0901]"), "says so at once: {}", ran.err);
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 3, "its driver is not in this release");
    assert!(ran.err.contains("[E0901]"), "{}", ran.err);

    let ran = bench.run(&["init", "--force", "--spec", "okd-libvirt-1"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn a_folder_that_cannot_be_written_is_said_so() {
    let bench = Bench::new();
    let ran = bench.run(&[
        "init",
        "--profile",
        "local",
        "--file",
        "no/such/folder/c.yaml",
    ]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("no/such/folder/c.yaml"), "{}", ran.err);
}

#[test]
fn promise_01_the_file_can_be_written_by_its_owner_alone_whatever_the_mask() {
    use std::os::unix::fs::PermissionsExt as _;
    let program = assert_cmd::cargo::cargo_bin("mullion");
    for (mask, mode) in [("0", 0o644), ("002", 0o644), ("027", 0o640), ("077", 0o600)] {
        let bench = Bench::new();
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &format!("umask {mask}; exec \"$0\" init")])
            .arg(&program)
            .env("HOME", bench.path())
            .current_dir(bench.path());
        assert!(command.output().unwrap().status.success(), "{mask}");
        let found = fs_err::metadata(bench.path().join("cluster.yaml")).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{mask}");
    }
}
