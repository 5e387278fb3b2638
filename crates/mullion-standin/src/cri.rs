//! The gateway between kubelet.exe and the machine's Linux container runtime.
//!
//! ```text
//! kubelet.exe ── TCP on loopback ──► gateway ── Unix socket ──► containerd
//!                Windows' words       │          Linux' words
//!                                     └─ map: pure functions on messages
//! ```
//!
//! `calls` is the table of every call, `map` what is changed in its messages, `images` which Windows images there are,
//! `platforms` what other images say of themselves, `pull` how they come, `groups` where pods are measured, `gateway` the
//! server. A call with nothing to change passes as bytes, with fields
//! that this program does not know; one that is not in the table is answered `Unimplemented`, since what is in it is not
//! known either.

mod calls;
mod gateway;
mod groups;
mod images;
mod map;
mod platforms;
mod pull;
mod raw;
mod version;

/// The messages of the interface, from Kubernetes' own file.
mod v1 {
    #![allow(
        dead_code,
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::pedantic,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}

pub(crate) use calls::fuzz;
pub use gateway::{Gateway, serve};
pub use images::{Images, ImagesError};
pub use map::Map;
pub use version::OsVersion;

#[cfg(test)]
mod tests;
