//! Work with a cluster's API server: facts, sets of objects, tokens, certificates, nodes, and kubeconfigs.
//!
//! # Flow
//!
//! ```text
//! kubeconfig text ─► Api::connect ─► one method a piece of work ─► requests, side by side ─► Look | value | KubeError
//! ```
//!
//! [`Api`] is a blocking face over an asynchronous client with threads of its own: engine threads call it, many at
//! once. A wait is a [`Look`]: one look at a typed condition, with words for people where it is not so yet; the
//! engine decides how often and how long. [`KubeError::class`] says whether trying again has a point.
//!
//! # Invariants
//!
//! - Only the kubeconfig's text decides how to connect: no file, no environment, no proxy. The other side must show a
//!   certificate of the cluster's authority, always.
//! - What we make carries [`CLUSTER_LABEL`]; what is taken away was written down by us: objects in the `ConfigMap`
//!   `kube-system/mullion-sets`, labels and taints in the annotation [`SET_ANNOTATION`] of their node.
//! - A certificate is approved for the node that asks, its own name and its known addresses, or not at all. An address
//!   that is also another node's, another machine's or the endpoint's is never approved.
//! - Nothing that is secret stands in an error, and [`Debug`](std::fmt::Debug) shows none.
//! - The client library is hidden: no type of it is in a public signature.
//!
//! # Current limitations
//!
//! - Nothing watches: every look is a request, or a few at once.
//! - Kubeconfigs lose their comments when something is merged into them; numbers that are not written as text are
//!   written in their plainest form.
//! - Kubeconfigs with programs, files or proxies in them are refused: kubeadm writes none, and those of others are
//!   merged with, not connected by.
//! - Objects of a set are compared by the API server alone: what somebody changed in fields that the set does not
//!   name stays.
//! - A comparison of a set sends no dry run for objects that are not there: what would refuse them shows when they are
//!   applied.
//! - A pod that more than one disruption budget covers cannot be evicted, as with kubectl.
//! - Facts show membership of etcd by its static pods, so that of a node that was deleted without a reset is not seen.
//!   [`Api::etcd_members`] asks etcd.

mod api;
mod certificates;
mod conditions;
mod drain;
mod error;
mod etcd;
mod facts;
mod fields;
#[doc(hidden)]
pub mod fuzz;
mod keys;
mod kinds;
pub mod kubeconfig;
mod look;
mod nodes;
mod owner;
mod record;
mod request;
mod rollout;
mod session;
mod sets;
mod sign;
mod snapshot;
mod tokens;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod scenarios;

pub use api::Api;
pub use error::{Answer, Cause, KubeError};
pub use etcd::{EtcdDoor, EtcdMember};
pub use facts::{ClusterView, Condition, NodeView};
pub use fields::{FieldDifference, HIDDEN};
pub use keys::{
    CERTIFICATES_ANNOTATION, CLUSTER_LABEL, ID_LABEL, SET_ANNOTATION, SET_LABEL, TOKEN_DESCRIPTION,
};
pub use kubeconfig::KubeconfigError;
pub use look::Look;
pub use nodes::Marks;
pub use owner::Owner;
pub use request::{Serving, Taken, Unfit};
pub use rollout::Workload;
pub use sets::{ObjectChange, ObjectDifference};
pub use sign::Sign;
pub use tokens::{JoinToken, random_token};
