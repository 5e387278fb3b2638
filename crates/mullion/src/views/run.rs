//! A run as a person reads it: what it will do, what came of it, what to type next.

use std::fmt::Write as _;
use std::time::Duration;

use mullion_catalog::{Catalog, Model};
use mullion_engine::{Report, RunOutcome, stand_in_mark};
use mullion_plan::{Obstacle, Plan, Stage};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::Os;
use mullion_wire::duration;
use mullion_wire::text::visible;
use schemars::JsonSchema;
use serde::Serialize;

use super::findings::plural;
use crate::commands::plan::show_obstacles;
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
    /// How many steps of the plan were left out, since only a part of it was asked for.
    pub left_out: usize,
    /// What came of it; nothing where nothing was to be done.
    pub report: Option<&'a Report>,
    /// What is in the way, so that nothing was begun.
    pub obstacles: &'a [Obstacle],
}

impl<'a> RunDocument<'a> {
    /// Of a run of the whole plan, which nothing was in the way of.
    fn of(model: &Model, report: Option<&'a Report>) -> Self {
        Self {
            cluster: model.cluster().name.to_string(),
            changed: report.is_some(),
            left_out: 0,
            report,
            obstacles: &[],
        }
    }
}

/// Which part of a plan a run was for.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Only these machines or groups; all of them where none is named.
    pub only: &'a [String],
    /// The last stage; all of them where none is named.
    pub until: Option<Stage>,
    /// How many steps were left out.
    pub left_out: usize,
    /// Whether suites are among them.
    pub leaves_suites: bool,
    /// Whether the steps look, and change nothing.
    pub only_looks: bool,
}

impl Part<'_> {
    /// All of it.
    pub const WHOLE: Part<'static> = Part {
        only: &[],
        until: None,
        left_out: 0,
        leaves_suites: false,
        only_looks: false,
    };

    /// How far it went, where that is not all the way.
    fn extent(&self) -> Option<String> {
        if self.left_out == 0 {
            return None;
        }
        let only = (!self.only.is_empty()).then(|| format!("for {} only", self.only.join(", ")));
        let until = self
            .until
            .map(|stage| format!("as far as stage `{}`", stage.row().word));
        let words: Vec<_> = only.into_iter().chain(until).collect();
        Some(words.join(", "))
    }

    /// What was not done, and how to do it.
    fn rest(&self, again: &str) -> String {
        let verb = if self.left_out == 1 { "was" } else { "were" };
        let steps = plural(self.left_out, "step");
        let unproven = if self.leaves_suites && !self.only_looks {
            ", and the cluster is not proven"
        } else {
            ""
        };
        format!("{steps} {verb} left out{unproven}: `{again}` goes on")
    }
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
        return commands(console, plan);
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
    commands(console, plan)
}

/// Says which commands of the file will run as root, and where, each once.
fn commands(console: &mut Console<'_>, plan: &Plan) -> Result<(), Failure> {
    let mut machines: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    for step in plan.steps() {
        let on = step.machine.as_ref().map_or("", MachineName::as_str);
        for command in step.action.commands() {
            let key = (step.action.kind().word(), command.run.as_str());
            match machines.iter_mut().find(|(known, _)| *known == key) {
                Some((_, names)) => names.push(on),
                None => machines.push((key, vec![on])),
            }
        }
    }
    for ((list, run), names) in machines {
        writeln!(
            console.err,
            "  runs `{}` (from `{list}`) on {}",
            visible(run),
            names.join(", ")
        )?;
    }
    Ok(())
}

/// Says that nothing was to be done.
pub fn nothing(
    console: &mut Console<'_>,
    model: &Model,
    part: Part<'_>,
    invocation: Invocation<'_>,
) -> Result<(), Failure> {
    let cluster = &model.cluster().name;
    if console.format == Format::Json {
        let document = RunDocument {
            left_out: part.left_out,
            ..RunDocument::of(model, None)
        };
        return Ok(console.json("Run", &document)?);
    }
    match part.extent() {
        None => writeln!(
            console.out,
            "nothing to do: cluster `{cluster}` is as the file says"
        )?,
        Some(extent) => writeln!(
            console.out,
            "nothing to do {extent}: cluster `{cluster}` is as the file says so far; {}",
            part.rest(&invocation.next(cluster, &["up"]))
        )?,
    }
    Ok(())
}

/// Says that nothing of a cluster is left; `report` is of its removal, where there was anything to remove.
pub fn gone(
    console: &mut Console<'_>,
    model: &Model,
    report: Option<&Report>,
) -> Result<(), Failure> {
    let cluster = &model.cluster().name;
    if console.format == Format::Json {
        return Ok(console.json("Run", &RunDocument::of(model, report))?);
    }
    let what = match report {
        Some(_) => "nothing is left",
        None => "there was nothing to remove",
    };
    Ok(writeln!(console.err, "cluster `{cluster}`: {what}")?)
}

/// Says what is in the way; `report` is of what was done before it was seen.
pub fn obstructed(
    console: &mut Console<'_>,
    model: &Model,
    plan: &Plan,
    report: Option<&Report>,
) -> Result<(), Failure> {
    if console.format == Format::Json {
        let document = RunDocument {
            obstacles: plan.obstacles(),
            ..RunDocument::of(model, report)
        };
        return Ok(console.json("Run", &document)?);
    }
    show_obstacles(console, plan)
}

