//! How machines and the cluster's objects differ from what a plan's steps carry. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use mullion_kube::{FieldDifference, ObjectChange, ObjectDifference};
use mullion_plan::{
    Action, Applied, Carried, NodeFacts, ObjectSet, Observed, Plan, Power, StepError,
};
use mullion_render::MachineDocument;
use mullion_spec::value::MachineName;
use mullion_wire::{
    Content, Difference, DifferenceKind, Holding, Named, Service, Sha256Digest, Side,
    is_unknown_request, mask_output,
};
use serde_json::Value;

use super::{Adapter, talk};

/// What a plan changes, in the order of the run.
#[derive(Debug, Default)]
pub struct PlanDifferences {
    /// On machines, or why nobody can say.
    pub machines: Vec<(MachineName, Result<Vec<Difference>, String>)>,
    /// In the cluster's objects, by set, or why nobody can say.
    pub sets: Vec<(String, Result<Vec<ObjectDifference>, String>)>,
    /// In the labels and taints of nodes.
    pub nodes: Vec<ObjectDifference>,
}

impl Adapter<'_> {
    /// What a plan that was made of those facts changes on machines and in the cluster's objects.
    pub fn differences(&self, plan: &Plan, observed: &Observed) -> PlanDifferences {
        let mut differences = PlanDifferences::default();
        for step in plan.steps() {
            match (&step.action, &step.machine) {
                (Action::ApplyBlueprint { document }, Some(machine)) => {
                    let found = match document.known() {
                        Some(document) => self.machine_differences(machine, document, observed),
                        None => Err("its documents are rendered once it was inspected".into()),
                    };
                    differences.machines.push((machine.clone(), found));
                }
                (Action::ApplyObjects { set, objects }, _) => {
                    let found = self.set_differences(set, objects, observed);
                    differences.sets.push((set.clone(), found));
                }
                (Action::RemoveObjects { set }, _) => {
                    let none = Carried::new(ObjectSet(Vec::new()));
                    let found = self.set_differences(set, &none, observed);
                    differences.sets.push((set.clone(), found));
                }
                (action @ Action::Mark { .. }, Some(machine)) => {
                    let cluster = observed.cluster.as_ref();
                    let node = cluster.and_then(|cluster| cluster.nodes.get(machine.as_str()));
                    differences
                        .nodes
                        .push(node_difference(machine, action, node));
                }
                _ => {}
            }
        }
        differences
    }

    fn machine_differences(
        &self,
        machine: &MachineName,
        document: &Carried<MachineDocument>,
        observed: &Observed,
    ) -> Result<Vec<Difference>, String> {
        let facts = observed.machines.get(machine);
        let is_new = facts.is_none_or(|facts| !facts.whole || facts.power == Power::New);
        let exists = self.login_wish(machine).is_some();
        let inside = facts.and_then(|facts| facts.inside.as_ref());
        let inside = match inside {
            None if exists || !is_new => return Err("it did not answer".into()),
            None => return Ok(all_of(document)),
            // Nothing of ours is there: everything is new.
            Some(inside) if inside.agent.is_none() => return Ok(all_of(document)),
            Some(inside) => inside,
        };
        let told = |error: &StepError| {
            if is_unknown_request("compare", &error.words, &error.causes) {
                return "its agent is of an older version, which cannot compare; `up` replaces it"
                    .to_owned();
            }
            let causes = error.causes.iter().map(|cause| format!(": {cause}"));
            format!("{}{}", error.words, causes.collect::<String>())
        };
        let (blueprint, unfetched) = self.bound_so_far(document);
        let session = self.session(machine).map_err(|error| told(&error))?;
        let mut found = talk::compare(&session, (machine.as_str(), self.os(machine)), blueprint)
            .map_err(|error| told(&error))?;
        for difference in &mut found {
            if let Some(program) = unfetched.get(&difference.name) {
                difference.after = Some(state(program.clone()));
            }
        }
        found.extend(beside_the_blueprint(inside.blueprint.as_ref(), document));
        Ok(found)
    }

    /// The blueprint as an agent gets it, and the programs that are not in the cache yet, by their paths.
    fn bound_so_far(
        &self,
        document: &MachineDocument,
    ) -> (mullion_wire::Blueprint, BTreeMap<String, String>) {
        let mut unfetched = BTreeMap::new();
        let mut files = document.blueprint.files.iter();
        let bound = document.blueprint.bind(|named| {
            let path = files.next().map(|file| file.path.clone());
            Ok::<_, std::convert::Infallible>(self.content_of(named).unwrap_or_else(|_| {
                let name = match named {
                    Named::Program { name, version, .. } => format!("{name} {version}"),
                    Named::Text(_) | Named::UserFile { .. } => "another file".into(),
                };
                unfetched.extend(path.map(|path| (path, name.clone())));
                Content::Stored {
                    // No file has it.
                    sha256: Sha256Digest::of(name.as_bytes()),
                    size: 0,
                }
            }))
        });
        let Ok(mut blueprint) = bound;
        for file in &mut blueprint.files {
            // Whether it differs is all that the agent tells of a private file: its digest is enough for that.
            if file.mode & 0o004 == 0
                && let Content::Text(text) = &file.content
            {
                file.content = Content::Stored {
                    sha256: file.content.sha256(),
                    size: text.len() as u64,
                };
            }
        }
        (blueprint, unfetched)
    }

    fn set_differences(
        &self,
        set: &str,
        objects: &ObjectSet,
        observed: &Observed,
    ) -> Result<Vec<ObjectDifference>, String> {
        if observed.cluster.is_none() {
            return Ok(objects.0.iter().map(new_object).collect());
        }
        let owner = self.owner().map_err(|error| error.to_string())?;
        let api = self.api().map_err(|error| error.words)?;
        api.compare_set(set, &objects.0, &owner)
            .map_err(|error| error.to_string())
    }
}

