//! Everything that is rendered before a plan is made: the documents of every machine, and the cluster's objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mullion_catalog::{Catalog, Model};
use mullion_render::{
    Ground, InitDocument, JoinDocument, MachineDocument, Place, RenderError, Setting, init, join,
    login_variables, machine_document, objects, sets, stand_in_containerd,
};
use mullion_spec::cluster::{Duty, Machine};
use mullion_spec::value::{Endpoint, MachineName};
use mullion_spec::words::Os;
use mullion_wire::Named;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::address::{self, Roster};
use crate::document::{Carried, Document};
use crate::observed::{MachineFacts, Observed, Power};
use crate::wanted::{AGENT, PartKind, Wanted};

/// The objects of one set, in the order they are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ObjectSet(pub Vec<Value>);

/// What of a set runs on nodes and has to be rolled out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// What it is: `DaemonSet` or `Deployment`.
    pub kind: RolloutKind,
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What kind of object runs on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RolloutKind {
    /// One pod on every node that it is for.
    DaemonSet,
    /// Some pods, wherever there is room.
    Deployment,
}

/// The documents of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDocuments {
    /// What it should be before it is a node.
    pub machine: Document<MachineDocument>,
    /// What the cluster would be begun with on it.
    pub init: Document<InitDocument>,
    /// What it would join with.
    pub join: Document<JoinDocument>,
    /// What the machine has to stand on for them; none where they depend on nothing of the kind.
    pub ground: Option<Ground>,
    /// What commands of the user's are told of the proxy, by the names of variables.
    pub variables: BTreeMap<String, String>,
}

impl MachineDocuments {
    /// Those of a machine of which too little is known.
    pub const UNKNOWN: Self = Self {
        machine: Document::AfterInspection,
        init: Document::AfterInspection,
        join: Document::AfterInspection,
        ground: None,
        variables: BTreeMap::new(),
    };
}

/// All documents of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Documents {
    /// Those of machines.
    pub machines: BTreeMap<MachineName, MachineDocuments>,
    /// The sets of objects, in the order they are applied.
    pub sets: Vec<(String, Carried<ObjectSet>)>,
    /// The configuration of containerd inside stand-ins, where there are any.
    pub stand_in_containerd: Option<Carried<String>>,
    /// What cannot be rendered whatever is found out, with why.
    pub faults: BTreeMap<String, String>,
}

impl Documents {
    /// The documents of one machine.
    pub fn of(&self, machine: &MachineName) -> &MachineDocuments {
        const UNKNOWN: &MachineDocuments = &MachineDocuments::UNKNOWN;
        self.machines.get(machine).unwrap_or(UNKNOWN)
    }

    /// Everything of the sets that has to be rolled out.
    pub fn rollouts(&self) -> Vec<Rollout> {
        let objects = self.sets.iter().flat_map(|(_, set)| &set.0);
        objects.filter_map(rollout).collect()
    }

    /// Renders all documents of a cluster from what is wanted and what was found.
    pub fn render(model: &Model, wanted: &Wanted<'_>, observed: &Observed) -> Self {
        let roster = Roster::of(wanted, observed);
        let mut documents = Self::default();
        let Some(mut renderer) = Renderer::new(model, wanted, observed, &roster) else {
            return documents;
        };
        for machine in wanted.cluster.machines() {
            match renderer.machine(&machine) {
                Ok(found) => {
                    documents.machines.insert(machine.name, found);
                }
                Err(error) => {
                    let what = format!("the documents of {}", machine.name);
                    documents.faults.insert(what, error.to_string());
                }
            }
        }
        if !Catalog::builtin().stand_ins(wanted.cluster).is_empty() {
            match stand_in_containerd(&renderer.setting) {
                Ok(text) => documents.stand_in_containerd = Some(Carried::new(text)),
                Err(error) => {
                    let what = "the settings of containerd in stand-ins";
                    documents.faults.insert(what.into(), error.to_string());
                }
            }
        }
        for set in sets(wanted.cluster) {
            match objects(&renderer.setting, &set) {
                Ok(Some(objects)) => {
                    let objects = Carried::new(ObjectSet(objects));
                    documents.sets.push((set, objects));
                }
                missing => {
                    let why = match missing {
                        Err(error) => error.to_string(),
                        Ok(_) => "this release has no such objects".into(),
                    };
                    documents.faults.insert(format!("the objects {set}"), why);
                }
            }
        }
        documents
    }

