//! A run as a person reads it: what it will do, what came of it, what to type next.

use std::fmt::Write as _;
use std::time::Duration;

use mullion_catalog::Model;
use mullion_engine::{Report, RunOutcome};
use mullion_plan::Plan;
use mullion_spec::value::ClusterName;
use mullion_spec::words::Os;
use schemars::JsonSchema;
use serde::Serialize;

use super::findings::plural;
use super::progress::short;
use crate::console::{BAD, Console, FAINT, Format, GOOD, STRONG};
use crate::failure::{Class, Failure};
use crate::invocation::Invocation;

/// The exit code of a run that was called off.
pub const INTERRUPTED: u8 = 130;

/// A run, with the cluster it is about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDocument<'a> {
    /// The cluster.
    pub cluster: String,
    /// Whether anything was to be done.
    pub changed: bool,
    /// What came of it; nothing where nothing was to be done.
    pub report: Option<&'a Report>,
}

/// Says what is about to happen.
pub fn begin(
    console: &mut Console<'_>,
    model: &Model,
    plan: &Plan,
    round: usize,
) -> Result<(), Failure> {
    let cluster = model.cluster();
    if round > 0 {
        writeln!(
            console.err,
            "\nsome things could only be seen now: {}",
            plural(plan.steps().len(), "more step")
        )?;
        return Ok(());
    }
    let count = |os: Os| {
        cluster
            .machines()
            .filter(|machine| machine.group.system.os() == os)
            .count()
    };
    let mut machines = Vec::new();
    for (os, word) in [
        (Os::Linux, "Linux machine"),
        (Os::Windows, "Windows machine"),
    ] {
        if count(os) > 0 {
            machines.push(plural(count(os), word));
        }
    }
    let name = console.styled_err(STRONG, cluster.name.as_str());
    writeln!(
        console.err,
        "{name}: Kubernetes {}, {}; {}",
        model.kubernetes().version,
        machines.join(", "),
        plural(plan.steps().len(), "step"),
    )?;
    let stages = mullion_plan::STAGES.iter().filter_map(|row| {
        let steps = plan
            .steps()
            .iter()
            .filter(|step| step.stage == row.stage)
            .count();
        (steps > 0).then(|| format!("  {:<14} {} ({steps})", row.word, row.title))
    });
    for line in stages {
        writeln!(console.err, "{}", console.styled_err(FAINT, &line))?;
    }
    Ok(())
}

/// Says that nothing was to be done.
pub fn nothing(console: &mut Console<'_>, model: &Model) -> Result<(), Failure> {
    let cluster = &model.cluster().name;
    match console.format {
        Format::Json => console.json(
            "Run",
            &RunDocument {
                cluster: cluster.to_string(),
                changed: false,
                report: None,
            },
        )?,
        Format::Text => writeln!(
            console.out,
            "nothing to do: cluster `{cluster}` is as the file says"
        )?,
    }
    Ok(())
}

/// Says what came of a run.
pub fn end(
    console: &mut Console<'_>,
    model: &Model,
    report: &Report,
    invocation: Invocation<'_>,
) -> Result<(), Failure> {
    let cluster = &model.cluster().name;
    if console.format == Format::Json {
        let document = RunDocument {
            cluster: cluster.to_string(),
            changed: true,
            report: Some(report),
        };
        return Ok(console.json("Run", &document)?);
    }
    let text = stages(report);
    console.err.write_all(text.as_bytes())?;
    if report.outcome == RunOutcome::Done {
        let good = console.styled_err(GOOD, "done");
        let took = short(Duration::from_millis(report.took_ms));
        writeln!(
            console.err,
            "\n{good}: cluster `{cluster}` is up after {took}\n\nnext:"
        )?;
        console
            .err
            .write_all(proposals(cluster, invocation).as_bytes())?;
    } else {
        let bad = console.styled_err(BAD, "error");
        console.err.write_all(failures(report, &bad).as_bytes())?;
    }
    Ok(())
}

