//! Windows revisions with a known fault.

use mullion_spec::words::{Cni, WindowsVersion};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;

/// `updates.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdatesFile {
    pub(crate) update: Vec<KnownBad>,
}

/// A range of revisions with a known fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownBad {
    /// The Windows release.
    pub release: WindowsVersion,
    /// The update that brought the fault, where one did.
    pub update: Option<String>,
    /// The first revision with the fault.
    pub first_bad: u32,
    /// The first revision without it.
    pub first_good: u32,
    /// The update that mends it, where one is known.
    pub fixed_by: Option<String>,
    /// The network plugins with which it shows; empty for all.
    pub cni: Vec<Cni>,
    /// What one sees.
    pub symptom: String,
    /// What to do about it.
    pub remedy: String,
    /// Where this was read.
    pub source: String,
}

impl KnownBad {
    /// Whether a revision of its release has the fault.
    pub fn covers(&self, revision: u32) -> bool {
        (self.first_bad..self.first_good).contains(&revision)
    }

    /// Whether the fault shows with a network plugin.
    pub fn shows_with(&self, cni: Cni) -> bool {
        self.cni.is_empty() || self.cni.contains(&cni)
    }
}

impl Catalog {
    /// The known faults of a revision, such as 2582 of `10.0.20348.2582`.
    pub fn known_bad(&self, version: WindowsVersion, revision: u32) -> Vec<&KnownBad> {
        let updates = self.known_bad_updates();
        updates
            .filter(|bad| bad.release == version && bad.covers(revision))
            .collect()
    }

    /// Every known fault.
    pub fn known_bad_updates(&self) -> impl Iterator<Item = &KnownBad> {
        self.updates.update.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_at_the_first_good_revision() {
        let bad = |revision| {
            Catalog::builtin()
                .known_bad(WindowsVersion::V2022, revision)
                .len()
        };
        assert_eq!([2581, 2582, 2761, 2762].map(bad), [0, 1, 1, 0]);
        assert!(
            Catalog::builtin()
                .known_bad(WindowsVersion::V2025, 2582)
                .is_empty()
        );
    }

    #[test]
    fn a_fault_of_one_network_plugin_does_not_show_with_another() {
        let faults = Catalog::builtin().known_bad(WindowsVersion::V2022, 2600);
        assert!(faults[0].shows_with(Cni::Calico));
        assert!(!faults[0].shows_with(Cni::Flannel));
    }
}
