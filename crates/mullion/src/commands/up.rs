//! `mullion up`: make it so.

use std::collections::BTreeSet;

use mullion_catalog::Model;
use mullion_engine::{Report, RunOutcome, select};
use mullion_live::{Adapter, StateError};
use mullion_plan::{
    Discover as _, Observed, Obstacle, Plan, SavedPlan, Stage, Wanted, plan as planned,
};
use mullion_spec::value::MachineName;

use super::plan::obstructed;
use super::validate::{refuse, tell};
use crate::arguments::UpArguments;
use crate::conduct::{Errand, Locks, conduct, take_locks};
use crate::consent::consent;
use crate::console::{Console, Format};
use crate::elevation::elevate;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::file::Judged;
use crate::invocation::Invocation;
use crate::views::{reads, run as view};
use crate::{saved_plan, workshop};

/// A run that finds more to do when it is through, because it could not look before, is followed by another.
const ROUNDS: usize = 3;

/// The file judged again, where that gives the cluster other networks.
type Elsewhere = Result<Option<Box<Judged>>, Failure>;

/// How one attempt at a run ended.
enum Attempt {
    /// With that exit code.
    Ended(u8),
    /// Nothing was made: the cluster's networks have to be others than those that were planned with.
    Moved(Box<Judged>),
}

/// Makes it so.
pub fn up(
    console: &mut Console<'_>,
    judged: &Judged,
    wishes: &UpArguments,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let mut again: Option<Box<Judged>> = None;
    // Held from the first attempt to the last: no other run comes between two attempts.
    let mut locks = None;
    for round in 1..=ROUNDS {
        let judged = again.as_deref().unwrap_or(judged);
        let moves = if round < ROUNDS && wishes.plan.is_none() {
            Moves::May
        } else {
            Moves::No
        };
        let setting = (environment, invocation, moves);
        match attempt(console, judged, wishes, setting, &mut locks)? {
            Attempt::Ended(code) => return Ok(code),
            Attempt::Moved(other) => again = Some(other),
        }
    }
    Ok(Class::ThisComputer.exit_code())
}

/// Whether networks may be chosen again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    May,
    No,
}

fn attempt(
    console: &mut Console<'_>,
    judged: &Judged,
    wishes: &UpArguments,
    (environment, invocation, moves): (&Environment, Invocation<'_>, Moves),
    locks: &mut Option<Locks>,
) -> Result<Attempt, Failure> {
    let judgement = &judged.judgement;
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict).map(Attempt::Ended);
    };
    if console.format == Format::Text {
        tell(console, &judgement.verdict)?;
    }
    // A name that nobody has, and a plan that nobody may run, are told before anybody is asked for root.
    chosen(model, wishes)?;
    let cluster = model.cluster().name.as_str();
    let saved = wishes.plan.as_deref();
    let saved = saved.map(|path| saved_plan::open(path, environment, cluster));
    let saved = saved.transpose()?;
    let reasons = workshop::reasons_for_root(model, environment);
    elevate(console, environment, model, invocation.arguments, &reasons)?;
    let adapter = workshop::open(model, environment)?;
    if locks.is_none() {
        *locks = Some(take_locks(environment, &adapter, &invocation.line())?);
    }
    // Another run may have chosen networks for this cluster before this one had the lock.
    let kept = adapter.state().networks();
    let kept = kept.map_err(|error| unkept(&error))?;
    if moves == Moves::May
        && kept.is_some()
        && kept != judged.networks()
        && let Some(other) = elsewhere(judged, environment)?
    {
        return Ok(Attempt::Moved(other));
    }
    let text = judgement.verdict.source.text();
    if saved.is_none() {
        keep_file(&adapter, environment, text)?;
    }
    let move_away = || match moves {
        Moves::May => elsewhere(judged, environment),
        Moves::No => Ok(None),
    };
    make_so(
        console,
        model,
        (wishes, saved.as_ref(), text),
        environment,
        &adapter,
        invocation,
        &move_away,
    )
}

/// The file judged again, where that gives the cluster other networks.
fn elsewhere(judged: &Judged, environment: &Environment) -> Elsewhere {
    let other = judged.again(environment)?;
    // A file that is refused by now gives no networks at all.
    let has_moved = other.networks().is_some() && other.networks() != judged.networks();
    Ok(has_moved.then(|| Box::new(other)))
}

fn unkept(error: &StateError) -> Failure {
    let words = "the networks of the cluster could not be kept";
    Failure::new(Class::ThisComputer, words).because(error)
}

