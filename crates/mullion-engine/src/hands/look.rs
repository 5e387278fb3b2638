//! Looking at the world: hosts, machines, what is inside them, the cluster.

use std::collections::BTreeMap;

use mullion_plan::{
    ClusterFacts, ClusterId, DiscoverError, Fingerprint, HostFacts, Inside, Kubeadm, Observed,
    Place, Power,
};
use mullion_spec::value::MachineName;
use mullion_wire::{Facts, Feature, KubeadmPhase, Mark};

use super::machine::Label;
use super::talk::Told;
use super::{Hands, cluster, talk};

/// So many machines are looked into at once.
const AT_ONCE: usize = 32;

impl Hands<'_> {
    pub(super) fn look(&self) -> Result<Observed, DiscoverError> {
        let failed = |words: String| DiscoverError { words };
        let mut observed = Observed {
            artifacts: self.store.parts(),
            templates: self
                .templates
                .find()
                .map_err(|error| failed(format!("the templates cannot be looked at: {error}")))?,
            ..Observed::default()
        };
        observed
            .artifacts
            .extend(self.wanted().parts.into_iter().filter(super::is_own));
        let name = &self.cluster().name;
        let mut here = HostFacts::default();
        for (kind, driver) in self.drivers.all() {
            let found = driver
                .find(name)
                .map_err(|error| failed(format!("machines cannot be looked for: {error}")))?;
            here.network = here.network.or(found.network);
            here.network_lacks = here.network_lacks.or(found.network_lacks);
            here.foreign.extend(found.foreign.iter().copied());
            for (machine, sighting) in found.machines {
                let facts = sighting.facts(kind, Place::Here);
                // One that we made and the file now says exists already must be taken away first.
                let known = observed.machines.get(&machine);
                if known.is_none_or(|known| !known.made) {
                    observed.machines.insert(machine, facts);
                }
            }
        }
        observed.hosts.insert(Place::Here, here);
        self.look_inside(&mut observed);
        observed.cluster = self.look_at_cluster(&observed);
        Ok(observed)
    }

    /// Asks every machine that runs, and every one that exists already, for what is inside.
    fn look_inside(&self, observed: &mut Observed) {
        // Whether one that we did not make is ours is written inside it.
        let names: Vec<MachineName> = observed
            .machines
            .iter()
            .filter(|(_, facts)| facts.ours || !facts.made)
            .filter(|(_, facts)| facts.whole && facts.power == Power::On)
            .map(|(name, _)| name.clone())
            .collect();
        let mut answers: BTreeMap<MachineName, Option<Box<Facts>>> = BTreeMap::new();
        for some in names.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                let asked: Vec<_> = some
                    .iter()
                    .map(|name| (name, scope.spawn(move || self.facts_of(name))))
                    .collect();
                for (name, thread) in asked {
                    // A look that ended badly is no look.
                    if let Ok(Some(facts)) = thread.join() {
                        answers.insert(name.clone(), facts);
                    }
                }
            });
        }
        for (name, facts) in answers {
            let found = facts.as_deref().map(inside).unwrap_or_default();
            // Nobody's is the first one's who asks: an agent was brought, and has done nothing yet.
            let is_ours = facts.as_deref().is_some_and(|facts| {
                let own = self.cluster().name.as_str();
                // Whose it is can be read also where the rest is of another version.
                let whose = |claim: &Mark| {
                    claim.0.get("cluster").and_then(serde_json::Value::as_str) == Some(own)
                };
                facts.claim.as_ref().is_none_or(whose)
            });
            if let Some(machine) = observed.machines.get_mut(&name) {
                machine.inside = Some(found);
                machine.ours |= is_ours;
            }
        }
        // One that exists already and does not answer was not seen at all.
        observed
            .machines
            .retain(|_, facts| facts.made || facts.inside.is_some());
    }

    /// What an agent says; the outer `None` where nobody could log in.
    #[expect(
        clippy::option_option,
        reason = "a machine without an agent was looked into all the same"
    )]
    fn facts_of(&self, machine: &MachineName) -> Option<Option<Box<Facts>>> {
        // A connection of an earlier look may have died since.
        for _ in 0..2 {
            let session = self.session(machine).ok()?;
            match talk::facts(&session, self.os(machine)) {
                Ok(Told::Facts(facts)) => return Some(Some(facts)),
                Ok(Told::Nobody) => return Some(None),
                // There is no telling what is there.
                Ok(Told::Nothing(_)) => return None,
                Err(_) => self.drop_session(machine),
            }
        }
        None
    }

    /// The cluster, once a control plane was initialised.
    fn look_at_cluster(&self, observed: &Observed) -> Option<ClusterFacts> {
        let is_existing = self.outfit.existing.is_some();
        let joined = begun(observed).next().map(|(_, id)| id.clone());
        if joined.is_none() && !is_existing {
            let may_be = observed.machines.values().any(|facts| {
                facts.ours && facts.whole && facts.inside.is_none() && facts.power != Power::New
            });
            // Nothing that runs is part of a cluster: a kubeconfig that is left is of one that is gone.
            if !may_be {
                return None;
            }
        }
        self.hold_kubeconfig(observed);
        let api = self.api().ok()?;
        let id = api.id().clone();
        if joined.as_ref().is_some_and(|joined| *joined != id) {
            // We hold the key to another cluster than the one that runs, and nobody gave us the right one.
            return joined.map(silent);
        }
        if !api.answers(cluster::ANSWER) {
            let mut facts = silent(id);
            facts.members = members(observed);
            return Some(facts);
        }
        match api.facts(&self.cluster().name) {
            Ok(view) => Some(view.facts),
            Err(_) => Some(silent(id)),
        }
    }
}

