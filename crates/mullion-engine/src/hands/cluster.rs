//! The API server's side of steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mullion_kube::{Api, ClusterView, EtcdDoor, KubeError, Look, Marks, Workload};
use mullion_plan::{Attend, ErrorClass, Fingerprint, Membership, StepError};
use mullion_render::objects;
use mullion_spec::value::{MachineName, Taint};
use mullion_ssh::{Command, Transport as _};
use mullion_wire::Secret;

use super::starts::Before;
use super::talk::lost;
use super::{Hands, lock, settings};

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

impl Hands<'_> {
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

    /// What the API server says of the cluster now; none where it does not answer.
    pub fn cluster_view(&self) -> Option<ClusterView> {
        let api = self.api().ok()?;
        if !api.answers(ANSWER) {
            return None;
        }
        api.facts(&self.cluster().name).ok()
    }

    pub(super) fn await_api(
        &self,
        machine: Option<&MachineName>,
        endpoint: &str,
    ) -> Result<(), StepError> {
        let api = self.api()?;
        let answers = match machine {
            Some(_) => api.answers_at(&format!("https://{endpoint}"), ANSWER),
            None => api.answers(ANSWER),
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
        fingerprint: &Fingerprint,
    ) -> Result<(), StepError> {
        // What runs on all nodes is written for what they stand on, also where this run changes none of them. One that
        // does not answer now is no reason to write nothing.
        for (machine, _) in &self.roster()?.addresses {
            self.grounds.ask_once(machine, || self.find_ground(machine));
        }
        let rendered = objects(&self.setting()?, set)
            .map_err(|error| settings::unrendered(&format!("the objects {set}"), &error))?;
        let objects = rendered.ok_or_else(|| {
            StepError::new(
                ErrorClass::Refused,
                format!("this release has no objects `{set}`"),
            )
        })?;
        let look = self
            .api()?
            .apply_set(set, fingerprint, &objects, &self.cluster().name)
            .map_err(|error| refused(&format!("the objects {set} could not be applied"), &error))?;
        seen(look)
    }

    pub(super) fn remove_objects(&self, set: &str) -> Result<(), StepError> {
        let look = self
            .api()?
            .remove_set(set)
            .map_err(|error| refused(&format!("the objects {set} could not be removed"), &error))?;
        seen(look)
    }

    pub(super) fn approve_certificates(&self, machine: &MachineName) -> Result<(), StepError> {
        let address = self.node_address(machine)?;
        let look = self
            .api()?
            .approve_certificates(machine.as_str(), &[address])
            .map_err(|error| {
                refused(
                    &format!("the certificates of {machine} could not be approved"),
                    &error,
                )
            })?;
        seen(look)
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
        let look = self
            .api()?
            .mark(machine.as_str(), &marks, &self.cluster().name)
            .map_err(|error| refused(&format!("{machine} could not be marked"), &error))?;
        seen(look)
    }

    pub(super) fn await_node_network(&self, machine: &MachineName) -> Result<(), StepError> {
        let look = self.api()?.node_network(machine.as_str());
        seen(look.map_err(|error| refused(&format!("{machine} could not be looked at"), &error))?)
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
            self.leave_etcd(machine)?;
        }
        self.api()?
            .forget(machine.as_str())
            .map_err(|error| refused(&format!("node {machine} could not be deleted"), &error))
    }

    /// A machine that is no more leaves etcd: any other control plane lets it go. One that emptied itself has left
    /// already.
    pub(super) fn leave_etcd(&self, machine: &MachineName) -> Result<(), StepError> {
        let mut last = None;
        for other in self.other_seats(machine) {
            let removed = self.etcd_door(&other).and_then(|door| {
                let removed = self.api()?.remove_member(&door, machine.as_str());
                removed.map_err(|error| refused("etcd did not let it go", &error))
            });
            match removed {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        // Without another one there is nobody whom it could be missed by.
        last.map_or(Ok(()), Err)
    }

    /// How to speak to the etcd of a control plane.
    fn etcd_door(&self, machine: &MachineName) -> Result<EtcdDoor, StepError> {
        let script = "cd /etc/kubernetes/pki/etcd && for file in ca.crt healthcheck-client.crt healthcheck-client.key; do \
                      base64 -w0 $file && echo; done";
        let none: [&str; 0] = [];
        let output = self
            .session(machine)?
            .output(&Command::script(script, none))
            .map_err(|error| lost(machine.as_str(), &error))?;
        let mut lines = output.out.lines().map(str::to_owned);
        let address = self.node_address(machine)?;
        match (lines.next(), lines.next(), lines.next()) {
            (Some(authority), Some(certificate), Some(key)) => Ok(EtcdDoor {
                server: format!("https://{address}:2379"),
                authority,
                certificate,
                key: Secret::new(key),
            }),
            _ => Err(StepError::new(
                ErrorClass::Unreachable,
                format!("{machine} does not tell how to speak to its etcd"),
            )),
        }
    }

    /// Everything of ours that runs on nodes.
    fn workloads(&self) -> Result<Vec<(Workload, String, String)>, StepError> {
        let setting = self.setting()?;
        let mut workloads = Vec::new();
        for set in settings::SETS {
            let rendered = objects(&setting, set)
                .map_err(|error| settings::unrendered(&format!("the objects {set}"), &error))?;
            // A set that the file does not want was not applied.
            let is_wanted = self.is_wanted(set);
            for object in rendered.into_iter().flatten().filter(|_| is_wanted) {
                let workload = match object["kind"].as_str() {
                    Some("DaemonSet") => Workload::DaemonSet,
                    Some("Deployment") => Workload::Deployment,
                    _ => continue,
                };
                let text =
                    |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = &object["metadata"];
                workloads.push((
                    workload,
                    text(&metadata["namespace"]),
                    text(&metadata["name"]),
                ));
            }
        }
        Ok(workloads)
    }

    fn is_wanted(&self, set: &str) -> bool {
        mullion_plan::Wanted::of(self.model)
            .sets()
            .iter()
            .any(|wanted| wanted == set)
    }

    /// The suite `smoke`: everything of ours that should run, runs.
    pub(super) fn verify(&self, suite: &str) -> Result<(), StepError> {
        if suite != "smoke" {
            let words = format!("this release has no suite `{suite}`");
            return Err(StepError::new(ErrorClass::Refused, words).hint("take `smoke`"));
        }
        let api = self.api()?;
        let failed = |error: &KubeError| refused("the cluster could not be looked at", error);
        for (workload, namespace, name) in self.workloads()? {
            let look = api.rolled_out(workload, &namespace, &name);
            seen(look.map_err(|error| failed(&error))?)?;
        }
        // Nobody joins any more: a token that is left is one of a run that was killed.
        api.sweep_tokens().map_err(|error| failed(&error))?;
        api.prove(suite, &self.cluster().name)
            .map_err(|error| failed(&error))
    }
}
