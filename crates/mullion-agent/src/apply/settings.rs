//! Kernel modules, kernel settings and the firewall, now. What makes them hold after a start are companions.

use mullion_wire::Blueprint;

use crate::change::Change;
use crate::failure::AgentError;
use crate::system::{FirewallState, Module, Removed, SystemError};
use crate::work::Work;

/// Loads the modules that the kernel does not have yet.
pub(super) fn load_modules(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
) -> Result<(), AgentError> {
    let mut hidden = Vec::new();
    for name in &blueprint.modules {
        match work.system.module(name)? {
            Module::Usable => {}
            Module::Hidden => hidden.push(name.as_str()),
            Module::Unloaded => {
                work.touch()?;
                work.system
                    .load_module(name)
                    .map_err(|source| AgentError::Module {
                        name: name.clone(),
                        source: Box::new(source),
                    })?;
                work.report.applied(Change::KernelModule(name.clone()));
            }
        }
    }
    if !hidden.is_empty() {
        // Modules without a trace may well be built in; what does not work shows when it is used.
        work.report.doing(format!(
            "this machine loads no kernel modules itself; the kernel it runs on must have: {}",
            hidden.join(", ")
        ));
    }
    Ok(())
}

/// Sets the settings that differ, and gives back those that the blueprint no longer has.
pub(super) fn set(work: &mut Work<'_, '_>, blueprint: &Blueprint) -> Result<(), AgentError> {
    let failed = |name: &str, value: &str| {
        let (name, value) = (name.to_owned(), value.to_owned());
        move |source| AgentError::Setting {
            name,
            value,
            source: Box::new(source),
        }
    };
    let mut changes = Vec::new();
    for (name, value) in &blueprint.sysctls {
        let Some(found) = work.system.setting(name)? else {
            return Err(failed(name, value)(SystemError::NoSetting(name.clone())));
        };
        if found != plain(value) {
            changes.push((name, value));
            work.state.settings.entry(name.clone()).or_insert(found);
        }
    }
    if !changes.is_empty() {
        work.touch()?;
    }
    for (name, value) in changes {
        work.system.set(name, value).map_err(failed(name, value))?;
        let change = Change::KernelSetting(name.clone(), value.clone());
        work.report.applied(change);
    }
    let dropped: Vec<_> = work
        .state
        .settings
        .keys()
        .filter(|name| !blueprint.sysctls.contains_key(*name))
        .cloned()
        .collect();
    for name in dropped {
        work.touch()?;
        give_back(work, &name)?;
        work.state.settings.remove(&name);
    }
    Ok(())
}

/// Gives a setting the value that it had before, where it still exists.
pub(crate) fn give_back(work: &mut Work<'_, '_>, name: &str) -> Result<(), AgentError> {
    let Some(value) = work.state.settings.get(name).cloned() else {
        return Ok(());
    };
    match work.system.setting(name)? {
        Some(found) if found != plain(&value) => {}
        _ => return Ok(()),
    }
    work.system
        .set(name, &value)
        .map_err(|source| AgentError::Setting {
            name: name.to_owned(),
            value: value.clone(),
            source: Box::new(source),
        })?;
    work.report
        .applied(Change::KernelSetting(name.to_owned(), value));
    Ok(())
}

/// A value with its blanks as the kernel gives it back.
pub(crate) fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Makes our firewall group as wanted, or removes it.
pub(super) fn set_firewall(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
) -> Result<(), AgentError> {
    let wanted = blueprint.firewall.as_ref();
    if let Some(group) = work.state.firewall.clone()
        && wanted.is_none_or(|wanted| wanted.group != group)
    {
        work.touch()?;
        remove_firewall(work, &group)?;
        work.state.firewall = None;
    }
    let Some(wanted) = wanted else {
        return Ok(());
    };
    match work.system.firewall(wanted)? {
        FirewallState::Set => {}
        FirewallState::Different => {
            work.state.firewall = Some(wanted.group.clone());
            work.touch()?;
            work.system.set_firewall(wanted)?;
            work.report.applied(Change::Firewall(wanted.group.clone()));
        }
        FirewallState::Stopped => work
            .report
            .doing("the firewall's service does not run: once it does, an apply opens the ports"),
        FirewallState::NoMeans => work.report.doing(
            "this machine has no program to open ports with: what closes them has to open them",
        ),
    }
    Ok(())
}

/// Removes a firewall group of ours.
pub(crate) fn remove_firewall(work: &mut Work<'_, '_>, group: &str) -> Result<(), AgentError> {
    match work.system.remove_firewall(group)? {
        Removed::Gone => work.report.applied(Change::Firewall(group.to_owned())),
        Removed::Stays(why) => work
            .report
            .doing(format!("firewall group {group} stays: {why}")),
        Removed::Nothing => {}
    }
    Ok(())
}
