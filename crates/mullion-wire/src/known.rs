//! What is known of large files as long as they look the same: kept beside the agent's state, and laid into templates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;

/// The name of the document in the agent's state folder.
pub const KNOWN_FILES: &str = "digests.json";

/// What is known of large files, by path. Only ever a help: without it everything is read anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KnownFiles {
    /// Each file.
    pub files: BTreeMap<String, KnownFile>,
}

/// What is known of one file, while its size, time and number are these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownFile {
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// The file's own number.
    pub number: u64,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256Digest>,
    /// What the program said of its version, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
