//! Which cluster of its name this is: the id in the state folder, and the ids in labels.

use std::collections::{BTreeMap, BTreeSet};

use mullion_machines::{DriverError, Found};
use mullion_plan::{ClusterUid, ErrorClass, Identity, StepError, Trouble};
use mullion_spec::value::MachineName;
use mullion_wire::Mark;

use super::machine::failed;
use super::state::StateError;
use super::{Adapter, lock};

/// Whose something is, as the id in its label tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whose {
    /// This cluster's; also where the label has no id.
    Ours,
    /// Another cluster's of the same name.
    Others(Identity),
}

/// Judges the id of a label. A label without one was written by an older version: its name decides.
pub(super) fn whose(own: Option<&ClusterUid>, found: Option<&Identity>) -> Whose {
    match found {
        Some(found) if own != Some(&found.id) => Whose::Others(found.clone()),
        _ => Whose::Ours,
    }
}

/// The id of this cluster where its state folder has none: the one that all labels on this computer agree on.
///
/// It ignores labels of another user, also for root: the built-in cluster of every user has the same name.
pub(super) fn adopted<'f>(
    found: impl Iterator<Item = &'f Identity>,
    user: u32,
) -> Option<ClusterUid> {
    let all: BTreeSet<_> = found.collect();
    let ids: BTreeSet<_> = all.iter().map(|identity| &identity.id).collect();
    let is_users = |identity: &&Identity| identity.owner == user;
    let only = ids.into_iter().next()?;
    let is_only = all.iter().all(|identity| identity.id == *only);
    (is_only && all.iter().all(is_users)).then(|| only.clone())
}

/// What the claim on a machine that exists already says of the cluster's id.
pub(super) fn claimed(claim: &Mark) -> Result<Option<ClusterUid>, Trouble> {
    let Some(id) = claim.0.get("id").filter(|id| !id.is_null()) else {
        return Ok(None);
    };
    let read = id.as_str().and_then(|id| id.parse().ok());
    read.map(Some).ok_or_else(|| Trouble::Agent {
        why: format!("the label has the id {id}, which this version cannot read"),
        hint: Some("use the version of Mullion that wrote it, or a newer one".into()),
    })
}

impl Adapter<'_> {
    /// The cluster's id, where it has one: of the state folder, or of the labels that were found.
    pub(super) fn own_id(&self) -> Result<Option<ClusterUid>, StateError> {
        if let Some(id) = lock(&self.id).clone() {
            return Ok(Some(id));
        }
        self.state.id()
    }

    /// The cluster's id, as far as it has one.
    pub fn cluster_id(&self) -> Result<Option<ClusterUid>, StateError> {
        self.own_id()
    }

    /// What labels of this cluster say. The first label that is written makes the id.
    pub(super) fn identity(&self) -> Result<Identity, StepError> {
        let unkept = |error: &dyn std::error::Error| {
            StepError::new(ErrorClass::Refused, "the cluster's id cannot be kept").because(error)
        };
        let mut held = lock(&self.id);
        let kept = self.state.id().map_err(|error| unkept(&error))?;
        let id = match (kept, held.clone()) {
            (Some(id), _) => id,
            (None, adopted) => {
                let id = match adopted {
                    Some(id) => id,
                    None => random().map_err(|error| unkept(&error))?,
                };
                self.state.keep_id(&id).map_err(|error| unkept(&error))?;
                id
            }
        };
        *held = Some(id.clone());
        Ok(Identity {
            id,
            owner: self.outfit.owner,
        })
    }

    /// Judges everything that drivers found, and takes over the id of the labels where the state folder has none.
    pub(super) fn judge(
        &self,
        found: &mut BTreeMap<mullion_spec::words::Driver, Found>,
    ) -> Result<(), StateError> {
        let mut own = self.own_id()?;
        if own.is_none() {
            let machines = found.values().flat_map(|found| found.machines.values());
            let machines = machines.filter_map(|sighting| sighting.identity.as_ref());
            let networks = found
                .values()
                .filter_map(|found| found.network_identity.as_ref());
            own = adopted(machines.chain(networks), self.outfit.owner);
            lock(&self.id).clone_from(&own);
        }
        for found in found.values_mut() {
            if found.network_trouble.is_none()
                && let Whose::Others(other) = whose(own.as_ref(), found.network_identity.as_ref())
            {
                found.network_trouble = Some(self.other(&other, own.as_ref()));
            }
            for sighting in found.machines.values_mut() {
                if let Whose::Others(other) = whose(own.as_ref(), sighting.identity.as_ref()) {
                    sighting.ours = false;
                    let trouble = self.other(&other, own.as_ref());
                    sighting.trouble.get_or_insert(trouble);
                }
            }
        }
        Ok(())
    }

    /// The trouble with something of another cluster of the same name.
    fn other(&self, found: &Identity, own: Option<&ClusterUid>) -> Trouble {
        self.other_id(found.id.clone(), own, Some(found.owner))
    }

    pub(super) fn other_id(
        &self,
        found: ClusterUid,
        own: Option<&ClusterUid>,
        owner: Option<u32>,
    ) -> Trouble {
        Trouble::OtherCluster {
            found,
            own: own.cloned(),
            owner,
            file: self.state.id_path().display().to_string(),
        }
    }

    /// Refuses where the machine of that name is another cluster's.
    pub(super) fn is_own(&self, machine: &MachineName) -> Result<(), StepError> {
        self.refuse(|found| {
            let sighting = found.machines.get(machine)?;
            Some((sighting.identity.as_ref()?, Some(machine)))
        })
    }

    /// Refuses where the machine network of the cluster's name is another cluster's.
    pub(super) fn is_own_network(&self) -> Result<(), StepError> {
        self.refuse(|found| Some((found.network_identity.as_ref()?, None)))
    }

    fn refuse<'m>(
        &self,
        identity: impl for<'f> Fn(&'f Found) -> Option<(&'f Identity, Option<&'m MachineName>)>,
    ) -> Result<(), StepError> {
        let unread = |error: &dyn std::error::Error| {
            StepError::new(ErrorClass::Refused, "cannot tell whose it is").because(error)
        };
        let own = self.own_id().map_err(|error| unread(&error))?;
        for (_, driver) in self.drivers.all() {
            let found = driver.find(&self.cluster().name);
            let found = found.map_err(|error| unread(&error))?;
            let Some((found, machine)) = identity(&found) else {
                continue;
            };
            if let Whose::Others(other) = whose(own.as_ref(), Some(found)) {
                let error = DriverError::LeftAlone {
                    machine: machine.cloned(),
                    trouble: self.other(&other, own.as_ref()),
                };
                return Err(failed("it belongs to another cluster".into(), &error));
            }
        }
        Ok(())
    }
}

