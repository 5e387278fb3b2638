//! Help, colours, exit codes, closed pipes.

use std::ffi::OsString;

use mullion::Streams;
use mullion::environment::Environment;

use crate::Bench;

#[test]
fn only_commands_that_work_are_listed() {
    let bench = Bench::new();
    let ran = bench.run(&["--help"]);
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!(ran.out);
    for command in [
        "init",
        "validate",
        "plan",
        "doctor",
        "catalog",
        "explain",
        "completions",
        "version",
    ] {
        let ran = bench.run(&[command, "--help"]);
        assert_eq!(ran.code, 0, "{command}");
        assert!(ran.out.contains("Usage:"), "{command}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_slip() {
    let bench = Bench::new();
    for (arguments, word) in [
        (&["validat"][..], "validate"),
        (&["plan", "--grpah", "x"], "--graph"),
        (&["explain", "windows-name-lng"], "windows-name-long"),
        (&["catalog", "kuberntes"], "kubernetes"),
        (&["catalog", "why", "windows"], "WHAT=WHICH"),
        (&["catalog", "why", "windoze=1"], "windows"),
        (&["init", "--profile", "locl"], "local"),
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}\n{}{}", ran.out, ran.err);
        assert!(ran.err.contains(word), "{arguments:?}\n{}", ran.err);
        assert!(ran.out.is_empty(), "{arguments:?}");
    }
}

#[test]
fn every_rule_can_be_explained_with_its_example() {
    let bench = Bench::new();
    for rule in mullion_spec::rules::all() {
        let ran = bench.run(&["explain", rule.code]);
        assert_eq!(ran.code, 0, "{}", rule.code);
        assert!(
            ran.out.contains(rule.name) && ran.out.contains(rule.remedy),
            "{}",
            rule.code
        );
        if rule.example.is_some() {
            assert!(
                ran.out.contains(&format!("[{}]", rule.code)),
                "{}\n{}",
                rule.code,
                ran.out
            );
        }
    }
    let list = bench.run(&["explain"]);
    assert_eq!(list.out.lines().count(), mullion_spec::rules::all().count());
}

#[test]
fn the_fields_of_the_file_can_be_explained() {
    let bench = Bench::new();
    let ran = bench.run(&["explain", "file"]);
    assert_eq!(ran.code, 0);
    bench.write("cluster.yaml", &ran.out);
    assert_eq!(
        bench.run(&["validate"]).code,
        0,
        "what is shown is a sound file"
    );
    let schema = bench.run(&["explain", "file", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&schema.out).is_ok());
}

#[test]
fn completions_are_written_for_every_shell() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = bench.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.out.contains("validate"), "{shell}");
    }
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    let bench = Bench::new();
    let program = assert_cmd::cargo::cargo_bin("mullion");
    let mut child = std::process::Command::new(program)
        .arg("catalog")
        .current_dir(bench.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs the program as on a terminal, in memory.
fn on_a_terminal(variables: &[(&str, &str)], arguments: &[&str]) -> (u8, String) {
    let bench = Bench::new();
    bench.write("cluster.yaml", "machines: {linux: x}\n");
    let environment = Environment::new(bench.path().into(), |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut std::io::empty(),
        out: &mut out,
        err: &mut err,
        is_attended: true,
        out_is_terminal: true,
        err_is_terminal: true,
    };
    let arguments = ["mullion"].iter().chain(arguments).map(OsString::from);
    let code = mullion::run(arguments, &environment, &mut streams);
    let text = [out, err].concat();
    (code, String::from_utf8(text).unwrap())
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let escape = '\u{1b}';
    for arguments in [&["validate"][..], &["explain"], &["catalog"], &["--help"]] {
        let (_, text) = on_a_terminal(&[], arguments);
        assert!(text.contains(escape), "{arguments:?}");
        for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
            let (_, text) = on_a_terminal(&variables, arguments);
            assert!(!text.contains(escape), "{arguments:?} {variables:?}");
        }
        assert!(
            !Bench::new().run(arguments).out.contains(escape),
            "no terminal"
        );
    }
    let (code, _) = on_a_terminal(&[], &["validate"]);
    assert_eq!(code, 3);
}

#[test]
fn ci_is_never_asked() {
    let (code, text) = on_a_terminal(&[("CI", "true")], &["init", "--file", "new.yaml"]);
    assert_eq!(code, 0, "{text}");
}
