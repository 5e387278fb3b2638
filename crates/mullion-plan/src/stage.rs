//! The stages of a run and the one table that describes them.
//!
//! A stage groups steps for people (`--until`, times per stage); what a step really waits for is in its
//! needs, so that work of a later stage may go beside a slow earlier one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stages, in the only order they ever happen: the order of the variants *is* the order of the run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Programs and images are fetched or built.
    Artifacts,
    /// Root file systems and golden disks are made.
    Templates,
    /// The hosts get the machines' network.
    Hosts,
    /// Machines are made, started and reached.
    Machines,
    /// Machines are looked at before anything is laid down on them.
    Inspect,
    /// Machines become what their blueprint says.
    Prepare,
    /// The API server comes up, then the further control planes.
    ControlPlane,
    /// The cluster's own objects are applied.
    Network,
    /// Workers join.
    Join,
    /// New nodes are awaited and marked.
    Settle,
    /// The user's last commands, and add-ons.
    After,
    /// What is no longer in the file goes.
    Retire,
    /// The suites prove that it works.
    Verify,
}

/// One row of the table of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageRow {
    /// The stage.
    pub stage: Stage,
    /// Its word on the command line and in JSON.
    pub word: &'static str,
    /// What a person reads.
    pub title: &'static str,
}

/// Every stage once, in the order of the run. Nothing else decides the order.
pub const STAGES: [StageRow; 13] = [
    StageRow {
        stage: Stage::Artifacts,
        word: "artifacts",
        title: "Fetch or build programs and images",
    },
    StageRow {
        stage: Stage::Templates,
        word: "templates",
        title: "Build templates",
    },
    StageRow {
        stage: Stage::Hosts,
        word: "hosts",
        title: "Give the hosts the machines' network",
    },
    StageRow {
        stage: Stage::Machines,
        word: "machines",
        title: "Make, start and reach machines",
    },
    StageRow {
        stage: Stage::Inspect,
        word: "inspect",
        title: "Look at the machines",
    },
    StageRow {
        stage: Stage::Prepare,
        word: "prepare",
        title: "Prepare the machines",
    },
    StageRow {
        stage: Stage::ControlPlane,
        word: "control-plane",
        title: "Bring up the control plane",
    },
    StageRow {
        stage: Stage::Network,
        word: "network",
        title: "Apply the cluster's objects",
    },
    StageRow {
        stage: Stage::Join,
        word: "join",
        title: "Join the workers",
    },
    StageRow {
        stage: Stage::Settle,
        word: "settle",
        title: "Wait for the nodes and mark them",
    },
    StageRow {
        stage: Stage::After,
        word: "after",
        title: "Run the last commands and add-ons",
    },
    StageRow {
        stage: Stage::Retire,
        word: "retire",
        title: "Remove what the file no longer has",
    },
    StageRow {
        stage: Stage::Verify,
        word: "verify",
        title: "Prove that it works",
    },
];

impl Stage {
    /// Its row of the table.
    pub fn row(self) -> &'static StageRow {
        // The table lists the variants in order, which a test holds.
        &STAGES[self as usize]
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(self.row().word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_lists_every_stage_once_in_order() {
        for (position, row) in STAGES.iter().enumerate() {
            assert_eq!(row.stage as usize, position, "{}", row.word);
            assert_eq!(row.stage.row(), row);
            let json = serde_json::to_value(row.stage).unwrap();
            assert_eq!(json, row.word, "JSON and command line say the same word");
        }
        // The last variant: a new one after it would make this number too small.
        assert_eq!(Stage::Verify as usize + 1, STAGES.len());
        let words: BTreeSet<_> = STAGES.iter().map(|row| row.word).collect();
        assert_eq!(words.len(), STAGES.len());
    }
}
