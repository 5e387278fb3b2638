//! One request at work: the system, what is remembered of it, and who hears about it.

use std::collections::BTreeSet;

use crate::digests::Digests;
use crate::failure::AgentError;
use crate::report::Report;
use crate::state::State;
use crate::system::System;

/// Everything that a request works with.
pub(crate) struct Work<'a, 'b> {
    pub(crate) system: &'a dyn System,
    pub(crate) report: &'a mut Report<'b>,
    pub(crate) state: State,
    /// The state as it is on the disk.
    saved: State,
    pub(crate) digests: Digests,
}

impl<'a, 'b> Work<'a, 'b> {
    /// Begins a request.
    pub(crate) fn begin(
        system: &'a dyn System,
        report: &'a mut Report<'b>,
    ) -> Result<Self, AgentError> {
        let state = State::load(system)?;
        Ok(Self {
            system,
            report,
            saved: state.clone(),
            state,
            digests: Digests::load(system),
        })
    }

    /// Writes the state down, if it is another than the one on the disk.
    pub(crate) fn save(&mut self) -> Result<(), AgentError> {
        if self.state != self.saved {
            self.state.save(self.system)?;
            self.saved = self.state.clone();
        }
        Ok(())
    }

    /// To be called before any change: from here on no blueprint is wholly applied.
    pub(crate) fn touch(&mut self) -> Result<(), AgentError> {
        self.state.applied = None;
        self.save()
    }

    /// Services whose definitions are ours.
    pub(crate) fn defined(&self) -> BTreeSet<String> {
        self.state.windows.definitions.keys().cloned().collect()
    }

    /// Notes that something holds only after a start of the machine; the next save keeps it.
    pub(crate) fn await_restart(&mut self, words: String) {
        if let Some(boot) = self.system.boot() {
            self.state.restarts.insert(words, boot);
        }
    }

    /// Forgets what waited for a start that has come.
    pub(crate) fn forget_restarts(&mut self) {
        let boot = self.system.boot();
        self.state
            .restarts
            .retain(|_, since| boot.as_ref() == Some(since));
    }

    /// Why the machine has to be started anew: what the system says, and what was changed since it started.
    pub(crate) fn restart_pending(&self) -> Option<String> {
        let reasons: Vec<_> = self
            .system
            .reboot_pending()
            .into_iter()
            .chain(self.awaited())
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// What was changed since the machine started and waits for the next start.
    fn awaited(&self) -> Vec<String> {
        let boot = self.system.boot();
        let ours = self.state.restarts.iter();
        ours.filter(|(_, since)| boot.as_ref() == Some(since))
            .map(|(words, _)| words.clone())
            .collect()
    }

    /// Whether something that was changed by us waits for a start. Of a host name the system tells it.
    pub(crate) fn awaits_restart(&self) -> bool {
        let is_renamed = self.state.windows.host_name.is_some()
            && self.system.next_host_name().ok() != self.system.host_name().ok();
        is_renamed || !self.awaited().is_empty()
    }

    /// Removes secrets that an agent left which was killed while a program needed them.
    pub(crate) fn remove_secrets(&mut self) -> Result<(), AgentError> {
        let folder = &self.system.paths().secrets;
        for name in self.system.list(folder)? {
            self.system.remove(&format!("{folder}/{name}"))?;
        }
        for path in &self.state.secrets {
            self.system.remove(path)?;
        }
        self.state.secrets.clear();
        self.save()
    }
}
