//! Services: enabled, started and restarted in their order, and only where something changed.

use std::collections::BTreeMap;

use mullion_wire::{Service, ServiceState, Start};

use super::Wanted;
use crate::change::{Change, ServiceChange};
use crate::failure::AgentError;
use crate::kubeadm::was_started;
use crate::state::Before;
use crate::system::{Activity, ServiceFacts, Stopped, SystemError};
use crate::work::Work;

/// So many last lines of a service that failed.
const LOG_LINES: usize = 10;

/// Remembers how services were before a blueprint first named them.
pub(super) fn remember(work: &mut Work<'_, '_>, wanted: &Wanted<'_>) -> Result<(), AgentError> {
    let is_new = |service: &&&Service| !work.state.services.contains_key(&service.name);
    let names: Vec<_> = wanted
        .services
        .iter()
        .filter(is_new)
        .map(|service| service.name.as_str())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    for (name, facts) in work.system.services(&names)? {
        let before = Before {
            is_enabled: facts.is_enabled,
            is_running: facts.activity != Activity::Stopped,
        };
        work.state.released.remove(&name);
        work.state.services.insert(name, before);
    }
    // Written down before anything of the service is changed.
    work.save()
}

/// Services that an earlier blueprint named and this one does not.
fn dropped(work: &Work<'_, '_>, wanted: &Wanted<'_>) -> Vec<String> {
    let is_wanted = |name: &str| wanted.services.iter().any(|service| service.name == name);
    let names = work.state.services.keys();
    names.filter(|name| !is_wanted(name)).cloned().collect()
}

/// Stops and disables services that the blueprint no longer names, while their files are still there.
pub(super) fn withdraw_dropped(
    work: &mut Work<'_, '_>,
    wanted: &Wanted<'_>,
) -> Result<(), AgentError> {
    let names = dropped(work, wanted);
    withdraw(work, &names)
}

/// Stops and disables services that did not run or were not enabled before.
pub(crate) fn withdraw(work: &mut Work<'_, '_>, names: &[String]) -> Result<(), AgentError> {
    let asked: Vec<_> = names.iter().map(String::as_str).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let found = work.system.services(&asked)?;
    for name in names {
        let facts = of(&found, name);
        let Some(before) = work.state.services.get(name).copied() else {
            continue;
        };
        if facts.activity != Activity::Stopped && !before.is_running {
            work.touch()?;
            let stopped = work.system.stop(name, &work.defined());
            let stopped = stopped.map_err(|source| failed(work, name, "stopped", source))?;
            tell_ended(work, name, stopped);
            tell(work, name, ServiceChange::Stopped);
        }
        // A definition says it itself, and is put back as a whole.
        let is_defined = work.state.windows.definitions.contains_key(name);
        if facts.is_enabled && !before.is_enabled && !is_defined {
            work.touch()?;
            work.system.disable(&[name])?;
            tell(work, name, ServiceChange::Disabled);
        }
    }
    Ok(())
}

/// Enables and starts services that were enabled or ran before; those whose files came back are restarted.
pub(crate) fn bring_back(work: &mut Work<'_, '_>, names: &[String]) -> Result<(), AgentError> {
    let asked: Vec<_> = names.iter().map(String::as_str).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let found = work.system.services(&asked)?;
    for name in names {
        let facts = of(&found, name);
        let Some(before) = work.state.services.get(name).copied() else {
            continue;
        };
        if before.is_enabled && !facts.is_enabled {
            work.touch()?;
            work.system.enable(&[name])?;
            tell(work, name, ServiceChange::Enabled);
        }
        if !before.is_running {
            continue;
        }
        let definition = work.system.definition(name)?;
        if definition.is_some_and(|definition| definition.start == Start::Disabled) {
            // It ran all the same, until somebody would have stopped it: Windows starts no such service.
            work.report.doing(format!(
                "service {name} is disabled, as it was, and not started"
            ));
            continue;
        }
        let (done, change) = if work.state.pending.restarts.contains(name) {
            work.touch()?;
            let done = work.system.restart(name, &work.defined());
            (done, ServiceChange::Restarted)
        } else if facts.activity == Activity::Stopped {
            work.touch()?;
            let started = work.system.start(name);
            (started.map(|()| Stopped::ByItself), ServiceChange::Started)
        } else {
            continue;
        };
        let stopped = done.map_err(|source| failed(work, name, change.verb(), source))?;
        tell_ended(work, name, stopped);
        tell(work, name, change);
    }
    Ok(())
}

/// Lets services that blueprints no longer name read their own files again, where they run.
pub(crate) fn restart_released(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let released = work.state.released.clone();
    let names: Vec<_> = released.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    for (name, facts) in work.system.services(&names)? {
        if facts.activity == Activity::Stopped {
            continue;
        }
        let done = work.system.restart(&name, &work.defined());
        let stopped = done.map_err(|source| failed(work, &name, "restarted", source))?;
        tell_ended(work, &name, stopped);
        tell(work, &name, ServiceChange::Restarted);
    }
    Ok(())
}

