//! What the logic asks of Windows alone.

use std::collections::BTreeMap;

use mullion_wire::{Definition, DynamicPorts, Feature, OverlayNetwork, Protocol, Sha256Digest};

use super::registry::Value;
use super::{Account, Ended, Removed, SystemError};

/// Whether a change holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It does.
    Now,
    /// From the next start of the machine on.
    AfterRestart,
}

/// The source under which the agent's entries stand in the event log `Application`.
pub const EVENT_SOURCE: &str = "Mullion";

/// An entry of the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntry {
    /// A blueprint was applied.
    Applied,
    /// What was asked for failed.
    Failed,
    /// Everything was put back.
    PutBack,
}

impl LogEntry {
    /// Its number, by which people look for it: it stays.
    pub fn number(self) -> u32 {
        match self {
            Self::Applied => 1,
            Self::Failed => 2,
            Self::PutBack => 3,
        }
    }
}

/// How a network of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkState {
    /// As wanted.
    Set,
    /// There is one of the same name that is not as wanted.
    Different,
    /// There is none.
    Absent,
}

/// What only Windows has. A system that has none of it takes these methods as they stand here: reading finds nothing,
/// and changing is refused.
///
/// Keys of the registry are written as in the blueprint, with `HKLM\` in front.
pub trait OnlyWindows {
    /// Who may open what is at a path and whose it is, as Windows writes it down; nothing where nothing is.
    fn descriptor(&self, _path: &str) -> Result<Option<String>, SystemError> {
        Ok(None)
    }
    /// Gives a folder back who may open it and whose it was, and tells what is in it.
    fn set_descriptor(&self, _folder: &str, _descriptor: &str) -> Result<(), SystemError> {
        refuse("lists of who may open a folder")
    }
    /// A value of the registry.
    fn value(&self, _key: &str, _name: &str) -> Result<Option<Value>, SystemError> {
        Ok(None)
    }
    /// Gives a value of the registry, its key being made where there is none.
    fn set_value(&self, _key: &str, _name: &str, _value: &Value) -> Result<(), SystemError> {
        refuse("a registry")
    }
    /// Removes a value of the registry.
    fn remove_value(&self, _key: &str, _name: &str) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// Whether there is such a key.
    fn has_key(&self, _key: &str) -> Result<bool, SystemError> {
        Ok(false)
    }
    /// Removes a key that has neither values nor keys below it.
    fn remove_empty_key(&self, _key: &str) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// How a service is defined; `None` where nobody knows it.
    fn definition(&self, _name: &str) -> Result<Option<Definition>, SystemError> {
        Ok(None)
    }
    /// Defines a service, or makes its definition and its account these. It is neither started nor stopped.
    fn define(
        &self,
        _name: &str,
        _definition: &Definition,
        _account: &Account,
    ) -> Result<(), SystemError> {
        refuse("a service control manager")
    }
    /// What Windows keeps of a service's failures, by name and as it stands in the registry: actions of every kind, a
    /// command, a message, and what counts as a failure. A definition says less.
    fn failures(&self, _name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
        Ok(BTreeMap::new())
    }
    /// Gives it back what was kept of a service's failures.
    fn set_failures(
        &self,
        _name: &str,
        _values: &BTreeMap<String, Value>,
    ) -> Result<(), SystemError> {
        refuse("a service control manager")
    }
    /// The account that a service runs as; the system's own where nobody knows the service.
    fn account(&self, _name: &str) -> Result<Account, SystemError> {
        Ok(Account::system())
    }
    /// When the process of a service was started, in units of the system's own; none where it does not run.
    fn service_started(&self, _name: &str) -> Result<Option<u64>, SystemError> {
        Ok(None)
    }
    /// Removes a service that does not run, and waits until nobody knows it. One that others hold is removed when they
    /// let it go: it stays until then.
    fn undefine(&self, _name: &str) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// How an optional feature is.
    fn feature(&self, _name: &str) -> Result<Feature, SystemError> {
        Ok(Feature::Unknown)
    }
    /// Enables an optional feature and those that it needs. The machine is never restarted for it.
    fn enable_feature(&self, _name: &str) -> Result<Holds, SystemError> {
        refuse("optional features")
    }
    /// The host name that holds from the next start on.
    fn next_host_name(&self) -> Result<String, SystemError> {
        refuse("a host name to come")
    }
    /// Sets the host name that holds from the next start on.
    fn set_host_name(&self, _name: &str) -> Result<(), SystemError> {
        refuse("a host name to come")
    }
    /// The time zone, by Windows' name.
    fn time_zone(&self) -> Result<String, SystemError> {
        refuse("time zones by name")
    }
    /// Sets the time zone.
    fn set_time_zone(&self, _name: &str) -> Result<(), SystemError> {
        refuse("time zones by name")
    }
    /// The ports that connections to elsewhere come from.
    fn dynamic_ports(&self, _protocol: Protocol) -> Result<DynamicPorts, SystemError> {
        refuse("a range of dynamic ports")
    }
    /// Sets the ports that connections to elsewhere come from.
    fn set_dynamic_ports(&self, _wanted: DynamicPorts) -> Result<(), SystemError> {
        refuse("a range of dynamic ports")
    }
    /// Whether a network of HNS is as wanted.
    fn network(&self, _wanted: &OverlayNetwork) -> Result<NetworkState, SystemError> {
        Ok(NetworkState::Absent)
    }
    /// Whether there is a network of HNS of that name.
    fn has_network(&self, _name: &str) -> Result<bool, SystemError> {
        Ok(false)
    }
    /// Makes a network of HNS; there is none of its name.
    fn make_network(&self, _wanted: &OverlayNetwork) -> Result<(), SystemError> {
        refuse("HNS")
    }
    /// Removes a network of HNS with everything in it.
    fn remove_network(&self, _name: &str) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// Whether a certificate is among the root authorities that the machine trusts.
    fn trusts(&self, _certificate: &Sha256Digest) -> Result<bool, SystemError> {
        Ok(false)
    }
    /// Puts a certificate, in DER, among the root authorities that the machine trusts.
    fn trust(&self, _certificate: &[u8]) -> Result<(), SystemError> {
        refuse("a store of root authorities")
    }
    /// Takes a certificate out of the root authorities that the machine trusts.
    fn distrust(&self, _certificate: &Sha256Digest) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// Has a program run with these arguments at every start of the machine, as the system itself, in place of what was
    /// scheduled before.
    fn schedule_start(&self, _program: &str, _arguments: &str) -> Result<(), SystemError> {
        refuse("a task scheduler")
    }
    /// Schedules nothing any more.
    fn unschedule_start(&self) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
    /// Writes an entry into the event log. A system that has none takes it as written: it has a log of its own.
    fn log_event(&self, _entry: LogEntry, _words: &str) -> Result<(), SystemError> {
        Ok(())
    }
    /// Starts a program that runs beside the agent, writes where the agent does, and ends with it at the latest.
    fn start_program(
        &self,
        _path: &str,
        _args: &[String],
    ) -> Result<Box<dyn RunningProgram>, SystemError> {
        refuse("programs that a service attends to")
    }
    /// Is a service of that name until the work ends, for which it is told when to stop. Where nobody started the agent
    /// as a service, the work is done all the same.
    fn be_service(&self, _name: &str, _work: ServiceWork) -> Result<(), SystemError> {
        refuse("services of its own")
    }
}

/// What a service does, given a way to ask whether it was told to stop.
pub type ServiceWork = Box<dyn Fn(&dyn Fn() -> bool) -> ServiceEnd + Send + Sync>;

/// Why a service ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEnd {
    /// It was told to.
    Told,
    /// It cannot go on: whoever started it starts it anew.
    Failed,
}

/// A program that runs beside the agent.
pub trait RunningProgram {
    /// How it ended; nothing while it runs.
    fn ended(&mut self) -> Result<Option<Ended>, SystemError>;
    /// Ends it, with everything that it started; one that has ended already is left.
    fn end(&mut self);
}

fn refuse<T>(what: &'static str) -> Result<T, SystemError> {
    Err(SystemError::OnlyWindows(what))
}
