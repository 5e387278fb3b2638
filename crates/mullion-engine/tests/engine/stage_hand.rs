//! A port that does what a test says, and keeps an eye on who works beside whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use jiff::Timestamp;
use mullion_engine::{Cancel, Clock, Event, Journal, Options, Report, Watch, run};
use mullion_plan::{Action, Attend, ErrorClass, Perform, Plan, Stage, Step, StepError, StepId};

use crate::evidence::Memory;

pub(crate) type Done = Result<(), StepError>;

/// Does what a test says.
pub(crate) struct StageHand<F> {
    act: F,
    last_lines: Vec<String>,
    seen: Mutex<Seen>,
}

/// What was seen of a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    under_way: BTreeSet<StepId>,
    busy: BTreeSet<String>,
    /// The steps in the order of their performings.
    pub(crate) performed: Vec<StepId>,
    pub(crate) done: BTreeSet<StepId>,
    /// The steps whose log was asked for.
    pub(crate) asked: Vec<StepId>,
    /// The most steps of each kind that went on at once; `all` for all of them.
    pub(crate) most: BTreeMap<String, usize>,
}

impl<F: Fn(&Step, &dyn Attend) -> Done> StageHand<F> {
    pub(crate) fn new(act: F) -> Self {
        Self {
            act,
            last_lines: Vec::new(),
            seen: Mutex::default(),
        }
    }

    /// With those lines in the log of every step.
    pub(crate) fn logging(mut self, lines: &[&str]) -> Self {
        self.last_lines = lines.iter().map(|line| (*line).to_owned()).collect();
        self
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Seen {
    fn begin(&mut self, step: &Step) {
        for need in &step.needs {
            assert!(self.done.contains(need), "{} before {need}", step.id);
        }
        if let Some(machine) = &step.machine {
            assert!(
                self.busy.insert(machine.to_string()),
                "two steps of {machine} at once"
            );
        }
        assert!(self.under_way.insert(step.id.clone()), "{} twice", step.id);
        self.performed.push(step.id.clone());
        let kind = step.action.kind();
        let of_kind = |id: &&StepId| id.as_str().split('/').next() == Some(kind.word());
        let count = self.under_way.iter().filter(of_kind).count();
        for (name, count) in [(kind.word(), count), ("all", self.under_way.len())] {
            let most = self.most.entry(name.to_owned()).or_default();
            *most = (*most).max(count);
        }
    }

    fn end(&mut self, step: &Step, done: bool) {
        self.under_way.remove(&step.id);
        if let Some(machine) = &step.machine {
            self.busy.remove(machine.as_str());
        }
        if done {
            self.done.insert(step.id.clone());
        }
    }
}

impl<F: Fn(&Step, &dyn Attend) -> Done> Perform for StageHand<F> {
    fn perform(&self, step: &Step, attendant: &dyn Attend) -> Done {
        self.seen().begin(step);
        let result = (self.act)(step, attendant);
        self.seen().end(step, result.is_ok());
        result
    }

    fn tail(&self, step: &Step) -> Vec<String> {
        self.seen().asked.push(step.id.clone());
        self.last_lines.clone()
    }
}

/// Keeps every event.
#[derive(Debug, Default)]
pub(crate) struct Album(Mutex<Vec<Event>>);

impl Album {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

impl Watch for Album {
    fn see(&self, _at: Timestamp, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

pub(crate) fn step(stage: Stage, action: Action, machine: Option<&str>, needs: &[&str]) -> Step {
    let machine = machine.map(|name| name.parse().unwrap());
    let needs = needs.iter().map(|need| StepId::new(need)).collect();
    Step::new(stage, machine, action, "a test".into(), needs)
}

/// Machines that are started, each followed by a wait until it is Ready.
pub(crate) fn starts(machines: &[&str]) -> Plan {
    let steps = machines.iter().flat_map(|machine| {
        let start = format!("start/{machine}");
        [
            step(
                Stage::Machines,
                mullion_testkit::start(),
                Some(machine),
                &[],
            ),
            step(Stage::Settle, Action::AwaitReady, Some(machine), &[&start]),
        ]
    });
    Plan::new(steps.collect()).unwrap()
}

pub(crate) fn refused(words: &str) -> Done {
    Err(StepError::new(ErrorClass::Refused, words))
}

pub(crate) fn not_yet(words: &str) -> Done {
    Err(StepError::new(ErrorClass::NotYet, words))
}

pub(crate) fn journal(plan: &Plan) -> (Journal, Memory) {
    Memory::journal(plan, "2026-01-07T12:00:00Z".parse().unwrap())
}

/// Runs a plan that nobody calls off. Gives the report, the events and the journal.
pub(crate) fn run_with<P: Perform + Sync>(
    plan: &Plan,
    port: &P,
    options: &Options,
    clock: &dyn Clock,
) -> (Report, Vec<Event>, String) {
    let (journal, memory) = journal(plan);
    let album = Album::default();
    let report = run(plan, port, options, &journal, &album, &Cancel::new(), clock);
    (report, album.events(), memory.synced())
}
