//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use mullion_wire::{Attended, mask_output};

use crate::pem::{authority_digest, certificates, expiry};
use crate::state::State;
pub use crate::system::linux::fuzz::linux_programs;

/// The agent's own state, which another version may have written.
pub fn state(bytes: &[u8]) -> Result<(), String> {
    let state: State = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
    let again: State = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, state, "a state reads back as it was written");
    Ok(())
}

/// What a service attends to.
pub fn attended(bytes: &[u8]) -> Result<(), String> {
    let read: Attended = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&read).map_err(|error| error.to_string())?;
    let again: Attended = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, read, "it reads back as it was written");
    Ok(())
}

/// Certificates and kubeconfigs on a machine.
pub fn certificate(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let _ = (expiry(&text), authority_digest(&text));
    let read = certificates(&text).filter(|all| !all.is_empty());
    read.map(|_| ()).ok_or_else(|| "none".into())
}

/// A line that a program wrote.
pub fn line(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let once = mask_output(&text).into_owned();
    assert_eq!(mask_output(&once), once, "what is masked stays so");
    Ok(())
}
