//! Who is let in, and to whom.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mullion_plan::Retry;
use mullion_ssh::{
    Class, Key, Login, Probe, ReadTransport as _, Ssh, TransportError, fingerprint, generate_key,
};
use mullion_wire::Secret;

use crate::server::{Server, Setup, free_port, made_key};

fn refused(login: &Login) -> TransportError {
    let refused = Ssh::new().unwrap().connect(login);
    refused.err().expect("nobody may be let in here")
}

fn alive(login: &Login) {
    let session = Ssh::new().unwrap().connect(login).unwrap();
    assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
}

#[test]
fn the_pinned_key_is_taken_as_a_line_and_as_a_fingerprint() {
    let server = Server::start();
    alive(&server.login());
    alive(
        &server
            .login()
            .host_key(format!("{} a comment", server.host_key)),
    );
    alive(
        &server
            .login()
            .host_key(fingerprint(&server.host_key).unwrap()),
    );
}

#[test]
fn another_host_key_than_the_pinned_one_is_refused_naming_both() {
    let server = Server::start();
    let other = generate_key().unwrap().public;
    for pin in [other.clone(), fingerprint(&other).unwrap()] {
        let error = refused(&server.login().host_key(pin));
        let TransportError::HostKey {
            expected, found, ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(*expected, fingerprint(&other).unwrap());
        assert_eq!(*found, fingerprint(&server.host_key).unwrap());
        assert_eq!(error.class(), Class::Refused);
        assert_eq!(error.step_class().retry(), Retry::Never);
        assert!(
            error
                .hint()
                .unwrap()
                .contains(&format!("hostKey: {}", server.host_key))
        );
    }
}

#[test]
fn without_a_pin_nobody_logs_in_and_the_line_to_write_is_printed() {
    let server = Server::start();
    let mut login = server.login();
    login.host_key = None;
    let error = refused(&login);
    assert_eq!(error.class(), Class::Refused);
    assert_eq!(error.step_class().retry(), Retry::Never);
    let line = format!("`hostKey: {}`", server.host_key);
    assert!(error.to_string().contains(&line), "{error}");
    // Not even the user's name was told.
    server.wait_for("Connection closed by 127.0.0.1");
}

#[test]
fn a_pin_that_is_no_key_is_refused_before_anybody_is_called() {
    let login = Login::new("root", "127.0.0.1", Key::Pem(Secret::new("none"))).host_key("AAAA");
    let error = refused(&login.port(free_port()));
    assert!(
        matches!(error, TransportError::BadHostKey { .. }),
        "{error}"
    );
}

#[test]
fn a_server_with_several_keys_shows_the_pinned_one() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = ["rsa", "ecdsa"].map(|kind| folder.path().join(kind)).into();
    let lines: Vec<_> = files
        .iter()
        .map(|file| made_key(file, file.file_name().unwrap().to_str().unwrap()))
        .collect();
    let server = Setup::new().host_key(&files[0]).host_key(&files[1]).start();
    for line in lines {
        alive(&server.login().host_key(line.clone()));
        alive(&server.login().host_key(fingerprint(&line).unwrap()));
    }
    let other = fingerprint(&generate_key().unwrap().public).unwrap();
    let error = refused(&server.login().host_key(other));
    assert!(matches!(error, TransportError::HostKey { .. }), "{error:?}");
}

#[test]
fn another_user_key_is_refused_and_not_tried_again() {
    let server = Server::start();
    let mut login = server.login();
    login.key = Key::Pem(generate_key().unwrap().private);
    let error = refused(&login);
    assert!(matches!(error, TransportError::Denied { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Refused);
    assert_eq!(error.step_class().retry(), Retry::Never);
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("publickey")
    );
}

#[test]
fn keys_of_every_kind_log_in_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let file = folder.path().join(kind);
        let line = made_key(&file, kind);
        fs_err::write(server.folder().join("authorized_keys"), line).unwrap();
        let mut login = server.login();
        login.key = Key::File(file);
        alive(&login);
    }
}

#[test]
fn a_port_that_nobody_listens_on_is_unreachable_at_once() {
    let server = Server::start();
    let began = Instant::now();
    let error = refused(&server.login().port(free_port()));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(error.class(), Class::Unreachable);
    assert_eq!(error.step_class().retry(), Retry::Later);
    let error = refused(&Login {
        address: "no-such-machine.invalid".into(),
        ..server.login()
    });
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
}

#[test]
fn a_server_that_hangs_up_is_unreachable() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
        }
    });
    let error = refused(&server.login().port(port));
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
}

#[test]
fn what_is_no_ssh_server_is_told_apart() {
    use std::io::{Read as _, Write as _};
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"SSH-1.5-ancient\r\n");
            let _ = stream.read(&mut [0; 100]);
        }
    });
    let error = refused(&server.login().port(port));
    assert!(
        matches!(
            error,
            TransportError::Protocol { .. } | TransportError::Unreachable { .. }
        ),
        "{error:?}"
    );
}
