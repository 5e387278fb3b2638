//! Programs, images, archives and root file systems: found, fetched, built, verified, kept and bundled.
//!
//! # Flow
//!
//! [`supply`] gives one part as a file of the [`Store`], from the first source that has it: the cache, a bundle, a
//! mirror, upstream, a build from source. [`supply_root`] does the same for a distribution's root file system.
//! [`bundle::write`] puts what the cache has into one file, which [`Sources::bundle`] reads on another computer.
//!
//! # Invariants
//!
//! - Nothing has its final name before it is whole, on disk, and what it should be.
//! - A download is held against the catalog's digest; where that is unknown, against upstream's checksum file, and
//!   from then on against what the [`Ledger`] says, whichever source it comes from. Where upstream has no such file
//!   either, what came first is pinned: the record and the list say so. A module is held against its pinned sum.
//! - What a mirror says of itself counts only over HTTPS and only once, and the user sees it. What a bundle says of itself
//!   counts where this computer, or one that the user trusts, signed it.
//! - What is made of the same inputs has the same bytes.
//! - Offline means that no connection is opened.
//! - Nothing is printed and nothing is read from the environment: progress goes to whoever attends, settings come in
//!   [`Sources`].
//!
//! # Current limitations
//!
//! - Linux on amd64 carries it: Go toolchains, file locks and tools are those of Linux.
//! - Offline builds nothing from source, not even what Go's own cache could give.
//! - A tag of a registry vouches for itself at the first pull; what it names is held to digests, and what came of it is
//!   pinned. A mirror is asked for the digest that upstream has under the tag, where upstream can be asked.
//! - Go's module and build caches are trusted as the cache is; Go's own checksums hold only when modules are fetched.
//! - Through a proxy also plain HTTP goes by `CONNECT`, which some proxies refuse; what is upstream is all HTTPS.
//! - Images for Windows are pulled, never made.
//! - What is in the cache is known by name and version alone: where a recipe changes for the same version, the
//!   version of the records must be raised. Patches are part of the version.
//! - Packages of a distribution change under the same wish: the same packages give the same bytes, another day's may
//!   give others. What is in the cache stays.

mod build;
pub mod bundle;
mod checksum;
mod claims;
mod digest;
mod digest_list;
mod distribution;
mod error;
mod extract;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod go;
mod hold;
mod image;
mod item;
mod job;
mod key;
mod ledger;
pub mod mirror;
mod process;
mod record;
mod root;
mod sources;
mod store;
mod supply;
mod trust;

pub use build::BuildError;
pub use claims::Claims;
pub use digest_list::DigestList;
pub use distribution::{Distribution, Variant};
pub use error::{SupplyError, Tried};
pub use fetch::FetchError;
pub use go::{Go, GoVersion, GoVersionError, Misfit, NEWEST as NEWEST_GO, toolchain};
pub use image::archive_names;
pub use item::Item;
pub use key::{PublicKey, PublicKeyError};
pub use ledger::Ledger;
pub use process::{Starved, ToolError};
pub use record::{Modified, Module, Origin, Record, Witness};
pub use root::{RootWish, supply_root};
pub use sources::{GoCaches, GoSource, Notices, PackageSource, Patience, Reach, Sources};
pub use store::{Custody, Soundness, Store, StoreError, Verdict};
pub use supply::{part_of, supply};
