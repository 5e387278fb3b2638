//! What a cluster file leads to, as texts by kind, without touching any machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use mullion::environment::Environment;
use mullion::workshop;
use mullion_catalog::{Catalog, Model};
use mullion_live::{Adapter, Agent, Outfit, chosen_address};
use mullion_plan::{Discover as _, Documents, Fingerprint, Observed, Wanted, plan};
use mullion_render::{
    Cgroups, Footing, Ground, InitKeys, JoinKeys, Place, Setting, Stored, init_config, join_config,
    load_balancer_blueprint, node_blueprint, objects, stand_in_containerd, windows_blueprint,
};
use mullion_spec::cluster::{ControlPlane, Duty, Machine};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::words::Os;
use mullion_testkit::{Dice, Until, World, run};
use mullion_wire::{Blueprint, Content, Patience, Secret, Sha256Digest};
use serde_json::Value;

/// Texts by kind, or the codes of the rules that refuse the file.
pub(crate) type Effects = Result<BTreeMap<&'static str, String>, Vec<&'static str>>;

/// A folder with the files that cluster files name.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    environment: Environment,
}

const GROUND: Ground = Ground {
    footing: Footing::SystemContainer,
    cgroups: Cgroups::V2,
    can_raise_limits: true,
    has_swap: false,
    has_resolver: true,
};

const SETS: &[&str] = &[
    "network-flannel",
    "service-proxy",
    "policy",
    "dns",
    "runtime-classes",
];

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["id", "other-id"] {
            let pair = mullion_ssh::generate_key().unwrap();
            fs_err::write(folder.path().join(name), pair.private.reveal()).unwrap();
        }
        let environment = Environment::new(folder.path().to_owned(), |name| {
            (name == "HOME").then(|| folder.path().into())
        });
        Self {
            folder,
            environment,
        }
    }

    /// What a file leads to.
    pub(crate) fn effects(&self, file: &Value) -> Effects {
        let source = Source::new("cluster.yaml", file.to_string());
        let draft = Draft::read(source, &Surroundings::default());
        let judgement = Catalog::builtin().judge(draft);
        let findings = judgement.verdict.findings.iter();
        let findings = findings.map(|located| &located.finding);
        let Some(model) = judgement.model else {
            let errors = findings.filter(|finding| finding.severity == Severity::Error);
            let mut codes: Vec<_> = errors.map(|finding| finding.rule.code).collect();
            codes.sort_unstable();
            codes.dedup();
            return Err(codes);
        };
        let told: Vec<_> = findings
            .map(|finding| format!("{} {}", finding.rule.code, finding.message))
            .collect();
        let mut effects = documents(&model);
        effects.insert("findings", told.join("\n"));
        effects.insert("plan", steps(&model));
        let templates = Wanted::of(&model).templates();
        effects.insert("templates", format!("{templates:?}"));
        effects.insert("sources", self.sources(&model));
        effects.insert("logins", self.logins(&model));
        let archives = workshop::archives(model.cluster(), &self.environment);
        let archives: Vec<_> = archives.iter().map(|archive| &archive.path).collect();
        effects.insert("images", format!("{archives:?}"));
        Ok(effects)
    }

    /// Whether something is to be done, or is in the way, once the file of a cluster that is up is another; nothing
    /// where one of the two is refused.
    pub(crate) fn later(before: &Value, after: &Value) -> Option<bool> {
        let (before, after) = (judged(before)?, judged(after)?);
        let mut world = World::default();
        for machine in before.cluster().machines() {
            let address = machine.given_address().map(ToString::to_string);
            if let Some(address) = address.and_then(|address| address.parse().ok()) {
                let group = machine.group;
                let (driver, os) = (group.carrier.driver(), group.system.os());
                world = world.with_machine(&machine.name, driver, os, address);
            }
        }
        let planned = |model: &Model| {
            let observed = world.observe(model.cluster()).unwrap();
            plan(&wanted(model), &observed)
        };
        let outcome = run(&planned(&before), &world, Until::End, &mut Dice::new(7));
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let again = planned(&before);
        assert!(
            again.is_empty(),
            "{:?} {:?}",
            again.steps(),
            again.obstacles()
        );
        Some(!planned(&after).is_empty())
    }

    /// Where parts come from, and where they are kept.
    fn sources(&self, model: &Model) -> String {
        let cluster = model.cluster();
        let cache = self.environment.cache_of(cluster).unwrap();
        let custody = workshop::custody(cluster, &self.environment);
        let sources = workshop::sources(model, &self.environment);
        format!("{} {:?} {sources:?}", cache.display(), custody.claims)
    }

    /// How machines are logged in to.
    fn logins(&self, model: &Model) -> String {
        let given = workshop::given_key(&model.cluster().ssh_key, &self.environment);
        let given = given.map(|given| (given.place, given.key.map(|key| key.public)));
        let folder = self.folder.path();
        let outfit = Outfit {
            state: folder.join("state"),
            cache: folder.join("cache"),
            custody: workshop::custody(model.cluster(), &self.environment),
            place: folder.join("place"),
            agent: Agent::new(Vec::new().into(), "1"),
            windows: None,
            sources: mullion_artifacts::Sources::default(),
            contents: BTreeMap::new(),
            images: Vec::new(),
            keys: workshop::keys(model, &self.environment).unwrap_or_default(),
            given_key: None,
            existing: None,
            owner: 0,
        };
        let adapter = Adapter::new(model, outfit, BTreeMap::new()).unwrap();
        let machines = model.cluster().machines();
        let existing = machines.filter(|machine| machine.given_address().is_some());
        let logins = existing.map(|machine| format!("{:?}", adapter.login(&machine.name)));
        format!("{given:?}\n{}", logins.collect::<Vec<_>>().join("\n"))
    }
}

