//! The stages of a run and the one table that describes them.
//!
//! A stage groups steps for people (`--until`, times per stage); what a step really waits for is in its
//! needs, so that work of a later stage may go beside a slow earlier one.

use mullion_spec::words::Os;
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
    /// The systems whose machines it concerns; empty when it is about no machine.
    pub systems: &'static [Os],
    /// What its steps wait for, in words.
    pub waits: &'static str,
    /// What is done by hand in its place, by the scripts that a cluster was first brought up with.
    pub by_hand: &'static [&'static str],
    /// Which numbered gates of a Windows node's bring-up it covers.
    pub gates: &'static [u8],
}

const BOTH: &[Os] = &[Os::Linux, Os::Windows];

/// Every stage once, in the order of the run. Nothing else decides the order.
pub const STAGES: [StageRow; 13] = [
    StageRow {
        stage: Stage::Artifacts,
        word: "artifacts",
        title: "Fetch or build programs and images",
        systems: &[],
        waits: "nothing",
        by_hand: &[
            "build.sh: Kubernetes for Linux",
            "build.sh: Kubernetes for Windows",
            "build.sh: pause",
            "build.sh: etcd",
            "build.sh: containerd",
            "build.sh: network plugins",
            "build.sh: CoreDNS",
            "build.sh: flannel",
            "cluster.sh template: images out of the programs",
            "windows.sh: kubelet with the stand-in's patches",
            "windows.sh: gateway",
            "windows.sh: library that the stand-in lacks",
        ],
        gates: &[],
    },
    StageRow {
        stage: Stage::Templates,
        word: "templates",
        title: "Build templates",
        systems: BOTH,
        waits: "the artifacts of its system",
        by_hand: &[
            "cluster.sh template: root file system",
            "cluster.sh template: programs",
            "cluster.sh template: containerd and kubelet services",
            "cluster.sh images: import into containerd's store",
            "windows.sh: root file system of the stand-in",
            "windows.sh: Linux programs of the stand-in",
            "windows.sh: containerd and gateway services",
            "windows.sh: import of images into the stand-in",
            "windows.sh: prefix made and waited for",
        ],
        gates: &[],
    },
    StageRow {
        stage: Stage::Hosts,
        word: "hosts",
        title: "Give the hosts the machines' network",
        systems: &[],
        waits: "nothing",
        by_hand: &[
            "cluster.sh boot: bridge and its address",
            "cluster.sh boot: forwarding",
        ],
        gates: &[],
    },
    StageRow {
        stage: Stage::Machines,
        word: "machines",
        title: "Make, start and reach machines",
        systems: BOTH,
        waits: "the machine's template and its host's network",
        by_hand: &[
            "machine.sh: clone of the template",
            "machine.sh: host name",
            "machine.sh: address and gateway",
            "machine.sh: hosts file",
            "machine.sh: start",
            "cluster.sh boot: wait until it answers",
            "windows.sh: start and wait until it answers",
        ],
        gates: &[1],
    },
    StageRow {
        stage: Stage::Inspect,
        word: "inspect",
        title: "Look at the machines",
        systems: BOTH,
        waits: "a login on the machine",
        by_hand: &[],
        gates: &[2],
    },
    StageRow {
        stage: Stage::Prepare,
        word: "prepare",
        title: "Prepare the machines",
        systems: BOTH,
        waits: "the look at the machine, the artifacts of its system where no template holds them, and one \
                control plane of a running cluster after another",
        by_hand: &[
            "cluster.sh template: containerd's and flannel's settings",
            "windows.sh: session that keeps services alive",
            "windows.sh: folders and programs",
            "windows.sh: registry values",
            "windows.sh: containerd's and flannel's settings",
            "windows.sh: kubelet service",
        ],
        gates: &[3, 4, 5, 6],
    },
    StageRow {
        stage: Stage::ControlPlane,
        word: "control-plane",
        title: "Bring up the control plane",
        systems: &[Os::Linux],
        waits: "the prepared control planes, the load balancer, and one control plane after another",
        by_hand: &["cluster.sh init: settings", "cluster.sh init: kubeadm init"],
        gates: &[],
    },
    StageRow {
        stage: Stage::Network,
        word: "network",
        title: "Apply the cluster's objects",
        systems: &[],
        waits: "the API server",
        by_hand: &[
            "cluster.sh network: access of the node's programs",
            "cluster.sh network: settings from the node's pod network",
            "cluster.sh network: flannel",
            "cluster.sh network: kube-proxy",
        ],
        gates: &[9, 11],
    },
    StageRow {
        stage: Stage::Join,
        word: "join",
        title: "Join the workers",
        systems: BOTH,
        waits: "the prepared machine and the control plane's last step",
        by_hand: &["cluster.sh join: kubeadm join", "windows.sh: kubeadm join"],
        gates: &[7, 8],
    },
    StageRow {
        stage: Stage::Settle,
        word: "settle",
        title: "Wait for the nodes and mark them",
        systems: BOTH,
        waits: "the node's join and the cluster's objects",
        by_hand: &[
            "cluster.sh ready: nodes",
            "windows.sh: access of the node's programs",
            "windows.sh: settings from the node's pod network",
            "windows.sh: flannel",
            "windows.sh: wait until the node is Ready",
        ],
        gates: &[9, 10, 11],
    },
    StageRow {
        stage: Stage::After,
        word: "after",
        title: "Run the last commands and add-ons",
        systems: BOTH,
        waits: "the Ready node; for add-ons, the cluster's objects",
        by_hand: &[],
        gates: &[],
    },
    StageRow {
        stage: Stage::Retire,
        word: "retire",
        title: "Remove what the file no longer has",
        systems: BOTH,
        waits: "the control plane's last step; control planes leave one after another",
        by_hand: &["cluster.sh down: machines", "cluster.sh down: bridge"],
        gates: &[],
    },
    StageRow {
        stage: Stage::Verify,
        word: "verify",
        title: "Prove that it works",
        systems: BOTH,
        waits: "every other step",
        by_hand: &["cluster.sh ready: CoreDNS"],
        gates: &[12, 13],
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

    #[test]
    fn every_gate_of_a_windows_node_has_its_stage() {
        let gates: BTreeSet<u8> = STAGES
            .iter()
            .flat_map(|row| row.gates.iter().copied())
            .collect();
        assert_eq!(gates, (1..=13).collect());
    }

    /// What the scripts do, line by line and in their order.
    const BY_HAND: &[&str] = &[
        "build.sh: Kubernetes for Linux",
        "build.sh: Kubernetes for Windows",
        "build.sh: pause",
        "build.sh: etcd",
        "build.sh: containerd",
        "build.sh: network plugins",
        "build.sh: CoreDNS",
        "build.sh: flannel",
        "cluster.sh template: root file system",
        "cluster.sh template: programs",
        "cluster.sh template: containerd and kubelet services",
        "cluster.sh template: containerd's and flannel's settings",
        "cluster.sh template: images out of the programs",
        "cluster.sh boot: bridge and its address",
        "cluster.sh boot: forwarding",
        "machine.sh: clone of the template",
        "machine.sh: host name",
        "machine.sh: address and gateway",
        "machine.sh: hosts file",
        "machine.sh: start",
        "cluster.sh boot: wait until it answers",
        "cluster.sh images: import into containerd's store",
        "cluster.sh init: settings",
        "cluster.sh init: kubeadm init",
        "cluster.sh join: kubeadm join",
        "cluster.sh network: access of the node's programs",
        "cluster.sh network: settings from the node's pod network",
        "cluster.sh network: flannel",
        "cluster.sh network: kube-proxy",
        "cluster.sh ready: nodes",
        "cluster.sh ready: CoreDNS",
        "windows.sh: kubelet with the stand-in's patches",
        "windows.sh: gateway",
        "windows.sh: root file system of the stand-in",
        "windows.sh: Linux programs of the stand-in",
        "windows.sh: containerd's and flannel's settings",
        "windows.sh: containerd and gateway services",
        "windows.sh: start and wait until it answers",
        "windows.sh: import of images into the stand-in",
        "windows.sh: prefix made and waited for",
        "windows.sh: session that keeps services alive",
        "windows.sh: folders and programs",
        "windows.sh: library that the stand-in lacks",
        "windows.sh: registry values",
        "windows.sh: kubelet service",
        "windows.sh: kubeadm join",
        "windows.sh: access of the node's programs",
        "windows.sh: settings from the node's pod network",
        "windows.sh: flannel",
        "windows.sh: wait until the node is Ready",
        "cluster.sh down: machines",
        "cluster.sh down: bridge",
    ];

    #[test]
    fn everything_done_by_hand_has_its_stage() {
        let mut covered: Vec<_> = STAGES.iter().flat_map(|row| row.by_hand).collect();
        let mut phases: Vec<_> = BY_HAND.iter().collect();
        covered.sort_unstable();
        phases.sort_unstable();
        assert_eq!(
            covered, phases,
            "each once, and nothing that no script does"
        );
    }
}
