//! How long the caller is ready to wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long `kubeadm init` and `kubeadm join` wait by default, by the names that `timeouts` of their configurations has for
/// it: `kubeadm.k8s.io/v1beta4`, since 1.31. `upgradeManifests` is left out, because neither command reads it.
pub const KUBEADM_TIMEOUTS: [(&str, Duration); 6] = [
    ("controlPlaneComponentHealthCheck", Duration::from_mins(4)),
    ("discovery", Duration::from_mins(5)),
    ("etcdAPICall", Duration::from_mins(2)),
    ("kubeletHealthCheck", Duration::from_mins(4)),
    ("kubernetesAPICall", Duration::from_mins(1)),
    ("tlsBootstrap", Duration::from_mins(5)),
];

/// How long deadlines are, in hundredths of the usual: more on a slow computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Patience(u32);

impl Default for Patience {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Patience {
    /// Neither more nor less.
    pub const USUAL: Self = Self(100);

    /// So many hundredths of the usual, within reason: from a tenth to a hundred times as long.
    pub fn of_hundredths(hundredths: u32) -> Self {
        Self(hundredths.clamp(10, 10_000))
    }

    /// A deadline for one who is so patient.
    pub fn times(self, usual: Duration) -> Duration {
        // What somebody else wrote is held to the same limits.
        usual.saturating_mul(Self::of_hundredths(self.0).0) / 100
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the form that serde asks for"
    )]
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_grow_and_shrink_within_reason() {
        let second = Duration::from_secs(1);
        assert_eq!(Patience::USUAL.times(second), second);
        assert_eq!(Patience::of_hundredths(250).times(second * 2), second * 5);
        assert_eq!(Patience(0).times(second), second / 10);
        assert_eq!(Patience(u32::MAX).times(second), second * 100);
        assert!(Patience::of_hundredths(99) < Patience::USUAL);
        assert!(Patience::of_hundredths(101) > Patience::USUAL);
    }
}
