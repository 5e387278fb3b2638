//! The drivers, asked by what they can do.

use std::collections::BTreeMap;

use mullion_machines::{Driver, DriverError};
use mullion_plan::{Place, Power};
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

    /// The driver of that word, for machines on a computer.
    pub(super) fn at(
        &self,
        place: &Place,
        word: words::Driver,
    ) -> Result<&dyn Driver, DriverError> {
        match place {
            Place::Here => self.get(word),
            Place::On(_) => Err(DriverError::Cannot("make machines on other computers")),
        }
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

    /// The machines that were made and run, but for one.
    pub(super) fn others_that_run(
        &self,
        cluster: &ClusterName,
        one: &MachineName,
    ) -> Result<Vec<(&dyn Driver, MachineName)>, DriverError> {
        let mut others = Vec::new();
        for (_, driver) in self.all() {
            for (machine, sighting) in driver.find(cluster)?.machines {
                let is_it = sighting.ours && sighting.made && sighting.whole && machine != *one;
                if is_it && sighting.power == Power::On {
                    others.push((driver, machine));
                }
            }
        }
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::Unattended;
    use mullion_testkit::driver::memory::Memory;

    use super::super::made::make;
    use super::*;

    #[test]
    fn drivers_are_as_patient_as_the_run() {
        let computer = Memory::new();
        let scene = super::super::made::Scene::new("machines: {linux: 1}\n");
        let drivers = [(words::Driver::Nspawn, Box::new(computer.clone()) as _)];
        scene.adapter_with(drivers.into()).be_patient(250);
        let expected = mullion_wire::Patience::of_hundredths(250);
        assert_eq!(computer.patience(), expected);
    }

    #[test]
    fn others_are_those_of_the_cluster_that_are_whole_and_run() {
        let (computer, network) = (Memory::new(), "10.1.0.0/24");
        let cluster: ClusterName = "a".parse().unwrap();
        let machine = |name: &str| name.parse::<MachineName>().unwrap();
        for name in ["cp1", "lin1", "lin2", "lin3"] {
            make(&computer, "a", network, name, "shared");
        }
        make(&computer, "b", "10.2.0.0/24", "lin4", "shared");
        for name in ["cp1", "lin2", "lin3"] {
            computer
                .start(&cluster, &machine(name), &Unattended)
                .unwrap();
        }
        computer.cut_off(&cluster, &machine("lin3"));
        let drivers = [(words::Driver::Nspawn, Box::new(computer) as _)];
        let drivers = Drivers::new(drivers.into());
        let others = drivers.others_that_run(&cluster, &machine("lin2")).unwrap();
        let names: Vec<_> = others.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, [machine("cp1")]);
    }
}
