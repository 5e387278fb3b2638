//! The plan: which steps there are, what waits for what, and what is in the way.
//!
//! It never runs a step, reads a clock or knows a driver. Whoever holds a [`Plan`] holds steps that can
//! all be run: unique, complete, free of cycles, never waiting for a later stage.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::edges::Edges;
use crate::index::Index;
use crate::obstacle::Obstacle;
use crate::step::{Step, StepId};

/// Why a set of steps is not a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two steps have one name.
    #[error("step `{0}` is there twice")]
    Twice(StepId),
    /// A step waits for one that is not there.
    #[error("step `{step}` waits for `{need}`, which is not there")]
    Missing {
        /// The step.
        step: StepId,
        /// What it waits for.
        need: StepId,
    },
    /// A step waits for a later stage, so a run that stops at a stage could never reach it.
    #[error("step `{step}` waits for `{need}` of a later stage")]
    Backwards {
        /// The step.
        step: StepId,
        /// What it waits for.
        need: StepId,
    },
    /// Steps wait for each other: the members of cycles, and those behind them.
    #[error("{} steps wait for each other", .0.len())]
    Cycle(BTreeSet<StepId>),
}

/// What would happen, in an order in which it can happen.
///
/// The order is fixed: by stage, then as the planner gave the steps (machines as in the file, each
/// machine's steps one after another). Running them one by one in this order is a valid run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    steps: Vec<Step>,
    obstacles: Vec<Obstacle>,
    /// Positions of steps by their ids.
    #[serde(skip)]
    by_id: Index,
    /// The positions of each step's needs.
    #[serde(skip)]
    needs: Edges,
    /// The positions of the steps that wait for each.
    #[serde(skip)]
    waiting: Edges,
}

impl Plan {
    /// The plan of those steps, if they are one.
    pub fn new(steps: Vec<Step>) -> Result<Self, PlanError> {
        let by_id = Index::new(&steps).map_err(PlanError::Twice)?;
        let needs = edges(&steps, &by_id)?;
        Self::ordered(steps, by_id, &needs)
    }

    /// The plan of steps whose needs are known by position too: the needs of each are what `needs` says.
    pub(crate) fn from_positions(steps: Vec<Step>, needs: &Edges) -> Result<Self, PlanError> {
        let by_id = Index::new(&steps).map_err(PlanError::Twice)?;
        for (position, step) in steps.iter().enumerate() {
            let mut needs = needs.of(position).iter().map(|&need| &steps[need]);
            if let Some(need) = needs.find(|need| need.stage > step.stage) {
                return Err(PlanError::Backwards {
                    step: step.id.clone(),
                    need: need.id.clone(),
                });
            }
        }
        Self::ordered(steps, by_id, needs)
    }

    /// Puts everything, which is by the given positions, into the order of the run.
    fn ordered(steps: Vec<Step>, by_id: Index, needs: &Edges) -> Result<Self, PlanError> {
        let order = run_order(&steps, needs)?;
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        let needs = needs.reordered(&order);
        let by_id = by_id.moved(&place);
        let mut steps = steps;
        // In place: a second list of a hundred thousand steps costs more than all comparing.
        for at in 0..place.len() {
            while place[at] != at {
                let target = place[at];
                steps.swap(at, target);
                place.swap(at, target);
            }
        }
        Ok(Self {
            obstacles: Vec::new(),
            by_id,
            waiting: needs.turned(),
            needs,
            steps,
        })
    }

    /// A plan that touches nothing because of what is in the way.
    pub(crate) fn blocked(obstacles: BTreeSet<Obstacle>) -> Self {
        Self {
            steps: Vec::new(),
            obstacles: obstacles.into_iter().collect(),
            by_id: Index::default(),
            needs: Edges::default(),
            waiting: Edges::default(),
        }
    }

