//! Services, settings, packages and programs in memory.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Blueprint, Content, File, Firewall, Package, Start};

use super::super::{
    Activity, Companions, Ended, FirewallState, Module, PackageLists, Packages, Program, Programs,
    Removed, ServiceFacts, Services, Settings, Stopped, SystemError,
};
use super::{Memory, MemoryService, Node};

const DEFINITIONS: &str = "/etc/systemd/system/";
/// The service of Windows' firewall.
const FIREWALL: &str = "mpssvc";

impl Memory {
    /// How a service that was stopped came to its end.
    fn end_of(&self, name: &str) -> Stopped {
        let inner = self.inner.borrow();
        match inner.services.get(name) {
            Some(service) if service.is_stubborn => {
                Stopped::Ended(vec![format!("{name} (process 7)")])
            }
            _ => Stopped::ByItself,
        }
    }

    /// All files, definitions as the manager has read them.
    fn seen(&self) -> BTreeMap<String, Vec<u8>> {
        let inner = self.inner.borrow();
        let mut seen: BTreeMap<_, _> = inner
            .nodes
            .iter()
            .filter_map(|(path, node)| match node {
                Node::File { bytes, .. } => Some((path.clone(), bytes.clone())),
                _ => None,
            })
            .collect();
        seen.extend(inner.definitions.clone());
        seen
    }

    /// Reads definitions of services: all, or those that were never read.
    fn read_definitions(&self, is_anew: bool) {
        let mut inner = self.inner.borrow_mut();
        let mut found = BTreeMap::new();
        for (path, node) in &inner.nodes {
            if let (true, Node::File { bytes, .. }) = (path.starts_with(DEFINITIONS), node) {
                found.insert(path.clone(), bytes.clone());
            }
        }
        if is_anew {
            inner.definitions = found;
        } else {
            for (path, bytes) in found {
                inner.definitions.entry(path).or_insert(bytes);
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let inner = self.inner.borrow();
        let path = format!("{DEFINITIONS}{name}.service");
        inner.services.contains_key(name) || inner.nodes.contains_key(&path)
    }

    fn change(
        &self,
        words: &str,
        name: &str,
        change: impl FnOnce(&mut MemoryService),
    ) -> Result<(), SystemError> {
        self.operate(format!("{words} {name}"))?;
        if !self.is_known(name) {
            return Err(no_service(words, name));
        }
        let mut inner = self.inner.borrow_mut();
        let service = inner
            .services
            .entry(name.to_owned())
            .or_insert_with(MemoryService::stopped);
        change(service);
        Ok(())
    }

    fn begin(&self, words: &str, name: &str) -> Result<(), SystemError> {
        self.read_definitions(false);
        let seen = self.seen();
        let is_disabled = {
            let inner = self.inner.borrow();
            let service = inner.services.get(name);
            let definition = service.and_then(|service| service.definition.as_ref());
            definition.is_some_and(|definition| definition.start == Start::Disabled)
        };
        if is_disabled {
            return Err(SystemError::Failed {
                program: format!("{words} {name}"),
                ended: Ended::Status(1058),
                tail: vec![],
            });
        }
        if self.inner.borrow().broken.contains(name) {
            self.operate(format!("{words} {name}, which is broken"))?;
            let mut inner = self.inner.borrow_mut();
            inner.starved += inner.starved_by_services;
            return Err(no_service(words, name));
        }
        self.change(words, name, |service| {
            service.activity = Activity::Running;
            service.starts += 1;
            service.saw = seen;
            service.ran_as.clone_from(&service.definition);
        })
    }
}

impl Services for Memory {
    fn services(&self, names: &[&str]) -> Result<BTreeMap<String, ServiceFacts>, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let facts = |name: &str| {
            let service = inner.services.get(name);
            service.map_or(ServiceFacts::UNKNOWN, |service| ServiceFacts {
                is_enabled: service.is_enabled,
                activity: service.activity,
            })
        };
        Ok(names
            .iter()
            .map(|name| ((*name).to_owned(), facts(name)))
            .collect())
    }

    fn defines_service(&self, path: &str) -> bool {
        path.starts_with(DEFINITIONS)
    }

    fn reload(&self) -> Result<(), SystemError> {
        self.operate("reload".to_owned())?;
        self.read_definitions(true);
        Ok(())
    }

    fn enable(&self, names: &[&str]) -> Result<(), SystemError> {
        names
            .iter()
            .try_for_each(|name| self.change("enable", name, |service| service.is_enabled = true))
    }

    fn disable(&self, names: &[&str]) -> Result<(), SystemError> {
        names
            .iter()
            .try_for_each(|name| self.change("disable", name, |service| service.is_enabled = false))
    }

    fn start(&self, name: &str) -> Result<(), SystemError> {
        self.begin("start", name)
    }

    fn stop(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        self.change("stop", name, |service| service.activity = Activity::Stopped)?;
        Ok(self.end_of(name))
    }

    fn restart(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        let runs = self.services(&[name])?[name].activity != Activity::Stopped;
        self.begin("restart", name)?;
        Ok(if runs {
            self.end_of(name)
        } else {
            Stopped::ByItself
        })
    }

    fn service_log(&self, name: &str, lines: usize) -> Vec<String> {
        (1..=lines.min(10))
            .map(|line| format!("line {line} of {name}"))
            .collect()
    }
}

fn no_service(words: &str, name: &str) -> SystemError {
    SystemError::Failed {
        program: format!("{words} {name}"),
        ended: Ended::Status(5),
        tail: vec![format!("{name} is not there")],
    }
}

impl Settings for Memory {
    fn module(&self, name: &str) -> Result<Module, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        Ok(if inner.modules.contains(name) {
            Module::Usable
        } else {
            Module::Unloaded
        })
    }

