//! Files: sent under another name, compared, put in place.

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Instant;

use mullion_plan::{Attend, News, Unattended, Unit};
use mullion_wire::Sha256Digest;
use mullion_wire::text::one_line;
use russh::client::Msg;
use russh::{Channel, ChannelMsg};
use russh_sftp::client::{Config, SftpSession};
use russh_sftp::protocol::{FileAttributes, OpenFlags};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::channel::{Watch, piece_of};
use super::session::{Rise, Session};
use crate::command::{Command, Exit, Put, Stream, Upload};
use crate::error::{Cause, TransportError};
use crate::keys::unique;
use crate::limits;

/// The digest of a file, as a function for the scripts. Of large files by openssl where it is found: with the
/// processor's own instructions it took a fifth of the time.
macro_rules! digest {
    () => {
        r#"
digest() {
    if [ "$(wc -c < "$1")" -gt 4000000 ]; then openssl dgst -sha256 -r < "$1" 2> /dev/null && return; fi
    sha256sum < "$1"
}"#
    };
}

/// Looks whether the file is there already, and makes room for it otherwise. `$1` path, `$2` size, `$3` digest,
/// `$4` mode, `$5` minutes after which the rest of an earlier upload is nobody's.
const PREPARE: &str = concat!(
    digest!(),
    r#"
if [ -d "$1" ]; then echo "there is a folder of that name" >&2; exit 1; fi
if [ -f "$1" ] && [ "$(wc -c < "$1")" -eq "$2" ]; then
    found=$(digest "$1") || exit 1
    if [ "${found%% *}" = "$3" ]; then chmod "$4" "$1" && echo there; exit; fi
fi
mkdir -p "${1%/*}/" || exit 1
for old in "$1".*.part; do
    [ -f "$old" ] && find "$old" -mmin "+$5" -exec rm -f {} \; 2> /dev/null
done
echo wanted"#
);

/// Writes what comes. `$1` the file.
const RECEIVE: &str = r#"umask 077; exec cat > "$1""#;

/// Compares, and puts in place. `$1` the file as sent, `$2` path, `$3` digest, `$4` mode.
const FINISH: &str = concat!(
    digest!(),
    r#"
found=$(digest "$1") || exit 1
found=${found%% *}
if [ "$found" != "$3" ]; then rm -f "$1"; echo "$found"; exit 65; fi
chmod "$4" "$1" && mv -f "$1" "$2""#
);

/// The status by which [`FINISH`] says that the digest is another one.
const OTHER_DIGEST: i32 = 65;

/// Removes what a failed upload left, and says how full the disk was. `$1` the file.
const CLEAN_UP: &str = r#"df -P "${1%/*}/" 2> /dev/null | tail -n 1; rm -f "$1""#;

/// What one of these scripts said.
struct Said {
    exit: Exit,
    out: String,
    err: String,
}

/// How far an upload is.
pub(super) struct Progress<'a> {
    attendant: &'a dyn Attend,
    pub(super) done: u64,
    total: u64,
    told: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(attendant: &'a dyn Attend, total: u64) -> Self {
        Self {
            attendant,
            done: 0,
            total,
            told: Instant::now(),
        }
    }

    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.told.elapsed() >= limits::PROGRESS_EVERY {
            self.tell();
        }
    }

    pub(super) fn tell(&mut self) {
        self.told = Instant::now();
        self.attendant.hear(News::Amount {
            done: self.done,
            total: Some(self.total),
            unit: Unit::Bytes,
        });
    }
}

