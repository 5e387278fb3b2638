//! Feature gates whose value is fixed.

use mullion_spec::version::Minor;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatesFile {
    pub(crate) gate: Vec<LockedGate>,
}

/// A feature gate that cannot be changed any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedGate {
    /// Its name.
    pub name: String,
    /// The first minor that locks it.
    pub locked_from: Minor,
    /// The value it is locked to.
    pub value: bool,
    /// Where this was read.
    pub source: String,
}

impl Catalog {
    /// The lock on a gate in a minor, where there is one.
    pub fn locked_gate(&self, name: &str, minor: Minor) -> Option<&LockedGate> {
        self.locked_gates()
            .find(|gate| gate.name == name && gate.locked_from <= minor)
    }

    /// Every locked gate.
    pub fn locked_gates(&self) -> impl Iterator<Item = &LockedGate> {
        self.gates.gate.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_free_before_it_is_locked() {
        let catalog = Catalog::builtin();
        assert!(catalog.locked_gate("WinDSR", Minor::one(33)).is_none());
        assert!(
            catalog
                .locked_gate("WinDSR", Minor::one(34))
                .is_some_and(|gate| gate.value)
        );
        assert!(catalog.locked_gate("NoSuchGate", Minor::one(36)).is_none());
    }
}
