//! One test's turn: its clock, its luck, and what this computer was like before.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::snapshot::Snapshot;

/// Tests that change this computer do so one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// One test, from its first line to its last.
pub(crate) struct Trial {
    name: &'static str,
    began: Instant,
    lap: Instant,
    before: Snapshot,
    _turn: MutexGuard<'static, ()>,
}

impl Trial {
    /// Waits for its turn, and looks at the computer.
    pub(crate) fn begin(name: &'static str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            rustix::process::geteuid().is_root(),
            "machines are made by root alone"
        );
        let now = Instant::now();
        say(&format!("\n{name}"));
        Self {
            name,
            began: now,
            lap: now,
            before: Snapshot::take(),
            _turn: turn,
        }
    }

    /// Says how long something took: all that happened since it was said last.
    pub(crate) fn lap(&mut self, what: &str) {
        say(&format!(
            "  {:>6.1} s  {what}",
            self.lap.elapsed().as_secs_f32()
        ));
        self.lap = Instant::now();
    }

    /// This computer is as it was when the test began.
    pub(crate) fn nothing_is_left(&self) {
        // The kernel takes name spaces and interfaces away after their last process, not with it.
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            let differences = self.before.differences(&Snapshot::take());
            if differences.is_empty() {
                return;
            }
            assert!(
                Instant::now() < patience,
                "this computer is not as it was:\n  {}",
                differences.join("\n  ")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let how = if std::thread::panicking() {
            "FAILED"
        } else {
            "passed"
        };
        let took = self.began.elapsed().as_secs_f32();
        say(&format!("  {took:>6.1} s  {} {how}", self.name));
    }
}

/// Writes a line that is seen while the tests run: the harness holds back what is printed.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether the long tests are wanted.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("MULLION_SLOW").is_some_and(|value| !value.is_empty())
}

/// Comes back once something is so, or fails with what it said last.
pub(crate) fn until<T>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        match look() {
            Ok(value) => return value,
            Err(words) => assert!(
                Instant::now() < end,
                "{what}: not within {patience:?}: {words}"
            ),
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Chance that can be had again: a seed and the numbers that follow from it.
pub(crate) struct Luck(u64);

impl Luck {
    /// The seed that was asked for, else another one each time. It is printed.
    pub(crate) fn new() -> Self {
        let given = std::env::var("MULLION_SEED").ok();
        let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
        });
        say(&format!("            MULLION_SEED={seed}"));
        Self(seed)
    }

    /// The next number below a limit (`SplitMix64`).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}
