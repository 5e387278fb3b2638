//! The line with which every view marks machines that stand in for Windows.

/// The line that marks them, or nothing where there are none.
pub fn stand_in_mark(machines: &[String]) -> Option<String> {
    let machines = (!machines.is_empty()).then(|| machines.join(", "))?;
    Some(format!(
        "stand-in: {machines} (real Windows programs, no Windows: a rehearsal, not a proof)"
    ))
}