/// Says what came of a run.
pub fn end(
    console: &mut Console<'_>,
    model: &Model,
    report: &Report,
    part: Part<'_>,
    invocation: Invocation<'_>,
) -> Result<(), Failure> {
    let cluster = &model.cluster().name;
    if console.format == Format::Json {
        let document = RunDocument {
            left_out: part.left_out,
            ..RunDocument::of(model, Some(report))
        };
        return Ok(console.json("Run", &document)?);
    }
    let text = stages(report);
    console.err.write_all(text.as_bytes())?;
    if report.outcome == RunOutcome::Done {
        let good = console.styled_err(GOOD, "done");
        let took = Duration::from_millis(report.took_ms);
        let text = done(cluster, took, part, invocation);
        if let Some(mark) = stand_in_mark(&Catalog::builtin().stand_ins(model.cluster())) {
            write!(console.err, "\n{mark}\n")?;
        }
        write!(console.err, "\n{good}: {text}")?;
    } else {
        let bad = console.styled_err(BAD, "error");
        console.err.write_all(failures(report, &bad).as_bytes())?;
    }
    Ok(())
}

/// What a run that did all of its part came to, and what may be typed next.
fn done(
    cluster: &ClusterName,
    took: Duration,
    part: Part<'_>,
    invocation: Invocation<'_>,
) -> String {
    let took = duration::shown(took);
    let status = (
        &["status"][..],
        "machines, nodes and what differs from the file",
    );
    let down = (&["down"][..], "remove everything again");
    let Some(extent) = part.extent() else {
        let pods = (&["kubectl", "get", "pods", "-A"][..], "what runs");
        let next = proposals(cluster, invocation, &[status, pods, down]);
        return format!("cluster `{cluster}` is up after {took}\n\nnext:\n{next}");
    };
    let did = if part.only_looks {
        format!("looked at cluster `{cluster}` {extent}, and changed nothing")
    } else {
        format!("worked on cluster `{cluster}` {extent}")
    };
    let up = (&["up"][..], "go on with the rest");
    let rest = part.rest(&invocation.next(cluster, &["up"]));
    let next = proposals(cluster, invocation, &[up, status, down]);
    format!("{did}, in {took}\n{rest}\n\nnext:\n{next}")
}

/// What may be typed next, a line each.
fn proposals(
    cluster: &ClusterName,
    invocation: Invocation<'_>,
    proposals: &[(&[&str], &str)],
) -> String {
    let commands = proposals
        .iter()
        .map(|(words, what)| (invocation.next(cluster, words), what));
    let commands: Vec<_> = commands.collect();
    let longest = commands.iter().map(|(command, _)| command.len()).max();
    let width = longest.unwrap_or_default();
    let lines = commands
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
        let time = duration::shown(Duration::from_millis(stage.wall_ms));
        let _ = writeln!(out, "{:<14} {steps:>5} {time:>10}", stage.stage);
    }
    let _ = writeln!(
        out,
        "{:<14} {:>5} {:>10}",
        "together",
        report.steps.len(),
        duration::shown(Duration::from_millis(report.took_ms))
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

    fn done_after(typed: &[&str], part: Part<'_>) -> String {
        let arguments: Vec<_> = typed.iter().map(OsString::from).collect();
        let global = Arguments::try_parse_from(&arguments).unwrap().global;
        let invocation = Invocation::new(&arguments, &global, None);
        let took = Duration::from_secs(75);
        done(&"lab".parse().unwrap(), took, part, invocation)
    }

    #[test]
    fn what_is_proposed_repeats_the_file_that_was_named() {
        assert_eq!(
            done_after(&["mullion", "-f", "lab.yaml", "up"], Part::WHOLE),
            "cluster `lab` is up after 1 min 15 s\n\nnext:\n\
             \x20 mullion -f lab.yaml status               machines, nodes and what differs from the file\n\
             \x20 mullion -f lab.yaml kubectl get pods -A  what runs\n\
             \x20 mullion -f lab.yaml down                 remove everything again\n"
        );
    }

    #[test]
    fn a_part_is_not_called_a_cluster_that_is_up() {
        let only = ["lin1".to_owned(), "win".to_owned()];
        let part = Part {
            only: &only,
            until: Some(Stage::Machines),
            left_out: 14,
            leaves_suites: true,
            only_looks: false,
        };
        assert_eq!(
            done_after(&["mullion", "up"], part),
            "worked on cluster `lab` for lin1, win only, as far as stage `machines`, in 1 min 15 s\n\
             14 steps were left out, and the cluster is not proven: `mullion up` goes on\n\nnext:\n\
             \x20 mullion up      go on with the rest\n\
             \x20 mullion status  machines, nodes and what differs from the file\n\
             \x20 mullion down    remove everything again\n"
        );
        let looked = Part {
            only: &[],
            until: Some(Stage::Inspect),
            left_out: 1,
            leaves_suites: true,
            only_looks: true,
        };
        let text = done_after(&["mullion", "up"], looked);
        assert!(
            text.starts_with(
                "looked at cluster `lab` as far as stage `inspect`, and changed nothing, in 1 min 15 s\n\
                 1 step was left out: `mullion up` goes on\n"
            ),
            "{text}"
        );
        // Where the part was all that there was to do, the cluster is as the file says.
        let all = Part {
            until: Some(Stage::Verify),
            ..Part::WHOLE
        };
        assert!(done_after(&["mullion", "up"], all).starts_with("cluster `lab` is up"));
    }
}
