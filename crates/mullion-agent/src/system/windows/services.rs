//! Services and their definitions. What the service control manager keeps of dependencies, recovery, delay and
//! environment is read where it keeps it, in the registry: what stands in for it tells or takes these nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion_wire::{Definition, Patience, Recovery, RegistryData, Start};
use windows::Win32::System::Services::{
    SERVICE_CONTINUE_PENDING, SERVICE_RUNNING, SERVICE_START_PENDING, SERVICE_STOP_PENDING,
};

use super::super::registry::Value;
use super::super::{
    Account, Activity, Files as _, Removed, ServiceFacts, Services, Stopped, SystemError,
};
use super::own::Windows;
use super::service_control::Control;
use super::stopping::{self, Stoppable};
use super::{choice, hive, processes, recovery};

/// `REG_BINARY`.
const BINARY: u32 = 3;
pub(super) const FAILURE_ACTIONS: &str = "FailureActions";
const DELAYED: &str = "DelayedAutostart";
const DEPENDS_ON: &str = "DependOnService";
const ENVIRONMENT: &str = "Environment";

/// Where Windows keeps a service.
pub(super) fn key(name: &str) -> String {
    format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{name}")
}

impl Services for Windows {
    fn services(&self, names: &[&str]) -> Result<BTreeMap<String, ServiceFacts>, SystemError> {
        let mut found = BTreeMap::new();
        for name in names {
            found.insert((*name).to_owned(), facts(name)?);
        }
        Ok(found)
    }

    fn defines_service(&self, _path: &str) -> bool {
        false
    }

    fn reload(&self) -> Result<(), SystemError> {
        Ok(())
    }

    fn enable(&self, names: &[&str]) -> Result<(), SystemError> {
        let mut names = names.iter();
        names.try_for_each(|name| Control::take(name)?.set_start(Start::Automatic))
    }

    fn disable(&self, names: &[&str]) -> Result<(), SystemError> {
        let mut names = names.iter();
        names.try_for_each(|name| Control::take(name)?.set_start(Start::OnDemand))
    }

    fn start(&self, name: &str) -> Result<(), SystemError> {
        Control::take(name)?.start(self.patience.get())
    }

    fn stop(&self, name: &str, ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        self.stop_with_dependents(name, ours)
            .map(|(stopped, _)| stopped)
    }

    fn restart(&self, name: &str, ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        // What needs it was stopped with it, the last first.
        let (stopped, dependents) = self.stop_with_dependents(name, ours)?;
        Control::take(name)?.start(self.patience.get())?;
        for dependent in dependents.iter().rev() {
            Control::take(dependent)?.start(self.patience.get())?;
        }
        Ok(stopped)
    }

    fn service_log(&self, name: &str, lines: usize) -> Vec<String> {
        let read = || -> Result<Vec<String>, SystemError> {
            let Some(control) = Control::find(name)? else {
                return Ok(Vec::new());
            };
            let Some(path) = choice::log_file(&control.config()?.command) else {
                return Ok(Vec::new());
            };
            let bytes = self.read(&path)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let mut last: Vec<_> = text.lines().rev().take(lines).map(str::to_owned).collect();
            last.reverse();
            Ok(last)
        };
        read().unwrap_or_default()
    }
}

fn facts(name: &str) -> Result<ServiceFacts, SystemError> {
    let Some(control) = Control::find(name)? else {
        return Ok(ServiceFacts::UNKNOWN);
    };
    let status = control.status()?;
    let activity = match status.dwCurrentState {
        // Windows hears of a process's end. What stands in for it hears only of what a service says: one that crashed
        // seems to run.
        SERVICE_RUNNING | SERVICE_CONTINUE_PENDING if processes::runs(status.dwProcessId) => {
            Activity::Running
        }
        // It has not ended, or not said so: whoever stops it sees to its end.
        SERVICE_STOP_PENDING => Activity::Running,
        SERVICE_START_PENDING => Activity::Starting,
        _ => Activity::Stopped,
    };
    Ok(ServiceFacts {
        is_enabled: control.config()?.start.is_automatic(),
        activity,
    })
}

/// When the process of a service was started.
pub(super) fn started(name: &str) -> Result<Option<u64>, SystemError> {
    let Some(control) = Control::find(name)? else {
        return Ok(None);
    };
    processes::started(control.status()?.dwProcessId)
}

/// A service, and how long it may take to stop.
struct Stopping {
    name: String,
    control: Control,
    within: Duration,
    patience: Patience,
}

impl Stoppable for Stopping {
    fn name(&self) -> &str {
        &self.name
    }

    fn recovery(&self) -> Result<Option<Recovery>, SystemError> {
        recovery_of(&self.name)
    }

    fn set_recovery(&self, recovery: &Recovery) -> Result<(), SystemError> {
        self.control.set_actions(recovery).map(|_| ())
    }

