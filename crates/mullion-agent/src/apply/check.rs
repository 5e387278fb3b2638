//! Whether a blueprint can be applied here, before anything is touched.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Blueprint, Service};

use crate::failure::AgentError;
use crate::state::State;
use crate::system::{Family, System};

mod windows;

pub(super) use windows::FOLDER_MODES as WINDOWS_FOLDER_MODES;

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
    let family = system.family();
    windows::family(family, blueprint)?;
    if let Some(windows) = &blueprint.windows {
        windows::settings(windows)?;
    }
    let same = |path: &str| match family {
        Family::Linux => path.to_owned(),
        Family::Windows => path.to_lowercase(),
    };
    let state = same(&system.paths().state);
    let mut paths = BTreeSet::new();
    let files = blueprint.files.iter().map(|file| file.path.as_str());
    let folders = blueprint.folders.iter().map(|folder| folder.path.as_str());
    let private = blueprint.windows.iter();
    let private = private.flat_map(|windows| windows.private_files.iter().map(String::as_str));
    for path in files.chain(folders).chain(private) {
        if !is_plain_path(family, path) {
            return impossible(format!("`{path}` is not a plain absolute path"));
        }
        let same = same(path);
        if same == state || same.starts_with(&format!("{state}/")) {
            return impossible(format!("`{path}` is the agent's own"));
        }
        if !paths.insert(same) {
            return impossible(format!("`{path}` is there twice"));
        }
    }
    let trusted = blueprint.windows.iter();
    for path in trusted.flat_map(|windows| &windows.authorities) {
        if !blueprint.files.iter().any(|file| file.path == *path) {
            return impossible(format!("`{path}` is to be trusted and not laid down"));
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
    for service in &blueprint.services {
        let is_line = |line: &str| !line.trim().is_empty() && !line.contains(['\0', '\n', '\r']);
        if let Some(definition) = &service.definition
            && !is_line(&definition.command)
        {
            return impossible(format!("the service `{}` starts nothing", service.name));
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

/// Whether a path leads from the root, or from a drive, straight down.
fn is_plain_path(family: Family, path: &str) -> bool {
    let mut parts = path.split('/');
    let start = parts.next().unwrap_or_default().as_bytes();
    let is_absolute = match family {
        Family::Linux => start.is_empty(),
        Family::Windows => matches!(start, [letter, b':'] if letter.is_ascii_alphabetic()),
    };
    let is_name = |name: &str| {
        let is_for_windows = || {
            // A colon is a second stream of the file, and a blank or a dot at the end is dropped.
            !name.contains(['\\', ':', '*', '?', '"', '<', '>', '|']) && !name.ends_with([' ', '.'])
        };
        !matches!(name, "" | "." | "..") && (family == Family::Linux || is_for_windows())
    };
    is_absolute && parts.clone().next().is_some() && parts.all(is_name) && !path.contains('\0')
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

    #[test]
    fn paths_lead_from_the_root_or_from_a_drive() {
        let is_plain = |path| {
            (
                is_plain_path(Family::Linux, path),
                is_plain_path(Family::Windows, path),
            )
        };
        assert_eq!(is_plain("/etc/a:b"), (true, false));
        assert_eq!(is_plain("C:/k/kubelet.exe"), (false, true));
        for path in [
            "C:", "C:/", "C:k", "C:/k/..", "C:/a\\b", "C:/k/a:b", "C:/k/a.",
        ] {
            assert_eq!(is_plain(path), (false, false), "{path}");
        }
    }
}
