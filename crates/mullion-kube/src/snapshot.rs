//! Reads the stream in which etcd sends a snapshot, and tells a whole one from one that was cut off.
//!
//! etcd sends the database in parts, each with the number of bytes of the database that follow. After the last one it
//! sends the SHA-256 digest of the database as a part of its own, which is not counted. `etcdutl snapshot restore` checks
//! the same digest.

use std::io::{self, Write};
use std::pin::Pin;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use k8s_openapi::ByteString;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::error::Cause;

/// The length of the digest at the end.
const DIGEST: usize = 32;
/// The database consists of pages, and every size of a page is a multiple of this.
const PAGE: u64 = 512;
/// The most bytes that a database may have: etcd's own advice is 8 GiB. Who sends more fills the disk.
const MOST: u64 = 16 << 30;
/// The longest line that is read. etcd sends parts of 32 KiB, which are 44 KiB in base64.
const LONGEST: u64 = 4 << 20;
/// The number at byte 16 of a database of etcd (bbolt), on machines of either kind of byte order.
const MAGIC: [[u8; 4]; 2] = [0xED0C_DAED_u32.to_le_bytes(), 0xED0C_DAED_u32.to_be_bytes()];

/// One line of the stream.
#[derive(Debug, Deserialize)]
struct Line {
    result: Option<Part>,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Part {
    /// How many bytes of the database come after this part, as a text. Left out where none do.
    #[serde(default)]
    remaining_bytes: Option<String>,
    #[serde(default)]
    blob: Option<ByteString>,
}

/// A snapshot that is being read.
pub(crate) struct Snapshot<'a> {
    out: &'a mut (dyn Write + Send),
    digest: Sha256,
    /// The first bytes, by which a database is known.
    head: Vec<u8>,
    /// The digest that etcd sent, once it came.
    sent: Option<Vec<u8>>,
    size: u64,
    remaining: Option<u64>,
}