fn judged(file: &Value) -> Option<Model> {
    let source = Source::new("cluster.yaml", file.to_string());
    let draft = Draft::read(source, &Surroundings::default());
    Catalog::builtin().judge(draft).model
}

/// What planning is given: the file, and the fingerprints of what is rendered from it.
fn wanted(model: &Model) -> Wanted<'_> {
    let setting = setting(model);
    let mut documents = Documents::default();
    for machine in model.cluster().machines() {
        let blueprint = blueprint(&setting, &machine);
        let name = machine.group.name.clone();
        let first = documents.groups.entry(name);
        first.or_insert_with(|| Fingerprint::of(&blueprint));
    }
    for set in SETS {
        if let Some(objects) = objects(&setting, set).unwrap() {
            let fingerprint = Fingerprint::of(&objects);
            documents.sets.insert((*set).into(), fingerprint);
        }
    }
    Wanted {
        documents,
        ..Wanted::of(model)
    }
}

fn blueprint(setting: &Setting<'_>, machine: &Machine<'_>) -> Blueprint {
    let name = &machine.name;
    let blueprint = match (machine.group.duty, machine.group.system.os()) {
        (Duty::LoadBalancer, _) => load_balancer_blueprint(setting, name),
        (_, Os::Windows) => windows_blueprint(setting, name),
        (_, Os::Linux) => node_blueprint(setting, name),
    };
    blueprint.unwrap()
}

/// Blueprints, kubeadm's configurations and objects.
fn documents(model: &Model) -> BTreeMap<&'static str, String> {
    let setting = setting(model);
    let (mut blueprints, mut configurations, mut sets) = (Vec::new(), Vec::new(), Vec::new());
    let token = || Secret::new("abcdef.0123456789abcdef");
    for machine in model.cluster().machines() {
        let (name, group) = (&machine.name, machine.group);
        let blueprint = blueprint(&setting, &machine);
        blueprints.push(serde_json::to_string(&blueprint).unwrap());
        match group.duty {
            Duty::LoadBalancer => {}
            Duty::ControlPlane => {
                let keys = InitKeys {
                    token: token(),
                    token_description: "mullion",
                    certificate_key: None,
                    patience: Patience::USUAL,
                };
                let document = init_config(&setting, name, &keys).unwrap();
                configurations.push(document.reveal().to_owned());
            }
            Duty::Worker => {
                let keys = JoinKeys {
                    token: token(),
                    certificate_key: None,
                    patience: Patience::USUAL,
                };
                let document = join_config(&setting, name, &keys).unwrap();
                configurations.push(document.reveal().to_owned());
            }
        }
    }
    for set in SETS {
        sets.push(format!("{:?}", objects(&setting, set).unwrap()));
    }
    blueprints.extend(stand_in_containerd(&setting).ok());
    BTreeMap::from([
        ("blueprint", blueprints.join("\n")),
        ("kubeadm", configurations.join("\n")),
        ("objects", sets.join("\n")),
    ])
}

fn setting(model: &Model) -> Setting<'_> {
    let cluster = model.cluster();
    let nothing = Stored {
        sha256: Sha256Digest::of(b""),
        size: 0,
    };
    let mut machines = BTreeMap::new();
    for (index, machine) in cluster.machines().enumerate() {
        let given = machine.given_address().map(ToString::to_string);
        let given = given.and_then(|address| address.parse().ok());
        let next = Ipv4Addr::new(10, 99, 0, 11 + u8::try_from(index).unwrap());
        let address = given.unwrap_or(IpAddr::V4(next));
        // A second adapter, for a file that asks for its network.
        let lines = [
            format!("eth0 {address}/24"),
            format!("eth1 198.51.100.{index}/24"),
        ];
        let wish = machine.group.node_ip.as_ref();
        let address = wish.map_or(address, |wish| chosen_address(wish, &lines).unwrap());
        let place = Place {
            address,
            ground: GROUND,
        };
        machines.insert(machine.name, place);
    }
    let programs = |os: Os| -> BTreeMap<_, _> {
        let artifacts = model.artifacts().iter();
        let of_os = artifacts.filter(|artifact| artifact.os == os);
        of_os
            .map(|artifact| (artifact.name.clone(), nothing.clone()))
            .chain([("mullion-agent".to_owned(), nothing.clone())])
            .collect()
    };
    let copied = cluster.groups.iter().flat_map(|group| &group.files);
    let contents = copied
        .map(|file| &file.from)
        .chain(&cluster.kubernetes.patches)
        .chain(&cluster.trust)
        .map(|path| {
            let text = format!("what is in {}\n", path.display());
            (path.clone(), Content::Text(text))
        });
    let endpoint = match &cluster.control_plane {
        ControlPlane::Made {
            endpoint: Some(endpoint),
        } => endpoint.clone(),
        _ => "10.99.0.11:6443".parse().unwrap(),
    };
    Setting {
        model,
        endpoint,
        machine_network: cluster.network.machines,
        contents: contents.collect(),
        programs: programs(Os::Linux),
        windows_programs: programs(Os::Windows),
        machines,
    }
}

/// The steps on computers where nothing was made yet, with what they carry. A blueprint's fingerprint is left out: it
/// covers every field of a group, also one that the blueprint itself does nothing with.
fn steps(model: &Model) -> String {
    let plan = plan(&Wanted::of(model), &Observed::default());
    let mut value = serde_json::to_value(&plan).unwrap();
    forget(&mut value);
    format!("{value} {:?}", plan.obstacles())
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("blueprint");
            // A template's identity is an effect of its own.
            fields.remove("fingerprint");
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}
