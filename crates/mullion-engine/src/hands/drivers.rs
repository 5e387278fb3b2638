//! The drivers, asked by what they can do.

use std::collections::BTreeMap;

use mullion_machines::{Driver, DriverError};
use mullion_plan::Place;
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words;

/// Every driver that there is, by its word in the file.
pub(super) struct Drivers(BTreeMap<words::Driver, Box<dyn Driver>>);

impl Drivers {
    pub(super) fn new(drivers: BTreeMap<words::Driver, Box<dyn Driver>>) -> Self {
        Self(drivers)
    }

    /// Each, with its word.
    pub(super) fn all(&self) -> impl Iterator<Item = (words::Driver, &dyn Driver)> {
        self.0.iter().map(|(word, driver)| (*word, driver.as_ref()))
    }

    /// The driver of that word.
    pub(super) fn get(&self, word: words::Driver) -> Result<&dyn Driver, DriverError> {
        let driver = self.0.get(&word).map(AsRef::as_ref);
        driver.ok_or(DriverError::Cannot("be used in this release"))
    }

    /// The driver that makes networks on a computer.
    pub(super) fn network_maker(&self, place: &Place) -> Result<&dyn Driver, DriverError> {
        let mut makers = self
            .all()
            .filter(|(_, driver)| driver.capabilities().networks);
        match place {
            Place::Here => makers
                .next()
                .map(|(_, driver)| driver)
                .ok_or(DriverError::Cannot("make networks")),
            Place::On(_) => Err(DriverError::Cannot("make networks on other computers")),
        }
    }

    /// The driver that knows a machine by its label.
    pub(super) fn owner(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
    ) -> Option<words::Driver> {
        let knows = |driver: &dyn Driver| {
            let found = driver.find(cluster).ok()?;
            found
                .machines
                .get(machine)
                .filter(|sighting| sighting.ours)
                .map(|_| ())
        };
        let mut owners = self.all().filter(|(_, driver)| knows(*driver).is_some());
        owners.next().map(|(word, _)| word)
    }
}
