//! Runs a plan, and nothing but the plan.
//!
//! ```text
//! Plan ─► run() ─► what may begin ─► threads ─► Perform::perform, one step a call
//!                    ▲                  │
//!                    └── ended, failed, waits: Policy decides
//!                                       │
//!              Journal (before and after every step) · Watch (events) · Report (at the end)
//! ```
//!
//! One thread decides, others perform. A step that waits, for its next look at a gate or its next try, is put aside and
//! takes no thread. The tables say the rest: [`limits`] how many steps go on at once, [`gates`] what is waited for and
//! how long, [`policy`] what is tried again. [`Runs`] reads what runs have written down, [`timeline`] draws it, [`Board`]
//! follows a run for whoever shows its progress. [`Lock`] keeps two runs of one cluster apart.
//!
//! What holds always:
//! - no step is begun before all that it needs is done, and for one machine steps take turns;
//! - a step is performed only after the journal says that it begins, on the disk; what waits for it, only after the
//!   journal says that it ended;
//! - a step that fails for good stops only what waits for it, and that is told as blocked by it, not as failed;
//! - the time is asked for, and waited for, through [`Clock`] alone; with [`Workers::One`] and [`VirtualClock`] the same
//!   seed gives the same run;
//! - what is written down or told holds none of the secrets that its [`Mask`](mullion_wire::Mask) knows.
//!
//! # Current limitations
//!
//! - Threads cannot be ended from outside: after a run was called off twice, a step that does not obey keeps
//!   [`run`] from coming back, though the journal is closed and [`Event::RunEnded`] was told by then.
//! - Which step goes first among those that may is the plan's order, not the longest way that is left.
//! - Two runs of different clusters that end in the same moment may lose one's durations.
//! - A lock on a network file system keeps apart only what that file system keeps apart.

mod board;
mod cancel;
mod clock;
mod crew;
mod desk;
mod dice;
mod drive;
mod frame;
pub mod gates;
mod journal;
pub mod limits;
mod line;
mod lock;
mod options;
pub mod policy;
mod private;
mod record;
mod report;
mod run;
mod run_id;
mod runs;
pub mod select;
mod stand_ins;
pub mod timeline;
pub mod timings;
mod told;
mod watch;

pub use board::{Board, BoardRow, Current};
pub use cancel::{Cancel, Cancelled};
pub use clock::{Clock, RealClock, VirtualClock};
pub use dice::Dice;
pub use journal::{Journal, JournalError, Sink};
pub use line::{JOURNAL_VERSION, Opening};
pub use lock::{Holder, Lock, LockError};
pub use options::{Options, Workers, patience_under, places};
pub use record::{BlockedRecord, RecordError, RunRecord, RunState, StepRecord, StepState, Try};
pub use report::{Cause, MachineReport, Outcome, Report, RunOutcome, StageReport, StepReport};
pub use run::run;
pub use run_id::{RunId, RunIdError};
pub use runs::{Alive, KEPT, KEPT_FAILURES, Listed, Runs, RunsError};
pub use stand_ins::stand_in_mark;
pub use told::{Failure, FailureClass, StepTag};
pub use watch::{Event, EventLine, MachineCount, NewsItem, StageCount, Unwatched, Watch};

/// The JSON Schema of a report.
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).into()
}

/// The JSON Schema of a line of events.
pub fn event_schema() -> serde_json::Value {
    schemars::schema_for!(EventLine<'_>).into()
}
