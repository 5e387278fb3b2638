//! What fuzzing calls: readers of what others wrote. A refusal says why.

use std::path::Path;

use mullion_plan::Unattended;

use crate::tree::Tree;

/// A root file system, unpacked into a folder.
pub fn unpack(tar: &Path, into: &Path) -> Result<(), String> {
    let tree = Tree::open(into).map_err(|error| error.to_string())?;
    crate::unpack::unpack(&tar.into(), &tree, &Unattended).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    })
}
