//! `mullion plan`: what would change, and why.

use std::path::Path;
use std::time::Duration;

use mullion_catalog::{Judgement, Model};
use mullion_plan::{
    Documents, MachineKinds, Observed, ObstacleClass, Plan, SavedPlan, Took, Wanted,
    plan as planned,
};
use mullion_rights::Opened;
use mullion_rights::read_record;
use schemars::JsonSchema;
use serde::Serialize;

use super::up::plan_now;
use super::validate::{refuse, tell};
use crate::arguments::PlanArguments;
use crate::console::{BAD, Console, Format};
use crate::environment::Environment;
use crate::failure::{Class, Failure, indented};
use crate::output_file::{self, Readers, Replace};
use crate::views::diff::{self, PlanDiff};
use crate::views::findings::{FindingRow, Validation};
use crate::views::plan::Detail;
use crate::views::reads::{self, ReadRow};
use crate::views::{graph, plan as view};
use crate::{saved_plan, workshop};

/// Facts of ten thousand machines take a few megabytes.
const MOST_FACTS: u64 = 1 << 30;

/// The exit code of `--detailed-exitcode` when something would change.
const CHANGES: u8 = 8;

/// A plan, with the cluster it is for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument<'a> {
    /// The cluster.
    pub cluster: String,
    /// The exact Kubernetes.
    pub kubernetes: String,
    /// How long it may take by what earlier runs took, in seconds; none where nothing is known.
    pub estimate_seconds: Option<u64>,
    /// What is worth knowing about the file: warnings and notes.
    pub findings: Vec<FindingRow>,
    /// The files and environment variables that the run reads because the cluster file names them, the variables that
    /// lead downloads or machines elsewhere, and the mirror whose own word the run takes.
    pub reads: Vec<ReadRow>,
    /// What the steps change, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<PlanDiff>,
    /// The plan itself.
    #[serde(flatten)]
    pub plan: &'a Plan,
}

/// Says what would change.
pub fn plan(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &PlanArguments,
    environment: &Environment,
    detail: Detail,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    if console.format == Format::Text {
        tell(console, &judgement.verdict)?;
    }
    let written: Vec<_> = [&wishes.out, &wishes.graph]
        .into_iter()
        .flatten()
        .map(|path| environment.folder.join(path))
        .collect();
    let read = environment.folder.join(judgement.verdict.source.name());
    let files: Vec<_> = std::iter::once(&read)
        .chain(&written)
        .map(std::path::PathBuf::as_path)
        .collect();
    output_file::all_different(&files)?;
    let mut differences = None;
    let mut saved = None;
    let plan = if let Some(facts) = wishes.facts.as_deref() {
        let observed = recorded(facts, environment)?;
        let wanted = Wanted {
            contents: workshop::texts(model, environment)?,
            ..Wanted::of(model)
        };
        let documents = Documents::render(model, &wanted, &observed);
        planned(&wanted, &observed, &documents)
    } else {
        let adapter = workshop::open(model, environment)?;
        let (_, observed, plan) = plan_now(&adapter, model)?;
        differences = wishes.diff.then(|| adapter.differences(&plan, &observed));
        if wishes.out.is_some() {
            let text = judgement.verdict.source.text();
            saved = Some(saved_plan::of(&plan, &adapter, text)?);
        }
        plan
    };
    let took = durations(&environment.state)?;
    let content = PlanDocument {
        cluster: model.cluster().name.to_string(),
        kubernetes: model.kubernetes().version.to_string(),
        estimate_seconds: whole_seconds(
            took.estimate(&plan, &MachineKinds::of(model.cluster()))
                .longest,
        ),
        findings: Validation::new(&judgement.verdict).findings,
        reads: reads::reads(model.cluster(), environment),
        diff: differences.as_ref().map(PlanDiff::new),
        plan: &plan,
    };
    // A plan that something is in the way of has no steps to run.
    let saved = saved.filter(|_| plan.obstacles().is_empty());
    write_files(&content, saved.as_ref(), wishes, environment)?;
    match console.format {
        Format::Json => console.json("Plan", &content)?,
        Format::Text => {
            show(console, model, &content, (&took, detail), wishes)?;
            if let Some(differences) = &differences {
                let text = diff::plan_text(differences, console.out_colour);
                console.out.write_all(text.as_bytes())?;
            }
        }
    }
    if !plan.obstacles().is_empty() {
        return Ok(obstructed(&plan));
    }
    Ok(if wishes.detailed_exitcode && !plan.is_empty() {
        CHANGES
    } else {
        0
    })
}

