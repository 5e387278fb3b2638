//! What works with what: Kubernetes, Windows, containerd, network plugins and drivers, and where each part comes from.
//!
//! # Purpose
//!
//! The rest of the program decides nothing about versions by itself. It asks here, and can show the source of every
//! answer.
//!
//! # Flow
//!
//! Data files, one a subject, lie in this crate's `data` folder and are part of the program. [`Catalog::builtin`] reads
//! them once, into types that refuse unknown fields. Each module holds one subject: its types, and the questions about
//! it as methods of [`Catalog`]. Three modules look across subjects: `needs` ([`Catalog::artifacts_for`]), `listing`
//! ([`Catalog::sections`]) and `why` ([`Catalog::why`]).
//!
//! ```
//! use mullion_catalog::{Catalog, Support};
//! use mullion_spec::words::WindowsVersion;
//!
//! let catalog = Catalog::builtin();
//! let release = catalog.resolve_kubernetes("1.36".parse()?)?;
//! let support = catalog.windows_support(release.version.minor, WindowsVersion::V2022);
//! assert!(matches!(support, Support::Supported { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! - Pure: no clock, no file, no network, no environment. The same question has the same answer.
//! - Every row names its source. What could not be established is unknown or left out, never guessed.
//! - A digest comes from a published record, a go.sum or a file hashed here; any other is [`Digest::Unknown`].
//! - A new Kubernetes version is a change of the data only: no code names a version.
//! - Every reference from one data file to another resolves. The tests in `references` hold this and the point before.
//!
//! # Current limitations
//!
//! - Programs, images and archives for amd64 only.
//! - Downloads have no digest yet, discs excepted: they are pinned at the first fetch. For flannel's archive upstream
//!   publishes no checksum either.
//! - Staging modules of Kubernetes are not pinned by themselves; the Go checksum database vouches for them.
//! - Calico and Antrea have rules but no artifacts: this release does not install them.
//! - Of the stand-in for Windows only what is built with patches is listed here; the rest belongs to its driver.
//! - Known-bad Windows updates are the few that a named source reports; a revision without an entry is not proven good.

mod admit;
mod artifacts;
mod catalog;
mod cni;
mod container_os;
mod containerd;
mod digest;
mod drivers;
mod firewall;
mod gates;
mod kube_proxy;
mod kubernetes;
mod linux;
mod listing;
mod modules;
mod needs;
mod number;
mod patches;
#[cfg(test)]
mod references;
mod requirements;
mod time_zones;
mod total;
mod updates;
mod why;
mod windows;

pub use admit::{Judgement, Model};
pub use artifacts::{
    ArtifactKind, ArtifactRef, Build, CBuild, GoBuild, GoModule, ImageBuild, Purpose, Replace,
    VersionSource,
};
pub use catalog::Catalog;
pub use cni::{
    Beforehand, CniBackend, CniPlugins, CniRelease, CniWindows, HnsNetwork, PolicyAgent,
    Precondition,
};
pub use container_os::{ContainerBase, WindowsImage};
pub use containerd::{BinKey, ContainerdLine, ContainerdNeed, ContainerdRelease};
pub use digest::{Digest, DigestError, DigestState};
pub use drivers::{
    BlueprintPart, Carried, Differs, DriverFacts, KubeletThere, MachineOrigin, MediaNeed, Place,
    Refusal,
};
pub use firewall::{OpenPort, PortWhen, Protocol};
pub use gates::LockedGate;
pub use kube_proxy::{FlagWhen, KubeProxyFlag, KubeProxyWay};
pub use kubernetes::{
    Fix, KubernetesMinor, KubernetesRelease, PauseChoice, Support, UnknownVersion, WindowsListing,
};
pub use linux::{LinuxRelease, RootPackages, StandInRoot};
pub use listing::{Row, Section};
pub use modules::ModulePin;
pub use needs::ArtifactWish;
pub use number::{Number, NumberError};
pub use patches::{Edit, Patch, PatchSubject};
pub use requirements::{
    Accelerator, Activity, ClockLook, Family, KernelFeature, Look, PackageManager, Requirement,
};
pub use updates::KnownBad;
pub use why::{Answer, Key, Standing, WhyError};
pub use windows::{
    DynamicPorts, KnownMedia, RegistryData, RegistryValue, RegistryWhen, SshServer, WindowsEdition,
    WindowsMinima, WindowsRelease,
};
