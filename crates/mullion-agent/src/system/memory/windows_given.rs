//! What is given to a Windows in memory and done to it by others than the agent: none of it is an operation.

use std::collections::BTreeMap;
use std::rc::Rc;

use mullion_wire::{Definition, Feature, Sha256Digest};

use super::super::registry::Value;
use super::super::{Activity, LogEntry};
use super::windows::plain;
use super::{Memory, MemoryProgram, MemoryWindows};

impl Memory {
    /// Gives the registry a value; not an operation.
    pub fn put_value(&self, key: &str, name: &str, value: Value) {
        let mut inner = self.inner.borrow_mut();
        insert(&mut inner.windows.registry, key, name, value);
    }

    /// Lets Windows know a feature.
    pub fn put_feature(&self, name: &str, state: Feature) {
        let mut inner = self.inner.borrow_mut();
        inner.windows.features.insert(name.to_owned(), state);
    }

    /// Lets a service run in a process that was started then, or in none.
    pub fn put_started(&self, service: &str, at: Option<u64>) {
        let started = &mut self.inner.borrow_mut().windows.started;
        match at {
            Some(at) => started.insert(service.to_owned(), at),
            None => started.remove(service),
        };
    }

    /// Lets a service be known with a definition.
    pub fn put_defined(&self, name: &str, definition: Definition, activity: Activity) {
        self.put_service(name, definition.start.is_automatic(), activity);
        let mut inner = self.inner.borrow_mut();
        if let Some(service) = inner.services.get_mut(name) {
            service.ran_as = (activity == Activity::Running).then(|| definition.clone());
            service.definition = Some(definition);
        }
    }

    /// Gives Windows something that it keeps of a service's failures.
    pub fn put_failure(&self, service: &str, name: &str, value: Value) {
        let mut inner = self.inner.borrow_mut();
        if let Some(service) = inner.services.get_mut(service) {
            service.failures.insert(name.to_owned(), value);
        }
    }

    /// Lets somebody hold a service, or let it go.
    pub fn hold_service(&self, name: &str, is_held: bool) {
        let mut inner = self.inner.borrow_mut();
        if let Some(service) = inner.services.get_mut(name) {
            service.is_held = is_held;
        }
    }

    /// Programs beside the agent that run.
    pub fn running_programs(&self) -> Vec<Rc<MemoryProgram>> {
        let mut beside = self.inner.borrow().beside.clone();
        beside.retain(|program| program.ended.get().is_none());
        beside
    }

    /// Lets the machine trust an authority of its own.
    pub fn put_trusted(&self, certificate: &[u8]) {
        let digest = Sha256Digest::of(certificate);
        self.inner.borrow_mut().windows.trusted.insert(digest);
    }

    /// Lets the event log take nothing.
    pub fn break_event_log(&self) {
        self.inner.borrow_mut().is_log_broken = true;
    }

    /// What stands in the event log.
    pub fn events(&self) -> Vec<(LogEntry, String)> {
        self.inner.borrow().events.clone()
    }

    /// Everything that only Windows has.
    pub fn windows_parts(&self) -> MemoryWindows {
        self.inner.borrow().windows.clone()
    }

    /// Lets Windows want a start for something of its own.
    pub fn want_restart(&self, why: &str) {
        self.inner.borrow_mut().windows.awaited = Some(why.to_owned());
    }

    /// Starts the machine anew: what waited for it holds from now on.
    pub fn restart_machine(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.windows.starts += 1;
        inner.windows.awaited = None;
        let next = inner.windows.next_host_name.clone();
        inner.host_name = next;
        for state in inner.windows.features.values_mut() {
            if *state == Feature::Pending {
                *state = Feature::Enabled;
            }
        }
    }

    /// Why Windows itself wants a start.
    pub(super) fn windows_wants_restart(&self) -> Option<String> {
        let inner = self.inner.borrow();
        let is_pending = |state: &Feature| *state == Feature::Pending;
        if inner.windows.features.values().any(is_pending) {
            return Some("features are being installed".to_owned());
        }
        let is_renamed = inner.windows.next_host_name != inner.host_name;
        let name = is_renamed.then(|| "the host name changes".to_owned());
        inner.windows.awaited.clone().or(name)
    }
}

/// Puts a value in its place, every key above it included.
fn insert(
    registry: &mut BTreeMap<String, BTreeMap<String, Value>>,
    key: &str,
    name: &str,
    value: Value,
) {
    let key = plain(key);
    for (end, _) in key.match_indices('\\') {
        registry.entry(key[..end].to_owned()).or_default();
    }
    let values = registry.entry(key).or_default();
    values.insert(name.to_lowercase(), value);
}
