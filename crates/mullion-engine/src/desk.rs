//! Where steps are ordered: what one try of a step is, from the journal's line before it to the one after it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mullion_plan::{Attend, ErrorClass, News, Step, StepError};
use mullion_wire::MaskedLines;

use crate::cancel::{Cancel, Cancelled};
use crate::clock::{Clock, millis};
use crate::gates::Gate;
use crate::journal::Journal;
use crate::line::{End, Line};
use crate::options::Options;
use crate::policy::{History, Tried, Verdict};
use crate::report::{Fate, Outcome};
use crate::told::{Failure, StepTag};
use crate::watch::{Event, NewsItem, Watch};

/// How often the amount of something is told at most.
const AMOUNTS: Duration = Duration::from_millis(100);
/// How often it is told that a gate waits.
const WAITS: Duration = Duration::from_secs(1);

/// Everything that a run has at hand, besides its plan and its port.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) options: &'a Options,
    pub(crate) journal: &'a Journal,
    pub(crate) watcher: &'a dyn Watch,
    pub(crate) cancel: &'a Cancel,
    pub(crate) clock: &'a dyn Clock,
}

/// A step that is to be tried, with what it has met so far.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) step: &'a Step,
    pub(crate) tag: StepTag,
    history: History,
    is_look: bool,
    /// When it was first tried, on the run's clock.
    pub(crate) begun: Option<Duration>,
    /// How long its tries took.
    worked: Duration,
    last_told: Option<Duration>,
    log: Option<PathBuf>,
}

/// What a try does.
pub(crate) struct Act<'a> {
    pub(crate) perform: &'a dyn Fn(&dyn Attend) -> Result<(), StepError>,
    /// The last lines of the right log, where it waited in vain.
    pub(crate) tail: &'a dyn Fn() -> Vec<String>,
}

/// What came of a try.
#[derive(Debug)]
pub(crate) enum Came {
    /// The step has ended.
    Ended(Fate),
    /// It is tried again after that long.
    Again {
        after: Duration,
        /// What it said, for a run that is called off before.
        error: StepError,
    },
    /// It could not be written down, and so was not begun.
    NotBegun,
}

/// A job that comes back.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) job: Job<'a>,
    pub(crate) came: Came,
}

impl<'a> Job<'a> {
    pub(crate) fn new(step: &'a Step, desk: &Desk<'_>) -> Self {
        Self::tagged(step, StepTag::new(step, desk.journal.mask()), desk)
    }

    pub(crate) fn tagged(step: &'a Step, tag: StepTag, desk: &Desk<'_>) -> Self {
        Self {
            step,
            tag,
            history: History::new(step, desk.options.seed),
            is_look: false,
            begun: None,
            worked: Duration::ZERO,
            last_told: None,
            log: None,
        }
    }

    /// What is known of it when it ends now.
    pub(crate) fn fate(&self, outcome: Outcome, now: Duration) -> Fate {
        let begun = self.begun.unwrap_or(now);
        let took = now.saturating_sub(begun);
        Fate {
            outcome,
            begun,
            took,
            waited: took.saturating_sub(self.worked),
            attempts: self.history.attempts,
        }
    }
}