    fn load_module(&self, name: &str) -> Result<(), SystemError> {
        self.operate(format!("load {name}"))?;
        let mut inner = self.inner.borrow_mut();
        if !inner.loadable.contains(name) {
            return Err(SystemError::Failed {
                program: format!("modprobe {name}"),
                ended: Ended::Status(1),
                tail: vec![format!("module {name} not found")],
            });
        }
        inner.modules.insert(name.to_owned());
        Ok(())
    }

    fn setting(&self, name: &str) -> Result<Option<String>, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().settings.get(name).cloned())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), SystemError> {
        self.operate(format!("set {name} to {value}"))?;
        let mut inner = self.inner.borrow_mut();
        inner.settings.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn firewall(&self, wanted: &Firewall) -> Result<FirewallState, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        if inner.broken.contains(FIREWALL) {
            return Ok(FirewallState::Stopped);
        }
        Ok(if inner.firewall.get(&wanted.group) == Some(wanted) {
            FirewallState::Set
        } else {
            FirewallState::Different
        })
    }

    fn has_firewall(&self, group: &str) -> Result<bool, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().firewall.contains_key(group))
    }

    fn set_firewall(&self, wanted: &Firewall) -> Result<(), SystemError> {
        self.operate(format!("set firewall {}", wanted.group))?;
        let mut inner = self.inner.borrow_mut();
        inner.firewall.insert(wanted.group.clone(), wanted.clone());
        Ok(())
    }

    fn remove_firewall(&self, group: &str) -> Result<Removed, SystemError> {
        self.live()?;
        if !self.inner.borrow().firewall.contains_key(group) {
            return Ok(Removed::Nothing);
        }
        if self.inner.borrow().broken.contains(FIREWALL) {
            return Ok(Removed::Stays("the firewall's service does not run"));
        }
        self.operate(format!("remove firewall {group}"))?;
        self.inner.borrow_mut().firewall.remove(group);
        Ok(Removed::Gone)
    }

    fn companions(&self, blueprint: &Blueprint) -> Result<Companions, SystemError> {
        self.live()?;
        let mut companions = Companions::default();
        if !blueprint.modules.is_empty() {
            let names: Vec<_> = blueprint.modules.iter().map(String::as_str).collect();
            companions.files.push(File {
                path: "/etc/modules-load.d/mullion.conf".to_owned(),
                content: Content::Text(names.join("\n")),
                mode: 0o644,
            });
        }
        Ok(companions)
    }
}

impl Packages for Memory {
    fn missing(&self, packages: &[Package]) -> Result<Vec<String>, SystemError> {
        self.live()?;
        let inner = self.inner.borrow();
        let names = packages.iter().map(|package| package.name.clone());
        Ok(names
            .filter(|name| !inner.packages.contains(name))
            .collect())
    }

    fn precedes_packages(&self, path: &str) -> bool {
        path.starts_with("/etc/apt/")
    }

    fn install(
        &self,
        names: &[String],
        lists: PackageLists,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        if lists == PackageLists::Stale {
            self.operate("update package lists".to_owned())?;
        }
        for name in names {
            self.operate(format!("install {name}"))?;
            on_line(&format!("Setting up {name}"));
            self.inner.borrow_mut().packages.insert(name.clone());
        }
        Ok(())
    }
}

impl Programs for Memory {
    fn find_program(&self, name: &str) -> Option<String> {
        let inner = self.inner.borrow();
        if name.contains('/') {
            return inner.nodes.contains_key(name).then(|| name.to_owned());
        }
        let is_there = inner.programs.contains_key(name);
        is_there.then(|| self.program_path(name))
    }

    fn run(&self, program: &Program, on_line: &mut dyn FnMut(&str)) -> Result<Ended, SystemError> {
        self.operate(format!("run {}", program.name))?;
        let name = program.name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let script = self.inner.borrow().programs.get(name).cloned();
        match script {
            Some(script) => script(self, program, on_line),
            None => Err(SystemError::NoProgram(program.name.clone())),
        }
    }

    fn shell(&self, line: &str) -> Program {
        Program::new("sh", ["-c", line])
    }
}
