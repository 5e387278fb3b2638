//! What can be seen of the world from outside.

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::cluster::{Carrier, Cluster};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;

use super::state::{Etcd, State, Unit};
use mullion_plan::{
    ClusterFacts, FactsVersion, Inside, Kubeadm, MachineFacts, NodeFacts, Observed, Place,
};

impl State {
    pub(super) fn look(&self, cluster: &Cluster) -> Observed {
        let is_named = |name: &MachineName| cluster.machine(name).is_some();
        let is_seen = |name: &MachineName, unit: &Unit| {
            // A machine of the user's is known from the file, or by its agent as long as it answers.
            unit.made || is_named(name) || (unit.is_reachable() && unit.inside.agent.is_some())
        };
        let machines = self
            .units
            .iter()
            .filter(|(name, unit)| is_seen(name, unit))
            .map(|(name, unit)| (name.clone(), self.facts(unit)))
            .collect();
        let hosts = self.hosts.iter();
        let mut hosts: BTreeMap<_, _> = hosts
            .filter(|(_, host)| host.has_network() || !host.foreign.is_empty())
            .map(|(place, host)| (place.clone(), host.clone()))
            .collect();
        for group in &cluster.groups {
            if let (Some(ground), Carrier::Made { driver, host, .. }) =
                (self.ground, &group.carrier)
            {
                let host = hosts.entry(Place::from(host.as_ref())).or_default();
                host.grounds.insert(*driver, ground);
            }
        }
        Observed {
            version: FactsVersion::V1,
            artifacts: self.cache.clone(),
            templates: self.templates.keys().cloned().collect(),
            hosts,
            machines,
            grounds: BTreeMap::new(),
            cluster: self.etcd.as_ref().and_then(|etcd| self.look_at(etcd)),
        }
    }

    /// Seen through the API server, or on the disk of a control plane that can be reached.
    fn look_at(&self, etcd: &Etcd) -> Option<ClusterFacts> {
        let answers = self.api_answers();
        let on_disk = self.units.values().any(|unit| {
            unit.is_reachable()
                && unit.inside.control_plane
                && unit.inside.joined.as_ref() == Some(&etcd.id)
        });
        if !answers && !on_disk {
            return None;
        }
        let (nodes, objects) = if answers {
            (self.nodes(etcd), etcd.objects.clone())
        } else {
            (BTreeMap::new(), BTreeMap::new())
        };
        Some(ClusterFacts {
            id: etcd.id.clone(),
            answers,
            kubernetes: Some(etcd.kubernetes),
            endpoint: Some(etcd.endpoint.clone()),
            pods: Some(etcd.pods),
            services: Some(etcd.services),
            pods_per_node: etcd.pods_per_node,
            // What else kubeadm alone is told, this world does not keep.
            domain: None,
            feature_gates: None,
            members: self.members(etcd, answers),
            etcd: self.etcd_facts(),
            nodes,
            objects,
            proven: if answers {
                etcd.proven.clone()
            } else {
                BTreeSet::new()
            },
        })
    }

    /// Without the API server, a member is known by etcd on another machine, or by what is on its own.
    fn members(&self, etcd: &Etcd, answers: bool) -> BTreeSet<MachineName> {
        let is_told = answers || self.etcd_facts().is_some();
        let is_seen = |name: &&MachineName| {
            let unit = self.units.get(*name);
            is_told || unit.is_some_and(Unit::is_reachable)
        };
        etcd.members.iter().filter(is_seen).cloned().collect()
    }

    fn nodes(&self, etcd: &Etcd) -> BTreeMap<String, NodeFacts> {
        let version = |name: &MachineName| {
            let unit = self.units.get(name)?;
            unit.inside.blueprint.as_ref()?;
            let mut kubelets = unit.holds.iter();
            let kubelet =
                kubelets.find(|part| part.os == unit.os && part.name.starts_with("kubelet"))?;
            kubelet.version.parse().ok()
        };
        let nodes = etcd.nodes.iter();
        nodes
            .map(|(name, node)| {
                let facts = NodeFacts {
                    ready: self.is_ready(name),
                    kubernetes: version(name),
                    ..node.clone()
                };
                (name.to_string(), facts)
            })
            .collect()
    }
}

/// What an agent tells: a join that was cut off is none.
fn seen(inside: &Inside) -> Inside {
    let is_half_made = inside.kubeadm == Some(Kubeadm::Begun);
    Inside {
        joined: inside.joined.clone().filter(|_| !is_half_made),
        ..inside.clone()
    }
}

impl State {
    fn facts(&self, unit: &Unit) -> MachineFacts {
        let tells = unit.is_reachable() && unit.os == Os::Linux;
        MachineFacts {
            ours: unit.made || unit.inside.agent.is_some(),
            made: unit.made,
            whole: unit.whole,
            driver: unit.driver,
            place: unit.place.clone(),
            power: unit.power,
            size: unit.size,
            template: unit.template.clone(),
            address: Some(unit.address),
            inside: unit.is_reachable().then(|| seen(&unit.inside)),
            ground: self.ground.filter(|_| tells),
            addresses: if self.ground.is_some() && unit.is_reachable() {
                vec![
                    format!("eth0 {}/24", unit.address),
                    "eth1 198.51.100.7/24".into(),
                ]
            } else {
                Vec::new()
            },
            autostart: unit.autostart,
            claimed_by: None,
            trouble: None,
        }
    }
}
