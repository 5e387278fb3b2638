//! The ports: how the world is looked at, and how it is changed.
//!
//! Two small traits, so that whoever only looks cannot change: [`Discover`] has no verb that writes.
//! The contracts stand on the methods; a suite in `mullion-testkit` holds any pair of implementations to them.

use mullion_spec::cluster::Cluster;

use crate::observed::Observed;
use crate::step::Step;

/// Looks at everything that belongs to a cluster, and changes nothing.
pub trait Discover {
    /// Everything that was found.
    ///
    /// - **Effect:** none. Two calls in a row give equal facts.
    /// - **Complete:** finds by labels what earlier runs made, also with every state file gone, and also
    ///   machines that the file no longer has.
    /// - **Honest:** what could not be looked at is left unknown, never reported as absent. A machine that
    ///   does not answer is a fact, not an error.
    /// - **Cancellation:** may be cut off at any moment.
    fn observe(&self, cluster: &Cluster) -> Result<Observed, DiscoverError>;
}

/// What is heard of a step while it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// One short line for people. Never a secret.
    Line(String),
    /// How much of something countable is done.
    Amount {
        /// So much.
        done: u64,
        /// Of so much, where that is known.
        total: Option<u64>,
        /// What is counted.
        unit: Unit,
    },
    /// A file that holds everything that was heard, for whoever wants to read on.
    Log(std::path::PathBuf),
    /// The machine was asked to start anew: from here on, the wait for it is another one.
    Restart,
    /// A limit of the file that this computer does not enforce, for this machine and probably for the others.
    Unlimited {
        /// What is not limited: `disk`, `cpu`, `memory` or `pids`.
        what: &'static str,
        /// Why, as the end of a sentence.
        why: String,
    },
}

/// What an amount counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Packages of a build.
    Packages,
}

/// Whoever ordered a step: hears how it goes, and may call it off.
pub trait Attend: Sync {
    /// Hears it. Never blocks for long.
    fn hear(&self, news: News);
    /// Whether the step should end as soon as it can, with [`ErrorClass::Interrupted`].
    fn is_called_off(&self) -> bool;
}

/// Nobody listens, and nobody calls off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unattended;

impl Attend for Unattended {
    fn hear(&self, _news: News) {}
    fn is_called_off(&self) -> bool {
        false
    }
}

/// Changes the world, one step at a time.
pub trait Perform {
    /// Makes the step's state so.
    ///
    /// - **Effect:** on success the state that [`crate::action::Action`] names is reached, and seen by
    ///   [`Discover`].
    /// - **Idempotent:** where it is so already, this is success and changes nothing. A machine of the
    ///   wanted name without our label is never "already so": it is refused and not touched.
    /// - **Order:** a step is refused without effect where what it builds on (the machine, its template,
    ///   its agent, the API server) is not there.
    /// - **Cancellation:** a call that was cut off anywhere is repaired by planning again and performing
    ///   that plan; nothing half made is ever reported as whole.
    /// - **Concurrency:** steps of different machines may be performed at once; for one machine the
    ///   engine takes turns.
    /// - **Waiting:** a step that waits for a state looks once and answers [`ErrorClass::NotYet`] where it is not
    ///   reached: how long and how often is the engine's matter.
    fn perform(&self, step: &Step, attendant: &dyn Attend) -> Result<(), StepError>;

    /// The last lines of the right log, for a step that waited in vain.
    ///
    /// - **Effect:** none. Where there is no log, or nobody to ask, there are no lines.
    /// - **Order:** asked once, when the step is given up.
    fn tail(&self, _step: &Step) -> Vec<String> {
        Vec::new()
    }
}

/// Why the world could not be looked at, at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct DiscoverError {
    /// What failed.
    pub words: String,
}

/// What kind of failure a step met; decides whether it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Somebody else changed the same object at the same moment.
    Conflict,
    /// The machine or the API server did not answer.
    Unreachable,
    /// A gate did not pass in time.
    NotYet,
    /// What the step needs is not there.
    Refused,
    /// It belongs to somebody else.
    NotOurs,
    /// What the step was planned with is no longer so: planning again gives other steps.
    Outdated,
    /// The run was cut off.
    Interrupted,
}

/// Whether a failed step is tried again in the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// At once.
    Now,
    /// After a while.
    Later,
    /// Not in this run.
    Never,
}

impl ErrorClass {
    /// The one place that decides what is tried again.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Conflict => Retry::Now,
            Self::Unreachable | Self::NotYet => Retry::Later,
            Self::Refused | Self::NotOurs | Self::Outdated | Self::Interrupted => Retry::Never,
        }
    }
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct StepError {
    /// What kind of failure it is.
    pub class: ErrorClass,
    /// What failed.
    pub words: String,
    /// The causes behind it, outermost first; never a secret.
    pub causes: Vec<String>,
    /// What a person can do about it.
    pub hints: Vec<String>,
    /// The last lines of the right log.
    pub tail: Vec<String>,
}

impl StepError {
    /// A failure of that class.
    pub fn new(class: ErrorClass, words: impl Into<String>) -> Self {
        Self {
            class,
            words: words.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// Adds an error and the causes behind it.
    #[must_use]
    pub fn because(mut self, cause: &dyn std::error::Error) -> Self {
        self.causes.extend(mullion_wire::error_chain(cause));
        self
    }

    /// Adds one action that a person can take.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the last lines of the right log.
    #[must_use]
    pub fn tail(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.tail.extend(lines);
        self
    }
}

/// What helps when the disk is full.
pub const MAKE_ROOM: &str = "make room on the disk, then run it again: it goes on where it was";

/// Whether an error is that of a full disk, by the file system's word or by that of a tool, in the error or in its last
/// lines.
pub fn is_disk_full<'a>(
    error: &(dyn std::error::Error + 'static),
    tail: impl IntoIterator<Item = &'a str>,
) -> bool {
    use std::io::ErrorKind;
    let says_so = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.contains("no space left on device") || line.contains("disk quota exceeded")
    };
    let mut cause = Some(error);
    while let Some(inner) = cause {
        let kind = inner
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if matches!(
            kind,
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        ) || says_so(&inner.to_string())
        {
            return true;
        }
        cause = inner.source();
    }
    tail.into_iter().any(says_so)
}
