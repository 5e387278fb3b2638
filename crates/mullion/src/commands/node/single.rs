//! One machine taken out and joined anew, or started anew.

use std::time::Duration;

use mullion_catalog::Model;
use mullion_engine::RunOutcome;
use mullion_live::Adapter;
use mullion_plan::{Observed, Plan, Power, plan_reboot, plan_reset};
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_wire::duration;

use super::super::plan::obstructed;
use super::super::ssh::unknown;
use super::super::up::{look, up};
use crate::arguments::UpArguments;
use crate::conduct::{self, conduct, take_locks};
use crate::consent::{answerable, consent};
use crate::console::{Console, Format, GOOD};
use crate::elevation::elevate;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::file::Judged;
use crate::invocation::Invocation;
use crate::views::run::{self as view, Part};
use crate::workshop;

/// Which machine, and whether it may be done without a question.
pub(super) struct Errand<'a> {
    pub(super) machine: &'a MachineName,
    pub(super) yes: bool,
}

/// Takes a node out of the cluster and joins it anew.
pub(super) fn reset(
    console: &mut Console<'_>,
    judged: &Judged,
    model: &Model,
    errand: &Errand<'_>,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let machine = errand.machine;
    let what = format!(
        "take {machine} out of the cluster and join it anew, while its pods move elsewhere"
    );
    let treatment = Treatment {
        planned: &|_, observed| plan_reset(observed, machine),
        allowed: may_be_reset,
        what,
    };
    match treat(console, model, errand, &treatment, environment, invocation)? {
        // What the machine lacks now, `up` gives it.
        Treated::Done(_) => {
            let wishes = UpArguments {
                yes: errand.yes,
                ..UpArguments::default()
            };
            up(console, judged, &wishes, environment, invocation)
        }
        Treated::Failed(code) => Ok(code),
    }
}

/// Starts a machine anew, waits until its node is Ready, and proves again what was proven.
pub(super) fn reboot(
    console: &mut Console<'_>,
    model: &Model,
    errand: &Errand<'_>,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let machine = errand.machine;
    let suites = &model.cluster().verify;
    let treatment = Treatment {
        planned: &|adapter, observed| {
            let rollouts = adapter.documents(observed).rollouts();
            plan_reboot(observed, machine, suites, &rollouts)
        },
        allowed: may_be_started_anew,
        what: format!("start {machine} anew, and stop what runs on it until then"),
    };
    match treat(console, model, errand, &treatment, environment, invocation)? {
        Treated::Done(report) => {
            if console.format == Format::Json {
                view::end(console, model, &report, Part::WHOLE, invocation)?;
            } else {
                let done = console.styled_err(GOOD, "done");
                let took = duration::shown(Duration::from_millis(report.took_ms));
                writeln!(
                    console.err,
                    "{done}: {machine} was started anew and is back after {took}"
                )?;
            }
            Ok(0)
        }
        Treated::Failed(code) => Ok(code),
    }
}

struct Treatment<'a> {
    planned: &'a dyn Fn(&Adapter<'_>, &Observed) -> Plan,
    allowed: fn(&Model, &Observed, &MachineName) -> Result<(), Failure>,
    what: String,
}

enum Treated {
    /// Everything was done.
    Done(Box<mullion_engine::Report>),
    /// It failed, and that was told.
    Failed(u8),
}

fn treat(
    console: &mut Console<'_>,
    model: &Model,
    errand: &Errand<'_>,
    treatment: &Treatment<'_>,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<Treated, Failure> {
    let machine = errand.machine;
    if let Some(failure) = unknown(model, machine) {
        return Err(failure);
    }
    answerable(console, &treatment.what, errand.yes)?;
    let reasons = workshop::needs_root(model);
    elevate(console, environment, model, invocation.arguments, &reasons)?;
    let adapter = workshop::open(model, environment)?;
    let line = invocation.line();
    let locks = take_locks(environment, &adapter, &line)?;
    let observed = look(&adapter, model)?;
    let plan = (treatment.planned)(&adapter, &observed);
    if !plan.obstacles().is_empty() {
        view::obstructed(console, model, &plan, None)?;
        return Ok(Treated::Failed(obstructed(&plan)));
    }
    (treatment.allowed)(model, &observed, machine)?;
    consent(console, &treatment.what, errand.yes)?;
    adapter.seat(&adapter.wanted(), &observed);
    let errand = conduct::Errand {
        command: line.clone(),
        again: line,
        is_verbose: invocation.is_verbose,
        patience: invocation.patience,
    };
    let report = conduct(console, environment, &adapter, &plan, &errand);
    drop(locks);
    let report = report?;
    if report.outcome == RunOutcome::Done {
        return Ok(Treated::Done(Box::new(report)));
    }
    view::end(console, model, &report, Part::WHOLE, invocation)?;
    Ok(Treated::Failed(view::exit_code(&report)))
}

