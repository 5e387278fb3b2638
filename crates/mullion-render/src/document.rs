//! The documents of one machine: what it should be, and what makes it a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mullion_wire::{Named, Sha256Digest};
use serde::Serialize;

/// Everything one machine should be, with programs and the user's files by name.
pub type Blueprint = mullion_wire::Blueprint<Named>;

/// A file of such a blueprint.
pub type File = mullion_wire::File<Named>;

/// Everything that one machine should be before it is a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDocument {
    /// The address by which it is a node.
    pub address: IpAddr,
    /// The servers that a machine of ours asks for names; this computer's where the list is empty. None for a machine that
    /// exists already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_servers: Option<Vec<IpAddr>>,
    /// What its agent makes it.
    pub blueprint: Blueprint,
    /// The images of the user's that its container runtime has, each with the digest of the archive that holds it; none
    /// where it comes from a registry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, Option<Sha256Digest>>,
}
