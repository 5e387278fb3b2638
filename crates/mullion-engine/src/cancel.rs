//! Calling a run off: once to end cleanly, twice to end now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How far a run was called off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cancelled {
    /// Not at all.
    No,
    /// Nothing new is started; steps that are under way come to their end, waits end at once.
    AtStepEnds,
    /// Steps that are under way are told to end too.
    Now,
}

/// A token that whoever hears Ctrl-C shares with the run. Copies are one token.
///
/// Asking for it is one atomic operation, so it may be done in a signal handler.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicU8>);

impl Cancel {
    /// A token that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls the run off, one degree further than before. Says how far that is.
    pub fn ask(&self) -> Cancelled {
        let further = |level: u8| Some((level + 1).min(2));
        // The closure never refuses.
        let before = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, further)
            .unwrap_or(2);
        cancelled(before.saturating_add(1))
    }

    /// How far the run was called off.
    pub fn level(&self) -> Cancelled {
        cancelled(self.0.load(Ordering::SeqCst))
    }
}

const fn cancelled(level: u8) -> Cancelled {
    match level {
        0 => Cancelled::No,
        1 => Cancelled::AtStepEnds,
        _ => Cancelled::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asking_goes_one_degree_further_and_stops_at_the_last() {
        let cancel = Cancel::new();
        let copy = cancel.clone();
        assert_eq!(cancel.level(), Cancelled::No);
        assert_eq!(copy.ask(), Cancelled::AtStepEnds);
        assert_eq!(cancel.level(), Cancelled::AtStepEnds);
        assert_eq!(cancel.ask(), Cancelled::Now);
        assert_eq!(cancel.ask(), Cancelled::Now);
        assert_eq!(copy.level(), Cancelled::Now);
    }
}
