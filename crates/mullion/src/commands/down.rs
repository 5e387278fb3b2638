//! `mullion down`: remove everything that `up` made.

use mullion_catalog::Judgement;
use mullion_engine::RunOutcome;
use mullion_engine::hands::KeptTemplate;
use mullion_plan::{Rest, plan_down};
use mullion_spec::cluster::ControlPlane;

use super::up::{ask, look};
use super::validate::refuse;
use crate::arguments::DownArguments;
use crate::conduct::{Errand, conduct, take_locks};
use crate::console::{Console, Presence};
use crate::elevation::elevate;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::invocation::Invocation;
use crate::views::run::{self as view, Part};
use crate::workshop;

/// Removes everything that carries the cluster's label.
pub fn down(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &DownArguments,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let reasons = workshop::needs_root(model);
    elevate(console, environment, model, invocation.arguments, &reasons)?;
    let hands = workshop::open(model, environment)?;
    let line = invocation.line();
    let _locks = take_locks(environment, &hands, &line)?;
    let observed = look(&hands, model)?;
    let rest = match model.cluster().control_plane {
        ControlPlane::Made { .. } => Rest::Nothing,
        ControlPlane::Existing { .. } => Rest::Cluster,
    };
    let plan = plan_down(&observed, rest);
    let name = &model.cluster().name;
    let mut report = None;
    if !plan.is_empty() {
        let machines = plan.steps().iter().filter_map(|step| step.machine.as_ref());
        let mut machines: Vec<_> = machines.map(ToString::to_string).collect();
        machines.dedup();
        let question = format!("remove cluster `{name}` with {}?", machines.join(", "));
        if !wishes.yes && console.presence == Presence::Attended && !ask(console, &question)? {
            return Err(Failure::new(Class::Usage, "nothing was done: you said no"));
        }
        hands.seat(mullion_plan::Roster::of(&hands.wanted(), &observed));
        let errand = Errand {
            command: line,
            again: invocation.next(name, &["down"]),
            is_verbose: invocation.is_verbose,
        };
        let ended = conduct(console, environment, &hands, &plan, &errand)?;
        if ended.outcome != RunOutcome::Done {
            view::end(console, model, &ended, Part::WHOLE, invocation)?;
            return Ok(view::exit_code(&ended));
        }
        report = Some(ended);
    }
    let failed = |what: &str, error: &dyn std::error::Error| {
        Failure::new(Class::ThisComputer, what).because(error)
    };
    let state = hands.state().clone();
    state
        .remove()
        .map_err(|error| failed("what was kept of the cluster could not be removed", &error))?;
    if wishes.purge {
        let kept = hands
            .purge()
            .map_err(|error| failed("templates and the cache could not be removed", &error))?;
        tell_kept(console, &kept)?;
    }
    // One document, and after all that may fail.
    view::gone(console, model, report.as_ref())?;
    Ok(0)
}

/// Tells which templates stay, and whose machines need them.
fn tell_kept(console: &mut Console<'_>, kept: &[KeptTemplate]) -> Result<(), Failure> {
    for KeptTemplate { template, clusters } in kept {
        let clusters: Vec<_> = clusters.iter().map(|name| format!("`{name}`")).collect();
        writeln!(
            console.err,
            "template {} stays: machines of {} lie over it",
            template.name,
            clusters.join(", ")
        )?;
    }
    Ok(())
}
