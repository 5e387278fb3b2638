//! Which suites passed since the last change.
//!
//! A suite that passed before a change proves nothing about the cluster after it, whether the change ends, fails or is
//! killed. So the first changing step of a run forgets what was proven, before it changes anything: in the cluster,
//! for runs from other computers, and in the state, for a run that finds an API server that did not answer then. Where
//! the API server does not answer, later changing steps ask it again, and so do a suite before it begins and the run at
//! its end.

use std::collections::BTreeSet;
use std::time::Instant;

use mullion_plan::{ClusterFacts, ErrorClass, StepError};

use super::cluster::{ANSWER, refused};
use super::state::StateError;
use super::{Adapter, lock};

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

impl Adapter<'_> {
    /// Forgets what was proven, once for each run of changes.
    pub(super) fn forget_proofs(&self) -> Result<(), StepError> {
        self.forget_proofs_by(|| self.erase_proofs())
    }

    /// The cluster forgets what was proven before this run's changes, where it has not done so yet. The suite that begins
    /// may fail, and other computers must not find that it passed. An earlier run that ended, or was killed, while the API
    /// server was silent counts too.
    pub(super) fn forget_before(&self, suite: &str) -> Result<(), StepError> {
        let is_doubted = {
            let passed = self.state.proofs().map_err(|error| unkept(&error))?;
            passed.is_some_and(|passed| !passed.contains(suite))
        };
        self.forget_rest_by(is_doubted, || self.erase_proofs())
    }

    /// The same at the end of a run, however it ended. An API server that is still silent is asked by the next run.
    pub fn forget_at_end(&self) {
        let _ = self.forget_rest_by(false, || self.erase_proofs());
    }

    /// Removes from the cluster which suites passed.
    fn erase_proofs(&self) -> Result<(), StepError> {
        let api = self.api()?;
        if !api.answers(ANSWER) {
            let words = "the API server does not answer";
            return Err(StepError::new(ErrorClass::Unreachable, words));
        }
        api.forget_proofs().map_err(|error| {
            refused(
                "the cluster's record of suites that passed could not be removed",
                &error,
            )
        })
    }

    /// Asks the cluster to forget where a change began and it has not forgotten, without a pause. `is_doubted` where an
    /// earlier run left that to this one.
    fn forget_rest_by(
        &self,
        is_doubted: bool,
        forgets: impl FnOnce() -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let mut changes = lock(&self.changes);
        match *changes {
            Changes::Forgotten => return Ok(()),
            Changes::None if !is_doubted => return Ok(()),
            // Once the cluster has forgotten all suites, so must the state.
            Changes::None => self
                .state
                .keep_proofs(&BTreeSet::new())
                .map_err(|error| unkept(&error))?,
            Changes::Begun { .. } => {}
        }
        forgets()?;
        *changes = Changes::Forgotten;
        Ok(())
    }

    /// The same as [`Adapter::forget_proofs`], where `forgets` asks the cluster to forget.
    fn forget_proofs_by(
        &self,
        forgets: impl FnOnce() -> Result<(), StepError>,
    ) -> Result<(), StepError> {
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
        let has_forgotten = forgets().is_ok();
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
    use crate::made::Scene;

    const SUITE: &str = "smoke";

    fn step(action: Action) -> Step {
        let machine = Some("lin1".parse().unwrap());
        let why = "a test".into();
        Step::new(Stage::Machines, machine, action, why, Vec::new())
    }

    fn silent() -> Result<(), StepError> {
        Err(StepError::new(ErrorClass::Unreachable, "a test"))
    }

    /// Cluster facts that call the suite proven.
    fn proven() -> ClusterFacts {
        let facts = json!({"id": "ours", "answers": true, "kubernetes": null, "proven": [SUITE]});
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn a_change_that_fails_forgets_what_was_proven_and_a_look_does_not() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let adapter = scene.adapter();
        let perform = |action| adapter.perform(&step(action), &Unattended);
        let is_proven = || {
            let mut facts = proven();
            adapter.doubt(&mut facts).unwrap();
            facts.proven.contains(SUITE)
        };
        assert!(
            is_proven(),
            "the cluster's own word counts before any change"
        );
        for _ in 0..2 {
            adapter.keep_proof(SUITE).unwrap();
            // Nothing is there that either could look at or change.
            perform(Action::AwaitReady).unwrap_err();
            assert_eq!(scene.state().proofs().unwrap(), Some(proven().proven));
            assert!(is_proven());
            perform(mullion_testkit::start()).unwrap_err();
            assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
            assert!(!is_proven());
        }
        // The next run finds it so, and proves it again.
        let next = scene.adapter();
        let mut facts = proven();
        next.doubt(&mut facts).unwrap();
        assert!(facts.proven.is_empty());
        next.keep_proof(SUITE).unwrap();
        assert!(is_proven());
    }

    #[test]
    fn a_silent_api_server_is_asked_again_until_it_has_forgotten() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let adapter = scene.adapter();
        let asked = Cell::new(0);
        let change = |answer: bool| {
            let forgets = || {
                asked.set(asked.get() + 1);
                if answer { Ok(()) } else { silent() }
            };
            adapter.forget_proofs_by(forgets).unwrap();
            // It answered at once: the pause is a short one.
            if let Changes::Begun { ask_at } = *lock(&adapter.changes) {
                std::thread::sleep(ask_at.saturating_duration_since(Instant::now()));
            }
            asked.get()
        };
        assert_eq!(
            [false, false, true, true, false].map(change),
            [1, 2, 3, 3, 3]
        );
        // What was proven since is forgotten in both places again.
        adapter.keep_proof(SUITE).unwrap();
        assert_eq!([true, true].map(change), [4, 4]);
        assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
    }

    #[test]
    fn a_silent_api_server_does_not_hold_up_every_step() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let adapter = scene.adapter();
        let waits = || {
            std::thread::sleep(Duration::from_millis(300));
            silent()
        };
        adapter.forget_proofs_by(waits).unwrap();
        let is_asked = || panic!("it is asked at the next step");
        adapter.forget_proofs_by(is_asked).unwrap();
    }

    #[test]
    fn a_silent_api_server_is_asked_again_before_a_suite_and_at_the_end_of_a_run() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let adapter = scene.adapter();
        let is_asked = || panic!("nothing was changed");
        adapter.forget_rest_by(false, is_asked).unwrap();
        let waits = || {
            std::thread::sleep(Duration::from_millis(300));
            silent()
        };
        adapter.forget_proofs_by(waits).unwrap();
        // A changing step would not ask yet. One that is still silent fails the suite, and not the end of the run.
        assert_eq!(adapter.forget_rest_by(false, silent), silent());
        adapter.forget_at_end();
        let asked = Cell::new(0);
        for _ in 0..2 {
            let forgets = || {
                asked.set(asked.get() + 1);
                Ok(())
            };
            adapter.forget_rest_by(false, forgets).unwrap();
        }
        assert_eq!(asked.get(), 1, "once it has forgotten, it is not asked");
        assert_eq!(*lock(&adapter.changes), Changes::Forgotten);
    }

    #[test]
    fn a_suite_does_not_begin_while_the_cluster_may_hold_an_old_proof() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let adapter = scene.adapter();
        // There is no kubeconfig, so nobody can ask the cluster.
        assert_eq!(adapter.forget_before(SUITE), Ok(()), "nothing was changed");
        let _ = adapter.perform(&step(mullion_testkit::start()), &Unattended);
        assert!(adapter.forget_before(SUITE).is_err());
        // The run was killed, or ended, before the API server answered. The next one asks for it.
        assert!(scene.adapter().forget_before(SUITE).is_err());
        adapter.keep_proof(SUITE).unwrap();
        assert_eq!(scene.adapter().forget_before(SUITE), Ok(()));
        // The suite itself begins with that.
        scene
            .state()
            .keep_proofs(&["another".to_owned()].into())
            .unwrap();
        let verify = Action::Verify {
            rollouts: Vec::new(),
            suite: SUITE.into(),
        };
        scene
            .adapter()
            .perform(&step(verify), &Unattended)
            .unwrap_err();
        assert_eq!(scene.state().proofs().unwrap(), Some(BTreeSet::new()));
    }
}
