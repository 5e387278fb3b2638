//! Beginning a cluster, joining it, leaving it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use mullion_plan::{
    Attend, Document, ErrorClass, Membership, News, Prior, SnapshotBefore, StepError, role_labels,
};
use mullion_render::{InitDocument, InitKeys, JoinDocument, JoinKeys};
use mullion_spec::cluster::Duty;
use mullion_spec::value::{MachineName, Taint};
use mullion_wire::{Kubeadm, KubeadmPhase, Patience, Request, Secret, Sha256Digest};

use super::talk::Told;
use super::{Adapter, cluster};

/// How a machine joins.
pub(super) struct Joining<'a> {
    pub(super) duty: Duty,
    pub(super) endpoint: &'a str,
    pub(super) document: &'a Document<JoinDocument>,
    pub(super) taints: &'a BTreeSet<Taint>,
    pub(super) prior: Prior,
}

impl Adapter<'_> {
    /// The first control plane is up, and we hold the admin's kubeconfig.
    pub(super) fn init(
        &self,
        machine: &MachineName,
        document: &Document<InitDocument>,
        (prior, endpoint): (Prior, &str),
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let document = self.document(machine, document, attendant, |documents| &documents.init)?;
        if prior == Prior::Unknown {
            self.refuse_foreign_cluster(machine, endpoint)?;
        }
        self.bring_images(machine, Duty::ControlPlane, attendant)?;
        let token = mullion_kube::random_token()
            .map_err(|error| cluster::refused("no token could be made", &error))?;
        let keys = InitKeys {
            token: token.clone(),
            token_description: mullion_kube::TOKEN_DESCRIPTION,
            // Further control planes get the authorities from their agents.
            certificate_key: None,
            patience: *super::lock(&self.patience),
        };
        let step = document.with(&keys);
        // The agent empties the machine of what an init left that was cut off, before it begins again.
        let told = self.told_at_rest(machine, attendant)?;
        self.save_half_made(machine, &told, attendant);
        let answer = self.ask(machine, &Request::Kubeadm { step }, attendant)?;
        let admin = answer.kubeadm.and_then(|done| done.admin).ok_or_else(|| {
            StepError::new(
                ErrorClass::Refused,
                format!("{machine} gave no kubeconfig for the admin"),
            )
        })?;
        self.hold_admin(&admin)?;
        // kubeadm makes a token of its own for joins by hand; ours live as long as a join.
        let id = token.reveal().split('.').next().unwrap_or_default();
        self.api()?.delete_token(id).map_err(|error| {
            cluster::refused("the token of the first start could not be removed", &error)
        })
    }

    /// Keeps the admin's kubeconfig, and uses it from now on.
    pub(super) fn hold_admin(&self, admin: &Secret) -> Result<(), StepError> {
        self.state.keep_kubeconfig(admin).map_err(|error| {
            StepError::new(ErrorClass::Refused, "the kubeconfig could not be kept").because(&error)
        })?;
        *super::lock(&self.api) = None;
        Ok(())
    }

    /// Where another cluster answers at the endpoint, nothing is begun.
    fn refuse_foreign_cluster(
        &self,
        machine: &MachineName,
        endpoint: &str,
    ) -> Result<(), StepError> {
        let is_ours = self.api().is_ok_and(|api| api.answers(cluster::ANSWER));
        if is_ours {
            return Ok(());
        }
        let own = self.basis()?.roster.address(machine).map(str::to_owned);
        let host = endpoint.rsplit_once(':').map(|(host, _)| host.to_owned());
        if host == own {
            // Its own address: whatever answers there is what the agent finds inside.
            return Ok(());
        }
        let addresses = endpoint.to_socket_addrs().into_iter().flatten();
        let mut listens =
            addresses.map(|address| TcpStream::connect_timeout(&address, Duration::from_secs(2)));
        if listens.any(|answer| answer.is_ok()) {
            let words = format!("somebody answers at {endpoint}, and it is not this cluster");
            return Err(StepError::new(ErrorClass::NotOurs, words)
                .hint("give the cluster another endpoint, or end what listens there"));
        }
        Ok(())
    }

    /// The machine is a node, by a token that lives as long as the join.
    pub(super) fn join(
        &self,
        machine: &MachineName,
        joining: &Joining<'_>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let duty = joining.duty;
        let document = self.document(machine, joining.document, attendant, |documents| {
            &documents.join
        })?;
        let told = self.told_at_rest(machine, attendant)?;
        let has_seat = matches!(&told, Told::Facts(facts) if facts.control_plane);
        if has_seat && is_half_way(&told) {
            // The agent empties the machine before it joins it again, and its etcd may be a member already.
            self.save_etcd(machine, SnapshotBefore::Reset, attendant)?;
        }
        // An earlier attempt restarted its kubelet, which registers its node without the labels and taints of its role.
        let is_registering = super::lock(&self.registered).contains(machine);
        // Nobody could look when this was planned: where it is a node already, joining changes nothing.
        if joining.prior == Prior::Unknown
            && !is_registering
            && self.belongs(machine, duty, &told)?
        {
            return Ok(());
        }
        let api = self.api()?;
        // It is a node by its own word, and somebody deleted its Node object: kubeadm would find nothing to do.
        let is_node = has_joined(&told, duty, &api.id().0);
        if is_node && (is_registering || self.has_no_node(machine)) {
            let labels = role_labels(duty);
            return self.register(machine, &labels, joining.taints, Prior::Absent, attendant);
        }
        // Where the machine itself is none, a node of its name is of one that is no more: the API server may not have
        // missed it yet, or nobody could ask it when this was planned.
        if matches!(&told, Told::Facts(facts) if facts.joined.is_none()) {
            self.forget(machine, Membership::NodeOnly)?;
        }
        // Before there is a token, which ends within minutes.
        self.bring_images(machine, duty, attendant)?;
        let lifetime = token_lifetime(*super::lock(&self.patience));
        let token = api
            .create_join_token(joining.endpoint, lifetime)
            .map_err(|error| {
                cluster::refused(&format!("no token for {machine} could be made"), &error)
            })?;
        let joined = self.join_with(machine, (duty, &document), &told, &token, attendant);
        // A join that met no API server may meet one later; any other failure would be the same again.
        let joined = joined.map_err(|mut error| {
            if error.class == ErrorClass::Refused && !api.answers(cluster::ANSWER) {
                error.class = ErrorClass::Unreachable;
            }
            error
        });
        // Whatever came of the join, its token goes. One that stays is no reason to join again: it ends within minutes,
        // and a run that comes to its end sweeps.
        if let Err(error) = api.delete_token(&token.id) {
            let minutes = lifetime.as_secs() / 60;
            let words = format!(
                "the token of {machine} could not be removed, and ends by itself within {minutes} minutes: {error}"
            );
            attendant.hear(News::Line(words));
        }
        joined
    }

    /// What a machine's agent tells when no agent of an earlier run works there any more.
    fn told_at_rest(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<Told, StepError> {
        at_rest(&|| self.told(machine), &|| {
            let nothing = Request::Run {
                commands: Vec::new(),
                list: "before".into(),
            };
            self.ask(machine, &nothing, attendant).map(|_| ())
        })
    }

    /// Whether the machine and the API server both say that it is a node of the cluster, in that role.
    fn belongs(&self, machine: &MachineName, duty: Duty, told: &Told) -> Result<bool, StepError> {
        let is_seat = duty == Duty::ControlPlane;
        let says_so = says_it_belongs(told, duty, &self.api()?.id().0);
        let is_known = self.cluster_view().is_some_and(|view| {
            let members = &view.facts.members;
            view.facts.nodes.contains_key(machine.as_str()) && members.contains(machine) == is_seat
        });
        Ok(says_so && is_known)
    }

    /// Whether the API server surely knows no node of a machine.
    fn has_no_node(&self, machine: &MachineName) -> bool {
        let view = self.cluster_view();
        view.is_some_and(|view| !view.facts.nodes.contains_key(machine.as_str()))
    }

    fn join_with(
        &self,
        machine: &MachineName,
        (duty, document): (Duty, &JoinDocument),
        told: &Told,
        token: &mullion_kube::JoinToken,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        if duty == Duty::ControlPlane {
            // Nobody may have been able to tell that it was a member before, on a disk that is lost. Where etcd cannot be
            // asked, kubeadm finds out. A control plane that is whole has a member that lives, also where its end was not
            // heard of, or where kubelet's files are lost: the agent refuses that one.
            if !has_whole_seat(told) {
                let _ = self.leave_etcd(machine);
            }
            let files = self.authority(machine, attendant)?;
            let step = Kubeadm::HoldAuthority { files };
            self.ask(machine, &Request::Kubeadm { step }, attendant)?;
        }
        let keys = JoinKeys {
            token: token.token.clone(),
            certificate_key: None,
            patience: *super::lock(&self.patience),
        };
        let step = document.with(&keys, token.discovery.clone());
        self.ask(machine, &Request::Kubeadm { step }, attendant)?;
        Ok(())
    }

    /// The control planes besides a machine.
    pub(super) fn other_seats(&self, machine: &MachineName) -> impl Iterator<Item = MachineName> {
        self.seats().filter(move |name| name != machine)
    }

    /// The cluster's authorities, from a control plane that runs: a further one is given them, so that they never pass
    /// through the API server.
    fn authority(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<BTreeMap<String, Secret>, StepError> {
        let mut last = None;
        for seat in self.other_seats(machine) {
            let request = Request::Kubeadm {
                step: Kubeadm::ReadAuthority,
            };
            match self.ask(&seat, &request, attendant) {
                Ok(answer) if !answer.authority.is_empty() => return Ok(answer.authority),
                Ok(_) => {}
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            StepError::new(
                ErrorClass::Refused,
                format!("no control plane gave the cluster's authorities for {machine}"),
            )
        }))
    }

    /// Nothing of a cluster is left on the machine.
    pub(super) fn reset(
        &self,
        machine: &MachineName,
        keeps_etcd: bool,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        if keeps_etcd {
            // Minutes may have passed since the snapshot, with other steps in between.
            self.spare_from_etcd(machine)?;
        } else {
            self.save_half_made(machine, &self.told(machine)?, attendant);
        }
        self.clear(machine, attendant)
    }

    /// The same, whatever it holds: what this run began is taken back whole.
    pub(super) fn clear(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let step = Kubeadm::Reset;
        self.ask(machine, &Request::Kubeadm { step }, attendant)?;
        Ok(())
    }
}

