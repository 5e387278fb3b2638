//! The addresses that machines' agents told: in this run, and in the state folder those of earlier runs.
//!
//! A machine that does not answer keeps its addresses: no certificate gives them to another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use mullion_plan::{ErrorClass, StepError};
use mullion_spec::value::MachineName;
use serde::{Deserialize, Serialize};

use super::state::{ClusterState, StateError};
use super::{Adapter, lock};

/// The file that holds them.
pub(super) const ADDRESSES: &str = "addresses.json";

/// Lines such as `host0 10.99.0.11/24`, by machine.
type Lines = BTreeMap<MachineName, Vec<String>>;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    machines: Lines,
}

impl ClusterState {
    /// The addresses that each machine's agent told last.
    pub fn addresses(&self) -> Result<BTreeMap<MachineName, Vec<String>>, StateError> {
        let kept = self.read_versioned(ADDRESSES)?;
        Ok(kept.map(|kept: Kept| kept.machines).unwrap_or_default())
    }

    /// Keeps the addresses that each machine's agent told last.
    pub fn keep_addresses(
        &self,
        machines: BTreeMap<MachineName, Vec<String>>,
    ) -> Result<(), StateError> {
        self.keep_versioned(ADDRESSES, Kept { machines })
    }
}

/// The addresses that agents told in this run.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Held while they are written to the state folder.
    told: Mutex<Told>,
    /// The machines that could not be asked since the last connection to them.
    silent: Mutex<BTreeSet<MachineName>>,
}

#[derive(Debug, Default)]
struct Told {
    lines: Lines,
    /// Whether the state folder does not have all of them.
    is_unkept: bool,
}

impl Addresses {
    /// A machine's agent told its addresses.
    pub(super) fn told(&self, machine: &MachineName, lines: &[String]) {
        let mut told = lock(&self.told);
        if told.lines.get(machine).map(Vec::as_slice) != Some(lines) {
            told.lines.insert(machine.clone(), lines.to_vec());
            told.is_unkept = true;
        }
    }

    /// A machine could not be asked.
    pub(super) fn did_not_answer(&self, machine: &MachineName) {
        lock(&self.silent).insert(machine.clone());
    }

    /// There is a new connection to a machine, so that it can be asked.
    pub(super) fn is_connected(&self, machine: &MachineName) {
        lock(&self.silent).remove(machine);
    }

    /// What a machine told in this run. One that told nothing yet is asked, and one that could not be asked is left alone
    /// until there is a connection to it.
    pub(super) fn ask_once(
        &self,
        machine: &MachineName,
        ask: impl FnOnce() -> Result<(), StepError>,
    ) -> Option<Vec<String>> {
        let known = || lock(&self.told).lines.get(machine).cloned();
        let found = known();
        if found.is_some() || lock(&self.silent).contains(machine) {
            return found;
        }
        if ask().is_err() {
            self.did_not_answer(machine);
        }
        known()
    }

    /// Writes what was told to the state folder, where that has something else. Machines that are not wanted go.
    fn keep(
        &self,
        state: &ClusterState,
        is_wanted: impl Fn(&MachineName) -> bool,
    ) -> Result<(), StateError> {
        let mut told = lock(&self.told);
        if !told.is_unkept {
            return Ok(());
        }
        let kept = state.addresses()?;
        let mut all = kept.clone();
        all.extend(told.lines.clone());
        all.retain(|machine, _| is_wanted(machine));
        if all != kept {
            state.keep_addresses(all)?;
        }
        told.is_unkept = false;
        Ok(())
    }

    /// A machine is gone, or is the cluster's no more: its addresses are free.
    fn forget(&self, state: &ClusterState, machine: &MachineName) -> Result<(), StateError> {
        let mut told = lock(&self.told);
        told.lines.remove(machine);
        let mut kept = state.addresses()?;
        if kept.remove(machine).is_some() {
            state.keep_addresses(kept)?;
        }
        Ok(())
    }
}

fn unkept(error: &StateError) -> StepError {
    let words = "the addresses of the machines could not be kept";
    StepError::new(ErrorClass::Refused, words).because(error)
}

