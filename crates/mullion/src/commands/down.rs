//! `mullion down`: remove everything that `up` made.

use std::path::PathBuf;

use mullion_catalog::Judgement;
use mullion_engine::RunOutcome;
use mullion_live::{KeptTemplate, PurgeError, Purged, PurgedFolders};
use mullion_plan::{Plan, Rest, plan_down};
use mullion_spec::cluster::ControlPlane;
use mullion_spec::value::ClusterName;

use super::plan::obstructed;
use super::up::look;
use super::validate::refuse;
use crate::arguments::DownArguments;
use crate::conduct::{Errand, conduct, take_locks};
use crate::consent::consent;
use crate::console::Console;
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
    let mut reasons = workshop::reasons_for_root(model, environment);
    if wishes.purge && reasons.is_empty() && environment.place.join("templates").exists() {
        reasons.push("remove templates".into());
    }
    elevate(console, environment, model, invocation.arguments, &reasons)?;
    let adapter = workshop::open(model, environment)?;
    let line = invocation.line();
    let _locks = take_locks(environment, &adapter, &line)?;
    let observed = look(&adapter, model)?;
    let rest = match model.cluster().control_plane {
        ControlPlane::Made { .. } => Rest::Nothing,
        ControlPlane::Existing { .. } => Rest::Cluster,
    };
    let silent = adapter.silent(&observed);
    let plan = plan_down(&observed, rest, &silent);
    if !plan.obstacles().is_empty() {
        view::obstructed(console, model, &plan, None)?;
        return Ok(obstructed(&plan));
    }
    let name = &model.cluster().name;
    // Refused before anything is removed.
    let purged = wishes
        .purge
        .then(|| adapter.purged_folders().map_err(|error| unpurged(&error)));
    let purged = purged.transpose()?;
    let state = adapter.state().clone();
    let failed = |what: &str, error: &dyn std::error::Error| {
        Failure::new(Class::ThisComputer, what).because(error)
    };
    let unlisted = |error| failed("the snapshots of etcd cannot be listed", &error);
    let snapshots = state.snapshots().map_err(unlisted)?;
    if let Some(what) = removals(name, &plan, purged.as_ref(), &snapshots) {
        consent(console, &what, wishes.yes)?;
    }
    let mut report = None;
    if !plan.is_empty() {
        adapter.seat(&adapter.wanted(), &observed);
        let errand = Errand {
            command: line,
            again: invocation.next(name, &["down"]),
            is_verbose: invocation.is_verbose,
            patience: invocation.patience,
        };
        let ended = conduct(console, environment, &adapter, &plan, &errand)?;
        if ended.outcome != RunOutcome::Done {
            view::end(console, model, &ended, Part::WHOLE, invocation)?;
            if let Some(gone) = silent.keys().next() {
                writeln!(
                    console.err,
                    "a machine that is gone for good, such as {gone}, can be taken out of the file: then nobody waits for it"
                )?;
            }
            return Ok(view::exit_code(&ended));
        }
        report = Some(ended);
    }
    state
        .clone()
        .remove()
        .map_err(|error| failed("what was kept of the cluster could not be removed", &error))?;
    if wishes.purge {
        let Purged { kept, strange } = adapter.purge().map_err(|error| unpurged(&error))?;
        tell_kept(console, &kept)?;
        for path in strange {
            writeln!(
                console.err,
                "kept `{}`: Mullion did not make it",
                path.display()
            )?;
        }
        // Those that the question named. A snapshot that this run saved is from machines that the user keeps.
        state
            .remove_snapshots(&snapshots)
            .map_err(|error| failed("the snapshots of etcd could not be removed", &error))?;
        for path in &snapshots {
            writeln!(
                console.err,
                "removed the etcd snapshot `{}`",
                path.display()
            )?;
        }
    }
    for path in state.snapshots().map_err(unlisted)? {
        writeln!(
            console.err,
            "kept the etcd snapshot `{}`: the next `down --purge` removes it",
            path.display()
        )?;
    }
    // One document, and after all that may fail.
    view::gone(console, model, report.as_ref())?;
    Ok(0)
}

fn unpurged(error: &PurgeError) -> Failure {
    let what = "templates and the cache cannot be removed";
    let failure = Failure::new(Class::ThisComputer, what).because(error);
    error.hints().into_iter().fold(failure, Failure::hint)
}

/// What would be removed, in words; nothing where there is nothing.
fn removals(
    name: &ClusterName,
    plan: &Plan,
    purged: Option<&PurgedFolders>,
    snapshots: &[PathBuf],
) -> Option<String> {
    let machines = plan.steps().iter().filter_map(|step| step.machine.as_ref());
    let mut machines: Vec<_> = machines.map(ToString::to_string).collect();
    machines.dedup();
    let cluster = if machines.is_empty() {
        format!("cluster `{name}`")
    } else {
        format!("cluster `{name}` with {}", machines.join(", "))
    };
    let cluster = (!plan.is_empty()).then_some(cluster);
    let shared = purged.map(|folders| {
        format!(
            "the cache in `{}` and unused templates in `{}`",
            folders.cache.display(),
            folders.templates.display()
        )
    });
    // Without a purge they stay.
    let snapshots = purged.filter(|_| !snapshots.is_empty()).map(|_| {
        let paths = snapshots.iter().map(|path| format!("`{}`", path.display()));
        let paths: Vec<_> = paths.collect();
        format!("the etcd snapshots {}", paths.join(", "))
    });
    let all: Vec<_> = cluster.into_iter().chain(shared).chain(snapshots).collect();
    (!all.is_empty()).then(|| format!("remove {}", all.join(", and ")))
}

/// Tells which templates stay, and whose machines need them.
fn tell_kept(console: &mut Console<'_>, kept: &[KeptTemplate]) -> Result<(), Failure> {
    for KeptTemplate {
        template,
        clusters,
        folders,
    } in kept
    {
        for folder in folders {
            writeln!(
                console.err,
                "kept template {}: `{folder}` may hold machines that use it",
                template.name
            )?;
        }
        if clusters.is_empty() {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_05_the_question_of_a_purge_names_every_snapshot() {
        let name = "demo".parse().unwrap();
        let plan = plan_down(
            &mullion_plan::Observed::default(),
            Rest::Nothing,
            &std::collections::BTreeMap::new(),
        );
        let folders = PurgedFolders {
            cache: "/cache".into(),
            templates: "/templates".into(),
        };
        let snapshots = ["/state/1-before-cp1.db", "/state/2-before-cp1.db"].map(PathBuf::from);
        let asked = removals(&name, &plan, Some(&folders), &snapshots).unwrap();
        for path in &snapshots {
            assert!(asked.contains(&path.display().to_string()), "{asked}");
        }
        assert_eq!(removals(&name, &plan, None, &snapshots), None, "they stay");
    }
}
