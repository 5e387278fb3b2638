//! The run itself: what may begin, what waits, what failed, until nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::dice::Dice;
use mullion_plan::{Action, Plan, Step, StepError, StepId, StepKind, Walk};
use mullion_spec::value::MachineName;

use crate::cancel::Cancelled;
use crate::crew::Crew;
use crate::desk::{Answer, Came, Desk, Job};
use crate::frame::{Ending, Frame};
use crate::limits::{Lane, Queue, Scope, lane};
use crate::options::Workers;
use crate::report::{Fate, Outcome, Report, RunOutcome};
use crate::told::StepTag;
use crate::watch::Event;

/// A step that waits for its next try.
struct Parked<'a> {
    job: Job<'a>,
    due: Duration,
    error: StepError,
}

/// A step that is being tried.
struct Running {
    queue: Queue,
    machine: Option<MachineName>,
    begun: Duration,
}

/// Why nothing new is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    JournalLost,
    Cancelled,
}

/// One run of a plan.
pub(crate) struct Drive<'a> {
    desk: Desk<'a>,
    plan: &'a Plan,
    walk: Walk<'a>,
    dice: Dice,
    /// Steps that were given out once.
    begun: BTreeSet<StepId>,
    running: BTreeMap<StepId, Running>,
    parked: Vec<Parked<'a>>,
    fates: BTreeMap<StepId, Fate>,
    counts: BTreeMap<Queue, usize>,
    busy: BTreeSet<MachineName>,
    stop: Stop,
    heeded: Cancelled,
    called_off: Option<Duration>,
    frame: Frame<'a>,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(desk: Desk<'a>, plan: &'a Plan) -> Self {
        let steps: Vec<_> = plan.steps().iter().collect();
        Self {
            walk: Walk::new(plan),
            dice: Dice::new(desk.options.seed),
            begun: BTreeSet::new(),
            running: BTreeMap::new(),
            parked: Vec::new(),
            fates: BTreeMap::new(),
            counts: BTreeMap::new(),
            busy: BTreeSet::new(),
            stop: Stop::No,
            heeded: Cancelled::No,
            called_off: None,
            frame: Frame::open(desk, &steps),
            desk,
            plan,
        }
    }

    /// Runs the plan to its end, or to the run's.
    pub(crate) fn run(mut self, crew: &mut dyn Crew<'a>) -> Report {
        loop {
            self.heed();
            self.give_out(crew);
            if self.running.is_empty() && self.parked.is_empty() {
                break;
            }
            if self.is_out_of_patience() {
                break;
            }
            if let Some(answer) = crew.take(self.next_due()) {
                self.note(answer);
            }
        }
        self.conclude()
    }

    /// How long it is until a step that waits may look again. One that is due already waits for its lane or its
    /// machine, and so for an answer: who counted it here would ask without a pause.
    fn next_due(&self) -> Option<Duration> {
        let now = self.desk.clock.elapsed();
        let dues = self.parked.iter().map(|parked| parked.due);
        let next = dues.filter(|due| *due > now).min();
        next.map(|due| due.saturating_sub(now))
    }

    /// Looks whether the run was called off, or has lost its journal.
    fn heed(&mut self) {
        let level = self.desk.cancel.level();
        if level > self.heeded {
            self.heeded = level;
            self.desk.tell(&Event::Cancelling {
                under_way: self.running.keys().cloned().collect(),
                called_off: level == Cancelled::Now,
            });
        }
        if level == Cancelled::Now {
            let now = self.desk.clock.elapsed();
            self.called_off.get_or_insert(now);
        }
        if level != Cancelled::No {
            self.stop = self.stop.max(Stop::Cancelled);
        }
        if self.desk.journal.trouble().is_some() {
            self.stop = self.stop.max(Stop::JournalLost);
        }
        if self.stop != Stop::No {
            self.end_waits();
        }
    }

    /// Nobody waits in a run that ends.
    fn end_waits(&mut self) {
        for parked in std::mem::take(&mut self.parked) {
            let came = self.desk.interrupted(&parked.job, &parked.error);
            if let Came::Ended(fate) = came {
                self.fates.insert(parked.job.step.id.clone(), fate);
            }
        }
    }

    fn is_out_of_patience(&self) -> bool {
        let now = self.desk.clock.elapsed();
        self.called_off
            .is_some_and(|since| now.saturating_sub(since) >= self.desk.options.grace)
    }

    /// Gives out whatever may begin, as long as somebody takes it.
    fn give_out(&mut self, crew: &mut dyn Crew<'a>) {
        while self.stop == Stop::No && crew.is_free() {
            let Some(job) = self.next_job() else { return };
            let queue = self.queue(job.step);
            *self.counts.entry(queue.clone()).or_default() += 1;
            self.busy.extend(job.step.machine.clone());
            let running = Running {
                queue,
                machine: job.step.machine.clone(),
                begun: job.begun.unwrap_or_else(|| self.desk.clock.elapsed()),
            };
            self.running.insert(job.step.id.clone(), running);
            crew.give(job);
        }
    }

    /// A step that may begin, or look again: what is due first, then the order of the run; by the dice where one
    /// works alone.
    fn next_job(&mut self) -> Option<Job<'a>> {
        let now = self.desk.clock.elapsed();
        let may_run = |step: &Step| self.may_run(step);
        let due = self
            .parked
            .iter()
            .enumerate()
            .filter(|(_, parked)| parked.due <= now && may_run(parked.job.step))
            .map(|(position, _)| position);
        let fresh = self
            .walk
            .ready()
            .filter(|step| !self.begun.contains(&step.id) && may_run(step));
        let (parked, step) = if self.desk.options.workers == Workers::One {
            let (due, fresh): (Vec<_>, Vec<_>) = (due.collect(), fresh.collect());
            let choice = self.dice.pick(due.len() + fresh.len());
            let step = fresh.get(choice.saturating_sub(due.len())).copied();
            (due.get(choice).copied(), step)
        } else {
            let (mut due, mut fresh) = (due, fresh);
            (due.next(), fresh.next())
        };
        if let Some(position) = parked {
            return Some(self.parked.swap_remove(position).job);
        }
        let step = step?;
        self.begun.insert(step.id.clone());
        Some(Job::new(step, &self.desk))
    }

    /// Whether the step's machine is free, and its lane.
    fn may_run(&self, step: &Step) -> bool {
        let is_busy = |machine: &MachineName| self.busy.contains(machine);
        if step.machine.as_ref().is_some_and(is_busy) {
            return false;
        }
        let queue = self.queue(step);
        let count = self.counts.get(&queue).copied().unwrap_or(0);
        count < self.desk.options.limits.of(queue.lane)
    }

    /// With whom a step is counted.
    fn queue(&self, step: &Step) -> Queue {
        let options = self.desk.options;
        let kind = step.action.kind();
        let lane = if kind == StepKind::Fetch && options.builds.contains(&step.id) {
            Lane::Build
        } else {
            lane(kind)
        };
        let place = match (lane.row().scope, &step.action) {
            (Scope::Run, _) => None,
            (
                Scope::Host,
                Action::MakeMachine { place, .. }
                | Action::MakeNetwork { place, .. }
                | Action::RemoveNetwork { place },
            ) => Some(place.as_str()),
            (Scope::Host, _) => step.machine.as_ref().map(|machine| {
                let place = options.places.get(machine);
                place.map_or(machine.as_str(), mullion_plan::Place::as_str)
            }),
        };
        Queue {
            lane,
            place: place.map(str::to_owned),
        }
    }

    fn note(&mut self, answer: Answer<'a>) {
        let Answer { job, came } = answer;
        let id = &job.step.id;
        if let Some(running) = self.running.remove(id) {
            if let Some(count) = self.counts.get_mut(&running.queue) {
                *count -= 1;
            }
            if let Some(machine) = &running.machine {
                self.busy.remove(machine);
            }
        }
        match came {
            Came::Ended(fate) => {
                match fate.outcome {
                    Outcome::Done => self.walk.finish(id),
                    Outcome::Interrupted { .. } => {
                        // The step says that the run was cut off: then it was.
                        self.stop = self.stop.max(Stop::Cancelled);
                        self.walk.give_up(id);
                    }
                    _ => self.walk.give_up(id),
                }
                self.fates.insert(id.clone(), fate);
            }
            Came::Again { after, error } => {
                let due = self.desk.clock.elapsed().saturating_add(after);
                self.parked.push(Parked { job, due, error });
            }
            Came::NotBegun => {
                self.walk.give_up(id);
                // One that was tried before has a fate; one that was not has none.
                if job.begun.is_some() {
                    let words = "the journal could not be written";
                    let error = StepError::new(mullion_plan::ErrorClass::Interrupted, words);
                    if let Came::Ended(fate) = self.desk.interrupted(&job, &error) {
                        self.fates.insert(id.clone(), fate);
                    }
                }
            }
        }
    }

    fn conclude(mut self) -> Report {
        let now = self.desk.clock.elapsed();
        for (id, running) in std::mem::take(&mut self.running) {
            let fate = Fate {
                outcome: Outcome::Abandoned,
                begun: running.begun,
                took: now.saturating_sub(running.begun),
                waited: Duration::ZERO,
                attempts: 1,
            };
            self.fates.insert(id, fate);
        }
        let mask = self.desk.journal.mask();
        let steps = self.plan.steps().iter();
        let ending = Ending {
            outcome: self.outcome(),
            steps: steps.map(|step| (step, StepTag::new(step, mask))).collect(),
            blocked: self.blocked(),
            fates: self.fates,
        };
        self.frame.close(ending)
    }

    /// The steps that were not begun because of failures, each with the steps that failed.
    fn blocked(&self) -> BTreeMap<StepId, BTreeSet<StepId>> {
        let mut roots: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
        // In the order of the run: what a step needs comes before it.
        for step in self.plan.steps() {
            if self.fates.contains_key(&step.id) {
                continue;
            }
            let mut by = BTreeSet::new();
            for need in &step.needs {
                match self.fates.get(need).map(|fate| &fate.outcome) {
                    Some(Outcome::Failed { .. }) => {
                        by.insert(need.clone());
                    }
                    Some(_) => {}
                    None => by.extend(roots.get(need).into_iter().flatten().cloned()),
                }
            }
            if !by.is_empty() {
                roots.insert(step.id.clone(), by);
            }
        }
        roots
    }

    fn outcome(&self) -> RunOutcome {
        let is_failed = |fate: &Fate| matches!(fate.outcome, Outcome::Failed { .. });
        let is_done = self.fates.len() == self.plan.steps().len()
            && self
                .fates
                .values()
                .all(|fate| fate.outcome == Outcome::Done);
        if !self.plan.obstacles().is_empty() {
            RunOutcome::Obstructed
        } else if is_done {
            RunOutcome::Done
        } else if self.stop == Stop::Cancelled {
            RunOutcome::Cancelled
        } else if self.stop == Stop::JournalLost {
            RunOutcome::JournalLost
        } else if self.fates.values().any(is_failed) {
            RunOutcome::Failed
        } else {
            RunOutcome::Cancelled
        }
    }
}
