//! What machines stand on: as they said, or as it is taken to be of one that says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use mullion_catalog::{Catalog, Place};
use mullion_plan::StepError;
use mullion_render::{Cgroups, Footing, Ground};
use mullion_spec::value::MachineName;
use mullion_spec::words::Driver;

use super::lock;

/// What is taken for a machine's ground where only a fingerprint is wanted: what differs by ground is not the
/// file's matter.
pub(super) const COMMON_GROUND: Ground = Ground {
    footing: Footing::Computer,
    cgroups: Cgroups::V2,
    can_raise_limits: true,
    has_swap: false,
    has_resolver: true,
};

/// The machines that were asked.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    found: Mutex<BTreeMap<MachineName, Ground>>,
    /// Those that did not say; held while one is asked, so that nobody asks beside.
    silent: Mutex<BTreeSet<MachineName>>,
}

impl Grounds {
    /// A machine has said what it stands on.
    pub(super) fn found(&self, machine: &MachineName, ground: Ground) {
        lock(&self.found).insert(machine.clone(), ground);
    }

    pub(super) fn knows(&self, machine: &MachineName) -> bool {
        lock(&self.found).contains_key(machine)
    }

    /// Asks a machine that has not said it yet, and one that does not answer only once: what is done for the rest of
    /// the cluster does not wait for it again and again.
    pub(super) fn ask_once(
        &self,
        machine: &MachineName,
        ask: impl FnOnce() -> Result<(), StepError>,
    ) {
        let mut silent = lock(&self.silent);
        if self.knows(machine) || silent.contains(machine) {
            return;
        }
        // One that is not fit has said what it stands on all the same.
        let _ = ask();
        if !self.knows(machine) {
            silent.insert(machine.clone());
        }
    }

    /// A new run begins, in which every machine may answer.
    pub(super) fn ask_anew(&self) {
        lock(&self.silent).clear();
    }

    /// A machine's ground. Of one that did not say, it is taken to be that of another machine which its driver makes on
    /// the same computer; `driver_of` says which driver a machine of the file has.
    pub(super) fn of(
        &self,
        machine: &MachineName,
        driver_of: impl Fn(&MachineName) -> Option<Driver>,
    ) -> Ground {
        let found = lock(&self.found);
        if let Some(ground) = found.get(machine) {
            return *ground;
        }
        let is_here =
            |driver: &Driver| Catalog::builtin().driver(*driver).place == Place::ThisComputer;
        let driver = driver_of(machine).filter(is_here);
        let mut beside = found
            .iter()
            .filter(|(other, _)| driver.is_some() && driver_of(other) == driver);
        beside.next().map_or(COMMON_GROUND, |(_, ground)| *ground)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mullion_plan::ErrorClass;

    use super::*;

    fn name(name: &str) -> MachineName {
        name.parse().unwrap()
    }

    fn driver_of(machine: &MachineName) -> Option<Driver> {
        match machine.as_str() {
            "old1" | "old2" => Some(Driver::Ssh),
            "gone1" => None,
            _ => Some(Driver::Nspawn),
        }
    }

    #[test]
    fn one_that_does_not_answer_is_asked_once_a_run() {
        let grounds = Grounds::default();
        let asked = Cell::new(0);
        let silent = || {
            asked.set(asked.get() + 1);
            Err(StepError::new(ErrorClass::Unreachable, "it is off"))
        };
        for _ in 0..3 {
            grounds.ask_once(&name("lin1"), silent);
        }
        assert_eq!(asked.get(), 1);
        grounds.ask_anew();
        grounds.ask_once(&name("lin1"), silent);
        assert_eq!(asked.get(), 2);
        // Others are asked all the same, and who has answered is not asked again, fit or not.
        for _ in 0..2 {
            grounds.ask_once(&name("lin2"), || {
                asked.set(asked.get() + 1);
                grounds.found(&name("lin2"), COMMON_GROUND);
                Err(StepError::new(ErrorClass::Refused, "it is not fit"))
            });
        }
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn one_that_says_nothing_stands_on_what_those_beside_it_do() {
        let grounds = Grounds::default();
        let of = |machine: &str| grounds.of(&name(machine), driver_of);
        let ours = Ground {
            footing: Footing::SystemContainer,
            cgroups: Cgroups::Hybrid,
            can_raise_limits: false,
            ..COMMON_GROUND
        };
        let theirs = Ground {
            has_swap: true,
            ..COMMON_GROUND
        };
        assert_eq!(of("lin1"), COMMON_GROUND);
        grounds.found(&name("old1"), theirs);
        assert_eq!(of("lin1"), COMMON_GROUND);
        grounds.found(&name("lin2"), ours);
        assert_eq!(of("lin1"), ours);
        // Machines that exist already are elsewhere, each on its own; of one that is not in the file nothing is known.
        for (machine, ground) in [
            ("old1", theirs),
            ("old2", COMMON_GROUND),
            ("gone1", COMMON_GROUND),
        ] {
            assert_eq!(of(machine), ground, "{machine}");
        }
    }
}
