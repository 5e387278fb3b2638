//! Folders that are there, whatever is in them, and who may open them.

use mullion_wire::Folder;

use super::check::WINDOWS_FOLDER_MODES;
use super::files::missing_folders;
use crate::change::Change;
use crate::failure::AgentError;
use crate::system::{Family, Kind, Owner};
use crate::work::Work;

/// Makes folders that are missing, and gives them their mode.
///
/// One that was there before us keeps its own on Linux, where nobody but root makes anything above them. On Windows every
/// user may have made it, and would go on to change what is in it: it is given to administrators with the mode that is
/// wanted, and what it was is kept.
pub(super) fn make(work: &mut Work<'_, '_>, folders: &[Folder]) -> Result<(), AgentError> {
    let is_windows = work.system.family() == Family::Windows;
    for folder in folders {
        let path = &folder.path;
        match work.system.look(path)? {
            Some(look) if look.kind == Kind::Folder => {
                let is_ours = work.state.folders.contains(path);
                let is_so = look.mode == folder.mode && (!is_windows || look.owner == Owner::Agent);
                if is_so || !(is_ours || is_windows) {
                    continue;
                }
                if !is_ours {
                    let is_above = |other: &Folder| other.path.starts_with(&format!("{path}/"));
                    if !folders.iter().any(is_above) {
                        refuse_strangers(work, path)?;
                    }
                    keep(work, path)?;
                }
                work.touch()?;
            }
            Some(look) if look.kind == Kind::Link && !is_windows => continue,
            // On Windows it needs no administrator to let a folder lead elsewhere.
            Some(look) if look.kind == Kind::Link => {
                return Err(AgentError::LeadsElsewhere(path.clone()));
            }
            Some(_) => {
                return Err(AgentError::InTheWay {
                    path: path.clone(),
                    what: "no folder",
                });
            }
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
        work.report.applied(Change::Folder(path.clone()));
    }
    Ok(())
}

/// Keeps who may open a folder, unless something older is kept already.
fn keep(work: &mut Work<'_, '_>, path: &str) -> Result<(), AgentError> {
    let kept = &mut work.state.windows.folders;
    if !kept.contains_key(path)
        && let Some(descriptor) = work.system.descriptor(path)?
    {
        kept.insert(path.to_owned(), descriptor);
    }
    Ok(())
}

/// Refuses a folder in which something is of a user who is no administrator: services of the system would read and run
/// what that user may go on to change.
fn refuse_strangers(work: &Work<'_, '_>, folder: &str) -> Result<(), AgentError> {
    for name in work.system.list(folder)? {
        let path = format!("{folder}/{name}");
        match work.system.look(&path)? {
            Some(look) if look.owner == Owner::Other => {
                return Err(AgentError::OfStranger {
                    path,
                    kind: look.kind,
                });
            }
            // Nobody else adds to one that is closed already, as containerd's own are: its layers are many, and of others.
            Some(look)
                if look.kind == Kind::Folder && !WINDOWS_FOLDER_MODES.contains(&look.mode) =>
            {
                refuse_strangers(work, &path)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives folders that were there before us back to whom they let in.
pub(crate) fn give_back(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    for (path, descriptor) in work.state.windows.folders.clone() {
        let found = work.system.descriptor(&path)?;
        if found.is_some_and(|found| found != descriptor) {
            work.system.set_descriptor(&path, &descriptor)?;
            work.report.applied(Change::Folder(path));
        }
    }
    Ok(())
}
