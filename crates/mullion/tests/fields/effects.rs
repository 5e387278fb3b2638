//! What a cluster file leads to, as texts by kind, without touching any machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use mullion::environment::Environment;
use mullion::workshop;
use mullion_catalog::{Catalog, Model};
use mullion_live::{Adapter, Agent, Outfit};
use mullion_plan::{Archive, Discover as _, Documents, Observed, Wanted, chosen_address, plan};
use mullion_render::{
    Cgroups, Footing, Ground, Place, Setting, init, join, machine_document, objects,
    stand_in_containerd,
};
use mullion_spec::cluster::{ControlPlane, Duty};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::words::Os;
use mullion_testkit::{Dice, Until, World, run};
use mullion_wire::{Content, Sha256Digest};
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
        let mut world = World::default().with_ground(GROUND);
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
            let wanted = wanted(model);
            let documents = Documents::render(model, &wanted, &observed);
            plan(&wanted, &observed, &documents)
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

/// What planning is given: the file, and what is in the files that it names.
fn wanted(model: &Model) -> Wanted<'_> {
    let images = model.cluster().images.iter();
    let archives = images.filter_map(|image| {
        let file = image.archive.as_ref()?.display().to_string();
        Some(Archive {
            reference: image.reference.clone(),
            sha256: Some(Sha256Digest::of(file.as_bytes())),
            file,
            unusable: None,
        })
    });
    Wanted {
        contents: contents(model),
        archives: archives.collect(),
        ..Wanted::of(model)
    }
}

/// Blueprints, kubeadm's configurations and objects.
fn documents(model: &Model) -> BTreeMap<&'static str, String> {
    let setting = setting(model);
    let (mut blueprints, mut configurations, mut sets) = (Vec::new(), Vec::new(), Vec::new());
    for machine in model.cluster().machines() {
        let (name, group) = (&machine.name, machine.group);
        let document = machine_document(&setting, name).unwrap();
        blueprints.push(serde_json::to_string(&document).unwrap());
        match group.duty {
            Duty::LoadBalancer => {}
            Duty::ControlPlane => {
                let document = init(&setting, name).unwrap();
                configurations.push(serde_json::to_string(&document).unwrap());
            }
            Duty::Worker => {
                let document = join(&setting, name).unwrap();
                configurations.push(serde_json::to_string(&document).unwrap());
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
            ground: Some(GROUND),
        };
        machines.insert(machine.name, place);
    }
    let programs = |os: Os| -> BTreeMap<_, _> {
        let artifacts = model.artifacts().iter();
        let of_os = artifacts.filter(|artifact| artifact.os == os);
        of_os
            .map(|artifact| (artifact.name.clone(), artifact.version.clone()))
            .chain([("mullion-agent".to_owned(), String::new())])
            .collect()
    };
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
        contents: contents(model),
        images: BTreeMap::new(),
        programs: programs(Os::Linux),
        windows_programs: programs(Os::Windows),
        machines,
    }
}

/// What is in every file that the cluster file names.
fn contents(model: &Model) -> BTreeMap<PathBuf, Content> {
    let cluster = model.cluster();
    let copied = cluster.groups.iter().flat_map(|group| &group.files);
    let named = copied
        .map(|file| &file.from)
        .chain(&cluster.kubernetes.patches)
        .chain(&cluster.trust)
        .map(|path| {
            let text = format!("what is in {}\n", path.display());
            (path.clone(), Content::Text(text))
        });
    named.collect()
}

/// The steps on computers where nothing was made yet, with what they carry besides documents.
fn steps(model: &Model) -> String {
    let (wanted, observed) = (wanted(model), Observed::default());
    let documents = Documents::render(model, &wanted, &observed);
    let plan = plan(&wanted, &observed, &documents);
    let mut value = serde_json::to_value(&plan).unwrap();
    forget(&mut value);
    format!("{value} {:?}", plan.obstacles())
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // What documents hold are effects of their own.
            for digest in ["document", "objects", "names"] {
                fields.remove(digest);
            }
            // A template's identity is an effect of its own.
            fields.remove("fingerprint");
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}