/// Facts that were written down.
fn recorded(path: &Path, environment: &Environment) -> Result<Observed, Failure> {
    let read = Opened::by_invoker(environment.folder.join(path));
    let text = read
        .and_then(|file| file.text(MOST_FACTS))
        .map_err(|error| {
            Failure::new(
                Class::Usage,
                format!("the facts in `{}` cannot be read", path.display()),
            )
            .because(&error)
        })?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(
            Class::Usage,
            format!("`{}` does not hold facts", path.display()),
        )
        .because(&error)
        .hint("facts are JSON; their form is in docs/reference/facts.schema.json of the project")
    })
}

/// How long steps took in earlier runs, where there were any.
fn durations(state: &Path) -> Result<Took, Failure> {
    let path = state.join("timings.json");
    match read_record(&path) {
        Ok(Some(text)) => serde_json::from_slice(&text).map_err(|error| {
            Failure::new(
                Class::ThisComputer,
                format!("`{}` does not hold durations", path.display()),
            )
            .because(&error)
            .hint("remove the file; it is written anew")
        }),
        Ok(None) => Ok(Took::default()),
        Err(error) => Err(Failure::new(
            Class::ThisComputer,
            "the durations of earlier runs cannot be read",
        )
        .because(&error)),
    }
}

/// Whose move an obstacle is.
const fn class(class: ObstacleClass) -> Class {
    match class {
        ObstacleClass::File => Class::File,
        ObstacleClass::ThisComputer => Class::ThisComputer,
        ObstacleClass::Machine => Class::Machine,
        ObstacleClass::OurFault => Class::OurBug,
    }
}

/// An estimate worth telling.
fn whole_seconds(longest: Duration) -> Option<u64> {
    (!longest.is_zero()).then_some(longest.as_secs())
}

fn write_files(
    content: &PlanDocument<'_>,
    saved: Option<&SavedPlan>,
    wishes: &PlanArguments,
    environment: &Environment,
) -> Result<(), Failure> {
    if let (Some(path), Some(saved)) = (&wishes.out, saved) {
        saved_plan::write(&environment.folder, path, saved)?;
    }
    if let Some(path) = &wishes.graph {
        let picture = graph::svg(content.plan);
        write(&environment.folder, path, &picture)?;
    }
    Ok(())
}

fn show(
    console: &mut Console<'_>,
    model: &Model,
    content: &PlanDocument<'_>,
    (took, detail): (&Took, Detail),
    wishes: &PlanArguments,
) -> Result<(), Failure> {
    let plan = content.plan;
    show_obstacles(console, plan)?;
    if plan.obstacles().is_empty() {
        let text = view::text(plan, model, took, detail, console.out_colour);
        console.out.write_all(text.as_bytes())?;
    }
    let read = reads::text(&content.reads);
    if !read.is_empty() {
        write!(console.out, "\n{read}")?;
    }
    let is_saved = plan.obstacles().is_empty();
    let out = wishes.out.as_ref().filter(|_| is_saved);
    for (path, what) in [(out, "the plan"), (wishes.graph.as_ref(), "the picture")] {
        if let Some(path) = path {
            writeln!(console.err, "wrote {what} to {}", path.display())?;
        }
    }
    Ok(())
}

/// The exit code of a plan that something is in the way of.
pub fn obstructed(plan: &Plan) -> u8 {
    let classes = plan
        .obstacles()
        .iter()
        .map(|obstacle| class(obstacle.class()));
    classes.max().map_or(0, Class::exit_code)
}

/// Tells what is in the way.
pub fn show_obstacles(console: &mut Console<'_>, plan: &Plan) -> Result<(), Failure> {
    for obstacle in plan.obstacles() {
        let code = obstacle.rule().map(|rule| format!("[{}]", rule.code));
        let error = console.styled_err(BAD, &format!("error{}", code.unwrap_or_default()));
        writeln!(
            console.err,
            "{error}: {}\n\nhint: {}",
            indented(&obstacle.words()),
            indented(&obstacle.hint())
        )?;
    }
    Ok(())
}

fn write(folder: &Path, path: &Path, text: &str) -> Result<(), Failure> {
    output_file::write(folder, path, text, Replace::Allowed, Readers::Owner).map_err(|error| {
        Failure::new(
            Class::ThisComputer,
            format!("`{}` could not be written", path.display()),
        )
        .because(&error)
    })
}
