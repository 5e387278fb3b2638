//! Machines that exist already: reached by SSH, and neither made nor removed.
//!
//! The driver knows what the file says of them and nothing else. Whether a machine is this cluster's is written
//! inside it, and found by whoever logs in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mullion_plan::{Attend, Identity, Power};
use mullion_spec::value::{Address, ClusterName, MachineName};
use mullion_wire::Patience;

use crate::driver::{Capabilities, Driver, Look, Privilege, Stop};
use crate::error::DriverError;
use crate::found::{Door, Found, Sighting};
use crate::wish::{Hosts, MachineWish, NetworkWish};

/// A cluster's machines that exist already.
#[derive(Debug, Clone)]
pub struct Existing {
    cluster: ClusterName,
    doors: BTreeMap<MachineName, Door>,
}

impl Existing {
    /// Those machines of that cluster, each with where to log in.
    pub fn new(cluster: ClusterName, doors: impl IntoIterator<Item = (MachineName, Door)>) -> Self {
        Self {
            cluster,
            doors: doors.into_iter().collect(),
        }
    }

    fn known(&self, cluster: &ClusterName, machine: &MachineName) -> Result<&Door, DriverError> {
        let door = (*cluster == self.cluster)
            .then(|| self.doors.get(machine))
            .flatten();
        door.ok_or_else(|| DriverError::NoMachine {
            cluster: cluster.clone(),
            machine: machine.clone(),
        })
    }
}

impl Look for Existing {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            makes_machines: false,
            networks: false,
            power: false,
            console: false,
            authorizes: false,
            sizes: false,
            privilege: Privilege::Anyone,
        }
    }

    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        let mut found = Found::default();
        if *cluster != self.cluster {
            return Ok(found);
        }
        for (machine, door) in &self.doors {
            let address = match door.address.parse() {
                Ok(Address::Ip(address)) => Some(address),
                _ => None,
            };
            let sighting = Sighting {
                // Nobody has looked inside yet, where its label is.
                ours: false,
                made: false,
                whole: true,
                power: Power::On,
                size: None,
                template: None,
                template_path: None,
                address,
                identity: None,
                autostart: None,
                trouble: None,
            };
            found.machines.insert(machine.clone(), sighting);
        }
        Ok(found)
    }

    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError> {
        self.known(cluster, machine).cloned()
    }

    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        _lines: usize,
    ) -> Result<Vec<String>, DriverError> {
        self.known(cluster, machine).map(|_| Vec::new())
    }
}

impl Driver for Existing {
    fn make_network(
        &self,
        _wish: &NetworkWish,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("make networks"))
    }

    fn remove_network(
        &self,
        _cluster: &ClusterName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("remove networks"))
    }

    fn make(&self, _wish: &MachineWish, _attendant: &dyn Attend) -> Result<(), DriverError> {
        Err(DriverError::Cannot("make machines"))
    }

    fn be_patient(&self, _patience: Patience) {}

    fn start(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("start machines"))
    }

    fn claim(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _identity: &Identity,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("label machines"))
    }

    fn set_autostart(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _autostart: bool,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("start machines"))
    }

    fn stop(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _how: Stop,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("stop machines"))
    }

    fn remove(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("remove machines"))
    }

    fn authorize(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _public_key: &str,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("put keys into machines"))
    }

    fn set_hosts(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _hosts: &Hosts,
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("put names into machines"))
    }

    fn set_dns(
        &self,
        _cluster: &ClusterName,
        _machine: &MachineName,
        _servers: &[IpAddr],
    ) -> Result<(), DriverError> {
        Err(DriverError::Cannot("put name servers into machines"))
    }
}
