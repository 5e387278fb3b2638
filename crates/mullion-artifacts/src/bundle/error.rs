//! Why a bundle could not be written or read.

use std::io;
use std::path::PathBuf;

use mullion_wire::Sha256Digest;

use super::Signer;
use crate::item::Item;
use crate::record::VERSION;

/// Why a bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It could not be opened, read or written.
    #[error("the bundle {} could not be used", file.display())]
    Io {
        /// The bundle.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not a bundle.
    #[error("{} is not a bundle: it has no index", file.display())]
    NotABundle {
        /// The file.
        file: PathBuf,
    },
    /// Its index names something twice.
    #[error("the bundle {} is damaged: its index names {item} twice", file.display())]
    Twice {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
    },
    /// Its index names a file that a cache cannot hold.
    #[error("the bundle {} is damaged: the file of {item} has a name that no cache has", file.display())]
    Name {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
    },
    /// It was written by a newer mullion.
    #[error("the bundle {} has version {found}, and {VERSION} is the newest known here", file.display())]
    Newer {
        /// The bundle.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It ends too early.
    #[error("the bundle {} is cut off: it ends before {item}", file.display())]
    CutOff {
        /// The bundle.
        file: PathBuf,
        /// The first item that is not whole.
        item: Box<Item>,
    },
    /// A file in it is not what the index says.
    #[error("the bundle {} is damaged: {item} has the SHA-256 {found}, but {expected} is in its index", file.display())]
    Damaged {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
        /// The digest in the index.
        expected: Sha256Digest,
        /// The digest of what is there.
        found: Sha256Digest,
    },
    /// Its signature is not of its index.
    #[error("the bundle {} is damaged: its signature is not of its index", file.display())]
    BadSignature {
        /// The bundle.
        file: PathBuf,
    },
    /// Nothing vouches for what is in it.
    #[error("the bundle {} vouches for itself: it is {signer}, and no digest of {item} is known here", file.display())]
    Unvouched {
        /// The bundle.
        file: PathBuf,
        /// The first item that nothing vouches for.
        item: Box<Item>,
        /// Who signed it.
        signer: Box<Signer>,
    },
    /// Another key was given than the one that it is signed with.
    #[error("the bundle {} is {signer}, and not by the key that was given", file.display())]
    OtherKey {
        /// The bundle.
        file: PathBuf,
        /// Who signed it.
        signer: Box<Signer>,
    },
    /// An item has another digest than what is known of it.
    #[error("{item} in the bundle {} has the SHA-256 {found}, but {known} is known by {by}", file.display())]
    NewDigest {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
        /// Its digest.
        found: Sha256Digest,
        /// The one that is known.
        known: Sha256Digest,
        /// Who says so.
        by: String,
    },
    /// Something that should go into it is not in the cache.
    #[error("{item} is not in the cache, so it cannot go into a bundle")]
    Missing {
        /// The item.
        item: Box<Item>,
    },
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

impl BundleError {
    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Unvouched { file, .. } | Self::OtherKey { file, .. } => {
                let file = file.display();
                vec![
                    format!(
                        "`mullion artifacts key` on the computer that wrote it prints its public key; then \
                         `mullion artifacts import {file} --bundle-key KEY`"
                    ),
                    format!("or hold it to a list of digests: `mullion artifacts import {file} --digests FILE`"),
                ]
            }
            Self::NewDigest { .. } => vec![
                "a version has one digest: do not use the bundle before you know why it has another".into(),
            ],
            _ => vec!["write the bundle again with `mullion artifacts bundle`".into()],
        }
    }
}