/// Keeps the networks that the cluster is created with, so that later runs do not choose others.
fn keep_networks(adapter: &Adapter<'_>, model: &Model) -> Result<(), Failure> {
    let cluster = model.cluster();
    let state = adapter.state();
    let networks = cluster.networks();
    let kept = state.networks().map_err(|error| unkept(&error))?;
    if kept == Some(networks) {
        return Ok(());
    }
    let network = &cluster.network;
    let kept = state.keep_networks(networks.machines, network.pods, network.services);
    kept.map_err(|error| unkept(&error))
}

/// Keeps the cluster file for commands that name the cluster.
fn keep_file(adapter: &Adapter<'_>, environment: &Environment, text: &str) -> Result<(), Failure> {
    let folders = (
        environment.file_folder.as_path(),
        environment.real_file_folder.as_path(),
    );
    let kept = adapter.state().keep_file(text, &environment.paths, folders);
    kept.map_err(|error| {
        Failure::new(Class::ThisComputer, "the cluster file could not be kept").because(&error)
    })
}

fn make_so(
    console: &mut Console<'_>,
    model: &Model,
    (wishes, saved, text): (&UpArguments, Option<&SavedPlan>, &str),
    environment: &Environment,
    adapter: &Adapter<'_>,
    invocation: Invocation<'_>,
    move_away: &dyn Fn() -> Elsewhere,
) -> Result<Attempt, Failure> {
    let mut last: Option<Report> = None;
    let mut part = view::Part {
        only: &wishes.only,
        until: wishes.until,
        ..view::Part::WHOLE
    };
    // Whether the last round only found that what it was planned with is no longer so.
    let mut was_outdated = false;
    for round in 0..ROUNDS {
        let wanted = adapter.wanted();
        let observed = look(adapter, model)?;
        let whole = planned(&wanted, &observed, &adapter.documents(&observed));
        if !whole.obstacles().is_empty() {
            if last.is_none()
                && meets_only_networks(&whole)
                && let Some(other) = move_away()?
            {
                return move_to(console, other);
            }
            view::obstructed(console, model, &whole, last.as_ref())?;
            return Ok(Attempt::Ended(obstructed(&whole)));
        }
        if let (Some(path), Some(saved)) = (&wishes.plan, saved) {
            saved_plan::hold(path, saved, &saved_plan::of(&whole, adapter, text)?)?;
            keep_file(adapter, environment, text)?;
        }
        keep_networks(adapter, model)?;
        let (total, all_suites) = (whole.steps().len(), suites(&whole));
        let plan = selected(model, whole, wishes)?;
        part.left_out = total - plan.steps().len();
        part.leaves_suites = suites(&plan) < all_suites;
        if plan.is_empty() {
            // What that round could not do needs nobody any more.
            last = last.filter(|_| !was_outdated);
            break;
        }
        let only_looks = plan.steps().iter().all(|step| step.action.only_looks());
        part.only_looks = only_looks && (round == 0 || part.only_looks);
        adapter.seat(&wanted, &observed);
        if console.format == Format::Text {
            view::begin(console, model, &plan, round)?;
            if round == 0 {
                let read = reads::text(&reads::reads(model.cluster(), environment));
                console.err.write_all(read.as_bytes())?;
            }
        }
        let removals = removals(&plan);
        if !removals.is_empty() {
            consent(console, &removals, wishes.yes)?;
        }
        let errand = Errand {
            command: invocation.line(),
            again: invocation.next(&model.cluster().name, &words(wishes)),
            is_verbose: invocation.is_verbose,
            patience: invocation.patience,
        };
        let report = conduct(console, environment, adapter, &plan, &errand)?;
        let is_done = report.outcome == RunOutcome::Done;
        if lost_its_network(&report)
            && let Some(other) = move_away()?
        {
            return move_to(console, other);
        }
        let is_outdated = meets_other_facts(&report);
        last = Some(report);
        // A saved plan is run, and no other one after it.
        was_outdated = is_outdated;
        let goes_on = is_outdated || (is_done && looks_again(&plan));
        if wishes.plan.is_some() || !goes_on {
            break;
        }
    }
    match &last {
        Some(report) => view::end(console, model, report, part, invocation),
        None => view::nothing(console, model, part, invocation),
    }?;
    Ok(Attempt::Ended(last.as_ref().map_or(0, view::exit_code)))
}

