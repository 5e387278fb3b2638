//! Machines that are reached through others.

use mullion_plan::Retry;
use mullion_ssh::{
    Class, Key, Probe, ReadTransport as _, Ssh, TransportError, generate_key, known_hosts,
    openssh_arguments,
};
use mullion_testkit::transport::conform::conforms;

use crate::server::{Server, Setup, free_port};

#[test]
fn a_machine_behind_another_one_conforms() {
    let first = Server::start();
    let second = Server::start();
    let login = second.login().jump(first.login());
    let session = Ssh::new().unwrap().connect(&login).unwrap();
    conforms(&session, &second.scratch()).unwrap();
}

#[test]
fn a_machine_behind_two_others_is_reached() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let way = servers[1].login().jump(servers[0].login());
    let login = servers[2].login().jump(way);
    let session = Ssh::new().unwrap().connect(&login).unwrap();
    assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
}

#[test]
fn machines_behind_one_share_the_way_and_a_broken_way_is_made_anew() {
    let first = Server::start();
    let second = Server::start();
    let ssh = Ssh::new().unwrap();
    let login = second.login().jump(first.login());
    let sessions: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| ssh.connect(&login).unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for session in &sessions {
        assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
    }
    first.cut();
    for session in &sessions {
        let error = session.answer(&Probe::Alive).unwrap_err();
        assert_eq!(error.class(), Class::Lost, "{error:?}");
    }
    let session = ssh.connect(&login).unwrap();
    assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
}

#[test]
fn what_fails_on_the_way_is_named_and_classed_as_there() {
    let first = Server::start();
    let second = Server::start();
    let ssh = Ssh::new().unwrap();
    let refused = |login| ssh.connect(&login).err().unwrap();

    let wrong = first.login().host_key(generate_key().unwrap().public);
    let error = refused(second.login().jump(wrong));
    assert!(matches!(error, TransportError::Jump { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Refused);
    assert_eq!(error.step_class().retry(), Retry::Never);

    let error = refused(second.login().jump(first.login().port(free_port())));
    assert!(matches!(error, TransportError::Jump { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Unreachable);

    let error = refused(second.login().port(free_port()).jump(first.login()));
    assert!(
        matches!(error, TransportError::Unreachable { .. }),
        "{error:?}"
    );

    // The machine behind is compared with its own key, not with that of the way.
    let error = refused(
        second
            .login()
            .host_key(first.host_key.clone())
            .jump(first.login()),
    );
    assert!(matches!(error, TransportError::HostKey { .. }), "{error:?}");
    let mut unknown = second.login().jump(first.login());
    unknown.host_key = None;
    let TransportError::UnknownHost { offered, .. } = refused(unknown) else {
        panic!("a machine without a pinned key is logged in to");
    };
    assert_eq!(offered, second.host_key);
}

#[test]
fn a_machine_that_lets_nobody_through_is_told_apart() {
    let first = Setup::new().line("AllowTcpForwarding no").start();
    let second = Server::start();
    let login = second.login().jump(first.login());
    let error = Ssh::new().unwrap().connect(&login).err().unwrap();
    assert!(
        matches!(error, TransportError::NoForwarding { .. }),
        "{error:?}"
    );
    assert_eq!(error.class(), Class::Refused);
}

#[test]
fn the_systems_ssh_goes_the_same_way() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let with_file = |server: &Server| {
        let mut login = server.login();
        login.key = Key::File(server.key_file());
        login
    };
    let direct = with_file(&servers[2]);
    let through = direct
        .clone()
        .jump(with_file(&servers[1]).jump(with_file(&servers[0])));
    let hosts = servers[0].folder().join("known hosts 100%");
    for login in [direct, through] {
        let run = || {
            std::process::Command::new("ssh")
                .args(openssh_arguments(&login, &hosts).unwrap())
                .args(["echo", "here"])
                .output()
                .unwrap()
        };
        fs_err::write(&hosts, known_hosts(&login)).unwrap();
        let output = run();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "here\n",
            "{output:?}"
        );
        // A host that is not known is not logged in to.
        fs_err::write(&hosts, "").unwrap();
        assert_eq!(run().status.code(), Some(255));
    }
}
