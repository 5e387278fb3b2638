//! Putting back what was there before.

use super::files::staged;
use crate::change::Change;
use crate::failure::AgentError;
use crate::state::{self, Original};
use crate::system::Removed;
use crate::work::Work;

/// The name under which an original is kept.
pub(crate) fn name(original: &Original) -> Option<&str> {
    match original {
        Original::Kept { name, .. } => Some(name),
        Original::Absent | Original::Mode { .. } => None,
    }
}

/// Puts back what was at a path. What is remembered of it stays, so that this can be done again.
pub(crate) fn restore(work: &mut Work<'_, '_>, path: &str) -> Result<(), AgentError> {
    let Some(original) = work.state.files.get(path).cloned() else {
        return Ok(());
    };
    let system = work.system;
    match original {
        Original::Absent => {
            if system.remove(path)? == Removed::Nothing {
                return Ok(());
            }
        }
        Original::Mode { mode } => match system.look(path)? {
            Some(look) if look.mode != mode => system.set_mode(path, mode)?,
            _ => return Ok(()),
        },
        Original::Kept { name, mode } => {
            let kept = format!("{}/{name}", state::originals(system));
            let staged = staged(path);
            system.twin(&kept, &staged)?;
            if let Some(mode) = mode {
                system.set_mode(&staged, mode)?;
            }
            system.rename(&staged, path)?;
        }
    }
    work.report.applied(Change::File(path.to_owned()));
    Ok(())
}

/// Removes the folders that were made for files, where nothing else is in them.
pub(crate) fn remove_folders(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    // A folder comes before what is below it.
    for folder in work.state.folders.iter().rev() {
        work.system.remove_empty(folder)?;
    }
    Ok(())
}