/// What differs of a document, and is not laid down by the agent: images of the user's, and servers for names.
fn beside_the_blueprint(
    applied: Option<&Applied>,
    document: &Carried<MachineDocument>,
) -> Vec<Difference> {
    let entries = |applied: &Applied| match applied {
        Applied::Document(mark) => mark.entries.clone(),
        Applied::Older(_) => BTreeMap::new(),
    };
    let old = applied.map(entries).unwrap_or_default();
    let new = entries(&Applied::of(document));
    let is_meant = |entry: &&String| entry.starts_with("image ") || *entry == "DNS servers";
    let all: BTreeSet<_> = old.keys().chain(new.keys()).filter(is_meant).collect();
    let differing = all
        .into_iter()
        .filter(|entry| old.get(*entry) != new.get(*entry));
    differing
        .map(|entry| Difference {
            kind: DifferenceKind::Other,
            name: entry.clone(),
            what: entry.clone(),
            now: old.get(entry).map(|value| state(value.as_str())),
            after: new.get(entry).map(|value| state(value.as_str())),
            after_restart: false,
        })
        .collect()
}

/// The differences of a machine that has nothing yet.
fn all_of(document: &MachineDocument) -> Vec<Difference> {
    let blueprint = &document.blueprint;
    let new = |kind, name: &str, after: Side| Difference {
        kind,
        name: name.into(),
        what: format!("{} {name}", DifferenceKind::word(kind)),
        now: None,
        after: Some(after),
        after_restart: false,
    };
    let mut all = Vec::new();
    for package in &blueprint.packages {
        all.push(new(
            DifferenceKind::Package,
            &package.name,
            state("installed"),
        ));
    }
    for module in &blueprint.modules {
        all.push(new(DifferenceKind::KernelModule, module, state("loaded")));
    }
    for (name, value) in &blueprint.sysctls {
        all.push(new(
            DifferenceKind::KernelSetting,
            name,
            state(value.as_str()),
        ));
    }
    for folder in &blueprint.folders {
        let side = Side {
            mode: Some(folder.mode),
            ..state("there")
        };
        all.push(new(DifferenceKind::Folder, &folder.path, side));
    }
    for file in &blueprint.files {
        let is_private = file.mode & 0o044 == 0;
        let holds = match &file.content {
            _ if is_private => Holding::Private,
            Named::Text(text) => {
                let lines = text.split_inclusive('\n');
                Holding::Text(lines.map(mask_output).collect())
            }
            Named::Program { name, version, .. } => Holding::State(format!("{name} {version}")),
            Named::UserFile { sha256, size } => Holding::Bytes {
                sha256: sha256.clone(),
                size: *size,
            },
        };
        let side = Side {
            holds,
            mode: Some(file.mode),
        };
        all.push(new(DifferenceKind::File, &file.path, side));
    }
    for service in &blueprint.services {
        let words = service_words(service);
        all.push(new(DifferenceKind::Service, &service.name, state(words)));
    }
    if let Some(firewall) = &blueprint.firewall {
        let ports = firewall.open.iter();
        let ports: Vec<_> = ports.map(|port| port.name.clone()).collect();
        let words = format!("open: {}", ports.join(", "));
        all.push(new(DifferenceKind::Firewall, &firewall.group, state(words)));
    }
    if let Some(windows) = &blueprint.windows {
        for feature in &windows.features {
            all.push(new(DifferenceKind::Feature, feature, state("enabled")));
        }
        for value in &windows.registry {
            let name = format!(r"{}\{}", value.key, value.name);
            let data = serde_json::to_value(&value.data).unwrap_or_default();
            all.push(new(
                DifferenceKind::RegistryValue,
                &name,
                state(data.to_string()),
            ));
        }
    }
    all
}

