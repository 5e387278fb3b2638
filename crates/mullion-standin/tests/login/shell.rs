//! The shell.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Machine, PROGRAM, Server, target};

const LINE: &str = r#""C:\Program Files\a b\x.exe" "one ""two""" & echo 'x' > C:\k\"#;

fn config(machine: &Machine) -> String {
    machine.config.display().to_string()
}

#[test]
fn a_line_reaches_cmd_with_its_quotes() {
    let machine = Machine::new();
    let output = machine.run(&["shell", "-c", LINE, "--config", &config(&machine)], b"");
    assert_eq!(output.status.code(), Some(44));
    assert_eq!(output.stdout, b"said\r\n");
    assert_eq!(output.stderr, b"warned\r\n");
    assert_eq!(
        machine.kept("argument"),
        ["cmd.exe", "/s", "/c", "%MULLION_LINE_0%"]
    );
    assert_eq!(machine.kept("line"), [LINE]);
    assert_eq!(machine.kept("debug"), ["-all"]);
    assert_eq!(machine.kept("extra"), ["set"]);
    let prefix = machine.path().join("prefix").display().to_string();
    assert_eq!(machine.kept("prefix"), [prefix]);
    let folder = fs_err::canonicalize(machine.drive().join("users/Administrator")).unwrap();
    assert_eq!(machine.kept("folder"), [folder.display().to_string()]);
}

#[test]
fn variables_are_left_to_cmd() {
    let machine = Machine::new();
    let line = r#"set "PATH=%PATH%;C:\k""#;
    machine.run(&["shell", "-c", line, "--config", &config(&machine)], b"");
    assert_eq!(
        machine.kept("argument")[3],
        "%MULLION_LINE_0%%PATH%%MULLION_LINE_1%"
    );
    assert_eq!(machine.kept("line"), [r#"set "PATH="#]);
    assert_eq!(machine.kept("rest"), [r#";C:\k""#]);
}

#[test]
fn what_is_sent_is_read() {
    let machine = Machine::new();
    let input = b"bytes \0\xff\r\n".repeat(10_000);
    let arguments = ["shell", "-c", "read it", "--config", &config(&machine)];
    let output = machine.run(&arguments, &input);
    assert!(output.stdout.strip_prefix(b"said\r\n") == Some(&input[..]));
}

#[test]
fn services_that_stay_keep_nobody() {
    let machine = Machine::new();
    let begun = std::time::Instant::now();
    let arguments = [
        "shell",
        "-c",
        "start services",
        "--config",
        &config(&machine),
    ];
    let output = machine.run(&arguments, b"");
    assert_eq!(output.status.code(), Some(44));
    assert_eq!(output.stderr, b"warned\r\n");
    assert!(begun.elapsed() < std::time::Duration::from_secs(15));
}

#[test]
fn everything_that_a_program_complains_about_is_told() {
    let machine = Machine::new();
    let arguments = ["shell", "-c", "complain", "--config", &config(&machine)];
    let output = machine.run(&arguments, b"");
    assert_eq!(output.status.code(), Some(44));
    assert_eq!(output.stderr.len(), b"warned\r\n".len() + 1_000_000);
}

#[test]
fn a_program_that_was_killed_has_failed() {
    let machine = Machine::new();
    let output = machine.run(&["shell", "-c", "die", "--config", &config(&machine)], b"");
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn without_a_line_cmd_is_interactive() {
    let machine = Machine::new();
    machine.run(&["shell", "--config", &config(&machine)], b"");
    assert_eq!(machine.kept("argument"), ["cmd.exe"]);
}

#[test]
fn the_program_is_a_login_shell_by_itself() {
    // The settings are where they always are: on a computer without them there is no Wine to become, and that is told.
    let machine = Machine::new();
    for mut command in [
        {
            let mut command = Command::new(PROGRAM);
            command.args(["-c", "ver"]);
            command
        },
        {
            let mut command = Command::new(PROGRAM);
            command.arg0("-mullion-standin");
            command
        },
    ] {
        let output = machine.run_as(&mut command, b"");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.contains("Usage"), "{told}");
    }
    let usage = machine.run(&["ver"], b"");
    assert!(String::from_utf8(usage.stderr).unwrap().contains("Usage"));
}

#[test]
fn a_program_that_is_missing_is_told() {
    let machine = Machine::new();
    fs_err::remove_file(machine.path().join("wine")).unwrap();
    let output = machine.run(&["shell", "-c", "ver", "--config", &config(&machine)], b"");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("No such file"), "{told}");
}

#[test]
fn lines_and_exit_codes_pass_through_a_server() {
    let machine = Machine::new();
    let forced = format!("{PROGRAM} shell --config {}", config(&machine));
    let server = Server::start(&forced, "internal-sftp");
    let output = server
        .client("ssh", "-p")
        .args([&target(), LINE])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(44), "{told}");
    assert_eq!(output.stdout, b"said\r\n");
    assert_eq!(output.stderr, b"warned\r\n");
    assert_eq!(machine.kept("line"), [LINE]);
}

#[test]
fn a_line_ends_with_all_its_programs_when_whoever_asked_has_gone() {
    let machine = Machine::new();
    let forced = format!("{PROGRAM} shell --config {}", config(&machine));
    let server = Server::start(&forced, "internal-sftp");
    let mut client = server
        .client("ssh", "-p")
        .args([&target(), "stay"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let begun = || machine.path().join("kept").exists() && machine.kept("stays").len() == 2;
    wait("it has not begun", &begun);
    let programs = machine.kept("stays");
    let runs = |program: &String| {
        // What has ended and was not waited for yet runs no more.
        let state = fs_err::read_to_string(format!("/proc/{program}/stat"));
        state.is_ok_and(|state| !state.contains(") Z"))
    };
    assert!(programs.iter().all(runs), "{programs:?}");
    client.kill().unwrap();
    client.wait().unwrap();
    wait("it runs on", &|| !programs.iter().any(runs));
}
