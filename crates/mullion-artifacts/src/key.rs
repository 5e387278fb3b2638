//! Keys that bundles are signed with: Ed25519.

use std::fmt::{self, Display, Formatter, Write as _};
use std::io;
use std::str::FromStr;

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// The scheme, in front of a public key in text.
const SCHEME: &str = "ed25519:";
const KEY_LENGTH: usize = 32;

/// The public key of a computer that writes bundles, as `ed25519:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_LENGTH]);

/// A text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a public key: it is `{SCHEME}` and 64 hexadecimal digits")]
pub struct PublicKeyError(String);

impl Display for PublicKey {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}", hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let refused = || PublicKeyError(text.to_owned());
        let digits = text.trim().strip_prefix(SCHEME).ok_or_else(refused)?;
        let bytes = unhex(digits).ok_or_else(refused)?;
        Ok(Self(bytes.try_into().map_err(|_| refused())?))
    }
}

impl PublicKey {
    /// Whether a signature of a message is this key's.
    pub(crate) fn signed(&self, message: &[u8], signature: &str) -> bool {
        let Some(signature) = unhex(signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(message, &signature).is_ok()
    }
}

/// The private key of this computer.
pub(crate) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key, and the bytes to keep of it.
    pub(crate) fn generate() -> io::Result<(Self, Vec<u8>)> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| io::Error::other("no random bytes could be had"))?;
        let bytes = document.as_ref().to_vec();
        Ok((Self::read(&bytes)?, bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> io::Result<Self> {
        let words = "the key that bundles are signed with cannot be read";
        let broken = |_| io::Error::new(io::ErrorKind::InvalidData, words);
        Ok(Self(Ed25519KeyPair::from_pkcs8(bytes).map_err(broken)?))
    }

    pub(crate) fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_LENGTH];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> String {
        hex(self.0.sign(message).as_ref())
    }
}

/// A text that nobody guesses.
pub(crate) fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("no random bytes could be had"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_key_and_one_message() {
        let (one, _) = SigningKey::generate().unwrap();
        let (two, bytes) = SigningKey::generate().unwrap();
        let signature = one.sign(b"message");
        assert!(one.public().signed(b"message", &signature));
        assert!(!one.public().signed(b"massage", &signature));
        assert!(!two.public().signed(b"message", &signature));
        assert!(!one.public().signed(b"message", "zz"));
        assert_eq!(SigningKey::read(&bytes).unwrap().public(), two.public());
        let text = two.public().to_string();
        assert_eq!(text.parse(), Ok(two.public()));
        for bad in [
            "",
            "ed25519:",
            "ed25519:00",
            &text[8..],
            &format!("{text}0"),
        ] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
    }
}
