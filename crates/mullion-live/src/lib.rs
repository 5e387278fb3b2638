//! The adapter between planning and the real world.
//!
//! [`Adapter`] implements both ports of planning: `Discover` reads facts, and `Perform` carries out one step. It uses
//! drivers, SSH logins, agents, the artifact store, templates and the API server. The engine decides order, waiting and
//! retries: a step that waits looks once.
//!
//! The adapter does not read the environment or the user's files: [`Outfit`] holds their contents.
//!
//! # Current limitations
//!
//! - One adapter serves one cluster and one run.
//! - Which images of the cluster's own a machine of the user's is brought follows from the model, and is in no document.

mod addresses;
mod admin;
#[cfg(test)]
mod calls;
mod cluster;
mod differences;
mod documents;
mod drivers;
mod etcd;
mod fitness;
#[doc(hidden)]
pub mod fuzz;
mod grounds;
mod identity;
mod images;
mod inspect;
mod inspect_windows;
mod known_images;
mod kubeadm;
mod login;
mod logs;
mod look;
mod machine;
#[cfg(test)]
mod made;
mod members;
mod networks;
mod node_address;
mod notes;
mod proofs;
mod purge;
mod renewal;
mod restarts;
mod starts;
mod state;
mod supply;
mod talk;
mod unload;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use mullion_artifacts::{Custody, Sources, Store, StoreError};
use mullion_catalog::Model;
use mullion_kube::Api;
use mullion_machines::{Driver, Hosts};
use mullion_plan::{
    Action, Attend, ClusterUid, Discover, DiscoverError, ErrorClass, MachineDocuments, Observed,
    Part, PartKind, Perform, Plan, Roster, Step, StepError, StepId, Unusable, Wanted,
};
use mullion_rights::Opened;
use mullion_spec::cluster::Cluster;
use mullion_spec::value::{ClusterName, MachineName, SecretRef};
use mullion_spec::words::{self, Os};
use mullion_ssh::{Key, Session, Ssh};
use mullion_template::Templates;
use mullion_wire::{Content, Patience, Secret, Sha256Digest};

use addresses::Addresses;
use drivers::Drivers;
use proofs::Changes;
use restarts::Restarts;
use starts::Starts;

pub use differences::PlanDifferences;
pub use purge::{KeptTemplate, PurgeError, Purged, PurgedFolders};
pub use state::{ClusterState, LoginKey, StateError, Taken};

/// The agent's program, as it is brought to machines.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Their digest.
    pub sha256: Sha256Digest,
    /// How it names itself.
    pub version: String,
}

impl Agent {
    /// The agent of those bytes and that version.
    pub fn new(bytes: Cow<'static, [u8]>, version: &str) -> Self {
        let sha256 = Sha256Digest::of(&bytes);
        let version = mullion_wire::agent_version(version, &sha256);
        Self {
            bytes,
            sha256,
            version,
        }
    }
}

/// What Windows machines, and what stands in for them, are brought.
#[derive(Debug, Clone)]
pub struct WindowsOutfit {
    /// The agent.
    pub agent: Agent,
    /// The program that makes a stand-in look like Windows.
    pub stand_in: Cow<'static, [u8]>,
    /// Libraries that answer where a stand-in has nothing of its own, by their file names.
    pub shims: BTreeMap<String, Cow<'static, [u8]>>,
}

impl WindowsOutfit {
    /// What of it lies in templates, as one word: another one is another template.
    fn fingerprint(&self) -> String {
        let mut all = self.stand_in.to_vec();
        for (name, bytes) in &self.shims {
            all.extend_from_slice(name.as_bytes());
            all.extend_from_slice(bytes);
        }
        let digest = Sha256Digest::of(&all);
        digest.as_str()[..12].to_owned()
    }
}