/// Says that the next attempt has other networks.
fn move_to(console: &mut Console<'_>, other: Box<Judged>) -> Result<Attempt, Failure> {
    if console.format == Format::Text {
        writeln!(
            console.err,
            "another cluster has taken that network: choosing another one"
        )?;
    }
    Ok(Attempt::Moved(other))
}

/// Whether other networks would remove everything that is in a plan's way.
fn meets_only_networks(plan: &Plan) -> bool {
    let mut obstacles = plan.obstacles().iter();
    obstacles.all(|obstacle| matches!(obstacle, Obstacle::NetworkTaken { .. }))
}

/// The words of `up` for the same part of the plan.
fn words(wishes: &UpArguments) -> Vec<&str> {
    let only = wishes.only.iter();
    let only = only.flat_map(|name| ["--only", name.as_str()]);
    let until = wishes.until.iter();
    let until = until.flat_map(|stage| ["--until", stage.row().word]);
    ["up"].into_iter().chain(only).chain(until).collect()
}

/// Everything that there is.
pub fn look(adapter: &Adapter<'_>, model: &Model) -> Result<Observed, Failure> {
    adapter.observe(model.cluster()).map_err(|error| {
        Failure::new(Class::ThisComputer, "what there is could not be looked at").because(&error)
    })
}

/// The machines that were asked for.
fn chosen(model: &Model, wishes: &UpArguments) -> Result<BTreeSet<MachineName>, Failure> {
    let names = wishes.only.iter().map(String::as_str);
    select::machines_of(model.cluster(), names).map_err(|error| {
        Failure::new(Class::Usage, error.to_string())
            .hint(format!("there are {}", error.known.join(", ")))
    })
}

/// The part of a plan that was asked for.
fn selected(model: &Model, plan: Plan, wishes: &UpArguments) -> Result<Plan, Failure> {
    let mut plan = plan;
    let ours = |error: &dyn std::error::Error| {
        Failure::new(Class::OurBug, "a part of the plan is no plan").because(error)
    };
    if !wishes.only.is_empty() {
        let machines = chosen(model, wishes)?;
        plan = select::only(&plan, &machines)
            .map_err(|error| ours(&error))?
            .plan;
    }
    if let Some(stage) = wishes.until {
        plan = select::until(&plan, stage)
            .map_err(|error| ours(&error))?
            .plan;
    }
    Ok(plan)
}

/// What a plan removes, in words; nothing where it removes nothing.
fn removals(plan: &Plan) -> String {
    let steps = plan.steps().iter();
    let removals = steps.filter(|step| step.stage == Stage::Retire);
    let removals: Vec<_> = removals.map(mullion_plan::Step::title).collect();
    removals.join(", ")
}

/// How many suites a plan runs.
fn suites(plan: &Plan) -> usize {
    let steps = plan.steps().iter();
    steps.filter(|step| step.stage == Stage::Verify).count()
}

/// Whether a look after the run may find more: something could not be looked at before.
fn looks_again(plan: &Plan) -> bool {
    let unseen = |step: &mullion_plan::Step| {
        matches!(
            step.action,
            mullion_plan::Action::AwaitApi { .. } | mullion_plan::Action::Reach { .. }
        )
    };
    let makes =
        |step: &mullion_plan::Step| matches!(step.action, mullion_plan::Action::MakeMachine { .. });
    let steps = plan.steps();
    steps.iter().any(unseen) && !steps.iter().any(makes)
}

/// Whether the run came to nothing because somebody else took the machine network.
fn lost_its_network(report: &Report) -> bool {
    let is_taken = |cause: &mullion_engine::Cause| {
        cause.tag.stage == Stage::Hosts
            && cause.error.class == mullion_engine::FailureClass::NotOurs
    };
    !report.causes.is_empty() && report.causes.iter().all(is_taken)
}

/// Whether the run came to nothing because what it was planned with is no longer so: planning again gives other steps.
fn meets_other_facts(report: &Report) -> bool {
    let is_outdated =
        |cause: &mullion_engine::Cause| cause.error.class == mullion_engine::FailureClass::Outdated;
    !report.causes.is_empty() && report.causes.iter().all(is_outdated)
}

/// What planning makes of what there is now: for whoever only shows it.
pub fn plan_now<'a>(
    adapter: &Adapter<'a>,
    model: &'a Model,
) -> Result<(Wanted<'a>, Observed, Plan), Failure> {
    let wanted = adapter.wanted();
    let observed = look(adapter, model)?;
    let plan = planned(&wanted, &observed, &adapter.documents(&observed));
    Ok((wanted, observed, plan))
}
