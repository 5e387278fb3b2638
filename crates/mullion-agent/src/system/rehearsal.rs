//! A system on which an apply is rehearsed: it reads the machine, and keeps in memory what the apply would change.
//!
//! The logic works on it as on the machine itself, so that it decides in one place what has to be changed: what a
//! comparison tells and what an apply does cannot disagree. What is read here is what the machine has, with the changes
//! so far on top. Nothing on the machine is changed, no program is run, and no lock is taken.
//!
//! What a change brings along is not known here where only the system knows it: services that a package starts, and
//! programs that it brings.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion_wire::{Blueprint, Content, Facts, Patience};

use super::{
    Ended, Family, PackageLists, Packages, Paths, Program, Programs, Starved, System, SystemError,
};

mod files;
mod services;
mod settings;
mod windows;

use files::Nodes;
use services::ServiceChanges;
use settings::SettingChanges;
use windows::WindowsChanges;

/// A machine with what an apply would change on top.
pub(crate) struct Rehearsal<'a> {
    base: &'a dyn System,
    nodes: RefCell<Nodes>,
    services: RefCell<ServiceChanges>,
    settings: RefCell<SettingChanges>,
    packages: RefCell<BTreeSet<String>>,
    windows: RefCell<WindowsChanges>,
    /// How often the machine was restarted in this rehearsal.
    restarts: Cell<u32>,
}

impl<'a> Rehearsal<'a> {
    /// Begins a rehearsal on a machine. The contents that a blueprint names by their digest count as stored there: the
    /// controller brings what is missing before it asks for the apply.
    pub(crate) fn new(base: &'a dyn System, blueprint: &Blueprint) -> Self {
        let rehearsal = Self {
            base,
            nodes: RefCell::new(Nodes::new(base.family())),
            services: RefCell::default(),
            settings: RefCell::default(),
            packages: RefCell::default(),
            windows: RefCell::default(),
            restarts: Cell::new(0),
        };
        let store = crate::state::store(base);
        for file in &blueprint.files {
            if let Content::Stored { sha256, size } = &file.content {
                rehearsal.promise(&format!("{store}/{sha256}"), sha256, *size);
            }
        }
        rehearsal
    }

    /// Restarts the machine: what waited for that holds from now on.
    pub(crate) fn restart(&self) {
        self.restarts.set(self.restarts.get() + 1);
    }

    fn was_restarted(&self) -> bool {
        self.restarts.get() > 0
    }
}

/// Refuses what no apply asks for: it would happen on the machine itself.
fn refuse<T>(what: &str) -> Result<T, SystemError> {
    Err(SystemError::Nonsense(format!(
        "a comparison changes nothing, and does not {what}"
    )))
}

impl Packages for Rehearsal<'_> {
    fn missing(&self, packages: &[mullion_wire::Package]) -> Result<Vec<String>, SystemError> {
        let mut missing = self.base.missing(packages)?;
        missing.retain(|name| !self.packages.borrow().contains(name));
        Ok(missing)
    }

    fn precedes_packages(&self, path: &str) -> bool {
        self.base.precedes_packages(path)
    }

    fn install(
        &self,
        names: &[String],
        _lists: PackageLists,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        self.packages.borrow_mut().extend(names.iter().cloned());
        Ok(())
    }
}

impl Programs for Rehearsal<'_> {
    fn find_program(&self, name: &str) -> Option<String> {
        self.base.find_program(name)
    }

    fn run(&self, program: &Program, _on_line: &mut dyn FnMut(&str)) -> Result<Ended, SystemError> {
        refuse(&format!("run `{}`", program.name))
    }

    fn shell(&self, line: &str) -> Program {
        self.base.shell(line)
    }
}

impl System for Rehearsal<'_> {
    fn family(&self) -> Family {
        self.base.family()
    }

    fn paths(&self) -> &Paths {
        self.base.paths()
    }

    fn own_program(&self) -> Option<String> {
        self.base.own_program()
    }

    fn boot(&self) -> Option<String> {
        let boot = self.base.boot()?;
        Some(match self.restarts.get() {
            0 => boot,
            count => format!("{boot}, restarted {count}"),
        })
    }

    fn host_name(&self) -> Result<String, SystemError> {
        self.base.host_name()
    }

    fn describe(&self) -> Result<Facts, SystemError> {
        self.base.describe()
    }

    fn be_patient(&self, _patience: Patience) {}

    fn patience(&self) -> Patience {
        self.base.patience()
    }

    fn reboot_pending(&self) -> Option<String> {
        self.base.reboot_pending()
    }

    fn lock(&self, _words: &str, _wait: Duration) -> Result<(), SystemError> {
        refuse("take the lock")
    }

    fn answers(&self, port: u16, path: &str) -> bool {
        self.base.answers(port, path)
    }

    fn starved(&self) -> Starved {
        self.base.starved()
    }

    fn clear_pods(
        &self,
        _kept: Option<&str>,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        refuse("end containers")
    }

    fn renew_pods(
        &self,
        _kept: Option<&str>,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        refuse("give pods another network")
    }
}

/// What is set to something else, by name.
type Changed<T> = BTreeMap<String, T>;