/// A source that tells how much was read of it.
pub(super) struct Counted<'a, 'p> {
    pub(super) source: &'a mut dyn Read,
    pub(super) progress: &'a mut Progress<'p>,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

/// What SFTP was good for.
pub(super) enum Sftp {
    /// It did what was asked.
    Done,
    /// The server has none.
    Missing,
}

impl Session {
    pub(super) fn upload(
        &self,
        upload: &Upload,
        source: &mut dyn Read,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError> {
        let path = self.shell().absolute(&upload.path)?;
        let doing = format!("put {path}");
        let watch = Watch::new(&doing, attendant, None);
        let digest = upload.sha256.to_string();
        let mode = format!("{:o}", upload.mode);
        let prepare = Command::script(
            PREPARE,
            [
                path.clone(),
                upload.size.to_string(),
                digest.clone(),
                mode.clone(),
                limits::STALE_PART_MINUTES.to_string(),
            ],
        );
        let said = self.ask(&prepare, attendant)?;
        match (said.exit.status, said.out.trim()) {
            (0, "there") => return Ok(Put::AlreadyThere),
            (0, "wanted") => {}
            _ => return Err(self.unwritten(&path, said.err)),
        }
        let part = format!("{path}.{}.part", unique());
        let mut progress = Progress::new(attendant, upload.size);
        let sent = self.send(&part, &path, source, &mut progress, &watch);
        let sent = sent.and_then(|()| self.check_size(&path, upload.size, progress.done));
        if let Err(error) = sent {
            return Err(self.clean_up(&part, error));
        }
        progress.tell();
        let finish = Command::script(FINISH, [part.clone(), path.clone(), digest, mode]);
        let said = match self.ask(&finish, attendant) {
            Ok(said) => said,
            Err(error) => return Err(self.clean_up(&part, error)),
        };
        match said.exit.status {
            0 => Ok(Put::Sent),
            OTHER_DIGEST => Err(self.other_digest(&path, &upload.sha256, &said.out)),
            _ => Err(self.clean_up(&part, self.unwritten(&path, said.err))),
        }
    }

    fn send(
        &self,
        part: &str,
        path: &str,
        source: &mut dyn Read,
        progress: &mut Progress<'_>,
        watch: &Watch<'_>,
    ) -> Result<(), TransportError> {
        let mut source = Counted { source, progress };
        // SFTP writes as the user who logged in, whatever `sudo` allows.
        let is_possible =
            self.rise()? == Rise::Not && !self.is_without_sftp().load(Ordering::Relaxed);
        if is_possible {
            match self.send_by_sftp(part, path, &mut source, watch)? {
                Sftp::Done => return Ok(()),
                Sftp::Missing => self.is_without_sftp().store(true, Ordering::Relaxed),
            }
        }
        let receive = Command::script(RECEIVE, [part]);
        let mut said = String::new();
        let received = self.run_watched(&receive, Some(&mut source), watch, &mut |_, bytes| {
            said.push_str(&String::from_utf8_lossy(bytes));
        });
        let exit = received.map_err(|error| match error {
            TransportError::Source { place, source, .. } => TransportError::Source {
                place,
                path: path.to_owned(),
                source,
            },
            error => error,
        })?;
        if exit.is_success() {
            Ok(())
        } else {
            Err(self.unwritten(path, said))
        }
    }

    pub(super) fn send_by_sftp(
        &self,
        part: &str,
        path: &str,
        source: &mut dyn Read,
        watch: &Watch<'_>,
    ) -> Result<Sftp, TransportError> {
        let (channel, _permit) = self.channel(watch)?;
        let Some(sftp) = self.start_sftp(channel, watch)? else {
            return Ok(Sftp::Missing);
        };
        let failed = |error: &dyn std::error::Error| {
            if self.is_open() {
                self.unwritten(path, error.to_string())
            } else {
                self.lost(watch.doing)
            }
        };
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUDE | OpenFlags::WRITE;
        let attributes = FileAttributes {
            permissions: Some(0o600),
            ..FileAttributes::empty()
        };
        let mut file = self.watched(watch, async {
            let opened = sftp.open_with_flags_and_attributes(part, flags, attributes);
            opened.await.map_err(|error| failed(&error))
        })?;
        let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(limits::PIECES);
        let mut task = self.engine().spawn(async move {
            while let Some(piece) = pieces.recv().await {
                file.write_all(&piece).await?;
            }
            // Waits for the answers to all writes.
            file.close().await
        });
        let poured = self.pour(source, sender, &mut task, path, watch);
        if poured.is_err() {
            task.abort();
        }
        poured?.map_err(|error| failed(&error))?;
        Ok(Sftp::Done)
    }

    /// Starts the server's SFTP, where it has one.
    pub(super) fn start_sftp(
        &self,
        mut channel: Channel<Msg>,
        watch: &Watch<'_>,
    ) -> Result<Option<SftpSession>, TransportError> {
        let lost = || self.lost(watch.doing);
        let answer = self.watched(watch, async {
            let asked = channel.request_subsystem(true, "sftp").await;
            asked.map_err(|_| lost())?;
            loop {
                match channel.wait().await {
                    Some(ChannelMsg::Success) => return Ok(Sftp::Done),
                    Some(ChannelMsg::Failure | ChannelMsg::Close) => return Ok(Sftp::Missing),
                    Some(_) => {}
                    None => return Err(lost()),
                }
            }
        });
        if !matches!(answer, Ok(Sftp::Done)) {
            self.engine().spawn(async move { channel.close().await });
            return answer.map(|_| None);
        }
        let config = Config {
            max_packet_len: limits::SFTP_PACKET,
            max_write_packet_len: limits::SFTP_PACKET,
            max_concurrent_writes: limits::SFTP_WRITES,
            request_timeout_secs: limits::SFTP_ANSWER_SECONDS,
            ..Config::default()
        };
        // Closed when it is dropped.
        let stream = channel.into_stream();
        self.watched(watch, async {
            match SftpSession::new_with_config(stream, config).await {
                Ok(sftp) => Ok(Some(sftp)),
                // The server would start a program that is not there.
                Err(_) if self.is_open() => Ok(None),
                Err(_) => Err(lost()),
            }
        })
    }

    /// Hands all pieces of a source to a task, and waits for its end.
    fn pour(
        &self,
        source: &mut dyn Read,
        sender: mpsc::Sender<Vec<u8>>,
        task: &mut JoinHandle<io::Result<()>>,
        path: &str,
        watch: &Watch<'_>,
    ) -> Result<io::Result<()>, TransportError> {
        let mut sender = Some(sender);
        let mut piece = Vec::new();
        loop {
            watch.check(self.at())?;
            if piece.is_empty() && sender.is_some() {
                piece = piece_of(source).map_err(|source| TransportError::Source {
                    place: self.at().to_owned(),
                    path: path.to_owned(),
                    source,
                })?;
                if piece.is_empty() {
                    // No more comes: the task finishes.
                    sender = None;
                }
            }
            let ended = self.engine().wait(async {
                let taken = async {
                    match &sender {
                        Some(sender) => sender.reserve().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    ended = &mut *task => Some(ended),
                    permit = taken => {
                        if let Ok(permit) = permit {
                            permit.send(std::mem::take(&mut piece));
                        }
                        None
                    }
                    () = sleep(watch.pause()) => None,
                }
            });
            if let Some(ended) = ended {
                return Ok(ended.unwrap_or_else(|error| Err(io::Error::other(error))));
            }
        }
    }

    pub(super) fn check_size(
        &self,
        path: &str,
        size: u64,
        done: u64,
    ) -> Result<(), TransportError> {
        if size == done {
            return Ok(());
        }
        Err(TransportError::Source {
            place: self.at().to_owned(),
            path: path.to_owned(),
            source: io::Error::other(format!("it has {done} bytes instead of {size}")),
        })
    }

    /// Runs one of the scripts.
    fn ask(&self, script: &Command, attendant: &dyn Attend) -> Result<Said, TransportError> {
        let mut out = Vec::new();
        let mut err = Vec::new();
        let exit = self.run_bytes(script, None, attendant, &mut |stream, bytes| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        })?;
        Ok(Said {
            exit,
            out: String::from_utf8_lossy(&out).into_owned(),
            err: String::from_utf8_lossy(&err).into_owned(),
        })
    }

    /// Removes what was sent, where that can still be said, and completes the error.
    fn clean_up(&self, part: &str, error: TransportError) -> TransportError {
        if !self.is_open() {
            return error;
        }
        let script = Command::script(CLEAN_UP, [part]).within(limits::CLEAN_UP);
        let disk = self.ask(&script, &Unattended).map(|said| said.out);
        match (error, disk) {
            (
                TransportError::Write {
                    place,
                    path,
                    source,
                },
                Ok(disk),
            ) => TransportError::Write {
                place,
                path,
                source: Cause::new(format!("{source}; the disk there: {}", in_one_line(&disk))),
            },
            (error, _) => error,
        }
    }

    pub(super) fn unwritten(&self, path: &str, said: impl AsRef<str>) -> TransportError {
        TransportError::Write {
            place: self.at().to_owned(),
            path: path.to_owned(),
            source: Cause::new(in_one_line(said.as_ref())),
        }
    }

    pub(super) fn other_digest(
        &self,
        path: &str,
        expected: &Sha256Digest,
        found: &str,
    ) -> TransportError {
        TransportError::Digest {
            place: self.at().to_owned(),
            path: path.to_owned(),
            expected: expected.clone(),
            found: one_line(found.trim()).into_owned(),
        }
    }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
