//! Every target, with its fixed number of inputs: the same ones in every run.

use std::process::Command;

#[test]
fn no_reader_of_what_others_wrote_can_be_made_to_panic_hang_or_grow() {
    let crashes = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion-fuzz"));
    let output = command.arg("run").arg("--crashes").arg(&crashes).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{why}");
}

#[test]
fn a_target_that_is_not_there_is_told_with_those_that_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion-fuzz"));
    let output = command.args(["run", "nonsense"]).output().unwrap();
    assert!(!output.status.success());
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        why.contains("there is no target `nonsense`; there are: cluster-file,"),
        "{why}"
    );
}
