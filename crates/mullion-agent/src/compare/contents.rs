//! Files and folders on the two sides, and what of them may leave the machine.
//!
//! A file whose mode lets not everyone on the machine read it, on either side, stays there: only that it differs is
//! told. So does what others put into a folder that is closed to others, and any private key.

use mullion_wire::{Holding, LONGEST_TEXT, Side};

use super::sides::{Sides, hidden, is_short};
use crate::failure::AgentError;
use crate::state::Original;
use crate::system::{Family, Kind, Look, System, parent};

/// Everyone may read a file.
const READABLE: u32 = 0o004;
/// Everyone may reach what is in a folder.
const OPEN: u32 = 0o001;
/// A folder on Windows that lets in administrators alone. Most have lists of their own there, which are no mode.
const CLOSED_ON_WINDOWS: u32 = 0o700;
/// Stands in every private key in PEM, of whatever kind.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Which side is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Now,
    After,
}

/// What is at a path, and what will be.
pub(super) fn both(
    sides: &mut Sides<'_>,
    path: &str,
) -> Result<(Option<Side>, Option<Side>), AgentError> {
    let looks = [sides.now.look(path)?, sides.after.look(path)?];
    let is_file = |look: &&Look| look.kind == Kind::File;
    let is_private = looks
        .iter()
        .flatten()
        .filter(is_file)
        .any(|look| look.mode & READABLE == 0)
        || has_of_others(sides, path, looks[0].is_some()) && is_closed(sides, path)?;
    let [now, after] = looks;
    let mut now = side(sides, path, Which::Now, now, is_private)?;
    let mut after = side(sides, path, Which::After, after, is_private)?;
    let is_key = |side: &Option<Side>| matches!(side, Some(Side { holds: Holding::Text(text), .. }) if text.contains(PRIVATE_KEY));
    if is_key(&now) || is_key(&after) {
        for side in [&mut now, &mut after].into_iter().flatten() {
            if !matches!(side.holds, Holding::State(_)) {
                side.holds = Holding::Private;
            }
        }
    }
    Ok((now, after))
}

/// Whether one of the two sides may be what somebody else put there.
fn has_of_others(sides: &Sides<'_>, path: &str, is_there: bool) -> bool {
    match sides.state_now.files.get(path) {
        // Ours now. Where it is taken away, what was there before comes back.
        Some(Original::Kept { .. }) => !sides.state_after.files.contains_key(path),
        // It had the bytes that are ours, or there was nothing.
        Some(Original::Mode { .. } | Original::Absent) => false,
        None => is_there,
    }
}

/// Whether a folder above a path is closed to others, on either side.
fn is_closed(sides: &Sides<'_>, path: &str) -> Result<bool, AgentError> {
    let is_closed = |mode: u32| match sides.now.family() {
        Family::Linux => mode & OPEN == 0,
        Family::Windows => mode == CLOSED_ON_WINDOWS,
    };
    let mut folder = parent(path);
    while let Some(path) = folder {
        for system in [sides.now, sides.after] {
            let look = system.look(path)?;
            if look.is_some_and(|look| look.kind == Kind::Folder && is_closed(look.mode)) {
                return Ok(true);
            }
        }
        folder = parent(path);
    }
    Ok(false)
}

fn side(
    sides: &mut Sides<'_>,
    path: &str,
    which: Which,
    look: Option<Look>,
    is_private: bool,
) -> Result<Option<Side>, AgentError> {
    let Some(look) = look else {
        return Ok(None);
    };
    let words = match look.kind {
        Kind::Folder => "a folder",
        // What it leads to belongs to somebody else.
        Kind::Link => return Ok(Some(Side::state("a link"))),
        Kind::Other => "neither a file nor a folder",
        Kind::File => {
            let holds = if is_private {
                Holding::Private
            } else {
                holding(sides, path, which, &look)?
            };
            return Ok(Some(Side {
                holds,
                mode: Some(look.mode),
            }));
        }
    };
    Ok(Some(Side {
        mode: Some(look.mode),
        ..Side::state(words)
    }))
}

/// What is in a file that everyone may read.
fn holding(
    sides: &mut Sides<'_>,
    path: &str,
    which: Which,
    look: &Look,
) -> Result<Holding, AgentError> {
    let system: &dyn System = match which {
        Which::Now => sides.now,
        Which::After => sides.after,
    };
    if look.size <= LONGEST_TEXT {
        // A content that is still to be brought cannot be read, and has a digest all the same.
        let read = system.read(path).ok().flatten();
        let text = read.and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(text) = text.filter(|text| !text.contains('\0')) {
            let text = hidden(&text);
            if is_short(&text) {
                return Ok(Holding::Text(text));
            }
        }
    }
    let sha256 = match which {
        Which::Now => sides.digests.of(system, path, look)?,
        Which::After => system.digest(path)?,
    };
    Ok(Holding::Bytes {
        sha256,
        size: look.size,
    })
}
