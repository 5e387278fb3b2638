//! The adapter to the real world keeps the contract of planning's ports, as the world in memory does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mullion::environment::Environment;
use mullion::workshop;
use mullion_catalog::{Catalog, Model};
use mullion_live::{Adapter, Agent, Outfit};
use mullion_plan::{
    Action, Attend, Discover, DiscoverError, Observed, Perform, Retry, Step, StepError,
};
use mullion_spec::cluster::Cluster;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_spec::value::MachineName;
use mullion_spec::words::Driver;
use mullion_testkit::ports;

use crate::lab::{Lab, place, program};
use crate::trial::Trial;

/// So long may a wait of one step take.
const LIMIT: Duration = Duration::from_mins(4);
/// So long is between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(300);

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn the_adapter_keeps_the_contract_of_its_ports() {
    let mut trial = Trial::begin("the_adapter_keeps_the_contract_of_its_ports");
    let file = "metadata: {name: NAME}\nnetwork: {machineCIDR: 10.212.47.0/24}\nmachines:\n\
        - {name: cp, role: control-plane, autostart: false}\n- {name: lin, count: 1, autostart: false}\n";
    let lab = Lab::new("ports", file);
    let text = fs_err::read_to_string(lab.path("cluster.yaml")).unwrap();
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    let model = Catalog::builtin().judge(draft).model.unwrap();
    let adapter = adapter(&lab, &model);
    let port = Waiting {
        adapter: &adapter,
        made: RefCell::default(),
    };
    let wanted = adapter.wanted();
    let render = |observed: &Observed| adapter.documents(observed);
    let result = ports::conforms(&port, &wanted, render, || ());
    result.unwrap_or_else(|breach| panic!("{breach}"));
    trial.lap("from nothing to nothing, each step twice");
    trial.nothing_is_left();
}

fn adapter<'a>(lab: &Lab, model: &'a Model) -> Adapter<'a> {
    let state = lab.state().parent().unwrap().to_owned();
    let variable = |name: &str| match name {
        "XDG_STATE_HOME" => Some(state.clone().into_os_string()),
        name => std::env::var_os(name),
    };
    let environment = Environment::new(lab.path(""), variable);
    let agent = std::env::var_os("MULLION_TEST_AGENT").map(PathBuf::from);
    let agent = fs_err::read(agent.expect("cargo xtask test names the agent")).unwrap();
    let cluster = model.cluster();
    let outfit = Outfit {
        state: environment.state.clone(),
        cache: environment.cache_of(cluster).unwrap(),
        custody: workshop::custody(cluster, &environment),
        place: place(),
        agent: Agent::new(agent.into(), env!("CARGO_PKG_VERSION")),
        windows: None,
        sources: workshop::sources(model, &environment),
        contents: BTreeMap::new(),
        images: Vec::new(),
        keys: BTreeMap::new(),
        given_key: None,
        existing: None,
        owner: 0,
    };
    let driver = mullion_machines::maker(Driver::Nspawn, &place(), &program()).unwrap();
    Adapter::new(model, outfit, [(Driver::Nspawn, driver)].into()).unwrap()
}

/// The adapter, with the engine's patience for a step that waits.
struct Waiting<'a> {
    adapter: &'a Adapter<'a>,
    /// The machines that were made: nobody waits for what is not there.
    made: RefCell<BTreeSet<MachineName>>,
}

impl Discover for Waiting<'_> {
    fn observe(&self, cluster: &Cluster) -> Result<Observed, DiscoverError> {
        let observed = self.adapter.observe(cluster)?;
        self.adapter.seat(&self.adapter.wanted(), &observed);
        Ok(observed)
    }
}

impl Perform for Waiting<'_> {
    fn perform(&self, step: &Step, attendant: &dyn Attend) -> Result<(), StepError> {
        let begun = Instant::now();
        loop {
            let is_there = match &step.machine {
                Some(machine) => self.made.borrow().contains(machine),
                None => !self.made.borrow().is_empty(),
            };
            match self.adapter.perform(step, attendant) {
                Err(error)
                    if is_there
                        && error.class.retry() != Retry::Never
                        && begun.elapsed() < LIMIT =>
                {
                    std::thread::sleep(PAUSE);
                }
                result => {
                    let machine = step.machine.clone().filter(|_| result.is_ok());
                    match &step.action {
                        Action::MakeMachine { .. } => self.made.borrow_mut().extend(machine),
                        Action::RemoveMachine => {
                            let mut made = self.made.borrow_mut();
                            machine.map(|machine| made.remove(&machine));
                        }
                        _ => {}
                    }
                    return result;
                }
            }
        }
    }
}
