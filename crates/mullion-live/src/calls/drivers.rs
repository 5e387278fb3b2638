//! A driver that records every call before it passes the call on, and whose machines are all logged in to on loopback.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use mullion_machines::{
    Capabilities, Door, Driver, DriverError, Found, Hosts, Look, MachineWish, NetworkWish, Stop,
};
use mullion_plan::{Attend, Identity};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words;
use mullion_wire::Patience;

use super::super::lock;

/// The calls of all drivers of a world, in order.
pub(super) type Calls = Arc<Mutex<Vec<String>>>;

/// A driver and the list that its calls go to.
pub(super) struct Recorded {
    pub(super) word: words::Driver,
    pub(super) driver: Box<dyn Driver>,
    pub(super) calls: Calls,
    /// Where every machine of it is logged in to.
    pub(super) door: Door,
}

impl Recorded {
    fn note(&self, call: &str) {
        lock(&self.calls).push(format!("{} {call}", self.word));
    }
}

impl Look for Recorded {
    fn capabilities(&self) -> Capabilities {
        self.driver.capabilities()
    }

    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        self.note(&format!("find {cluster}"));
        self.driver.find(cluster)
    }

    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError> {
        self.note(&format!("door {cluster} {machine}"));
        let _ = self.driver.door(cluster, machine)?;
        Ok(self.door.clone())
    }

    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        lines: usize,
    ) -> Result<Vec<String>, DriverError> {
        self.note(&format!("console_tail {cluster} {machine} {lines}"));
        self.driver.console_tail(cluster, machine, lines)
    }
}

impl Driver for Recorded {
    fn make_network(&self, wish: &NetworkWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        self.note(&format!("make_network {wish:?}"));
        self.driver.make_network(wish, attendant)
    }

    fn remove_network(
        &self,
        cluster: &ClusterName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.note(&format!("remove_network {cluster}"));
        self.driver.remove_network(cluster, attendant)
    }

    fn make(&self, wish: &MachineWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        self.note(&format!("make {wish:?}"));
        self.driver.make(wish, attendant)
    }

    fn be_patient(&self, patience: Patience) {
        self.note(&format!("be_patient {patience:?}"));
        self.driver.be_patient(patience);
    }

    fn start(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.note(&format!("start {cluster} {machine}"));
        self.driver.start(cluster, machine, attendant)
    }

    fn claim(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError> {
        self.note(&format!("claim {cluster} {machine} {identity:?}"));
        self.driver.claim(cluster, machine, identity)
    }

    fn set_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError> {
        self.note(&format!("set_autostart {cluster} {machine} {autostart}"));
        self.driver.set_autostart(cluster, machine, autostart)
    }

    fn stop(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        how: Stop,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.note(&format!("stop {cluster} {machine} {how:?}"));
        self.driver.stop(cluster, machine, how, attendant)
    }

    fn remove(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.note(&format!("remove {cluster} {machine}"));
        self.driver.remove(cluster, machine, attendant)
    }

    fn authorize(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        public_key: &str,
    ) -> Result<(), DriverError> {
        self.note(&format!("authorize {cluster} {machine} {public_key}"));
        self.driver.authorize(cluster, machine, public_key)
    }

    fn set_hosts(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        hosts: &Hosts,
    ) -> Result<(), DriverError> {
        self.note(&format!("set_hosts {cluster} {machine} {hosts:?}"));
        self.driver.set_hosts(cluster, machine, hosts)
    }

    fn set_dns(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        servers: &[IpAddr],
    ) -> Result<(), DriverError> {
        self.note(&format!("set_dns {cluster} {machine} {servers:?}"));
        self.driver.set_dns(cluster, machine, servers)
    }
}