/// Brings every service into its state.
pub(super) fn ensure(work: &mut Work<'_, '_>, wanted: &Wanted<'_>) -> Result<(), AgentError> {
    if work.state.pending.reload {
        work.system.reload()?;
    }
    let dropped = dropped(work, wanted);
    bring_back(work, &dropped)?;
    for name in dropped {
        work.state.pending.restarts.remove(&name);
        let before = work.state.services.remove(&name);
        if before.is_some_and(|before| before.is_running) {
            work.state.released.insert(name);
        }
    }
    let names: Vec<_> = wanted
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let found = work.system.services(&names)?;
    set_boot(work, wanted, &found)?;
    let mut started = Vec::new();
    let outcome: Result<(), AgentError> = wanted.services.iter().try_for_each(|service| {
        let facts = of(&found, &service.name);
        if bring(work, service, facts)? == Brought::Started {
            started.push(service.name.as_str());
        }
        work.state.pending.restarts.remove(&service.name);
        Ok(())
    });
    if outcome.is_err() {
        // What was restarted need not be restarted again. If this cannot be written down either, it will be.
        let _ = work.save();
    }
    outcome?;
    if started.is_empty() {
        return Ok(());
    }
    let found = work.system.services(&started)?;
    for name in started {
        if of(&found, name).activity == Activity::Stopped {
            return Err(AgentError::NotRunning {
                name: name.to_owned(),
                log: work.system.service_log(name, LOG_LINES),
            });
        }
    }
    Ok(())
}

/// Enables and disables.
fn set_boot(
    work: &mut Work<'_, '_>,
    wanted: &Wanted<'_>,
    found: &BTreeMap<String, ServiceFacts>,
) -> Result<(), AgentError> {
    let names = |is_picked: &dyn Fn(&Service, ServiceFacts) -> bool| -> Vec<&str> {
        wanted
            .services
            .iter()
            // A definition says it itself.
            .filter(|service| service.definition.is_none())
            .filter(|service| is_picked(service, of(found, &service.name)))
            .map(|service| service.name.as_str())
            .collect()
    };
    let enable =
        names(&|service, facts| service.state != ServiceState::Stopped && !facts.is_enabled);
    let disable =
        names(&|service, facts| service.state == ServiceState::Stopped && facts.is_enabled);
    if !enable.is_empty() {
        work.touch()?;
        work.system.enable(&enable)?;
    }
    if !disable.is_empty() {
        work.touch()?;
        work.system.disable(&disable)?;
    }
    for (names, change) in [
        (enable, ServiceChange::Enabled),
        (disable, ServiceChange::Disabled),
    ] {
        for name in names {
            tell(work, name, change);
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brought {
    /// It was started or restarted.
    Started,
    /// It was left or stopped.
    Otherwise,
}

/// Starts, restarts or stops one service, where it must be.
fn bring(
    work: &mut Work<'_, '_>,
    service: &Service,
    facts: ServiceFacts,
) -> Result<Brought, AgentError> {
    let name = service.name.as_str();
    let is_changed = work.state.pending.restarts.contains(name);
    let is_up = facts.activity != Activity::Stopped;
    let change = match due(work, service) {
        // One that is being started may have read its files already, or be about to.
        ServiceState::Running | ServiceState::Enabled if is_up && is_changed => {
            ServiceChange::Restarted
        }
        ServiceState::Running if facts.activity != Activity::Running => ServiceChange::Started,
        ServiceState::Stopped if is_up => ServiceChange::Stopped,
        ServiceState::Running | ServiceState::Enabled | ServiceState::Stopped => {
            return Ok(Brought::Otherwise);
        }
    };
    work.touch()?;
    let verb = change.verb();
    work.report.doing(format!("service {name} is being {verb}"));
    let done = match change {
        ServiceChange::Restarted => work.system.restart(name, &work.defined()),
        ServiceChange::Started => work.system.start(name).map(|()| Stopped::ByItself),
        _ => work.system.stop(name, &work.defined()),
    };
    let stopped = done.map_err(|source| failed(work, name, verb, source))?;
    tell_ended(work, name, stopped);
    tell(work, name, change);
    Ok(if change == ServiceChange::Stopped {
        Brought::Otherwise
    } else {
        Brought::Started
    })
}

/// Says what was done with a service.
fn tell(work: &mut Work<'_, '_>, name: &str, change: ServiceChange) {
    work.report
        .applied(Change::Service(name.to_owned(), change));
}

/// The state that a service is due: what is started by kubeadm has to run once that was done.
fn due(work: &Work<'_, '_>, service: &Service) -> ServiceState {
    match service.state {
        ServiceState::Enabled if was_started(&work.state, &service.name) => ServiceState::Running,
        state => state,
    }
}

fn of(found: &BTreeMap<String, ServiceFacts>, name: &str) -> ServiceFacts {
    found.get(name).copied().unwrap_or(ServiceFacts::UNKNOWN)
}

/// Says so where a service did not end by itself.
pub(crate) fn tell_ended(work: &mut Work<'_, '_>, name: &str, stopped: Stopped) {
    if let Stopped::Ended(processes) = stopped {
        work.report.doing(format!(
            "service {name} did not stop in time: ended {}",
            processes.join(", ")
        ));
    }
}

pub(crate) fn failed(
    work: &Work<'_, '_>,
    name: &str,
    verb: &'static str,
    source: SystemError,
) -> AgentError {
    AgentError::Service {
        name: name.to_owned(),
        verb,
        source: Box::new(source),
        log: work.system.service_log(name, LOG_LINES),
    }
}
