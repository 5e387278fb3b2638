//! How long steps take, remembered from run to run for the estimates of a plan.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mullion_plan::{MachineKinds, Took, timed_as};
use mullion_rights::{read_record, replace_private};

use crate::report::Report;

/// The file of durations in a state folder.
pub const TIMINGS: &str = "timings.json";

/// Durations that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the durations of this run cannot be kept in `{}`", path.display())]
pub struct TimingsError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Adds what a run's steps took to what earlier runs' steps did.
///
/// Of several steps that are timed together the median counts, so that one slow machine does not spoil the figure; over runs
/// [`Took`] forgets slowly. What was there and cannot be read is written anew.
pub fn remember(state: &Path, report: &Report, kinds: &MachineKinds) -> Result<(), TimingsError> {
    let path = state.join(TIMINGS);
    let failed = |source| TimingsError {
        path: path.clone(),
        source,
    };
    let medians = medians(report, kinds);
    if medians.is_empty() {
        return Ok(());
    }
    // Estimates only: what is damaged is written again. What is no file is not replaced by one.
    let kept = read_record(&path).map_err(failed)?;
    let mut took = kept
        .and_then(|bytes| serde_json::from_slice::<Took>(&bytes).ok())
        .unwrap_or_default();
    for (name, median) in medians {
        took.record(&name, median);
    }
    let text = serde_json::to_string(&took)
        .map_err(io::Error::from)
        .map_err(failed)?;
    replace_private(&path, |file| file.write_all(text.as_bytes())).map_err(failed)
}

fn medians(report: &Report, kinds: &MachineKinds) -> BTreeMap<String, Duration> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for step in report.done() {
        let name = timed_as(&step.tag.id, step.tag.machine.as_ref(), kinds);
        all.entry(name).or_default().push(step.took_ms);
    }
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        Duration::from_millis(times.get(times.len() / 2).copied().unwrap_or(0))
    };
    all.into_iter()
        .map(|(name, times)| (name, median(times)))
        .collect()
}
