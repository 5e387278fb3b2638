//! What goes wrong on a system in memory.

use super::super::Account;
use super::{Meanwhile, Memory};

impl Memory {
    /// Lets a service not stop by itself.
    pub fn make_stubborn(&self, name: &str) {
        if let Some(service) = self.inner.borrow_mut().services.get_mut(name) {
            service.is_stubborn = true;
        }
    }

    /// Lets a service run under an account.
    pub fn give_to(&self, name: &str, account: &str) {
        if let Some(service) = self.inner.borrow_mut().services.get_mut(name) {
            service.account = Account::new(account);
        }
    }

    /// Lets a service fail whenever it is started.
    pub fn break_service(&self, name: &str) {
        self.inner.borrow_mut().broken.insert(name.to_owned());
    }

    /// Lets a broken service start again.
    pub fn mend_service(&self, name: &str) {
        self.inner.borrow_mut().broken.remove(name);
    }

    /// Lets somebody else hold the lock.
    pub fn hold_lock(&self, holder: &str) {
        self.inner.borrow_mut().holder = Some(holder.to_owned());
    }

    /// Lets somebody else hold the lock until somebody waits for it, and do this before it lets it go.
    pub fn hold_lock_for(&self, holder: &str, meanwhile: Meanwhile) {
        self.hold_lock(holder);
        self.inner.borrow_mut().meanwhile = Some(meanwhile);
    }

    /// Lets whoever holds the lock come to its end, where it does.
    pub(super) fn wait_for_holder(&self) {
        let meanwhile = self.inner.borrow_mut().meanwhile.take();
        if let Some(meanwhile) = meanwhile {
            self.inner.borrow_mut().holder = None;
            meanwhile(self);
        }
    }

    /// Lets memory run out once: a program is ended for want of it.
    pub fn starve(&self) {
        self.inner.borrow_mut().starved += 1;
    }

    /// Lets memory run out whenever a broken service is started.
    pub fn starve_services(&self) {
        self.inner.borrow_mut().starved_by_services = 1;
    }

    /// Kills the agent at the n-th operation from now, from 1: that operation does not happen, save that half of a file
    /// may be written. From then on every call fails.
    pub fn kill_at(&self, operation: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.operations = 0;
        inner.kill_at = Some(operation);
    }

    /// Whether the agent was killed.
    pub fn is_dead(&self) -> bool {
        self.inner.borrow().is_dead
    }

    /// Lets the next agent begin.
    pub fn revive(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.is_dead = false;
        inner.kill_at = None;
        inner.operations = 0;
    }

    /// Lets every operation fail whose words begin with this one.
    pub fn refuse(&self, word: &'static str) {
        self.inner.borrow_mut().refused.insert(word);
    }

    /// Lets everything be done again.
    pub fn refuse_nothing(&self) {
        self.inner.borrow_mut().refused.clear();
    }

    /// Lets the agent not know where its own program is.
    pub fn lose_program(&self) {
        self.inner.borrow_mut().own_program = None;
    }
}
