//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use super::boot::plain;
use super::links::Link;
use super::place::Label;
use super::process::parse_state;
use crate::quirks::parse_mounts;

/// A machine's label.
pub fn label(bytes: &[u8]) -> Result<(), String> {
    let label: Label = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec_pretty(&label).map_err(|error| error.to_string())?;
    let again: Label = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, label, "a label reads back as it was written");
    Ok(())
}

/// What `ip -json` says of this computer's links, whose aliases anyone with their rights may write.
pub fn links(bytes: &[u8]) -> Result<(), String> {
    let links: Vec<Link> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    for link in &links {
        let _ = (link.cluster(), link.networks().count(), link.ipv4());
        let _ = (link.is_blank(), link.joins_networks(), link.is_up());
        let _ = (link.is_cable_of("mullion0"), link.identity());
    }
    Ok(())
}

/// What `/proc` says of a process, which chooses its own name.
pub fn process(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_mounts(&text);
    parse_state(&text).ok_or("no state")?;
    Ok(())
}

/// A line of a machine's console.
pub fn console(bytes: &[u8]) -> Result<(), String> {
    for line in String::from_utf8_lossy(bytes).lines() {
        let plain = plain(line);
        assert!(
            !plain.contains(|letter: char| letter.is_control() && letter != '\t'),
            "{plain:?}"
        );
    }
    Ok(())
}
