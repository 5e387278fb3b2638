//! Saved plans: written for whoever wants to run exactly what was shown, and read again as what anybody may have changed.

use std::path::Path;

use mullion_live::Adapter;
use mullion_plan::{Plan, SavedPlan, Unrunnable};
use mullion_rights::Opened;
use mullion_wire::Sha256Digest;

use crate::console::visible;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::output_file::{self, Readers, Replace};

/// A plan of a thousand machines takes some ten megabytes.
const MOST: u64 = 256 << 20;

/// The plan with its documents, as it is saved.
pub fn of(plan: &Plan, adapter: &Adapter<'_>, text: &str) -> Result<SavedPlan, Failure> {
    let id = adapter.cluster_id().map_err(|error| {
        Failure::new(Class::ThisComputer, "the cluster's id cannot be read").because(&error)
    })?;
    let cluster = adapter.cluster_name().as_str();
    let programs = adapter.programs_of(plan);
    let named = adapter.contents().into_iter();
    let named = named.map(|(path, content)| (path.display().to_string(), content.sha256()));
    let file = ("cluster file".to_owned(), Sha256Digest::of(text.as_bytes()));
    let inputs = named.chain([file]).collect();
    Ok(SavedPlan::of(
        plan,
        VERSION,
        (cluster, id),
        (inputs, programs),
    ))
}

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes a plan to a file that its owner alone may read.
pub fn write(folder: &Path, path: &Path, plan: &SavedPlan) -> Result<(), Failure> {
    let unwritten = |error: &dyn std::error::Error| {
        let words = format!("`{}` could not be written", path.display());
        Failure::new(Class::ThisComputer, words).because(error)
    };
    let text = serde_json::to_string_pretty(plan).map_err(|error| unwritten(&error))?;
    let mut text = visible(&text);
    text.push('\n');
    output_file::write(folder, path, &text, Replace::Allowed, Readers::Owner)
        .map_err(|error| unwritten(&error))
}

/// Reads a plan for a cluster, before anything else is done for it.
pub fn open(path: &Path, environment: &Environment, cluster: &str) -> Result<SavedPlan, Failure> {
    let saved = read(&environment.folder.join(path)).map_err(|error| {
        let words = format!("the plan in `{}` cannot be run", path.display());
        Failure::new(Class::Usage, words).because(&*error).hint(
            "save a plan with `mullion plan --out FILE`; nobody else may write or read the file",
        )
    })?;
    let is_of = saved.is_of(VERSION, cluster);
    is_of.map_err(|why| refused(path, &why))?;
    Ok(saved)
}

/// Refuses a plan that is not the one that was saved.
pub fn hold(path: &Path, saved: &SavedPlan, now: &SavedPlan) -> Result<(), Failure> {
    saved.is_still(now).map_err(|why| refused(path, &why))
}

fn refused(path: &Path, why: &Unrunnable) -> Failure {
    let words = format!("the plan in `{}` was not run", path.display());
    let mut failure = Failure::new(Class::Machine, words).because(why);
    if let Unrunnable::Changed(lines) = why {
        failure.causes.push(lines.join("\n"));
    }
    failure.hint("look at the new plan with `mullion plan`, and save it again with `--out`")
}

fn read(path: &Path) -> Result<SavedPlan, Box<dyn std::error::Error>> {
    let file = Opened::by_invoker(path)?;
    file.private()?;
    Ok(serde_json::from_slice(&file.bytes(MOST)?)?)
}
