//! `mullion plan`: what would change, and why.

use std::io::ErrorKind;
use std::path::Path;

use mullion_catalog::{Judgement, Model};
use mullion_plan::{Discover as _, Observed, Plan, Took, Wanted, plan as planned};
use schemars::JsonSchema;
use serde::Serialize;

use super::validate::{exit_code, tell};
use crate::arguments::PlanArguments;
use crate::console::{BAD, Console, Format, document};
use crate::discover::ThisComputer;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::surroundings;
use crate::views::findings::Validation;
use crate::views::{graph, plan as view};

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
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        match console.format {
            Format::Json => console.json("Validation", &Validation::new(&judgement.verdict))?,
            Format::Text => tell(console, &judgement.verdict)?,
        }
        return Ok(exit_code(&judgement.verdict));
    };
    if console.format == Format::Text {
        tell(console, &judgement.verdict)?;
    }
    let observed = observe(model, wishes.facts.as_deref(), environment)?;
    let plan = planned(&Wanted::of(model), &observed);
    let took = durations(&environment.state)?;
    show(console, model, &plan, &took, wishes, environment)?;
    if !plan.obstacles().is_empty() {
        return Ok(Class::Machine.exit_code());
    }
    Ok(if wishes.detailed_exitcode && !plan.is_empty() {
        CHANGES
    } else {
        0
    })
}

fn observe(
    model: &Model,
    facts: Option<&Path>,
    environment: &Environment,
) -> Result<Observed, Failure> {
    let Some(path) = facts else {
        let computer = ThisComputer {
            surroundings: surroundings::read(),
        };
        return computer.observe(model.cluster()).map_err(|error| {
            Failure::new(Class::ThisComputer, "this computer could not be looked at")
                .because(&error)
        });
    };
    let text = fs_err::read_to_string(environment.folder.join(path)).map_err(|error| {
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
    match fs_err::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| {
            Failure::new(
                Class::ThisComputer,
                format!("`{}` does not hold durations", path.display()),
            )
            .because(&error)
            .hint("remove the file; it is written anew")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Took::default()),
        Err(error) => Err(Failure::new(
            Class::ThisComputer,
            "the durations of earlier runs cannot be read",
        )
        .because(&error)),
    }
}

fn show(
    console: &mut Console<'_>,
    model: &Model,
    plan: &Plan,
    took: &Took,
    wishes: &PlanArguments,
    environment: &Environment,
) -> Result<(), Failure> {
    let estimate = took.estimate(plan);
    let content = PlanDocument {
        cluster: model.cluster().name.to_string(),
        kubernetes: model.kubernetes().version.to_string(),
        estimate_seconds: (estimate.longest.as_millis() > 0).then_some(estimate.longest.as_secs()),
        plan,
    };
    if let Some(path) = &wishes.out {
        let text = document("Plan", &content).map_err(std::io::Error::from)?;
        write(&environment.folder.join(path), path, &text)?;
    }
    if let Some(path) = &wishes.graph {
        write(&environment.folder.join(path), path, &graph::svg(plan))?;
    }
    if console.format == Format::Json {
        return Ok(console.json("Plan", &content)?);
    }
    for obstacle in plan.obstacles() {
        let error = console.styled_err(BAD, "error");
        writeln!(
            console.err,
            "{error}: {}\n\nhint: {}",
            obstacle.words(),
            obstacle.hint()
        )?;
    }
    if plan.obstacles().is_empty() {
        let text = view::text(plan, model, took, console.out_colour);
        console.out.write_all(text.as_bytes())?;
    }
    for (path, what) in [(&wishes.out, "the plan"), (&wishes.graph, "the picture")] {
        if let Some(path) = path {
            writeln!(console.err, "wrote {what} to {}", path.display())?;
        }
    }
    Ok(())
}

/// Writes beside the file and renames, so that nobody ever reads half of it.
fn write(target: &Path, shown: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = target.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    fs_err::write(beside, text)
        .and_then(|()| fs_err::rename(beside, target))
        .map_err(|error| {
            // What is left of it is nobody's; that it may not even exist is no second failure.
            let _ = fs_err::remove_file(beside);
            Failure::new(
                Class::ThisComputer,
                format!("`{}` could not be written", shown.display()),
            )
            .because(&error)
        })
}
