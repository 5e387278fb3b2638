//! Windows versions, and which image runs on which.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// The long-lived builds that later ones stay compatible with, oldest first.
const STABLE: [u32; 2] = [20_348, 26_100];

/// A version as images and hosts state it: `10.0.20348.3807`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OsVersion {
    major: u32,
    minor: u32,
    build: u32,
    revision: u32,
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no Windows version: four numbers with dots, as in 10.0.20348.3807")]
pub struct NoVersion(String);

impl OsVersion {
    /// Windows 10 and everything since, of one build.
    pub fn of_build(build: u32, revision: u32) -> Self {
        Self {
            major: 10,
            minor: 0,
            build,
            revision,
        }
    }

    /// Its build.
    pub fn build(self) -> u32 {
        self.build
    }

    /// Whether a host of this version runs an image of that one without Hyper-V: the rule of Windows' own library. The
    /// revision never matters.
    pub(super) fn runs(self, image: Self) -> bool {
        if (self.major, self.minor) != (image.major, image.minor) {
            return false;
        }
        if self.build < STABLE[0] {
            return self.build == image.build;
        }
        let older = STABLE.iter().rev().find(|stable| **stable < self.build);
        let oldest = older.copied().unwrap_or(STABLE[0]);
        (oldest..=self.build).contains(&image.build)
    }
}

impl fmt::Display for OsVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            build,
            revision,
        } = self;
        write!(formatter, "{major}.{minor}.{build}.{revision}")
    }
}

impl FromStr for OsVersion {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let refused = || NoVersion(text.to_owned());
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        match numbers.map_err(|_| refused())?[..] {
            [major, minor, build] => Ok(Self {
                major,
                minor,
                build,
                revision: 0,
            }),
            [major, minor, build, revision] => Ok(Self {
                major,
                minor,
                build,
                revision,
            }),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for OsVersion {
    type Error = NoVersion;

    fn try_from(text: String) -> Result<Self, NoVersion> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_windows_own() {
        for (host, image, expected) in [
            ("10.0.17763.1", "10.0.17763.9999", true),
            ("10.0.17763.1", "10.0.14393.1", false),
            ("10.0.17763.1", "10.0.20348.1", false),
            ("10.0.20348.3807", "10.0.20348.1", true),
            ("10.0.20348.3807", "10.0.17763.1", false),
            ("10.0.20348.3807", "10.0.26100.1", false),
            ("10.0.22621.1", "10.0.20348.1", true),
            ("10.0.26100.1", "10.0.20348.1", true),
            ("10.0.26100.1", "10.0.26100.9", true),
            ("10.0.26100.1", "10.0.25398.1", true),
            ("10.0.26100.1", "10.0.17763.1", false),
            ("10.0.26200.1", "10.0.20348.1", false),
            ("10.0.20348.1", "6.3.20348.1", false),
        ] {
            let [host, image]: [OsVersion; 2] = [host, image].map(|text| text.parse().unwrap());
            assert_eq!(host.runs(image), expected, "{image} on {host}");
        }
    }

    #[test]
    fn a_version_is_four_numbers() {
        let version: OsVersion = "10.0.20348.3807".parse().unwrap();
        assert_eq!(version, OsVersion::of_build(20_348, 3807));
        assert_eq!(version.to_string(), "10.0.20348.3807");
        assert_eq!(
            "10.0.20348".parse(),
            Ok(OsVersion::of_build(20_348, 0)),
            "without its revision"
        );
        for text in ["", "10", "10.0.x.1", "10.0.1.2.3", "10.0.99999999999.1"] {
            assert!(text.parse::<OsVersion>().is_err(), "{text}");
        }
    }
}
