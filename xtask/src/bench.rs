//! `cargo xtask bench`: figures, each beside its limit.
//!
//! What is measured stands in [`cases`]: the cases are the work, the rows are what is shown of it. Every
//! case runs in a process of its own, so that its peak memory is its own. A figure above its limit makes
//! the command fail; no test looks at a figure, because a test must not depend on how busy a computer is.

pub mod cases;
pub mod measure;
pub mod sample;

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{XtaskError, tools};
use cases::{CASES, Case, ROWS, Row};
use measure::Measure;
use sample::Sample;

/// How often a program is started for a [`Row::Start`].
const STARTS: usize = 30;

/// Measures everything in release and prints the table.
///
/// Started from a debug build, as the cargo alias does, it builds release and hands over to it.
pub fn run() -> Result<(), XtaskError> {
    let release = tools::target_folder()?.join("release");
    if cfg!(debug_assertions) {
        tools::run(&mut tools::cargo(&[
            "build",
            "--release",
            "--package=mullion",
            "--package=xtask",
        ]))?;
        let program = release.join(format!("xtask{EXE_SUFFIX}"));
        return match tools::run(Command::new(program).arg("bench")) {
            Err(XtaskError::Ended { .. }) => Err(XtaskError::Told),
            result => result,
        };
    }
    let mut samples = BTreeMap::new();
    for case in CASES {
        samples.insert(case.name, measure_apart(case)?);
    }
    let measures = ROWS
        .iter()
        .map(|row| measure_row(row, &samples, &release))
        .collect::<Result<Vec<_>, _>>()?;
    print!("{}", measure::table(&measures));
    let over: Vec<_> = measures
        .iter()
        .filter(|measure| measure.is_over())
        .collect();
    if over.is_empty() {
        Ok(())
    } else {
        Err(XtaskError::OverLimit(
            over.iter().map(|measure| measure.name.clone()).collect(),
        ))
    }
}

/// Measures one case in this process and prints its sample as JSON: the other half of [`run`].
pub fn run_case(name: &str) -> Result<(), XtaskError> {
    let case = cases::find(CASES, name).ok_or_else(|| XtaskError::NoSuchCase(name.into()))?;
    let sample = Sample::take(case)?;
    println!("{}", serde_json::json!(sample));
    Ok(())
}

/// Measures one case in a process of its own.
fn measure_apart(case: &Case) -> Result<Sample, XtaskError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--case", case.name]);
    let text = tools::read(&mut command)?;
    serde_json::from_str(&text).map_err(|error| XtaskError::Answer {
        command: tools::shown(&command),
        detail: error.to_string(),
    })
}

fn measure_row(
    row: &Row,
    samples: &BTreeMap<&str, Sample>,
    release: &Path,
) -> Result<Measure, XtaskError> {
    let sample = |case: &str| {
        samples
            .get(case)
            .ok_or_else(|| XtaskError::NoSuchCase(case.into()))
    };
    Ok(match *row {
        Row::Time { case, limit } => Measure::time(case, sample(case)?.best(), limit),
        Row::Peak { case, limit } => Measure::peak(case, sample(case)?.peak_bytes, limit),
        Row::Growth { from, to, limit } => {
            Measure::growth(from, to, sample(from)?.best(), sample(to)?.best(), limit)
        }
        Row::Start { arguments, limit } => {
            let program = release.join(format!("mullion{EXE_SUFFIX}"));
            let mut command = Command::new(program);
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let times = sample::times(STARTS, || tools::run(&mut command))?;
            Measure::time(&tools::shown(&command), sample::best(&times), limit)
        }
    })
}
