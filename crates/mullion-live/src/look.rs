//! Looking at the world: hosts, machines, what is inside them, the cluster.

use std::collections::BTreeMap;

use mullion_plan::{
    ClusterFacts, ClusterId, ClusterUid, DiscoverError, Fingerprint, HostFacts, Inside, Kubeadm,
    MachineFacts, Observed, Place, Power, StepError, Trouble,
};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::{Probe, ReadTransport as _};
use mullion_wire::{Facts, Feature, KubeadmPhase, Mark};

use super::inspect::{self, Found};
use super::machine::Label;
use super::talk::Told;
use super::{Adapter, cluster, identity, renewal, talk};

/// So many machines are looked into at once.
const AT_ONCE: usize = 32;

/// What came of looking into a machine.
struct Sight {
    answer: Answer,
    /// What it stands on and its addresses; none for Windows.
    found: Option<Found>,
}

/// What its agent answered.
enum Answer {
    /// What its agent knows.
    Facts(Box<Facts>),
    /// There is no agent: nobody has done anything yet.
    NoAgent,
    /// Its agent cannot tell what it did.
    Refused(Trouble),
}

/// Which cluster a machine belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claimant {
    /// This cluster, or none yet.
    Ours,
    /// A cluster of another name; `None` where this version cannot read the name.
    Other(Option<String>),
}

/// An agent's failure to tell, as planning takes it.
fn refused(error: &StepError) -> Trouble {
    let causes = error.causes.iter().map(|cause| format!(": {cause}"));
    Trouble::Agent {
        why: format!("{}{}", error.words, causes.collect::<String>()),
        hint: error.hints.first().cloned(),
    }
}

/// An error with its causes, in one line.
fn whole(error: &dyn std::error::Error) -> String {
    mullion_wire::error_chain(error).join(": ")
}

