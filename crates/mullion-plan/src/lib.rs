//! Planning: what is wanted and what was found go in, documents are rendered, and steps come out that carry them.
//!
//! ```text
//! Wanted (file + catalog) ──┬─► Documents::render ─► plan() ─► Plan ─► engine, one Perform::perform a step
//! Observed (facts) ─────────┘                                              │
//!       ▲                                                                  ▼
//!       └───────────────────── Discover::observe ◄───────────────────── the world
//! ```
//!
//! [`Documents::render`] allocates addresses and renders everything that machines and the API server are given.
//! [`plan`] compares the documents' digests with what was found, and lays what each machine lacks into one graph:
//! [`Stage`] and [`STAGES`] say where in a run a step belongs, [`Action`] what it does and with which document,
//! [`Step::reason`] why. Whoever runs a plan runs its steps and nothing else. The ports are [`Discover`] and
//! [`Perform`]. [`SavedPlan`] is a plan that was written down.
//!
//! What holds always:
//! - planning is pure and total: no clock, no file, no network; the same arguments give the same bytes;
//! - a [`Plan`] can be run to its end: no step is there twice, none waits for what is not there, for a
//!   later stage, or for itself;
//! - a world that is as wanted gives an empty plan; an interrupted run goes on by planning again;
//! - what nobody could look at is never treated as absent: it gets steps that do nothing where nothing
//!   is needed, and is removed only when the file no longer has it and no silent cluster may need it;
//! - a plan with an [`Obstacle`] touches nothing;
//! - a plan never empties the last member of etcd, nor one without which etcd would have no majority of healthy members
//!   ([`EtcdFacts::may_lose`]); a snapshot is saved before any control plane is emptied;
//! - certificates are renewed on one control plane after another, each after a snapshot of etcd; where the API server is
//!   silent, etcd may be too, and the renewal goes on without a snapshot;
//! - a node's blueprint does not change because another machine came or went; a load balancer's does when
//!   a control plane did, since the control planes are its settings.
//!
//! # Current limitations
//!
//! - A running cluster's Kubernetes, endpoint, pod and service networks and network plugin cannot be
//!   changed, nor a machine's driver, host, size or template: each is an obstacle with its way out.
//! - A machine that cannot be looked at gets all its steps, most of which then do nothing.
//! - Whether certificates are to be renewed is read on the machine. Those of a control plane that nobody could look at are
//!   renewed by the run after the one that starts it.
//! - While the API server is silent, nothing of it is removed, and no machine that nobody could look at:
//!   the run after it plans that.
//! - Of several control planes that nobody could look at, the first begins the cluster. If only another one
//!   holds a cluster's data, that step is refused, and planning again after it sees more.
//! - Templates and artifacts that nothing needs any more are kept.
//! - All hosts share one machine network.

mod action;
mod address;
mod applied;
mod certificates;
mod document;
mod documents;
mod edges;
mod etcd;
mod fingerprint;
mod identity;
mod index;
mod model;
mod observed;
mod obstacle;
mod plan;
mod planner;
mod port;
mod saved;
mod stage;
mod step;
mod took;
mod wanted;

pub use action::{
    Action, Connection, ExpectedProfile, Membership, Names, Prior, SnapshotBefore, StepKind,
    TemplateSystem,
};
pub use address::{Roster, address_in_line, chosen_address};
pub use applied::{Applied, DocumentMark, OlderMark};
pub use certificates::{Certificate, CertificateFacts};
pub use document::{Carried, Document};
pub use documents::{Documents, Inspected, MachineDocuments, ObjectSet, Rollout, RolloutKind};
pub use etcd::{EtcdFacts, Health, MemberFacts, Risk};
pub use fingerprint::Fingerprint;
pub use identity::{ClusterUid, Identity, NoUid, Trouble};
pub use observed::{
    ClusterFacts, ClusterId, FactsVersion, HostFacts, Inside, Kubeadm, MachineFacts, NodeFacts,
    Observed, Place, Power, Size,
};
pub use obstacle::{Obstacle, ObstacleClass};
pub use plan::{Plan, PlanError, Walk};
pub use planner::{Rest, plan, plan_down, plan_reboot, plan_reset};
pub use port::{
    Attend, Discover, DiscoverError, ErrorClass, MAKE_ROOM, News, Perform, Retry, StepError,
    Unattended, Unit, is_disk_full,
};
pub use saved::{SavedPlan, SavedPlanVersion, SavedStep, Unrunnable};
pub use stage::{STAGES, Stage, StageRow};
pub use step::{Reboot, Step, StepId};
pub use took::{Estimate, MachineKinds, Took, timed_as};
pub use wanted::{
    Archive, Part, PartKind, TemplateId, Unusable, UserCommand, Wanted, canonical, role_labels,
};

/// The JSON Schema of facts that were written down.
pub fn facts_schema() -> serde_json::Value {
    schemars::schema_for!(Observed).into()
}
