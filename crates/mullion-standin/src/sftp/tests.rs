//! The server against the client that our own transport uses.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use russh_sftp::client::error::Error;
use russh_sftp::client::{RawSftpSession, SftpSession};
use russh_sftp::protocol::{FileAttributes, OpenFlags, Packet, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use super::*;

/// A drive, and a client of it.
struct Stage {
    folder: tempfile::TempDir,
    sftp: SftpSession,
}

fn start(folder: &tempfile::TempDir) -> tokio::io::DuplexStream {
    fs_err::create_dir_all(folder.path().join("users/Administrator")).unwrap();
    let drive = Drive::open(folder.path()).unwrap();
    let home = DrivePath::parse(r"C:\Users\Administrator").unwrap();
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(serve(theirs, drive, home));
    ours
}

async fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let sftp = SftpSession::new(start(&folder)).await.unwrap();
    Stage { folder, sftp }
}

fn code(error: &Error) -> StatusCode {
    match error {
        Error::Status(status) => status.status_code,
        other => panic!("no status: {other}"),
    }
}

impl Stage {
    fn on_disk(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    async fn put(&self, path: &str, flags: OpenFlags, data: &[u8]) -> Result<(), Error> {
        let mut file = self.sftp.open_with_flags(path, flags).await?;
        file.write_all(data).await.unwrap();
        file.shutdown().await.unwrap();
        Ok(())
    }

    async fn refused(&self, path: &str) -> StatusCode {
        code(&self.sftp.metadata(path).await.unwrap_err())
    }
}

const NEW: OpenFlags = OpenFlags::CREATE
    .union(OpenFlags::WRITE)
    .union(OpenFlags::TRUNCATE);

#[tokio::test]
async fn every_form_of_a_windows_path_is_the_same_file() {
    let stage = stage().await;
    stage.sftp.create_dir("/C:/Program Files").await.unwrap();
    stage
        .put(r"C:\Program Files\a.txt", NEW, b"hello")
        .await
        .unwrap();
    for path in [
        "/C:/Program Files/a.txt",
        "/c:/program files/A.TXT",
        "C:/Program Files/a.txt",
        r"c:\PROGRAM FILES\a.txt",
        "/Program Files/a.txt",
        "../../Program Files/a.txt",
    ] {
        assert_eq!(stage.sftp.read(path).await.unwrap(), b"hello", "{path}");
    }
    for (path, expected) in [
        (".", "/C:/Users/Administrator"),
        ("/C:/k/../x", "/C:/x"),
        (r"C:\", "/C:/"),
        ("/", "/C:/"),
    ] {
        assert_eq!(stage.sftp.canonicalize(path).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn nothing_outside_the_drive_is_reached() {
    let stage = stage().await;
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("secret"), "x").unwrap();
    symlink(outside.path(), stage.on_disk("out")).unwrap();
    symlink(outside.path().join("secret"), stage.on_disk("file")).unwrap();
    for path in ["/C:/out", "/C:/out/secret", "/C:/file", "/C:/OUT/secret"] {
        assert_eq!(
            stage.refused(path).await,
            StatusCode::PermissionDenied,
            "{path}"
        );
        let written = stage.put(path, NEW, b"y").await;
        assert!(written.is_err(), "{path}");
    }
    for path in [
        "/etc/passwd",
        "../../../../etc/passwd",
        "/D:/x",
        "//server/share",
        "/C:/a\0b",
    ] {
        assert_eq!(stage.refused(path).await, StatusCode::NoSuchFile, "{path}");
    }
    assert_eq!(fs_err::read(outside.path().join("secret")).unwrap(), b"x");
    // The link itself may go.
    stage.sftp.remove_file("/C:/file").await.unwrap();
    assert!(outside.path().join("secret").exists());
    let whole = stage.sftp.remove_dir("/C:/").await.unwrap_err();
    assert_eq!(code(&whole), StatusCode::PermissionDenied);
}

#[tokio::test]
async fn files_are_written_read_appended_and_cut() {
    let stage = stage().await;
    stage.put("a", NEW, b"0123456789").await.unwrap();
    let append = OpenFlags::WRITE | OpenFlags::APPEND;
    stage.put("a", append, b"ab").await.unwrap();
    assert_eq!(stage.sftp.read("a").await.unwrap(), b"0123456789ab");
    stage.put("a", OpenFlags::WRITE, b"XY").await.unwrap();
    assert_eq!(stage.sftp.read("a").await.unwrap(), b"XY23456789ab");

    let mut file = stage.sftp.open("a").await.unwrap();
    file.seek(std::io::SeekFrom::Start(10)).await.unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"ab");

    let cut = FileAttributes {
        size: Some(3),
        ..FileAttributes::empty()
    };
    stage.sftp.set_metadata("a", cut).await.unwrap();
    assert_eq!(stage.sftp.read("a").await.unwrap(), b"XY2");
    stage.put("a", NEW, b"").await.unwrap();
    assert_eq!(stage.sftp.metadata("a").await.unwrap().size, Some(0));

    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    stage.put("large", NEW, &large).await.unwrap();
    assert!(stage.sftp.read("large").await.unwrap() == large);
}

#[tokio::test]
async fn a_file_that_must_be_new_is_new_and_private() {
    let stage = stage().await;
    // As our transport opens what it sends.
    let flags = OpenFlags::CREATE | OpenFlags::EXCLUDE | OpenFlags::WRITE;
    let private = FileAttributes {
        permissions: Some(0o600),
        ..FileAttributes::empty()
    };
    let open = || {
        let sftp = &stage.sftp;
        sftp.open_with_flags_and_attributes("/C:/x.part", flags, private.clone())
    };
    let mut file = open().await.unwrap();
    file.write_all(b"part").await.unwrap();
    file.shutdown().await.unwrap();
    let mode = |path: &str| {
        let found = fs_err::metadata(stage.on_disk(path)).unwrap();
        found.permissions().mode() & 0o7777
    };
    assert_eq!(mode("x.part"), 0o600);
    assert!(open().await.is_err(), "it is there already");
    let other = FileAttributes {
        permissions: Some(0o755),
        ..FileAttributes::empty()
    };
    stage.sftp.set_metadata("/C:/X.PART", other).await.unwrap();
    assert_eq!(mode("x.part"), 0o755);
}

#[tokio::test]
async fn a_rename_replaces_only_when_posix_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let raw = RawSftpSession::new(start(&folder));
    let version = raw.init().await.unwrap();
    assert_eq!(version.extensions[POSIX_RENAME], "1");
    for (name, text) in [("a", "new"), ("b", "old")] {
        fs_err::write(folder.path().join(name), text).unwrap();
    }
    assert!(raw.rename("/C:/a", "/C:/b").await.is_err());
    let data = |texts: &[&str]| {
        let mut data = Vec::new();
        for text in texts {
            data.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            data.extend(text.as_bytes());
        }
        data
    };
    let replaced = raw
        .extended(POSIX_RENAME, data(&[r"C:\A", r"C:\b"]))
        .await
        .unwrap();
    assert!(matches!(replaced, Packet::Status(status) if status.status_code == StatusCode::Ok));
    assert_eq!(fs_err::read(folder.path().join("b")).unwrap(), b"new");
    assert!(!folder.path().join("a").exists());
    // Only its case changes: that is no other file.
    raw.rename("/C:/b", "/C:/c").await.unwrap();
    assert!(folder.path().join("c").exists());

    let status = |answer: Result<Packet, Error>| match answer {
        Ok(Packet::Status(status)) => status.status_code,
        Err(error) => code(&error),
        Ok(other) => panic!("{other:?}"),
    };
    let unknown = raw.extended("no-such@openssh.com", Vec::new()).await;
    assert_eq!(status(unknown), StatusCode::OpUnsupported);
    let broken = raw.extended(POSIX_RENAME, vec![0, 0]).await;
    assert_eq!(status(broken), StatusCode::BadMessage);
    let stale = raw.close("77").await;
    assert!(stale.is_err());
}

#[tokio::test]
async fn a_folder_is_listed_whole_whatever_its_size() {
    let stage = stage().await;
    stage.sftp.create_dir("many").await.unwrap();
    for number in 0..250 {
        let path = stage.on_disk(&format!("users/Administrator/many/{number:03}.txt"));
        fs_err::write(path, "x").unwrap();
    }
    let mut names: Vec<_> = stage
        .sftp
        .read_dir(r"C:\users\ADMINISTRATOR\many")
        .await
        .unwrap()
        .map(|entry| entry.file_name())
        .collect();
    names.sort();
    assert_eq!(names.len(), 250);
    assert_eq!(
        (names[0].as_str(), names[249].as_str()),
        ("000.txt", "249.txt")
    );
    let full = stage.sftp.remove_dir("many").await.unwrap_err();
    assert_eq!(code(&full), StatusCode::Failure);
    let nowhere = stage.sftp.read_dir("nowhere").await.err().unwrap();
    assert_eq!(code(&nowhere), StatusCode::NoSuchFile);
    let twice = stage.sftp.create_dir("MANY").await.unwrap_err();
    assert_eq!(code(&twice), StatusCode::Failure, "the name is taken");
}

#[tokio::test]
async fn the_session_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(folder.path().join("users")).unwrap();
    let drive = Drive::open(folder.path()).unwrap();
    let (ours, theirs) = tokio::io::duplex(4096);
    let served = tokio::spawn(serve(theirs, drive, DrivePath::root()));
    drop(ours);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), served).await;
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn a_pipe_keeps_nobody() {
    let stage = stage().await;
    let made = std::process::Command::new("mkfifo")
        .arg(stage.on_disk("pipe"))
        .status();
    assert!(made.unwrap().success());
    let asked = async {
        let mut file = stage.sftp.open("/C:/pipe").await.unwrap();
        let mut text = Vec::new();
        assert!(file.read_to_end(&mut text).await.is_err(), "it is no file");
        let private = FileAttributes {
            permissions: Some(0o600),
            ..FileAttributes::empty()
        };
        stage.sftp.set_metadata("/C:/pipe", private).await
    };
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), asked).await;
    answer.expect("an answer in time").unwrap();
}