    /// Every step, in the order of the run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What is in the way; a plan with obstacles has no steps.
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.obstacles
    }

    /// Nothing is to be done, and nothing is in the way.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.obstacles.is_empty()
    }

    /// The step of that name.
    pub fn get(&self, id: &StepId) -> Option<&Step> {
        self.position(id).map(|position| &self.steps[position])
    }

    /// The steps that wait for that one, in the order of the run.
    pub fn after(&self, id: &StepId) -> impl Iterator<Item = &Step> {
        self.position(id)
            .into_iter()
            .flat_map(|position| self.waiting.of(position))
            .map(|&position| &self.steps[position])
    }

    /// The steps that are not done and whose needs all are, in the order of the run.
    ///
    /// Looks at every step; a run that asks again and again keeps a [`Walk`] instead.
    pub fn ready<'a>(&'a self, done: &'a BTreeSet<StepId>) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().filter(move |step| {
            !done.contains(&step.id) && step.needs.iter().all(|need| done.contains(need))
        })
    }

    /// The positions of a step's needs.
    pub(crate) fn needs_of(&self, position: usize) -> &[usize] {
        self.needs.of(position)
    }

    fn position(&self, id: &StepId) -> Option<usize> {
        self.by_id.find(&self.steps, id)
    }
}

fn edges(steps: &[Step], by_id: &Index) -> Result<Edges, PlanError> {
    let edge = |step: &Step, need: &StepId| {
        let position = by_id.find(steps, need).ok_or_else(|| PlanError::Missing {
            step: step.id.clone(),
            need: need.clone(),
        })?;
        if steps[position].stage > step.stage {
            return Err(PlanError::Backwards {
                step: step.id.clone(),
                need: need.clone(),
            });
        }
        Ok(position)
    };
    let mut edges = Edges::default();
    for step in steps {
        let needs: Result<Vec<_>, _> = step.needs.iter().map(|need| edge(step, need)).collect();
        edges.push(needs?);
    }
    Ok(edges)
}

/// The steps by stage and given position, where nothing waits for what comes after it there.
fn as_given(steps: &[Step], needs: &Edges) -> Option<Vec<usize>> {
    let mut order: Vec<_> = (0..steps.len()).collect();
    order.sort_by_key(|&position| steps[position].stage);
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    let is_behind = |&position: &usize| {
        let mut needs = needs.of(position).iter();
        needs.all(|&need| place[need] < place[position])
    };
    order.iter().all(is_behind).then_some(order)
}

/// Kahn's algorithm, always taking the step that comes first by stage and given position.
fn run_order(steps: &[Step], needs: &Edges) -> Result<Vec<usize>, PlanError> {
    // A planner lays what is needed first, so that nearly always nothing is left to search for.
    if let Some(order) = as_given(steps, needs) {
        return Ok(order);
    }
    let waiting = needs.turned();
    let mut open: Vec<_> = (0..needs.len()).map(|at| needs.of(at).len()).collect();
    let entry = |position: usize| Reverse((steps[position].stage, position));
    let mut ready: BinaryHeap<_> = (0..steps.len())
        .filter(|&position| open[position] == 0)
        .map(entry)
        .collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse((_, position))) = ready.pop() {
        order.push(position);
        for &next in waiting.of(position) {
            open[next] -= 1;
            if open[next] == 0 {
                ready.push(entry(next));
            }
        }
    }
    if order.len() == steps.len() {
        return Ok(order);
    }
    let stuck = (0..steps.len()).filter(|&position| open[position] > 0);
    Err(PlanError::Cycle(
        stuck.map(|position| steps[position].id.clone()).collect(),
    ))
}

/// Follows a run through a plan: knows at each moment what may start, at a cost that does not grow with
/// the plan.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    plan: &'a Plan,
    open: Vec<usize>,
    ready: BTreeSet<usize>,
}

impl<'a> Walk<'a> {
    /// At the beginning of the plan.
    pub fn new(plan: &'a Plan) -> Self {
        let needs = &plan.needs;
        let open: Vec<_> = (0..needs.len()).map(|at| needs.of(at).len()).collect();
        let ready = (0..open.len()).filter(|&at| open[at] == 0).collect();
        Self { plan, open, ready }
    }

