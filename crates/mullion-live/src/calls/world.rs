//! A world that plays everything outside of the adapter, equal each time it is made.

use std::sync::{Arc, Mutex, OnceLock};

use mullion_kube::Api;
use mullion_machines::{Door, Driver as _};
use mullion_plan::{
    Action, Attend, ClusterUid, News, Observed, Perform as _, Stage, Step, Unattended,
};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::Driver;
use mullion_ssh::{Key, KeyPair, generate_key};
use mullion_testkit::api::ApiServer;
use mullion_testkit::driver::memory::Memory;
use mullion_testkit::ssh::SshServer;
use mullion_wire::{Secret, Sha256Digest};

use super::super::drivers::Drivers;
use super::super::made::{Scene, make};
use super::super::{Adapter, Agent, GivenKey, LoginKey, WindowsOutfit, lock, login};
use super::agent::Machine;
use super::drivers::{Calls, Recorded};
use super::record::{Raw, Record};
use super::templates::{Recorder, Templates};

/// The cluster: machines that are made, with and without Windows, and machines that exist already.
const FILE: &str = "\
metadata: {name: demo}
machines:
- {name: cp, role: control-plane, count: 3}
- {name: lin, count: 2}
- {name: win, os: windows, driver: wine}
- {name: old, addresses: [192.0.2.7]}
- {name: own, os: windows, addresses: [192.0.2.8]}
";

/// Where nobody listens.
pub(super) const NOWHERE: &str = "127.0.0.1:1";

/// The machines' network.
pub(super) const NETWORK: &str = "10.1.0.0/24";

/// Everything outside of the adapter.
pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) api: ApiServer,
    /// What every machine is like.
    pub(super) machine: Arc<Mutex<Machine>>,
    /// Linux machines of this computer.
    pub(super) linux: Memory,
    ssh: SshServer,
    windows: Memory,
    calls: Calls,
    templates: Templates,
}

/// Hears and keeps what is told.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Attend for Listener {
    fn hear(&self, news: News) {
        // How much was sent is told by the clock.
        if !matches!(news, News::Amount { .. }) {
            lock(&self.0).push(format!("{news:?}"));
        }
    }

    fn is_called_off(&self) -> bool {
        false
    }
}

/// The key of every login. Worlds that are equal have one.
fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| generate_key().unwrap())
}

pub(super) fn name(machine: &str) -> MachineName {
    machine.parse().unwrap()
}

pub(super) fn cluster() -> ClusterName {
    "demo".parse().unwrap()
}

impl World {
    /// A cluster that runs: its API server answers, and its agents tell that their machines have not joined.
    pub(super) fn new() -> Self {
        let machine = Arc::new(Mutex::new(Machine::default()));
        let played = Arc::clone(&machine);
        let world = Self {
            scene: Scene::new(FILE),
            api: ApiServer::start().unwrap(),
            ssh: SshServer::start(move |asked| lock(&played).answer(asked)).unwrap(),
            machine,
            linux: Memory::new(),
            windows: Memory::new(),
            calls: Calls::default(),
            templates: Templates::default(),
        };
        let state = world.scene.state();
        state.keep_id(&ClusterUid::of(1)).unwrap();
        state
            .keep_kubeconfig(&Secret::new(world.api.kubeconfig()))
            .unwrap();
        for machine in ["cp1", "cp2", "lin1"] {
            make(&world.linux, "demo", NETWORK, machine, "debian");
        }
        make(&world.windows, "demo", NETWORK, "win1", "windows");
        for (computer, machine) in [(&world.linux, "cp1"), (&world.windows, "win1")] {
            computer
                .start(&cluster(), &name(machine), &Unattended)
                .unwrap();
        }
        let mut played = lock(&world.machine);
        played.admin = world.api.kubeconfig();
        played.facts.agent = agent().version;
        drop(played);
        world
    }

    /// What machines that have joined say of their cluster.
    pub(super) fn authority(&self) -> Sha256Digest {
        let id = mullion_kube::kubeconfig::cluster_id(&self.api.kubeconfig(), None).unwrap();
        id.0.parse().unwrap()
    }

