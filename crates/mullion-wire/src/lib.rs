//! The blueprint, and what the controller and a machine's agent say to each other.
//!
//! # Flow
//!
//! The controller starts the agent on a machine over a login, writes one [`Request`] as one line of JSON to its
//! standard input, and reads lines of JSON from its standard output: any number of [`Event`]s, of which the last is
//! [`Event::Done`] or [`Event::Failed`]. A stream that ends without one of the two is a failure, whatever the exit
//! status was.
//!
//! # Invariants
//!
//! - Pure: values and their text, nothing that touches a system.
//! - Every document names its version; a newer one than [`VERSION`] is refused before anything else in it is read.
//! - A blueprint is known by its digest: equal blueprints have equal bytes.
//! - [`Debug`](std::fmt::Debug) of what holds a secret never shows it.
//!
//! # Current limitations
//!
//! A registry value of the blueprint is a number or text: bytes and 64-bit numbers are only kept and put back.

mod attended;
mod blueprint;
mod causes;
mod difference;
mod digest;
pub mod duration;
mod known;
mod mask;
mod message;
mod patience;
mod secret;
pub mod text;
mod windows;
mod windows_facts;

pub use attended::{Attended, AttendedFile, AttendedLog, AttendedProgram, Awaited};
pub use blueprint::{
    Blueprint, Content, File, Firewall, Folder, Named, OpenPort, Package, Protocol, Service,
    ServiceState,
};
pub use causes::error_chain;
pub use difference::{
    Difference, DifferenceKind, Holding, LONGEST_DIFFERENCES, LONGEST_TEXT, Side,
};
pub use digest::{DigestError, Hashing, Sha256Digest};
pub use known::{KNOWN_FILES, KnownFile, KnownFiles};
pub use mask::{MASKED, Mask, MaskedLines, login_of_address, mask_output};
pub use message::{
    Certificate, Certificates, Disk, Event, Facts, ImageArchive, Kubeadm, KubeadmDone,
    KubeadmPhase, Mark, Request, RequestError, UserCommand, is_unknown_request, read_event,
    read_patience, read_request, write_line, write_request,
};
pub use patience::{KUBEADM_TIMEOUTS, Patience};
pub use secret::Secret;
pub use windows::{
    AdapterChoice, Definition, DynamicPorts, Exclusions, OverlayNetwork, PageFile, Recovery,
    RegistryData, RegistryValue, Start, Windows,
};
pub use windows_facts::{Adapter, Feature, HnsNetwork, Licence, LicenceState, WindowsFacts};

/// The version of everything in this crate. A change that an older agent would misread raises it.
pub const VERSION: u32 = 1;

/// How an agent names itself: its version, and the first digits of its program's digest.
pub fn agent_version(version: &str, program: &Sha256Digest) -> String {
    format!("{version}+{}", &program.as_str()[..12])
}

/// Where the agent is on a machine with Linux.
pub const AGENT_ON_LINUX: &str = "/usr/local/lib/mullion/mullion-agent";

/// Where the agent is on a machine with Windows, and on what stands in for it.
pub const AGENT_ON_WINDOWS: &str = "C:/Program Files/mullion-agent/mullion-agent.exe";
