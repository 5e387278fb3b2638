//! What is written down about a file of the cache.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::time::{SystemTime, UNIX_EPOCH};

use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::item::Item;

/// The version of records and of the bundle's index.
pub(crate) const VERSION: u32 = 1;

/// What is known of a file of the cache; it lies beside it as `record.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Record {
    /// The version of this document.
    pub version: u32,
    /// What it is.
    pub item: Item,
    /// The name of its file.
    pub file: String,
    /// Its digest.
    pub sha256: Sha256Digest,
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written, by the file system's word. A file with this size and time is not hashed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Modified>,
    /// Where it came from.
    pub origin: Origin,
    /// The file name of the bundle that carried it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_by: Option<String>,
    /// The sources of a cluster file that alone vouch for it, in words: it counts for files that name the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The Go modules in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// The names of the patches that were made to its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// The tools that made it, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
}

/// Where a file came from in the first place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Origin {
    /// Upstream's own place.
    Upstream {
        /// Its address.
        address: String,
        /// What vouches for it.
        witness: Witness,
    },
    /// A mirror.
    Mirror {
        /// Its address.
        address: String,
        /// What vouches for it.
        witness: Witness,
    },
    /// It was taken out of an archive.
    Archive {
        /// The archive.
        archive: Item,
        /// The archive's digest.
        sha256: Sha256Digest,
    },
    /// It was built from source here.
    Build,
    /// It was put together here from other parts.
    Made,
    /// Whoever called this gave it.
    Given,
}

/// What vouches for a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Witness {
    /// The catalog's digest.
    Catalog,
    /// Upstream's checksum file, pinned from now on.
    ChecksumFile,
    /// A list of digests that the user gave.
    DigestList,
    /// The record of a mirror that somebody filled from a cache, at its first use; pinned from now on.
    MirrorRecord,
    /// A mirror's own checksum file, at its first use; pinned from now on.
    MirrorChecksum,
    /// The manifest that a mirror's registry has under a tag, at its first use; pinned from now on.
    MirrorManifest,
    /// The image's manifest, whose digests name every blob.
    Manifest,
    /// Nothing but the connection it came over; pinned from now on.
    Connection,
}

/// A Go module that a program was built from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Module {
    /// Its path.
    pub path: String,
    /// Its version.
    pub version: String,
    /// Its `h1:` sum.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sum: String,
}

/// A moment, exactly as the file system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modified {
    /// Seconds since 1970.
    pub seconds: u64,
    /// And nanoseconds.
    pub nanos: u32,
}

impl Modified {
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        let since = metadata
            .modified()
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .duration_since(UNIX_EPOCH)
            .ok()?;
        Some(Self {
            seconds: since.as_secs(),
            nanos: since.subsec_nanos(),
        })
    }
}

/// A record whose file has not been hashed yet.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) item: Item,
    pub(crate) file: String,
    pub(crate) origin: Origin,
    pub(crate) modules: Vec<Module>,
    pub(crate) patches: Vec<String>,
    pub(crate) tools: BTreeMap<String, String>,
}

impl Draft {
    pub(crate) fn new(item: Item, file: impl Into<String>, origin: Origin) -> Self {
        Self {
            item,
            file: file.into(),
            origin,
            modules: Vec::new(),
            patches: Vec::new(),
            tools: BTreeMap::new(),
        }
    }

    pub(crate) fn finish(self, sha256: Sha256Digest, size: u64) -> Record {
        Record {
            version: VERSION,
            item: self.item,
            file: self.file,
            sha256,
            size,
            modified: None,
            origin: self.origin,
            carried_by: None,
            scope: None,
            modules: self.modules,
            patches: self.patches,
            tools: self.tools,
        }
    }
}
