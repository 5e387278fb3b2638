//! The signature of a bundle's index, and whose it is.

use std::fmt::{self, Display, Formatter};
use std::io;

use serde::{Deserialize, Serialize};

use crate::key::{PublicKey, SigningKey};
use crate::ledger::Ledger;

/// Goes in front of what is signed, so that a signature of something else never fits.
const CONTEXT: &[u8] = b"mullion bundle index v1\n";

/// The signature, as it stands in a bundle behind the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    /// The public key.
    key: String,
    /// The signature of the index.
    signature: String,
}

/// Who signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signer {
    /// Nobody.
    Nobody,
    /// This computer.
    ThisComputer(PublicKey),
    /// Another computer, whose key the user trusts.
    Trusted(PublicKey),
    /// Another computer.
    Unknown(PublicKey),
}

impl Signer {
    /// Whether what the bundle says of itself counts here.
    pub const fn is_trusted(&self) -> bool {
        matches!(self, Self::ThisComputer(_) | Self::Trusted(_))
    }

    /// The key, where there is one.
    pub const fn key(&self) -> Option<&PublicKey> {
        match self {
            Self::Nobody => None,
            Self::ThisComputer(key) | Self::Trusted(key) | Self::Unknown(key) => Some(key),
        }
    }
}

impl Display for Signer {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => out.write_str("not signed"),
            Self::ThisComputer(key) => write!(out, "signed by this computer, {key}"),
            Self::Trusted(key) => write!(out, "signed by {key}, which is trusted here"),
            Self::Unknown(key) => write!(out, "signed by {key}, which is not known here"),
        }
    }
}

fn message(index: &[u8]) -> Vec<u8> {
    [CONTEXT, index].concat()
}

impl Seal {
    pub(super) fn new(key: &SigningKey, index: &[u8]) -> Self {
        Self {
            key: key.public().to_string(),
            signature: key.sign(&message(index)),
        }
    }

    /// The key that signed an index; none where the signature is not of this index.
    pub(super) fn key(&self, index: &[u8]) -> Option<PublicKey> {
        let key: PublicKey = self.key.parse().ok()?;
        key.signed(&message(index), &self.signature).then_some(key)
    }
}

/// What a key is worth here.
pub(super) fn signer(key: PublicKey, ledger: Option<&Ledger>) -> io::Result<Signer> {
    let Some(ledger) = ledger else {
        return Ok(Signer::Unknown(key));
    };
    Ok(if ledger.own_key()?.as_ref() == Some(&key) {
        Signer::ThisComputer(key)
    } else if ledger.trusts(&key)? {
        Signer::Trusted(key)
    } else {
        Signer::Unknown(key)
    })
}
