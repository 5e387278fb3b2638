//! `mullion runs`: what earlier runs did.

use std::path::Path;

use mullion_engine::{Runs, RunsError, timeline};

use crate::arguments::{RunsArguments, RunsVerb};
use crate::console::{Console, FAINT, Format, GOOD};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::output_file::{self, Readers, Replace};
use crate::views::runs::{
    RunRecordDocument, RunRow, RunsDocument, list as list_text, show as show_text,
};

/// The newest run, in the engine's words.
const NEWEST: &str = "last";

/// Lists runs, or shows one.
pub fn runs(
    console: &mut Console<'_>,
    wishes: &RunsArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let runs = Runs::of(&environment.state);
    match &wishes.verb {
        None | Some(RunsVerb::List) => list(console, &runs),
        Some(RunsVerb::Show { id, html }) => {
            let page = match html {
                None => Page::None,
                Some(None) => Page::Usual,
                Some(Some(path)) => Page::Named(path),
            };
            show(console, &runs, id.as_deref(), page, environment)
        }
    }
}

/// Which page is written.
#[derive(Clone, Copy)]
enum Page<'a> {
    None,
    Usual,
    Named(&'a Path),
}

fn list(console: &mut Console<'_>, runs: &Runs) -> Result<u8, Failure> {
    let listed = runs.list().map_err(|error| unreadable(&error))?;
    let document = RunsDocument {
        runs: listed.iter().map(RunRow::new).collect(),
    };
    if console.format == Format::Json {
        console.json("Runs", &document)?;
    } else if document.runs.is_empty() {
        let none = console.styled_err(FAINT, "no run was made yet; begin with `mullion up`");
        writeln!(console.err, "{none}")?;
    } else {
        console.out.write_all(list_text(&document).as_bytes())?;
    }
    Ok(0)
}

fn show(
    console: &mut Console<'_>,
    runs: &Runs,
    id: Option<&str>,
    page: Page<'_>,
    environment: &Environment,
) -> Result<u8, Failure> {
    let id = runs
        .find(id.unwrap_or(NEWEST))
        .map_err(|error| unreadable(&error))?;
    let record = runs.read(&id).map_err(|error| unreadable(&error))?;
    let mut document = RunRecordDocument {
        record: &record,
        journal: runs.journal(&id).display().to_string(),
        log: runs.log(&id).display().to_string(),
        page: None,
    };
    let usual = format!("run-{id}.html");
    let name = match page {
        Page::None => None,
        Page::Usual => Some(Path::new(&usual)),
        Page::Named(path) => Some(path),
    };
    if let Some(name) = name {
        let text = timeline::html(&record);
        output_file::write(
            &environment.folder,
            name,
            &text,
            Replace::Allowed,
            Readers::Owner,
        )
        .map_err(|error| {
            Failure::new(
                Class::ThisComputer,
                format!("`{}` could not be written", name.display()),
            )
            .because(&error)
        })?;
        document.page = Some(name.display().to_string());
    }
    match (console.format, &document.page) {
        (Format::Json, _) => console.json("RunRecord", &document)?,
        (Format::Text, None) => console.out.write_all(show_text(&document).as_bytes())?,
        (Format::Text, Some(page)) => {
            let wrote = console.styled(GOOD, "wrote");
            writeln!(console.out, "{wrote} {page}")?;
        }
    }
    Ok(0)
}

/// Why a run cannot be told of, and what to do.
fn unreadable(error: &RunsError) -> Failure {
    let failure = |class| {
        let mut failure = Failure::new(class, error.to_string());
        if let Some(source) = std::error::Error::source(error) {
            failure = failure.because(source);
        }
        failure
    };
    match error {
        RunsError::Unknown(text) if text == NEWEST => {
            Failure::new(Class::Usage, "no run was made yet").hint("begin with `mullion up`")
        }
        RunsError::Unknown(_) => {
            failure(Class::Usage).hint("`mullion runs` lists those that there are")
        }
        RunsError::Ambiguous { found, .. } => {
            let names: Vec<_> = found.iter().map(ToString::to_string).collect();
            failure(Class::Usage).hint(format!("take one of {}", names.join(", ")))
        }
        RunsError::Damaged { .. } => failure(Class::ThisComputer)
            .hint("nothing else depends on it: its folder can be removed"),
        _ => failure(Class::ThisComputer),
    }
}
