//! How long steps took before, and what that says about a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use mullion_spec::cluster::{Cluster, Duty};
use mullion_spec::value::MachineName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::step::{Step, StepId};

/// Milliseconds that steps took before, recent runs counting more: by [`timed_as`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Took(BTreeMap<String, u64>);

/// What past durations say about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The longest way through the plan, over the steps whose duration is known.
    pub longest: Duration,
    /// How many steps were never timed.
    pub unknown: usize,
}

/// The kind of each machine, as far as it says how long its steps take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineKinds(BTreeMap<MachineName, String>);

impl MachineKinds {
    /// Of a cluster's machines.
    pub fn of(cluster: &Cluster) -> Self {
        let kinds = cluster.machines().map(|machine| {
            let group = machine.group;
            let duty = match group.duty {
                Duty::LoadBalancer => "load-balancer",
                Duty::ControlPlane => "control-plane",
                Duty::Worker => "worker",
            };
            let kind = format!("{}-{}-{duty}", group.carrier.driver(), group.system.os());
            (machine.name, kind)
        });
        Self(kinds.collect())
    }
}

/// Under what a step's duration is kept: steps of one kind on machines of one kind take about as long. A step of the
/// whole cluster has its own: to fetch one program takes longer than to fetch another.
pub fn timed_as(step: &StepId, machine: Option<&MachineName>, kinds: &MachineKinds) -> String {
    let Some(machine) = machine else {
        return step.as_str().to_owned();
    };
    let action = step.as_str().split('/').next().unwrap_or_default();
    let kind = kinds.0.get(machine).map_or("other", String::as_str);
    format!("{action}/{kind}")
}

impl Took {
    /// Notes that what is timed under that name took so long.
    pub fn record(&mut self, name: &str, took: Duration) {
        // Earlier versions kept one figure for all steps of a kind.
        self.0.retain(|name, _| name.contains('/'));
        let new = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.0
            .entry(name.to_owned())
            // A quarter of the newest: one odd run does not spoil the figure, a lasting change is seen.
            .and_modify(|old| *old = *old - *old / 4 + new / 4)
            .or_insert(new);
    }

    /// How long a step like that one took before.
    pub fn about(&self, step: &Step, kinds: &MachineKinds) -> Option<Duration> {
        let name = timed_as(&step.id, step.machine.as_ref(), kinds);
        self.0.get(&name).copied().map(Duration::from_millis)
    }

    /// How long a plan may take when everything that can run at once does.
    pub fn estimate(&self, plan: &Plan, kinds: &MachineKinds) -> Estimate {
        let mut ends: Vec<Duration> = Vec::with_capacity(plan.steps().len());
        let mut unknown = 0;
        for (position, step) in plan.steps().iter().enumerate() {
            let needs = plan.needs_of(position);
            // Needs come first in a plan's order, so their ends are known here.
            let start = needs.iter().map(|&need| ends[need]).max();
            let took = self.about(step, kinds);
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

    fn start() -> Action {
        Action::StartMachine {
            names: crate::Carried::new(crate::Names([].into())),
            name_servers: Vec::new(),
        }
    }

    fn step(action: Action, machine: &str, needs: &[&str]) -> Step {
        let needs = needs.iter().map(|need| StepId::new(need)).collect();
        let machine = Some(machine.parse().unwrap());
        Step::new(Stage::Machines, machine, action, String::new(), needs)
    }

    fn kinds() -> MachineKinds {
        let kinds = [("a", "nspawn-linux-worker"), ("b", "wine-windows-worker")];
        let kinds = kinds.map(|(name, kind)| (name.parse().unwrap(), kind.to_owned()));
        MachineKinds(kinds.into())
    }

    #[test]
    fn a_plan_takes_as_long_as_its_longest_chain() {
        let plan = Plan::new(vec![
            step(start(), "a", &[]),
            step(start(), "b", &[]),
            step(Action::Reboot, "a", &["start/a"]),
            step(Action::Drain, "b", &["start/b"]),
        ])
        .unwrap();
        let mut took = Took::default();
        took.record("start/nspawn-linux-worker", Duration::from_secs(8));
        took.record("start/wine-windows-worker", Duration::from_secs(13));
        took.record("reboot/nspawn-linux-worker", Duration::from_secs(4));
        let estimate = took.estimate(&plan, &kinds());
        assert_eq!(estimate.longest, Duration::from_secs(13));
        assert_eq!(estimate.unknown, 1, "draining was never timed");
    }

    #[test]
    fn steps_are_timed_by_what_they_do_and_on_what_kind_of_machine() {
        let name = |machine| Some(step(start(), machine, &[]));
        let timed = |step: Option<Step>| {
            let step = step.unwrap();
            timed_as(&step.id, step.machine.as_ref(), &kinds())
        };
        assert_eq!(timed(name("a")), "start/nspawn-linux-worker");
        assert_eq!(timed(name("b")), "start/wine-windows-worker");
        assert_eq!(timed(name("gone1")), "start/other");
        let fetch = StepId::new("fetch/kubelet");
        assert_eq!(timed_as(&fetch, None, &kinds()), "fetch/kubelet");
    }

    #[test]
    fn a_duration_follows_what_lasts_and_survives_being_written_down() {
        // What an earlier version kept says nothing about one kind of machine.
        let mut took: Took = serde_json::from_str(r#"{"init":141}"#).unwrap();
        let init = "init/nspawn-linux-control-plane";
        took.record(init, Duration::from_secs(8));
        took.record(init, Duration::from_secs(16));
        let text = serde_json::to_string(&took).unwrap();
        assert_eq!(text, r#"{"init/nspawn-linux-control-plane":10000}"#);
        assert_eq!(serde_json::from_str::<Took>(&text).unwrap(), took);
    }
}
