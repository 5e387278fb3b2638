//! The API server's side of steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use mullion_kube::{Api, ClusterView, KubeError, Look, Marks, Owner, Serving, Taken, Workload};
use mullion_plan::{
    Attend, Carried, Connection, ErrorClass, Membership, ObjectSet, Prior, Rollout, RolloutKind,
    StepError,
};
use mullion_spec::value::{MachineName, Taint};
use mullion_wire::{Kubeadm, Request};

use super::starts::Before;
use super::state::StateError;
use super::talk::Told;
use super::{Adapter, lock};

/// How long the API server has for one answer to the question whether it is there.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// What the API server would not do, as a step's failure.
pub(super) fn refused(what: &str, error: &KubeError) -> StepError {
    let mut failure = StepError::new(error.class(), what).because(error);
    failure.hints.extend(error.hint());
    failure
}

/// What one look found, as a step's end.
fn seen<T>(look: Look<T>) -> Result<(), StepError> {
    match look {
        Look::So(_) => Ok(()),
        Look::NotYet(words) => Err(StepError::new(ErrorClass::NotYet, words)),
    }
}

/// Whose the endpoint's addresses are, for people.
const ENDPOINT: &str = "the cluster's endpoint";

/// What of the endpoint is not a node's. `seat` is the node's address where it is a control plane.
fn of_endpoint(
    host: &str,
    seat: Option<&str>,
    resolve: impl FnOnce() -> Vec<IpAddr>,
) -> Vec<Taken> {
    // With one control plane the endpoint is its own address, and it serves there itself.
    if host.is_empty() || seat == Some(host) {
        return Vec::new();
    }
    let mut taken = vec![Taken::new(host, ENDPOINT)];
    // A name of the endpoint may lead to each control plane, and to no other node.
    if seat.is_none() && host.parse::<IpAddr>().is_err() {
        let found = resolve().into_iter();
        taken.extend(found.map(|address| Taken::new(&address, ENDPOINT)));
    }
    taken
}

/// The addresses that a name leads to now; none where nobody knows it.
fn resolved(name: &str) -> Vec<IpAddr> {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    found.map(|address| address.ip()).collect()
}

/// Refuses where a machine answers that it has joined, or that it holds a control plane: its member of etcd may be alive.
/// A reset leaves neither.
fn refuse_joined(machine: &MachineName, told: &Told) -> Result<(), StepError> {
    let has_joined =
        matches!(told, Told::Facts(facts) if facts.joined.is_some() || facts.control_plane);
    if !has_joined {
        return Ok(());
    }
    let words =
        format!("{machine} answers that it has joined, so it stays a node and a member of etcd");
    Err(StepError::new(ErrorClass::Refused, words).hint(format!(
        "run `mullion up` again: it looks into {machine} and plans what it needs"
    )))
}