/// The longest life of a join token, whatever the patience: a run that is killed leaves its token behind.
const TOKEN_MOST: Duration = Duration::from_hours(1);

/// How long a join token lives. kubeadm needs it until kubelet has its certificate: a run that waits longer has a token
/// that lives longer.
fn token_lifetime(patience: Patience) -> Duration {
    let usual = Duration::from_mins(mullion_render::TOKEN_MINUTES.into());
    patience.max(Patience::USUAL).times(usual).min(TOKEN_MOST)
}

/// What an agent tells, once it is at rest. Where kubeadm is half way, an agent of a run that was killed may still work:
/// `wait` asks for nothing, and its agent begins when that one has ended.
fn at_rest(
    tell: &dyn Fn() -> Result<Told, StepError>,
    wait: &dyn Fn() -> Result<(), StepError>,
) -> Result<Told, StepError> {
    let told = tell()?;
    if !is_half_way(&told) {
        return Ok(told);
    }
    wait()?;
    tell()
}

/// Whether a machine says that it holds a control plane that nothing was left half way at.
fn has_whole_seat(told: &Told) -> bool {
    matches!(told, Told::Facts(facts) if facts.control_plane) && !is_half_way(told)
}

/// Whether kubeadm was begun on a machine and has not come to its end.
pub(super) fn is_half_way(told: &Told) -> bool {
    use KubeadmPhase::{Begun, Resetting};
    matches!(told, Told::Facts(facts) if matches!(facts.kubeadm, Some(Begun | Resetting)))
}