impl Adapter<'_> {
    /// Keeps the addresses that agents told in this run.
    pub(super) fn keep_addresses(&self) -> Result<(), StepError> {
        let basis = self.basis().ok();
        let is_wanted = |machine: &MachineName| {
            let wanted = basis.as_ref().map(|basis| &basis.roster.addresses);
            wanted.is_none_or(|wanted| wanted.iter().any(|(name, _)| name == machine))
        };
        let kept = self.addresses.keep(&self.state, is_wanted);
        kept.map_err(|error| unkept(&error))
    }

    /// Forgets the addresses of a machine that is gone, or is the cluster's no more.
    pub(super) fn forget_addresses(&self, machine: &MachineName) -> Result<(), StepError> {
        let forgotten = self.addresses.forget(&self.state, machine);
        forgotten.map_err(|error| unkept(&error))
    }

    /// The addresses that a machine's agent told in an earlier run.
    pub(super) fn kept_addresses(&self, machine: &MachineName) -> Result<Vec<String>, StepError> {
        let kept = self.state.addresses().map_err(|error| {
            let words = "the addresses that machines had cannot be read";
            StepError::new(ErrorClass::Refused, words).because(&error)
        })?;
        Ok(kept.get(machine).cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::made::Scene;
    use super::*;

    fn name(name: &str) -> MachineName {
        name.parse().unwrap()
    }

    fn lines(address: &str) -> Vec<String> {
        vec![format!("eth1 {address}/24")]
    }

    #[test]
    fn a_machine_that_does_not_answer_is_asked_once_until_there_is_a_connection() {
        let addresses = Addresses::default();
        let asked = Cell::new(0);
        let silent = || {
            asked.set(asked.get() + 1);
            Err(StepError::new(ErrorClass::Unreachable, "it is off"))
        };
        for _ in 0..3 {
            assert_eq!(addresses.ask_once(&name("lin1"), silent), None);
        }
        assert_eq!(asked.get(), 1);
        addresses.is_connected(&name("lin1"));
        let found = addresses.ask_once(&name("lin1"), || {
            asked.set(asked.get() + 1);
            addresses.told(&name("lin1"), &lines("192.0.2.7"));
            Ok(())
        });
        assert_eq!(found, Some(lines("192.0.2.7")));
        // What it told stays its own, also when it is off again.
        addresses.did_not_answer(&name("lin1"));
        assert_eq!(addresses.ask_once(&name("lin1"), silent), found);
        assert_eq!(asked.get(), 2);
        // One without an agent answers, and may have an agent soon.
        for _ in 0..2 {
            let found = addresses.ask_once(&name("lin2"), || {
                asked.set(asked.get() + 1);
                Ok(())
            });
            assert_eq!(found, None);
        }
        assert_eq!(asked.get(), 4);
    }

    #[test]
    fn addresses_are_kept_as_each_machine_told_them_last() {
        let scene = Scene::new("machines: {linux: 2}\n");
        let state = scene.state();
        let first = scene.adapter();
        first.keep_addresses().unwrap();
        assert!(!state.folder().exists(), "nothing was told");
        for machine in ["lin1", "lin2"] {
            first.addresses.told(&name(machine), &lines("192.0.2.7"));
        }
        first.keep_addresses().unwrap();
        let second = scene.adapter();
        second.addresses.told(&name("lin2"), &lines("192.0.2.8"));
        second.keep_addresses().unwrap();
        let all = |lin1: &str| [("lin1", lines(lin1)), ("lin2", lines("192.0.2.8"))];
        let all = |lin1| Lines::from(all(lin1).map(|(machine, lines)| (name(machine), lines)));
        assert_eq!(state.addresses().unwrap(), all("192.0.2.7"));
        second.forget_addresses(&name("lin2")).unwrap();
        let left = Lines::from([(name("lin1"), lines("192.0.2.7"))]);
        assert_eq!(state.addresses().unwrap(), left);
        assert_eq!(second.kept_addresses(&name("lin2")).unwrap(), [""; 0]);
    }

    #[test]
    fn promise_06_kept_addresses_that_cannot_be_read_are_an_error() {
        let scene = Scene::new("machines: {linux: 1}\n");
        let state = scene.state();
        state.keep_addresses(Lines::new()).unwrap();
        for text in ["", "[]", "{}", "{\"version\":1,\"machines\":{\"lin1\":1}}"] {
            fs_err::write(state.folder().join(ADDRESSES), text).unwrap();
            let error = state.addresses().unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{text}");
            let adapter = scene.adapter();
            assert!(adapter.kept_addresses(&name("lin1")).is_err(), "{text}");
            adapter.addresses.told(&name("lin1"), &lines("192.0.2.7"));
            assert!(adapter.keep_addresses().is_err(), "{text}");
        }
    }
}