/// A new id.
fn random() -> std::io::Result<ClusterUid> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(std::io::Error::from)?;
    Ok(ClusterUid::of(u128::from_le_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: u128, owner: u32) -> Identity {
        Identity {
            id: ClusterUid::of(id),
            owner,
        }
    }

    #[test]
    fn promise_09_a_label_without_an_id_is_the_clusters_of_its_name_and_another_id_is_not() {
        let own = ClusterUid::of(1);
        assert_eq!(whose(Some(&own), None), Whose::Ours);
        assert_eq!(whose(None, None), Whose::Ours);
        assert_eq!(whose(Some(&own), Some(&identity(1, 7))), Whose::Ours);
        let other = identity(2, 7);
        for own in [Some(&own), None] {
            assert_eq!(whose(own, Some(&other)), Whose::Others(other.clone()));
        }
    }

    #[test]
    fn promise_09_a_lost_id_is_taken_from_labels_of_the_same_user_that_agree() {
        let of = |found: &[Identity], user| adopted(found.iter(), user);
        assert_eq!(of(&[], 0), None);
        let mine = [identity(1, 1000), identity(1, 1000)];
        assert_eq!(of(&mine, 1000), Some(ClusterUid::of(1)));
        assert_eq!(of(&mine, 1001), None, "another user's");
        assert_eq!(of(&mine, 0), None, "another user's, and root asks");
        assert_eq!(of(&[identity(1, 0)], 0), Some(ClusterUid::of(1)));
        assert_eq!(of(&[identity(1, 0), identity(2, 0)], 0), None, "two ids");
    }

    #[test]
    fn promise_06_an_id_that_cannot_be_read_is_no_missing_id() {
        let claim = |value| claimed(&Mark(value));
        assert_eq!(claim(serde_json::json!({"cluster": "a"})), Ok(None));
        assert_eq!(claim(serde_json::json!({"id": null})), Ok(None));
        let id = ClusterUid::of(9);
        assert_eq!(claim(serde_json::json!({"id": id.as_str()})), Ok(Some(id)));
        for wrong in [serde_json::json!(7), serde_json::json!("x")] {
            assert!(claim(serde_json::json!({ "id": wrong })).is_err());
        }
    }

    #[test]
    fn promise_09_a_machine_of_an_older_version_gets_the_id_of_its_cluster() {
        use mullion_machines::Look as _;
        use mullion_testkit::driver::memory::Memory;

        use super::super::made::{Scene, make};

        let computer = Memory::new();
        make(&computer, "a", "10.1.0.0/24", "cp1", "shared");
        let file = "metadata: {name: a}\nmachines:\n- {name: cp, role: control-plane}\n";
        let scene = Scene::new(file);
        let drivers = [(
            mullion_spec::words::Driver::Nspawn,
            Box::new(computer.clone()) as _,
        )];
        let adapter = scene.adapter_with(drivers.into());
        let machine = "cp1".parse().unwrap();
        let found = || {
            let found = computer.find(&"a".parse().unwrap()).unwrap();
            found.machines[&machine].identity.clone()
        };
        assert_eq!(found(), None);
        adapter.set_autostart(&machine, true).unwrap();
        let given = found().unwrap();
        assert_eq!(scene.state().id().unwrap(), Some(given.id.clone()));
        // The next run of the same cluster finds its own machine; a cluster of the same name elsewhere does not.
        adapter.set_autostart(&machine, false).unwrap();
        let stranger = Scene::new(file);
        stranger.state().keep_id(&ClusterUid::of(1)).unwrap();
        let drivers = [(
            mullion_spec::words::Driver::Nspawn,
            Box::new(computer.clone()) as _,
        )];
        let refused = stranger
            .adapter_with(drivers.into())
            .set_autostart(&machine, true);
        assert_eq!(refused.unwrap_err().class, ErrorClass::NotOurs);
        assert_eq!(found(), Some(given));
    }

    #[test]
    fn ids_differ() {
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
