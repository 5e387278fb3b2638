//! Commands on a real server.

use std::time::{Duration, Instant};

use mullion_plan::Unattended;
use mullion_ssh::{Command, Probe, ReadTransport as _, Ssh, Transport as _, TransportError};
use mullion_testkit::transport::conform::{conforms, conforms_when_lost};

use crate::server::{Server, Setup};

#[test]
fn a_session_conforms() {
    let server = Server::start();
    conforms(&server.connect(), &server.scratch()).unwrap();
}

#[test]
fn a_session_conforms_when_it_is_lost() {
    let server = Server::start();
    let session = server.connect();
    conforms_when_lost(&session, &mut || server.cut()).unwrap();
    assert!(!session.is_open());
    // The server itself is still there.
    assert!(
        server
            .connect()
            .answer(&Probe::Alive)
            .unwrap()
            .exit
            .is_success()
    );
}

#[test]
fn a_session_conforms_on_a_server_that_allows_few_channels() {
    let server = Setup::new().line("MaxSessions 2").start();
    conforms(&server.connect(), &server.scratch()).unwrap();
}

#[test]
fn a_session_conforms_while_keys_are_exchanged_anew_again_and_again() {
    let server = Setup::new().line("RekeyLimit 512K").start();
    conforms(&server.connect(), &server.scratch()).unwrap();
}

#[test]
fn a_server_that_allows_no_channel_is_told_apart() {
    let server = Setup::new().line("MaxSessions 0").start();
    let error = server.connect().answer(&Probe::Alive).unwrap_err();
    assert!(matches!(error, TransportError::Channel { .. }), "{error:?}");
}

#[test]
fn lines_come_while_the_command_runs() {
    let server = Server::start();
    let session = server.connect();
    let file = format!("{}/heard", server.scratch());
    let script = "echo one; while [ ! -e \"$1\" ]; do sleep 0.05; done; echo two";
    let command = Command::script(script, [file.clone()]).within(Duration::from_mins(1));
    let mut heard = Vec::new();
    let exit = session.run(&command, &Unattended, &mut |_, line| {
        heard.push(line.to_owned());
        // It goes on only because its first line was heard.
        fs_err::write(&file, "").unwrap();
    });
    assert!(exit.unwrap().is_success());
    assert_eq!(heard, ["one", "two"]);
}

#[test]
fn words_reach_the_program_as_they_are() {
    let server = Server::start();
    let session = server.connect();
    let words = [
        "", "a b", "it's", "$HOME", "`id`", "\\", "*", "-n", "ü\nñ", "!!", "~",
    ];
    let output = session
        .output(&Command::new("printf").arg("[%s]\\n").args(words))
        .unwrap();
    assert_eq!(output.out, format!("[{}]\n", words.join("]\n[")));
}

#[test]
fn what_a_shell_prints_at_its_start_is_left_out() {
    let server = Server::start();
    // Read by bash when sshd starts it; other shells have their own.
    let settings = "echo welcome; printf 'without end'; echo careful >&2";
    fs_err::write(server.folder().join(".bashrc"), settings).unwrap();
    let session = server.connect();
    assert_eq!(
        session
            .output(&Command::new("echo").arg("mine"))
            .unwrap()
            .out,
        "mine\n"
    );
    let file = format!("{}/file", server.scratch());
    session.put_bytes(&file, b"mine", 0o644).unwrap();
    assert_eq!(session.read_file(&file, 4).unwrap(), b"mine");
}

#[test]
fn a_command_that_leaves_a_process_behind_is_not_ended_for_it() {
    let server = Server::start();
    let session = server.connect();
    // It holds the output open, as a badly written daemon does.
    let command = Command::script("sleep 20 & echo begun", [""; 0]).within(Duration::from_secs(2));
    let error = session.output(&command).unwrap_err();
    assert!(
        matches!(error, TransportError::Deadline { .. }),
        "{error:?}"
    );
    let command = Command::script("sleep 20 > /dev/null 2>&1 & echo begun", [""; 0]);
    assert_eq!(session.output(&command).unwrap().out, "begun\n");
}

#[test]
fn a_command_past_its_time_is_asked_to_end() {
    let server = Server::start();
    let session = server.connect();
    let script = "trap 'echo asked > \"$1\"; exit' TERM; sleep 30 & wait";
    let file = format!("{}/asked", server.scratch());
    let command = Command::script(script, [file.clone()]).within(Duration::from_millis(300));
    let error = session.output(&command).unwrap_err();
    assert!(
        matches!(error, TransportError::Deadline { .. }),
        "{error:?}"
    );
    let began = Instant::now();
    while session.read_file(&file, 100).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "it was not asked"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn probes_answer() {
    let server = Server::start();
    let session = server.connect();
    for probe in [
        Probe::Alive,
        Probe::BootId,
        Probe::LastShutdown,
        Probe::Digest {
            path: "/etc/os-release".into(),
        },
    ] {
        let answer = session.answer(&probe).unwrap();
        assert!(answer.exit.is_success(), "{probe:?}: {answer:?}");
        let is_silent = [Probe::Alive, Probe::LastShutdown].contains(&probe);
        assert_eq!(answer.out.is_empty(), is_silent, "{probe:?}");
    }
    let path = "/none".to_owned();
    assert_eq!(
        session.answer(&Probe::Digest { path }).unwrap().exit.status,
        1
    );
}

#[test]
fn an_agent_is_asked_for_its_facts() {
    let server = Server::start();
    let program = format!("{}/agent", server.scratch());
    let session = server.connect();
    session
        .put_bytes(
            &program,
            b"#!/bin/sh\nread line\necho \"heard $line\"\n",
            0o755,
        )
        .unwrap();
    let answer = session.answer(&Probe::AgentFacts { program }).unwrap();
    let request = answer.out.trim().strip_prefix("heard ").unwrap();
    assert_eq!(
        mullion_wire::read_request(request).unwrap(),
        mullion_wire::Request::Facts
    );
}

#[test]
fn sessions_and_what_makes_them_can_be_shared_by_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Ssh>();
    is_shared::<mullion_ssh::Session>();
    is_shared::<mullion_testkit::transport::memory::Memory>();
}

#[test]
fn many_connections_work_at_once() {
    let server = Server::start();
    let ssh = Ssh::new().unwrap();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (ssh, server) = (&ssh, &server);
            scope.spawn(move || {
                let session = ssh.connect(&server.login()).unwrap();
                let output = session.output(&Command::new("echo").arg(number.to_string()));
                assert_eq!(output.unwrap().out, format!("{number}\n"));
            });
        }
    });
}

#[test]
fn a_session_outlives_what_made_it_and_ends_with_its_last_handle() {
    let server = Server::start();
    let session = server.connect();
    let other = session.clone();
    drop(session);
    assert!(other.answer(&Probe::Alive).unwrap().exit.is_success());
    drop(other);
    server.wait_for("Connection closed by 127.0.0.1");
}
