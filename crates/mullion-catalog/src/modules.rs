//! Go modules that programs are built from, each pinned by its sum.

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::digest::Digest;

/// `modules.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModulesFile {
    pub(crate) pin: Vec<ModulePin>,
}

/// A Go module of one version, and its sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModulePin {
    /// The module's path.
    pub module: String,
    /// Its version, with the `v`.
    pub version: String,
    /// The sum of its files.
    pub sum: Digest,
    /// Whether the public checksum database knows it; where not, the Go tool must be told so for it alone.
    pub database: bool,
    /// Where the sum comes from.
    pub source: String,
}

impl Catalog {
    /// The pin of a module; none where the version could not be had.
    pub fn module(&self, module: &str, version: &str) -> Option<&ModulePin> {
        self.modules()
            .find(|pin| pin.module == module && pin.version == version)
    }

    /// Every pin.
    pub fn modules(&self) -> impl Iterator<Item = &ModulePin> {
        self.modules.pin.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_a_go_sum() {
        for pin in Catalog::builtin().modules() {
            assert!(
                matches!(pin.sum, Digest::GoSum(_)),
                "{} {}",
                pin.module,
                pin.version
            );
            assert!(
                pin.version.starts_with('v'),
                "{} {}",
                pin.module,
                pin.version
            );
        }
    }
}