impl Adapter<'_> {
    pub(super) fn look(&self) -> Result<Observed, DiscoverError> {
        let failed = |words: String| DiscoverError { words };
        let mut observed = Observed {
            artifacts: self.store.parts(),
            templates: self.templates.find().map_err(|error| {
                failed(format!(
                    "the templates cannot be looked at: {}",
                    whole(&error)
                ))
            })?,
            ..Observed::default()
        };
        observed
            .artifacts
            .extend(self.wanted().parts.into_iter().filter(super::is_own));
        let name = &self.cluster().name;
        let mut found = BTreeMap::new();
        for (kind, driver) in self.drivers.all() {
            let seen = driver.find(name).map_err(|error| {
                failed(format!("machines cannot be looked for: {}", whole(&error)))
            })?;
            found.insert(kind, seen);
        }
        self.judge(&mut found).map_err(|error| {
            failed(format!(
                "the cluster's id cannot be read: {}",
                whole(&error)
            ))
        })?;
        let mut here = HostFacts::default();
        for (kind, found) in found {
            if let Some(ground) = found.ground {
                here.grounds.insert(kind, ground);
            }
            here.network = here.network.or(found.network);
            here.network_lacks = here.network_lacks.or(found.network_lacks);
            here.network_access = here.network_access.or(found.network_access);
            here.trouble = here.trouble.or(found.network_trouble);
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
        // What is there and cannot be read is not lost: taking it so would begin another cluster, or remove it.
        if let Err(error) = self.state.check() {
            return Err(failed(format!(
                "the cluster's state cannot be read: {}",
                whole(&error)
            )));
        }
        self.recall_grounds(&mut observed).map_err(|error| {
            failed(format!(
                "what machines stood on cannot be read: {}",
                whole(&error)
            ))
        })?;
        observed.cluster = self.look_at_cluster(&observed);
        if let Some(cluster) = &mut observed.cluster {
            self.doubt(cluster)
                .map_err(|error| failed(error.to_string()))?;
        }
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
        let mut answers: BTreeMap<MachineName, Sight> = BTreeMap::new();
        for some in names.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                let asked: Vec<_> = some
                    .iter()
                    .map(|name| (name, scope.spawn(move || self.sight_of(name))))
                    .collect();
                for (name, thread) in asked {
                    // A look that ended badly is no look.
                    match thread.join() {
                        Ok(Some(answer)) => {
                            answers.insert(name.clone(), answer);
                        }
                        _ => self.addresses.did_not_answer(name),
                    }
                }
            });
        }
        // Read when everything was found: it is known by now, or there is none.
        let own = self.own_id().ok().flatten();
        for (name, sight) in answers {
            let Some(machine) = observed.machines.get_mut(&name) else {
                continue;
            };
            if let Some(found) = sight.found {
                machine.ground = Some(found.ground);
                self.stands_on(&name, found.ground);
                machine.addresses = found.addresses;
            } else if let Answer::Facts(facts) = &sight.answer {
                machine.addresses.clone_from(&facts.addresses);
            }
            if !self.is_told(&name) {
                // Only a choice among them needs them, and others change with every pod.
                machine.addresses.clear();
                machine.address = machine.address.or_else(|| self.login_address(&name));
            }
            match sight.answer {
                // Nobody has done anything there yet.
                Answer::NoAgent => machine.inside = Some(Inside::default()),
                Answer::Refused(trouble) => machine.trouble = Some(trouble),
                Answer::Facts(facts) => self.judge_inside(machine, &facts, own.as_ref()),
            }
        }
        // One that exists already and does not answer was not seen at all.
        observed
            .machines
            .retain(|_, facts| facts.made || facts.inside.is_some() || facts.trouble.is_some());
    }

    /// Takes over what a machine's agent tells: what is inside, and whose the machine is.
    fn judge_inside(&self, machine: &mut MachineFacts, facts: &Facts, own: Option<&ClusterUid>) {
        match inside(facts) {
            Ok(inside) => machine.inside = Some(inside),
            // A mark that only a newer version can read is no missing mark.
            Err(trouble) => machine.trouble = Some(trouble),
        }
        match self.claimant(facts.claim.as_ref(), own) {
            Ok(Claimant::Ours) => machine.ours = true,
            // What we made has its label outside.
            _ if machine.made => {}
            Ok(Claimant::Other(Some(name))) => machine.claimed_by = Some(name),
            Ok(Claimant::Other(None)) => machine.trouble = Some(unread_claim()),
            Err(trouble) => machine.trouble = Some(trouble),
        }
    }

    /// Which cluster a machine belongs to by the claim inside it, or why it must be left as it is.
    pub(super) fn claimant(
        &self,
        claim: Option<&Mark>,
        own: Option<&ClusterUid>,
    ) -> Result<Claimant, Trouble> {
        // An unclaimed machine belongs to the first cluster that claims it.
        let Some(claim) = claim else {
            return Ok(Claimant::Ours);
        };
        // The name can be read even if another version wrote the rest.
        let name = claim.0.get("cluster").and_then(serde_json::Value::as_str);
        if name != Some(self.cluster().name.as_str()) {
            return Ok(Claimant::Other(name.map(str::to_owned)));
        }
        match identity::claimed(claim)? {
            Some(id) if own != Some(&id) => Err(self.other_id(id, own, None)),
            _ => Ok(Claimant::Ours),
        }
    }

    /// What can be seen inside; nothing where nobody could log in.
    fn sight_of(&self, machine: &MachineName) -> Option<Sight> {
        let answer = self.facts_of(machine)?;
        let found = match self.os(machine) {
            Os::Linux => {
                // A connection may be lost in between. One that cannot tell it is inspected before anything is laid down on it.
                let mut tries = (0..2).filter_map(|_| {
                    let told = self.session(machine).ok()?.answer(&Probe::Machine);
                    let told = told.inspect_err(|_| self.drop_session(machine));
                    inspect::read(&told.ok()?.out).ok()
                });
                tries.next()
            }
            Os::Windows => None,
        };
        Some(Sight { answer, found })
    }

    /// What an agent says; nothing where nobody could log in.
    fn facts_of(&self, machine: &MachineName) -> Option<Answer> {
        // A connection of an earlier look may have died since.
        for _ in 0..2 {
            let session = self.session(machine).ok()?;
            match talk::facts(&session, self.os(machine)) {
                Ok(Told::Facts(facts)) => {
                    self.addresses.told(machine, &facts.addresses);
                    return Some(Answer::Facts(facts));
                }
                Ok(Told::Nobody) => return Some(Answer::NoAgent),
                Ok(Told::Refused(error)) => return Some(Answer::Refused(refused(&error))),
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
                let may_run = match &facts.inside {
                    Some(inside) => inside.is_damaged(),
                    None => facts.power != Power::New,
                };
                facts.ours && facts.whole && may_run
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
            if !is_existing {
                self.look_at_etcd(&api, observed, &mut facts);
            }
            return Some(facts);
        }
        // An id that cannot be read was told before.
        let found = self.owner().ok().and_then(|owner| api.facts(&owner).ok());
        let mut facts = found.map_or_else(|| silent(id), |view| view.facts);
        if !facts.answers {
            facts.members = members(observed);
        }
        if !is_existing {
            self.look_at_etcd(&api, observed, &mut facts);
        }
        Some(facts)
    }
}

