//! Our own transport's uploads, against this SFTP.
//!
//! Around an upload the transport asks a POSIX shell, which a Windows machine does not have. So here the shell is the
//! computer's own, told where the drive is; the file itself goes through our server.

use std::os::unix::fs::PermissionsExt;

use mullion_plan::Unattended;
use mullion_ssh::{Put, Ssh, Transport as _, Upload};
use mullion_wire::Sha256Digest;

use crate::machine::{Machine, PROGRAM, Server};

/// Starts the subsystem as it is, and everything else with the drive's folder in place of its name.
const FORCED: &str = r#"#!/bin/sh
case $SSH_ORIGINAL_COMMAND in
    *" sftp --config "*) echo yes >> "$0.used"; exec $SSH_ORIGINAL_COMMAND ;;
esac
exec sh -c "$(printf '%s' "$SSH_ORIGINAL_COMMAND" | sed "s#/C:/#DRIVE/#g")"
"#;

#[test]
fn files_arrive_whole_and_with_their_mode() {
    let machine = Machine::new();
    let forced = machine.path().join("forced");
    let script = FORCED.replace("DRIVE", &machine.drive().display().to_string());
    fs_err::write(&forced, script).unwrap();
    fs_err::set_permissions(&forced, PermissionsExt::from_mode(0o755)).unwrap();
    let sftp = format!("{PROGRAM} sftp --config {}", machine.config.display());
    let server = Server::start(&forced.display().to_string(), &sftp);
    let session = Ssh::new().unwrap().connect(&server.login()).unwrap();
    for (size, mode) in [(0, 0o600), (7, 0o755), (5_000_000, 0o640)] {
        let content: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[1] ^ 0x5a).collect();
        let upload = Upload {
            path: "/C:/Program-Files/mullion/agent.exe".into(),
            size: content.len() as u64,
            sha256: Sha256Digest::of(&content),
            mode,
        };
        let put = || session.put(&upload, &mut &content[..], &Unattended);
        assert_eq!(put().unwrap(), Put::Sent);
        assert_eq!(put().unwrap(), Put::AlreadyThere);
        let file = machine.drive().join("Program-Files/mullion/agent.exe");
        assert!(fs_err::read(&file).unwrap() == content);
        let found = fs_err::metadata(&file).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
    let folder = machine.drive().join("Program-Files/mullion");
    assert_eq!(
        fs_err::read_dir(folder).unwrap().count(),
        1,
        "no part is left"
    );
    let used = fs_err::read_to_string(machine.path().join("forced.used")).unwrap();
    assert_eq!(used.lines().count(), 3, "each file went through SFTP");
}
