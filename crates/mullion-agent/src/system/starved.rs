//! What a system counts of memory that ran out.

/// What a system counts of memory that ran out, since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Starved {
    /// Programs that were ended for want of memory; 0 where the system does not tell.
    pub ended: u64,
    /// How often the machine met its own limit, where `ended` counts other machines' programs too.
    pub limit_met: Option<u64>,
}

impl Starved {
    /// Whether memory ran out on this machine since an earlier look.
    pub fn is_more_than(&self, earlier: &Self) -> bool {
        let is_own = match (self.limit_met, earlier.limit_met) {
            (Some(now), Some(then)) => now > then,
            _ => true,
        };
        self.ended > earlier.ended && is_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_machine_lacked_is_not_this_one_s() {
        let at = |ended, limit_met| Starved { ended, limit_met };
        assert!(at(2, None).is_more_than(&at(1, None)));
        assert!(!at(1, None).is_more_than(&at(1, None)));
        assert!(at(2, Some(8)).is_more_than(&at(1, Some(7))));
        assert!(!at(2, Some(7)).is_more_than(&at(1, Some(7))));
        assert!(!at(1, Some(8)).is_more_than(&at(1, Some(7))));
    }
}
