//! What only Windows has, as an apply would leave it.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Definition, DynamicPorts, Feature, OverlayNetwork, Protocol, Sha256Digest};

use super::super::registry::{Value, place};
use super::super::{
    Account, Holds, LogEntry, NetworkState, OnlyWindows, Removed, RunningProgram, ServiceWork,
    SystemError,
};
use super::{Changed, Rehearsal, refuse};

/// What would change of it.
#[derive(Debug, Default)]
pub(super) struct WindowsChanges {
    /// Values of the registry by their place; none of one that would be removed.
    values: Changed<Option<Value>>,
    /// Keys in the one form that they are kept in, and whether they would be there.
    keys: Changed<bool>,
    /// Features that would be enabled.
    features: BTreeSet<String>,
    next_host_name: Option<String>,
    time_zone: Option<String>,
    ports: BTreeMap<Protocol, DynamicPorts>,
    networks: Changed<Option<OverlayNetwork>>,
    trusted: BTreeMap<Sha256Digest, bool>,
    descriptors: Changed<String>,
}

/// A key in the one form that it is kept in.
fn plain(key: &str) -> String {
    place(key, "").trim_end_matches('\\').to_owned()
}

impl OnlyWindows for Rehearsal<'_> {
    fn descriptor(&self, path: &str) -> Result<Option<String>, SystemError> {
        if let Some(changed) = self.windows.borrow().descriptors.get(path) {
            return Ok(Some(changed.clone()));
        }
        // The rehearsal has not changed it: the machine's own descriptor is the answer.
        self.base.descriptor(path)
    }

    fn set_descriptor(&self, folder: &str, descriptor: &str) -> Result<(), SystemError> {
        let mut windows = self.windows.borrow_mut();
        let changed = descriptor.to_owned();
        windows.descriptors.insert(folder.to_owned(), changed);
        Ok(())
    }

    fn value(&self, key: &str, name: &str) -> Result<Option<Value>, SystemError> {
        match self.windows.borrow().values.get(&place(key, name)) {
            Some(changed) => Ok(changed.clone()),
            None => self.base.value(key, name),
        }
    }

    fn set_value(&self, key: &str, name: &str, value: &Value) -> Result<(), SystemError> {
        let mut windows = self.windows.borrow_mut();
        let key = plain(key);
        windows
            .values
            .insert(place(&key, name), Some(value.clone()));
        // Every key above it is made too, up to the hive.
        let ends = key.match_indices('\\').map(|(end, _)| end).skip(1);
        for end in ends.chain([key.len()]) {
            windows.keys.insert(key[..end].to_owned(), true);
        }
        Ok(())
    }

    fn remove_value(&self, key: &str, name: &str) -> Result<Removed, SystemError> {
        if self.value(key, name)?.is_none() {
            return Ok(Removed::Nothing);
        }
        let mut windows = self.windows.borrow_mut();
        windows.values.insert(place(key, name), None);
        Ok(Removed::Gone)
    }

    fn has_key(&self, key: &str) -> Result<bool, SystemError> {
        match self.windows.borrow().keys.get(&plain(key)) {
            Some(is_there) => Ok(*is_there),
            None => self.base.has_key(key),
        }
    }

    fn remove_empty_key(&self, key: &str) -> Result<Removed, SystemError> {
        // What else is in a key cannot be told without asking for all of it, and no change is reported for a key.
        if !self.has_key(key)? {
            return Ok(Removed::Nothing);
        }
        let mut windows = self.windows.borrow_mut();
        windows.keys.insert(plain(key), false);
        Ok(Removed::Gone)
    }

    fn definition(&self, name: &str) -> Result<Option<Definition>, SystemError> {
        self.definition_of(name)
    }

    fn define(
        &self,
        name: &str,
        definition: &Definition,
        account: &Account,
    ) -> Result<(), SystemError> {
        self.define_as(name, definition, account)
    }

    fn failures(&self, name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
        self.failures_of(name)
    }

    fn set_failures(
        &self,
        name: &str,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), SystemError> {
        self.set_failures_of(name, values);
        Ok(())
    }

    fn account(&self, name: &str) -> Result<Account, SystemError> {
        self.account_of(name)
    }

    fn service_started(&self, name: &str) -> Result<Option<u64>, SystemError> {
        self.base.service_started(name)
    }

    fn undefine(&self, name: &str) -> Result<Removed, SystemError> {
        self.remove_definition(name)
    }

    fn feature(&self, name: &str) -> Result<Feature, SystemError> {
        let found = if self.windows.borrow().features.contains(name) {
            // Windows decides whether it holds at once; those that blueprints name need a restart.
            Feature::Pending
        } else {
            self.base.feature(name)?
        };
        Ok(match found {
            Feature::Pending if self.was_restarted() => Feature::Enabled,
            found => found,
        })
    }

    fn enable_feature(&self, name: &str) -> Result<Holds, SystemError> {
        let mut windows = self.windows.borrow_mut();
        windows.features.insert(name.to_owned());
        Ok(Holds::AfterRestart)
    }

    fn next_host_name(&self) -> Result<String, SystemError> {
        match &self.windows.borrow().next_host_name {
            Some(changed) => Ok(changed.clone()),
            None => self.base.next_host_name(),
        }
    }

    fn set_host_name(&self, name: &str) -> Result<(), SystemError> {
        self.windows.borrow_mut().next_host_name = Some(name.to_owned());
        Ok(())
    }

    fn time_zone(&self) -> Result<String, SystemError> {
        match &self.windows.borrow().time_zone {
            Some(changed) => Ok(changed.clone()),
            None => self.base.time_zone(),
        }
    }

    fn set_time_zone(&self, name: &str) -> Result<(), SystemError> {
        self.windows.borrow_mut().time_zone = Some(name.to_owned());
        Ok(())
    }

    fn dynamic_ports(&self, protocol: Protocol) -> Result<DynamicPorts, SystemError> {
        match self.windows.borrow().ports.get(&protocol) {
            Some(changed) => Ok(*changed),
            None => self.base.dynamic_ports(protocol),
        }
    }

    fn set_dynamic_ports(&self, wanted: DynamicPorts) -> Result<(), SystemError> {
        let mut windows = self.windows.borrow_mut();
        windows.ports.insert(wanted.protocol, wanted);
        Ok(())
    }

    fn network(&self, wanted: &OverlayNetwork) -> Result<NetworkState, SystemError> {
        match self.windows.borrow().networks.get(&wanted.name) {
            // HNS comes with features that may hold only since that restart: the machine has none to be asked.
            None if self.was_restarted() => {
                Ok(self.base.network(wanted).unwrap_or(NetworkState::Absent))
            }
            None => self.base.network(wanted),
            Some(None) => Ok(NetworkState::Absent),
            Some(Some(changed)) if changed == wanted => Ok(NetworkState::Set),
            Some(Some(_)) => Ok(NetworkState::Different),
        }
    }

    fn has_network(&self, name: &str) -> Result<bool, SystemError> {
        match self.windows.borrow().networks.get(name) {
            Some(changed) => Ok(changed.is_some()),
            None => self.base.has_network(name),
        }
    }

    fn make_network(&self, wanted: &OverlayNetwork) -> Result<(), SystemError> {
        let mut windows = self.windows.borrow_mut();
        let changed = Some(wanted.clone());
        windows.networks.insert(wanted.name.clone(), changed);
        Ok(())
    }

    fn remove_network(&self, name: &str) -> Result<Removed, SystemError> {
        // Without HNS there are no networks.
        if !self.has_network(name).unwrap_or(false) {
            return Ok(Removed::Nothing);
        }
        let mut windows = self.windows.borrow_mut();
        windows.networks.insert(name.to_owned(), None);
        Ok(Removed::Gone)
    }

    fn trusts(&self, certificate: &Sha256Digest) -> Result<bool, SystemError> {
        match self.windows.borrow().trusted.get(certificate) {
            Some(is_trusted) => Ok(*is_trusted),
            None => self.base.trusts(certificate),
        }
    }

    fn trust(&self, certificate: &[u8]) -> Result<(), SystemError> {
        let mut windows = self.windows.borrow_mut();
        windows.trusted.insert(Sha256Digest::of(certificate), true);
        Ok(())
    }

    fn distrust(&self, certificate: &Sha256Digest) -> Result<Removed, SystemError> {
        if !self.trusts(certificate)? {
            return Ok(Removed::Nothing);
        }
        let mut windows = self.windows.borrow_mut();
        windows.trusted.insert(certificate.clone(), false);
        Ok(Removed::Gone)
    }

    fn schedule_start(&self, _program: &str, _arguments: &str) -> Result<(), SystemError> {
        Ok(())
    }

    fn unschedule_start(&self) -> Result<Removed, SystemError> {
        Ok(Removed::Gone)
    }

    fn log_event(&self, _entry: LogEntry, _words: &str) -> Result<(), SystemError> {
        Ok(())
    }

    fn start_program(
        &self,
        path: &str,
        _args: &[String],
    ) -> Result<Box<dyn RunningProgram>, SystemError> {
        refuse(&format!("start `{path}`"))
    }

    fn be_service(&self, name: &str, _work: ServiceWork) -> Result<(), SystemError> {
        refuse(&format!("become the service `{name}`"))
    }
}
