//! Making a machine what its blueprint says.
//!
//! Everything is compared first; what was there before, and what will have to be restarted, is written down; only then
//! is anything changed. A second apply of the same blueprint changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Blueprint, File, Mark, Service, ServiceState};

use crate::change::Change;
use crate::failure::AgentError;
use crate::resume;
use crate::state::{self, Applied, Laid, WindowsApplied};
use crate::system::{Family, PackageLists, SystemError, aside};
use crate::work::Work;

mod check;
pub(crate) mod content;
pub(crate) mod definitions;
mod files;
mod folders;
pub(crate) mod restore;
mod services;
mod settings;
pub(crate) mod windows;

pub(crate) use files::remove_staged;
pub(crate) use folders::give_back as folders_back;
pub(crate) use services::{
    bring_back as bring_back_services, failed as service_failed, restart_released, tell_ended,
    withdraw as withdraw_services,
};
pub(crate) use settings::{give_back as settings_back, plain, remove_firewall};

/// A blueprint with what the system needs beside it.
struct Wanted<'a> {
    files: Vec<&'a File>,
    /// In the order in which they are started.
    services: Vec<&'a Service>,
}

/// Makes the machine what the blueprint says, and remembers the mark.
pub(crate) fn apply(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
    mark: &Mark,
) -> Result<(), AgentError> {
    check::version(blueprint)?;
    check::machine(&work.state, blueprint)?;
    check::shape(work.system, blueprint)?;
    definitions::check_accounts(work, blueprint)?;
    work.state.machine = Some(blueprint.machine.clone());
    // From the first change on, so that what is cut off can be told from what is another's.
    work.state.claim = Some(mark.clone());
    resume::forget_other(work, blueprint, mark)?;
    work.save()?;
    // Before anything that can fail, since the log tells that, too.
    windows::register_source(work)?;
    install_packages(work, blueprint)?;

    // Asked only now: a package may have brought the program that a companion needs.
    let companions = work.system.companions(blueprint)?;
    let wanted = Wanted {
        files: blueprint.files.iter().chain(&companions.files).collect(),
        services: check::in_order(blueprint.services.iter().chain(&companions.services))?,
    };
    services::remember(work, &wanted)?;
    services::withdraw_dropped(work, &wanted)?;
    folders::make(work, &blueprint.folders)?;
    files::lay(
        work,
        &wanted.files,
        &wanted.services,
        files::Others::Dropped,
    )?;
    settings::load_modules(work, blueprint)?;
    settings::set(work, blueprint)?;
    settings::set_firewall(work, blueprint)?;
    let for_windows = blueprint.windows.clone().unwrap_or_default();
    let rest = windows::enable_features(work, &for_windows)?;
    windows::set(work, &for_windows, rest)?;
    definitions::set(work, &wanted)?;
    if rest == windows::Rest::AfterRestart {
        work.report
            .doing("the rest follows once the machine was started anew");
        // Every file is in its place; services that read them are owed their restart until then.
        work.state.pending.staged.clear();
        work.touch()?;
        return resume::schedule(work, blueprint, mark);
    }
    services::ensure(work, &wanted)?;
    finish(work, blueprint, mark, &wanted)
}

/// Turns on optional features. A blueprint that is applied stays so: it is looked at for itself.
pub(crate) fn enable(
    work: &mut Work<'_, '_>,
    features: &BTreeSet<String>,
) -> Result<(), AgentError> {
    let applied = work.state.applied.clone();
    let wanted = mullion_wire::Windows {
        features: features.clone(),
        ..mullion_wire::Windows::default()
    };
    windows::register_source(work)?;
    windows::enable_features(work, &wanted)?;
    work.state.applied = applied;
    work.save()
}

/// Checks that the blueprint could be one for this agent.
pub(crate) fn check(work: &Work<'_, '_>, blueprint: &Blueprint) -> Result<(), AgentError> {
    check::version(blueprint)?;
    check::shape(work.system, blueprint)
}

/// Installs packages that are missing, with what says where they come from laid down first.
fn install_packages(work: &mut Work<'_, '_>, blueprint: &Blueprint) -> Result<(), AgentError> {
    let missing = work.system.missing(&blueprint.packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let sources: Vec<_> = blueprint
        .files
        .iter()
        .filter(|file| work.system.precedes_packages(&file.path))
        .collect();
    let services = check::in_order(blueprint.services.iter())?;
    let laid = files::lay(work, &sources, &services, files::Others::Left)?;
    let lists = if laid == 0 {
        PackageLists::Kept
    } else {
        PackageLists::Stale
    };
    work.state.packages.extend(missing.iter().cloned());
    work.touch()?;
    work.report
        .doing(format!("installing packages: {}", missing.join(", ")));
    let installed = {
        let report = &mut *work.report;
        let on_line = &mut |line: &str| report.output(line);
        work.system.install(&missing, lists, on_line)
    };
    installed.map_err(|source| match source {
        SystemError::NoPackages(_) => source.into(),
        source => AgentError::Packages {
            names: missing.clone(),
            source: Box::new(source),
        },
    })?;
    for name in missing {
        work.report.applied(Change::Package(name));
    }
    Ok(())
}

/// Remembers that all of it is so, and removes what was needed only on the way.
fn finish(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
    mark: &Mark,
    wanted: &Wanted<'_>,
) -> Result<(), AgentError> {
    let files: BTreeMap<_, _> = wanted
        .files
        .iter()
        .map(|file| {
            let laid = Laid {
                sha256: file.content.sha256(),
                mode: file.mode,
            };
            (file.path.clone(), laid)
        })
        .collect();
    let services = |state| {
        let services = wanted.services.iter();
        let found = services.filter(|service| service.state == state);
        found.map(|service| service.name.clone()).collect()
    };
    resume::unschedule(work)?;
    work.state.pending = state::Pending::default();
    let causes = wanted.services.iter();
    let causes = causes.map(|service| (service.name.clone(), service.restarted_by.clone()));
    work.state.causes = causes.collect();
    work.state.applied = Some(Applied {
        blueprint: blueprint.digest(),
        mark: mark.clone(),
        files,
        running: services(ServiceState::Running),
        enabled: services(ServiceState::Enabled),
        settings: blueprint.sysctls.clone(),
        folders: blueprint
            .folders
            .iter()
            .map(|folder| folder.path.clone())
            .collect(),
        firewall: blueprint.firewall.clone(),
        windows: (work.system.family() == Family::Windows).then(|| WindowsApplied {
            settings: blueprint.windows.clone().unwrap_or_default(),
            definitions: definitions::all_wanted(&wanted.services),
        }),
    });
    work.forget_restarts();
    work.save()?;
    tidy(work)
}

/// Removes contents that are in place now, and originals that nobody will ask for.
fn tidy(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let system = work.system;
    let kept: BTreeSet<_> = work
        .state
        .files
        .values()
        .filter_map(restore::name)
        .collect();
    let originals = state::originals(system);
    for name in system.list(&originals)? {
        if !kept.contains(name.as_str()) {
            system.remove(&format!("{originals}/{name}"))?;
        }
    }
    let store = state::store(system);
    for name in system.list(&store)? {
        system.remove(&format!("{store}/{name}"))?;
    }
    if system.family() == Family::Windows {
        for path in work.state.files.keys() {
            // Still there where its service was not restarted: the next apply tries again.
            let _ = system.remove(&aside(path));
        }
    }
    crate::digests::tidy(system)?;
    work.digests.save(system)?;
    Ok(())
}
