//! `cluster.yaml`, from its text to values that the rest of the program may trust.
//!
//! ```text
//! text ─► source (tree with places) ─► shape (fields and types) ─► raw ─► check (rules) ─► draft ─► cluster
//! ```
//!
//! Every mistake of a file is found in one reading: each step reports what it cannot take and goes on
//! with the rest. A [`finding::Finding`] names the [`rules::Rule`] that was broken, the place, the
//! cause and the remedy; [`render`] shows it with its line and a caret. [`edit`] goes the other way: it changes how
//! many machines a text asks for, and nothing else in it.
//!
//! What holds always:
//! - a [`cluster::Cluster`] outside this crate comes from [`draft::Draft::conclude`], and only where no
//!   rule was broken;
//! - fields, types, words and defaults are said once, by [`raw`]: the JSON Schema, the shape and the
//!   reference file are made from it;
//! - nothing is read but the text that is handed in, and no text makes it panic;
//! - a secret that stands in the file is never repeated, in a message or in a line that is shown: what
//!   to hide is decided from the text and its tree before any rule runs.
//!
//! # Current limitations
//!
//! - Anchors, aliases and tags are refused, and a file is one document.
//! - Networks are IPv4.
//! - Rules that need the catalog (versions, drivers, sizes) are in `mullion-catalog`.

mod check;
pub mod cluster;
pub mod draft;
pub mod edit;
pub mod finding;
mod hidden;
pub mod image;
pub mod networks;
pub mod raw;
pub mod reference;
pub mod render;
pub mod rules;
pub mod shape;
pub mod source;
pub mod value;
pub mod version;
pub mod words;

/// The version of the file's format.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";
/// The kind of the file.
pub const KIND: &str = "Cluster";

/// The JSON Schema of `cluster.yaml`.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(raw::RawCluster).into()
}

/// A name that is right by its letters, to go on with where the file's own is wrong.
fn fallback<T: TryFrom<String, Error = value::LabelError>>(name: &str) -> T {
    T::try_from(name.to_owned()).unwrap_or_else(|_| unreachable!("`{name}` is a DNS label"))
}