/// Everything from outside that the adapter needs.
#[derive(Debug)]
pub struct Outfit {
    /// The user's state folder.
    pub state: PathBuf,
    /// The folder of the cache: the one that the file names, or the user's.
    pub cache: PathBuf,
    /// Who answers for what is in it.
    pub custody: Custody,
    /// Where machines and templates of this computer are.
    pub place: PathBuf,
    /// The agent for Linux machines.
    pub agent: Agent,
    /// What Windows machines are brought, where this program was built with it.
    pub windows: Option<WindowsOutfit>,
    /// Where parts may come from.
    pub sources: Sources,
    /// Contents of files that the cluster file names, by the path it gives them.
    pub contents: BTreeMap<PathBuf, UserFile>,
    /// Archives that the user gave for images of theirs on Linux machines.
    pub images: Vec<UserArchive>,
    /// Login keys of machines and hosts that exist already, by what the file says of them.
    pub keys: BTreeMap<String, Key>,
    /// The user's own key for machines that are made; one is generated where there is none.
    pub given_key: Option<GivenKey>,
    /// The kubeconfig of a cluster that exists already.
    pub existing: Option<Secret>,
    /// The number of the user who asks: whoever `sudo` was asked by, else whoever runs this process.
    pub owner: u32,
}

/// The user's own key for machines that are made. Only a run that logs in needs it.
#[derive(Debug, Clone)]
pub struct GivenKey {
    /// Where the cluster file says that it is.
    pub place: String,
    /// The key, or why it cannot be used.
    pub key: Result<LoginKey, String>,
}

/// A file that the cluster file names.
#[derive(Debug, Clone)]
pub struct UserFile {
    /// What is in it.
    pub content: Content,
    /// The file itself, as it was opened with the user's rights.
    pub opened: Opened,
}

/// An archive of images that the cluster file names. Only a run that imports it needs it.
#[derive(Debug)]
pub struct UserArchive {
    /// Where it is on this computer.
    pub path: PathBuf,
    /// The name under which containerd keeps the image that the cluster file says is in it.
    pub reference: String,
    /// The images that the archive may not hold: others than the file names with it, under names that the cluster uses.
    reserved: BTreeSet<String>,
    /// The file itself, as it was opened with the user's rights, or why it could not be.
    pub opened: std::io::Result<Opened>,
    /// Its digest and its names, once they were needed, or why it cannot be read.
    content: OnceLock<Result<ArchiveContent, String>>,
    /// Why it cannot be used, once that was needed; nothing where it can.
    unusable: OnceLock<Option<Unusable>>,
}

/// What one pass over an archive of images found: its names are those of the bytes that its digest pins.
#[derive(Debug)]
struct ArchiveContent {
    /// The digest of the whole file.
    digest: Sha256Digest,
    /// The names of its images, as [`mullion_artifacts::archive_names`] gives them.
    names: std::io::Result<Option<BTreeSet<String>>>,
}

/// Why an adapter cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The state folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// The artifact store.
    #[error("the cache cannot be used")]
    Store(#[from] StoreError),
    /// Logins.
    #[error("no logins are possible")]
    Ssh(#[source] mullion_ssh::TransportError),
}

/// What a plan was made from.
struct Basis {
    /// Who is where.
    roster: Roster,
    /// What was found.
    observed: Observed,
}

/// The real world behind planning's ports, for one cluster.
pub struct Adapter<'a> {
    model: &'a Model,
    outfit: Outfit,
    state: ClusterState,
    store: Store,
    templates: Templates,
    /// What builds them.
    builder: Box<dyn supply::BuildTemplates>,
    drivers: Drivers,
    ssh: Ssh,
    sessions: Mutex<BTreeMap<MachineName, Session>>,
    /// The parts of the model, once they were needed.
    parts: OnceLock<Vec<Part>>,
    /// What machines stand on, as they told in this run.
    grounds: Mutex<grounds::Told>,
    /// The documents that inspections of this run led to.
    rendered: Mutex<BTreeMap<MachineName, MachineDocuments>>,
    /// By which address machines are nodes, as far as that was found out.
    node_addresses: Mutex<BTreeMap<MachineName, IpAddr>>,
    /// The addresses that agents told.
    addresses: Addresses,
    /// What the plan was made from: known once the world was looked at.
    basis: RwLock<Option<Arc<Basis>>>,
    /// What the name of the endpoint leads to, asked once.
    endpoint_addresses: OnceLock<Vec<IpAddr>>,
    api: Mutex<Option<Arc<Api>>>,
    /// The machines that were asked to start anew.
    restarts: Restarts,
    /// What kubelets had said before they, or their machines, were started.
    starts: Starts,
    /// The user's machines on which something of ours may lie.
    taken: Mutex<BTreeMap<MachineName, Taken>>,
    /// The names that all machines which run were told in this run; held while they are told.
    told: Mutex<Option<Hosts>>,
    /// The cluster's id, once it is known.
    id: Mutex<Option<ClusterUid>>,
    /// By what members of etcd are known to be machines', since the last look.
    machines: Mutex<members::Machines>,
    /// Snapshots of etcd that this run saved.
    snapshots: Mutex<Vec<PathBuf>>,
    notes: Mutex<notes::Notes>,
    /// Machines whose kubelet this run restarted so that it registers its node.
    registered: Mutex<BTreeSet<MachineName>>,
    /// Whether this run forgot what suites had proven before; held while a step makes it forget.
    changes: Mutex<Changes>,
    /// How long agents, and the programs that build templates, may take.
    patience: Mutex<Patience>,
    /// Held while the login key is read or made: machines are made side by side.
    login_key: Mutex<Option<LoginKey>>,
}

