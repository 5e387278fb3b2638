//! The drivers' contract.
//!
//! A driver carries machines: it makes them, starts and stops them, takes them away, and finds them again. Two
//! traits, so that whoever only looks cannot change: [`Look`] has no verb that writes, [`Driver`] has the
//! rest. What a driver can do at all is a value, [`Capabilities`]; nobody asks which driver it is.
//!
//! What holds for every driver, and the suite in `mullion-testkit` checks:
//!
//! - **Labels.** Everything that a driver makes carries the cluster's name, on the thing itself. [`Look::find`]
//!   works from the labels alone: with every state folder gone, for machines that no file names any more, after
//!   a restart of the computer. What lacks the label is never changed or removed.
//! - **Whose it is.** Beside the name a label has the cluster's id; labels of older versions have none. A machine or a
//!   network whose label has another id is refused. One whose label cannot be read, or was written by a newer version,
//!   is found with its trouble, and every verb refuses it: it is neither missing nor unfinished. [`Driver::claim`] and
//!   [`Driver::make_network`] add the id where a label has none, and never replace one.
//! - **Order.** Network, then machines; make, then start; stop, then remove; machines, then network. A verb
//!   whose base is missing is refused and changes nothing. [`Driver::remove`] may be called at any time and
//!   stops a machine that runs; [`Driver::remove_network`] refuses while machines are there.
//! - **Already so.** Where things are as the verb wants them, it is success and changes nothing: a machine made
//!   from the same template with the same size and address, a running machine that is started, a stopped one
//!   that is stopped, one that is not there and is removed. A machine of the name that is *another* one is
//!   refused: [`DriverError::Different`].
//! - **Whole or not.** A machine whose making was cut off is found with `whole: false`, can be removed, and is
//!   made anew by [`Driver::make`]. It cannot be started.
//! - **Cancellation.** A verb that hears that it is called off ends with [`DriverError::CalledOff`] where it can be
//!   repeated. A process that is killed in the middle leaves what can be found, made again and removed.
//! - **Concurrency.** Verbs for different machines, of one cluster or of several, may run at once, in one
//!   process or in several. Verbs for one machine take turns: the caller sees to that, as it does for the
//!   network of one cluster.
//! - **Time.** No verb waits for what a machine does inside: [`Driver::start`] ends when the machine runs.
//!   Whether it can be logged in to is for the caller to try.

use std::net::IpAddr;

use mullion_plan::{Attend, Identity};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Patience;

use crate::error::DriverError;
use crate::found::{Door, Found};
use crate::wish::{Hosts, MachineWish, NetworkWish};

/// Who may use a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Root alone.
    Root,
    /// Anybody.
    Anyone,
}

/// What a driver can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own: every combination is a driver"
)]
pub struct Capabilities {
    /// It makes and removes machines; else they are there already.
    pub makes_machines: bool,
    /// It makes networks for them.
    pub networks: bool,
    /// It starts and stops them.
    pub power: bool,
    /// It keeps what they write to their consoles.
    pub console: bool,
    /// It can put a login key into a machine from outside.
    pub authorizes: bool,
    /// It keeps to the size that was asked for.
    pub sizes: bool,
    /// Who may call the verbs that change.
    pub privilege: Privilege,
}

/// How a machine is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is asked to shut down, and ended when it does not.
    Graceful,
    /// It is ended.
    AtOnce,
}

/// Looks at machines, and changes nothing.
pub trait Look: Send + Sync {
    /// What the driver can do.
    fn capabilities(&self) -> Capabilities;

    /// Everything that carries the cluster's label, and what is in its way.
    ///
    /// Two calls in a row give equal answers. Half-made machines are told too.
    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError>;

    /// Where to log in to a machine, and the host key to expect. The machine need not run.
    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError>;

    /// The last lines that a machine wrote to its console; none where the driver keeps none. Refused where the machine
    /// is not there.
    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        lines: usize,
    ) -> Result<Vec<String>, DriverError>;
}

/// Carries machines. The contract stands in the module's documentation.
pub trait Driver: Look {
    /// The cluster's machine network is there, with its first address on this computer and a way out where
    /// the computer has one.
    fn make_network(&self, wish: &NetworkWish, attendant: &dyn Attend) -> Result<(), DriverError>;

    /// The cluster's machine network is gone. Refused while machines are there.
    fn remove_network(
        &self,
        cluster: &ClusterName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError>;

    /// The machine is there, whole, and has the label. It does not run yet.
    fn make(&self, wish: &MachineWish, attendant: &dyn Attend) -> Result<(), DriverError>;

    /// From now on, a machine may take so many times as long to start.
    fn be_patient(&self, patience: Patience);

    /// The machine runs.
    fn start(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError>;

    /// The label of the machine has the cluster's id. An older version may have made the machine without one.
    ///
    /// A machine whose label has another id is refused.
    fn claim(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError>;

    /// The machine starts when this computer starts, or does not. Whether it runs now stays as it is.
    ///
    /// Refused where the file that would start it is somebody else's.
    fn set_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError>;

    /// The machine does not run; what was written in it stays.
    fn stop(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        how: Stop,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError>;

    /// Nothing of the machine is left. One that runs is ended first.
    fn remove(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError>;

    /// Root may log in to the machine with that key, whether it runs or not. It replaces the key that was authorised so
    /// before, as far as the driver knows which one that is; the keys of the machine's owner stay as they are.
    fn authorize(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        public_key: &str,
    ) -> Result<(), DriverError>;

    /// Of the names that it was told, the machine knows exactly these, whether it runs or not; what its owner wrote into
    /// its hosts file stays.
    fn set_hosts(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        hosts: &Hosts,
    ) -> Result<(), DriverError>;

    /// The machine asks these servers for names, or this computer's where there are none, whether it runs or not. A
    /// resolver's file that its owner wrote stays.
    fn set_dns(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        servers: &[IpAddr],
    ) -> Result<(), DriverError>;
}
