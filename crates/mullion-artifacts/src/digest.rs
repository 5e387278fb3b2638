//! Hashing files, with somebody to ask whether to go on.

use std::io::{self, Read};
use std::path::Path;

use fs_err as fs;
use mullion_wire::Sha256Digest;

/// The digest and length of a file; `None` where whoever was asked said to stop.
///
/// `go_on` hears how many bytes are done.
pub(crate) fn hash_file(
    path: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> io::Result<Option<(Sha256Digest, u64)>> {
    let reader = Asking {
        inner: fs::File::open(path)?,
        go_on,
        done: 0,
        next: 0,
    };
    match Sha256Digest::of_reader(reader) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted || is_stop(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How often somebody is asked.
const EVERY: u64 = 8 << 20;

/// A reader that asks now and then whether to go on.
pub(crate) struct Asking<'a, R> {
    pub(crate) inner: R,
    pub(crate) go_on: &'a mut dyn FnMut(u64) -> bool,
    pub(crate) done: u64,
    pub(crate) next: u64,
}

/// The word by which a stopped copy is known.
#[derive(Debug, thiserror::Error)]
#[error("called off")]
pub(crate) struct Stopped;

pub(crate) fn is_stop(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Stopped>)
}

impl<R: Read> Read for Asking<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.done >= self.next {
            self.next = self.done + EVERY;
            if !(self.go_on)(self.done) {
                return Err(io::Error::other(Stopped));
            }
        }
        let read = self.inner.read(buffer)?;
        self.done += read as u64;
        Ok(read)
    }
}
