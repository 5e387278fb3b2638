//! SHA-256 digests of files and documents.

use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 in 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Digest(String);

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 in 64 hexadecimal digits")]
pub struct DigestError(pub String);

impl Sha256Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&Sha256::digest(bytes))
    }

    /// The digest of everything that a reader gives, and how much that was.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut length = 0;
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hash.update(&buffer[..read]);
            length += read as u64;
        }
        Ok((Self::from_hash(&hash.finalize()), length))
    }

    /// The digest of a document's JSON. Documents hold text, numbers, lists and sorted maps, all of which JSON can hold;
    /// any other value has the digest of the reason.
    pub fn of_json(document: &impl Serialize) -> Self {
        let mut hash = HashWriter(Sha256::new());
        match serde_json::to_writer(&mut hash, document) {
            Ok(()) => Self::from_hash(&hash.0.finalize()),
            Err(error) => Self::of(error.to_string().as_bytes()),
        }
    }

    fn from_hash(hash: &[u8]) -> Self {
        let mut text = String::with_capacity(64);
        for byte in hash {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Takes the digest of what is written.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FromStr for Sha256Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_hex) {
            Ok(Self(text.into()))
        } else {
            Err(DigestError(text.into()))
        }
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Sha256Digest> for String {
    fn from(digest: Sha256Digest) -> Self {
        digest.0
    }
}

impl Display for Sha256Digest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// A reader or writer that takes the digest of everything that goes through it.
pub struct Hashing<T> {
    inner: T,
    hash: Sha256,
    length: u64,
}

impl<T> Hashing<T> {
    /// Reads from there, or writes to there.
    pub fn new(inner: T) -> Self {
        let hash = Sha256::new();
        Self {
            inner,
            hash,
            length: 0,
        }
    }

    /// What is behind it, and the digest and length of what went through.
    pub fn finish(self) -> (T, Sha256Digest, u64) {
        let digest = Sha256Digest::from_hash(&self.hash.finalize());
        (self.inner, digest, self.length)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.take(&into[..read]);
        Ok(read)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.take(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn bytes_and_a_reader_of_them_have_one_digest() {
        let (digest, length) = Sha256Digest::of_reader(&b"abc"[..]).unwrap();
        assert_eq!((digest.as_str(), length), (OF_ABC, 3));
        assert_eq!(Sha256Digest::of(b"abc"), OF_ABC.parse().unwrap());
        let (mut reader, mut writer) = (Hashing::new(&b"abc"[..]), Hashing::new(Vec::new()));
        io::copy(&mut reader, &mut writer).unwrap();
        assert_eq!(reader.finish(), (&b""[..], digest.clone(), 3));
        assert_eq!(writer.finish(), (b"abc".to_vec(), digest, 3));
    }

    #[test]
    fn a_shortened_or_shouted_digest_is_refused() {
        for bad in ["", "ba78", &OF_ABC.to_uppercase()] {
            assert!(bad.parse::<Sha256Digest>().is_err(), "{bad}");
        }
    }
}
