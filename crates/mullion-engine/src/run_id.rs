//! Names of runs: by time, so that they sort, with a few random digits, so that they differ.

use std::fmt::{self, Display, Formatter};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Names one run, such as `20260107-085730123-4f2a`: the later run has the greater name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// A text that names no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a run")]
pub struct RunIdError(pub String);

impl RunId {
    /// The name of a run that begins now.
    pub fn new(now: Timestamp) -> Self {
        // Seeded by the system anew each time: all the chance that is needed here.
        let chance = RandomState::new().build_hasher().finish() & 0xffff;
        Self(format!("{}-{chance:04x}", now.strftime("%Y%m%d-%H%M%S%3f")))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    /// A name becomes a part of a path: nothing but digits, letters and hyphens gets in.
    fn from_str(text: &str) -> Result<Self, RunIdError> {
        let is_fine = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-');
        if text.len() == 23 && text.bytes().all(is_fine) {
            Ok(Self(text.into()))
        } else {
            Err(RunIdError(text.into()))
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;
    fn try_from(text: String) -> Result<Self, RunIdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl Display for RunId {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_differ_and_can_be_read_again() {
        let at = |text: &str| RunId::new(text.parse().unwrap());
        let earlier = at("2026-01-07T08:57:30.123Z");
        assert!(earlier.as_str().starts_with("20260107-085730123-"));
        assert!(earlier < at("2026-01-07T08:57:30.124Z"));
        assert!(earlier < at("2026-10-07T00:00:00Z"));
        assert_eq!(earlier.as_str().parse(), Ok(earlier));
        let moment = "2026-01-07T08:57:30Z";
        let names: std::collections::BTreeSet<_> = (0..20).map(|_| at(moment)).collect();
        assert!(names.len() > 15, "{names:?}");
    }

    #[test]
    fn what_is_no_name_never_becomes_a_path() {
        for text in [
            "",
            "..",
            "20260107-085730123-../.",
            "20260107-085730123-4F2A",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
