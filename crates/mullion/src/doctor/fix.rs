//! What to type to get what is missing, and doing it.

use std::path::Path;
use std::time::Duration;

use mullion_catalog::{PackageManager, Requirement};

use super::examine::Diagnosis;
use super::probe::programs::{Answer, Programs, Question};
use crate::console::Console;
use crate::failure::{Class, Failure};

/// How long one command may take: a slow mirror is slow, and never is.
const PATIENCE: Duration = Duration::from_mins(30);

/// How much of a failed command's output is shown.
const LINES: usize = 20;

/// A command as words, the program first.
pub(super) type Words = Vec<String>;

/// The commands that install what is missing, in order; none where no package helps.
pub(super) fn commands(
    diagnoses: &[Diagnosis],
    requirements: &[Requirement],
    manager: &PackageManager,
) -> Vec<Words> {
    let mut together: Vec<String> = Vec::new();
    let mut apart: Vec<Vec<String>> = Vec::new();
    for diagnosis in diagnoses
        .iter()
        .filter(|diagnosis| !diagnosis.packages.is_empty())
    {
        let is_apart = requirements
            .iter()
            .any(|requirement| requirement.id == diagnosis.requirement && requirement.apart);
        if is_apart {
            apart.push(diagnosis.packages.clone());
        } else {
            for package in &diagnosis.packages {
                if !together.contains(package) {
                    together.push(package.clone());
                }
            }
        }
    }
    let groups: Vec<_> = [together]
        .into_iter()
        .filter(|group| !group.is_empty())
        .chain(apart)
        .collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let installs = groups
        .into_iter()
        .map(|group| [manager.install.clone(), group].concat());
    manager.refresh.iter().cloned().chain(installs).collect()
}

/// What a person types to run a command.
pub(super) fn typed(words: &[String], is_root: bool) -> String {
    let sudo = if is_root { "" } else { "sudo " };
    format!("{sudo}{}", words.join(" "))
}

/// Runs one command to its end, and tells of it on standard error.
pub(super) fn run(
    console: &mut Console<'_>,
    programs: &dyn Programs,
    manager: &PackageManager,
    words: &[String],
) -> Result<(), Failure> {
    let shown = words.join(" ");
    writeln!(console.err, "running `{shown}`")?;
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let answer = programs.ask(&Question {
        program: Path::new(program),
        arguments,
        environment: &manager.environment,
        deadline: PATIENCE,
    });
    let failed = |how: &str| Failure::new(Class::ThisComputer, format!("`{shown}` {how}"));
    match answer {
        Answer::Exited {
            status: Some(0), ..
        } => Ok(()),
        Answer::Exited {
            status,
            output,
            complaint,
        } => {
            let how = status.map_or_else(
                || "was ended by a signal".into(),
                |status| format!("failed with status {status}"),
            );
            let mut failure =
                failed(&how).hint(format!("run it yourself to see all it says: `{shown}`"));
            let said: Vec<_> = output
                .lines()
                .chain(complaint.lines())
                .filter(|line| !line.trim().is_empty())
                .collect();
            failure.causes = said[said.len().saturating_sub(LINES)..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect();
            Err(failure)
        }
        Answer::TooSlow => Err(failed(&format!(
            "did not end in {} minutes",
            PATIENCE.as_secs() / 60
        ))
        .hint("see whether the package mirror can be reached")),
        Answer::NotStarted(why) => {
            let mut failure = failed("could not be started");
            failure.causes.push(why);
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests;
