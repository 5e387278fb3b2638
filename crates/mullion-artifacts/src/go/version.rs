//! Versions of Go.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A released version of Go, such as 1.26.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoVersion {
    /// Always 1 so far.
    pub major: u32,
    /// The release.
    pub minor: u32,
    /// Its patch; 0 for a line without one.
    pub patch: u32,
}

/// The text is not a version of Go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of Go")]
pub struct GoVersionError(pub String);

impl FromStr for GoVersion {
    type Err = GoVersionError;

    /// Reads `1.26`, `1.26.8` and `go1.26.8`. A candidate (`1.26rc1`) counts as what came before it.
    fn from_str(text: &str) -> Result<Self, GoVersionError> {
        let bad = || GoVersionError(text.to_owned());
        let text = text.strip_prefix("go").unwrap_or(text);
        let digits = |part: &str| -> Result<(u32, bool), GoVersionError> {
            let end = part
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(part.len());
            let number = part[..end].parse().map_err(|_| bad())?;
            Ok((number, end < part.len()))
        };
        let mut parts = text.split('.');
        let mut next = || parts.next().map(digits).transpose();
        let (major, _) = next()?.ok_or_else(bad)?;
        let (minor, is_candidate) = next()?.ok_or_else(bad)?;
        let (patch, _) = next()?.unwrap_or((0, false));
        let minor = if is_candidate {
            minor.checked_sub(1).ok_or_else(bad)?
        } else {
            minor
        };
        Ok(Self {
            major,
            minor,
            patch,
        })
    }
}

impl Display for GoVersion {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let read = |text: &str| text.parse::<GoVersion>().unwrap();
        assert!(read("go1.26.11") > read("1.26.8"));
        assert!(read("1.26") == read("1.26.0"));
        assert!(read("1.26rc1") < read("1.26"));
        assert!("devel".parse::<GoVersion>().is_err());
    }
}
