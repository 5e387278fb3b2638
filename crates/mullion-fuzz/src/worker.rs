//! The process that gives inputs to one target.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fs_err::File;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::mutate::{LONGEST, Rng, mutated};
use crate::{Target, corpus};

/// The longest that one input may take, in seconds of the processor: the build is not optimised.
pub const SECONDS: u64 = 10;
/// The longest that one input may take by the clock, for one that waits and does not compute.
const SECONDS_BY_CLOCK: u64 = 120;
/// The most memory that the process may have at any time, in bytes.
pub const MEMORY: u64 = 512 << 20;
/// So many inputs whose refusals were new are kept.
const MOST_KEPT: usize = 400;

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub enum Effort {
    /// So many inputs.
    Inputs(u64),
    /// So long.
    Time(Duration),
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs.
    pub inputs: u64,
    /// How many of them were taken.
    pub taken: u64,
    /// In how many ways others were refused.
    pub refusals: u64,
}

/// Files in which a run's parent finds what the process was doing when it ended.
#[derive(Debug)]
pub struct Trace {
    input: File,
    note: std::path::PathBuf,
}

/// The input that is being read.
pub const INPUT: &str = "input";
/// The inputs to begin with.
pub const CORPUS: &str = "corpus";
/// Why the process ended itself.
pub const NOTE: &str = "note";

impl Trace {
    /// Begins to write into a folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            input: File::create(folder.join(INPUT))?,
            note: folder.join(NOTE),
        })
    }

    /// Writes an input before it is read: a stack overflow leaves no time afterwards.
    fn begin(&mut self, input: &[u8]) -> io::Result<()> {
        use std::io::Seek as _;
        self.input.set_len(0)?;
        self.input.rewind()?;
        self.input.write_all(input)
    }
}

/// Gives inputs to a target until the effort is spent. An error is of this computer; what must not be ends the process.
pub fn work(target: &Target, effort: Effort, seed: u64, folder: &Path) -> io::Result<Tally> {
    limit()?;
    let mut trace = Trace::new(folder)?;
    let watch = Watch::start(trace.note.clone());
    let mut pool = corpus::read_folder(&folder.join(CORPUS))?;
    let committed = pool.len() as u64;
    let mut rng = Rng::new(seed);
    let mut words = BTreeSet::new();
    let mut tally = Tally::default();
    let begun = Instant::now();
    loop {
        let is_committed = tally.inputs < committed;
        let is_spent = match effort {
            Effort::Inputs(most) => tally.inputs >= most.max(committed),
            Effort::Time(most) => !is_committed && begun.elapsed() >= most,
        };
        if is_spent {
            break;
        }
        let input = match usize::try_from(tally.inputs) {
            Ok(index) if is_committed => pool[index].clone(),
            _ => mutated(&mut rng, &pool, target.words),
        };
        assert!(input.len() <= LONGEST, "an input of {} bytes", input.len());
        tally.inputs += 1;
        trace.begin(&input)?;
        watch.begin();
        let result = read(target, &input);
        watch.end();
        match result {
            Ok(Ok(())) => tally.taken += 1,
            Ok(Err(refusal)) => {
                if words.insert(form(&refusal)) && !is_committed && pool.len() < MOST_KEPT {
                    pool.push(input);
                }
            }
            Err(panic) => end(&trace.note, &format!("panicked: {panic}")),
        }
    }
    let peak = peak_memory()?;
    if peak > MEMORY {
        end(&trace.note, &format!("used {} MiB of memory", peak >> 20));
    }
    tally.refusals = words.len() as u64;
    Ok(tally)
}

/// Reads one input, as a run does.
pub fn once(target: &Target, input: &[u8], folder: &Path) -> io::Result<()> {
    limit()?;
    let mut trace = Trace::new(folder)?;
    let watch = Watch::start(trace.note.clone());
    trace.begin(input)?;
    watch.begin();
    let result = read(target, input);
    watch.end();
    match result {
        Ok(_) => Ok(()),
        Err(panic) => end(&trace.note, &format!("panicked: {panic}")),
    }
}

fn read(target: &Target, input: &[u8]) -> Result<Result<(), String>, String> {
    let caught = panic::catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    caught.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let word = panic.downcast_ref::<&str>().map(|&word| word.to_owned());
        text.or(word).unwrap_or_else(|| "no words".into())
    })
}

/// Ends the process so that its parent sees that something must not be.
fn end(note: &Path, why: &str) -> ! {
    // Where the note cannot be written, the parent tells the signal alone.
    let _ = fs_err::write(note, why);
    std::process::abort()
}

/// The words of a refusal without what comes out of the input: numbers and quoted text.
fn form(refusal: &str) -> String {
    let mut form = String::new();
    let mut is_quoted = false;
    for letter in refusal.chars().take(400) {
        if matches!(letter, '`' | '"') {
            is_quoted = !is_quoted;
        }
        let is_letter = letter.is_ascii_alphabetic() || letter == ' ';
        if !is_quoted && is_letter {
            form.push(letter);
        }
    }
    form
}

/// A reader that asks for memory without end is ended by the system, before this computer suffers.
fn limit() -> io::Result<()> {
    let most = Rlimit {
        current: Some(4 << 30),
        maximum: Some(4 << 30),
    };
    setrlimit(Resource::As, most)?;
    // A crash is told by its input; its memory helps nobody.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// The most memory that the process ever had, in bytes.
fn peak_memory() -> io::Result<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(number.unwrap_or(0) << 10)
}

/// Ends the process where an input takes too long.
struct Watch {
    /// When the input was begun, in milliseconds of the clock; 0 between inputs.
    begun: std::sync::Arc<AtomicU64>,
    /// The same, of the processor.
    begun_by_processor: std::sync::Arc<AtomicU64>,
}

impl Watch {
    fn start(note: std::path::PathBuf) -> Self {
        let watch = Self {
            begun: std::sync::Arc::default(),
            begun_by_processor: std::sync::Arc::default(),
        };
        let (begun, by_processor) = (watch.begun.clone(), watch.begun_by_processor.clone());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let since = begun.load(Ordering::SeqCst);
                if since == 0 {
                    continue;
                }
                let used = milliseconds(ClockId::ProcessCPUTime)
                    .saturating_sub(by_processor.load(Ordering::SeqCst));
                let passed = milliseconds(ClockId::Monotonic).saturating_sub(since);
                let is_same = begun.load(Ordering::SeqCst) == since;
                if is_same && (used > SECONDS * 1_000 || passed > SECONDS_BY_CLOCK * 1_000) {
                    end(&note, &format!("took longer than {} ms", used.max(passed)));
                }
            }
        });
        watch
    }

    fn begin(&self) {
        let used = milliseconds(ClockId::ProcessCPUTime);
        self.begun_by_processor.store(used, Ordering::SeqCst);
        let now = milliseconds(ClockId::Monotonic).max(1);
        self.begun.store(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.begun.store(0, Ordering::SeqCst);
    }
}

fn milliseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_their_own_words() {
        assert_eq!(
            form("`a` is not a name (line 3)"),
            form("`b c` is not a name (line 44)")
        );
        assert_ne!(form("`a` is not a name"), form("`a` is too long"));
    }
}
