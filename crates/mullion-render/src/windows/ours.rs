//! Services that are the agent's own: it attends to a program that can run only once the machine is a node.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::File;
use mullion_wire::{Attended, Definition, Service, ServiceState, Start};
use serde_json::json;

use super::logs::logged;
use super::{backward, recovery, windows_program_path};
use crate::error::RenderError;
use crate::setting::Setting;
use crate::system::text_file;

/// The agent, by the name of its artifact.
pub(super) const AGENT: &str = "mullion-agent";

fn path(service: &str) -> String {
    format!("C:/etc/mullion/{service}.json")
}

/// What the agent is told of a program.
pub(super) fn file(attended: &Attended) -> File {
    text_file(path(&attended.service), format!("{:#}\n", json!(attended)))
}

/// A program that the agent attends to, for its service.
pub(super) struct Ours<'a> {
    pub(super) name: &'a str,
    /// Services of the blueprint that come before it.
    pub(super) after: &'a str,
    /// Services that Windows starts before it.
    pub(super) depends_on: &'a str,
    /// Files besides its own whose change restarts it.
    pub(super) restarted_by: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
}

impl Ours<'_> {
    pub(super) fn service(self, setting: &Setting<'_>) -> Result<Service, RenderError> {
        let agent = windows_program_path(AGENT);
        let file = path(self.name);
        let mut command = logged(setting, self.name)?;
        command.extend([backward(&agent), "attend".into(), backward(&file)]);
        let mut restarted_by: BTreeSet<_> = self.restarted_by.into_iter().collect();
        restarted_by.extend([file, agent]);
        restarted_by.extend(["kube-log-runner", self.name].map(windows_program_path));
        Ok(Service {
            name: self.name.into(),
            after: [self.after.to_owned()].into(),
            restarted_by,
            // It waits by itself until the machine is a node.
            state: ServiceState::Running,
            definition: Some(Definition {
                display_name: self.name.into(),
                command: command.join(" "),
                depends_on: [self.depends_on.to_owned()].into(),
                start: Start::Automatic,
                recovery: recovery(),
                environment: self.environment,
            }),
        })
    }
}
