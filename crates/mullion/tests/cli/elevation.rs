//! Root, asked for by whoever is not root.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;

use crate::{Bench, Ran, ran};

/// Any user but root, and one that owns nothing.
const USER: u32 = 65534;

/// A `sudo` that writes down what it was asked for, and with which variables.
const SUDO: &str =
    "#!/bin/sh\nprintf '%s\\n' \"$@\" >> \"$HOME/asked\"\nenv > \"$HOME/variables\"\nexit 3\n";

/// The program as that user runs it, without a terminal.
fn as_user(bench: &Bench, arguments: &[&str]) -> Ran {
    ran(user_command(bench, arguments).output().unwrap())
}

/// The program as that user runs it; root is needed to become somebody else.
fn user_command(bench: &Bench, arguments: &[&str]) -> Command {
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
    command
}

#[test]
#[ignore = "needs root, to become another user"]
fn whoever_sits_at_a_terminal_is_asked_by_sudo_once() {
    let bench = Bench::new();
    bench.write("my lab.yaml", "machines: {linux: 1}\n");
    let tools = bench.path().join("tools");
    fs_err::create_dir(&tools).unwrap();
    fs_err::write(tools.join("sudo"), SUDO).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(tools.join("sudo"), executable).unwrap();
    let inner = user_command(&bench, &["-f", "my lab.yaml", "up"]);
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let quoted: Vec<_> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let path = std::env::var("PATH").unwrap_or_default();
    // It gives what it runs a terminal, and takes over its exit code.
    let mut script = Command::new("script");
    script
        .args(["-q", "-e", "-c", &quoted.join(" "), "/dev/null"])
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .current_dir(bench.path());
    let ran = ran(script.output().unwrap());
    assert_eq!(ran.code, 3, "sudo's own: {}{}", ran.out, ran.err);
    assert!(ran.out.contains("root is needed to"), "{}", ran.out);
    assert!(ran.out.contains("asking sudo once"), "{}", ran.out);
    let read = |name: &str| fs_err::read_to_string(bench.path().join(name)).unwrap();
    let program = bench.path().join("mullion");
    assert_eq!(
        read("asked"),
        format!(
            "--preserve-env\n--preserve-env=HOME\n--\n{}\n-f\nmy lab.yaml\nup\n",
            program.display()
        )
    );
    // `sudo` itself says who asked; a variable of ours could be anybody's.
    let variables = read("variables");
    assert!(!variables.contains("MULLION_OWNER"), "{variables}");
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
    // A part is typed again as that part, and one that is no part of the cluster needs nobody.
    for (name, code) in [("lin", 4), ("lin1", 4), ("lin7", 2)] {
        let ran = as_user(&bench, &["-f", "my lab.yaml", "up", "--only", name]);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        let again = format!("-f 'my lab.yaml' up --only {name}`");
        assert_eq!(ran.err.contains(&again), code == 4, "{}", ran.err);
    }
}

#[test]
#[ignore = "needs root, to become another user"]
fn machines_that_the_file_had_before_need_root_too() {
    let bench = Bench::new();
    let file = "metadata: {name: lab}\nmachines:\n\
                - {name: cp, role: control-plane, addresses: [192.0.2.1]}\n";
    bench.write("cluster.yaml", file);
    fs_err::create_dir_all(bench.path().join("place/clusters/lab")).unwrap();
    for command in ["up", "down"] {
        let ran = as_user(&bench, &[command]);
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        let reason = "remove machines on this computer";
        assert!(ran.err.contains(reason), "{}", ran.err);
    }
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
        .args(["artifacts", "fetch"])
        .output();
    let ran = ran(output.unwrap());
    assert_eq!(
        ran.code, 4,
        "nothing can be reached: {}{}",
        ran.out, ran.err
    );
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
