//! Files of others that only the system and administrators may open: Windows' SSH server takes no key from a file that
//! anybody else may read.

use mullion_wire::Windows;

use super::failed;
use crate::change::Change;
use crate::failure::AgentError;
use crate::state::WindowsState;
use crate::system::{Kind, Look, Owner, System, SystemError};
use crate::work::Work;

/// The mode of a file that only the system and administrators may open.
pub(super) const PRIVATE: u32 = 0o600;
/// The mode of a file that whoever its folder lets in may open.
const OPEN: u32 = 0o644;

/// The mode of a file that is there.
fn mode(system: &dyn System, path: &str) -> Result<Option<u32>, SystemError> {
    Ok(look(system, path)?.map(|look| look.mode))
}

fn look(system: &dyn System, path: &str) -> Result<Option<Look>, SystemError> {
    let look = system.look(path)?;
    Ok(look.filter(|look| look.kind == Kind::File))
}

/// Those that are there and that others may open, or that are of others, who may let in whom they want.
pub(super) fn open_ones<'a>(
    system: &dyn System,
    wanted: &'a Windows,
) -> Result<Vec<&'a str>, SystemError> {
    let mut found = Vec::new();
    for path in &wanted.private_files {
        let is_open = |look: Look| look.mode != PRIVATE || look.owner != Owner::Agent;
        if look(system, path)?.is_some_and(is_open) {
            found.push(path.as_str());
        }
    }
    Ok(found)
}

/// Keeps the mode that a file has, unless an older one is kept already.
pub(super) fn keep(
    system: &dyn System,
    kept: &mut WindowsState,
    path: &str,
) -> Result<(), SystemError> {
    if let Some(mode) = mode(system, path)? {
        kept.modes.entry(path.to_owned()).or_insert(mode);
    }
    Ok(())
}

/// Gives files back whom they let in. Of a mode that is neither of Windows' two nobody knows any more whom that was: such
/// a file stays closed.
pub(super) fn give_back(
    work: &mut Work<'_, '_>,
    wanted: Option<&Windows>,
) -> Result<(), AgentError> {
    for (path, before) in work.state.windows.modes.clone() {
        if wanted.is_some_and(|wanted| wanted.private_files.contains(&path)) {
            continue;
        }
        work.touch()?;
        if before == OPEN && mode(work.system, &path)? == Some(PRIVATE) {
            let change = Change::Permissions(path.clone());
            work.system.set_mode(&path, OPEN).map_err(failed(&change))?;
            work.report.applied(change);
        }
        work.state.windows.modes.remove(&path);
    }
    Ok(())
}
