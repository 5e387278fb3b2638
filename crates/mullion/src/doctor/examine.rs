//! Judges what was found. Pure: requirements and a [`Computer`] in, a [`Diagnosis`] each out.

mod judge;

use std::collections::{BTreeMap, BTreeSet};

use mullion_catalog::{Activity, Look, Number, Requirement};
use mullion_spec::words::{Driver, Os};
use schemars::JsonSchema;
use serde::Serialize;

use super::computer::Computer;

/// How it stands with a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is not there.
    Missing,
    /// It is there, and worse than it could be.
    Weak,
    /// Nothing here tells.
    NotProven,
    /// It is there.
    Ok,
}

/// What is known of one requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The requirement's name.
    pub requirement: String,
    /// What a person calls it.
    pub title: String,
    /// What it does.
    pub purpose: String,
    /// How it stands.
    pub state: State,
    /// What was seen.
    pub seen: String,
    /// The activities that cannot work because of it.
    pub blocks: Vec<String>,
    /// The activities that work worse because of it.
    pub hampers: Vec<String>,
    /// What to do about it; none where all is well.
    pub remedy: Option<String>,
    /// The packages that cure it here.
    pub packages: Vec<String>,
}

/// What the person is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It must work.
    Decides,
    /// It is looked at, and need not work.
    Informs,
}

/// The activities to look at. With no machines named, all of them, and the default cluster's decide.
pub(super) fn activities<'a>(
    all: &'a [Activity],
    machines: &BTreeMap<Driver, BTreeSet<Os>>,
) -> Vec<(&'a Activity, Weight)> {
    let weigh = |activity: &Activity| {
        let decides = if machines.is_empty() {
            activity.default_cluster
        } else {
            activity.is_about(machines)
        };
        if decides {
            Some(Weight::Decides)
        } else if machines.is_empty() || activity.carries.is_empty() {
            Some(Weight::Informs)
        } else {
            None
        }
    };
    all.iter()
        .filter_map(|activity| Some((activity, weigh(activity)?)))
        .collect()
}

/// Judges every requirement of the given activities, in the order of the catalog.
pub(super) fn examine(
    requirements: &[Requirement],
    activities: &[(&Activity, Weight)],
    computer: &Computer,
) -> Vec<Diagnosis> {
    let among = |ids: &BTreeSet<String>| -> Vec<String> {
        let ids_in_order = activities.iter().map(|(activity, _)| &activity.id);
        ids_in_order
            .filter(|id| ids.contains(*id))
            .cloned()
            .collect()
    };
    let diagnose = |requirement: &Requirement| {
        let (needed, useful) = (among(&requirement.needed), among(&requirement.useful));
        if needed.is_empty() && useful.is_empty() {
            return None;
        }
        let (state, seen) = judge::judge(requirement, computer)?;
        let (blocks, hampers) = match state {
            State::Missing => (needed, useful),
            State::Weak => (Vec::new(), [needed, useful].concat()),
            State::NotProven | State::Ok => (Vec::new(), Vec::new()),
        };
        let packages = match state {
            State::Missing => packages(requirement, computer),
            State::Weak | State::NotProven | State::Ok => Vec::new(),
        };
        Some(Diagnosis {
            requirement: requirement.id.clone(),
            title: requirement.title.clone(),
            purpose: requirement.purpose.clone(),
            remedy: remedy(requirement, state, &packages),
            state,
            seen,
            blocks,
            hampers,
            packages,
        })
    };
    requirements.iter().filter_map(diagnose).collect()
}

/// The packages of this distribution that bring what is missing.
fn packages(requirement: &Requirement, computer: &Computer) -> Vec<String> {
    let family = computer.system.family;
    let packages = family.and_then(|family| requirement.packages.get(&family));
    let packages = packages.cloned().unwrap_or_default();
    match &requirement.look {
        Look::Toolchain { minimum, .. }
            if packages
                .iter()
                .any(|package| is_too_old(package, minimum, computer)) =>
        {
            Vec::new()
        }
        _ => packages,
    }
}

/// Whether a package is known to bring an older version than needed.
fn is_too_old(package: &str, minimum: &Number, computer: &Computer) -> bool {
    let offered = computer.candidates.get(package);
    offered
        .is_some_and(|offered| judge::version_in(offered).is_none_or(|version| version < *minimum))
}

fn remedy(requirement: &Requirement, state: State, packages: &[String]) -> Option<String> {
    let title = &requirement.title;
    let own = requirement.remedy.as_deref();
    Some(match (&requirement.look, state, packages) {
        (_, State::Ok, _) => return None,
        (Look::Accelerator(accelerator), State::NotProven, _) => {
            format!("install `{}`, then look again", accelerator.program)
        }
        (Look::Toolchain { minimum, .. }, State::Missing, []) => {
            let by_hand = own.unwrap_or("install it by hand");
            format!(
                "it takes {title} {minimum} or newer, which no package here is known to bring: {by_hand}"
            )
        }
        (_, _, []) => own.map_or_else(
            || format!("install {title}; no package of this distribution is known for it"),
            str::to_owned,
        ),
        (_, _, packages) => format!("install {}", quoted(packages)),
    })
}

/// Names in back-ticks, with commas between.
pub(super) fn quoted<Name: AsRef<str>>(names: impl IntoIterator<Item = Name>) -> String {
    let names: Vec<_> = names
        .into_iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
