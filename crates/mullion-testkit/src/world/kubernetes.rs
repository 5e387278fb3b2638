//! The API server and its nodes: what steps of the cluster do, and what they build on.

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::cluster::Duty;
use mullion_spec::value::{MachineName, Taint};

use super::perform::{Done, not_yet, refused, unreachable};
use super::state::{Etcd, State, certificates};
use mullion_plan::StepError;
use mullion_plan::role_labels;
use mullion_plan::{Action, Membership, Prior, SnapshotBefore};
use mullion_plan::{ClusterId, Kubeadm, NodeFacts};
use mullion_render::{InitDocument, PLUGIN_PREFIX, control_plane_taint};

impl State {
    pub(super) fn init(&mut self, name: &MachineName, action: &Action) -> Done {
        let Action::Init {
            endpoint, document, ..
        } = action
        else {
            return Err(refused("only init initialises"));
        };
        let unrendered = || refused("nobody has rendered what the cluster begins with");
        let document = document.known().ok_or_else(unrendered)?;
        let unread = |what: &str| refused(format!("kubeadm cannot read `{what}`"));
        let (kubernetes, pods, services) =
            (document.kubernetes(), document.pods(), document.services());
        let version = kubernetes.parse().map_err(|_| unread(kubernetes))?;
        let pods = pods.parse().map_err(|_| unread(pods))?;
        let services = services.parse().map_err(|_| unread(services))?;
        self.prepared(name)?;
        if let Some(etcd) = &self.etcd {
            if !etcd.members.contains(name) {
                return Err(refused("there is a cluster already"));
            }
            return self.api().map(|_| ());
        }
        self.clear_half_made(name)?;
        self.require_clean(name)?;
        if !self.is_way_open(endpoint) {
            return Err(unreachable(format!("nothing works at {endpoint}")));
        }
        self.clusters += 1;
        self.etcd = Some(Etcd {
            id: ClusterId(format!("cluster-{}", self.clusters)),
            kubernetes: version,
            endpoint: endpoint.clone(),
            pods,
            services,
            pods_per_node: share_of(document),
            members: BTreeSet::new(),
            nodes: BTreeMap::new(),
            objects: BTreeMap::new(),
            proven: BTreeSet::new(),
            sick: BTreeSet::new(),
            expired: BTreeSet::new(),
        });
        self.register(name, Duty::ControlPlane, &BTreeSet::new());
        Ok(())
    }

    pub(super) fn join(
        &mut self,
        name: &MachineName,
        duty: Duty,
        endpoint: &str,
        taints: &BTreeSet<Taint>,
        prior: Prior,
    ) -> Done {
        self.prepared(name)?;
        self.clear_half_made(name)?;
        let etcd = self.api()?;
        let (id, way) = (etcd.id.clone(), etcd.endpoint.clone());
        let has_node = etcd.nodes.contains_key(name);
        let is_member = etcd.members.contains(name);
        let inside = &self.unit(name)?.inside;
        let is_seat = duty == Duty::ControlPlane;
        if inside.joined.as_ref() == Some(&id)
            && has_node
            && is_member == is_seat
            && inside.control_plane == is_seat
        {
            return Ok(());
        }
        let is_joined = inside.joined.as_ref() == Some(&id)
            && inside.kubeadm == Some(Kubeadm::Finished)
            && inside.control_plane == is_seat
            && is_member == is_seat;
        if is_joined && !has_node {
            return self.register_again(name, &role_labels(duty), taints);
        }
        self.require_clean(name)?;
        if way != endpoint {
            return Err(refused(format!("the API server is at {way}")));
        }
        // The plan was made without a look into the machine. The machine itself now says that it holds nothing.
        if prior == Prior::Unknown && is_seat {
            let etcd = self.api()?;
            etcd.members.remove(name);
            etcd.nodes.remove(name);
        } else if has_node || is_member {
            return Err(refused(format!("the cluster still knows {name}")));
        }
        self.register(name, duty, taints);
        Ok(())
    }

    /// The agent empties a machine of what a run left that was cut off, and then begins again.
    fn clear_half_made(&mut self, name: &MachineName) -> Done {
        if self.unit(name)?.inside.kubeadm != Some(Kubeadm::Begun) {
            return Ok(());
        }
        self.reset(name, false)?;
        if let Ok(etcd) = self.api() {
            etcd.nodes.remove(name);
        }
        Ok(())
    }

