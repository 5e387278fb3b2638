//! Documents for machines and clusters: blueprints, kubeadm's configurations, sets of Kubernetes objects.
//!
//! ```text
//! Model (file + catalog) ──┐
//! addresses, endpoint ─────┤
//! Ground of each machine ──┼─► Setting ─► machine_document     what a machine should be before it is a node
//! versions of programs ────┤            ─► init, join           kubeadm's configurations, without their secrets
//! contents of user's files ┘            ─► objects              JSON for the API server
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
//! - No document holds a secret: tokens and keys come into a [`Secret`](mullion_wire::Secret) when a step runs, and the
//!   user's own files are named by their digests.
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
mod document;
mod error;
mod kubeadm;
mod kubelet;
mod load_balancer;
mod objects;
mod outward;
mod setting;
mod system;
mod windows;

pub use blueprint::{machine_document, node_blueprint};
pub use containerd::stand_in_containerd;
pub use document::{Blueprint, File, MachineDocument};
pub use error::RenderError;
pub use kubeadm::{
    DISCOVERY_PATH, InitDocument, InitKeys, JoinDocument, JoinKeys, TOKEN_MINUTES,
    control_plane_taint, discovery, expected_preflight_errors, init, join, taints,
};
pub use kubelet::{GROUND_PATCH, PATCHES_FOLDER};
pub use load_balancer::load_balancer_blueprint;
pub use objects::{ADDON_PREFIX, PLUGIN_PREFIX, WRITE_NETWORK, objects, sets};
pub use outward::login_variables;
pub use setting::{Cgroups, Footing, Ground, Place, Setting};
pub use windows::PATCHES_FOLDER as WINDOWS_PATCHES_FOLDER;
pub use windows::{NETWORK_SETTINGS, windows_blueprint, windows_program_path};

/// The port of the API server on control planes.
pub const API_PORT: u16 = 6443;
