//! Folders that are there, whatever is in them.

use mullion_wire::Folder;

use super::files::missing_folders;
use crate::failure::AgentError;
use crate::system::Kind;
use crate::work::Work;

/// Makes folders that are missing. One that is there keeps its permissions, unless it was made by us.
pub(super) fn make(work: &mut Work<'_, '_>, folders: &[Folder]) -> Result<(), AgentError> {
    for folder in folders {
        let path = &folder.path;
        match work.system.look(path)? {
            Some(look) if look.kind == Kind::Folder => {
                if look.mode == folder.mode || !work.state.folders.contains(path) {
                    continue;
                }
                work.touch()?;
            }
            Some(look) if look.kind == Kind::Link => continue,
            Some(_) => return Err(AgentError::InTheWay(path.clone())),
            None => {
                let missing = missing_folders(work, path)?;
                work.state.folders.extend(missing.iter().cloned());
                work.state.folders.insert(path.clone());
                work.touch()?;
                for above in missing {
                    work.system.make_folder(&above, 0o755)?;
                }
            }
        }
        work.system.make_folder(path, folder.mode)?;
        work.report.changed(path);
    }
    Ok(())
}
