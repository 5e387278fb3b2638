//! Which suites passed since the last change.
//!
//! A suite that passed before a change proves nothing about the cluster after it, whether the change ends, fails or is
//! killed. So the first changing step of a run forgets what was proven, before it changes anything: in the cluster,
//! for runs from other computers, and in the state, for a run that finds an API server that did not answer then.

use std::collections::BTreeSet;

use mullion_plan::{ClusterFacts, ErrorClass, StepError};

use super::cluster::ANSWER;
use super::state::StateError;
use super::{Hands, lock};

/// Whether a run changed something already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Changes {
    /// Not yet: what was proven holds.
    #[default]
    None,
    /// A change began, and what was proven before is forgotten.
    Begun,
}

impl Hands<'_> {
    /// Forgets what was proven, once for each run of changes.
    pub(super) fn forget_proofs(&self) -> Result<(), StepError> {
        // Held meanwhile: no other step may change anything before it is written.
        let mut changes = lock(&self.changes);
        if *changes == Changes::Begun {
            return Ok(());
        }
        self.state
            .keep_proofs(&BTreeSet::new())
            .map_err(|error| unkept(&error))?;
        // An API server that is not there yet, or does not answer, is why the state has it too.
        if let Ok(api) = self.api()
            && api.answers(ANSWER)
        {
            let _ = api.forget_proofs();
        }
        *changes = Changes::Begun;
        Ok(())
    }

    /// Writes down that a suite passed: what is proven from here on holds until the next change.
    pub(super) fn keep_proof(&self, suite: &str) -> Result<(), StepError> {
        let mut changes = lock(&self.changes);
        let passed = self.state.proofs().map_err(|error| unkept(&error))?;
        let mut passed = passed.unwrap_or_default();
        passed.insert(suite.to_owned());
        self.state
            .keep_proofs(&passed)
            .map_err(|error| unkept(&error))?;
        *changes = Changes::None;
        Ok(())
    }

    /// Takes away what the cluster calls proven and a change of ours has put in doubt since.
    pub(super) fn doubt(&self, facts: &mut ClusterFacts) -> Result<(), StateError> {
        if let Some(passed) = self.state.proofs()? {
            facts.proven.retain(|suite| passed.contains(suite));
        }
        Ok(())
    }
}

fn unkept(error: &StateError) -> StepError {
    let words = "it cannot be written down which suites passed";
    StepError::new(ErrorClass::Refused, words).because(error)
}