impl Adapter<'_> {
    /// The API server, by the kubeconfig that we hold.
    pub(super) fn api(&self) -> Result<Arc<Api>, StepError> {
        let mut held = lock(&self.api);
        if let Some(api) = held.as_ref() {
            return Ok(Arc::clone(api));
        }
        let unread = |error: &dyn std::error::Error| {
            StepError::new(ErrorClass::Refused, "the kubeconfig cannot be read").because(error)
        };
        let text = match &self.outfit.existing {
            Some(text) => Some(text.clone()),
            None => self.state.kubeconfig().map_err(|error| unread(&error))?,
        };
        let text = text.ok_or_else(|| {
            StepError::new(ErrorClass::Refused, "no kubeconfig of the cluster is held")
        })?;
        let api = Api::connect(text.reveal(), self.context()).map_err(|error| unread(&error))?;
        let api = Arc::new(api);
        *held = Some(Arc::clone(&api));
        Ok(api)
    }

    fn context(&self) -> Option<&str> {
        match &self.cluster().control_plane {
            mullion_spec::cluster::ControlPlane::Existing { context, .. } => context.as_deref(),
            mullion_spec::cluster::ControlPlane::Made { .. } => None,
        }
    }

    /// By what nodes of this cluster are known.
    pub(super) fn owner(&self) -> Result<Owner, StateError> {
        let id = self.own_id()?;
        Ok(Owner::new(&self.cluster().name, id.as_ref()))
    }

    /// The same, where the first node or set may make the id.
    fn owner_made(&self) -> Result<Owner, StepError> {
        let identity = self.identity()?;
        Ok(Owner::new(&self.cluster().name, Some(&identity.id)))
    }

    /// What the API server says of the cluster now; none where it does not answer.
    pub fn cluster_view(&self) -> Option<ClusterView> {
        let api = self.api().ok()?;
        if !api.answers(ANSWER) {
            return None;
        }
        api.facts(&self.owner().ok()?).ok()
    }

    pub(super) fn await_api(
        &self,
        machine: Option<&MachineName>,
        endpoint: &str,
    ) -> Result<(), StepError> {
        let api = self.api()?;
        let answers = match (machine, endpoint) {
            // The plan does not know where a cluster is that exists already and is silent. Its kubeconfig says so.
            (None, "") => api.answers(ANSWER),
            _ => api.answers_at(&format!("https://{endpoint}"), ANSWER),
        };
        if answers {
            return Ok(());
        }
        let words = format!("the API server at {endpoint} does not answer");
        Err(StepError::new(ErrorClass::NotYet, words))
    }

    pub(super) fn apply_objects(
        &self,
        set: &str,
        objects: &Carried<ObjectSet>,
    ) -> Result<(), StepError> {
        let look = self
            .api()?
            .apply_set(set, &objects.fingerprint(), &objects.0, &self.owner_made()?)
            .map_err(|error| refused(&format!("the objects {set} could not be applied"), &error))?;
        seen(look)
    }

    pub(super) fn remove_objects(&self, set: &str) -> Result<(), StepError> {
        let owner = self.owner().map_err(|error| {
            StepError::new(ErrorClass::Refused, "the cluster's id cannot be read").because(&error)
        })?;
        let look = self
            .api()?
            .remove_set(set, &owner)
            .map_err(|error| refused(&format!("the objects {set} could not be removed"), &error))?;
        seen(look)
    }

    pub(super) fn approve_certificates(&self, machine: &MachineName) -> Result<(), StepError> {
        let serving = self.serving(machine)?;
        let look = self
            .api()?
            .approve_certificates(machine.as_str(), &serving)
            .map_err(|error| {
                refused(
                    &format!("the certificates of {machine} could not be approved"),
                    &error,
                )
            })?;
        seen(look)
    }

    /// What a machine's kubelet may serve by, and what belongs to others: other machines, the endpoint, the API server's
    /// Service, this computer.
    fn serving(&self, machine: &MachineName) -> Result<Serving, StepError> {
        let basis = self.basis()?;
        let roster = &basis.roster;
        let own = self.node_address(machine)?;
        let mut taken = Vec::new();
        for (other, address) in &roster.addresses {
            if other == machine {
                continue;
            }
            let owner = format!("machine {other}");
            taken.push(Taken::new(&other, owner.clone()));
            if !address.is_empty() {
                taken.push(Taken::new(&address, owner.clone()));
            }
            for address in self.addresses_of_other(other, self.is_told(machine))? {
                taken.push(Taken::new(&address, owner.clone()));
            }
        }
        // A machine that was just asked may be silent when the next certificate is judged.
        self.keep_addresses()?;
        let host = roster.endpoint.rsplit_once(':').map(|(host, _)| host);
        let host = host.unwrap_or_default().trim_matches(['[', ']']);
        let is_seat = self.seats().any(|seat| seat == *machine);
        let seat = roster.address(machine).filter(|_| is_seat);
        taken.extend(of_endpoint(host, seat, || {
            let found = self.endpoint_addresses.get_or_init(|| resolved(host));
            found.clone()
        }));
        let services = self.cluster().network.services;
        if let Some(api) = services.hosts().next() {
            taken.push(Taken::new(&api, "the Service of the API server"));
        }
        if let Some(gateway) = roster.network.and_then(|network| network.hosts().next()) {
            taken.push(Taken::new(&gateway, "this computer"));
        }
        Ok(Serving {
            addresses: vec![own],
            taken,
            owner: self.owner_made()?,
            machines: self
                .cluster()
                .machines()
                .map(|machine| machine.name.to_string())
                .collect(),
        })
    }

    /// The API server knows the node of a machine that is one, with the labels and taints of its role.
    pub(super) fn register(
        &self,
        machine: &MachineName,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
        prior: Prior,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let api = self.api()?;
        let unseen =
            |error: KubeError| refused(&format!("{machine} could not be looked at"), &error);
        let look = api.is_registered(machine.as_str()).map_err(unseen)?;
        if let Look::NotYet(words) = look {
            // Its node was there when this was planned, and no restart of kubelet was shown.
            if prior == Prior::Different {
                return Err(StepError::new(ErrorClass::Outdated, words));
            }
            // A kubelet that starts beside a node without resources (somebody else made it) refuses its static pods,
            // etcd among them, and never tries them again. One that runs reports its resources to any node of its name.
            let may_start = api.may_register(machine.as_str()).map_err(unseen)?;
            if let Look::NotYet(words) = may_start {
                return Err(StepError::new(ErrorClass::NotYet, words));
            }
            // Once: a kubelet that was restarted over and over would never come to register.
            if lock(&self.registered).insert(machine.clone()) {
                self.starts.started(machine, Before::Nothing);
                let step = Kubeadm::Register;
                let asked = self.ask(machine, &Request::Kubeadm { step }, attendant);
                if let Err(error) = asked {
                    lock(&self.registered).remove(machine);
                    return Err(error);
                }
            }
            return Err(StepError::new(ErrorClass::NotYet, words));
        }
        let look = api.give_role(machine.as_str(), labels, taints);
        seen(look.map_err(|error| refused(&format!("{machine} got no labels"), &error))?)
    }

    pub(super) fn mark(
        &self,
        machine: &MachineName,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
        drop_labels: &BTreeSet<String>,
        drop_taints: &BTreeSet<Taint>,
    ) -> Result<(), StepError> {
        let marks = Marks {
            labels,
            taints,
            drop_labels,
            drop_taints,
        };
        let owner = self.owner_made()?;
        let look = self
            .api()?
            .mark(machine.as_str(), &marks, &owner)
            .map_err(|error| refused(&format!("{machine} could not be marked"), &error))?;
        seen(look)
    }

    pub(super) fn await_node_network(
        &self,
        machine: &MachineName,
        connection: Connection,
    ) -> Result<(), StepError> {
        let look = self.api()?.node_network(machine.as_str());
        seen(look.map_err(|error| refused(&format!("{machine} could not be looked at"), &error))?)?;
        if connection == Connection::Drops {
            // The one that is open may be dead without a word.
            self.drop_session(machine);
            self.session(machine)?;
        }
        Ok(())
    }

    pub(super) fn await_ready(&self, machine: &MachineName) -> Result<(), StepError> {
        // kubeadm restarts the first kubelet once more, which then asks for another certificate.
        let unapproved = match self.approve_certificates(machine) {
            Err(error) if error.class != ErrorClass::NotYet => return Err(error),
            approved => approved.err(),
        };
        let api = self.api()?;
        let unseen =
            |error: KubeError| refused(&format!("{machine} could not be looked at"), &error);
        let look = match self.starts.before(machine) {
            Before::Nothing => api.node_ready(machine.as_str()),
            Before::Said(sign) => api.node_ready_since(machine.as_str(), &sign),
            // What it says from now on is of this start.
            Before::Unknown => match api.node_sign(machine.as_str()).map_err(unseen)? {
                None => api.node_ready(machine.as_str()),
                Some(sign) => {
                    self.starts.started(machine, Before::Said(sign));
                    let words = format!("it is not known since when {machine} is Ready");
                    Ok(Look::NotYet(words))
                }
            },
        };
        seen(look.map_err(unseen)?)?;
        seen(api.kubelet_serves(machine.as_str())).map_err(|mut mute| {
            let why = unapproved.map(|error| format!("; {}", error.words));
            mute.words.extend(why);
            mute.hint("see `mullion kubectl get csr`")
        })?;
        self.starts.is_back(machine);
        Ok(())
    }

    pub(super) fn drain(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let look = self.api()?.drain(machine.as_str(), attendant);
        seen(look.map_err(|error| refused(&format!("{machine} could not be drained"), &error))?)
    }

    pub(super) fn forget(
        &self,
        machine: &MachineName,
        membership: Membership,
    ) -> Result<(), StepError> {
        if membership == Membership::NodeAndMember {
            // A plan may be made while the machine is silent. One that is gone gives no answer.
            if let Ok(told) = self.told(machine) {
                refuse_joined(machine, &told)?;
            }
            self.leave_etcd(machine)?;
        }
        self.api()?
            .forget(machine.as_str())
            .map_err(|error| refused(&format!("node {machine} could not be deleted"), &error))
    }

    /// The suite `smoke`: everything of ours that should run, runs.
    pub(super) fn verify(&self, suite: &str, rollouts: &[Rollout]) -> Result<(), StepError> {
        if suite != "smoke" {
            let words = format!("this release has no suite `{suite}`");
            return Err(StepError::new(ErrorClass::Refused, words).hint("take `smoke`"));
        }
        self.forget_before(suite)?;
        let api = self.api()?;
        let failed = |error: &KubeError| refused("the cluster could not be looked at", error);
        for rollout in rollouts {
            let workload = match rollout.kind {
                RolloutKind::DaemonSet => Workload::DaemonSet,
                RolloutKind::Deployment => Workload::Deployment,
            };
            let look = api.rolled_out(workload, &rollout.namespace, &rollout.name);
            seen(look.map_err(|error| failed(&error))?)?;
        }
        // Nobody joins any more: a token that is left is one of a run that was killed.
        api.sweep_tokens().map_err(|error| failed(&error))?;
        api.prove(suite, &self.cluster().name)
            .map_err(|error| failed(&error))?;
        self.keep_proof(suite)
    }
}