    /// Renders the documents of one machine once it was inspected. `others` has addresses of machines that were found out
    /// since.
    pub fn after_inspection(
        model: &Model,
        wanted: &Wanted<'_>,
        observed: &Observed,
        (machine, found): (&MachineName, &Inspected),
        others: &BTreeMap<MachineName, IpAddr>,
    ) -> Result<MachineDocuments, RenderError> {
        let unknown = || RenderError::UnknownMachine(machine.clone());
        let roster = Roster::of(wanted, observed);
        let mut renderer = Renderer::new(model, wanted, observed, &roster).ok_or_else(unknown)?;
        let machine = wanted.cluster.machine(machine).ok_or_else(unknown)?;
        let address = roster.address(&machine.name).unwrap_or_default();
        let address = found
            .address
            .or_else(|| address::node_address(&machine, address, &found.addresses));
        for (name, address) in others {
            let place = renderer.setting.machines.entry(name.clone());
            place.or_insert(Place {
                address: *address,
                ground: None,
            });
        }
        let place = Place {
            address: address.ok_or_else(unknown)?,
            ground: found.ground,
        };
        renderer
            .setting
            .machines
            .insert(machine.name.clone(), place);
        renderer.machine(&machine)
    }
}

/// What an inspection found of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspected {
    /// What it stands on; none for Windows.
    pub ground: Option<Ground>,
    /// Its addresses, a line each: `eth0 192.0.2.11/24`.
    pub addresses: Vec<String>,
    /// The address that the name leads to by which the file has it.
    pub address: Option<IpAddr>,
}

/// What runs on nodes, where an object does.
fn rollout(object: &Value) -> Option<Rollout> {
    let kind = match object["kind"].as_str() {
        Some("DaemonSet") => RolloutKind::DaemonSet,
        Some("Deployment") => RolloutKind::Deployment,
        _ => return None,
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    Some(Rollout {
        kind,
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
    })
}

/// Everything that the documents of one cluster are made from.
struct Renderer<'a> {
    setting: Setting<'a>,
    /// Every text of a file so far: ten thousand machines have a few dozen texts.
    texts: BTreeSet<Arc<str>>,
}

