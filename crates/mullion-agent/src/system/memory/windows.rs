//! What only Windows has, in memory.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mullion_wire::{Definition, DynamicPorts, Feature, OverlayNetwork, Protocol, Sha256Digest};

use super::super::registry::{Value, place};
use super::super::{
    Account, Activity, Ended, Family, Files as _, Holds, LogEntry, NetworkState, OnlyWindows,
    Removed, RunningProgram, SystemError,
};
use super::{Memory, MemoryService};

/// The parts of a Windows that the agent changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWindows {
    /// Keys of the registry in lower case, each with its values by their names in lower case.
    pub registry: BTreeMap<String, BTreeMap<String, Value>>,
    /// Optional features that this Windows knows.
    pub features: BTreeMap<String, Feature>,
    /// The host name that holds from the next start on.
    pub next_host_name: String,
    /// The time zone.
    pub time_zone: String,
    /// Dynamic ports: the first and how many.
    pub ports: BTreeMap<Protocol, (u16, u16)>,
    /// When the processes of services were started.
    pub started: BTreeMap<String, u64>,
    /// Networks of HNS, by name.
    pub networks: BTreeMap<String, OverlayNetwork>,
    /// Root authorities that the machine trusts.
    pub trusted: BTreeSet<Sha256Digest>,
    /// What is run at every start of the machine.
    pub at_start: Option<String>,
    /// What Windows itself wants a start for.
    pub awaited: Option<String>,
    /// How often the machine was started.
    pub starts: u32,
}

impl MemoryWindows {
    pub(super) fn new(host_name: &str) -> Self {
        Self {
            registry: BTreeMap::new(),
            features: BTreeMap::new(),
            next_host_name: host_name.to_owned(),
            time_zone: "Pacific Standard Time".to_owned(),
            ports: [
                (Protocol::Tcp, (49_152, 16_384)),
                (Protocol::Udp, (49_152, 16_384)),
            ]
            .into(),
            started: BTreeMap::new(),
            networks: BTreeMap::new(),
            trusted: BTreeSet::new(),
            at_start: None,
            awaited: None,
            starts: 1,
        }
    }
}

/// A program that was started beside the agent.
#[derive(Debug)]
pub struct MemoryProgram {
    /// Its path and its arguments.
    pub line: String,
    pub(super) ended: Cell<Option<Ended>>,
}

impl MemoryProgram {
    /// Lets it end by itself.
    pub fn break_off(&self, ended: Ended) {
        self.ended.set(Some(ended));
    }
}

/// The agent's hold of it.
struct Hold(Rc<MemoryProgram>);

impl RunningProgram for Hold {
    fn ended(&mut self) -> Result<Option<Ended>, SystemError> {
        Ok(self.0.ended.get())
    }

    fn end(&mut self) {
        self.0.break_off(Ended::Status(1));
    }
}

/// A key in the one form that it is kept in.
pub(super) fn plain(key: &str) -> String {
    place(key, "").trim_end_matches('\\').to_owned()
}

impl OnlyWindows for Memory {
    /// A mode is all that this Windows writes down of it.
    fn descriptor(&self, path: &str) -> Result<Option<String>, SystemError> {
        let found = self.look(path)?;
        Ok(found.map(|look| format!("{:o}", look.mode)))
    }

    fn set_descriptor(&self, folder: &str, descriptor: &str) -> Result<(), SystemError> {
        self.only_on_windows("lists of who may open a folder")?;
        let nonsense = |_| SystemError::Nonsense(descriptor.to_owned());
        self.set_mode(
            folder,
            u32::from_str_radix(descriptor, 8).map_err(nonsense)?,
        )
    }

