//! Definitions of services that no file holds: those of Windows' service control manager.

use std::collections::BTreeMap;

use mullion_wire::{Blueprint, Definition, Service, ServiceState, Start};

use super::Wanted;
use crate::change::{Change, ServiceChange};
use crate::failure::AgentError;
use crate::system::{Account, Removed, System};
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
        work.state.windows.accounts.remove(&name);
        work.state.windows.failures.remove(&name);
    }
    let mut changes = Vec::new();
    for (name, definition) in &definitions {
        let found = work.system.definition(name)?;
        let account = work.system.account(name)?;
        if found.as_ref() == Some(definition) && account.is_the_systems() {
            continue;
        }
        if found.is_some() {
            work.state.pending.restarts.insert(name.clone());
        }
        let kept = &mut work.state.windows;
        if !kept.definitions.contains_key(name) {
            if found.is_some() {
                let failures = work.system.failures(name)?;
                kept.failures.insert(name.clone(), failures);
            }
            kept.definitions.insert(name.clone(), found);
            if !account.is_the_systems() {
                kept.accounts.insert(name.clone(), account);
            }
        }
        changes.push((name, definition));
    }
    if changes.is_empty() {
        return Ok(());
    }
    work.touch()?;
    for (name, definition) in changes {
        // Whoever it ran as before: containerd makes containers of the machine's own only as the system.
        let defined = work.system.define(name, definition, &Account::system());
        defined.map_err(|source| super::services::failed(work, name, "defined", source))?;
        let change = Change::Service(name.clone(), ServiceChange::Defined);
        work.report.applied(change);
    }
    Ok(())
}

/// Refuses to take over a service that somebody made for an account with a password: it could not be given back.
pub(super) fn check_accounts(work: &Work<'_, '_>, blueprint: &Blueprint) -> Result<(), AgentError> {
    let is_ours = |name: &str| work.state.windows.definitions.contains_key(name);
    let services = blueprint.services.iter();
    let defined = services.filter(|service| service.definition.is_some());
    for service in defined.filter(|service| !is_ours(&service.name)) {
        let account = work.system.account(&service.name)?;
        if account.is_a_users() {
            return Err(AgentError::OthersAccount {
                name: service.name.clone(),
                account: account.name().to_owned(),
            });
        }
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
    let account = work.state.windows.accounts.get(name).cloned();
    let account = account.unwrap_or_else(Account::system);
    let failures = work.state.windows.failures.get(name).cloned();
    match before {
        None => {
            let removed = work.system.undefine(name);
            let removed =
                removed.map_err(|source| super::services::failed(work, name, "removed", source))?;
            match removed {
                Removed::Gone => {
                    let change = Change::Service(name.to_owned(), ServiceChange::Removed);
                    work.report.applied(change);
                }
                Removed::Stays(why) => work.report.doing(format!("service {name} stays: {why}")),
                Removed::Nothing => {}
            }
        }
        Some(before)
            if work.system.definition(name)?.as_ref() != Some(&before)
                || work.system.account(name)? != account
                || failures.is_some() && Some(work.system.failures(name)?) != failures =>
        {
            let defined = work.system.define(name, &before, &account);
            // They say more than the definition, which has just been written over them.
            let defined = defined.and_then(|()| match &failures {
                Some(failures) => work.system.set_failures(name, failures),
                None => Ok(()),
            });
            defined.map_err(|source| super::services::failed(work, name, "defined", source))?;
            let change = Change::Service(name.to_owned(), ServiceChange::Defined);
            work.report.applied(change);
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
            Some(_) if !system.account(name)?.is_the_systems() => {
                drift.push(format!("the service `{name}` runs under another account"));
            }
            Some(_) => {}
        }
    }
    Ok(drift)
}
