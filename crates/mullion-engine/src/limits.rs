//! How many steps go on at once: one table, by kind of step.
//!
//! A step takes a place in one lane while it is performed, not while it waits for its next look. Steps of
//! one machine take turns besides, whatever their lanes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use mullion_plan::StepKind;

/// What kinds of steps share one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Parts that are fetched.
    Download,
    /// Parts that are built from source: one build uses every core.
    Build,
    /// Templates: each writes gigabytes.
    Template,
    /// A host's own network.
    Host,
    /// Machines that are made, started, switched off or removed.
    Machine,
    /// Looks at machines and at the cluster.
    Look,
    /// Work inside of machines.
    Inside,
    /// Machines that become nodes, or cease to be.
    Member,
    /// Objects of the API server.
    Api,
    /// Suites.
    Verify,
}

/// Over what a lane's places are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Over the whole run.
    Run,
    /// For each host by itself; a machine of the user's is its own host.
    Host,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct LaneRow {
    /// The lane.
    pub lane: Lane,
    /// Over what it counts.
    pub scope: Scope,
    /// How many steps at once, on a computer with so many cores.
    pub most: fn(usize) -> usize,
    /// Why so many.
    pub why: &'static str,
}

/// Every lane once.
pub const LANES: [LaneRow; 10] = [
    LaneRow {
        lane: Lane::Download,
        scope: Scope::Run,
        most: |_| 6,
        why: "more connections seldom make a download faster, and servers count them",
    },
    LaneRow {
        lane: Lane::Build,
        scope: Scope::Run,
        most: |cores| if cores < 8 { 1 } else { 2 },
        why: "a build uses every core and gigabytes of memory",
    },
    LaneRow {
        lane: Lane::Template,
        scope: Scope::Run,
        most: |_| 1,
        why: "a template writes gigabytes to one disk",
    },
    LaneRow {
        lane: Lane::Host,
        scope: Scope::Host,
        most: |_| 1,
        why: "a host's network and firewall are one thing",
    },
    LaneRow {
        lane: Lane::Machine,
        scope: Scope::Host,
        most: |cores| cores.max(4),
        why: "a machine that starts keeps a core busy",
    },
    LaneRow {
        lane: Lane::Look,
        scope: Scope::Run,
        most: |cores| (8 * cores).max(32),
        why: "a look waits for answers",
    },
    LaneRow {
        lane: Lane::Inside,
        scope: Scope::Host,
        most: |cores| (2 * cores).max(8),
        why: "files are laid down at the pace of the disk they share",
    },
    LaneRow {
        lane: Lane::Member,
        scope: Scope::Host,
        most: |cores| (2 * cores).max(8),
        why: "a node that joins works for moments and waits for the rest",
    },
    LaneRow {
        lane: Lane::Api,
        scope: Scope::Run,
        most: |_| 8,
        why: "the API server queues what comes above that",
    },
    LaneRow {
        lane: Lane::Verify,
        scope: Scope::Run,
        most: |_| 1,
        why: "suites measure, and would disturb each other",
    },
];

/// The lane of a kind of step.
pub const fn lane(kind: StepKind) -> Lane {
    match kind {
        StepKind::Fetch => Lane::Download,
        StepKind::BuildTemplate => Lane::Template,
        StepKind::MakeNetwork | StepKind::RemoveNetwork => Lane::Host,
        StepKind::MakeMachine
        | StepKind::StartMachine
        | StepKind::SetAutostart
        | StepKind::Reboot
        | StepKind::RemoveMachine => Lane::Machine,
        StepKind::CheckStock
        | StepKind::Reach
        | StepKind::Inspect
        | StepKind::AwaitApi
        | StepKind::AwaitNodeNetwork
        | StepKind::AwaitReady
        | StepKind::ApproveCertificates => Lane::Look,
        StepKind::InstallAgent
        | StepKind::RunBefore
        | StepKind::EnableFeatures
        | StepKind::ApplyBlueprint
        | StepKind::RunAfter
        | StepKind::ReleaseMachine => Lane::Inside,
        StepKind::Init
        | StepKind::Join
        | StepKind::Register
        | StepKind::Renew
        | StepKind::Reset => Lane::Member,
        StepKind::Drain
        | StepKind::SaveEtcd
        | StepKind::Forget
        | StepKind::ApplyObjects
        | StepKind::RemoveObjects
        | StepKind::Mark => Lane::Api,
        StepKind::Verify => Lane::Verify,
    }
}

impl Lane {
    /// Its row of the table.
    pub fn row(self) -> &'static LaneRow {
        // The table lists the variants in order, which a test holds.
        &LANES[self as usize]
    }
}

/// How many steps of each lane go on at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits(BTreeMap<Lane, usize>);

impl Limits {
    /// What the table says for a computer with so many cores.
    pub fn for_cores(cores: NonZeroUsize) -> Self {
        let entry = |row: &LaneRow| (row.lane, (row.most)(cores.get()));
        Self(LANES.iter().map(entry).collect())
    }

    /// The same, with another limit of one lane.
    #[must_use]
    pub fn with(mut self, lane: Lane, most: NonZeroUsize) -> Self {
        self.0.insert(lane, most.get());
        self
    }

    /// How many steps of that lane go on at once; never none.
    pub fn of(&self, lane: Lane) -> usize {
        self.0.get(&lane).copied().unwrap_or(1).max(1)
    }
}

/// Who is counted together: the steps of one lane, on one host where the lane counts by host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queue {
    pub(crate) lane: Lane,
    pub(crate) place: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_lane_once_in_order() {
        for (position, row) in LANES.iter().enumerate() {
            assert_eq!(row.lane as usize, position, "{:?}", row.lane);
            assert!(!row.why.is_empty());
        }
        // The last variant: a new one after it would make this number too small.
        assert_eq!(Lane::Verify as usize + 1, LANES.len());
    }

    #[test]
    fn limits_grow_with_the_computer_and_never_forbid() {
        for cores in [1, 2, 16, 128] {
            let limits = Limits::for_cores(NonZeroUsize::new(cores).unwrap());
            for row in &LANES {
                assert!(limits.of(row.lane) >= 1, "{:?} at {cores}", row.lane);
            }
            assert_eq!(limits.of(Lane::Template), 1);
        }
        let small = Limits::for_cores(NonZeroUsize::MIN);
        assert_eq!(small.of(Lane::Build), 1);
        let large = Limits::for_cores(NonZeroUsize::new(64).unwrap());
        assert_eq!(large.of(Lane::Build), 2);
        assert!(large.of(Lane::Machine) > small.of(Lane::Machine));
        let own = small.with(Lane::Download, NonZeroUsize::new(2).unwrap());
        assert_eq!(own.of(Lane::Download), 2);
    }
}
