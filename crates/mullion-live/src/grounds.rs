//! What machines stand on, as they told last: kept in the state folder for the machines that do not answer.
//!
//! What runs on all nodes is rendered for what all of them stand on. A machine that is off for a day is no reason to render
//! it for the others alone.

use std::collections::BTreeMap;

use mullion_plan::{ErrorClass, Observed, StepError};
use mullion_render::Ground;
use mullion_spec::value::MachineName;
use serde::{Deserialize, Serialize};

use super::state::{ClusterState, StateError};
use super::{Adapter, lock};

/// The file that holds it.
pub(super) const GROUNDS: &str = "grounds.json";

type Grounds = BTreeMap<MachineName, Ground>;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    machines: Grounds,
}

/// What machines told in this run.
#[derive(Debug, Default)]
pub(super) struct Told {
    machines: Grounds,
    /// Whether the state folder may have something else.
    is_unkept: bool,
}

impl ClusterState {
    /// What each machine stood on when it told last.
    pub fn grounds(&self) -> Result<Grounds, StateError> {
        let kept = self.read_versioned(GROUNDS)?;
        Ok(kept.map(|kept: Kept| kept.machines).unwrap_or_default())
    }

    fn keep_grounds(&self, machines: Grounds) -> Result<(), StateError> {
        self.keep_versioned(GROUNDS, Kept { machines })
    }
}

impl Adapter<'_> {
    /// A machine has told what it stands on.
    pub(super) fn stands_on(&self, machine: &MachineName, ground: Ground) {
        let mut told = lock(&self.grounds);
        told.is_unkept |= told.machines.insert(machine.clone(), ground) != Some(ground);
    }

    /// Adds what machines of the file told last to facts in which they tell nothing.
    pub(super) fn recall_grounds(&self, observed: &mut Observed) -> Result<(), StateError> {
        let mut kept = self.state.grounds()?;
        kept.extend(lock(&self.grounds).machines.clone());
        let is_silent = |machine: &MachineName| {
            let facts = observed.machines.get(machine);
            facts.is_none_or(|facts| facts.ground.is_none())
        };
        kept.retain(|machine, _| self.group(machine).is_some() && is_silent(machine));
        observed.grounds = kept;
        Ok(())
    }

    /// Keeps what machines told in this run; those that the file no longer has go.
    pub(super) fn keep_grounds(&self) -> Result<(), StepError> {
        let mut told = lock(&self.grounds);
        if !told.is_unkept {
            return Ok(());
        }
        let keep = || {
            let kept = self.state.grounds()?;
            let mut all = kept.clone();
            all.extend(told.machines.clone());
            all.retain(|machine, _| self.group(machine).is_some());
            if all == kept {
                return Ok(());
            }
            self.state.keep_grounds(all)
        };
        keep().map_err(|error: StateError| {
            let words = "what the machines stand on could not be kept";
            StepError::new(ErrorClass::Refused, words).because(&error)
        })?;
        told.is_unkept = false;
        Ok(())
    }

    /// A machine is gone, or is made anew: what it stood on counts no more.
    pub(super) fn forget_ground(&self, machine: &MachineName) -> Result<(), StepError> {
        lock(&self.grounds).machines.remove(machine);
        let forget = || {
            let mut kept = self.state.grounds()?;
            if kept.remove(machine).is_none() {
                return Ok(());
            }
            self.state.keep_grounds(kept)
        };
        forget().map_err(|error: StateError| {
            let words = format!("what {machine} stood on could not be forgotten");
            StepError::new(ErrorClass::Refused, words).because(&error)
        })
    }
}

#[cfg(test)]
mod tests {
    use mullion_render::{Cgroups, Footing};

    use super::super::made::Scene;
    use super::*;

    #[test]
    fn a_machine_that_does_not_answer_stands_on_what_it_told_last() {
        let scene = Scene::new("machines: {linux: 2}\n");
        let name = |name: &str| name.parse::<MachineName>().unwrap();
        let ground = Ground {
            footing: Footing::SystemContainer,
            cgroups: Cgroups::Hybrid,
            can_raise_limits: false,
            has_swap: false,
            has_resolver: true,
        };
        let first = scene.adapter();
        first.stands_on(&name("lin1"), ground);
        first.stands_on(&name("gone1"), ground);
        first.keep_grounds().unwrap();
        let second = scene.adapter();
        let mut observed = Observed::default();
        second.recall_grounds(&mut observed).unwrap();
        assert_eq!(observed.grounds, [(name("lin1"), ground)].into());
        second.forget_ground(&name("lin1")).unwrap();
        scene.adapter().recall_grounds(&mut observed).unwrap();
        assert!(observed.grounds.is_empty());
    }
}
