//! Files: a download goes on where it broke off, and ends as what it should be or not at all.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use mullion_plan::{News, Unit};
use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};

use super::{Answer, Fetch, FetchError, shown};
use crate::digest::{hash_file, is_stop};

const TELL_EVERY: Duration = Duration::from_millis(100);

/// What a download must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expect {
    /// What has this digest.
    Sha256(Sha256Digest),
    /// Anything: the caller looks at it.
    Anything,
}

/// A download that is whole.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) sha256: Sha256Digest,
    pub(crate) size: u64,
    /// Where it came from in the end.
    pub(crate) address: String,
}

/// What is known of a download that is not whole; it lies beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    address: String,
    etag: Option<String>,
    last_modified: Option<String>,
    total: Option<u64>,
}

impl State {
    /// By what the server sees that it still has the same file. A weak tag does not promise the same bytes.
    fn validator(&self) -> Option<&str> {
        self.etag
            .as_deref()
            .filter(|tag| !tag.starts_with("W/"))
            .or(self.last_modified.as_deref())
    }
}

/// How one attempt ended.
enum Attempt {
    Whole(String),
    /// What is there is of no use; begin anew.
    Anew,
    Broke(Box<dyn std::error::Error + Send + Sync>),
}

impl Fetch<'_> {
    /// Downloads to that path, which holds the whole file when this gives it back. Until then it holds what came so
    /// far, and another call goes on from there.
    pub(crate) fn file(
        &self,
        address: &str,
        path: &Path,
        expect: &Expect,
    ) -> Result<Got, FetchError> {
        let mut resumed = file_length(path) > 0;
        loop {
            let from = self.whole(address, path, expect)?;
            let mut go_on = |_| !self.attendant.is_called_off();
            let (sha256, size) = hash_file(path, &mut go_on)
                .map_err(FetchError::File)?
                .ok_or(FetchError::CalledOff)?;
            match expect {
                Expect::Sha256(expected) if *expected != sha256 => {
                    discard(path)?;
                    // The first part may have been another file's: one more try, from the beginning.
                    if std::mem::take(&mut resumed) {
                        continue;
                    }
                    return Err(FetchError::Digest {
                        address: shown(address),
                        expected: expected.clone(),
                        found: sha256,
                    });
                }
                Expect::Sha256(_) | Expect::Anything => {}
            }
            remove(&state_path(path))?;
            return Ok(Got {
                sha256,
                size,
                address: from,
            });
        }
    }

    /// A short document.
    pub(crate) fn text(&self, address: &str, limit: u64) -> Result<String, FetchError> {
        let mut pause = self.sources.patience.pause;
        let mut times = 0;
        loop {
            times += 1;
            let result = self
                .get(address, &[])
                .and_then(|answer| match answer.refusal() {
                    Some(refusal) => Err(refusal),
                    None => answer.bytes(limit),
                });
            match result {
                Ok(bytes) => {
                    return String::from_utf8(bytes).map_err(|_| FetchError::Unexpected {
                        address: shown(address),
                        expected: "text",
                    });
                }
                Err(error) if times < self.sources.patience.attempts && error.is_transient() => {
                    self.wait(pause)?;
                    pause *= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries until the file is whole, or it breaks too often without getting on.
    fn whole(&self, address: &str, path: &Path, expect: &Expect) -> Result<String, FetchError> {
        let patience = self.sources.patience;
        let mut times = 0;
        let mut pause = patience.pause;
        let mut farthest = file_length(path);
        loop {
            let broke = match self.attempt(address, path, expect) {
                Ok(Attempt::Whole(from)) => return Ok(from),
                // What came before does not count as progress again: a server could go on so for ever.
                Ok(Attempt::Anew) => {
                    discard(path)?;
                    "begun anew".into()
                }
                Ok(Attempt::Broke(error)) => error,
                Err(error) if error.is_transient() => error.into(),
                Err(error) => return Err(error),
            };
            let now = file_length(path);
            // Less is no progress: a server that sends a few bytes each time would never be given up.
            if now >= farthest.saturating_add(patience.least) {
                farthest = now;
                times = 0;
                pause = patience.pause;
            }
            times += 1;
            if times >= patience.attempts {
                return Err(FetchError::Broken {
                    address: shown(address),
                    times,
                    source: broke,
                });
            }
            self.attendant.hear(News::Line(format!(
                "{} broke off after {now} bytes, going on",
                shown(address)
            )));
            self.wait(pause)?;
            pause *= 2;
        }
    }

    fn attempt(&self, address: &str, path: &Path, expect: &Expect) -> Result<Attempt, FetchError> {
        let mut state = read_state(path, address);
        let mut offset = file_length(path);
        // Without a digest at the end, only the server's word can say that both parts are of one file.
        if *expect == Expect::Anything && state.validator().is_none() {
            offset = 0;
        }
        if offset > 0 && state.total == Some(offset) {
            return Ok(Attempt::Whole(address.to_owned()));
        }
        let range = format!("bytes={offset}-");
        let mut headers = Vec::new();
        if offset > 0 {
            headers.push(("range", range.as_str()));
            if let Some(validator) = state.validator() {
                headers.push(("if-range", validator));
            }
        }
        let answer = self.get(address, &headers)?;
        match answer.status {
            206 if offset > 0 => match content_range(answer.header("content-range")) {
                Some((first, total)) if first == offset => {
                    if state.total.is_some() && total.is_some() && state.total != total {
                        return Ok(Attempt::Anew);
                    }
                    state.total = total.or(state.total);
                }
                _ => return Ok(Attempt::Anew),
            },
            // Nothing is left to send. Whether what is here is the file, only a digest can tell.
            416 if offset > 0 => {
                return Ok(match expect {
                    Expect::Sha256(_) => Attempt::Whole(address.to_owned()),
                    Expect::Anything => Attempt::Anew,
                });
            }
            200 => {
                // Ranges are not served here, or the file is another by now.
                offset = 0;
                state.total = answer
                    .header("content-length")
                    .and_then(|text| text.parse().ok());
            }
            _ => {
                let status = answer.status;
                return Err(answer.refusal().unwrap_or(FetchError::Status {
                    address: shown(address),
                    status,
                }));
            }
        }
        state.etag = answer.header("etag").map(Into::into).or(state.etag);
        state.last_modified = answer
            .header("last-modified")
            .map(Into::into)
            .or(state.last_modified);
        self.receive(path, offset, &state, answer)
    }

    /// That a file is longer than any; nothing of it stays.
    fn too_long(&self, path: &Path, from: &str) -> FetchError {
        let refused = FetchError::TooLong {
            address: shown(from),
            most: self.sources.patience.most,
        };
        discard(path).err().unwrap_or(refused)
    }

    fn receive(
        &self,
        path: &Path,
        offset: u64,
        state: &State,
        mut answer: Answer<'_>,
    ) -> Result<Attempt, FetchError> {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(FetchError::File(io::Error::other(
                "what is in the way of the download is not a file",
            )));
        }
        if state
            .total
            .is_some_and(|total| total > self.sources.patience.most)
        {
            return Err(self.too_long(path, &answer.address));
        }
        let mut file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(FetchError::File)?;
        file.set_len(offset).map_err(FetchError::File)?;
        file.seek(io::SeekFrom::Start(offset))
            .map_err(FetchError::File)?;
        write_state(path, state).map_err(FetchError::File)?;
        let from = answer.address.clone();
        let mut done = offset;
        let mut told = Instant::now();
        let tell = |done| {
            self.attendant.hear(News::Amount {
                done,
                total: state.total,
                unit: Unit::Bytes,
            });
        };
        tell(done);
        let mut buffer = vec![0; 128 * 1024];
        loop {
            let read = match answer.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if is_stop(&error) => return Err(FetchError::CalledOff),
                Err(error) => return Ok(Attempt::Broke(error.into())),
            };
            done += read as u64;
            if done > self.sources.patience.most {
                return Err(self.too_long(path, &from));
            }
            if let Err(error) = file.write_all(&buffer[..read]) {
                // A body without a length may have no end either: it does not keep the disk full.
                if error.kind() == io::ErrorKind::StorageFull && state.total.is_none() {
                    discard(path)?;
                }
                return Err(FetchError::File(error));
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                tell(done);
            }
        }
        tell(done);
        match state.total {
            Some(total) if done < total => Ok(Attempt::Broke(
                format!("{done} of {total} bytes came").into(),
            )),
            Some(total) if done > total => Ok(Attempt::Anew),
            _ => Ok(Attempt::Whole(from)),
        }
    }
}

/// The first byte and the length of the whole, out of `bytes 5-9/10`.
pub(crate) fn content_range(text: Option<&str>) -> Option<(u64, Option<u64>)> {
    let (range, total) = text?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.parse().ok()?, total.parse().ok()))
}