/// Whether a machine says that it is a node of the cluster of this authority, in that role.
fn says_it_belongs(told: &Told, duty: Duty, cluster: &str) -> bool {
    matches!(told, Told::Facts(facts) if {
        let joined = facts.joined.as_ref().map(Sha256Digest::as_str);
        let is_seat = duty == Duty::ControlPlane;
        let is_good = super::look::expired(facts, super::look::now()).is_none();
        joined == Some(cluster) && is_good && facts.control_plane == is_seat
    })
}

/// Whether it says so, and that nothing of its join is left to do.
fn has_joined(told: &Told, duty: Duty, cluster: &str) -> bool {
    let has_finished =
        matches!(told, Told::Facts(facts) if facts.kubeadm == Some(KubeadmPhase::Finished));
    has_finished && says_it_belongs(told, duty, cluster)
}

#[cfg(test)]
mod tests {
    use mullion_wire::Facts;

    use super::*;

    #[test]
    fn a_join_token_lives_as_long_as_a_patient_join_may_take_and_an_hour_at_most() {
        let minutes =
            |hundredths| token_lifetime(Patience::of_hundredths(hundredths)).as_secs() / 60;
        assert_eq!([50, 100, 300, 500].map(minutes), [15, 15, 45, 60]);
    }

    #[test]
    fn promise_04_no_member_is_taken_out_of_etcd_while_its_machine_holds_a_whole_control_plane() {
        let has_whole_seat = |control_plane, kubeadm, joined: bool| {
            let facts = Facts {
                control_plane,
                kubeadm,
                joined: joined.then(|| Sha256Digest::of(b"ours")),
                ..Facts::default()
            };
            has_whole_seat(&Told::Facts(Box::new(facts)))
        };
        for joined in [true, false] {
            // Without kubelet's files it is no node, and its etcd runs.
            assert!(has_whole_seat(true, Some(KubeadmPhase::Finished), joined));
            // Mullion did not make it.
            assert!(has_whole_seat(true, None, joined));
            assert!(!has_whole_seat(true, Some(KubeadmPhase::Begun), joined));
            assert!(!has_whole_seat(true, Some(KubeadmPhase::Resetting), joined));
        }
        assert!(!has_whole_seat(false, None, false));
        assert!(!super::has_whole_seat(&Told::Nobody));
    }

