//! Gates: the steps that wait for a state, how long, how often, and what to do when it does not come.
//!
//! A port looks once and says that it is not so yet; how long and how often is said here and nowhere else.

use std::time::Duration;

use mullion_plan::{Reboot, Step, StepKind};

/// A wait with a deadline and a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// What is waited for, as the end of "waiting for …".
    pub title: &'static str,
    /// How long at most, from the first look. Work that lasts, and a restart of the machine, start it again.
    pub deadline: Duration,
    /// The longest pause between two looks; the first is [`FIRST_PAUSE`], and each is half as long again.
    pub pause: Duration,
    /// What a person can do; `{machine}` stands for the machine's name.
    pub hint: &'static str,
}

/// The pause between the first look and the second.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// A machine that was just started.
const REACH: Gate = Gate {
    title: "a login on the machine",
    deadline: seconds(300),
    pause: millis(500),
    hint: "look at its console with `mullion console {machine}`",
};

/// A machine that should be running already: who waits for it longer waits for nothing.
const REACH_RUNNING: Gate = Gate {
    title: "a login on the machine",
    deadline: seconds(60),
    pause: seconds(2),
    hint: "check that {machine} runs, and that address, port, user and key in the cluster file are right",
};

const API: Gate = Gate {
    title: "the API server",
    deadline: seconds(240),
    pause: millis(500),
    hint: "look at the kubelet and at etcd on a control plane, with `mullion ssh`; a slow disk keeps etcd from starting",
};

const READY: Gate = Gate {
    title: "the node to be Ready",
    deadline: seconds(300),
    pause: millis(300),
    hint: "see why with `mullion kubectl describe node {machine}`",
};

const NODE_NETWORK: Gate = Gate {
    title: "the node's network",
    deadline: seconds(300),
    pause: millis(300),
    hint: "see the network plugin's pod on {machine} with `mullion kubectl get pods -A -o wide`",
};

const REGISTER: Gate = Gate {
    title: "the kubelet to register its node",
    deadline: seconds(120),
    pause: millis(500),
    hint: "see why it does not with `mullion ssh {machine} -- journalctl -u kubelet`",
};

const SNAPSHOT: Gate = Gate {
    title: "a healthy majority of etcd",
    deadline: seconds(120),
    pause: seconds(2),
    hint: "see `mullion kubectl get pods -n kube-system -l component=etcd`; nothing was reset",
};

/// A control plane whose programs were restarted with new certificates.
const RENEWED: Gate = Gate {
    title: "the API server with its new certificates",
    deadline: seconds(360),
    pause: millis(500),
    hint: "look at the kubelet and at etcd on {machine}, with `mullion ssh {machine}`",
};

const CERTIFICATES: Gate = Gate {
    title: "the node's certificate requests",
    deadline: seconds(120),
    pause: millis(300),
    hint: "see `mullion kubectl get csr`; a clock that is wrong on {machine} makes its certificates invalid",
};

const DRAIN: Gate = Gate {
    title: "the node's pods to move away",
    deadline: seconds(300),
    pause: seconds(2),
    hint: "a PodDisruptionBudget may keep them: see `mullion kubectl get pdb -A`",
};

const RESTART: Gate = Gate {
    title: "the machine to come back",
    deadline: seconds(600),
    pause: seconds(2),
    hint: "look at its console with `mullion console {machine}`",
};

const SUITE: Gate = Gate {
    title: "what the suite builds on",
    deadline: seconds(300),
    pause: millis(500),
    hint: "see what is not running with `mullion kubectl get pods -A`",
};

/// For any other step that says "not yet".
pub const OTHER: Gate = Gate {
    title: "the step",
    deadline: seconds(120),
    pause: seconds(2),
    hint: "`mullion up` tries it again",
};

/// The gates, by kind of step. A kind that is not here does something, and waits as [`OTHER`] says if at all.
pub const GATES: [(StepKind, Gate); 11] = [
    (StepKind::Register, REGISTER),
    (StepKind::SaveEtcd, SNAPSHOT),
    (StepKind::Renew, RENEWED),
    (StepKind::Reach, REACH),
    (StepKind::Reboot, RESTART),
    (StepKind::AwaitApi, API),
    (StepKind::AwaitReady, READY),
    (StepKind::AwaitNodeNetwork, NODE_NETWORK),
    (StepKind::ApproveCertificates, CERTIFICATES),
    (StepKind::Drain, DRAIN),
    (StepKind::Verify, SUITE),
];

impl Gate {
    /// The gate of a step that waits by its nature: silence is what it waits to end. `None` for a step that
    /// does something.
    pub fn of(step: &Step) -> Option<Self> {
        let kind = step.action.kind();
        let starts = |need: &mullion_plan::StepId| {
            let kind = need.as_str().split('/').next();
            [StepKind::StartMachine, StepKind::Reboot]
                .iter()
                .any(|starter| kind == Some(starter.word()))
        };
        if kind == StepKind::Reach && !step.needs.iter().any(starts) {
            return Some(REACH_RUNNING);
        }
        GATES
            .iter()
            .find(|(waiting, _)| *waiting == kind)
            .map(|(_, gate)| *gate)
    }

    /// The rules by which any step waits that says "not yet".
    pub fn of_any(step: &Step) -> Self {
        let other = match step.reboot() {
            Reboot::MayFollow => RESTART,
            Reboot::Never => OTHER,
        };
        Self::of(step).unwrap_or(other)
    }

    /// What a person can do about that step.
    pub(crate) fn hint_for(&self, step: &Step) -> String {
        let machine = step
            .machine
            .as_ref()
            .map_or("MACHINE", |name| name.as_str());
        self.hint.replace("{machine}", machine)
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Action, Stage, StepId};

    use super::*;

    fn reach(needs: &[&str]) -> Step {
        let needs = needs.iter().map(|need| StepId::new(need)).collect();
        let address = "192.0.2.1".into();
        Step::new(
            Stage::Machines,
            Some("lin1".parse().unwrap()),
            Action::Reach { address },
            "a test".into(),
            needs,
        )
    }

    #[test]
    fn a_machine_that_was_just_started_is_given_more_time() {
        let started = Gate::of(&reach(&["start/lin1"])).unwrap();
        let running = Gate::of(&reach(&["stock/linux"])).unwrap();
        assert!(started.deadline > running.deadline);
        assert!(
            running
                .hint_for(&reach(&[]))
                .contains("check that lin1 runs")
        );
    }

    #[test]
    fn a_step_that_does_something_is_no_gate() {
        let machine = Some("lin1".parse().unwrap());
        let start = Step::new(
            Stage::Machines,
            machine,
            mullion_testkit::start(),
            "a test".into(),
            Vec::new(),
        );
        assert_eq!(Gate::of(&start), None);
        assert_eq!(Gate::of_any(&start), OTHER);
    }

    #[test]
    fn every_gate_looks_again_soon_and_ends() {
        for (kind, gate) in GATES {
            assert!(gate.pause >= FIRST_PAUSE, "{}", kind.word());
            assert!(gate.deadline > gate.pause, "{}", kind.word());
            assert!(!gate.hint.is_empty() && !gate.title.is_empty());
        }
    }
}