impl<'a> Adapter<'a> {
    /// An adapter for a model's cluster, with the drivers that make machines.
    pub fn new(
        model: &'a Model,
        mut outfit: Outfit,
        mut drivers: BTreeMap<words::Driver, Box<dyn Driver>>,
    ) -> Result<Self, AdapterError> {
        let cluster = model.cluster();
        let state = ClusterState::of(&outfit.state, &cluster.name);
        let taken = state.taken()?;
        let existing = login::existing_driver(cluster, &taken);
        drivers.insert(words::Driver::Ssh, Box::new(existing));
        images::reserve(&mut outfit.images, model);
        Ok(Self {
            store: Store::open_with(&outfit.cache, outfit.custody.clone())?,
            templates: Templates::new(outfit.place.join("templates"))
                .of_sources(outfit.custody.claims.whole().as_deref()),
            builder: Box::new(supply::BuildHere),
            drivers: Drivers::new(drivers),
            ssh: Ssh::new().map_err(AdapterError::Ssh)?,
            sessions: Mutex::default(),
            parts: OnceLock::new(),
            grounds: Mutex::default(),
            rendered: Mutex::default(),
            node_addresses: Mutex::default(),
            addresses: Addresses::default(),
            basis: RwLock::default(),
            endpoint_addresses: OnceLock::new(),
            api: Mutex::default(),
            restarts: Restarts::default(),
            starts: Starts::default(),
            told: Mutex::default(),
            id: Mutex::default(),
            machines: Mutex::default(),
            snapshots: Mutex::default(),
            notes: Mutex::default(),
            registered: Mutex::default(),
            changes: Mutex::default(),
            patience: Mutex::default(),
            login_key: Mutex::default(),
            taken: Mutex::new(taken),
            state,
            outfit,
            model,
        })
    }

