//! Gives a driver root's file rights while it works, and only then.

use std::net::IpAddr;

use mullion_plan::{Attend, Identity};
use mullion_rights::as_root;
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Patience;

use crate::driver::{Capabilities, Driver, Look, Stop};
use crate::error::DriverError;
use crate::found::{Door, Found};
use crate::wish::{Hosts, MachineWish, NetworkWish};

/// A driver whose machines' files are root's.
pub(crate) struct AsRoot<D>(pub(crate) D);

impl<D: Look> Look for AsRoot<D> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        let _rights = as_root();
        self.0.find(cluster)
    }

    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError> {
        let _rights = as_root();
        self.0.door(cluster, machine)
    }

    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        lines: usize,
    ) -> Result<Vec<String>, DriverError> {
        let _rights = as_root();
        self.0.console_tail(cluster, machine, lines)
    }
}

impl<D: Driver> Driver for AsRoot<D> {
    fn make_network(&self, wish: &NetworkWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.make_network(wish, attendant)
    }

    fn remove_network(
        &self,
        cluster: &ClusterName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.remove_network(cluster, attendant)
    }

    fn make(&self, wish: &MachineWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.make(wish, attendant)
    }

    fn be_patient(&self, patience: Patience) {
        self.0.be_patient(patience);
    }

    fn start(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.start(cluster, machine, attendant)
    }

    fn claim(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.claim(cluster, machine, identity)
    }

    fn set_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.set_autostart(cluster, machine, autostart)
    }

    fn stop(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        how: Stop,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.stop(cluster, machine, how, attendant)
    }

    fn remove(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.remove(cluster, machine, attendant)
    }

    fn authorize(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        public_key: &str,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.authorize(cluster, machine, public_key)
    }

    fn set_hosts(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        hosts: &Hosts,
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.set_hosts(cluster, machine, hosts)
    }

    fn set_dns(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        servers: &[IpAddr],
    ) -> Result<(), DriverError> {
        let _rights = as_root();
        self.0.set_dns(cluster, machine, servers)
    }
}
