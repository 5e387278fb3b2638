//! What is changed in messages: pure functions, Windows' words in and Linux' words out, and back.
//!
//! Nothing here asks the machine, except where a path on the drive is: whoever makes the [`Map`] says how that is
//! found, since names on Windows have no case.

pub(super) mod command;
pub(super) mod container;
pub(super) mod image;
pub(super) mod resources;
pub(super) mod runtime;
pub(super) mod sandbox;
pub(super) mod stats;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tonic::Status;

use super::images::Images;
use super::version::OsVersion;
use crate::path::{DrivePath, PathError};

/// Where a path on the drive is on the machine.
type Locate = Arc<dyn Fn(&DrivePath) -> Result<String, PathError> + Send + Sync>;

/// What the mapping has to know.
pub struct Map {
    /// The drive's folder.
    drive: String,
    locate: Locate,
    /// The Windows that the machine stands in for.
    host: OsVersion,
    /// The processors of the machine.
    processors: i64,
    images: Images,
}

impl fmt::Debug for Map {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Map")
            .field("drive", &self.drive)
            .field("host", &self.host)
            .field("images", &self.images)
            .finish_non_exhaustive()
    }
}

impl Map {
    /// A mapping for one machine.
    pub fn new(
        drive: String,
        locate: impl Fn(&DrivePath) -> Result<String, PathError> + Send + Sync + 'static,
        host: OsVersion,
        processors: usize,
        images: Images,
    ) -> Self {
        Self {
            drive,
            locate: Arc::new(locate),
            host,
            processors: i64::try_from(processors).unwrap_or(1).max(1),
            images,
        }
    }

    /// The same with other images.
    pub(super) fn with_images(&self, images: Images) -> Self {
        Self {
            drive: self.drive.clone(),
            locate: Arc::clone(&self.locate),
            images,
            ..*self
        }
    }

    /// Which Windows images there are.
    pub(super) fn images(&self) -> &Images {
        &self.images
    }

    /// A path on the drive, as the machine names it. Nothing stays nothing.
    fn to_machine(&self, text: &str) -> Result<String, Refusal> {
        if text.is_empty() {
            return Ok(String::new());
        }
        Ok((self.locate)(&DrivePath::parse(text)?)?)
    }

    /// A path of the machine, as Windows names it; one that is not on the drive is left.
    fn to_windows(&self, path: &str) -> String {
        DrivePath::from_machine(&self.drive, path)
            .map_or_else(|| path.to_owned(), |path| path.windows())
    }
}

/// Why a call is not passed on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// A path that cannot be.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A mount that would hide a container's whole file system.
    #[error("nothing can be mounted at {0}: it is the container's whole drive")]
    WholeDrive(String),
    /// An image that has nothing for this host. In containerd's words, which people look for.
    #[error(
        "failed to pull and unpack image \"{image}\": no match for platform in manifest: windows/amd64 {host} is wanted, \
         {offered}: not found"
    )]
    NoMatch {
        /// The image.
        image: String,
        /// This host's Windows.
        host: OsVersion,
        /// What there is instead.
        offered: String,
    },
    /// A container of an image for another host. In Windows' words, which people look for.
    #[error(
        "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem {image}: The operating \
         system of the container does not match the operating system of the host. (0xc0370101)"
    )]
    OtherSystem {
        /// The image.
        image: String,
    },
    /// Something that a message must have.
    #[error("the request has no {0}")]
    Missing(&'static str),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::NoMatch { .. } => Self::not_found(message),
            Refusal::OtherSystem { .. } => Self::unknown(message),
            Refusal::Path(_) | Refusal::WholeDrive(_) | Refusal::Missing(_) => {
                Self::invalid_argument(message)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const IMAGES: &str = r#"
        [[image]]
        name = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
        local = "mullion.dev/nano:2022"
        os-version = "10.0.20348.3807"
        user = "ContainerUser"

        [[image]]
        name = "mcr.microsoft.com/windows/nanoserver:1809"
        local = "mullion.dev/nano:1809"
        os-version = "10.0.17763.1"

        [[image]]
        name = "nginx"
        linux = true
    "#;

    /// A mapping with a drive that only the text knows.
    pub(crate) fn map() -> Map {
        Map::new(
            "/srv/c".into(),
            |path| Ok(path.below("/srv/c")),
            OsVersion::of_build(20_348, 3807),
            4,
            Images::parse(IMAGES).unwrap(),
        )
    }

    #[test]
    fn paths_go_to_the_machine_and_back() {
        let map = map();
        for (windows, machine, back) in [
            (r"C:\var\log", "/srv/c/var/log", r"C:\var\log"),
            ("c:/var/log", "/srv/c/var/log", r"C:\var\log"),
            (r"\var\log", "/srv/c/var/log", r"C:\var\log"),
            (r"C:\..\..\etc", "/srv/c/etc", r"C:\etc"),
        ] {
            assert_eq!(map.to_machine(windows).as_deref(), Ok(machine), "{windows}");
            assert_eq!(map.to_windows(machine), back);
        }
        assert_eq!(map.to_machine("").as_deref(), Ok(""));
        assert_eq!(map.to_windows("/etc/hosts"), "/etc/hosts");
        for refused in [r"\\.\pipe\x", r"D:\x", "x", "C:\\a\0"] {
            let status: Status = map.to_machine(refused).unwrap_err().into();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{refused}");
        }
    }
}
