//! Machines that start with this computer: what the driver does with systemd's units.

use mullion_plan::Power;
use mullion_spec::value::{ClusterName, MachineName};

use super::network::{self, Lock};
use super::place::Label;
use super::units::Mark;
use super::{Nspawn, unit};
use crate::error::DriverError;
use crate::found::Found;
use crate::wish::{MachineWish, NetworkWish};

/// Makes a cluster's network again when the computer has started: the unit of the network runs it.
pub fn restore_network(wish: &NetworkWish) -> Result<(), DriverError> {
    let _rights = mullion_rights::as_root();
    if !rustix::process::geteuid().is_root() {
        return Err(DriverError::NeedsRoot);
    }
    network::make(wish)
}

impl<'a> From<&'a MachineWish> for Mark<'a> {
    fn from(wish: &'a MachineWish) -> Self {
        Self {
            cluster: &wish.cluster,
            identity: wish.identity.as_ref(),
        }
    }
}

impl Nspawn {
    /// The network that is restored for a machine that starts with this computer; nothing for another machine.
    pub(super) fn restored(&self, label: &Label) -> Result<Option<NetworkWish>, DriverError> {
        if label.autostart != Some(true) || !self.units.can_autostart()? {
            return Ok(None);
        }
        network::wish_of(&label.cluster, label.network, label.identity.clone()).map(Some)
    }

    /// Whether a machine starts with this computer.
    pub(super) fn is_autostarted(
        &self,
        label: &Label,
        power: Power,
    ) -> Result<Option<bool>, DriverError> {
        if !self.units.can_autostart()? {
            return Ok(None);
        }
        Ok(Some(match power {
            // Its unit is written when it starts.
            Power::New => label.autostart == Some(true),
            Power::On | Power::Off => self.units.is_autostarted(&label.cluster, &label.name),
        }))
    }

    /// Has a machine start with this computer, or not.
    pub(super) fn put_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError> {
        let (home, mut label) = self.whole(cluster, machine)?;
        if label.autostart != Some(autostart) {
            label.autostart = Some(autostart);
            home.put_label(&label)?;
        }
        if !self.units.can_autostart()? {
            return Ok(());
        }
        let network = self.restored(&label)?;
        let _lock = Lock::wait()?;
        unit::put(&home, &label, &self.units, network.as_ref())
    }

    /// Removes the unit of a machine.
    pub(super) fn forget_unit(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        label: Option<&Label>,
    ) -> Result<(), DriverError> {
        let identity = label.and_then(|label| label.identity.as_ref());
        let _lock = Lock::wait()?;
        self.units.remove(Mark { cluster, identity }, machine)
    }

    /// Removes every unit of a cluster.
    pub(super) fn forget_units(&self, cluster: &ClusterName) -> Result<(), DriverError> {
        let identity = None;
        let _lock = Lock::wait()?;
        self.units.remove_all(Mark { cluster, identity })
    }

    /// Has the unit of a network restore the network as it is now.
    pub(super) fn refresh_units(&self, wish: &NetworkWish) -> Result<(), DriverError> {
        let _lock = Lock::wait()?;
        self.units.refresh_network(wish)
    }

    /// After a restart of the computer units may be all that is left of a network.
    pub(super) fn look_for_units(
        &self,
        cluster: &ClusterName,
        found: &mut Found,
    ) -> Result<(), DriverError> {
        let is_gone = found.network.is_none() && found.network_lacks.is_none();
        if is_gone && self.units.has_any(cluster)? {
            found.network_lacks = Some("its bridge is gone, and systemd's units are left".into());
        }
        Ok(())
    }
}