    fn value(&self, key: &str, name: &str) -> Result<Option<Value>, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let values = inner.windows.registry.get(&plain(key));
        Ok(values.and_then(|values| values.get(&name.to_lowercase()).cloned()))
    }

    fn set_value(&self, key: &str, name: &str, value: &Value) -> Result<(), SystemError> {
        self.only_on_windows("a registry")?;
        self.operate(format!("set value {key} {name}"))?;
        self.put_value(key, name, value.clone());
        Ok(())
    }

    fn remove_value(&self, key: &str, name: &str) -> Result<Removed, SystemError> {
        if self.value(key, name)?.is_none() {
            return Ok(Removed::Nothing);
        }
        self.operate(format!("remove value {key} {name}"))?;
        let mut inner = self.inner.borrow_mut();
        if let Some(values) = inner.windows.registry.get_mut(&plain(key)) {
            values.remove(&name.to_lowercase());
        }
        Ok(Removed::Gone)
    }

    fn has_key(&self, key: &str) -> Result<bool, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        Ok(inner.windows.registry.contains_key(&plain(key)))
    }

    fn remove_empty_key(&self, key: &str) -> Result<Removed, SystemError> {
        self.live()?;
        let key = plain(key);
        {
            let inner = self.inner.borrow();
            let below = format!("{key}\\");
            let mut keys = inner.windows.registry.keys();
            let has_below = keys.any(|other| other.starts_with(&below));
            let values = inner.windows.registry.get(&key);
            if has_below || values.is_none_or(|values| !values.is_empty()) {
                return Ok(Removed::Nothing);
            }
        }
        self.operate(format!("remove key {key}"))?;
        self.inner.borrow_mut().windows.registry.remove(&key);
        Ok(Removed::Gone)
    }

    fn definition(&self, name: &str) -> Result<Option<Definition>, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let service = inner.services.get(name);
        Ok(service.and_then(|service| service.definition.clone()))
    }

    fn define(
        &self,
        name: &str,
        definition: &Definition,
        account: &Account,
    ) -> Result<(), SystemError> {
        self.only_on_windows("a service control manager")?;
        self.operate(format!("define {name}"))?;
        let mut inner = self.inner.borrow_mut();
        let service = inner
            .services
            .entry(name.to_owned())
            .or_insert_with(MemoryService::stopped);
        service.is_enabled = definition.start.is_automatic();
        service.definition = Some(definition.clone());
        service.account = account.clone();
        let actions = Value::string(&format!("{:?}", definition.recovery));
        service.failures = [("FailureActions".to_owned(), actions)].into();
        Ok(())
    }

    fn failures(&self, name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let service = inner.services.get(name);
        Ok(service.map_or_else(BTreeMap::new, |service| service.failures.clone()))
    }

    fn set_failures(
        &self,
        name: &str,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), SystemError> {
        self.only_on_windows("a service control manager")?;
        self.operate(format!("set failures of {name}"))?;
        if let Some(service) = self.inner.borrow_mut().services.get_mut(name) {
            service.failures.clone_from(values);
        }
        Ok(())
    }

    fn account(&self, name: &str) -> Result<Account, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let service = inner.services.get(name);
        Ok(service.map_or_else(Account::system, |service| service.account.clone()))
    }

    fn service_started(&self, name: &str) -> Result<Option<u64>, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().windows.started.get(name).copied())
    }

    fn undefine(&self, name: &str) -> Result<Removed, SystemError> {
        self.live()?;
        let activity = {
            let inner = self.inner.borrow();
            inner.services.get(name).map(|service| service.activity)
        };
        match activity {
            None => return Ok(Removed::Nothing),
            // Windows would only mark it, and refuse to define it again.
            Some(Activity::Running | Activity::Starting) => {
                return Err(SystemError::Failed {
                    program: format!("undefine {name}"),
                    ended: Ended::Status(1072),
                    tail: vec![],
                });
            }
            Some(Activity::Stopped) => {}
        }
        self.operate(format!("undefine {name}"))?;
        let services = &mut self.inner.borrow_mut().services;
        if services.get(name).is_some_and(|service| service.is_held) {
            return Ok(Removed::Stays("somebody holds it"));
        }
        services.remove(name);
        Ok(Removed::Gone)
    }

    fn feature(&self, name: &str) -> Result<Feature, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let state = inner.windows.features.get(name).copied();
        Ok(state.unwrap_or(Feature::Unknown))
    }

    fn enable_feature(&self, name: &str) -> Result<Holds, SystemError> {
        self.only_on_windows("optional features")?;
        self.operate(format!("enable feature {name}"))?;
        self.put_feature(name, Feature::Pending);
        Ok(Holds::AfterRestart)
    }

    fn next_host_name(&self) -> Result<String, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().windows.next_host_name.clone())
    }

    fn set_host_name(&self, name: &str) -> Result<(), SystemError> {
        self.only_on_windows("a host name to come")?;
        self.operate(format!("set host name {name}"))?;
        name.clone_into(&mut self.inner.borrow_mut().windows.next_host_name);
        Ok(())
    }

    fn time_zone(&self) -> Result<String, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().windows.time_zone.clone())
    }

    fn set_time_zone(&self, name: &str) -> Result<(), SystemError> {
        self.only_on_windows("time zones by name")?;
        self.operate(format!("set time zone {name}"))?;
        name.clone_into(&mut self.inner.borrow_mut().windows.time_zone);
        Ok(())
    }

    fn dynamic_ports(&self, protocol: Protocol) -> Result<DynamicPorts, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let (first, count) = inner
            .windows
            .ports
            .get(&protocol)
            .copied()
            .unwrap_or_default();
        Ok(DynamicPorts {
            protocol,
            first,
            count,
        })
    }

    fn set_dynamic_ports(&self, wanted: DynamicPorts) -> Result<(), SystemError> {
        self.only_on_windows("a range of dynamic ports")?;
        self.operate(format!("set dynamic ports from {}", wanted.first))?;
        let mut inner = self.inner.borrow_mut();
        let range = (wanted.first, wanted.count);
        inner.windows.ports.insert(wanted.protocol, range);
        Ok(())
    }

    fn network(&self, wanted: &OverlayNetwork) -> Result<NetworkState, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        Ok(match inner.windows.networks.get(&wanted.name) {
            None => NetworkState::Absent,
            Some(found) if found == wanted => NetworkState::Set,
            Some(_) => NetworkState::Different,
        })
    }

    fn has_network(&self, name: &str) -> Result<bool, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().windows.networks.contains_key(name))
    }

    fn make_network(&self, wanted: &OverlayNetwork) -> Result<(), SystemError> {
        self.only_on_windows("HNS")?;
        self.operate(format!("make network {}", wanted.name))?;
        let mut inner = self.inner.borrow_mut();
        let before = inner
            .windows
            .networks
            .insert(wanted.name.clone(), wanted.clone());
        match before {
            None => Ok(()),
            Some(_) => Err(SystemError::Nonsense("two networks of one name".to_owned())),
        }
    }

    fn remove_network(&self, name: &str) -> Result<Removed, SystemError> {
        self.live()?;
        if !self.inner.borrow().windows.networks.contains_key(name) {
            return Ok(Removed::Nothing);
        }
        self.operate(format!("remove network {name}"))?;
        self.inner.borrow_mut().windows.networks.remove(name);
        Ok(Removed::Gone)
    }

    fn trusts(&self, certificate: &Sha256Digest) -> Result<bool, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().windows.trusted.contains(certificate))
    }

    fn trust(&self, certificate: &[u8]) -> Result<(), SystemError> {
        self.only_on_windows("a store of root authorities")?;
        let digest = Sha256Digest::of(certificate);
        self.operate(format!("trust {digest}"))?;
        self.inner.borrow_mut().windows.trusted.insert(digest);
        Ok(())
    }

    fn distrust(&self, certificate: &Sha256Digest) -> Result<Removed, SystemError> {
        if !self.trusts(certificate)? {
            return Ok(Removed::Nothing);
        }
        self.operate(format!("distrust {certificate}"))?;
        self.inner.borrow_mut().windows.trusted.remove(certificate);
        Ok(Removed::Gone)
    }

    fn schedule_start(&self, program: &str, arguments: &str) -> Result<(), SystemError> {
        self.only_on_windows("a task scheduler")?;
        self.operate(format!("schedule {program} {arguments}"))?;
        let line = format!("{program} {arguments}");
        self.inner.borrow_mut().windows.at_start = Some(line);
        Ok(())
    }

    fn unschedule_start(&self) -> Result<Removed, SystemError> {
        self.live()?;
        if self.inner.borrow().windows.at_start.is_none() {
            return Ok(Removed::Nothing);
        }
        self.operate("unschedule".to_owned())?;
        self.inner.borrow_mut().windows.at_start = None;
        Ok(Removed::Gone)
    }

    fn log_event(&self, entry: LogEntry, words: &str) -> Result<(), SystemError> {
        self.live()?;
        let mut inner = self.inner.borrow_mut();
        if inner.is_log_broken {
            return Err(SystemError::Nonsense("the log is broken".to_owned()));
        }
        if self.family == Family::Windows {
            inner.events.push((entry, words.to_owned()));
        }
        Ok(())
    }

    fn start_program(
        &self,
        path: &str,
        args: &[String],
    ) -> Result<Box<dyn RunningProgram>, SystemError> {
        self.only_on_windows("programs that a service attends to")?;
        self.operate(format!("start {path}"))?;
        let program = Rc::new(MemoryProgram {
            line: [&[path.to_owned()], args].concat().join(" "),
            ended: Cell::new(None),
        });
        self.inner.borrow_mut().beside.push(Rc::clone(&program));
        Ok(Box::new(Hold(program)))
    }
}

impl Memory {
    /// Refuses what the Linux in memory does not have.
    fn only_on_windows(&self, what: &'static str) -> Result<(), SystemError> {
        match self.family {
            Family::Windows => Ok(()),
            Family::Linux => Err(SystemError::OnlyWindows(what)),
        }
    }
}
