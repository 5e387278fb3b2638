//! What the world is made of, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::Ipv4Net;
use mullion_spec::value::MachineName;
use mullion_spec::version::Patch;
use mullion_spec::words::{Driver, Os};

use super::Blow;
use mullion_plan::{Certificate, CertificateFacts};
use mullion_plan::{ClusterId, HostFacts, Inside, NodeFacts, Place, Power, Size};
use mullion_plan::{EtcdFacts, Health, MemberFacts};
use mullion_plan::{Fingerprint, Part, TemplateId};
use mullion_render::{Ground, PLUGIN_PREFIX};

/// All of it.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) hosts: BTreeMap<Place, HostFacts>,
    /// What Linux machines stand on, where they tell.
    pub(super) ground: Option<Ground>,
    pub(super) cache: BTreeSet<Part>,
    pub(super) templates: BTreeMap<TemplateId, Vec<Part>>,
    pub(super) units: BTreeMap<MachineName, Unit>,
    /// What etcd holds; there is a cluster as long as a machine has its data.
    pub(super) etcd: Option<Etcd>,
    /// How many clusters there were: each has an id of its own.
    pub(super) clusters: u32,
    /// Whether nobody can ask etcd for its members.
    pub(super) hides_etcd: bool,
    /// Whether the whole cluster is removed: its machines go as nodes.
    pub(super) is_removed_whole: bool,
    /// Snapshots that were saved: of what cluster, and before which machine was emptied or got new certificates.
    pub(super) snapshots: Vec<(ClusterId, MachineName)>,
    /// Machines that may get new certificates: a snapshot was saved, or etcd gave none.
    pub(super) saved: BTreeSet<MachineName>,
}

/// One machine.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) made: bool,
    pub(super) whole: bool,
    pub(super) power: Power,
    pub(super) answers: bool,
    pub(super) driver: Driver,
    pub(super) os: Os,
    pub(super) place: Place,
    pub(super) size: Option<Size>,
    pub(super) template: Option<TemplateId>,
    pub(super) address: IpAddr,
    /// Whether it starts with its host; `None` where the host starts none.
    pub(super) autostart: Option<bool>,
    /// The parts on its disk.
    pub(super) holds: BTreeSet<Part>,
    pub(super) inside: Inside,
}

/// What the API server knows.
#[derive(Debug, Clone)]
pub(super) struct Etcd {
    pub(super) id: ClusterId,
    pub(super) kubernetes: Patch,
    pub(super) endpoint: String,
    pub(super) pods: Ipv4Net,
    pub(super) services: Ipv4Net,
    /// The size of a node's share of the pods' network.
    pub(super) pods_per_node: Option<u8>,
    pub(super) members: BTreeSet<MachineName>,
    /// Whether one is Ready, and its version, follow from its machine.
    pub(super) nodes: BTreeMap<MachineName, NodeFacts>,
    pub(super) objects: BTreeMap<String, Fingerprint>,
    /// Suites that passed since the last change.
    pub(super) proven: BTreeSet<String>,
    /// Members whose etcd fails though their machine runs.
    pub(super) sick: BTreeSet<MachineName>,
    /// Members whose certificates have expired.
    pub(super) expired: BTreeSet<MachineName>,
}

impl Unit {
    /// A machine of the user's.
    pub(super) fn existing(driver: Driver, os: Os, address: IpAddr) -> Self {
        Self {
            made: false,
            whole: true,
            power: Power::On,
            answers: true,
            driver,
            os,
            place: Place::Here,
            size: None,
            template: None,
            address,
            autostart: None,
            holds: BTreeSet::new(),
            inside: Inside::default(),
        }
    }

    pub(super) fn switch_off(&mut self) {
        // One that never ran is still new.
        if self.power == Power::On {
            self.power = Power::Off;
        }
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.whole && self.power == Power::On && self.answers
    }

    /// Runs, and is what some blueprint says.
    pub(super) fn is_prepared(&self) -> bool {
        self.is_reachable() && self.inside.blueprint.is_some()
    }

    /// A stand-in has Linux parts inside.
    pub(super) fn is_real_windows(&self) -> bool {
        self.os == Os::Windows && !self.holds.iter().any(|part| part.os == Os::Linux)
    }
}

impl State {
    /// Whether the API server answers: most members of etcd live, and the way to it is open.
    pub(super) fn api_answers(&self) -> bool {
        let Some(etcd) = &self.etcd else { return false };
        self.has_majority(etcd) && self.is_way_open(&etcd.endpoint)
    }

    /// Whether a member of etcd works.
    fn lives(&self, etcd: &Etcd, name: &MachineName) -> bool {
        let unit = self.units.get(name);
        unit.is_some_and(|unit| unit.is_prepared() && holds_data(unit, &etcd.id))
            && !etcd.sick.contains(name)
            && !etcd.expired.contains(name)
    }

