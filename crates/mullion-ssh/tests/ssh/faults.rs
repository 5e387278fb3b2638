//! Connections that break, stand still, or fall silent.

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use mullion_plan::{Retry, Unattended};
use mullion_ssh::{
    Class, Command, Probe, ReadTransport as _, Ssh, Transport as _, TransportError, Upload,
};
use mullion_wire::Sha256Digest;

use crate::server::{Server, Setup};

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_command_is_a_loss() {
    let server = Server::start();
    let session = server.connect();
    let mut heard = Vec::new();
    let began = Instant::now();
    let result = session.run(
        &Command::script("echo begun; sleep 30", [""; 0]),
        &Unattended,
        &mut |_, line| {
            heard.push(line.to_owned());
            server.cut();
        },
    );
    let error = result.unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error:?}");
    assert_eq!(error.step_class().retry(), Retry::Later);
    assert_eq!(heard, ["begun"]);
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// A source that cuts the connection on the way.
struct Cutting<'a> {
    server: &'a Server,
    left: u64,
    cut_at: u64,
}

impl Read for Cutting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = buffer.len().min(usize::try_from(self.left).unwrap());
        buffer[..read].fill(7);
        let before = self.left;
        self.left -= read as u64;
        if before > self.cut_at && self.left <= self.cut_at {
            self.server.cut();
        }
        Ok(read)
    }
}

#[test]
fn an_upload_that_is_cut_off_is_a_loss_and_leaves_the_file_as_it_was() {
    for setup in [Setup::new(), Setup::new().sftp(None)] {
        let server = setup.start();
        let path = format!("{}/file", server.scratch());
        server.connect().put_bytes(&path, b"old", 0o644).unwrap();
        let size = 20_000_000;
        let upload = Upload {
            path: path.clone(),
            size,
            sha256: Sha256Digest::of(b"new"),
            mode: 0o644,
        };
        let mut source = Cutting {
            server: &server,
            left: size,
            cut_at: size / 2,
        };
        let error = server
            .connect()
            .put(&upload, &mut source, &Unattended)
            .unwrap_err();
        assert_eq!(error.class(), Class::Lost, "{error:?}");
        assert_eq!(server.connect().read_file(&path, 100).unwrap(), b"old");
    }
}

#[test]
fn what_is_left_of_an_old_upload_is_removed_by_the_next() {
    let server = Server::start();
    let path = format!("{}/file", server.scratch());
    let old = format!("{path}.0123456789abcdef.part");
    let new = format!("{path}.fedcba9876543210.part");
    for part in [&old, &new] {
        fs_err::write(part, "half").unwrap();
    }
    let status = std::process::Command::new("touch")
        .args(["-d", "2 hours ago", &old])
        .status();
    assert!(status.unwrap().success());
    server.connect().put_bytes(&path, b"whole", 0o644).unwrap();
    assert!(!std::path::Path::new(&old).exists());
    // It may be another run's, at this moment.
    assert!(std::path::Path::new(&new).exists());
}

/// A source that never ends; it stops the server on the way.
struct Stopping<'a> {
    server: &'a Server,
    given: u64,
}

impl Read for Stopping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.given < 4_000_000 && self.given + buffer.len() as u64 >= 4_000_000 {
            self.server.signal_serving("STOP");
        }
        self.given += buffer.len() as u64;
        buffer.fill(7);
        Ok(buffer.len())
    }
}

/// A server that falls silent is noticed.
fn silent_during_a_command() {
    let server = Server::start();
    let session = server.connect();
    // Before its first command a server may still start a process of its own.
    assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
    server.signal_serving("STOP");
    let began = Instant::now();
    let error = session.answer(&Probe::Alive).unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error:?}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(!session.is_open());
}

/// A server that stops reading is noticed, though nothing can be asked while an upload fills the line.
fn silent_during_an_upload() {
    let server = Server::start();
    let session = server.connect();
    let upload = Upload {
        path: format!("{}/file", server.scratch()),
        size: 1 << 40,
        sha256: Sha256Digest::of(b""),
        mode: 0o644,
    };
    let mut source = Stopping {
        server: &server,
        given: 0,
    };
    let began = Instant::now();
    let error = session.put(&upload, &mut source, &Unattended).unwrap_err();
    assert_eq!(error.class(), Class::Lost, "{error:?}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
}

/// One that accepts connections and says nothing is given up.
fn silent_from_the_beginning() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let began = Instant::now();
    let refused = Ssh::new().unwrap().connect(&server.login().port(port));
    let error = refused.err().unwrap();
    assert!(
        matches!(error, TransportError::TimedOut { .. }),
        "{error:?}"
    );
    assert_eq!(error.class(), Class::Unreachable);
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// An idle connection stays for longer than a standstill may take: keepalives are answered meanwhile.
fn idle() {
    let server = Server::start();
    let session = server.connect();
    std::thread::sleep(Duration::from_secs(23));
    let answer = session.answer(&Probe::Alive);
    assert!(answer.unwrap().exit.is_success());
}

#[test]
fn who_falls_silent_is_noticed_in_time_and_who_is_idle_stays() {
    // At once, since they all wait.
    std::thread::scope(|scope| {
        scope.spawn(silent_during_a_command);
        scope.spawn(silent_during_an_upload);
        scope.spawn(silent_from_the_beginning);
        scope.spawn(idle);
    });
}
