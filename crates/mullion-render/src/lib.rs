//! Documents for machines and clusters: blueprints, kubeadm's configurations, sets of Kubernetes objects.
//!
//! ```text
//! Model (file + catalog) ──┐
//! addresses, endpoint ─────┤
//! Ground of each machine ──┼─► Setting ─► node_blueprint, windows_blueprint, …      (mullion-wire)
//! digests of programs ─────┤            ─► init, join                              (mullion-wire, secrets hidden)
//! contents of user's files ┘            ─► objects                                 (JSON for the API server)
//! ```
//!
//! A [`Setting`] is everything that a renderer may know. What a machine stands on is in its [`Ground`]: whoever looked
//! at the machine says it, nothing here assumes it.
//!
//! # Invariants
//!
//! - Pure: values in, documents out. The same setting gives the same bytes.
//! - A machine's blueprint does not change because another machine came or went; a load balancer's does when a control
//!   plane did, since the control planes are its settings.
//! - Images are named as upstream names them, whatever a mirror is called: every image of an object is an artifact of
//!   the model.
//! - What differs from machine to machine is in the machine's own patch of kubelet's configuration
//!   ([`GROUND_PATCH`]); what kubeadm keeps for all of them holds on every system.
//! - Preflight errors are let pass by name and for a reason that was found, never all of them.
//! - Tokens and keys are in a [`Secret`](mullion_wire::Secret) from the moment they come in.
//!
//! # Current limitations
//!
//! - Of network plugins, flannel only; no object sets of add-ons and admission policies.
//! - Values of the registry for Windows machines with a static address are not set: nobody says which have one.
//! - IPv4 only, as the file.
//! - A changed ground, or a changed patch of kubelet's configuration, reaches a node when kubeadm runs there again.
//! - Certificates that are trusted no longer leave their folder, but stay in the system's bundle until it is made anew.

mod blueprint;
mod containerd;
mod error;
mod kubeadm;
mod kubelet;
mod load_balancer;
mod objects;
mod outward;
mod setting;
mod system;
mod windows;

pub use blueprint::node_blueprint;
pub use containerd::stand_in_containerd;
pub use error::RenderError;
pub use kubeadm::{
    DISCOVERY_PATH, InitKeys, JoinKeys, TOKEN_MINUTES, discovery, expected_preflight_errors, init,
    init_config, join, join_config,
};
pub use kubelet::{GROUND_PATCH, PATCHES_FOLDER};
pub use load_balancer::load_balancer_blueprint;
pub use objects::WRITE_NETWORK;
pub use objects::objects;
pub use outward::login_variables;
pub use setting::{Cgroups, Footing, Ground, Place, Setting, Stored};
pub use windows::{NETWORK_SETTINGS, windows_blueprint, windows_program_path};

/// The port of the API server on control planes.
pub const API_PORT: u16 = 6443;