    /// The model that they work for.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The cluster's name.
    pub fn cluster_name(&self) -> &'a ClusterName {
        &self.model.cluster().name
    }

    /// Lets agents, the programs that build templates, and machines that start take so many hundredths of the usual time.
    pub fn be_patient(&self, hundredths: u32) {
        let patience = Patience::of_hundredths(hundredths);
        *lock(&self.patience) = patience;
        for (_, driver) in self.drivers.all() {
            driver.be_patient(patience);
        }
    }

    /// What must never be shown.
    pub fn secrets(&self) -> Vec<Secret> {
        let kubeconfig = self.state.kubeconfig().ok().flatten();
        kubeconfig
            .into_iter()
            .chain(self.outfit.existing.clone())
            .collect()
    }

    /// The fetching steps of a plan that build from source, as far as that is known beforehand.
    pub fn builds(&self, plan: &Plan) -> BTreeSet<StepId> {
        let steps = plan.steps().iter();
        let builds = steps.filter(|step| match &step.action {
            Action::Fetch { part } => part.kind == PartKind::Program,
            _ => false,
        });
        builds.map(|step| step.id.clone()).collect()
    }

    /// What is kept of the cluster between runs.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The snapshots of etcd that were saved since this was made.
    pub fn snapshots(&self) -> Vec<PathBuf> {
        lock(&self.snapshots).clone()
    }

    /// The artifact store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where parts may come from.
    pub fn sources(&self) -> &Sources {
        &self.outfit.sources
    }

    /// What planning wants: the model, our agent, and what the documents come to.
    pub fn wanted(&self) -> Wanted<'a> {
        let mut wanted = Wanted::of(self.model);
        let windows = self.outfit.windows.as_ref();
        let agents = [(Os::Linux, Some(&self.outfit.agent))]
            .into_iter()
            .chain([(Os::Windows, windows.map(|windows| &windows.agent))]);
        if let Some(windows) = windows {
            wanted.parts.push(Part {
                name: STAND_IN.into(),
                os: Os::Windows,
                kind: PartKind::Program,
                version: windows.fingerprint(),
            });
        }
        for (os, agent) in agents {
            wanted.parts.extend(agent.map(|agent| Part {
                name: AGENT.into(),
                os,
                kind: PartKind::Program,
                version: agent.version.clone(),
            }));
        }
        wanted.contents = self.contents();
        wanted.archives = self.archives();
        wanted
    }

    /// Takes down what a plan is made from, for its steps.
    pub fn seat(&self, wanted: &Wanted<'_>, observed: &Observed) {
        lock(&self.node_addresses).clear();
        lock(&self.rendered).clear();
        let basis = Basis {
            roster: Roster::of(wanted, observed),
            observed: observed.clone(),
        };
        let mut held = self.basis.write().unwrap_or_else(PoisonError::into_inner);
        *held = Some(Arc::new(basis));
    }

    fn basis(&self) -> Result<Arc<Basis>, StepError> {
        let held = self.basis.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
            .ok_or_else(|| StepError::new(ErrorClass::Refused, "nobody has looked who is where"))
    }

    fn cluster(&self) -> &'a Cluster {
        self.model.cluster()
    }
}

impl std::fmt::Debug for Adapter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Adapter")
            .field("cluster", &self.cluster().name)
            .finish_non_exhaustive()
    }
}

/// The part whose version the agent reports.
const AGENT: &str = "mullion-agent";
/// The part that is all of ours in a stand-in's template; of such a name, so that stand-ins alone hold it.
const STAND_IN: &str = "mullion-stand-in";

/// By what a login's key is found among those of the outfit.
pub fn key_name(login: &mullion_spec::cluster::Login) -> String {
    login
        .key
        .as_ref()
        .map_or_else(|| "agent".into(), place_name)
}

/// Where a secret is, in words.
pub fn place_name(place: &SecretRef) -> String {
    match place {
        SecretRef::File(path) => format!("file {}", path.display()),
        SecretRef::Env(name) => format!("variable {name}"),
    }
}

/// What a lock holds, also where a thread died with it: every value behind our locks is whole at any moment.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a part is inside this program, so that nobody fetches it.
fn is_own(part: &Part) -> bool {
    [AGENT, STAND_IN].contains(&part.name.as_str())
}

impl Discover for Adapter<'_> {
    fn observe(&self, _cluster: &Cluster) -> Result<Observed, DiscoverError> {
        self.look()
    }
}

