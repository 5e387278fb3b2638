//! What the agent remembers of a Windows machine.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Definition, DynamicPorts, Sha256Digest, Windows};
use serde::{Deserialize, Serialize};

use crate::system::Account;
use crate::system::registry::Value;

/// What was changed, and what was there before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WindowsState {
    /// Values of the registry, by their place.
    pub(crate) values: BTreeMap<String, KeptValue>,
    /// Keys that were made for them.
    pub(crate) keys: BTreeSet<String>,
    /// Folders that were added to the machine's `Path`.
    pub(crate) path: BTreeSet<String>,
    /// Root authorities that were added to those that the machine trusts.
    pub(crate) authorities: BTreeSet<Sha256Digest>,
    /// Modes that files had before only the system and administrators might open them.
    pub(crate) modes: BTreeMap<String, u32>,
    /// Who might open folders that were there before us, and whose they were.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) folders: BTreeMap<String, String>,
    /// Services that were defined, with their definitions before; none for those that nobody knew.
    pub(crate) definitions: BTreeMap<String, Option<Definition>>,
    /// The accounts that they ran as before, where that was not the system itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) accounts: BTreeMap<String, Account>,
    /// What Windows kept of the failures of those that somebody had defined.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failures: BTreeMap<String, BTreeMap<String, Value>>,
    /// The host name before.
    pub(crate) host_name: Option<String>,
    /// The time zone before.
    pub(crate) time_zone: Option<String>,
    /// Dynamic ports before.
    pub(crate) ports: Vec<DynamicPorts>,
    /// The network of HNS that was made.
    pub(crate) network: Option<String>,
    /// Whether the agent is to go on by itself at the next start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_scheduled: bool,
}

impl WindowsState {
    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value of the registry as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptValue {
    pub(crate) key: String,
    pub(crate) name: String,
    /// None where there was no such value.
    pub(crate) value: Option<Value>,
    /// Whether it is read at the start of the machine only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) restart: bool,
}

/// What an applied blueprint asks of Windows, to be found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WindowsApplied {
    pub(crate) settings: Windows,
    pub(crate) definitions: BTreeMap<String, Definition>,
}
