//! Kubernetes version numbers, exact and as wished for in the file.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A minor release, such as `1.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Minor {
    /// The first number: 1.
    pub major: u16,
    /// The second number: 36.
    pub minor: u16,
}

/// An exact release, such as `1.36.4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Patch {
    /// The minor release it belongs to.
    pub minor: Minor,
    /// The third number: 4.
    pub patch: u16,
}

/// The version as the file asks for it; the catalog turns it into a [`Patch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionWish {
    /// `latest`: the newest that the catalog knows.
    Latest,
    /// `"1.36"`: the patch that the catalog takes for a minor release.
    Minor(Minor),
    /// `"1.36.4"`: exactly this one.
    Patch(Patch),
}

/// The text is not a version number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version number like 1.36 or 1.36.4")]
pub struct VersionError(pub String);

impl Minor {
    /// `1.minor`.
    pub const fn one(minor: u16) -> Self {
        Self { major: 1, minor }
    }
}

/// Two or three numbers with dots between; a leading `v` is what people paste from release pages.
fn numbers(text: &str) -> Option<Vec<u16>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    text.split('.')
        .map(|part| {
            // `1.036` is no release, whatever the numbers say.
            let plain = (part == "0" || !part.starts_with('0'))
                && !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse().ok()).flatten()
        })
        .collect()
}

impl FromStr for VersionWish {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        match numbers(text).as_deref() {
            Some(&[major, minor]) => Ok(Self::Minor(Minor { major, minor })),
            Some(&[major, minor, patch]) => Ok(Self::Patch(Patch {
                minor: Minor { major, minor },
                patch,
            })),
            _ => Err(VersionError(text.into())),
        }
    }
}

impl FromStr for Minor {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        match text.parse()? {
            VersionWish::Minor(minor) => Ok(minor),
            _ => Err(VersionError(text.into())),
        }
    }
}

impl FromStr for Patch {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        match text.parse()? {
            VersionWish::Patch(patch) => Ok(patch),
            _ => Err(VersionError(text.into())),
        }
    }
}

impl Display for Minor {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl Display for Patch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.minor, self.patch)
    }
}

impl Display for VersionWish {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => out.write_str("latest"),
            Self::Minor(minor) => minor.fmt(out),
            Self::Patch(patch) => patch.fmt(out),
        }
    }
}

macro_rules! as_text {
    ($($name:ident),+) => {$(
        impl TryFrom<String> for $name {
            type Error = VersionError;
            fn try_from(text: String) -> Result<Self, VersionError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(version: $name) -> Self {
                version.to_string()
            }
        }
    )+};
}

as_text!(Minor, Patch);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_keeps_its_exactness() {
        assert_eq!("1.36".parse(), Ok(VersionWish::Minor(Minor::one(36))));
        assert_eq!(
            "v1.36.4".parse::<VersionWish>().unwrap().to_string(),
            "1.36.4"
        );
        assert_eq!("latest".parse(), Ok(VersionWish::Latest));
        for bad in [
            "",
            "1",
            "1.",
            "1.x",
            "1.36.4.5",
            "1.36.4-rc.1",
            "+1.36",
            "01.36",
            "1.036",
            "1.36.00",
            "1.99999999",
        ] {
            assert!(bad.parse::<VersionWish>().is_err(), "{bad}");
        }
    }

    #[test]
    fn versions_order_by_number_not_by_letter() {
        let patch = |text: &str| text.parse::<Patch>().unwrap();
        assert!(patch("1.36.10") > patch("1.36.9"));
        assert!(patch("1.36.0") > patch("1.9.12"));
    }
}
