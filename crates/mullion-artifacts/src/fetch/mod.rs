//! Downloads: over proxies and redirects, gone on with where they broke off.
//!
//! A request runs on a thread of its own and hands over what it receives, so that whoever waits can be called off at
//! any moment, whatever the network does.

mod download;
mod exchange;
mod way;

use std::error::Error;
use std::io;
use std::path::PathBuf;

use mullion_plan::Attend;
use mullion_wire::{Sha256Digest, login_of_address};

use crate::sources::Sources;

pub(crate) use download::{Expect, content_range};
pub(crate) use exchange::Answer;

/// Why something could not be downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nobody answered.
    #[error("{address} could not be reached")]
    Unreachable {
        /// What was asked for.
        address: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Nobody answered before, and it was not asked again.
    #[error("{host} could not be reached a moment ago, and was not asked again")]
    Lost {
        /// The host.
        host: String,
    },
    /// It is not there.
    #[error("{address} is not there")]
    NotFound {
        /// What was asked for.
        address: String,
    },
    /// The answer was another.
    #[error("{address} answered {status}")]
    Status {
        /// What was asked for.
        address: String,
        /// The status of the answer.
        status: u16,
    },
    /// It is not what it should be.
    #[error("{address} has the SHA-256 {found}, but {expected} is expected")]
    Digest {
        /// What was asked for.
        address: String,
        /// The digest that it should have.
        expected: Sha256Digest,
        /// The digest that it has.
        found: Sha256Digest,
    },
    /// The connection kept breaking.
    #[error("{address} broke off {times} times")]
    Broken {
        /// What was asked for.
        address: String,
        /// How often.
        times: u32,
        /// How, the last time.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It led from one place to the next without end, or to a place that is not followed.
    #[error("{address} leads to {to}, which is not followed")]
    Redirect {
        /// What was asked for.
        address: String,
        /// The last place.
        to: String,
    },
    /// An address is none.
    #[error("`{address}` is not an address")]
    Address {
        /// The text.
        address: String,
    },
    /// What came is longer than it may be, or not understood.
    #[error("{address} gave something else than {expected}")]
    Unexpected {
        /// What was asked for.
        address: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// What came is longer than any artifact.
    #[error("{address} has more than {most} bytes, more than any artifact")]
    TooLong {
        /// What was asked for.
        address: String,
        /// The most that a download may have.
        most: u64,
    },
    /// Nothing vouches for what would come.
    #[error("nothing vouches for what {address} has: it is not HTTPS, and no digest is known")]
    Unheld {
        /// The mirror.
        address: String,
    },
    /// A file with certificates could not be used.
    #[error("the certificates in {} could not be read", file.display())]
    Trust {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The download could not be written.
    #[error("the download could not be written")]
    File(#[source] io::Error),
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

impl FetchError {
    pub(crate) const fn is_called_off(&self) -> bool {
        matches!(self, Self::CalledOff)
    }

    /// Whether trying again in a while may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            Self::Broken { .. } => true,
            // A host that never answered will not do so in a second.
            _ => false,
        }
    }

    /// Whether the thing may well be had elsewhere: nothing about it was wrong.
    pub(crate) const fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Lost { .. }
                | Self::NotFound { .. }
                | Self::Status { .. }
                | Self::Broken { .. }
                | Self::Redirect { .. }
                | Self::Unexpected { .. }
                | Self::TooLong { .. }
                | Self::Unheld { .. }
        )
    }
}

/// Gets things over HTTP.
pub(crate) struct Fetch<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) attendant: &'a dyn Attend,
    /// What is said to be let in.
    authorization: Option<String>,
    way: way::Way,
}

impl<'a> Fetch<'a> {
    pub(crate) fn new(sources: &'a Sources, attendant: &'a dyn Attend) -> Self {
        Self {
            sources,
            attendant,
            authorization: None,
            way: way::Way::default(),
        }
    }

    /// From now on, says this to be let in.
    pub(crate) fn authorize(&mut self, words: String) {
        self.authorization = Some(words);
    }
}

/// An address as messages show it: without a login.
pub(crate) fn shown(address: &str) -> String {
    match login_of_address(address) {
        Some(login) => [&address[..login.start], &address[login.end + 1..]].concat(),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_an_address_is_not_shown() {
        assert_eq!(
            shown("https://me:secret@example.org/a@b"),
            "https://example.org/a@b"
        );
        assert_eq!(shown("http://example.org"), "http://example.org");
        // No host ends at an `@` of what is asked of it.
        assert_eq!(shown("http://example.org?a@b"), "http://example.org?a@b");
    }
}
