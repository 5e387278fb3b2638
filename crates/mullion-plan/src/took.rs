//! How long steps took before, and what that says about a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::StepKind;
use crate::plan::Plan;

/// Milliseconds that each kind of step took before, recent runs counting more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Took(BTreeMap<StepKind, u64>);

/// What past durations say about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The longest way through the plan, over the steps whose duration is known.
    pub longest: Duration,
    /// How many steps are of a kind that was never timed.
    pub unknown: usize,
}

impl Took {
    /// Notes that a step of that kind took so long.
    pub fn record(&mut self, kind: StepKind, took: Duration) {
        let new = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.0
            .entry(kind)
            // A quarter of the newest: one odd run does not spoil the figure, a lasting change is seen.
            .and_modify(|old| *old = *old - *old / 4 + new / 4)
            .or_insert(new);
    }

    /// How long a step of that kind took before.
    pub fn about(&self, kind: StepKind) -> Option<Duration> {
        self.0.get(&kind).copied().map(Duration::from_millis)
    }

    /// How long a plan may take when everything that can run at once does.
    pub fn estimate(&self, plan: &Plan) -> Estimate {
        let mut ends: Vec<Duration> = Vec::with_capacity(plan.steps().len());
        let mut unknown = 0;
        for (position, step) in plan.steps().iter().enumerate() {
            let needs = plan.needs_of(position);
            // Needs come first in a plan's order, so their ends are known here.
            let start = needs.iter().map(|&need| ends[need]).max();
            let took = self.about(step.action.kind());
            unknown += usize::from(took.is_none());
            ends.push(
                start
                    .unwrap_or_default()
                    .saturating_add(took.unwrap_or_default()),
            );
        }
        Estimate {
            longest: ends.into_iter().max().unwrap_or_default(),
            unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::stage::Stage;
    use crate::step::{Step, StepId};

    #[test]
    fn a_plan_takes_as_long_as_its_longest_chain() {
        let step = |action, machine: &str, needs: &[&str]| {
            let needs = needs.iter().map(|need| StepId::new(need)).collect();
            let machine = Some(machine.parse().unwrap());
            Step::new(Stage::Machines, machine, action, String::new(), needs)
        };
        let plan = Plan::new(vec![
            step(Action::StartMachine, "a", &[]),
            step(Action::StartMachine, "b", &[]),
            step(Action::Reboot, "a", &["start/a"]),
            step(Action::Drain, "b", &["start/b"]),
        ])
        .unwrap();
        let mut took = Took::default();
        took.record(StepKind::StartMachine, Duration::from_secs(8));
        took.record(StepKind::Reboot, Duration::from_secs(4));
        let estimate = took.estimate(&plan);
        assert_eq!(estimate.longest, Duration::from_secs(12));
        assert_eq!(estimate.unknown, 1, "draining was never timed");
    }

    #[test]
    fn a_duration_follows_what_lasts_and_survives_being_written_down() {
        let mut took = Took::default();
        took.record(StepKind::Init, Duration::from_secs(8));
        took.record(StepKind::Init, Duration::from_secs(16));
        assert_eq!(took.about(StepKind::Init), Some(Duration::from_secs(10)));
        let text = serde_json::to_string(&took).unwrap();
        assert_eq!(text, r#"{"init":10000}"#);
        assert_eq!(serde_json::from_str::<Took>(&text).unwrap(), took);
    }
}