    /// A client of its API server.
    pub(super) fn client(&self) -> Api {
        Api::connect(&self.api.kubeconfig(), None).unwrap()
    }

    /// Plays etcd beside the API server: a member on each of three control planes, the first of which are healthy.
    pub(super) fn play_etcd(&self, healthy: usize) {
        let place = self.api.place();
        let members = [1, 2, 3].map(|number| {
            let at = if number <= healthy { &place } else { NOWHERE };
            serde_json::json!({
                "ID": number.to_string(),
                "name": format!("cp{number}"),
                "clientURLs": [format!("https://{at}")],
            })
        });
        let list = serde_json::json!({ "members": members });
        self.api.say("/v3/cluster/member/list", list);
        self.api
            .say("/health", serde_json::json!({ "health": "true" }));
        let (authority, key) = (ApiServer::authority(), ApiServer::key());
        lock(&self.machine).etcd = format!("{authority}\n{authority}\n{key}\nhttps://{place}\n");
    }

    /// The adapter over this world.
    pub(super) fn adapter(&self) -> Adapter<'_> {
        let mut adapter = self.scene.adapter();
        let door = Door {
            address: "127.0.0.1".into(),
            port: self.ssh.port(),
            user: "root".into(),
            host_key: Some(self.ssh.host_key().into()),
        };
        let existing = login::existing_driver(adapter.cluster(), &[].into());
        let drivers: [(Driver, Box<dyn mullion_machines::Driver>); 3] = [
            (Driver::Nspawn, Box::new(self.linux.clone())),
            (Driver::Wine, Box::new(self.windows.clone())),
            (Driver::Ssh, Box::new(existing)),
        ];
        let recorded = drivers.map(|(word, driver)| {
            let recorded = Recorded {
                word,
                driver,
                calls: Arc::clone(&self.calls),
                door: door.clone(),
            };
            (
                word,
                Box::new(recorded) as Box<dyn mullion_machines::Driver>,
            )
        });
        adapter.drivers = Drivers::new(recorded.into());
        adapter.builder = Box::new(Recorder(Arc::clone(&self.templates)));
        let private = Key::Pem(key().private.clone());
        adapter.outfit.keys.insert("agent".into(), private.clone());
        adapter.outfit.given_key = Some(GivenKey {
            place: "a test".into(),
            key: Ok(LoginKey {
                private,
                public: key().public.clone(),
            }),
        });
        adapter.outfit.sources.offline = true;
        adapter.outfit.windows = Some(WindowsOutfit {
            agent: agent(),
            stand_in: b"stand-in"[..].into(),
            shims: [("pdh.dll".into(), b"shim"[..].into())].into(),
        });
        adapter.seat(&adapter.wanted(), &Observed::default());
        adapter
    }

    /// Performs a step, and gives what was recorded.
    pub(super) fn perform(
        &self,
        adapter: &Adapter<'_>,
        machine: Option<&str>,
        action: &Action,
    ) -> Record {
        let before = (
            lock(&self.calls).len(),
            self.ssh.asked().len(),
            self.api.asked().len(),
            lock(&self.templates).len(),
        );
        let machine = machine.map(name);
        let step = Step::new(
            Stage::Prepare,
            machine,
            action.clone(),
            "a test".into(),
            Vec::new(),
        );
        let listener = Listener::default();
        let result = adapter.perform(&step, &listener);
        let mut outcome = vec![format!("{result:?}")];
        outcome.append(&mut lock(&listener.0));
        outcome.extend(adapter.take_notes());
        let raw = Raw {
            drivers: lock(&self.calls).split_off(before.0),
            commands: self.ssh.asked().split_off(before.1),
            requests: self.api.asked().split_off(before.2),
            templates: lock(&self.templates).split_off(before.3),
            outcome,
        };
        let folder = self.scene.folder().display().to_string();
        raw.clean(&[
            (folder, "<folder>"),
            (self.api.place(), "<api>"),
            (format!("127.0.0.1:{}", self.ssh.port()), "<ssh>"),
            (self.ssh.host_key().to_owned(), "<host key>"),
        ])
    }
}

/// The agent that scenes bring to machines.
pub(super) fn agent() -> Agent {
    Agent::new(Vec::new().into(), "1")
}