fn state(words: impl Into<String>) -> Side {
    Side {
        holds: Holding::State(words.into()),
        mode: None,
    }
}

fn service_words(service: &Service) -> &'static str {
    use mullion_wire::ServiceState::{Enabled, Running, Stopped};
    match service.state {
        Running => "running",
        Enabled => "enabled",
        Stopped => "stopped",
    }
}

/// An object of a cluster that has none.
fn new_object(object: &Value) -> ObjectDifference {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    ObjectDifference {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: text(&metadata["name"]),
        change: ObjectChange::New,
        fields: Vec::new(),
    }
}

/// What a step changes of a node's labels and taints.
fn node_difference(
    machine: &MachineName,
    action: &Action,
    node: Option<&NodeFacts>,
) -> ObjectDifference {
    let mut fields = Vec::new();
    if let Action::Mark {
        labels,
        taints,
        drop_labels,
        drop_taints,
    } = action
    {
        let has = |key: &str| node.and_then(|node| node.labels.get(key)).cloned();
        let mut label = |key: &String, after: Option<&String>| {
            let before = has(key);
            if before.as_ref() != after {
                fields.push(FieldDifference {
                    path: format!("metadata.labels[{key}]"),
                    before: before.map(Value::String),
                    after: after.cloned().map(Value::String),
                });
            }
        };
        for (key, value) in labels {
            label(key, Some(value));
        }
        for key in drop_labels {
            label(key, None);
        }
        let is_there = |taint| node.is_some_and(|node| node.taints.contains(taint));
        let taint_field = |taint: &mullion_spec::value::Taint, is_added: bool| {
            let words = Value::String(taint.to_string());
            FieldDifference {
                path: format!("spec.taints[{}]", taint.key),
                before: (!is_added).then(|| words.clone()),
                after: is_added.then_some(words),
            }
        };
        let added = taints.iter().filter(|taint| !is_there(taint));
        fields.extend(added.map(|taint| taint_field(taint, true)));
        let dropped = drop_taints.iter().filter(|taint| is_there(taint));
        fields.extend(dropped.map(|taint| taint_field(taint, false)));
    }
    ObjectDifference {
        api_version: "v1".into(),
        kind: "Node".into(),
        namespace: None,
        name: machine.to_string(),
        change: match node {
            Some(_) => ObjectChange::Changed,
            None => ObjectChange::New,
        },
        fields,
    }
}