impl Perform for Adapter<'_> {
    fn perform(&self, step: &Step, attendant: &dyn Attend) -> Result<(), StepError> {
        let machine = || {
            step.machine.as_ref().ok_or_else(|| {
                StepError::new(
                    ErrorClass::Refused,
                    format!("step {} names no machine", step.id),
                )
            })
        };
        if !step.action.only_looks() {
            self.forget_proofs()?;
        }
        self.keep_addresses()?;
        self.keep_grounds()?;
        let attendant: &dyn Attend = &notes::Noting {
            notes: &self.notes,
            attendant,
        };
        match &step.action {
            Action::Fetch { part } => self.fetch(part, attendant),
            Action::CheckStock { parts } => self.check_stock(parts),
            Action::BuildTemplate {
                template,
                driver,
                system,
                parts,
                images,
                containerd,
            } => {
                let content = supply::TemplateContent {
                    driver: *driver,
                    system,
                    parts,
                    images,
                    containerd: containerd.as_ref().map(|text| text.as_str()),
                };
                self.build_template(template, &content, attendant)
            }
            Action::MakeNetwork {
                place,
                network,
                access,
            } => self.make_network(place, *network, *access, attendant),
            Action::MakeMachine {
                place,
                driver,
                template,
                os,
                size,
                address,
                network,
                autostart,
                names,
                name_servers,
            } => {
                let making = machine::Making {
                    place,
                    driver: *driver,
                    template,
                    os: *os,
                    size: *size,
                    address: *address,
                    network: *network,
                    autostart: *autostart,
                    names,
                    name_servers,
                };
                self.make_machine(machine()?, &making, attendant)
            }
            Action::StartMachine {
                names,
                name_servers,
            } => self.start_machine(machine()?, names, name_servers, attendant),
            Action::SetAutostart { autostart } => self.set_autostart(machine()?, *autostart),
            Action::Reach { address } => self.reach(machine()?, address),
            Action::Inspect { os, profile } => self.inspect(machine()?, *os, profile, attendant),
            Action::InstallAgent { os, version, prior } => {
                self.install_agent(machine()?, (*os, version.as_deref()), *prior, attendant)
            }
            Action::RunBefore {
                commands,
                variables,
            } => self.run_commands(machine()?, (commands, variables), "before", attendant),
            Action::RunAfter {
                commands,
                variables,
            } => self.run_commands(machine()?, (commands, variables), "after", attendant),
            Action::EnableFeatures { features } => {
                self.enable_features(machine()?, features, attendant)
            }
            Action::Reboot => self.reboot(machine()?, attendant),
            Action::ApplyBlueprint { document } => self.apply(machine()?, document, attendant),
            Action::AwaitApi { endpoint } => self.await_api(step.machine.as_ref(), endpoint),
            Action::Init {
                endpoint,
                document,
                prior,
            } => self.init(machine()?, document, (*prior, endpoint), attendant),
            Action::Join {
                duty,
                endpoint,
                document,
                taints,
                prior,
            } => {
                let joining = kubeadm::Joining {
                    duty: *duty,
                    endpoint,
                    document,
                    taints,
                    prior: *prior,
                };
                self.join(machine()?, &joining, attendant)
            }
            Action::Register {
                labels,
                taints,
                prior,
            } => self.register(machine()?, labels, taints, *prior, attendant),
            Action::SaveEtcd { before } => self.save_etcd(machine()?, *before, attendant),
            Action::Renew { endpoint } => self.renew(machine()?, endpoint.as_deref(), attendant),
            Action::Drain => self.drain(machine()?, attendant),
            Action::Reset { keeps_etcd } => self.reset(machine()?, *keeps_etcd, attendant),
            Action::Forget { membership } => self.forget(machine()?, *membership),
            Action::ApplyObjects { set, objects } => self.apply_objects(set, objects),
            Action::RemoveObjects { set } => self.remove_objects(set),
            Action::ApproveCertificates => self.approve_certificates(machine()?),
            Action::Mark {
                labels,
                taints,
                drop_labels,
                drop_taints,
            } => self.mark(machine()?, labels, taints, drop_labels, drop_taints),
            Action::AwaitNodeNetwork { connection } => {
                self.await_node_network(machine()?, *connection)
            }
            Action::AwaitReady => self.await_ready(machine()?),
            Action::ReleaseMachine => self.release_machine(machine()?, attendant),
            Action::RemoveMachine => self.remove_machine(machine()?, attendant),
            Action::RemoveNetwork { place } => self.remove_network(place, attendant),
            Action::Verify { suite, rollouts } => self.verify(suite, rollouts),
        }
    }

    fn tail(&self, step: &Step) -> Vec<String> {
        self.log_lines(step)
    }
}
