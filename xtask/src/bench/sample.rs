//! What measuring one case gives: its times and its peak memory.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cases::Case;
use crate::XtaskError;

/// The times and the peak memory of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// One time a round.
    pub times: Vec<Duration>,
    /// The most memory that the process held so far, where the system says it.
    pub peak_bytes: Option<u64>,
}

impl Sample {
    /// Does the case's work in this process.
    pub fn take(case: &Case) -> Result<Self, XtaskError> {
        let mut round = (case.prepare)();
        let times = times(case.rounds, || {
            round();
            Ok(())
        })?;
        Ok(Self {
            times,
            peak_bytes: own_peak(),
        })
    }

    /// The shortest time.
    pub fn best(&self) -> Option<Duration> {
        best(&self.times)
    }
}

/// Times `rounds` rounds of some work. The first failure ends it.
pub fn times(
    rounds: usize,
    mut round: impl FnMut() -> Result<(), XtaskError>,
) -> Result<Vec<Duration>, XtaskError> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// The shortest of some times.
pub fn best(times: &[Duration]) -> Option<Duration> {
    times.iter().min().copied()
}

/// The most memory this process held so far.
///
/// A process reads its own figure: once it has ended the system has thrown the figure away, and whoever
/// looked from outside while it ran would see too little.
fn own_peak() -> Option<u64> {
    // Not a failure where there is no such file: the table says that it was not measured.
    peak_in(&fs_err::read_to_string("/proc/self/status").ok()?)
}

/// The peak in the text of a process's status file.
fn peak_in(status: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_in_bytes() {
        let status = "Name:\tcat\nVmPeak:\t    5788 kB\nVmHWM:\t    1720 kB\nVmRSS:\t    1600 kB\n";
        assert_eq!(peak_in(status), Some(1720 * 1024));
    }

    #[test]
    fn a_status_without_a_peak_gives_none() {
        assert_eq!(peak_in("Name:\tcat\nState:\tZ (zombie)\n"), None);
        assert_eq!(peak_in("VmHWM:\tmuch\n"), None);
        assert_eq!(peak_in(""), None);
    }

    #[test]
    fn the_best_is_the_shortest() {
        let times = [30, 10, 20].map(Duration::from_millis);
        assert_eq!(best(&times), Some(Duration::from_millis(10)));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_case_is_prepared_once_and_done_as_often_as_it_says() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static PREPARED: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let case = Case {
            name: "count",
            rounds: 5,
            prepare: || {
                PREPARED.fetch_add(1, Ordering::Relaxed);
                Box::new(|| {
                    DONE.fetch_add(1, Ordering::Relaxed);
                })
            },
        };
        let sample = Sample::take(&case).unwrap();
        assert_eq!(sample.times.len(), 5);
        assert_eq!(
            (
                PREPARED.load(Ordering::Relaxed),
                DONE.load(Ordering::Relaxed)
            ),
            (1, 5)
        );
    }

    #[test]
    fn the_first_failure_ends_the_rounds() {
        let mut rounds = 0;
        let result = times(5, || {
            rounds += 1;
            Err(XtaskError::NoCargoHome)
        });
        assert!(result.is_err());
        assert_eq!(rounds, 1);
    }

    #[test]
    fn a_sample_survives_the_way_between_processes() {
        let sample = Sample {
            times: vec![Duration::from_micros(1500)],
            peak_bytes: Some(7),
        };
        let text = serde_json::to_string(&sample).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
    }
}
