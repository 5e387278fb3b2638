//! Files on Windows machines: by SFTP, put in place by `cmd`, compared by the agent that is there.
//!
//! The agent itself is compared by itself: what was sent is run under its temporary name. The connection keeps bytes
//! whole on their way; what is found out here is a disk that is full or a server that lost the end.

use std::io::Read;

use mullion_plan::{Attend, Unattended};
use russh_sftp::protocol::StatusCode;
use tokio::io::AsyncReadExt as _;

use super::channel::Watch;
use super::replace::replace;
use super::session::Session;
use super::upload::{Counted, Progress, Sftp};
use crate::command::{Exit, Put, Stream, Upload};
use crate::error::{Cause, TransportError};
use crate::keys::unique;
use crate::limits;
use crate::probe::digest_by;
use crate::shell::{cmd_path, sftp_path};

/// The ending of a file that is being sent: the agent is run under that name.
const PART: &str = ".part.exe";

impl Session {
    pub(super) fn upload_to_windows(
        &self,
        agent: &str,
        upload: &Upload,
        source: &mut dyn Read,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError> {
        let path = self.shell().absolute(&upload.path)?;
        let doing = format!("put {path}");
        let watch = Watch::new(&doing, attendant, None);
        if self.size_of(&path, &watch)? == Some(upload.size)
            && self.digest_of(agent, &path, attendant)?.as_deref() == Some(upload.sha256.as_str())
        {
            return Ok(Put::AlreadyThere);
        }
        self.make_folder_of(&path, attendant)?;
        let part = format!("{path}.{}{PART}", unique());
        let mut progress = Progress::new(attendant, upload.size);
        let mut counted = Counted {
            source,
            progress: &mut progress,
        };
        let sent = self.send_by_sftp(&sftp_path(&part), &path, &mut counted, &watch);
        let sent = sent.and_then(|sftp| match sftp {
            Sftp::Done => self.check_size(&path, upload.size, progress.done),
            Sftp::Missing => Err(self.unwritten(&path, "the server has no SFTP")),
        });
        let finished = sent.and_then(|()| {
            progress.tell();
            let teller = if path == agent { part.as_str() } else { agent };
            let found = self.digest_of(teller, &part, attendant)?;
            match found {
                Some(found) if found == upload.sha256.as_str() => self.put_in_place(&part, &path),
                Some(found) => Err(self.other_digest(&path, &upload.sha256, &found)),
                None => Err(self.unwritten(&path, "nothing there tells its digest")),
            }
        });
        if let Err(error) = finished {
            if self.is_open() {
                // What is left under the temporary name does no harm; the failure is what is told.
                let _ = self.cmd(&format!("del /f /q {}", cmd_path(&part)), &Unattended);
            }
            return Err(error);
        }
        Ok(Put::Sent)
    }

    /// The digest of a file, as an agent tells it; nothing where there is no agent, or none that runs.
    fn digest_of(
        &self,
        agent: &str,
        path: &str,
        attendant: &dyn Attend,
    ) -> Result<Option<String>, TransportError> {
        let mut out = Vec::new();
        let command = digest_by(agent, path);
        let exit = self.run_bytes(&command, None, attendant, &mut |stream, bytes| {
            if stream == Stream::Out {
                out.extend_from_slice(bytes);
            }
        })?;
        let text = String::from_utf8_lossy(&out);
        let word = text.split_whitespace().next().map(str::to_owned);
        Ok(word.filter(|_| exit.is_success()))
    }

    fn make_folder_of(&self, path: &str, attendant: &dyn Attend) -> Result<(), TransportError> {
        let folder = path
            .rsplit_once(['\\', '/'])
            .map_or(path, |(above, _)| above);
        let folder = cmd_path(folder);
        let line = format!("if not exist {folder} mkdir {folder}");
        let (exit, said) = self.cmd(&line, attendant)?;
        if exit.is_success() {
            Ok(())
        } else {
            Err(self.unwritten(path, said))
        }
    }

    /// Puts a file in another's place.
    fn put_in_place(&self, part: &str, path: &str) -> Result<(), TransportError> {
        let replaced = replace(part, path, &unique(), &mut |line| {
            let (exit, said) = self.cmd(line, &Unattended)?;
            Ok((exit.is_success(), said))
        })?;
        replaced.map_err(|said| self.unwritten(path, said))
    }

    /// Runs a line of `cmd`'s own language, of which every path was looked at before.
    fn cmd(&self, line: &str, attendant: &dyn Attend) -> Result<(Exit, String), TransportError> {
        let watch = Watch::new(line, attendant, Some(limits::CLEAN_UP));
        let mut said = Vec::new();
        let ending = self.run_line(line, None, &watch, &mut |_, bytes| {
            said.extend_from_slice(bytes);
        })?;
        let exit = self.exit(ending, line)?;
        Ok((exit, String::from_utf8_lossy(&said).into_owned()))
    }

    /// How large a file is; nothing where there is none.
    fn size_of(&self, path: &str, watch: &Watch<'_>) -> Result<Option<u64>, TransportError> {
        let (channel, _permit) = self.channel(watch)?;
        let Some(sftp) = self.start_sftp(channel, watch)? else {
            return Err(self.unwritten(path, "the server has no SFTP"));
        };
        self.watched(watch, async {
            match sftp.metadata(sftp_path(path)).await {
                Ok(found) => Ok(found.size),
                Err(error) if is_absence(&error) => Ok(None),
                Err(_) if !self.is_open() => Err(self.lost(watch.doing)),
                Err(error) => Err(self.unwritten(path, error.to_string())),
            }
        })
    }

    pub(super) fn read_by_sftp(&self, path: &str, limit: u64) -> Result<Vec<u8>, TransportError> {
        let doing = format!("read {path}");
        let watch = Watch::new(&doing, &Unattended, Some(limits::READ));
        let place = || self.at().to_owned();
        let path = path.to_owned();
        let unread = |source: String| TransportError::Read {
            place: place(),
            path: path.clone(),
            source: Cause::new(source),
        };
        let (channel, _permit) = self.channel(&watch)?;
        let Some(sftp) = self.start_sftp(channel, &watch)? else {
            return Err(unread("the server has no SFTP".into()));
        };
        let found = self.watched(&watch, async {
            let file = match sftp.open(sftp_path(&path)).await {
                Ok(file) => file,
                Err(error) if is_absence(&error) => {
                    return Err(TransportError::NoFile {
                        place: place(),
                        path: path.clone(),
                    });
                }
                Err(_) if !self.is_open() => return Err(self.lost(watch.doing)),
                Err(error) => return Err(unread(error.to_string())),
            };
            let mut found = Vec::new();
            // One byte more tells a file that is too large from one that just fits.
            let mut file = file.take(limit.saturating_add(1));
            match file.read_to_end(&mut found).await {
                Ok(_) => Ok(found),
                Err(_) if !self.is_open() => Err(self.lost(watch.doing)),
                Err(error) => Err(unread(error.to_string())),
            }
        })?;
        if found.len() as u64 > limit {
            return Err(TransportError::TooLarge {
                place: place(),
                path,
                limit,
            });
        }
        Ok(found)
    }
}

fn is_absence(error: &russh_sftp::client::error::Error) -> bool {
    use russh_sftp::client::error::Error;
    matches!(error, Error::Status(status) if status.status_code == StatusCode::NoSuchFile)
}