impl Desk<'_> {
    /// Tries a step once. `answer` gets it back as soon as others may go on; the journal is synced after that.
    pub(crate) fn attempt<'a>(
        &self,
        act: &Act<'_>,
        mut job: Job<'a>,
        answer: impl FnOnce(Answer<'a>),
    ) {
        if self.begin(&mut job).is_none() {
            let came = Came::NotBegun;
            answer(Answer { job, came });
            return;
        }
        let start = self.clock.elapsed();
        let ear = Ear::new(*self, &job.tag);
        let result = catch_unwind(AssertUnwindSafe(|| (act.perform)(&ear)));
        job.log = ear.log().or(job.log);
        let now = self.clock.elapsed();
        job.worked += now.saturating_sub(start);
        let came = match result {
            Ok(Ok(())) => self.end(&job, Outcome::Done),
            Ok(Err(error)) => {
                let heard = ear.heard();
                let tried = Tried {
                    begun: job.begun.unwrap_or(now),
                    since: start,
                    now,
                    was_heard: heard.is_something,
                    restarts: heard.restarts,
                };
                drop(heard);
                self.judge(act, &mut job, tried, error)
            }
            Err(panic) => {
                let error = Failure::panicked(panic_words(panic.as_ref()), self.journal.mask());
                self.end(&job, Outcome::Failed { error })
            }
        };
        let is_written = !(job.is_look && matches!(came, Came::Again { .. }));
        // What waits for this step may begin: the line before it will bring this one to the disk too.
        answer(Answer { job, came });
        if is_written {
            // A journal in trouble is seen by whoever wants to begin the next step.
            let _ = self.journal.sync();
        }
    }

    /// `None` where it could not be written down.
    fn begin(&self, job: &mut Job<'_>) -> Option<()> {
        if job.is_look {
            job.history.looks += 1;
            return Some(());
        }
        let attempt = job.history.attempts + 1;
        let line = Line::Begin {
            at: self.clock.now(),
            tag: job.tag.clone(),
            attempt,
        };
        self.journal.write(&line).ok()?;
        self.journal.sync().ok()?;
        job.history.attempts = attempt;
        job.begun.get_or_insert_with(|| self.clock.elapsed());
        let tag = job.tag.clone();
        self.tell(&Event::StepStarted { tag, attempt });
        Some(())
    }

    fn judge(&self, act: &Act<'_>, job: &mut Job<'_>, tried: Tried, error: StepError) -> Came {
        let policy = &self.options.policy;
        if error.class == ErrorClass::Interrupted {
            return self.interrupted(job, &error);
        }
        match policy.judge(job.step, &mut job.history, tried, error.clone()) {
            Verdict::Enough(mut error) => {
                if error.class == ErrorClass::NotYet && error.tail.is_empty() {
                    // The step has failed, whatever becomes of its log.
                    error.tail = catch_unwind(AssertUnwindSafe(act.tail)).unwrap_or_default();
                }
                let error = Failure::new(&error, job.log.clone(), self.journal.mask());
                self.end(job, Outcome::Failed { error })
            }
            // Nothing is tried again in a run that was called off.
            _ if self.cancel.level() != Cancelled::No => self.interrupted(job, &error),
            Verdict::Look { after, remaining } => {
                job.is_look = true;
                self.tell_wait(job, &error, tried.now, remaining);
                Came::Again { after, error }
            }
            Verdict::Retry { after } => {
                job.is_look = false;
                self.retry(job, &error, after);
                Came::Again { after, error }
            }
        }
    }

    fn retry(&self, job: &Job<'_>, error: &StepError, after: Duration) {
        let failure = Failure::new(error, job.log.clone(), self.journal.mask());
        let attempt = job.history.attempts;
        self.tell(&Event::StepRetried {
            step: job.tag.id.clone(),
            machine: job.tag.machine.clone(),
            why: failure.words.clone(),
            attempt,
            again_in_ms: millis(after),
        });
        // Trouble with the journal is seen before the next step begins.
        let _ = self.journal.write(&Line::Retry {
            at: self.clock.now(),
            step: job.tag.id.clone(),
            attempt,
            again_in_ms: millis(after),
            error: failure,
        });
    }

    fn tell_wait(&self, job: &mut Job<'_>, error: &StepError, now: Duration, remaining: Duration) {
        let is_soon = |last: Duration| now.saturating_sub(last) < WAITS;
        if job.last_told.is_some_and(is_soon) {
            return;
        }
        job.last_told = Some(now);
        self.tell(&Event::Waiting {
            step: job.tag.id.clone(),
            machine: job.tag.machine.clone(),
            gate: Gate::of_any(job.step).title,
            why: self.journal.mask().apply(&error.words).into_owned(),
            waited_ms: millis(now.saturating_sub(job.begun.unwrap_or(now))),
            remaining_ms: millis(remaining),
        });
    }

    /// The end of a step in a run that was called off.
    pub(crate) fn interrupted(&self, job: &Job<'_>, error: &StepError) -> Came {
        let mut failure = Failure::new(error, job.log.clone(), self.journal.mask());
        failure.class = crate::told::FailureClass::Interrupted;
        self.end(job, Outcome::Interrupted { error: failure })
    }

    fn end(&self, job: &Job<'_>, outcome: Outcome) -> Came {
        let fate = job.fate(outcome, self.clock.elapsed());
        let (end, error) = match &fate.outcome {
            Outcome::Failed { error } => (End::Failed, Some(error.clone())),
            Outcome::Interrupted { error } => (End::Interrupted, Some(error.clone())),
            _ => (End::Done, None),
        };
        // Trouble with the journal is seen before the next step begins.
        let _ = self.journal.write(&Line::End {
            at: self.clock.now(),
            step: job.tag.id.clone(),
            outcome: end,
            took_ms: millis(fate.took),
            waited_ms: millis(fate.waited),
            attempts: fate.attempts,
            looks: job.history.looks,
            error,
        });
        self.tell(&Event::StepEnded {
            tag: job.tag.clone(),
            outcome: fate.outcome.clone(),
            took_ms: millis(fate.took),
        });
        Came::Ended(fate)
    }

    pub(crate) fn tell(&self, event: &Event) {
        self.watcher.see(self.clock.now(), event);
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let string = || panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(string).unwrap_or("it did not say why")
}

