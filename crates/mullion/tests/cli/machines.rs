//! `node`, `ssh` and `console`, as far as no machine is needed.

use std::os::unix::fs::PermissionsExt as _;

use crate::{Bench, ran};

const EXISTING: &str = "\
# mine
machines:
  - name: cp
    role: control-plane
    addresses: [192.0.2.1]   # the old one
  - name: lin
    addresses:
      - 192.0.2.11
      - 192.0.2.12   # rack 2
";

#[test]
fn a_file_is_not_changed_where_that_cannot_be_applied() {
    let bench = Bench::new();
    bench.write("cluster.yaml", EXISTING);
    for (arguments, code, word) in [
        (&["node", "add", "lin"][..], 2, "addresses"),
        (&["node", "add", "db"], 2, "cp, lin"),
        (&["node", "add", "lin", "--count", "0"], 2, "--count"),
        (&["node", "remove", "lin3"], 2, "did you mean"),
        (&["node", "remove", "cp1"], 2, "only address"),
        (&["node", "remove", "lin1"], 2, "--yes"),
        (&["node", "reset", "lin9"], 2, "did you mean"),
        (&["node", "reset", "lin1"], 2, "--yes"),
        (&["node", "reboot", "lin1"], 2, "--yes"),
        (&["node", "reboot", "db1"], 2, "cp1, lin1, lin2"),
        (&["ssh", "db1"], 2, "cp1, lin1, lin2"),
        (&["console", "lin1"], 5, "mullion ssh lin1"),
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}\n{}{}", ran.out, ran.err);
        assert!(ran.err.contains(word), "{arguments:?}\n{}", ran.err);
        assert_eq!(bench.read("cluster.yaml"), EXISTING, "{arguments:?}");
    }
}

#[test]
fn the_difference_is_shown_before_anything_is_asked() {
    let bench = Bench::new();
    bench.write("cluster.yaml", EXISTING);
    let ran = bench.run(&["node", "remove", "lin1"]);
    for line in [
        "--- cluster.yaml",
        "+    skip: [1]",
        "-      - 192.0.2.11",
        "       - 192.0.2.12   # rack 2",
    ] {
        assert!(
            ran.err.lines().any(|shown| shown == line),
            "{line}\n{}",
            ran.err
        );
    }
}

#[test]
fn a_machine_that_was_never_made_has_no_console() {
    let bench = Bench::new();
    bench.write("cluster.yaml", "machines: {linux: 1}\n");
    let ran = bench.run(&["console", "lin1"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    for words in ["lin1 was not made yet", "mullion up"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    let made = bench.path().join("place/clusters/mullion/machines/lin1");
    fs_err::create_dir_all(&made).unwrap();
    let ran = bench.run(&["console", "lin1"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    fs_err::write(made.join("console.log"), "Started\n").unwrap();
    let label = include_str!("../adopted/machines/lin1/machine.json");
    fs_err::write(made.join("machine.json"), label).unwrap();
    let ran = bench.run(&["console", "lin1"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "Started\n"),
        "{}",
        ran.err
    );
}

#[test]
fn what_has_no_file_of_its_own_cannot_be_changed() {
    let bench = Bench::new();
    let ran = bench.run(&["node", "add", "lin"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("mullion init"), "{}", ran.err);
    let output = bench
        .command()
        .args(["node", "add", "lin", "-f", "-"])
        .write_stdin("machines: {linux: 1}\n")
        .output();
    let ran = crate::ran(output.unwrap());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("standard input"), "{}", ran.err);
    let ran = bench.run(&["node", "add", "lin", "--cluster", "demo"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--cluster"), "{}", ran.err);
}

#[test]
fn a_change_that_would_break_the_file_is_shown_and_not_made() {
    let bench = Bench::new();
    let text = "machines: [{name: cp, role: control-plane}]\n";
    bench.write("cluster.yaml", text);
    let ran = bench.run(&["node", "remove", "cp1", "--yes"]);
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("was not changed"), "{}", ran.err);
    assert_eq!(bench.read("cluster.yaml"), text);
}

/// A copy of the program with an agent beside it, and a program `ssh` that tells what it was given.
#[test]
fn ssh_gets_the_login_of_the_file_and_its_exit_code_is_handed_on() {
    let bench = Bench::new();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    bench.write("id", "a key");
    bench.write(
        "cluster.yaml",
        format!(
            "machines:\n- name: cp\n  role: control-plane\n  addresses: [192.0.2.1]\n  ssh: {{user: me, port: 2222, key: \
             {{file: id}}, hostKey: \"{key}\"}}\n"
        ),
    );
    let bin = bench.path().join("bin");
    fs_err::create_dir(&bin).unwrap();
    fs_err::copy(assert_cmd::cargo::cargo_bin("mullion"), bin.join("mullion")).unwrap();
    fs_err::write(bin.join("mullion-agent"), "an agent").unwrap();
    fs_err::write(
        bin.join("ssh"),
        "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done\nexit 42\n",
    )
    .unwrap();
    let program = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(bin.join("ssh"), program).unwrap();
    let run = |path: &std::path::Path, arguments: &[&str]| {
        let mut command = std::process::Command::new(bin.join("mullion"));
        command
            .env_clear()
            .env("HOME", bench.path())
            .env("PATH", path);
        command.env("MULLION_PLACE", bench.path().join("place"));
        ran(command
            .args(arguments)
            .current_dir(bench.path())
            .output()
            .unwrap())
    };
    let told = run(&bin, &["ssh", "cp1", "--", "echo", "a b"]);
    assert_eq!(told.code, 42, "{}{}", told.out, told.err);
    let words: Vec<_> = told.out.lines().collect();
    assert!(
        words.ends_with(&["-l", "me", "-p", "2222", "192.0.2.1", "echo", "'a b'"]),
        "{words:?}"
    );
    let known = bench
        .path()
        .join(".local/state/mullion/clusters/mullion/known_hosts.cp1");
    assert_eq!(
        fs_err::read_to_string(&known).unwrap(),
        format!("[192.0.2.1]:2222 {key}\n")
    );
    let mode = fs_err::metadata(&known).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let missing = run(&bench.path().join("nothing"), &["ssh", "cp1"]);
    assert_eq!(missing.code, 4, "{}", missing.err);
    assert!(missing.err.contains("openssh-client"), "{}", missing.err);
}