    fn register(&mut self, name: &MachineName, duty: Duty, taints: &BTreeSet<Taint>) {
        let (Some(etcd), Some(unit)) = (&mut self.etcd, self.units.get_mut(name)) else {
            return;
        };
        let mut taints = taints.clone();
        if duty == Duty::ControlPlane {
            etcd.members.insert(name.clone());
            etcd.sick.remove(name);
            etcd.expired.remove(name);
            unit.inside.control_plane = true;
            taints.insert(control_plane_taint());
        }
        unit.inside.joined = Some(etcd.id.clone());
        unit.inside.kubeadm = Some(Kubeadm::Finished);
        unit.inside.node = Some(name.to_string());
        self.enter_node(name, role_labels(duty), taints);
    }

    /// The kubelet of a machine that is a node makes its Node object again; labels and taints of its role are given to it.
    pub(super) fn register_again(
        &mut self,
        name: &MachineName,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
    ) -> Done {
        self.prepared(name)?;
        let id = self.api()?.id.clone();
        let inside = &self.unit(name)?.inside;
        let is_node =
            inside.joined.as_ref() == Some(&id) && inside.kubeadm == Some(Kubeadm::Finished);
        if !is_node {
            return Err(refused(format!("{name} has not joined")));
        }
        match self.api()?.nodes.get_mut(name) {
            Some(node) => node.labels.extend(labels.clone()),
            None => self.enter_node(name, labels.clone(), taints.clone()),
        }
        Ok(())
    }

    /// What etcd holds is saved. Before a machine is emptied, etcd must be able to do without it.
    pub(super) fn save_etcd(&mut self, name: &MachineName, before: SnapshotBefore) -> Done {
        let id = self.api().map(|etcd| etcd.id.clone());
        let id = match before {
            SnapshotBefore::Reset => {
                let id = id?;
                self.spare(name)?;
                Some(id)
            }
            SnapshotBefore::Renewal => Some(id?),
            SnapshotBefore::Repair | SnapshotBefore::Removal => id.ok(),
        };
        self.snapshots.extend(id.map(|id| (id, name.clone())));
        if !matches!(before, SnapshotBefore::Reset | SnapshotBefore::Removal) {
            self.saved.insert(name.clone());
        }
        Ok(())
    }

    /// The certificates of a control plane are new.
    pub(super) fn renew(&mut self, name: &MachineName, endpoint: Option<&str>) -> Done {
        let inside = self.agent(name)?;
        if !inside.control_plane {
            return Err(refused(format!("{name} is no control plane")));
        }
        if inside.renewal().is_some() {
            if !self.saved.remove(name) {
                return Err(refused("no snapshot was saved"));
            }
            self.unit(name)?.inside.certificates = Some(certificates(None));
            let etcd = self.etcd.as_mut();
            etcd.map(|etcd| etcd.expired.remove(name));
        }
        match endpoint {
            Some(_) => self.await_own_api(name),
            None => Ok(()),
        }
    }

    /// etcd can do without a machine.
    fn spare(&self, name: &MachineName) -> Done {
        let facts = self.etcd_facts();
        let facts = facts.ok_or_else(|| not_yet("etcd could not be asked"))?;
        let verdict = facts.may_lose(name);
        verdict.map_err(|_| not_yet(format!("etcd cannot do without {name}")))
    }

    fn enter_node(
        &mut self,
        name: &MachineName,
        labels: BTreeMap<String, String>,
        taints: BTreeSet<Taint>,
    ) {
        let (Some(etcd), Some(unit)) = (&mut self.etcd, self.units.get(name)) else {
            return;
        };
        let label = |key: &str, value: String| (key.to_owned(), value);
        let node = NodeFacts {
            address: Some(unit.address),
            labels: [
                label("kubernetes.io/os", unit.os.to_string()),
                label("kubernetes.io/hostname", name.to_string()),
            ]
            .into_iter()
            .chain(labels)
            .collect(),
            taints,
            ..NodeFacts::default()
        };
        etcd.nodes.insert(name.clone(), node);
    }

    /// kubeadm finds its own files in the way.
    pub(super) fn require_clean(&mut self, name: &MachineName) -> Done {
        let inside = &self.unit(name)?.inside;
        if inside.joined.is_some() || inside.control_plane {
            return Err(refused(format!("{name} holds the rest of a cluster")));
        }
        Ok(())
    }

    pub(super) fn reset(&mut self, name: &MachineName, keeps_etcd: bool) -> Done {
        self.agent(name)?;
        if keeps_etcd {
            self.spare(name)?;
        }
        let answers = self.api_answers();
        if let Some(etcd) = self.etcd.as_mut().filter(|_| answers) {
            etcd.members.remove(name);
        }
        let inside = &mut self.unit(name)?.inside;
        inside.joined = None;
        inside.control_plane = false;
        inside.kubeadm = None;
        inside.node = None;
        inside.certificates = None;
        self.bury();
        Ok(())
    }