/// A cluster whose API server does not answer.
fn silent(id: ClusterId) -> ClusterFacts {
    ClusterFacts {
        id,
        answers: false,
        kubernetes: None,
        endpoint: None,
        pods: None,
        services: None,
        pods_per_node: None,
        domain: None,
        feature_gates: None,
        members: std::collections::BTreeSet::new(),
        nodes: BTreeMap::new(),
        objects: BTreeMap::new(),
        proven: std::collections::BTreeSet::new(),
    }
}

/// The control planes that were initialised or joined, with the cluster that they say they are of.
pub(super) fn begun(observed: &Observed) -> impl Iterator<Item = (&MachineName, &ClusterId)> {
    let seats = observed.machines.iter().filter(|(_, facts)| facts.ours);
    seats.filter_map(|(name, facts)| {
        let inside = facts.inside.as_ref();
        let inside = inside.filter(|inside| inside.control_plane)?;
        Some((name, inside.joined.as_ref()?))
    })
}

/// The machines that hold a control plane's data.
pub(super) fn members(observed: &Observed) -> std::collections::BTreeSet<MachineName> {
    let machines = observed.machines.iter();
    machines
        .filter(|(_, facts)| {
            facts.ours
                && facts
                    .inside
                    .as_ref()
                    .is_some_and(|inside| inside.control_plane)
        })
        .map(|(name, _)| name.clone())
        .collect()
}

fn read_label(mark: Option<&Mark>) -> Option<Label> {
    serde_json::from_value(mark?.0.clone()).ok()
}

/// What waits for the next start and need not be a reason to make one.
fn next_start(facts: &Facts) -> Option<String> {
    let own = facts.reboot_pending.iter();
    let own = own.filter(|_| facts.reboot_of_system);
    let own = own.map(|why| format!("the system waits for a restart: {why}"));
    let words: Vec<_> = own.chain(facts.next_start.clone()).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The optional features of Windows that need not be turned on any more.
fn features(facts: &Facts) -> std::collections::BTreeSet<String> {
    let all = facts.windows.iter().flat_map(|windows| &windows.features);
    let is_on = |state: &Feature| matches!(state, Feature::Enabled | Feature::Pending);
    all.filter(|(_, state)| is_on(state))
        .map(|(name, _)| name.clone())
        .collect()
}

/// What an agent's facts come to for planning.
pub(super) fn inside(facts: &Facts) -> Inside {
    let ran = |list: &str| {
        let marks = facts.ran.get(list).into_iter().flatten();
        let read = |mark: &String| serde_json::from_value(mark.as_str().into()).ok();
        marks
            .filter_map(read)
            .collect::<std::collections::BTreeSet<Fingerprint>>()
    };
    Inside {
        agent: Some(facts.agent.clone()),
        features: features(facts),
        reboot_pending: facts.reboot_pending.is_some(),
        reboot_of_system: facts.reboot_of_system,
        next_start: next_start(facts),
        blueprint: read_label(facts.mark.as_ref()).map(|label| label.blueprint),
        before: ran("before"),
        after: ran("after"),
        joined: facts
            .joined
            .as_ref()
            .map(|digest| ClusterId(digest.to_string())),
        control_plane: facts.control_plane,
        kubeadm: match facts.kubeadm {
            Some(KubeadmPhase::Finished) => Some(Kubeadm::Finished),
            Some(KubeadmPhase::Begun | KubeadmPhase::Resetting) => Some(Kubeadm::Begun),
            None if facts.joined.is_some() || facts.control_plane => Some(Kubeadm::Foreign),
            None => None,
        },
        expired: facts.expired.clone(),
        drift: facts.drift.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_waits_for_is_told_beside_what_it_renames() {
        let told = |reboot: Option<&str>, of_system, renames: Option<&str>| {
            let facts = Facts {
                reboot_pending: reboot.map(str::to_owned),
                reboot_of_system: of_system,
                next_start: renames.map(str::to_owned),
                ..Facts::default()
            };
            inside(&facts).next_start
        };
        let updates = Some("updates were installed");
        assert_eq!(
            told(updates, true, Some("files are renamed")).unwrap(),
            "the system waits for a restart: updates were installed; files are renamed"
        );
        // What waits for our sake is planned.
        assert_eq!(told(updates, false, None), None);
        assert_eq!(told(None, false, None), None);
    }

    #[test]
    fn a_feature_that_waits_for_a_start_is_not_turned_on_again() {
        let features = [
            ("Containers", Feature::Pending),
            ("Microsoft-Hyper-V", Feature::Disabled),
            ("Other", Feature::Enabled),
        ];
        let windows = mullion_wire::WindowsFacts {
            features: features.map(|(name, state)| (name.into(), state)).into(),
            ..Default::default()
        };
        let facts = Facts {
            windows: Some(Box::new(windows)),
            ..Facts::default()
        };
        assert!(inside(&facts).features.iter().eq(["Containers", "Other"]));
    }
}