/// What may be typed next, a line each.
fn proposals(cluster: &ClusterName, invocation: Invocation<'_>) -> String {
    let proposals = [
        (
            &["status"][..],
            "machines, nodes and what differs from the file",
        ),
        (&["kubectl", "get", "pods", "-A"], "what runs"),
        (&["down"], "remove everything again"),
    ]
    .map(|(words, what)| (invocation.next(cluster, words), what));
    let longest = proposals.iter().map(|(command, _)| command.len()).max();
    let width = longest.unwrap_or_default();
    let lines = proposals
        .iter()
        .map(|(command, what)| format!("  {command:<width$}  {what}\n"));
    lines.collect()
}

/// The times of all stages.
fn stages(report: &Report) -> String {
    let mut out = String::from("\nstage          steps    time\n");
    for stage in &report.stages {
        let steps = if stage.done == stage.steps {
            stage.steps.to_string()
        } else {
            format!("{}/{}", stage.done, stage.steps)
        };
        let time = short(Duration::from_millis(stage.wall_ms));
        let _ = writeln!(out, "{:<14} {steps:>5} {time:>10}", stage.stage);
    }
    let _ = writeln!(
        out,
        "{:<14} {:>5} {:>10}",
        "together",
        report.steps.len(),
        short(Duration::from_millis(report.took_ms))
    );
    out
}

/// What failed, where, why, the last lines, what to do, and where to read on.
fn failures(report: &Report, bad: &str) -> String {
    let mut out = String::new();
    for cause in &report.causes {
        let machine = cause
            .tag
            .machine
            .as_ref()
            .map_or(String::new(), |name| format!(" on {name}"));
        let _ = writeln!(
            out,
            "\n{bad}: {}{machine} (stage {}): {}",
            cause.tag.title, cause.tag.stage, cause.error.words
        );
        for because in &cause.error.causes {
            let _ = writeln!(out, "  because: {because}");
        }
        if !cause.error.tail.is_empty() {
            let _ = writeln!(out, "  last lines:");
            for line in &cause.error.tail {
                let _ = writeln!(out, "    {line}");
            }
        }
        if !cause.blocks.is_empty() {
            let _ = writeln!(
                out,
                "  blocked by this: {}",
                plural(cause.blocks.len(), "step")
            );
        }
        for hint in &cause.error.hints {
            let _ = writeln!(out, "hint: {hint}");
        }
    }
    let _ = writeln!(out);
    match report.outcome {
        RunOutcome::Cancelled => {
            let _ = writeln!(
                out,
                "called off; everything that was begun is either done or taken up again by the next run"
            );
        }
        RunOutcome::JournalLost => {
            let trouble = report
                .journal_trouble
                .as_deref()
                .unwrap_or("it is not known why");
            let _ = writeln!(
                out,
                "{bad}: the journal could not be written any more: {trouble}"
            );
        }
        _ => {}
    }
    if let Some(again) = &report.go_on {
        let _ = writeln!(out, "go on with: {again}");
    }
    if let Some(journal) = &report.journal {
        let _ = writeln!(out, "journal: {}", journal.display());
    }
    out
}

/// The exit code of a run.
pub fn exit_code(report: &Report) -> u8 {
    match report.outcome {
        RunOutcome::Done => 0,
        RunOutcome::Cancelled => INTERRUPTED,
        RunOutcome::JournalLost => Class::ThisComputer.exit_code(),
        _ => class(report).exit_code(),
    }
}

/// Whose move it is after a run that failed.
fn class(report: &Report) -> Class {
    let of_cause = |cause: &mullion_engine::Cause| match (cause.error.class, &cause.tag.machine) {
        (mullion_engine::FailureClass::Bug, _) => Class::OurBug,
        (_, None) if cause.tag.stage <= mullion_plan::Stage::Hosts => Class::ThisComputer,
        _ => Class::Machine,
    };
    report
        .causes
        .iter()
        .map(of_cause)
        .max()
        .unwrap_or(Class::Machine)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn what_is_proposed_repeats_the_file_that_was_named() {
        let arguments = ["mullion", "-f", "lab.yaml", "up"].map(OsString::from);
        let global = Arguments::try_parse_from(&arguments).unwrap().global;
        let invocation = Invocation::new(&arguments, &global);
        assert_eq!(
            proposals(&"lab".parse().unwrap(), invocation),
            "  mullion -f lab.yaml status               machines, nodes and what differs from the file\n\
             \x20 mullion -f lab.yaml kubectl get pods -A  what runs\n\
             \x20 mullion -f lab.yaml down                 remove everything again\n"
        );
    }
}
