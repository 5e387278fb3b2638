//! SFTP through a real server, by OpenSSH's own client. The subsystem is started through the shell, as sshd does it.

use std::os::unix::fs::PermissionsExt as _;

use crate::machine::{Machine, PROGRAM, Server, target};

fn started(machine: &Machine) -> Server {
    let config = machine.config.display();
    Server::start(
        &format!("{PROGRAM} shell --config {config}"),
        &format!("{PROGRAM} sftp --config {config}"),
    )
}

/// Runs a batch of OpenSSH's `sftp`.
fn batch(machine: &Machine, server: &Server, lines: &[&str]) -> (bool, String) {
    let file = machine.path().join("batch");
    fs_err::write(&file, lines.join("\n") + "\n").unwrap();
    let output = server
        .client("sftp", "-P")
        .arg("-b")
        .arg(&file)
        .arg(target())
        .current_dir(machine.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn the_usual_client_sees_a_windows_machine() {
    let machine = Machine::new();
    let server = started(&machine);
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    fs_err::write(machine.path().join("up"), &content).unwrap();
    let (is_done, said) = batch(
        &machine,
        &server,
        &[
            "pwd",
            "mkdir /C:/k",
            "put up /C:/k/a.bin",
            "chmod 640 /c:/K/A.BIN",
            "rename /C:/k/a.bin /C:/k/b.bin",
            "ls -1 /C:/k",
            "get /C:/k/B.bin down",
            "put up",
            "rm up",
        ],
    );
    assert!(is_done, "{said}");
    assert!(said.contains("/C:/Users/Administrator"), "{said}");
    assert!(said.contains("/C:/k/b.bin"), "{said}");
    assert!(fs_err::read(machine.path().join("down")).unwrap() == content);
    let file = machine.drive().join("k/b.bin");
    assert!(fs_err::read(&file).unwrap() == content);
    let mode = fs_err::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(!machine.drive().join("users/Administrator/up").exists());
    assert!(
        !machine.path().join("kept").exists(),
        "the subsystem is no Windows program"
    );
}

#[test]
fn a_login_shell_starts_the_subsystem_itself() {
    // As sshd does where this program is a user's shell: length, INIT, version 3.
    let machine = Machine::new();
    let line = format!("{PROGRAM} sftp --config {}", machine.config.display());
    let output = machine.run(&["-c", &line], &[0, 0, 0, 5, 1, 0, 0, 0, 3]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert_eq!(
        output.stdout.get(4..9),
        Some(&[2, 0, 0, 0, 3][..]),
        "{told}"
    );
    let known = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(known.contains("posix-rename@openssh.com"), "{known}");
    assert!(!machine.path().join("kept").exists());
}

#[test]
fn the_usual_client_gets_nothing_but_the_drive() {
    let machine = Machine::new();
    let server = started(&machine);
    for line in [
        "get /etc/passwd down",
        "get ../../../../../../etc/passwd down",
        "ls /D:/",
        "cd //server/share",
    ] {
        let (is_done, said) = batch(&machine, &server, &[line]);
        assert!(!is_done, "{line}: {said}");
    }
    assert!(!machine.path().join("down").exists());
}
