//! Simple documents for the world in memory: as many as real ones, with every setting of a machine's group in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mullion_catalog::Catalog;
use mullion_plan::{
    Action, Carried, Document, Documents, MachineDocuments, Names, ObjectSet, Observed, Plan,
    Roster, Wanted,
};
use mullion_render::{
    InitDocument, JoinDocument, MachineDocument, PATCHES_FOLDER, PLUGIN_PREFIX, sets,
};
use mullion_spec::cluster::{Duty, Machine, System};
use mullion_spec::words::Os;
use mullion_wire::{Blueprint, Content, File, Named, Windows};
use serde_json::{Value, json};

/// The documents of everything that is wanted. A document changes whenever a setting does that concerns it.
pub fn documents(wanted: &Wanted<'_>, observed: &Observed) -> Documents {
    let roster = Roster::of(wanted, observed);
    let machines = wanted.cluster.machines().map(|machine| {
        let address = roster.address(&machine.name).unwrap_or_default();
        // One that the file has by its name.
        let address = address.parse().unwrap_or(IpAddr::from([192, 0, 2, 1]));
        let documents = MachineDocuments {
            machine: carried(machine_document(wanted, &roster, &machine, address)),
            init: carried(init(wanted)),
            join: carried(join(&machine)),
            ground: None,
            variables: BTreeMap::new(),
        };
        (machine.name, documents)
    });
    let objects = |set: &String| Carried::new(ObjectSet(vec![objects(wanted, set)]));
    let sets = sets(wanted.cluster).into_iter();
    Documents {
        machines: machines.collect(),
        sets: sets
            .map(|set| {
                let objects = objects(&set);
                (set, objects)
            })
            .collect(),
        ..Documents::default()
    }
}

/// The plan that those documents lead to.
pub fn plan(wanted: &Wanted<'_>, observed: &Observed) -> Plan {
    mullion_plan::plan(wanted, observed, &documents(wanted, observed))
}

/// A step's action that starts a machine.
pub fn start() -> Action {
    Action::StartMachine {
        names: Carried::new(Names(BTreeMap::new())),
        name_servers: Vec::new(),
    }
}

fn carried<T: serde::Serialize>(document: T) -> Document<T> {
    Document::Known(Carried::new(document))
}

fn machine_document(
    wanted: &Wanted<'_>,
    roster: &Roster,
    machine: &Machine<'_>,
    address: IpAddr,
) -> MachineDocument {
    let (cluster, group) = (wanted.cluster, machine.group);
    let (kubernetes, network) = (&cluster.kubernetes, &cluster.network);
    let is_node = group.duty != Duty::LoadBalancer;
    let mut settings = json!({
        "duty": format!("{:?}", group.duty),
        "system": group.system,
        "proxy": cluster.proxy,
        "trust": cluster.trust,
        "files": group.files,
    });
    if is_node {
        settings["nodeIP"] = json!(group.node_ip);
        settings["gates"] = json!(kubernetes.feature_gates);
        settings["endpoint"] = json!(roster.endpoint);
        settings["network"] = json!(format!(
            "{:?} {:?} {:?} {:?} {} {}",
            network.cni, network.backend, network.vni, network.mtu, network.pods, network.services
        ));
    } else {
        let planes = cluster.machines();
        let planes = planes.filter(|machine| machine.group.duty == Duty::ControlPlane);
        let planes: Vec<_> = planes
            .map(|plane| roster.address(&plane.name).map(str::to_owned))
            .collect();
        settings["controlPlanes"] = json!(planes);
    }
    let mut files = vec![text("/settings", format!("{settings:#}"))];
    if is_node {
        files.extend(kubernetes.patches.iter().map(|patch| {
            let name = patch.file_name().unwrap_or_default().to_string_lossy();
            let content = match wanted.contents.get(patch) {
                Some(Content::Text(text)) => text.clone(),
                _ => String::new(),
            };
            text(&format!("{PATCHES_FOLDER}/{name}"), content)
        }));
        let parts = wanted.parts_of(group).into_iter();
        files.extend(parts.filter(|part| !part.is_agent()).map(|part| File {
            path: format!("/parts/{}/{}", part.os, part.name),
            content: Named::Program {
                name: part.name.clone(),
                os: part.os.to_string(),
                version: part.version.clone(),
            },
            mode: 0o755,
        }));
    }
    let windows = match &group.system {
        System::Windows(windows) if !Catalog::builtin().is_stand_in(group) => {
            let features = Catalog::builtin().windows_features(windows).into_iter();
            features.map(str::to_owned).collect()
        }
        _ => BTreeSet::new(),
    };
    let images = if is_node {
        wanted.users_images(group.system.os())
    } else {
        BTreeMap::new()
    };
    MachineDocument {
        address: group_address(machine).unwrap_or(address),
        name_servers: group
            .carrier
            .is_made()
            .then(|| network.upstream_dns.clone()),
        blueprint: Blueprint {
            version: mullion_wire::VERSION,
            machine: machine.name.to_string(),
            packages: Vec::new(),
            modules: BTreeSet::new(),
            sysctls: BTreeMap::new(),
            folders: Vec::new(),
            files,
            services: Vec::new(),
            firewall: None,
            windows: (group.system.os() == Os::Windows).then(|| Windows {
                features: windows,
                ..Windows::default()
            }),
        },
        images,
    }
}

/// An address that stands for the one that the file chooses: another choice is another address.
fn group_address(machine: &Machine<'_>) -> Option<IpAddr> {
    use mullion_spec::cluster::NodeIp;
    match machine.group.node_ip.as_ref()? {
        NodeIp::Address(address) => Some(*address),
        NodeIp::Network(network) => Some(network.addr()),
        NodeIp::Adapter(_) => Some(IpAddr::from([192, 0, 2, 2])),
    }
}

fn text(path: &str, text: String) -> File<Named> {
    File {
        path: path.into(),
        content: Named::Text(text.into()),
        mode: 0o644,
    }
}

fn init(wanted: &Wanted<'_>) -> InitDocument {
    let network = &wanted.cluster.network;
    InitDocument {
        configuration: vec![json!({
            "kubernetesVersion": format!("v{}", wanted.kubernetes),
            "networking": {
                "podSubnet": network.pods.to_string(),
                "serviceSubnet": network.services.to_string(),
            },
        })],
        ignore: BTreeSet::new(),
        patches: PATCHES_FOLDER.into(),
    }
}

fn join(machine: &Machine<'_>) -> JoinDocument {
    JoinDocument {
        configuration: json!({"nodeRegistration": {"name": machine.name.as_str()}}),
        discovery_path: "/discovery".into(),
        ignore: BTreeSet::new(),
        patches: PATCHES_FOLDER.into(),
    }
}

fn objects(wanted: &Wanted<'_>, set: &str) -> Value {
    let (cluster, network) = (wanted.cluster, &wanted.cluster.network);
    let of_plugin = set.starts_with(PLUGIN_PREFIX);
    let parts = wanted.parts.iter();
    let parts = parts.filter(|part| set.ends_with(&part.name) || part.name.starts_with(set));
    let parts: Vec<_> = parts.map(ToString::to_string).collect();
    json!({
        "kind": "ConfigMap",
        "metadata": {"name": set, "namespace": "kube-system"},
        "data": {
            "parts": parts,
            "pods": network.pods.to_string(),
            "plugin": of_plugin.then(|| format!("{:?} {:?}", network.vni, network.mtu)),
            "dns": (set == "dns").then(|| format!("{} {:?}", network.domain, network.upstream_dns)),
            "policies": (set == "admission").then(|| format!("{:?}", cluster.policies)),
        },
    })
}