impl<'a> Renderer<'a> {
    /// None where nobody knows where the API server is.
    fn new(
        model: &'a Model,
        wanted: &Wanted<'_>,
        observed: &Observed,
        roster: &Roster,
    ) -> Option<Self> {
        let endpoint: Endpoint = roster.endpoint.parse().ok()?;
        let has_servers = !wanted.cluster.network.upstream_dns.is_empty();
        let machines = wanted.cluster.machines().zip(&roster.addresses);
        let machines = machines.filter_map(|(machine, (name, address))| {
            let facts = observed.machines.get(name);
            let told = facts.map_or(&[][..], |facts| &facts.addresses);
            let address = address::node_address(&machine, address, told)
                .or_else(|| facts?.address.filter(|_| machine.group.node_ip.is_none()))?;
            let ground = ground(&machine, facts, observed, has_servers);
            Some((name.clone(), Place { address, ground }))
        });
        let machines = machines.collect();
        let versions = |os: Os| {
            let programs = wanted.parts.iter();
            let programs = programs.filter(|part| part.os == os && part.kind == PartKind::Program);
            programs
                .map(|part| (part.name.clone(), part.version.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let mut windows_programs: BTreeMap<_, _> = versions(Os::Windows);
        // It brings itself: another agent is no other document.
        windows_programs.insert(AGENT.to_owned(), String::new());
        let setting = Setting {
            model,
            endpoint,
            machine_network: roster.network,
            machines,
            programs: versions(Os::Linux),
            windows_programs,
            contents: wanted.contents.clone(),
            images: wanted.users_images(Os::Linux),
        };
        Some(Self {
            setting,
            texts: BTreeSet::new(),
        })
    }

    /// The documents of one machine, as far as it is known well enough.
    fn machine(&mut self, machine: &Machine<'_>) -> Result<MachineDocuments, RenderError> {
        let name = &machine.name;
        let duty = machine.group.duty;
        if duty == Duty::LoadBalancer && !self.knows_control_planes() {
            return Ok(MachineDocuments::UNKNOWN);
        }
        let mut document = machine_document(&self.setting, name);
        if let Ok(document) = &mut document {
            self.share_texts(document);
        }
        let machine = carried(document)?;
        let setting = &self.setting;
        Ok(MachineDocuments {
            ground: setting.machines.get(name).and_then(|place| place.ground),
            variables: login_variables(setting, name)
                .map(|variables| variables.into_iter().collect())
                .unwrap_or_default(),
            init: match duty {
                Duty::ControlPlane => carried(init(setting, name)),
                Duty::Worker | Duty::LoadBalancer => Ok(Document::AfterInspection),
            }?,
            join: match duty {
                Duty::ControlPlane | Duty::Worker => carried(join(setting, name)),
                Duty::LoadBalancer => Ok(Document::AfterInspection),
            }?,
            machine,
        })
    }

    /// Lets a document share texts with those before it.
    fn share_texts(&mut self, document: &mut MachineDocument) {
        for file in &mut document.blueprint.files {
            let Named::Text(text) = &mut file.content else {
                continue;
            };
            match self.texts.get(text) {
                Some(known) => *text = Arc::clone(known),
                None => {
                    self.texts.insert(Arc::clone(text));
                }
            }
        }
    }

    /// Whether every control plane has an address: a load balancer that left one out would stay so.
    fn knows_control_planes(&self) -> bool {
        let known = &self.setting.machines;
        let mut machines = self.setting.model.cluster().machines();
        machines.all(|machine| {
            machine.group.duty != Duty::ControlPlane || known.contains_key(&machine.name)
        })
    }
}

/// A document that was rendered, or that can be once the machine was inspected.
fn carried<T: Serialize>(rendered: Result<T, RenderError>) -> Result<Document<T>, RenderError> {
    match rendered {
        Ok(document) => Ok(Document::Known(Carried::new(document))),
        Err(RenderError::UnknownMachine(_) | RenderError::UnknownGround(_)) => {
            Ok(Document::AfterInspection)
        }
        Err(error) => Err(error),
    }
}

/// What a machine with Linux stands on: as it was found, as it told last, or as its driver makes machines. Nothing of a
/// Windows machine depends on that. `has_servers` where the file names servers for machines of ours to ask for names.
fn ground(
    machine: &Machine<'_>,
    facts: Option<&MachineFacts>,
    observed: &Observed,
    has_servers: bool,
) -> Option<Ground> {
    if machine.group.system.os() == Os::Windows {
        return None;
    }
    let found = facts.and_then(|facts| facts.ground);
    let found = found.or_else(|| observed.grounds.get(&machine.name).copied());
    let found = match found {
        Some(found) => found,
        // One that runs and did not tell may be another than its driver makes today.
        None if facts.is_some_and(|facts| facts.power == Power::On && facts.inside.is_some()) => {
            return None;
        }
        None => {
            let host = observed.hosts.get(&address::place(machine)?)?;
            *host.grounds.get(&machine.group.carrier.driver())?
        }
    };
    let is_made = machine.group.carrier.is_made();
    Some(Ground {
        has_resolver: found.has_resolver || (is_made && has_servers),
        ..found
    })
}