    /// What may start now, in the order of the run.
    pub fn ready(&self) -> impl ExactSizeIterator<Item = &'a Step> {
        let steps = &self.plan.steps;
        self.ready.iter().map(move |&position| &steps[position])
    }

    /// That step is done: those that waited for it alone may start.
    pub fn finish(&mut self, id: &StepId) {
        let Some(position) = self.plan.position(id).filter(|at| self.ready.remove(at)) else {
            return;
        };
        for &next in self.plan.waiting.of(position) {
            self.open[next] -= 1;
            if self.open[next] == 0 {
                self.ready.insert(next);
            }
        }
    }

    /// That step failed for good: it is not offered again, nor is what waits for it.
    pub fn give_up(&mut self, id: &StepId) {
        if let Some(position) = self.plan.position(id) {
            self.ready.remove(&position);
        }
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::value::MachineName;

    use super::*;
    use crate::action::Action;
    use crate::stage::Stage;

    fn start() -> Action {
        Action::StartMachine {
            names: crate::Carried::new(crate::Names([].into())),
            name_servers: Vec::new(),
        }
    }

    fn step(stage: Stage, action: Action, machine: &str, needs: &[&str]) -> Step {
        let machine: MachineName = machine.parse().unwrap();
        let needs = needs.iter().map(|need| StepId::new(need)).collect();
        Step::new(stage, Some(machine), action, "a test".into(), needs)
    }

    fn ready(stage: Stage, machine: &str, needs: &[&str]) -> Step {
        step(stage, Action::AwaitReady, machine, needs)
    }

    fn ids<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<&'a str> {
        steps.map(|step| step.id.as_str()).collect()
    }

    #[test]
    fn a_step_waits_for_all_its_needs() {
        let plan = Plan::new(vec![
            step(Stage::Join, Action::Drain, "w1", &["start/w1", "reset/c1"]),
            step(Stage::Machines, start(), "c1", &[]),
            step(Stage::Machines, start(), "w1", &[]),
            step(
                Stage::ControlPlane,
                Action::Reset { keeps_etcd: false },
                "c1",
                &["start/c1"],
            ),
        ])
        .unwrap();
        let done = ["start/w1", "start/c1"].map(StepId::new).into();
        assert_eq!(ids(plan.ready(&done)), ["reset/c1"]);
        assert_eq!(ids(plan.after(&StepId::new("start/c1"))), ["reset/c1"]);
        assert_eq!(
            ids(plan.steps().iter()),
            ["start/c1", "start/w1", "reset/c1", "drain/w1"]
        );
    }

    #[test]
    fn steps_that_could_never_finish_are_no_plan() {
        let ring = vec![
            ready(Stage::Join, "a", &["ready/b"]),
            ready(Stage::Join, "b", &["ready/a"]),
            ready(Stage::Join, "c", &["ready/b"]),
            ready(Stage::Join, "d", &[]),
        ];
        assert!(matches!(Plan::new(ring), Err(PlanError::Cycle(stuck)) if stuck.len() == 3));
        let alone = vec![ready(Stage::Join, "a", &["ready/a"])];
        assert!(matches!(Plan::new(alone), Err(PlanError::Cycle(_))));
        let early = vec![
            ready(Stage::Machines, "a", &["ready/b"]),
            ready(Stage::Join, "b", &[]),
        ];
        assert!(matches!(Plan::new(early), Err(PlanError::Backwards { .. })));
        let lost = vec![ready(Stage::Join, "a", &["ready/b"])];
        assert!(matches!(Plan::new(lost), Err(PlanError::Missing { .. })));
        let twice = vec![ready(Stage::Join, "a", &[]), ready(Stage::Settle, "a", &[])];
        assert!(matches!(Plan::new(twice), Err(PlanError::Twice(_))));
    }

    #[test]
    fn what_waits_for_a_failed_step_is_never_offered() {
        let plan = Plan::new(vec![
            ready(Stage::Join, "a", &[]),
            ready(Stage::Join, "b", &["ready/a"]),
        ])
        .unwrap();
        let mut walk = Walk::new(&plan);
        walk.give_up(&StepId::new("ready/a"));
        assert_eq!(walk.ready().len(), 0);
    }
}
