//! Figures, printed. Worth something in a release build only.

use std::io::Read;
use std::time::{Duration, Instant};

use mullion_plan::Unattended;
use mullion_ssh::{Command, Probe, ReadTransport as _, Ssh, Transport as _, Upload};
use mullion_wire::Sha256Digest;

use crate::server::{Server, Setup};

/// The size of a large program; without optimisation a small one, since digests are slow then.
const SIZE: u32 = if cfg!(debug_assertions) {
    5_000_000
} else {
    130_000_000
};

/// So many are more than a gigabyte in one connection, after which keys are exchanged anew.
const ROUNDS: usize = 9;

fn content() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let size = SIZE as usize;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Remembers when its end was read.
struct Timed<'a> {
    rest: &'a [u8],
    ended: Option<Instant>,
    began: Option<Instant>,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.began.get_or_insert_with(Instant::now);
        let read = self.rest.read(buffer)?;
        if read == 0 {
            self.ended.get_or_insert_with(Instant::now);
        }
        Ok(read)
    }
}

/// Megabytes a second.
fn rate(time: Duration) -> f64 {
    f64::from(SIZE) / 1e6 / time.as_secs_f64()
}

#[test]
#[ignore = "figures for a person, worth something with --release only"]
fn uploads_and_connections_are_fast() {
    let bytes = content();
    let sha256 = Sha256Digest::of(&bytes);
    let ssh = Ssh::new().unwrap();
    for (name, setup) in [
        ("SFTP inside sshd", Setup::new()),
        (
            "SFTP as a program",
            Setup::new().sftp(Some("/usr/lib/openssh/sftp-server")),
        ),
        ("cat", Setup::new().sftp(None)),
    ] {
        let server = setup.start();
        let session = ssh.connect(&server.login()).unwrap();
        for _ in 0..ROUNDS {
            let path = format!("{}/file", server.scratch());
            let upload = Upload {
                path: path.clone(),
                size: SIZE.into(),
                sha256: sha256.clone(),
                mode: 0o755,
            };
            let mut source = Timed {
                rest: &bytes,
                ended: None,
                began: None,
            };
            let began = Instant::now();
            session.put(&upload, &mut source, &Unattended).unwrap();
            let whole = began.elapsed();
            let sent = source.ended.unwrap() - source.began.unwrap();
            let began = Instant::now();
            session.put(&upload, &mut source, &Unattended).unwrap();
            let again = began.elapsed();
            println!(
                "{name}: sent at {:.0} MB/s, put with digest at {:.0} MB/s ({whole:?}), found there in {again:?}",
                rate(sent),
                rate(whole),
            );
            fs_err::remove_file(&path).unwrap();
        }
    }
    let server = Server::start();
    for _ in 0..5 {
        let began = Instant::now();
        let session = ssh.connect(&server.login()).unwrap();
        let connected = began.elapsed();
        let began = Instant::now();
        session.answer(&Probe::Alive).unwrap();
        println!(
            "connected in {connected:?}, first command in {:?}",
            began.elapsed()
        );
    }
    let session = ssh.connect(&server.login()).unwrap();
    let began = Instant::now();
    for _ in 0..100 {
        session.answer(&Probe::Alive).unwrap();
    }
    println!("a command: {:?}", began.elapsed() / 100);
    let path = format!("{}/file", server.scratch());
    fs_err::write(&path, &bytes).unwrap();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let read = session.read_file(&path, SIZE.into()).unwrap();
        println!("read at {:.0} MB/s", rate(began.elapsed()));
        assert!(read == bytes);
    }
    let began = Instant::now();
    let mut lines = 0;
    let command = Command::new("seq").args(["1", "3000000"]);
    let exit = session
        .run(&command, &Unattended, &mut |_, _| lines += 1)
        .unwrap();
    assert!(exit.is_success());
    println!(
        "{:.1} million lines a second",
        f64::from(lines) / 1e6 / began.elapsed().as_secs_f64()
    );
}
