//! Machines in memory and adapters without a world, for tests.

use std::collections::BTreeMap;

use mullion_artifacts::{Claims, Custody, Ledger, Sources};
use mullion_catalog::{Catalog, Model};
use mullion_machines::{Driver as _, Hosts, Look as _, MachineWish, NetworkWish};
use mullion_plan::{Fingerprint, Size, TemplateId, Unattended};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::{Driver, MachineAccess};
use mullion_testkit::driver::memory::Memory;

use super::{Adapter, Agent, ClusterState, Outfit};

/// A cluster file, and folders for everything that its adapter keeps.
pub(super) struct Scene {
    model: Model,
    folder: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new(file: &str) -> Self {
        let draft = Draft::read(Source::new("cluster.yaml", file), &Surroundings::default());
        Self {
            model: Catalog::builtin().judge(draft).model.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The adapter, which can make no machines.
    pub(super) fn adapter(&self) -> Adapter<'_> {
        self.adapter_with(BTreeMap::new())
    }

    /// The adapter, with drivers that make machines.
    pub(super) fn adapter_with(
        &self,
        drivers: BTreeMap<Driver, Box<dyn mullion_machines::Driver>>,
    ) -> Adapter<'_> {
        let path = |name| self.folder.path().join(name);
        let outfit = Outfit {
            state: path("state"),
            cache: path("cache"),
            custody: Custody {
                ledger: Ledger::new(path("artifacts")),
                is_named: false,
                owner: None,
                claims: Claims::default(),
            },
            place: path("place"),
            agent: Agent::new(Vec::new().into(), "1"),
            windows: None,
            sources: Sources::default(),
            contents: BTreeMap::new(),
            images: Vec::new(),
            keys: BTreeMap::new(),
            given_key: None,
            existing: None,
            owner: 0,
        };
        Adapter::new(&self.model, outfit, drivers).unwrap()
    }

    /// The folder with everything that the adapter keeps.
    pub(super) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// What is kept of the cluster between runs.
    pub(super) fn state(&self) -> ClusterState {
        let name = &self.model.cluster().name;
        ClusterState::of(&self.folder.path().join("state"), name)
    }
}

pub(super) fn id(name: &str) -> TemplateId {
    TemplateId {
        name: name.into(),
        fingerprint: Fingerprint::of(&name),
    }
}

/// Makes a cluster's network and a machine in it, at the next address.
pub(super) fn make(computer: &Memory, cluster: &str, network: &str, name: &str, template: &str) {
    make_of(computer, cluster, network, name, id(template));
}

/// The same of any template.
pub(super) fn make_of(
    computer: &Memory,
    cluster: &str,
    network: &str,
    name: &str,
    template: TemplateId,
) {
    let cluster: ClusterName = cluster.parse().unwrap();
    let name: MachineName = name.parse().unwrap();
    let network: ipnet::Ipv4Net = network.parse().unwrap();
    let wish = NetworkWish {
        cluster: cluster.clone(),
        network,
        access: MachineAccess::Host,
        identity: None,
    };
    computer.make_network(&wish, &Unattended).unwrap();
    let number = computer.find(&cluster).unwrap().machines.len() + 1;
    let wish = MachineWish {
        cluster,
        name,
        template,
        os: mullion_spec::words::Os::Linux,
        template_path: "/templates".into(),
        size: Size {
            cpus: 1,
            memory: "1GiB".parse().unwrap(),
            disk: "1GiB".parse().unwrap(),
        },
        address: network.hosts().nth(number).unwrap(),
        network,
        authorized_keys: Vec::new(),
        hosts: Hosts::default(),
        dns: Vec::new(),
        autostart: true,
        identity: None,
    };
    computer.make(&wish, &Unattended).unwrap();
}