fn state_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// What is known of the download at a path; nothing where it was of another address.
fn read_state(path: &Path, address: &str) -> State {
    let address = shown(address);
    crate::store::read_small(&state_path(path))
        .and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok())
        .filter(|state| state.address == address)
        .unwrap_or(State {
            address,
            ..State::default()
        })
}

fn write_state(path: &Path, state: &State) -> io::Result<()> {
    let (path, text) = (
        state_path(path),
        serde_json::to_vec(state).map_err(io::Error::other)?,
    );
    // What is in the way may be a link that leads elsewhere.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    io::Write::write_all(&mut fs::File::create_new(path)?, &text)
}

fn file_length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn discard(path: &Path) -> Result<(), FetchError> {
    remove(path)?;
    remove(&state_path(path))
}

fn remove(path: &Path) -> Result<(), FetchError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FetchError::File(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_tells_its_first_byte_and_the_whole() {
        assert_eq!(content_range(Some("bytes 5-9/10")), Some((5, Some(10))));
        assert_eq!(content_range(Some("bytes 5-9/*")), Some((5, None)));
        assert_eq!(content_range(Some("lines 5-9/10")), None);
        assert_eq!(content_range(None), None);
    }

    #[test]
    fn a_weak_tag_vouches_for_nothing() {
        let mut state = State {
            etag: Some("W/\"a\"".into()),
            ..State::default()
        };
        assert_eq!(state.validator(), None);
        state.last_modified = Some("then".into());
        assert_eq!(state.validator(), Some("then"));
    }
}
