//! Definitions of services that no file holds: those of Windows' service control manager.

use std::collections::BTreeMap;

use mullion_wire::{Definition, Service, ServiceState, Start};

use super::Wanted;
use crate::failure::AgentError;
use crate::system::{Removed, System};
use crate::work::Work;

/// How a service is to be defined, its state taken into account.
pub(super) fn wanted(service: &Service) -> Option<Definition> {
    let mut definition = service.definition.clone()?;
    if service.state == ServiceState::Stopped {
        definition.start = Start::OnDemand;
    }
    Some(definition)
}

/// All of them.
pub(super) fn all_wanted(services: &[&Service]) -> BTreeMap<String, Definition> {
    let defined = services.iter();
    defined
        .filter_map(|service| Some((service.name.clone(), wanted(service)?)))
        .collect()
}

/// Defines services that are not defined as wanted, and puts back definitions that are not wanted any more. A service
/// that runs by another definition is restarted.
pub(super) fn set(work: &mut Work<'_, '_>, wanted: &Wanted<'_>) -> Result<(), AgentError> {
    let definitions = all_wanted(&wanted.services);
    let kept = work.state.windows.definitions.keys();
    let dropped: Vec<_> = kept
        .filter(|name| !definitions.contains_key(*name))
        .cloned()
        .collect();
    for name in dropped {
        work.touch()?;
        put_back(work, &name)?;
        work.state.windows.definitions.remove(&name);
    }
    let mut changes = Vec::new();
    for (name, definition) in &definitions {
        let found = work.system.definition(name)?;
        if found.as_ref() == Some(definition) && work.system.is_the_systems(name)? {
            continue;
        }
        if found.is_some() {
            work.state.pending.restarts.insert(name.clone());
        }
        let kept = &mut work.state.windows.definitions;
        kept.entry(name.clone()).or_insert(found);
        changes.push((name, definition));
    }
    if changes.is_empty() {
        return Ok(());
    }
    work.touch()?;
    for (name, definition) in changes {
        let defined = work.system.define(name, definition);
        defined.map_err(|source| super::services::failed(work, name, "defined", source))?;
        work.report.changed(format!("service {name} defined"));
    }
    Ok(())
}

/// Puts back every definition.
pub(crate) fn give_back(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let names: Vec<_> = work.state.windows.definitions.keys().cloned().collect();
    names.iter().try_for_each(|name| put_back(work, name))
}

/// Puts back how a service was defined; one that nobody knew is removed. What is remembered stays, so that this can be
/// done again.
fn put_back(work: &mut Work<'_, '_>, name: &str) -> Result<(), AgentError> {
    let Some(before) = work.state.windows.definitions.get(name).cloned() else {
        return Ok(());
    };
    match before {
        None => {
            let removed = work.system.undefine(name);
            let removed =
                removed.map_err(|source| super::services::failed(work, name, "removed", source))?;
            if removed == Removed::Gone {
                work.report.changed(format!("service {name} removed"));
            }
        }
        Some(before) if work.system.definition(name)?.as_ref() != Some(&before) => {
            let defined = work.system.define(name, &before);
            defined.map_err(|source| super::services::failed(work, name, "defined", source))?;
            work.report.changed(format!("service {name} defined"));
        }
        Some(_) => {}
    }
    Ok(())
}

/// What is no longer as it was applied, for people.
pub(crate) fn drift(
    system: &dyn System,
    applied: &BTreeMap<String, Definition>,
) -> Result<Vec<String>, AgentError> {
    let mut drift = Vec::new();
    for (name, definition) in applied {
        match system.definition(name)? {
            None => drift.push(format!("the service `{name}` is gone")),
            Some(found) if found != *definition => {
                drift.push(format!("the service `{name}` is defined otherwise"));
            }
            Some(_) if !system.is_the_systems(name)? => {
                drift.push(format!("the service `{name}` runs under another account"));
            }
            Some(_) => {}
        }
    }
    Ok(drift)
}
