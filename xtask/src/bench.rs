//! `cargo xtask bench`: figures, each beside its limit.
//!
//! What is measured stands in [`cases`]: the cases are the work, the rows are what is shown of it. Every case runs in
//! several processes of its own, once in each, as a user's command does: later rounds of one process would find memory
//! that the first had asked the kernel for. The median counts. A figure above its limit makes the command fail, and so does
//! one that could not be had; no test looks at a figure, because a test must not depend on how busy a computer is.

pub mod by_ssh;
pub mod cases;
pub mod clusters;
pub mod measure;
pub mod sample;

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::steps::Steps;
use crate::{XtaskError, stand_in, tools, up};
use cases::{CASES, Case, ROWS, Row};
use measure::Measure;
use sample::Sample;

/// How often cases and clusters are measured. Machines by SSH are measured once: ansible takes minutes.
const ROUNDS: usize = 5;

/// How often a program is started for a [`Row::Start`].
const STARTS: usize = 30;

/// The most that a cluster from package registries alone may take, on two cores.
const COLD: Duration = Duration::from_mins(35);

/// The most that a stand-in for Windows may add to that: its programs are built too.
const COLD_STAND_IN: Duration = Duration::from_mins(30);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything. Whole clusters need root.
    All,
    /// No machine is made.
    WithoutClusters,
    /// The cluster that is made from package registries alone, with nothing in any cache. It needs root.
    Cold,
}

impl Extent {
    /// Refuses what this user cannot measure, before anything is built.
    fn check(self, is_root: bool) -> Result<(), XtaskError> {
        if self == Self::WithoutClusters || is_root {
            Ok(())
        } else {
            Err(XtaskError::NeedsRoot)
        }
    }

    /// The lines of the table.
    fn rows(self) -> impl Iterator<Item = &'static Row> {
        let clusters = match self {
            Self::All => clusters::ROWS,
            Self::WithoutClusters | Self::Cold => &[],
        };
        ROWS.iter().chain(clusters)
    }
}

/// Measures in release and prints the table.
///
/// Started from a debug build, as the cargo alias does, it builds release and hands over to it.
pub fn run(extent: Extent) -> Result<(), XtaskError> {
    extent.check(rustix::process::geteuid().is_root())?;
    let mut steps = Steps::default();
    let scratch = tempfile::tempdir()?;
    let program = up::install_into(scratch.path(), &mut steps)?;
    tools::run(
        tools::cargo(&["build", "--release", "--package=xtask"])
            .env("MULLION_AGENT", up::agent_program()?)
            .env("MULLION_WINDOWS", stand_in::build()?),
    )?;
    let release = tools::target_folder()?.join("release");
    let itself = release.join(format!("xtask{EXE_SUFFIX}"));
    if extent == Extent::Cold {
        return measure_cold(&program);
    }
    let mut samples = BTreeMap::new();
    for case in CASES {
        samples.insert(case.name, measure_apart(&itself, case)?);
    }
    if extent == Extent::All {
        samples.extend(measure_clusters(&program)?);
    }
    let measures = extent
        .rows()
        .map(|row| measure_row(row, &samples, &program))
        .collect::<Result<Vec<_>, _>>()?;
    report(&measures)
}

/// Prints the table. A figure above its limit is an error, and so is one that is not there.
fn report(measures: &[Measure]) -> Result<(), XtaskError> {
    print!("{}", measure::table(measures));
    verdict(measures)
}

fn verdict(measures: &[Measure]) -> Result<(), XtaskError> {
    let names = |is_meant: &dyn Fn(&Measure) -> bool| -> Vec<_> {
        let meant = measures.iter().filter(|measure| is_meant(measure));
        meant.map(|measure| measure.name.clone()).collect()
    };
    let over = names(&Measure::is_over);
    if !over.is_empty() {
        return Err(XtaskError::OverLimit(over));
    }
    let missing = names(&|measure| measure.figure.is_none());
    if !missing.is_empty() {
        return Err(XtaskError::NotMeasured(missing));
    }
    Ok(())
}

/// Measures one case in this process and prints its sample as JSON: the other half of [`run`].
pub fn run_case(name: &str) -> Result<(), XtaskError> {
    let case = cases::find(CASES, name).ok_or_else(|| XtaskError::NoSuchCase(name.into()))?;
    let sample = Sample::take(case);
    println!("{}", serde_json::json!(sample));
    Ok(())
}

