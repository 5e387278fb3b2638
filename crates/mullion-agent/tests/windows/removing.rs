//! What is not removed or replaced as simply as elsewhere: what may not be written, what leads elsewhere, what runs;
//! and what runs for pods.

use std::io::Read as _;
use std::os::windows::fs::symlink_dir;
use std::process::{Command, Stdio};

use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{Files as _, Kind, Owner, Removed, System as _};

use crate::scratch::Scratch;

#[test]
fn a_file_that_may_not_be_written_is_kept_replaced_put_back_and_removed() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let [theirs, kept, new] = ["theirs", "kept", "new"].map(|name| scratch.at(name));
    let is_read_only = |path: &str| fs_err::metadata(path).unwrap().permissions().readonly();
    own.write(&theirs, b"theirs", 0o644).unwrap();
    let mut permissions = fs_err::metadata(&theirs).unwrap().permissions();
    permissions.set_readonly(true);
    fs_err::set_permissions(&theirs, permissions).unwrap();

    own.twin(&theirs, &kept).unwrap();
    own.write(&new, b"ours", 0o644).unwrap();
    own.rename(&new, &theirs).unwrap();
    assert_eq!(own.read(&theirs).unwrap().unwrap(), b"ours");
    assert!(!is_read_only(&theirs));

    own.twin(&kept, &new).unwrap();
    own.rename(&new, &theirs).unwrap();
    assert_eq!(own.read(&theirs).unwrap().unwrap(), b"theirs");
    assert!(is_read_only(&theirs));
    own.write(&new, b"again", 0o644).unwrap();
    own.rename(&new, &theirs).unwrap();
    assert_eq!(own.read(&theirs).unwrap().unwrap(), b"again");

    assert_eq!(own.remove(&kept).unwrap(), Removed::Gone);
    assert_eq!(own.remove(&theirs).unwrap(), Removed::Gone);
    assert_eq!(own.list(&scratch.at("")).unwrap(), Vec::<String>::new());
}

/// Only a real Windows shows it: what stands in for it makes no links.
#[test]
fn a_link_to_a_folder_is_of_its_maker_has_a_twin_and_goes_alone() {
    let (own, scratch) = (Own::new(), Scratch::new());
    let [folder, link, twin] = ["folder", "link", "twin"].map(|name| scratch.at(name));
    let file = format!("{folder}/file");
    own.make_folder(&folder, 0o755).unwrap();
    own.write(&file, b"kept", 0o644).unwrap();
    let made = symlink_dir(folder.replace('/', "\\"), &link);
    if made.is_err() || own.look(&link).unwrap().is_none() {
        return;
    }
    let look = own.look(&link).unwrap().unwrap();
    assert_eq!((look.kind, look.owner), (Kind::Link, Owner::Agent));
    own.twin(&link, &twin).unwrap();
    for link in [link, twin] {
        let seen = own.read(&format!("{link}/file")).unwrap();
        assert_eq!(seen.unwrap(), b"kept");
        assert_eq!(own.remove(&link).unwrap(), Removed::Gone);
        assert_eq!(own.look(&link).unwrap(), None);
    }
    assert_eq!(own.read(&file).unwrap().unwrap(), b"kept");
}

/// Whether this is what stands in for Windows: it shows the files of its computer there.
fn is_stand_in() -> bool {
    [r"\\?\unix\proc", r"Z:\proc"]
        .iter()
        .any(|path| fs_err::metadata(path).is_ok())
}

/// Only a real Windows shows it: with what stands in for it, a program that runs and could not be removed cannot be
/// renamed any more.
#[test]
#[ignore = "lets the Windows that it runs on remove a file at its next start; cargo xtask test runs it"]
fn a_program_that_runs_makes_room_and_is_removed_once_it_ended() {
    if is_stand_in() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let program = scratch.at("program.exe");
    fs_err::copy(env!("CARGO_BIN_EXE_mullion-agent"), &program).unwrap();
    // It waits for a request.
    let mut child = Command::new(&program)
        .arg("serve")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let removed = own.remove(&program).unwrap();
    let found = own.look(&program).unwrap();
    let is_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((removed, found, is_running), (Removed::Gone, None, true));
    // What made room goes with the next change of the path.
    assert_eq!(own.remove(&program).unwrap(), Removed::Nothing);
    assert_eq!(own.list(&scratch.at("")).unwrap(), Vec::<String>::new());
}

/// Tells this program that it is a shim.
const SHIM: &str = "MULLION_TEST_SHIM";

#[test]
#[ignore = "ends pods of the Windows that it runs on; cargo xtask test runs it"]
fn shims_of_pods_are_ended_and_those_of_others_run_on() {
    if std::env::var_os(SHIM).is_some() {
        // Until it is ended, or nobody asks any more.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let program = scratch.at("containerd-shim-runhcs-v1.exe");
    fs_err::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let start = |namespace| {
        let name = "removing::shims_of_pods_are_ended_and_those_of_others_run_on";
        let mut shim = Command::new(&program);
        // After `--` a test program takes every word.
        shim.args(["--include-ignored", "--exact", name, "--"])
            .args(["--namespace", namespace])
            .env(SHIM, "1");
        let shim = shim.stdin(Stdio::piped()).stdout(Stdio::null());
        shim.spawn().unwrap()
    };
    let (mut of_pod, mut of_others) = (start("k8s.io"), start("default"));
    let mut lines = Vec::new();
    // Not what HNS says to it, which may not be there.
    let _ = own.clear_pods(None, &mut |line| lines.push(line.to_owned()));
    let ended = [&mut of_pod, &mut of_others].map(|shim| shim.try_wait().unwrap().is_some());
    for shim in [&mut of_pod, &mut of_others] {
        let _ = shim.kill();
        shim.wait().unwrap();
    }
    // What stands in for Windows does not tell what a process was started with, and then nobody is ended.
    if lines
        .iter()
        .any(|line| line.contains("NtQueryInformationProcess"))
    {
        assert_eq!(ended, [false, false], "{lines:?}");
        return;
    }
    assert_eq!(ended, [true, false], "{lines:?}");
    let words = format!("containerd-shim-runhcs-v1.exe (process {})", of_pod.id());
    assert!(lines.iter().any(|line| line.contains(&words)), "{lines:?}");
}
