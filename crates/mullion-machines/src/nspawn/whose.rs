//! Whose a machine is: the cluster's id in its label, and machines of the same name.

use std::path::Path;

use mullion_plan::{Identity, Trouble};
use mullion_spec::value::{ClusterName, MachineName};

use super::Nspawn;
use super::place::{Guise, Label};
use super::process::Body;
use crate::error::DriverError;
use crate::wish::MachineWish;

impl Nspawn {
    /// Writes the cluster's id into the label of a machine that has none.
    pub(super) fn put_identity(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError> {
        let (home, mut label) = self.whole(cluster, machine)?;
        match &label.identity {
            Some(there) if there.id == identity.id => Ok(()),
            Some(_) => Err(DriverError::Different {
                cluster: cluster.clone(),
                machine: machine.clone(),
                what: "cluster",
            }),
            None => {
                label.identity = Some(identity.clone());
                home.put_label(&label)
            }
        }
    }
}

/// Why a machine must be left as it is, where one of the same name runs from another folder.
pub(super) fn used_elsewhere(body: &Body) -> Option<Trouble> {
    body.intruder().as_deref().map(runs_elsewhere)
}

/// The trouble with a machine of the same name whose overlay writes into another folder.
pub(super) fn runs_elsewhere(upper: &Path) -> Trouble {
    Trouble::UsedElsewhere {
        by: format!(
            "a machine of the same name that runs from `{}`",
            upper.display()
        ),
    }
}

/// What of a machine that is there differs from the wish.
pub(super) fn difference(label: &Label, wish: &MachineWish, guise: Guise) -> Option<&'static str> {
    let is_other = |id: &Identity| {
        let wanted = wish.identity.as_ref();
        wanted.is_some_and(|wanted| wanted.id != id.id)
    };
    if label.guise != guise {
        Some("driver")
    } else if label.identity.as_ref().is_some_and(is_other) {
        Some("cluster")
    } else if label.template != wish.template {
        Some("template")
    } else if label.size != wish.size {
        Some("size")
    } else if label.address != wish.address || label.network.trunc() != wish.network.trunc() {
        Some("address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver as _;

    #[test]
    fn promise_09_a_machine_of_an_older_version_gets_an_id_and_keeps_it() {
        let place = tempfile::tempdir().unwrap();
        let driver = Nspawn::new(place.path());
        let (cluster, machine) = ("mullion".parse().unwrap(), "cp1".parse().unwrap());
        let folder = place.path().join("clusters/mullion/machines/cp1");
        fs_err::create_dir_all(&folder).unwrap();
        let older = include_str!("../../../mullion/tests/adopted/machines/cp1/machine.json");
        fs_err::write(folder.join("machine.json"), older).unwrap();
        let found = || driver.whole(&cluster, &machine).unwrap().1;
        let before = found();
        assert_eq!(before.identity, None);
        let identity = |id| Identity {
            id: mullion_plan::ClusterUid::of(id),
            owner: 1000,
        };
        driver.claim(&cluster, &machine, &identity(7)).unwrap();
        let claimed = Label {
            identity: Some(identity(7)),
            ..before
        };
        assert_eq!(found(), claimed, "nothing else changes");
        driver.claim(&cluster, &machine, &identity(7)).unwrap();
        let refused = driver.claim(&cluster, &machine, &identity(8)).unwrap_err();
        assert!(matches!(
            refused,
            DriverError::Different {
                what: "cluster",
                ..
            }
        ));
        assert_eq!(found(), claimed);
    }
}
