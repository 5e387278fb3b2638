//! What fuzzing calls: readers of what others wrote. A refusal says why.

use std::path::Path;

use mullion_plan::Unattended;

/// A root file system, unpacked into a folder.
pub fn unpack(tar: &Path, into: &Path) -> Result<(), String> {
    crate::unpack::unpack(tar, into, &Unattended).map_err(|error| error.to_string())
}
