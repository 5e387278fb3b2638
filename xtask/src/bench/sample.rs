//! What measuring one case gives: its times and its peak memory.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cases::Case;
use crate::XtaskError;

/// The times and the peak memory of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// One time a process, or a round.
    pub times: Vec<Duration>,
    /// The most memory that the process held so far, where the system says it.
    pub peak_bytes: Option<u64>,
}

impl Sample {
    /// Does the case's work once in this process, as a command does.
    pub fn take(case: &Case) -> Self {
        let work = (case.prepare)();
        let start = Instant::now();
        work();
        Self {
            times: vec![start.elapsed()],
            peak_bytes: own_peak(),
        }
    }

    /// Adds what another process measured of the same case.
    pub fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
    }

    /// The time in the middle.
    pub fn median(&self) -> Option<Duration> {
        median(&self.times)
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

/// The time in the middle: of an even number, the longer of the two.
pub fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
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
    fn the_median_is_the_time_in_the_middle() {
        let ms = Duration::from_millis;
        assert_eq!(median(&[30, 10, 20].map(ms)), Some(ms(20)));
        assert_eq!(median(&[30, 10].map(ms)), Some(ms(30)));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn samples_of_several_processes_are_one() {
        let sample = |time, peak_bytes| Sample {
            times: vec![Duration::from_millis(time)],
            peak_bytes,
        };
        let mut all = sample(3, Some(5));
        all.add(sample(1, Some(9)));
        all.add(sample(2, None));
        assert_eq!(all.median(), Some(Duration::from_millis(2)));
        assert_eq!(all.peak_bytes, Some(9));
    }

    #[test]
    fn a_case_is_prepared_and_done_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static PREPARED: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let case = Case {
            name: "count",
            prepare: || {
                PREPARED.fetch_add(1, Ordering::Relaxed);
                Box::new(|| {
                    DONE.fetch_add(1, Ordering::Relaxed);
                })
            },
        };
        assert_eq!(Sample::take(&case).times.len(), 1);
        assert_eq!(
            (
                PREPARED.load(Ordering::Relaxed),
                DONE.load(Ordering::Relaxed)
            ),
            (1, 1)
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
