//! Users who are not root. Adds users to this computer, and removes them again.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use mullion_ssh::{Class, Probe, ReadTransport as _, Ssh, Sudo, Transport as _, TransportError};
use mullion_testkit::transport::conform::conforms;

use crate::server::{Server, is_root};

/// A user of this computer, while the test runs.
struct User {
    name: String,
    rule: PathBuf,
}

impl User {
    fn add(name: &str, rule: &str) -> Self {
        assert!(is_root(), "only root can add users");
        let name = format!("mullion-{name}-{}", std::process::id());
        let status = Command::new("useradd")
            .args([
                "--create-home",
                "--shell",
                "/bin/sh",
                "--password",
                "*",
                &name,
            ])
            .status();
        assert!(status.unwrap().success());
        let user = Self {
            rule: PathBuf::from("/etc/sudoers.d").join(&name),
            name,
        };
        if !rule.is_empty() {
            fs_err::write(&user.rule, format!("{} {rule}\n", user.name)).unwrap();
            fs_err::set_permissions(&user.rule, PermissionsExt::from_mode(0o440)).unwrap();
        }
        user
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.rule);
        let _ = Command::new("userdel")
            .args(["--remove", "--force", &self.name])
            .stderr(std::process::Stdio::null())
            .status();
    }
}

#[test]
#[ignore = "needs root: adds a user who may use sudo; cargo xtask test --slow runs it"]
fn a_user_with_sudo_conforms_and_everything_is_roots() {
    let user = User::add("free", "ALL=(ALL) NOPASSWD: ALL");
    let server = Server::start();
    let mut login = server.login().sudo(Sudo::WhenNotRoot);
    login.user.clone_from(&user.name);
    let ssh = Ssh::new().unwrap();
    let session = ssh.connect(&login).unwrap();
    let id = |session: &mullion_ssh::Session| {
        let output = session.output(&mullion_ssh::Command::new("id").arg("-u"));
        output.unwrap().out.trim().to_owned()
    };
    assert_eq!(id(&session), "0");
    let scratch = server.scratch();
    conforms(&session, &scratch).unwrap();
    fs_err::create_dir_all(&scratch).unwrap();
    let path = format!("{scratch}/file");
    session.put_bytes(&path, b"secret", 0o600).unwrap();
    assert_eq!(fs_err::metadata(&path).unwrap().uid(), 0);
    assert_eq!(session.read_file(&path, 100).unwrap(), b"secret");

    let session = ssh.connect(&login.clone().sudo(Sudo::Never)).unwrap();
    assert_ne!(id(&session), "0");
    assert!(matches!(
        session.read_file(&path, 100).unwrap_err(),
        TransportError::Read { .. }
    ));
}

#[test]
#[ignore = "needs root: adds users who may not use sudo; cargo xtask test --slow runs it"]
fn a_user_whom_sudo_asks_is_told_what_to_allow() {
    let asked = User::add("asked", "ALL=(ALL) ALL");
    let refused = User::add("refused", "");
    let server = Server::start();
    let ssh = Ssh::new().unwrap();
    for user in [&asked, &refused] {
        let mut login = server.login().sudo(Sudo::WhenNotRoot);
        login.user.clone_from(&user.name);
        let session = ssh.connect(&login).unwrap();
        let error = session.answer(&Probe::Alive).unwrap_err();
        assert!(
            matches!(error, TransportError::SudoPassword { .. }),
            "{error:?}"
        );
        assert_eq!(error.class(), Class::Refused);
        let words = format!("allow {} to run without one", user.name);
        assert!(error.to_string().contains(&words), "{error}");
    }
}
