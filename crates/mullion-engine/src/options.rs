//! What a run may be told: how many workers, which limits, how patient.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use mullion_plan::{Place, StepId};
use mullion_spec::cluster::{Carrier, Cluster};
use mullion_spec::value::MachineName;

use crate::limits::Limits;
use crate::policy::Policy;

/// Who performs the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Up to so many threads.
    Many(NonZeroUsize),
    /// The caller's thread, one step after another, in an order that the seed decides: the same seed, port and
    /// clock give the same run.
    One,
}

/// How a run is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who performs the steps.
    pub workers: Workers,
    /// How many steps of each kind go on at once.
    pub limits: Limits,
    /// What is tried again.
    pub policy: Policy,
    /// Decides the pauses between tries, and the order of steps with [`Workers::One`].
    pub seed: u64,
    /// The host of each machine that we make, as [`places`] gives them; others are their own.
    pub places: BTreeMap<MachineName, Place>,
    /// The fetching steps that build from source: nobody but the port knows.
    pub builds: BTreeSet<StepId>,
    /// How long steps have to end after the run was called off twice.
    pub grace: Duration,
    /// What to type to go on after a run that did not end well.
    pub again: String,
}

impl Options {
    /// What is sensible on a computer with so many cores.
    pub fn for_cores(cores: NonZeroUsize) -> Self {
        // Threads that perform a step mostly wait for somebody else's answer.
        let workers = cores.saturating_mul(FOUR).max(LEAST).min(MOST);
        Self {
            workers: Workers::Many(workers),
            limits: Limits::for_cores(cores),
            policy: Policy::default(),
            seed: 0,
            places: BTreeMap::new(),
            builds: BTreeSet::new(),
            grace: Duration::from_secs(3),
            again: "mullion up".into(),
        }
    }

    /// What is sensible on this computer.
    pub fn for_this_computer() -> Self {
        Self::for_cores(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// With deadlines so many hundredths as long as the tables say.
    #[must_use]
    pub const fn patient(mut self, hundredths: u32) -> Self {
        self.policy.patience = hundredths;
        self
    }
}

/// How patient a run is on a computer with that load, in hundredths of what the tables say.
///
/// As many programs that want to run as there are processors slow nobody down; with more, everything takes as much
/// longer as there are more of them. Beyond four times it is not the load that keeps a step from its end.
pub fn patience_under(load: f64, cores: NonZeroUsize) -> u32 {
    let each = load / f64::from(u32::try_from(cores.get()).unwrap_or(u32::MAX));
    if each.is_nan() || each <= EASY {
        return 100;
    }
    // Between 100 and 400, and so in range.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is between 100 and 400"
    )]
    let hundredths = (each.clamp(1.0, 4.0) * 100.0) as u32;
    hundredths
}

/// So many programs for each processor leave everybody enough.
const EASY: f64 = 1.25;

const FOUR: NonZeroUsize = NonZeroUsize::new(4).unwrap();
const LEAST: NonZeroUsize = NonZeroUsize::new(16).unwrap();
const MOST: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// The hosts of a cluster's machines that we make.
pub fn places(cluster: &Cluster) -> BTreeMap<MachineName, Place> {
    let place = |machine: mullion_spec::cluster::Machine<'_>| match &machine.group.carrier {
        Carrier::Made { host, .. } => Some((machine.name, Place::from(host.as_ref()))),
        Carrier::Existing { .. } => None,
    };
    cluster.machines().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_computer_gets_more_time_within_reason() {
        let cores = |number| NonZeroUsize::new(number).unwrap();
        for (load, number, patience) in [
            (0.0, 2, 100),
            (2.5, 2, 100),
            (3.0, 2, 150),
            (7.0, 2, 350),
            (90.0, 2, 400),
            (7.0, 8, 100),
            (f64::NAN, 2, 100),
        ] {
            assert_eq!(
                patience_under(load, cores(number)),
                patience,
                "{load} on {number}"
            );
        }
    }

    #[test]
    fn more_cores_give_more_hands_within_reason() {
        let many = |cores| match Options::for_cores(NonZeroUsize::new(cores).unwrap()).workers {
            Workers::Many(number) => number.get(),
            Workers::One => 1,
        };
        assert_eq!([1, 2, 8, 1000].map(many), [16, 16, 32, 128]);
    }
}