impl<'a> Snapshot<'a> {
    /// One that is written there.
    pub(crate) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self {
            out,
            digest: Sha256::new(),
            head: Vec::new(),
            sent: None,
            size: 0,
            remaining: None,
        }
    }

    /// Reads one line; gives 0 at the end of the stream.
    pub(crate) async fn read_line(
        stream: &mut Pin<Box<impl AsyncBufRead>>,
        line: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let read = stream.take(LONGEST).read_until(b'\n', line).await?;
        if line.len() as u64 == LONGEST {
            return Err(io::Error::other("a line of the stream is too long"));
        }
        Ok(read)
    }

    /// Takes one line.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), Cause> {
        let line: Line = serde_json::from_slice(line).map_err(|error| Cause::of(&error))?;
        if let Some(error) = line.error {
            return Err(Cause::words(format!("etcd says: {error}")));
        }
        let part = line
            .result
            .ok_or_else(|| Cause::words("a part has no content"))?;
        let blob = part.blob.map(|blob| blob.0).unwrap_or_default();
        let remaining = part.remaining_bytes.as_deref().unwrap_or("0");
        let remaining: u64 = remaining
            .parse()
            .map_err(|_| Cause::words("a part does not say how many bytes follow"))?;
        if remaining > MOST {
            return Err(Cause::words("it is larger than any database of etcd"));
        }
        match self.remaining {
            Some(0) if self.sent.is_none() && blob.len() == DIGEST && remaining == 0 => {
                self.sent = Some(blob.clone());
            }
            Some(0) => return Err(Cause::words("more follows than there should be")),
            Some(before) if before != remaining.saturating_add(blob.len() as u64) => {
                return Err(Cause::words("a part is missing"));
            }
            _ => self.digest.update(&blob),
        }
        self.remaining = Some(remaining);
        self.out
            .write_all(&blob)
            .map_err(|error| Cause::of(&error))?;
        self.size += blob.len() as u64;
        let missing = 20_usize.saturating_sub(self.head.len());
        self.head.extend(blob.iter().take(missing));
        Ok(())
    }

    /// Its size, where all of it came and its digest is right.
    pub(crate) fn finish(self) -> Result<u64, Cause> {
        let refuse = |why: &str| Err(Cause::words(why));
        let Some(sent) = self.sent else {
            return refuse("the stream ended before the snapshot did");
        };
        if self.size % PAGE != DIGEST as u64 || self.size < PAGE {
            return refuse("it does not have the size of a snapshot");
        }
        if !MAGIC
            .iter()
            .any(|magic| self.head.get(16..20) == Some(magic))
        {
            return refuse("it is not a database of etcd");
        }
        if self.digest.finalize().as_slice() != sent {
            return refuse("its digest is not right");
        }
        Ok(self.size)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A database of so many pages, with its digest.
    fn whole(pages: usize) -> Vec<u8> {
        let mut bytes = vec![7; pages * 512];
        bytes[16..20].copy_from_slice(&MAGIC[0]);
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// The lines of etcd 3.6: the digest is not counted, and a zero is left out.
    fn lines(bytes: &[u8], part: usize) -> Vec<String> {
        let (database, digest) = bytes.split_at(bytes.len().saturating_sub(DIGEST));
        let mut remaining = database.len();
        let parts = database.chunks(part).chain([digest]).map(|blob| {
            remaining = remaining.saturating_sub(blob.len());
            let mut line =
                json!({"result": {"blob": ByteString(blob.to_vec()), "version": "3.6.0"}});
            if remaining > 0 {
                line["result"]["remaining_bytes"] = remaining.to_string().into();
            }
            line.to_string()
        });
        parts.collect()
    }

    fn read(lines: &[String]) -> Result<(u64, Vec<u8>), String> {
        let mut out = Vec::new();
        let mut snapshot = Snapshot::new(&mut out);
        for line in lines {
            let taken = snapshot.take(line.as_bytes());
            taken.map_err(|cause| cause.to_string())?;
        }
        let size = snapshot.finish().map_err(|cause| cause.to_string())?;
        Ok((size, out))
    }

    #[test]
    fn promise_04_a_whole_snapshot_is_taken_in_parts_of_any_length() {
        let bytes = whole(4);
        for part in [1, 31, 32, 33, 512, 5000] {
            let (size, out) = read(&lines(&bytes, part)).unwrap();
            assert_eq!((size, &out), (bytes.len() as u64, &bytes), "{part}");
        }
    }

    #[test]
    fn promise_04_a_snapshot_that_is_not_whole_is_refused() {
        let bytes = whole(4);
        let all = lines(&bytes, 100);
        for cut in 0..all.len() {
            assert!(read(&all[..cut]).is_err(), "{cut}");
        }
        let mut without_one = all.clone();
        without_one.remove(3);
        assert_eq!(read(&without_one).unwrap_err(), "a part is missing");
        let mut with_more = all.clone();
        with_more.extend(all.last().cloned());
        let words = "more follows than there should be";
        assert_eq!(read(&with_more).unwrap_err(), words);
        let mut changed = bytes.clone();
        changed[600] ^= 1;
        assert_eq!(
            read(&lines(&changed, 100)).unwrap_err(),
            "its digest is not right"
        );
        let mut other = vec![7; 512];
        other.extend_from_slice(&Sha256::digest(&other));
        assert_eq!(
            read(&lines(&other, 100)).unwrap_err(),
            "it is not a database of etcd"
        );
        assert!(read(&lines(&[], 100)).is_err());
        let error = [json!({"error": {"message": "no leader"}}).to_string()];
        assert!(read(&error).unwrap_err().contains("no leader"));
        let huge = json!({"result": {"remaining_bytes": (MOST + 1).to_string()}}).to_string();
        assert!(read(&[huge]).unwrap_err().contains("larger than any"));
        for line in ["", "{}", "[]", r#"{"result":{"remaining_bytes":"-1"}}"#] {
            assert!(read(&[line.to_owned()]).is_err(), "{line}");
        }
    }
}
