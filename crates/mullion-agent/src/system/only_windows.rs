//! What the logic asks of Windows alone.

use mullion_wire::{Definition, DynamicPorts, Feature, OverlayNetwork, Protocol};

use super::registry::Value;
use super::{Removed, SystemError};

/// Whether a change holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It does.
    Now,
    /// From the next start of the machine on.
    AfterRestart,
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
    /// Defines a service, or makes its definition this one. It is neither started nor stopped.
    fn define(&self, _name: &str, _definition: &Definition) -> Result<(), SystemError> {
        refuse("a service control manager")
    }
    /// Removes a service that does not run, and waits until nobody knows it.
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
    /// Makes a network of HNS; there is none of its name.
    fn make_network(&self, _wanted: &OverlayNetwork) -> Result<(), SystemError> {
        refuse("HNS")
    }
    /// Removes a network of HNS with everything in it.
    fn remove_network(&self, _name: &str) -> Result<Removed, SystemError> {
        Ok(Removed::Nothing)
    }
}

fn refuse<T>(what: &'static str) -> Result<T, SystemError> {
    Err(SystemError::OnlyWindows(what))
}
