//! The whole answer of `mullion doctor`, as both views show it.

use mullion_catalog::{Activity, Catalog};
use schemars::JsonSchema;
use serde::Serialize;

use super::Fix;
use super::computer::Computer;
use super::examine::{self, Diagnosis, State, Weight};
use super::fix;
use crate::failure::Class;

/// What `mullion doctor` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// The facts.
    pub computer: Computer,
    /// What can be done here.
    pub activities: Vec<ActivityReport>,
    /// Every requirement of these, judged.
    pub diagnoses: Vec<Diagnosis>,
    /// The commands that install what is missing.
    pub commands: Vec<String>,
    /// What to do next, one action each.
    pub next: Vec<String>,
}

/// Whether something can be done here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityReport {
    /// The activity's name.
    pub id: String,
    /// What a person calls it.
    pub title: String,
    /// Whether it must work: the exit code follows from those that must.
    pub is_wanted: bool,
    /// Whether it can work.
    pub readiness: Readiness,
    /// The requirements that are the reason.
    pub because: Vec<String>,
}

/// Whether something can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// All that it needs is there.
    Ready,
    /// Nothing that it needs is known to be missing, and something could not be proven.
    NotProven,
    /// Something that it needs is missing.
    NotReady,
}

impl DoctorReport {
    /// Judges a computer.
    pub(super) fn new(
        catalog: &Catalog,
        activities: &[(&Activity, Weight)],
        computer: Computer,
        fix: Fix,
    ) -> Self {
        let requirements = catalog.requirements();
        let diagnoses = examine::examine(requirements, activities, &computer);
        let manager = computer
            .system
            .family
            .and_then(|family| catalog.package_manager(family));
        let words = manager
            .map(|manager| fix::commands(&diagnoses, requirements, manager))
            .unwrap_or_default();
        let is_root = computer.user.is_root();
        let report_of = |(activity, weight): &(&Activity, Weight)| {
            let of_state = |state: State| -> Vec<String> {
                let needed = requirements
                    .iter()
                    .filter(|requirement| requirement.needed.contains(&activity.id));
                let ids = needed.map(|requirement| &requirement.id);
                ids.filter(|id| {
                    diagnoses
                        .iter()
                        .any(|found| found.requirement == **id && found.state == state)
                })
                .cloned()
                .collect()
            };
            let (missing, not_proven) = (of_state(State::Missing), of_state(State::NotProven));
            let (readiness, because) = match (missing.is_empty(), not_proven.is_empty()) {
                (false, _) => (Readiness::NotReady, missing),
                (true, false) => (Readiness::NotProven, not_proven),
                (true, true) => (Readiness::Ready, Vec::new()),
            };
            ActivityReport {
                id: activity.id.clone(),
                title: activity.title.clone(),
                is_wanted: *weight == Weight::Decides,
                readiness,
                because,
            }
        };
        let mut report = Self {
            activities: activities.iter().map(report_of).collect(),
            commands: words
                .iter()
                .map(|words| fix::typed(words, is_root))
                .collect(),
            next: Vec::new(),
            diagnoses,
            computer,
        };
        report.next = report.advice(fix, manager.is_some_and(|manager| manager.automatic));
        report
    }

    /// The exit code: 0 when all that must work can, else the code of the computer's class.
    pub fn exit_code(&self) -> u8 {
        let is_blocked = |activity: &ActivityReport| {
            activity.is_wanted && activity.readiness == Readiness::NotReady
        };
        if self.activities.iter().any(is_blocked) {
            Class::ThisComputer.exit_code()
        } else {
            0
        }
    }

    fn advice(&self, fix: Fix, is_automatic: bool) -> Vec<String> {
        let is_root = self.computer.user.is_root();
        let mut next = Vec::new();
        match (fix, is_automatic) {
            _ if self.commands.is_empty() => {}
            (Fix::Look, true) => {
                let sudo = if is_root { "" } else { "sudo " };
                next.push(format!("install what is missing: `{sudo}mullion doctor --fix`"));
            }
            // As root on such a system the commands were run already: what is left over was not cured by them.
            (Fix::Install, true) if is_root => {}
            _ => next.push("install what is missing with the commands above, then look again: `mullion doctor`".into()),
        }
        let wanted = || self.activities.iter().filter(|activity| activity.is_wanted);
        let by_hand = self.diagnoses.iter().filter(|found| {
            let blocks_wanted = wanted().any(|activity| found.blocks.contains(&activity.id));
            found.packages.is_empty() && blocks_wanted
        });
        next.extend(
            by_hand
                .filter_map(|found| Some(format!("{}: {}", found.title, found.remedy.as_ref()?))),
        );
        if self.exit_code() == 0 {
            let sudo = if is_root { "" } else { "sudo " };
            next.push(format!("see what would happen: `{sudo}mullion plan`"));
        }
        next
    }
}