    pub(super) fn forget(&mut self, name: &MachineName, membership: Membership) -> Done {
        let etcd = self.api()?;
        let id = etcd.id.clone();
        if let Some(unit) = self.units.get(name)
            && unit.is_reachable()
            && unit.inside.joined.as_ref() == Some(&id)
        {
            return Err(refused(format!("the kubelet of {name} still runs")));
        }
        let etcd = self.api()?;
        if membership == Membership::NodeAndMember {
            etcd.members.remove(name);
        } else if etcd.members.contains(name) {
            return Err(refused(format!("{name} is a member of etcd")));
        }
        etcd.nodes.remove(name);
        Ok(())
    }

    pub(super) fn mark(&mut self, name: &MachineName, action: &Action) -> Done {
        let Action::Mark {
            labels,
            taints,
            drop_labels,
            drop_taints,
        } = action
        else {
            return Err(refused("only mark marks"));
        };
        let node = self.node(name)?;
        node.labels.retain(|key, _| !drop_labels.contains(key));
        node.labels.extend(labels.clone());
        node.taints.retain(|taint| !drop_taints.contains(taint));
        // A node that was unknown when planning may have kubeadm's own taint.
        let kubeadm = control_plane_taint();
        if !taints.contains(&kubeadm) {
            node.taints.remove(&kubeadm);
        }
        node.taints.extend(taints.iter().cloned());
        node.set_labels = labels.keys().cloned().collect();
        node.set_taints.clone_from(taints);
        node.cordoned = false;
        node.ours = true;
        node.without_id = false;
        Ok(())
    }

    pub(super) fn await_network(&mut self, name: &MachineName) -> Done {
        self.node(name)?;
        self.prepared(name)?;
        let node_id = self.unit(name)?.inside.joined.clone();
        let etcd = self.api()?;
        if !etcd
            .objects
            .keys()
            .any(|set| set.starts_with(PLUGIN_PREFIX))
        {
            return Err(not_yet("there is no network plugin"));
        }
        if node_id.as_ref() != Some(&etcd.id) {
            return Err(not_yet(format!("{name} is no node")));
        }
        self.node(name)?.network = true;
        Ok(())
    }

    /// A machine has an API server of its own only as a member of etcd with its data.
    pub(super) fn await_own_api(&mut self, name: &MachineName) -> Done {
        self.prepared(name)?;
        let inside = self.unit(name)?.inside.clone();
        let etcd = self.api()?;
        let holds_data = inside.control_plane && inside.joined.as_ref() == Some(&etcd.id);
        if holds_data && etcd.members.contains(name) {
            Ok(())
        } else {
            Err(unreachable(format!("{name} runs no API server")))
        }
    }

    pub(super) fn verify(&mut self, suite: &str) -> Done {
        let etcd = self.api()?;
        // What any suite begins with: a pod on every node that finds a Service by its name.
        for set in ["service-proxy", "dns"] {
            if !etcd.objects.contains_key(set) {
                return Err(not_yet(format!("{suite}: there is no {set}")));
            }
        }
        let names: Vec<_> = etcd.nodes.keys().cloned().collect();
        let is_bad = |name: &&MachineName| {
            let nodes = self.etcd.as_ref().map(|etcd| &etcd.nodes);
            let cordoned = nodes.and_then(|nodes| nodes.get(*name));
            !self.is_ready(name) || cordoned.is_none_or(|node| node.cordoned)
        };
        if let Some(name) = names.iter().find(is_bad) {
            return Err(not_yet(format!("{suite}: {name} takes no pods")));
        }
        self.api()?.proven.insert(suite.to_owned());
        Ok(())
    }

    pub(super) fn api(&mut self) -> Result<&mut Etcd, StepError> {
        let answers = self.api_answers();
        match &mut self.etcd {
            Some(etcd) if answers => Ok(etcd),
            Some(_) => Err(unreachable("the API server does not answer")),
            None => Err(refused("there is no cluster")),
        }
    }

    pub(super) fn node(&mut self, name: &MachineName) -> Result<&mut NodeFacts, StepError> {
        self.api()?
            .nodes
            .get_mut(name)
            .ok_or_else(|| refused(format!("{name} is no node")))
    }
}

/// The size of a node's share of the pods' network, where a real document says it.
fn share_of(document: &InitDocument) -> Option<u8> {
    let mut documents = document.configuration.iter();
    let arguments =
        documents.find_map(|found| found["controllerManager"]["extraArgs"].as_array())?;
    let mut arguments = arguments.iter();
    let share = arguments.find(|argument| argument["name"] == "node-cidr-mask-size")?;
    share["value"].as_str()?.parse().ok()
}