/// This computer's clock, in seconds since 1970.
pub(super) fn now() -> u64 {
    let now = jiff::Timestamp::now().as_second();
    u64::try_from(now).unwrap_or(0)
}

/// So far, in seconds, may a machine's clock be off for its word to be taken on what has expired.
const CLOCK: u64 = 300;

/// Why a machine's kubelet is let in nowhere any more: its certificate has expired. This computer's clock decides, and
/// not the machine's, which may be wrong: who believed it would empty a good node.
pub(super) fn expired(facts: &Facts, now: u64) -> Option<String> {
    if let Some(expiry) = facts.certificate_expires {
        let days = now.checked_sub(expiry)? / 86_400;
        return Some(format!("kubelet's certificate expired {days} days ago"));
    }
    // An older agent has judged by its own clock.
    let is_right = facts.clock.abs_diff(now) <= CLOCK;
    facts.expired.clone().filter(|_| is_right)
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
        etcd: None,
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

/// What this program wrote down on a machine with its blueprint; `None` where no blueprint is wholly applied.
fn read_label(mark: Option<&Mark>) -> Result<Option<Label>, Trouble> {
    let Some(mark) = mark.filter(|mark| !mark.0.is_null()) else {
        return Ok(None);
    };
    // No version of this program up to this one writes a version of the form.
    if let Some(version) = mark.0.get("version") {
        return Err(newer(&format!("its form has version {version}")));
    }
    let label = serde_json::from_value(mark.0.clone());
    label.map(Some).map_err(|error| newer(&error.to_string()))
}

/// The trouble with a claim that names no cluster.
fn unread_claim() -> Trouble {
    Trouble::Agent {
        why: "this version cannot read which cluster the machine belongs to".into(),
        hint: Some(
            "use the version of Mullion that wrote it, or a newer one; nothing was changed".into(),
        ),
    }
}

fn newer(why: &str) -> Trouble {
    Trouble::Agent {
        why: format!("this version cannot read the mark of its blueprint: {why}"),
        hint: Some(
            "use the version of Mullion that made it, or a newer one; nothing was changed".into(),
        ),
    }
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

/// What an agent's facts come to for planning. A mark of a newer version is not taken for a missing one, or an
/// older blueprint would be applied over a newer one.
pub(super) fn inside(facts: &Facts) -> Result<Inside, Trouble> {
    let ran = |list: &str| {
        let marks = facts.ran.get(list).into_iter().flatten();
        let read = |mark: &String| serde_json::from_value(mark.as_str().into()).ok();
        marks
            .filter_map(read)
            .collect::<std::collections::BTreeSet<Fingerprint>>()
    };
    Ok(Inside {
        agent: Some(facts.agent.clone()),
        features: features(facts),
        reboot_pending: facts.reboot_pending.is_some(),
        reboot_of_system: facts.reboot_of_system,
        next_start: next_start(facts),
        blueprint: read_label(facts.mark.as_ref())?.map(|label| label.blueprint),
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
        expired: expired(facts, now()),
        node: facts.node.clone(),
        certificates: facts
            .certificates
            .as_deref()
            .map(|found| renewal::judge(found, now())),
        drift: facts.drift.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What agents of the version before tell, and what that version made of it.
    #[test]
    fn promise_06_agents_of_the_version_before_are_understood() {
        let observed = include_str!("../../mullion/tests/adopted/observed.json");
        let observed: Observed = serde_json::from_str(observed).unwrap();
        for (name, told) in [
            (
                "cp1",
                include_str!("../../mullion/tests/adopted/machines/cp1/agent.json"),
            ),
            (
                "lin1",
                include_str!("../../mullion/tests/adopted/machines/lin1/agent.json"),
            ),
            (
                "win1",
                include_str!("../../mullion/tests/adopted/machines/win1/agent.json"),
            ),
        ] {
            let facts: Facts = serde_json::from_str(told).unwrap();
            let name: MachineName = name.parse().unwrap();
            let known = observed.machines[&name].inside.clone().unwrap();
            assert_eq!(inside(&facts), Ok(known), "{name}");
        }
    }

    #[test]
    fn promise_06_a_mark_that_cannot_be_read_is_no_missing_blueprint() {
        let told = include_str!("../../mullion/tests/adopted/machines/cp1/agent.json");
        let ours: Facts = serde_json::from_str(told).unwrap();
        assert!(inside(&ours).unwrap().blueprint.is_some());
        let mark = ours.mark.clone().unwrap().0;
        let with = |key: &str, value: serde_json::Value| {
            let mut mark = mark.clone();
            mark[key] = value;
            mark
        };
        let newer = [
            with("blueprint", serde_json::json!({ "sha256": "0123" })),
            with("blueprint", serde_json::Value::Null),
            with("version", 2.into()),
            serde_json::json!("mullion.dev/mark/v2"),
            serde_json::json!({}),
        ];
        for mark in newer {
            let facts = Facts {
                mark: Some(Mark(mark.clone())),
                ..ours.clone()
            };
            let Err(Trouble::Agent { why, hint }) = inside(&facts) else {
                panic!("{mark} was taken for a mark, or for none");
            };
            assert!(why.contains("this version cannot read"), "{why}");
            assert!(hint.unwrap().contains("or a newer one"));
        }
        // More than this version knows of, beside what it knows.
        let facts = Facts {
            mark: Some(Mark(with("more", true.into()))),
            ..ours.clone()
        };
        assert_eq!(inside(&facts), inside(&ours));
        let none = Facts { mark: None, ..ours };
        assert_eq!(inside(&none).unwrap().blueprint, None);
    }

    #[test]
    fn promise_09_a_claim_counts_whatever_became_of_the_blueprint() {
        let scene = super::super::made::Scene::new(
            "metadata: {name: ours}\nmachines:\n- {name: cp, role: control-plane}\n",
        );
        let adapter = scene.adapter();
        let observed = include_str!("../../mullion/tests/adopted/observed.json");
        let observed: Observed = serde_json::from_str(observed).unwrap();
        let existing = MachineFacts {
            ours: false,
            made: false,
            ..observed.machines.values().next().unwrap().clone()
        };
        let judged = |machine: &MachineFacts, claim: Option<serde_json::Value>| {
            let facts = Facts {
                claim: claim.map(Mark),
                drift: vec!["a file was changed".into()],
                ..Facts::default()
            };
            let mut machine = machine.clone();
            adapter.judge_inside(&mut machine, &facts, None);
            (machine.ours, machine.claimed_by, machine.trouble.is_some())
        };
        let of = |cluster: &str| Some(serde_json::json!({ "cluster": cluster }));
        let other = || Some("theirs".to_owned());
        assert_eq!(judged(&existing, None), (true, None, false));
        assert_eq!(judged(&existing, of("ours")), (true, None, false));
        assert_eq!(judged(&existing, of("theirs")), (false, other(), false));
        let unread = Some(serde_json::json!({ "claimant": 7 }));
        assert_eq!(judged(&existing, unread), (false, None, true));
        let made = MachineFacts {
            ours: true,
            made: true,
            ..existing
        };
        assert_eq!(judged(&made, of("theirs")), (true, None, false));
    }

    #[test]
    fn what_the_system_waits_for_is_told_beside_what_it_renames() {
        let told = |reboot: Option<&str>, of_system, renames: Option<&str>| {
            let facts = Facts {
                reboot_pending: reboot.map(str::to_owned),
                reboot_of_system: of_system,
                next_start: renames.map(str::to_owned),
                ..Facts::default()
            };
            inside(&facts).unwrap().next_start
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
    fn promise_04_this_computers_clock_decides_what_has_expired() {
        let now = 2_000_000_000;
        let day = 86_400;
        let facts = |expires: Option<u64>, words: Option<&str>, clock| Facts {
            certificate_expires: expires,
            expired: words.map(str::to_owned),
            clock,
            ..Facts::default()
        };
        // The machine's clock is ten years ahead, or behind.
        for clock in [now - 3650 * day, now, now + 3650 * day] {
            let good = facts(Some(now + day), None, clock);
            assert_eq!(expired(&good, now), None);
            let bad = facts(Some(now - 3 * day), None, clock);
            let words = "kubelet's certificate expired 3 days ago";
            assert_eq!(expired(&bad, now).as_deref(), Some(words));
        }
        // An older agent says so itself: its word counts where its clock is right.
        let words = Some("kubelet's certificate expired 3649 days ago");
        assert_eq!(
            expired(&facts(None, words, now + 10), now).as_deref(),
            words
        );
        assert_eq!(expired(&facts(None, words, now + 3650 * day), now), None);
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
        assert!(
            inside(&facts)
                .unwrap()
                .features
                .iter()
                .eq(["Containers", "Other"])
        );
    }
}
