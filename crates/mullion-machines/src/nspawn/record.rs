//! The record of what the kernel's settings were before the first machine.
//!
//! It lies in memory, as the settings do: a restart of the computer ends both. Older versions wrote the values alone,
//! as one object; such a record names no cluster and no network namespace.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mullion_spec::value::ClusterName;
use serde::{Deserialize, Serialize};

use super::kernel;
use super::place::remove;
use crate::error::DriverError;
use mullion_rights::{read_record, replace};

/// The namespace of settings that an older version changed, which did not write down where it did so.
const UNKNOWN: &str = "";

/// What is written down. Fields that this version does not know are a newer version's: such a record is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The clusters that need the settings, with the network namespace of each.
    pub(super) clusters: BTreeMap<ClusterName, String>,
    /// Settings that the whole computer shares.
    pub(super) settings: BTreeMap<String, Setting>,
    /// Settings that each network namespace has for itself.
    pub(super) networks: BTreeMap<String, BTreeMap<String, Setting>>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setting {
    /// What it was.
    pub(super) before: String,
    /// What we or a kubelet make of it.
    pub(super) ours: String,
}

impl Record {
    /// Reads it; an empty one where there is none.
    pub(super) fn read(path: &Path) -> Result<Self, DriverError> {
        let Some(bytes) = read_record(path)? else {
            return Ok(Self::default());
        };
        if let Ok(values) = serde_json::from_slice::<BTreeMap<String, String>>(&bytes) {
            let mut record = Self::default();
            record.networks.insert(UNKNOWN.into(), BTreeMap::new());
            for (name, before) in values {
                let ours = kernel::made_of(&name, &before);
                let setting = Setting { before, ours };
                record.of(&name, UNKNOWN).insert(name, setting);
            }
            return Ok(record);
        }
        serde_json::from_slice(&bytes).map_err(|cause| DriverError::Record {
            path: path.to_owned(),
            cause,
        })
    }

    /// Whether an older version wrote it first: clusters may be there that it does not name.
    pub(super) fn is_older(&self) -> bool {
        self.networks.contains_key(UNKNOWN)
    }

    /// Gives a namespace that an older version made a network in the settings that the older version changed there.
    ///
    /// One that has settings of its own in the record had no network before it was written down.
    pub(super) fn claim(&mut self, namespace: &str) {
        if !self.networks.contains_key(namespace)
            && let Some(unknown) = self.networks.get_mut(UNKNOWN)
        {
            let settings = std::mem::take(unknown);
            self.networks.insert(namespace.to_owned(), settings);
        }
    }

    /// Forgets network namespaces that are gone.
    pub(super) fn retain_networks(&mut self, is_there: impl Fn(&str) -> bool) {
        self.networks
            .retain(|namespace, _| namespace == UNKNOWN || is_there(namespace));
    }

    /// Where a setting is written down.
    pub(super) fn of(&mut self, name: &str, namespace: &str) -> &mut BTreeMap<String, Setting> {
        if name.starts_with("net/") {
            self.networks.entry(namespace.to_owned()).or_default()
        } else {
            &mut self.settings
        }
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<(), DriverError> {
        let text = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        Ok(replace(path, &draft(path), 0o644, |file| {
            file.write_all(&text)
        })?)
    }

    /// Writes it where there was one.
    pub(super) fn write_if_there(&self, path: &Path) -> Result<(), DriverError> {
        if *self == Self::default() {
            return Ok(());
        }
        self.write(path)
    }

    /// Removes it, and what a killed run left beside it.
    pub(super) fn remove(path: &Path) -> Result<(), DriverError> {
        remove(&draft(path))?;
        remove(path)
    }
}

fn draft(path: &Path) -> PathBuf {
    path.with_extension("new")
}
