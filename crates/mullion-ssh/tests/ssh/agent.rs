//! Keys that an SSH agent holds.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion_ssh::{
    Key, Login, Probe, ReadTransport as _, Ssh, TransportError, known_hosts, openssh_arguments,
};

use crate::server::{Server, made_key};

/// An agent of our own. It ends when it is dropped.
struct Agent {
    folder: tempfile::TempDir,
    child: Child,
}

impl Agent {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(folder.path().join("socket"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Self { folder, child };
        let began = Instant::now();
        while !agent.socket().exists() {
            assert!(began.elapsed() < Duration::from_secs(10), "no agent");
            std::thread::sleep(Duration::from_millis(10));
        }
        agent
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn add(&self, file: &std::path::Path) {
        let status = Command::new("ssh-add")
            .arg("-q")
            .arg(file)
            .env("SSH_AUTH_SOCK", self.socket())
            .status();
        assert!(status.unwrap().success());
    }

    fn login(&self, server: &Server) -> Login {
        let mut login = server.login();
        login.key = Key::Agent {
            socket: self.socket(),
        };
        login
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn any_key_of_the_agent_logs_in() {
    let server = Server::start();
    let agent = Agent::start();
    for kind in ["rsa", "ecdsa"] {
        let file = agent.folder.path().join(kind);
        made_key(&file, kind);
        agent.add(&file);
    }
    agent.add(&server.key_file());
    let login = agent.login(&server);
    let session = Ssh::new().unwrap().connect(&login).unwrap();
    assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());

    let hosts = agent.folder.path().join("known_hosts");
    fs_err::write(&hosts, known_hosts(&login)).unwrap();
    let status = Command::new("ssh")
        .args(openssh_arguments(&login, &hosts).unwrap())
        .arg("true")
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn an_agent_without_the_key_is_refused() {
    let server = Server::start();
    let agent = Agent::start();
    let error = Ssh::new()
        .unwrap()
        .connect(&agent.login(&server))
        .err()
        .unwrap();
    assert!(
        matches!(error, TransportError::AgentEmpty { .. }),
        "{error:?}"
    );
    let file = agent.folder.path().join("other");
    made_key(&file, "ed25519");
    agent.add(&file);
    let error = Ssh::new()
        .unwrap()
        .connect(&agent.login(&server))
        .err()
        .unwrap();
    assert!(matches!(error, TransportError::Denied { .. }), "{error:?}");
}

#[test]
fn an_agent_with_more_keys_than_the_server_tries_is_a_refusal() {
    let server = Server::start();
    let agent = Agent::start();
    for number in 0..8 {
        let file = agent.folder.path().join(format!("key{number}"));
        made_key(&file, "ed25519");
        agent.add(&file);
    }
    let error = Ssh::new()
        .unwrap()
        .connect(&agent.login(&server))
        .err()
        .unwrap();
    assert!(matches!(error, TransportError::Denied { .. }), "{error:?}");
}

#[test]
fn no_agent_is_told_apart() {
    let server = Server::start();
    let agent = Agent::start();
    let mut login = agent.login(&server);
    drop(agent);
    login.host_key = Some(server.host_key.clone());
    let error = Ssh::new().unwrap().connect(&login).err().unwrap();
    assert!(matches!(error, TransportError::Agent { .. }), "{error:?}");
}
