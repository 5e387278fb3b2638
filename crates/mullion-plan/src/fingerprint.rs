//! Fingerprints: how two states of a thing are told apart without keeping either.

use std::fmt::{self, Display, Formatter};

use mullion_wire::Sha256Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So many hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// The first 16 hexadecimal digits of a SHA-256 over a value's JSON.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a value: equal values have equal ones, on every computer.
    pub fn of(value: &impl Serialize) -> Self {
        Self::of_digest(&Sha256Digest::of_json(value))
    }

    /// The beginning of a digest.
    pub fn of_digest(digest: &Sha256Digest) -> Self {
        Self(digest.as_str().chars().take(DIGITS).collect())
    }

    /// The hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Fingerprint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_beginning_of_sha_256() {
        // printf '"abc"' | sha256sum
        assert_eq!(Fingerprint::of(&"abc").as_str(), "6cc43f858fbb7633");
    }
}
