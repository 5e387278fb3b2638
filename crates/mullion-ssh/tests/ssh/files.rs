//! Files on a real server.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use mullion_plan::{Attend, News, Unattended, Unit};
use mullion_ssh::{Put, ReadTransport as _, Transport as _, TransportError, Upload};
use mullion_testkit::transport::conform::conforms;
use mullion_wire::Sha256Digest;

use crate::server::{Server, Setup, is_root};

#[test]
fn a_server_without_sftp_is_served_as_well() {
    for sftp in [None, Some("/usr/lib/no-such-server")] {
        let server = Setup::new().sftp(sftp).start();
        conforms(&server.connect(), &server.scratch()).unwrap();
    }
}

#[test]
fn a_server_with_sftp_as_a_program_is_served_as_well() {
    let server = Setup::new()
        .sftp(Some("/usr/lib/openssh/sftp-server"))
        .start();
    conforms(&server.connect(), &server.scratch()).unwrap();
}

/// A source that looks at the folder whenever it is read.
struct Looking<'a> {
    folder: &'a str,
    seen: &'a Mutex<Vec<u32>>,
    left: usize,
}
impl std::io::Read for Looking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = buffer.len().min(self.left);
        self.left -= read;
        buffer[..read].fill(7);
        for entry in fs_err::read_dir(self.folder)?.flatten() {
            let mode = entry.metadata()?.permissions().mode() & 0o777;
            self.seen.lock().unwrap().push(mode);
        }
        Ok(read)
    }
}

#[test]
fn a_file_is_private_until_it_is_in_place() {
    for setup in [Setup::new(), Setup::new().sftp(None)] {
        let server = setup.start();
        let folder = server.scratch();
        let seen = Mutex::new(Vec::new());
        let size = 8_000_000;
        let upload = Upload {
            path: format!("{folder}/file"),
            size: size as u64,
            sha256: Sha256Digest::of(&vec![7; size]),
            mode: 0o666,
        };
        let mut source = Looking {
            folder: &folder,
            seen: &seen,
            left: size,
        };
        server
            .connect()
            .put(&upload, &mut source, &Unattended)
            .unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(!seen.is_empty());
        assert!(seen.iter().all(|mode| *mode == 0o600), "{seen:?}");
        let mode = fs_err::metadata(&upload.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    }
}

#[test]
fn progress_is_told_to_its_end() {
    struct Listening(Mutex<Vec<(u64, Option<u64>)>>);
    impl Attend for Listening {
        fn hear(&self, news: News) {
            if let News::Amount {
                done,
                total,
                unit: Unit::Bytes,
            } = news
            {
                self.0.lock().unwrap().push((done, total));
            }
        }
        fn is_called_off(&self) -> bool {
            false
        }
    }
    let server = Server::start();
    let bytes = vec![9; 3_000_000];
    let upload = Upload {
        path: format!("{}/file", server.scratch()),
        size: 3_000_000,
        sha256: Sha256Digest::of(&bytes),
        mode: 0o644,
    };
    let listening = Listening(Mutex::default());
    server
        .connect()
        .put(&upload, &mut &bytes[..], &listening)
        .unwrap();
    let told = listening.0.into_inner().unwrap();
    assert_eq!(told.last(), Some(&(3_000_000, Some(3_000_000))));
    assert!(told.is_sorted());
}

#[test]
fn a_local_file_is_put() {
    let server = Server::start();
    let local = server.folder().join("local");
    fs_err::write(&local, "content").unwrap();
    let path = format!("{}/remote", server.scratch());
    let digest = Sha256Digest::of(b"content");
    let session = server.connect();
    for expected in [Put::Sent, Put::AlreadyThere] {
        let put = session.put_file(&local, &digest, &path, 0o700, &Unattended);
        assert_eq!(put.unwrap(), expected);
    }
    let error = session.put_file(&local.join("none"), &digest, &path, 0o700, &Unattended);
    assert!(matches!(error.unwrap_err(), TransportError::Source { .. }));
}

#[test]
fn what_stands_in_the_way_of_a_file_is_named() {
    let server = Server::start();
    let session = server.connect();
    let folder = server.scratch();
    let said = |path: &str| {
        let error = session.put_bytes(path, b"abc", 0o644).unwrap_err();
        assert!(matches!(error, TransportError::Write { .. }), "{error:?}");
        std::error::Error::source(&error).unwrap().to_string()
    };
    assert!(said(&folder).contains("there is a folder of that name"));
    fs_err::write(format!("{folder}/file"), "").unwrap();
    assert!(said(&format!("{folder}/file/inside")).contains("File exists"));
    if is_root() {
        assert!(said("/proc/mullion-test").contains("No such file"));
    }
}

/// A small file system, while the test runs.
struct Small(String);

impl Small {
    fn mount(folder: String) -> Self {
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "small", &folder])
            .status();
        assert!(status.unwrap().success());
        Self(folder)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root: mounts a small file system; cargo xtask test --slow runs it"]
fn a_full_disk_is_named_and_nothing_is_left_on_it() {
    for setup in [Setup::new(), Setup::new().sftp(None)] {
        let server = setup.start();
        let small = Small::mount(server.scratch());
        let session = server.connect();
        let path = format!("{}/file", small.0);
        let error = session
            .put_bytes(&path, &vec![1; 9_000_000], 0o644)
            .unwrap_err();
        assert!(matches!(error, TransportError::Write { .. }), "{error:?}");
        let said = std::error::Error::source(&error).unwrap().to_string();
        assert!(said.contains("100%"), "{said}");
        assert_eq!(fs_err::read_dir(&small.0).unwrap().count(), 0);
        assert_eq!(
            session.put_bytes(&path, b"small", 0o644).unwrap(),
            Put::Sent
        );
    }
}

#[test]
fn a_file_that_may_not_be_read_says_why() {
    let server = Server::start();
    let session = server.connect();
    let error = session.read_file(&server.scratch(), 100).unwrap_err();
    assert!(matches!(error, TransportError::Read { .. }), "{error:?}");
}
