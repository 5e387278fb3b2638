//! Whether a blueprint can be applied here, before anything is touched.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Blueprint, Service};

use crate::failure::AgentError;
use crate::state::State;
use crate::system::System;

/// Refuses a newer form.
pub(super) fn version(blueprint: &Blueprint) -> Result<(), AgentError> {
    if blueprint.version <= mullion_wire::VERSION {
        return Ok(());
    }
    Err(AgentError::Newer {
        what: "blueprint",
        found: blueprint.version,
        known: mullion_wire::VERSION,
        agent: crate::VERSION,
    })
}

/// Refuses what is meant for somebody else. Not by the host name: a machine that existed before us keeps its own.
pub(super) fn machine(state: &State, blueprint: &Blueprint) -> Result<(), AgentError> {
    match &state.machine {
        Some(found) if *found != blueprint.machine => Err(AgentError::OtherMachine {
            wanted: blueprint.machine.clone(),
            found: found.clone(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a blueprint that names things twice or not at all.
pub(super) fn shape(system: &dyn System, blueprint: &Blueprint) -> Result<(), AgentError> {
    let state = &system.paths().state;
    let mut paths = BTreeSet::new();
    for file in &blueprint.files {
        let path = file.path.as_str();
        let mut parts = path.split('/');
        let is_plain = parts.next() == Some("")
            && parts.all(|part| !matches!(part, "" | "." | ".."))
            && !path.contains('\0');
        if !is_plain {
            return impossible(format!("`{path}` is not a plain absolute path"));
        }
        if path == state || path.starts_with(&format!("{state}/")) {
            return impossible(format!("`{path}` is the agent's own"));
        }
        if !paths.insert(path) {
            return impossible(format!("`{path}` is there twice"));
        }
    }
    for name in &blueprint.modules {
        let is_plain = !name.is_empty()
            && !name.starts_with('-')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !is_plain {
            return impossible(format!("`{name}` is not a module's name"));
        }
    }
    for name in blueprint.sysctls.keys() {
        if name.is_empty() || name.starts_with(['.', '/']) || name.contains("..") {
            return impossible(format!("`{name}` is not a setting's name"));
        }
    }
    let services = blueprint.services.iter().map(|service| &service.name);
    let packages = blueprint.packages.iter().map(|package| &package.name);
    for name in services.chain(packages) {
        if name.is_empty() || name.starts_with('-') || name.contains(['/', ' ', '\0']) {
            return impossible(format!("`{name}` is not the name of a service or package"));
        }
    }
    if let Some(firewall) = &blueprint.firewall {
        let is_plain = firewall
            .group
            .starts_with(|first: char| first.is_ascii_alphabetic())
            && firewall
                .group
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !is_plain {
            return impossible(format!("`{}` is not a group's name", firewall.group));
        }
        if let Some(port) = firewall.open.iter().find(|port| port.first > port.last) {
            return impossible(format!("the ports {} to {}", port.first, port.last));
        }
    }
    in_order(blueprint.services.iter()).map(|_| ())
}

/// The services, each after those that it names; otherwise in the order of their names.
pub(super) fn in_order<'a>(
    services: impl Iterator<Item = &'a Service>,
) -> Result<Vec<&'a Service>, AgentError> {
    let mut left = BTreeMap::new();
    for service in services {
        if left.insert(service.name.as_str(), service).is_some() {
            return impossible(format!("the service `{}` is there twice", service.name));
        }
    }
    for service in left.values() {
        let stranger = |name: &&String| !left.contains_key(name.as_str());
        if let Some(name) = service.after.iter().find(stranger) {
            let words = format!(
                "`{}` comes after `{name}`, which it does not have",
                service.name
            );
            return impossible(words);
        }
    }
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_free = |service: &&Service| {
            let mut before = service.after.iter();
            before.all(|name| !left.contains_key(name.as_str()))
        };
        let Some(next) = left.values().copied().find(|service| is_free(service)) else {
            let names: Vec<_> = left.keys().copied().collect();
            return impossible(format!(
                "services wait for each other: {}",
                names.join(", ")
            ));
        };
        left.remove(next.name.as_str());
        ordered.push(next);
    }
    Ok(ordered)
}

fn impossible<T>(words: String) -> Result<T, AgentError> {
    Err(AgentError::Impossible(words))
}

#[cfg(test)]
mod tests {
    use mullion_wire::ServiceState;

    use super::*;

    fn service(name: &str, after: &[&str]) -> Service {
        Service {
            name: name.into(),
            after: after.iter().map(|name| (*name).to_owned()).collect(),
            restarted_by: BTreeSet::new(),
            state: ServiceState::Running,
            definition: None,
        }
    }

    #[test]
    fn services_come_after_those_that_they_name() {
        let services = [
            service("a", &["c"]),
            service("b", &[]),
            service("c", &["b"]),
        ];
        let names: Vec<_> = in_order(services.iter())
            .unwrap()
            .iter()
            .map(|service| service.name.as_str())
            .collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn services_that_wait_for_each_other_or_for_nobody_are_refused() {
        let circle = [service("a", &["b"]), service("b", &["a"])];
        let error = in_order(circle.iter()).unwrap_err().to_string();
        assert!(error.contains("wait for each other: a, b"), "{error}");
        assert!(in_order([service("a", &["x"])].iter()).is_err());
        assert!(in_order([service("a", &[]), service("a", &[])].iter()).is_err());
    }
}