/// The machine was found, is ours and runs.
fn is_there(observed: &Observed, machine: &MachineName) -> Result<(), Failure> {
    let refused = |why: &str| {
        Failure::new(Class::Machine, format!("{machine} {why}"))
            .hint("make it so with `mullion up`")
    };
    match observed.machines.get(machine) {
        None => Err(refused("is not there")),
        Some(facts) if !facts.ours => Err(Failure::new(
            Class::Machine,
            format!("{machine} is there, and does not belong to this cluster"),
        )
        .hint("`mullion status` says what there is")),
        Some(facts) if !facts.whole || facts.power != Power::On => Err(refused("does not run")),
        Some(_) => Ok(()),
    }
}

fn may_be_started_anew(
    _: &Model,
    observed: &Observed,
    machine: &MachineName,
) -> Result<(), Failure> {
    is_there(observed, machine)
}

fn may_be_reset(model: &Model, observed: &Observed, machine: &MachineName) -> Result<(), Failure> {
    is_there(observed, machine)?;
    let cluster = model.cluster();
    let duty = cluster.machine(machine);
    let duty = duty.map(|known| known.group.duty);
    let usage = |words: String| Failure::new(Class::Usage, words);
    if duty == Some(Duty::LoadBalancer) {
        return Err(usage(format!(
            "{machine} is no node: it stands before the control planes"
        ))
        .hint(format!(
            "start it anew with `mullion node reboot {machine}`"
        )));
    }
    let is_answered = observed
        .cluster
        .as_ref()
        .is_some_and(|cluster| cluster.answers);
    if duty == Some(Duty::ControlPlane) {
        // Whether etcd can do without it is the plan's to say.
        if !is_answered {
            let words = format!("the API server does not answer, so {machine} cannot leave etcd");
            return Err(Failure::new(Class::Machine, words).hint("repair it with `mullion up`"));
        }
    }
    let inside = observed
        .machines
        .get(machine)
        .and_then(|facts| facts.inside.as_ref());
    if inside.is_none_or(|inside| inside.agent.is_none()) {
        let words = format!("{machine} does not answer, so nothing on it can be reset");
        return Err(Failure::new(Class::Machine, words).hint(format!(
            "see what it says with `mullion console {machine}`, or repair it with `mullion up`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Judgement;
    use mullion_plan::{ClusterFacts, ClusterId, Inside};
    use mullion_spec::draft::Surroundings;
    use mullion_spec::source::Source;
    use mullion_spec::words::Driver;
    use mullion_testkit::running_machine;

    use super::*;
    use crate::file;

    fn judged(text: &str) -> Judgement {
        file::judge(Source::new("f", text), &Surroundings::default())
    }

    fn world(names: &[&str], answers: bool) -> Observed {
        let mut observed = Observed::default();
        for name in names {
            let inside = Inside {
                agent: Some("1".into()),
                ..Inside::default()
            };
            let facts = running_machine(Driver::Ssh, Some(inside));
            observed.machines.insert(name.parse().unwrap(), facts);
        }
        observed.cluster = Some(ClusterFacts {
            id: ClusterId("a".into()),
            answers,
            kubernetes: None,
            endpoint: None,
            pods: None,
            services: None,
            pods_per_node: None,
            domain: None,
            feature_gates: None,
            members: [].into(),
            etcd: None,
            nodes: [].into(),
            objects: [].into(),
            proven: [].into(),
        });
        observed
    }

    fn reset_of(text: &str, observed: &Observed, name: &str) -> Result<(), Failure> {
        may_be_reset(
            judged(text).model.as_ref().unwrap(),
            observed,
            &name.parse().unwrap(),
        )
    }

    #[test]
    fn a_reset_that_would_lose_the_cluster_is_refused() {
        let one = "machines: {linux: 1}\n";
        let three = "machines: [{name: cp, role: control-plane, count: 3}, {name: lin}]\n";
        let names = ["cp1", "cp2", "cp3", "lb1", "lin1"];
        let well = world(&names, true);
        assert!(reset_of(one, &well, "lin1").is_ok());
        assert!(reset_of(three, &well, "cp2").is_ok());
        for (text, observed, name, word) in [
            (three, &well, "lb1", "no node"),
            (three, &world(&names, false), "cp2", "etcd"),
            (one, &world(&[], true), "lin1", "is not there"),
        ] {
            let failure = reset_of(text, observed, name).unwrap_err();
            assert!(failure.what.contains(word), "{failure}");
            assert!(!failure.hints.is_empty(), "{failure}");
        }
        assert!(
            reset_of(one, &world(&["lin1"], false), "lin1").is_ok(),
            "a worker needs no API server"
        );
    }

    #[test]
    fn what_does_not_run_or_is_not_ours_is_left_alone() {
        let machine: MachineName = "lin1".parse().unwrap();
        let mut observed = world(&["lin1"], true);
        observed.machines.get_mut(&machine).unwrap().power = Power::Off;
        assert!(
            is_there(&observed, &machine)
                .unwrap_err()
                .what
                .contains("does not run")
        );
        observed.machines.get_mut(&machine).unwrap().ours = false;
        assert!(
            is_there(&observed, &machine)
                .unwrap_err()
                .what
                .contains("does not belong")
        );
    }
}