/// Measures clusters, with everything that they need in the cache.
fn measure_clusters(program: &Path) -> Result<BTreeMap<&'static str, Sample>, XtaskError> {
    let empty = tempfile::tempdir()?;
    for arguments in [["doctor", "--fix"], ["artifacts", "fetch"]] {
        let mut command = Command::new(program);
        clusters::quietly(command.args(arguments).current_dir(empty.path()))?;
    }
    let programs = tempfile::tempdir()?;
    Cache::ask(program)?.link_programs(programs.path())?;
    let mut times = clusters::Times::default();
    clusters::measure(&mut times, program, programs.path())?;
    by_ssh::measure(&mut times, program)?;
    Ok(times.samples())
}

/// From package registries alone to a cluster, with nothing in any cache; then a stand-in for Windows is added.
fn measure_cold(program: &Path) -> Result<(), XtaskError> {
    let name = "bench-cold";
    let bed = clusters::Bed::new(program, &clusters::file_of(name, 1))?.cold();
    let up = || {
        let start = Instant::now();
        tools::run(&mut bed.mullion(&["doctor", "--fix"]))?;
        tools::run(&mut bed.mullion(&["up", "--yes"]))?;
        Ok::<_, XtaskError>(start.elapsed())
    };
    let linux = up()?;
    bed.write(&clusters::mixed_file(name))?;
    let stand_in = up()?;
    report(&[
        Measure::time("up of 1 worker, cold", Some(linux), COLD),
        Measure::time("then 1 stand-in, cold", Some(stand_in), COLD_STAND_IN),
    ])
}

/// Measures one case in processes of its own, built for speed.
fn measure_apart(itself: &Path, case: &Case) -> Result<Sample, XtaskError> {
    let mut sample = measure_once(itself, case)?;
    for _ in 1..ROUNDS {
        sample.add(measure_once(itself, case)?);
    }
    Ok(sample)
}

fn measure_once(itself: &Path, case: &Case) -> Result<Sample, XtaskError> {
    let mut command = Command::new(itself);
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
    program: &Path,
) -> Result<Measure, XtaskError> {
    let sample = |case: &str| samples.get(case);
    let median = |case: &str| sample(case).and_then(Sample::median);
    Ok(match *row {
        Row::Time { case, limit } => Measure::time(case, median(case), limit),
        Row::Peak { case, limit } => {
            let peak = sample(case).and_then(|sample| sample.peak_bytes);
            Measure::peak(case, peak, limit)
        }
        Row::Growth { from, to, limit } => {
            Measure::growth(from, to, median(from), median(to), limit)
        }
        Row::Share { peer, ours, limit } => {
            Measure::share(peer, ours, median(peer), median(ours), limit)
        }
        Row::Start { arguments, limit } => {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let times = sample::times(STARTS, || tools::run(&mut command))?;
            Measure::time(&tools::shown(&command), sample::median(&times), limit)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_good_where_every_figure_is_there_and_within_its_limit() {
        let measure = |name: &str, seconds: Option<u64>| {
            let figure = seconds.map(Duration::from_secs);
            Measure::time(name, figure, Duration::from_secs(2))
        };
        let (good, over, missing) = (
            measure("good", Some(1)),
            measure("slow", Some(3)),
            measure("down", None),
        );
        let told = |measures: &[Measure]| verdict(measures).unwrap_err().to_string();
        assert!(verdict(std::slice::from_ref(&good)).is_ok());
        assert_eq!(
            told(&[good.clone(), missing.clone()]),
            "not measured: down: time"
        );
        assert_eq!(told(&[missing, over, good]), "over the limit: slow: time");
    }

    #[test]
    fn clusters_are_measured_by_root_or_not_asked_for() {
        for extent in [Extent::All, Extent::Cold] {
            assert!(extent.check(true).is_ok());
            let refused = extent.check(false).unwrap_err();
            assert!(refused.render().contains("sudo"), "{}", refused.render());
        }
        assert!(Extent::WithoutClusters.check(false).is_ok());
        let count = |extent: Extent| extent.rows().count();
        assert_eq!(count(Extent::WithoutClusters), ROWS.len());
        assert_eq!(count(Extent::All), ROWS.len() + clusters::ROWS.len());
    }
}