/// Hears one try of a step.
pub(crate) struct Ear<'a> {
    desk: Desk<'a>,
    tag: &'a StepTag,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    log: Option<PathBuf>,
    lines: MaskedLines,
    last_amount: Option<Duration>,
    /// Whether anything was heard at all.
    is_something: bool,
    /// Whether the machine was asked to start anew.
    restarts: bool,
}

impl<'a> Ear<'a> {
    pub(crate) fn new(desk: Desk<'a>, tag: &'a StepTag) -> Self {
        Self {
            desk,
            tag,
            heard: Mutex::default(),
        }
    }

    pub(crate) fn log(&self) -> Option<PathBuf> {
        self.heard().log.clone()
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an amount comes too soon after the last; the one that ends the count never does.
    fn is_too_soon(&self, done: u64, total: Option<u64>) -> bool {
        let now = self.desk.clock.elapsed();
        let mut heard = self.heard();
        let last = heard.last_amount;
        let is_soon = last.is_some_and(|last| now.saturating_sub(last) < AMOUNTS);
        if is_soon && total != Some(done) {
            return true;
        }
        heard.last_amount = Some(now);
        false
    }
}

impl Attend for Ear<'_> {
    fn hear(&self, news: News) {
        {
            let mut heard = self.heard();
            heard.is_something = true;
            heard.restarts |= news == News::Restart;
        }
        match &news {
            News::Amount { done, total, .. } if self.is_too_soon(*done, *total) => return,
            News::Log(path) => self.heard().log = Some(path.clone()),
            _ => {}
        }
        let mask = self.desk.journal.mask();
        let Some(item) = NewsItem::new(&news, |line| self.heard().lines.apply(mask, line)) else {
            return;
        };
        if let NewsItem::Line { text } = &item {
            let at = self.desk.clock.now();
            self.desk.journal.log(at, self.tag.id.as_str(), text);
        }
        self.desk.tell(&Event::StepNews {
            step: self.tag.id.clone(),
            machine: self.tag.machine.clone(),
            news: item,
        });
    }

    fn is_called_off(&self) -> bool {
        self.desk.cancel.level() == Cancelled::Now
    }
}