#[cfg(test)]
mod tests {
    use mullion_wire::{Facts, Sha256Digest};

    use super::*;

    #[test]
    fn promise_04_a_machine_that_has_joined_is_not_taken_out_of_etcd() {
        let machine = "cp3".parse().unwrap();
        let judge = |joined: bool, control_plane: bool| {
            let facts = Facts {
                joined: joined.then(|| Sha256Digest::of(b"ours")),
                control_plane,
                ..Facts::default()
            };
            refuse_joined(&machine, &Told::Facts(Box::new(facts)))
        };
        for (joined, control_plane) in [(true, true), (true, false), (false, true)] {
            let error = judge(joined, control_plane).unwrap_err();
            assert_eq!(error.class, ErrorClass::Refused);
            assert!(error.words.starts_with("cp3 answers that it has joined"));
            assert!(error.hints.iter().any(|hint| hint.contains("mullion up")));
        }
        // It was reset, is new, or has no agent.
        assert_eq!(judge(false, false), Ok(()));
        assert_eq!(refuse_joined(&machine, &Told::Nobody), Ok(()));
    }

    #[test]
    fn promise_11_a_machine_that_does_not_answer_keeps_the_addresses_that_it_told() {
        let scene = super::super::made::Scene::new(
            "machines:\n- {name: cp, role: control-plane, addresses: [192.0.2.1]}\n\
             - {name: lin, addresses: [192.0.2.11, 192.0.2.12], nodeIP: eth1}\n\
             - {name: own, addresses: [192.0.2.21], nodeIP: 198.51.100.12}\n",
        );
        let name = |name: &str| name.parse::<MachineName>().unwrap();
        let eth1 = |address: &str| vec![format!("eth1 {address}/24")];
        let serving = |adapter: &Adapter<'_>, machine: &str| {
            let observed = mullion_plan::Observed::default();
            adapter.seat(&adapter.wanted(), &observed);
            let own = "198.51.100.11".parse().unwrap();
            lock(&adapter.node_addresses).insert(name("lin1"), own);
            let taken = adapter.serving(&name(machine)).unwrap().taken.into_iter();
            let lin2 = taken.filter(|taken| taken.owner == "machine lin2");
            lin2.map(|taken| taken.what).collect::<Vec<_>>()
        };
        let silent = |adapter: &Adapter<'_>| {
            for machine in ["cp1", "lin2", "own1"] {
                adapter.addresses.did_not_answer(&name(machine));
            }
        };
        let first = scene.adapter();
        silent(&first);
        first.addresses.told(&name("lin2"), &eth1("198.51.100.12"));
        let all = ["lin2", "192.0.2.12", "198.51.100.12", "198.51.100.12"];
        assert_eq!(serving(&first, "lin1"), all);
        // In a later run it is off.
        let second = scene.adapter();
        silent(&second);
        assert_eq!(serving(&second, "lin1"), all[..3]);
        // The file's own word counts more than what a machine told once.
        assert_eq!(serving(&second, "own1"), all[..2]);
        second.forget_addresses(&name("lin2")).unwrap();
        assert_eq!(serving(&second, "lin1"), all[..2]);
    }

    #[test]
    fn promise_11_no_worker_has_what_the_name_of_the_endpoint_leads_to() {
        let taken = |host, seat| {
            let resolve = || vec!["10.99.0.5".parse().unwrap()];
            let taken = of_endpoint(host, seat, resolve).into_iter();
            taken.map(|taken| taken.what).collect::<Vec<_>>()
        };
        assert_eq!(taken("api.example", None), ["api.example", "10.99.0.5"]);
        // Several control planes may be behind one name.
        assert_eq!(taken("api.example", Some("10.99.0.5")), ["api.example"]);
        assert_eq!(taken("10.99.0.9", None), ["10.99.0.9"]);
        assert_eq!(taken("10.99.0.9", Some("10.99.0.2")), ["10.99.0.9"]);
        assert_eq!(taken("10.99.0.2", Some("10.99.0.2")), [""; 0]);
        assert_eq!(taken("", None), [""; 0]);
    }
}