    fn has_majority(&self, etcd: &Etcd) -> bool {
        let living = etcd.members.iter().filter(|name| self.lives(etcd, name));
        living.count() * 2 > etcd.members.len()
    }

    /// What etcd says of its members, where a control plane can be logged in to.
    pub(super) fn etcd_facts(&self) -> Option<EtcdFacts> {
        let etcd = self.etcd.as_ref().filter(|_| !self.hides_etcd)?;
        let is_door = |unit: &Unit| unit.is_reachable() && holds_data(unit, &etcd.id);
        if !self.units.values().any(is_door) {
            return None;
        }
        let has_majority = self.has_majority(etcd);
        let member = |name: &MachineName| MemberFacts {
            name: name.to_string(),
            machine: Some(name.clone()),
            voting: true,
            health: match self.lives(etcd, name) {
                true if has_majority => Health::Healthy,
                true => Health::Leaderless,
                false => Health::Unhealthy,
            },
        };
        let members = etcd.members.iter();
        Some(EtcdFacts {
            members: members
                .map(|name| (name.to_string(), member(name)))
                .collect(),
        })
    }

    /// Whether what stands at the endpoint works; what is not ours always does.
    pub(super) fn is_way_open(&self, endpoint: &str) -> bool {
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        let stands_there = |unit: &&Unit| unit.whole && unit.address.to_string() == host;
        // A control plane of several may be at the endpoint that the user gave: the majority decides.
        self.units
            .values()
            .find(stands_there)
            .is_none_or(|unit| unit.is_prepared() || unit.inside.control_plane)
    }

    /// Whether a node is Ready.
    pub(super) fn is_ready(&self, name: &MachineName) -> bool {
        let (Some(etcd), Some(unit)) = (&self.etcd, self.units.get(name)) else {
            return false;
        };
        let has_plugin = etcd
            .objects
            .keys()
            .any(|set| set.starts_with(PLUGIN_PREFIX));
        let network = etcd.nodes.get(name).is_some_and(|node| node.network);
        has_plugin
            && network
            && unit.is_prepared()
            && !unit.inside.reboot_pending
            && unit.inside.joined.as_ref() == Some(&etcd.id)
    }

    /// The cluster ends with the last machine that has its data.
    pub(super) fn bury(&mut self) {
        let Some(etcd) = &self.etcd else { return };
        let lasts = etcd.members.iter().any(|name| {
            self.units
                .get(name)
                .is_some_and(|unit| unit.whole && holds_data(unit, &etcd.id))
        });
        if !lasts {
            self.etcd = None;
        }
    }

    /// A machine was started: Windows makes its node's network anew.
    pub(super) fn restarted(&mut self, name: &MachineName) {
        let Some(unit) = self.units.get_mut(name) else {
            return;
        };
        unit.power = Power::On;
        unit.answers = true;
        unit.inside.reboot_pending = false;
        if unit.os == Os::Windows
            && let Some(node) = self.etcd.as_mut().and_then(|etcd| etcd.nodes.get_mut(name))
        {
            node.network = false;
        }
    }

    pub(super) fn strike(&mut self, name: &MachineName, blow: Blow) {
        let Some(unit) = self.units.get_mut(name) else {
            return;
        };
        match blow {
            Blow::PowerLoss if unit.made => unit.switch_off(),
            // Somebody switches a machine of the user's on again: it is a long blip.
            Blow::PowerLoss | Blow::Blip => unit.answers = false,
            Blow::DeleteNode => {
                let etcd = self.etcd.as_mut();
                etcd.map(|etcd| etcd.nodes.remove(name));
            }
            Blow::SickEtcd => {
                let etcd = self.etcd.as_mut();
                etcd.map(|etcd| etcd.sick.insert(name.clone()));
            }
            Blow::OldCertificates | Blow::ExpiredCertificates => {
                if unit.inside.control_plane {
                    unit.inside.certificates = Some(certificates(Some("its certificates are old")));
                    let etcd = self.etcd.as_mut();
                    let etcd = etcd.filter(|_| blow == Blow::ExpiredCertificates);
                    etcd.map(|etcd| etcd.expired.insert(name.clone()));
                }
            }
            Blow::Wipe if unit.made => {
                self.units.remove(name);
            }
            Blow::Wipe => {
                unit.holds.clear();
                unit.inside = Inside::default();
            }
        }
        self.bury();
    }
}

/// Certificates of a control plane, and why they are to be renewed.
pub(super) fn certificates(due: Option<&str>) -> CertificateFacts {
    CertificateFacts {
        first: Certificate {
            file: "pki/apiserver.crt".into(),
            issued: 0,
            expires: 1,
        },
        authority: None,
        due: due.map(str::to_owned),
        admin: None,
    }
}

fn holds_data(unit: &Unit, id: &ClusterId) -> bool {
    unit.inside.control_plane && unit.inside.joined.as_ref() == Some(id)
}
