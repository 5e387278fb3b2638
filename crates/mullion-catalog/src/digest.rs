//! Digests: what a downloaded file or a Go module is known by.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a file or a module is known by, or that nothing is known.
///
/// A digest enters the catalog only from a published record, from a go.sum or from a file that was hashed here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Digest {
    /// The SHA-256 of a file, in lower-case hexadecimal digits.
    Sha256(String),
    /// The `h1:` sum of a Go module, as a go.sum holds it, without the prefix.
    GoSum(String),
    /// Not known: it is pinned at the first fetch, from upstream's own checksum file where there is one.
    #[default]
    Unknown,
}

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest like `sha256:…`, `h1:…` or `unknown`")]
pub struct DigestError(pub String);

/// How well a digest is known, as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestState {
    /// A digest is pinned.
    Pinned,
    /// None is pinned yet.
    Unknown,
}

impl Digest {
    /// How well it is known.
    pub const fn state(&self) -> DigestState {
        match self {
            Self::Sha256(_) | Self::GoSum(_) => DigestState::Pinned,
            Self::Unknown => DigestState::Unknown,
        }
    }
}

impl DigestState {
    /// The word that lists show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Unknown => "unknown",
        }
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        match text.split_once(':') {
            None if text == "unknown" => Ok(Self::Unknown),
            Some(("sha256", sum)) if sum.len() == 64 && sum.bytes().all(hex) => {
                Ok(Self::Sha256(sum.into()))
            }
            Some(("h1", sum))
                if sum.len() == 44
                    && sum
                        .strip_suffix('=')
                        .is_some_and(|rest| rest.bytes().all(base64)) =>
            {
                Ok(Self::GoSum(sum.into()))
            }
            _ => Err(DigestError(text.into())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl Display for Digest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(sum) => write!(out, "sha256:{sum}"),
            Self::GoSum(sum) => write!(out, "h1:{sum}"),
            Self::Unknown => out.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_as_it_was_written() {
        for text in [
            "unknown".to_owned(),
            format!("sha256:{}", "0af9".repeat(16)),
            "h1:08GT0ZOMtyCcRnslyvnpWurf1wm20KHbC/aRS+0LxSo=".to_owned(),
        ] {
            assert_eq!(text.parse::<Digest>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_shortened_or_misspelt_digest_is_refused() {
        for bad in [
            "",
            "sha256:abc",
            "h1:abc=",
            "md5:0",
            "Unknown",
            "sha256:unknown",
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
        assert!(
            format!("sha256:{}", "0AF9".repeat(16))
                .parse::<Digest>()
                .is_err()
        );
    }
}
