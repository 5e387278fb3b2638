//! Services as an apply would leave them.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Definition, Start};

use super::super::registry::Value;
use super::super::{Account, Activity, Removed, ServiceFacts, Services, Stopped, SystemError};
use super::{Changed, Rehearsal};

/// What would change of services.
#[derive(Debug, Default)]
pub(super) struct ServiceChanges {
    facts: Changed<ServiceFacts>,
    /// Definitions with their accounts; none of a service that would be removed.
    definitions: Changed<Option<(Definition, Account)>>,
    failures: Changed<BTreeMap<String, Value>>,
}

impl Rehearsal<'_> {
    fn facts(&self, name: &str) -> Result<ServiceFacts, SystemError> {
        let found = self.services(&[name])?;
        Ok(found.get(name).copied().unwrap_or(ServiceFacts::UNKNOWN))
    }

    fn set_facts(
        &self,
        name: &str,
        change: impl FnOnce(&mut ServiceFacts),
    ) -> Result<(), SystemError> {
        let mut facts = self.facts(name)?;
        change(&mut facts);
        let mut services = self.services.borrow_mut();
        services.facts.insert(name.to_owned(), facts);
        Ok(())
    }

    pub(super) fn definition_of(&self, name: &str) -> Result<Option<Definition>, SystemError> {
        match self.services.borrow().definitions.get(name) {
            Some(changed) => Ok(changed.as_ref().map(|(definition, _)| definition.clone())),
            None => self.base.definition(name),
        }
    }

    pub(super) fn account_of(&self, name: &str) -> Result<Account, SystemError> {
        match self.services.borrow().definitions.get(name) {
            Some(Some((_, account))) => Ok(account.clone()),
            Some(None) => Ok(Account::system()),
            None => self.base.account(name),
        }
    }

    pub(super) fn failures_of(&self, name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
        match self.services.borrow().failures.get(name) {
            Some(changed) => Ok(changed.clone()),
            None => self.base.failures(name),
        }
    }

    pub(super) fn set_failures_of(&self, name: &str, values: &BTreeMap<String, Value>) {
        let mut services = self.services.borrow_mut();
        services.failures.insert(name.to_owned(), values.clone());
    }

    pub(super) fn define_as(
        &self,
        name: &str,
        definition: &Definition,
        account: &Account,
    ) -> Result<(), SystemError> {
        self.set_facts(name, |facts| {
            facts.is_enabled = definition.start.is_automatic();
        })?;
        let mut services = self.services.borrow_mut();
        let changed = Some((definition.clone(), account.clone()));
        services.definitions.insert(name.to_owned(), changed);
        // The definition is written over them.
        services.failures.insert(name.to_owned(), BTreeMap::new());
        Ok(())
    }

    pub(super) fn remove_definition(&self, name: &str) -> Result<Removed, SystemError> {
        if self.definition_of(name)?.is_none() {
            return Ok(Removed::Nothing);
        }
        let mut services = self.services.borrow_mut();
        services.definitions.insert(name.to_owned(), None);
        let facts = ServiceFacts::UNKNOWN;
        services.facts.insert(name.to_owned(), facts);
        Ok(Removed::Gone)
    }
}

impl Services for Rehearsal<'_> {
    fn services(&self, names: &[&str]) -> Result<BTreeMap<String, ServiceFacts>, SystemError> {
        let mut found = self.base.services(names)?;
        let services = self.services.borrow();
        for (name, facts) in &mut found {
            if let Some(changed) = services.facts.get(name) {
                *facts = *changed;
            }
        }
        Ok(found)
    }

    fn defines_service(&self, path: &str) -> bool {
        self.base.defines_service(path)
    }

    fn reload(&self) -> Result<(), SystemError> {
        Ok(())
    }

    fn enable(&self, names: &[&str]) -> Result<(), SystemError> {
        let set = |name: &&str| self.set_facts(name, |facts| facts.is_enabled = true);
        names.iter().try_for_each(set)
    }

    fn disable(&self, names: &[&str]) -> Result<(), SystemError> {
        let set = |name: &&str| self.set_facts(name, |facts| facts.is_enabled = false);
        names.iter().try_for_each(set)
    }

    fn start(&self, name: &str) -> Result<(), SystemError> {
        let definition = self.definition_of(name)?;
        if definition.is_some_and(|definition| definition.start == Start::Disabled) {
            let words = format!("the service `{name}` is disabled: nothing starts it");
            return Err(SystemError::Nonsense(words));
        }
        self.set_facts(name, |facts| facts.activity = Activity::Running)
    }

    fn stop(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        self.set_facts(name, |facts| facts.activity = Activity::Stopped)?;
        Ok(Stopped::ByItself)
    }

    fn restart(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        self.start(name)?;
        Ok(Stopped::ByItself)
    }

    fn service_log(&self, _name: &str, _lines: usize) -> Vec<String> {
        Vec::new()
    }
}
