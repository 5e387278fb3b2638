//! systemd, through `systemctl`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::{
    Activity, Program, Programs as _, ServiceFacts, Services, Stopped, SystemError, run_well,
};
use super::Linux;

/// systemd gives a service 90 s to start and to stop; this is for what it does not think of.
const DEADLINE: Duration = Duration::from_secs(200);

const PROPERTIES: &str = "--property=LoadState,ActiveState,UnitFileState";

impl Services for Linux {
    fn services(&self, names: &[&str]) -> Result<BTreeMap<String, ServiceFacts>, SystemError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let units: Vec<_> = names.iter().map(|name| unit(name)).collect();
        let args = ["show", "--no-pager", PROPERTIES, "--"];
        let args = args.into_iter().chain(units.iter().map(String::as_str));
        let mut output = String::new();
        let program = Program::new("systemctl", args);
        run_well(self, &program, &mut |line| {
            output.push_str(line);
            output.push('\n');
        })?;
        Ok(parse(names, &output))
    }

    fn defines_service(&self, path: &str) -> bool {
        ["/etc/systemd/", "/usr/lib/systemd/", "/lib/systemd/"]
            .iter()
            .any(|folder| path.starts_with(folder))
    }

    fn reload(&self) -> Result<(), SystemError> {
        self.systemctl("daemon-reload", &[])
    }

    fn enable(&self, names: &[&str]) -> Result<(), SystemError> {
        self.systemctl("enable", names)
    }

    fn disable(&self, names: &[&str]) -> Result<(), SystemError> {
        self.systemctl("disable", names)
    }

    fn start(&self, name: &str) -> Result<(), SystemError> {
        self.systemctl("start", &[name])
    }

    fn stop(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        // systemd ends what outlives the stop itself, and writes that into its journal.
        self.systemctl("stop", &[name]).map(|()| Stopped::ByItself)
    }

    fn restart(&self, name: &str, _ours: &BTreeSet<String>) -> Result<Stopped, SystemError> {
        // A service that failed too often is started all the same: its files are others now.
        let _ = self.systemctl("reset-failed", &[name]);
        self.systemctl("restart", &[name])
            .map(|()| Stopped::ByItself)
    }

    fn service_log(&self, name: &str, lines: usize) -> Vec<String> {
        let (unit, lines) = (unit(name), lines.to_string());
        let args = ["--no-pager", "--output=cat", "-n", &lines, "-u", &unit];
        let program = Program::new("journalctl", args).within(Duration::from_secs(10));
        let mut log = Vec::new();
        // Without a journal there are no lines to show, and the failure itself is told anyway.
        match self.run(&program, &mut |line| log.push(line.to_owned())) {
            Ok(ended) if ended.is_well() => log,
            _ => Vec::new(),
        }
    }
}

impl Linux {
    fn systemctl(&self, verb: &str, names: &[&str]) -> Result<(), SystemError> {
        let units: Vec<_> = names.iter().map(|name| unit(name)).collect();
        let args = ["--no-pager", "--no-ask-password", verb];
        let args = args.into_iter().chain(units.iter().map(String::as_str));
        let program = Program::new("systemctl", args).within(DEADLINE);
        run_well(self, &program, &mut |_| {})
    }
}

/// systemd's name of a service; one with an ending of another kind keeps it.
fn unit(name: &str) -> String {
    let has_ending = [
        ".service", ".socket", ".timer", ".mount", ".target", ".path",
    ]
    .iter()
    .any(|ending| name.ends_with(ending));
    if has_ending {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// Reads `systemctl show`: one block a unit, in the order in which they were asked for.
pub(super) fn parse(names: &[&str], output: &str) -> BTreeMap<String, ServiceFacts> {
    let blocks = output.split("\n\n").map(|block| {
        let value = |key: &str| {
            let of_key =
                |line: &'_ str| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
            block.lines().find_map(of_key).unwrap_or_default()
        };
        ServiceFacts {
            // A unit that says nothing about when it starts cannot be enabled; asking again would change nothing.
            is_enabled: matches!(
                value("UnitFileState").as_str(),
                "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated"
            ),
            activity: match value("ActiveState").as_str() {
                "active" | "reloading" | "refreshing" => Activity::Running,
                "activating" => Activity::Starting,
                _ => Activity::Stopped,
            },
        }
    });
    let mut found: BTreeMap<_, _> = names
        .iter()
        .map(|name| ((*name).to_owned(), ServiceFacts::UNKNOWN))
        .collect();
    for (name, facts) in names.iter().zip(blocks) {
        found.insert((*name).to_owned(), facts);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemctl_shows_is_read_unit_by_unit() {
        let output = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\n\
                      LoadState=not-found\nActiveState=inactive\nUnitFileState=\n\n\
                      LoadState=loaded\nActiveState=activating\nUnitFileState=disabled\n";
        let found = parse(&["containerd", "absent", "kubelet"], output);
        assert_eq!(
            found["containerd"],
            ServiceFacts {
                is_enabled: true,
                activity: Activity::Running
            }
        );
        assert_eq!(found["absent"], ServiceFacts::UNKNOWN);
        assert_eq!(found["kubelet"].activity, Activity::Starting);
        assert!(!found["kubelet"].is_enabled);
    }

    #[test]
    fn a_service_is_named_without_its_ending_and_others_with_theirs() {
        assert_eq!(unit("containerd"), "containerd.service");
        assert_eq!(unit("ssh.socket"), "ssh.socket");
        assert_eq!(unit("a.b"), "a.b.service");
    }
}
