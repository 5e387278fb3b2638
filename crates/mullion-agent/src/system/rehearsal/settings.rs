//! Kernel modules, kernel settings and the firewall as an apply would leave them.

use std::collections::BTreeSet;

use mullion_wire::{Blueprint, Firewall};

use super::super::{Companions, FirewallState, Module, Removed, Settings, SystemError};
use super::{Changed, Rehearsal};

/// Settings that are there once a module is loaded, with the values that the kernel gives them.
const OF_MODULES: &[(&str, &str, &str)] = &[
    ("br_netfilter", "net.bridge.bridge-nf-call-arptables", "1"),
    ("br_netfilter", "net.bridge.bridge-nf-call-ip6tables", "1"),
    ("br_netfilter", "net.bridge.bridge-nf-call-iptables", "1"),
];

/// What would change of them.
#[derive(Debug, Default)]
pub(super) struct SettingChanges {
    modules: BTreeSet<String>,
    settings: Changed<String>,
    /// Groups by name; none of one that would be removed.
    firewalls: Changed<Option<Firewall>>,
}

impl Settings for Rehearsal<'_> {
    fn module(&self, name: &str) -> Result<Module, SystemError> {
        if self.settings.borrow().modules.contains(name) {
            return Ok(Module::Usable);
        }
        self.base.module(name)
    }

    fn load_module(&self, name: &str) -> Result<(), SystemError> {
        let mut settings = self.settings.borrow_mut();
        settings.modules.insert(name.to_owned());
        Ok(())
    }

    fn setting(&self, name: &str) -> Result<Option<String>, SystemError> {
        let settings = self.settings.borrow();
        if let Some(value) = settings.settings.get(name) {
            return Ok(Some(value.clone()));
        }
        if let Some(value) = self.base.setting(name)? {
            return Ok(Some(value));
        }
        let of_module = OF_MODULES
            .iter()
            .find(|(module, setting, _)| *setting == name && settings.modules.contains(*module));
        Ok(match of_module {
            Some((_, _, value)) => Some((*value).to_owned()),
            // Any other module may bring it too, with a value that is not known before.
            None if !settings.modules.is_empty() => Some(String::new()),
            None => None,
        })
    }

    fn set(&self, name: &str, value: &str) -> Result<(), SystemError> {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut settings = self.settings.borrow_mut();
        settings.settings.insert(name.to_owned(), value);
        Ok(())
    }

    fn firewall(&self, wanted: &Firewall) -> Result<FirewallState, SystemError> {
        let found = self.base.firewall(wanted)?;
        if matches!(found, FirewallState::Stopped | FirewallState::NoMeans) {
            return Ok(found);
        }
        Ok(match self.settings.borrow().firewalls.get(&wanted.group) {
            None => found,
            Some(changed) if changed.as_ref() == Some(wanted) => FirewallState::Set,
            Some(_) => FirewallState::Different,
        })
    }

    fn set_firewall(&self, wanted: &Firewall) -> Result<(), SystemError> {
        let mut settings = self.settings.borrow_mut();
        let changed = Some(wanted.clone());
        settings.firewalls.insert(wanted.group.clone(), changed);
        Ok(())
    }

    fn remove_firewall(&self, group: &str) -> Result<Removed, SystemError> {
        // A group without ports: what counts is only whether the system can see and set any.
        let none = Firewall {
            group: group.to_owned(),
            open: Vec::new(),
        };
        if self.base.firewall(&none)? == FirewallState::Stopped {
            return Ok(Removed::Stays("the firewall's service does not run"));
        }
        if !self.has_firewall(group)? {
            return Ok(Removed::Nothing);
        }
        let mut settings = self.settings.borrow_mut();
        settings.firewalls.insert(group.to_owned(), None);
        Ok(Removed::Gone)
    }

    fn has_firewall(&self, group: &str) -> Result<bool, SystemError> {
        match self.settings.borrow().firewalls.get(group) {
            Some(changed) => Ok(changed.is_some()),
            None => self.base.has_firewall(group),
        }
    }

    fn companions(&self, blueprint: &Blueprint) -> Result<Companions, SystemError> {
        self.base.companions(blueprint)
    }
}
