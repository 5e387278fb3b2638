//! Which suites passed since the last change.
//!
//! A suite that passed before a change proves nothing about the cluster after it, whether the change ends, fails or is
//! killed. So the first changing step of a run forgets what was proven, before it changes anything: in the cluster,
//! for runs from other computers, and in the state, for a run that finds an API server that did not answer then. Where
//! the API server does not answer, later changing steps ask it again.

use std::collections::BTreeSet;
use std::time::Instant;

use mullion_plan::{ClusterFacts, ErrorClass, StepError};

use super::cluster::ANSWER;
use super::state::StateError;
use super::{Hands, lock};

/// After a request to an API server that did not answer, the run goes on for this many times as long as the request took
/// before it asks again: each request may wait for seconds, and so would every step.
const PAUSE: u32 = 10;

/// Whether a run changed something already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Changes {
    /// Not yet: what was proven holds.
    #[default]
    None,
    /// A change began. The state has no proofs any more, and the cluster may still have them.
    Begun {
        /// When the cluster may be asked to forget them, at the earliest.
        ask_at: Instant,
    },
    /// A change began, and neither the state nor the cluster has proofs from before it.
    Forgotten,
}

impl Hands<'_> {
    /// Forgets what was proven, once for each run of changes.
    pub(super) fn forget_proofs(&self) -> Result<(), StepError> {
        self.forget_proofs_by(|| {
            let Ok(api) = self.api() else {
                return false;
            };
            api.answers(ANSWER) && api.forget_proofs().is_ok()
        })
    }

    /// The same, where `forgets` asks the cluster to forget, and tells whether it did.
    fn forget_proofs_by(&self, forgets: impl FnOnce() -> bool) -> Result<(), StepError> {
        // Held meanwhile: no other step may change anything before it is written.
        let mut changes = lock(&self.changes);
        match *changes {
            Changes::Forgotten => return Ok(()),
            Changes::Begun { ask_at } if Instant::now() < ask_at => return Ok(()),
            Changes::Begun { .. } => {}
            Changes::None => self
                .state
                .keep_proofs(&BTreeSet::new())
                .map_err(|error| unkept(&error))?,
        }
        let asked = Instant::now();
        let has_forgotten = forgets();
        *changes = if has_forgotten {
            Changes::Forgotten
        } else {
            Changes::Begun {
                ask_at: Instant::now() + asked.elapsed() * PAUSE,
            }
        };
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use mullion_plan::{Action, Perform as _, Stage, Step, Unattended};
    use serde_json::json;

    use super::*;
    use crate::hands::made::Scene;

    const SUITE: &str = "smoke";

    fn step(action: Action) -> Step {
        let machine = Some("lin1".parse().unwrap());
        let why = "a test".into();
        Step::new(Stage::Machines, machine, action, why, Vec::new())
    }

    /// Cluster facts that call the suite proven.
    fn proven() -> ClusterFacts {
        let facts = json!({"id": "ours", "answers": true, "kubernetes": null, "proven": [SUITE]});
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn a_change_that_fails_forgets_what_was_proven_and_a_look_does_not() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let hands = scene.hands();
        let perform = |action| hands.perform(&step(action), &Unattended);
        let is_proven = || {
            let mut facts = proven();
            hands.doubt(&mut facts).unwrap();
            facts.proven.contains(SUITE)
        };
        assert!(
            is_proven(),
            "the cluster's own word counts before any change"
        );
        for _ in 0..2 {
            hands.keep_proof(SUITE).unwrap();
            // Nothing is there that either could look at or change.
            perform(Action::AwaitReady).unwrap_err();
            assert_eq!(scene.state().proofs().unwrap(), Some(proven().proven));
            assert!(is_proven());
            perform(Action::StartMachine).unwrap_err();
            assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
            assert!(!is_proven());
        }
        // The next run finds it so, and proves it again.
        let next = scene.hands();
        let mut facts = proven();
        next.doubt(&mut facts).unwrap();
        assert!(facts.proven.is_empty());
        next.keep_proof(SUITE).unwrap();
        assert!(is_proven());
    }

    #[test]
    fn undoing_a_step_forgets_what_was_proven() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let hands = scene.hands();
        hands.keep_proof(SUITE).unwrap();
        let machine = "lin1".parse().unwrap();
        let _ = hands.undo(&mullion_plan::Undo::StopMachine { machine }, &Unattended);
        assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
    }

    #[test]
    fn a_silent_api_server_is_asked_again_until_it_has_forgotten() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let hands = scene.hands();
        let asked = Cell::new(0);
        let change = |answer: bool| {
            let forgets = || {
                asked.set(asked.get() + 1);
                answer
            };
            hands.forget_proofs_by(forgets).unwrap();
            // It answered at once: the pause is a short one.
            if let Changes::Begun { ask_at } = *lock(&hands.changes) {
                std::thread::sleep(ask_at.saturating_duration_since(Instant::now()));
            }
            asked.get()
        };
        assert_eq!(
            [false, false, true, true, false].map(change),
            [1, 2, 3, 3, 3]
        );
        // What was proven since is forgotten in both places again.
        hands.keep_proof(SUITE).unwrap();
        assert_eq!([true, true].map(change), [4, 4]);
        assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
    }

    #[test]
    fn a_silent_api_server_does_not_hold_up_every_step() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let hands = scene.hands();
        let waits = || {
            std::thread::sleep(Duration::from_millis(300));
            false
        };
        hands.forget_proofs_by(waits).unwrap();
        let is_asked = || panic!("it is asked at the next step");
        hands.forget_proofs_by(is_asked).unwrap();
    }
}