    #[test]
    fn an_agent_of_a_killed_run_ends_before_its_machine_counts_as_half_made() {
        use KubeadmPhase::{Begun, Finished, Resetting};
        let phase = std::cell::Cell::new(None);
        let waits = std::cell::Cell::new(0);
        let ask = |first, after| {
            phase.set(Some(first));
            waits.set(0);
            let tell = || {
                let facts = Facts {
                    kubeadm: phase.get(),
                    ..Facts::default()
                };
                Ok(Told::Facts(Box::new(facts)))
            };
            let wait = || {
                waits.set(waits.get() + 1);
                phase.set(Some(after));
                Ok(())
            };
            let told = at_rest(&tell, &wait).unwrap();
            (is_half_way(&told), waits.get())
        };
        // The agent of the killed run ended well, so nothing is reset and no snapshot is needed.
        assert_eq!(ask(Begun, Finished), (false, 1));
        assert_eq!(ask(Begun, Begun), (true, 1));
        assert_eq!(ask(Resetting, Resetting), (true, 1));
        assert_eq!(ask(Finished, Begun), (false, 0));
    }

    #[test]
    fn only_a_join_that_ended_well_has_made_a_member_that_lives() {
        let ours = Sha256Digest::of(b"ours");
        let facts = Facts {
            joined: Some(ours.clone()),
            control_plane: true,
            kubeadm: Some(KubeadmPhase::Finished),
            ..Facts::default()
        };
        let has_joined = |facts: &Facts| {
            let told = Told::Facts(Box::new(facts.clone()));
            assert_eq!(
                is_half_way(&told),
                facts.kubeadm != Some(KubeadmPhase::Finished)
            );
            has_joined(&told, Duty::ControlPlane, ours.as_str())
        };
        assert!(has_joined(&facts));
        for other in [
            Facts {
                kubeadm: Some(KubeadmPhase::Begun),
                ..facts.clone()
            },
            Facts {
                joined: Some(Sha256Digest::of(b"another")),
                ..facts.clone()
            },
            Facts {
                certificate_expires: Some(1),
                ..facts.clone()
            },
            Facts {
                control_plane: false,
                ..facts.clone()
            },
        ] {
            assert!(!has_joined(&other), "{other:?}");
        }
        assert!(!super::has_joined(
            &Told::Nobody,
            Duty::ControlPlane,
            ours.as_str()
        ));
    }
}
