//! Time, as a port: a run reads it here and nowhere else, so that a simulated one waits for nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// What tells the time and waits.
pub trait Clock: Sync {
    /// The time of day, for what people read.
    fn now(&self) -> Timestamp;
    /// How long it is since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
    /// Waits that long, or less: whoever needs the rest asks again.
    fn sleep(&self, duration: Duration);
}

/// The longest that somebody sleeps without looking whether the run was called off.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// This computer's clock.
#[derive(Debug, Clone, Copy)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// Begins to count.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration.min(TICK));
    }
}

/// A clock that moves only when somebody sleeps, and then at once.
///
/// For runs with one worker: with several, nobody sleeps while another works.
#[derive(Debug)]
pub struct VirtualClock {
    start: Timestamp,
    elapsed: Mutex<Duration>,
}

impl VirtualClock {
    /// A clock that stands at that time.
    pub const fn new(start: Timestamp) -> Self {
        Self {
            start,
            elapsed: Mutex::new(Duration::ZERO),
        }
    }

    /// Moves it on, as something that takes time would.
    pub fn advance(&self, duration: Duration) {
        let mut elapsed = self.elapsed.lock().unwrap_or_else(PoisonError::into_inner);
        *elapsed = elapsed.saturating_add(duration);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        // Past the last day that a calendar knows, it stands still.
        self.start
            .checked_add(self.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// Whole milliseconds, as durations are written down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_moves_when_somebody_sleeps() {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        clock.sleep(Duration::from_secs(90));
        assert_eq!(clock.elapsed(), Duration::from_secs(90));
        assert_eq!(clock.now().to_string(), "1970-01-01T00:01:30Z");
    }
}