    fn stop(&self) -> Result<Vec<String>, SystemError> {
        self.control.stop(self.within, self.patience)
    }
}

impl Windows {
    /// Stops a service and what needs it; gives back the latter too.
    fn stop_with_dependents(
        &self,
        name: &str,
        ours: &BTreeSet<String>,
    ) -> Result<(Stopped, Vec<String>), SystemError> {
        let stopping = |name: &str| {
            Ok(Stopping {
                name: name.to_owned(),
                control: Control::take(name)?,
                within: self.stopping,
                patience: self.patience.get(),
            })
        };
        let service = stopping(name)?;
        let dependents = service.control.dependents()?;
        let mut ended = Vec::new();
        for dependent in &dependents {
            ended.extend(stopping::stop(&stopping(dependent)?, ours)?);
        }
        ended.extend(stopping::stop(&service, ours)?);
        let stopped = if ended.is_empty() {
            Stopped::ByItself
        } else {
            Stopped::Ended(ended)
        };
        Ok((stopped, dependents))
    }
}

/// What starts a service again when it fails; none where nothing does, or something that could not be put back as it is.
fn recovery_of(name: &str) -> Result<Option<Recovery>, SystemError> {
    let actions = hive::value(&key(name), FAILURE_ACTIONS)?.map(|value| value.bytes);
    let found = actions.map(|bytes| (recovery::read(&bytes), bytes));
    Ok(found
        .filter(|(recovery, bytes)| recovery::write(recovery) == *bytes)
        .map(|(recovery, _)| recovery)
        .filter(|recovery| !recovery.restart_after_ms.is_empty()))
}

/// How a service is defined.
pub(super) fn definition(name: &str) -> Result<Option<Definition>, SystemError> {
    let Some(control) = Control::find(name)? else {
        return Ok(None);
    };
    let config = control.config()?;
    let key = key(name);
    let actions = hive::value(&key, FAILURE_ACTIONS)?.map(|value| value.bytes);
    let is_delayed = hive::number(&key, DELAYED).unwrap_or(0) != 0;
    Ok(Some(Definition {
        display_name: config.display_name,
        command: config.command,
        depends_on: lines(&key, DEPENDS_ON)?.into_iter().collect(),
        start: match config.start {
            Start::Automatic if is_delayed => Start::Delayed,
            start => start,
        },
        recovery: recovery::read(&actions.unwrap_or_default()),
        environment: lines(&key, ENVIRONMENT)?
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }))
}

/// The account that a service runs as.
pub(super) fn account(name: &str) -> Result<Account, SystemError> {
    match Control::find(name)? {
        Some(control) => Ok(control.config()?.account),
        None => Ok(Account::system()),
    }
}

/// Defines a service, or makes its definition and its account these.
pub(super) fn define(
    name: &str,
    definition: &Definition,
    account: &Account,
) -> Result<(), SystemError> {
    let control = if Control::find(name)?.is_some() {
        Control::take(name)?
    } else {
        Control::create(name, definition)?
    };
    control.change(definition, account)?;
    let key = key(name);
    if !control.set_recovery(&definition.recovery)?
        || hive::value(&key, FAILURE_ACTIONS)?
            .is_none_or(|value| recovery::read(&value.bytes) != definition.recovery)
    {
        let value = Value {
            kind: BINARY,
            bytes: recovery::write(&definition.recovery),
        };
        hive::set_value(&key, FAILURE_ACTIONS, &value)?;
    }
    let is_delayed = definition.start == Start::Delayed;
    control.set_delayed(is_delayed)?;
    if (hive::number(&key, DELAYED).unwrap_or(0) != 0) != is_delayed {
        hive::set_value(&key, DELAYED, &Value::dword(u32::from(is_delayed)))?;
    }
    set_lines(
        &key,
        DEPENDS_ON,
        definition.depends_on.iter().cloned().collect(),
    )?;
    let variables = definition.environment.iter();
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    set_lines(&key, ENVIRONMENT, variables.collect())
}

fn lines(key: &str, name: &str) -> Result<Vec<String>, SystemError> {
    let value = hive::value(key, name)?;
    Ok(value.map(|value| value.texts()).unwrap_or_default())
}

/// Gives a value these lines, where it does not have them; without lines there is no value.
fn set_lines(key: &str, name: &str, wanted: Vec<String>) -> Result<(), SystemError> {
    if lines(key, name)? == wanted {
        return Ok(());
    }
    if wanted.is_empty() {
        return hive::remove_value(key, name).map(|_| ());
    }
    hive::set_value(key, name, &Value::from(&RegistryData::MultiString(wanted)))
}

/// Removes a service.
pub(super) fn undefine(name: &str) -> Result<Removed, SystemError> {
    if Control::find(name)?.is_none() {
        return Ok(Removed::Nothing);
    }
    Control::take(name)?.remove()
}
