//! Laying files down: all staged and verified, then all swapped.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Content, File, Service, Sha256Digest};

use super::content::{self, Comparison, compare};
use super::restore::restore;
use crate::change::Change;
use crate::failure::AgentError;
use crate::state::{self, Original};
use crate::system::{Family, Kind, Look, Owner, SystemError, parent};
use crate::work::Work;

/// What becomes of files that an earlier blueprint laid down and this call does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// They stay.
    Left,
    /// They go, and what was there before comes back.
    Dropped,
}

/// What has to be done.
#[derive(Default)]
struct Changes<'a> {
    /// Files to write, with what is there.
    writes: Vec<(&'a File, Option<Look>)>,
    /// Files whose bytes are right, with what is there.
    modes: Vec<(&'a File, Look)>,
    /// Paths that are no longer wanted.
    drops: Vec<String>,
}

impl Changes<'_> {
    fn paths(&self) -> BTreeSet<&str> {
        let writes = self.writes.iter().map(|(file, _)| file.path.as_str());
        let modes = self.modes.iter().map(|(file, _)| file.path.as_str());
        writes
            .chain(modes)
            .chain(self.drops.iter().map(String::as_str))
            .collect()
    }
}

/// Where a file lies before it is put in place.
pub(crate) fn staged(path: &str) -> String {
    format!("{path}.mullion-new")
}

/// Lays files down; gives back how many were changed.
pub(super) fn lay(
    work: &mut Work<'_, '_>,
    files: &[&File],
    services: &[&Service],
    others: Others,
) -> Result<usize, AgentError> {
    respell(work, files);
    let changes = find_changes(work, files, others)?;
    for (file, _) in &changes.writes {
        if let Content::Stored { sha256, size } = &file.content
            && content::find(work, sha256, *size)?.is_none()
        {
            return Err(AgentError::NoContent {
                path: file.path.clone(),
                sha256: sha256.clone(),
            });
        }
    }
    remove_abandoned(work, &changes)?;
    let count = changes.paths().len();
    if count == 0 {
        return Ok(0);
    }
    work.report.doing(match count {
        1 => "laying down 1 file".to_owned(),
        count => format!("laying down {count} files"),
    });
    write_down(work, &changes, services)?;
    for (file, _) in &changes.writes {
        stage(work, file)?;
    }
    for (file, _) in &changes.writes {
        swap(work, file)?;
    }
    for (file, _) in &changes.modes {
        work.system.set_mode(&file.path, file.mode)?;
        work.report.applied(Change::File(file.path.clone()));
    }
    for path in &changes.drops {
        restore(work, path)?;
        work.state.files.remove(path);
    }
    Ok(count)
}

/// Remembers what was at a path under the letters that the path has now. Names on Windows have no case: under the
/// earlier letters the file would look like one to take away, and it is the one that is wanted.
fn respell(work: &mut Work<'_, '_>, files: &[&File]) {
    if work.system.family() != Family::Windows {
        return;
    }
    let paths = files.iter().map(|file| &file.path);
    let wanted: BTreeMap<_, _> = paths.map(|path| (path.to_lowercase(), path)).collect();
    let laid: Vec<_> = work.state.files.keys().cloned().collect();
    for path in laid {
        if let Some(now) = wanted.get(&path.to_lowercase())
            && **now != path
            && let Some(original) = work.state.files.remove(&path)
        {
            work.state.files.insert((*now).clone(), original);
        }
    }
}

fn find_changes<'a>(
    work: &mut Work<'_, '_>,
    files: &[&'a File],
    others: Others,
) -> Result<Changes<'a>, AgentError> {
    let mut changes = Changes::default();
    for file in files {
        match compare(work, file)? {
            Comparison::Same => {}
            Comparison::OtherMode(look) => changes.modes.push((file, look)),
            Comparison::Different(look) => changes.writes.push((file, Some(look))),
            Comparison::Absent => changes.writes.push((file, None)),
        }
    }
    if others == Others::Dropped {
        let wanted: BTreeSet<_> = files.iter().map(|file| file.path.as_str()).collect();
        let laid = work.state.files.keys();
        changes.drops = laid
            .filter(|path| !wanted.contains(path.as_str()))
            .cloned()
            .collect();
    }
    Ok(changes)
}

/// Removes what an earlier apply staged and was killed before it could swap, unless it is written anew anyway.
fn remove_abandoned(work: &mut Work<'_, '_>, changes: &Changes<'_>) -> Result<(), AgentError> {
    let written: BTreeSet<_> = changes
        .writes
        .iter()
        .map(|(file, _)| file.path.as_str())
        .collect();
    for path in &work.state.pending.staged {
        if !written.contains(path.as_str()) {
            work.system.remove(&staged(path))?;
        }
    }
    Ok(())
}

/// Keeps what is there, and writes down what will be changed and restarted, before anything is.
fn write_down(
    work: &mut Work<'_, '_>,
    changes: &Changes<'_>,
    services: &[&Service],
) -> Result<(), AgentError> {
    for (file, look) in &changes.writes {
        let original = match (work.state.files.get(&file.path), look) {
            // The file that only lost its mode to us was removed since: there is nothing left to keep.
            (Some(Original::Absent | Original::Kept { .. }), _)
            | (Some(Original::Mode { .. }), None) => continue,
            (None, None) => Original::Absent,
            (earlier, Some(_)) => {
                let mode = match earlier {
                    Some(Original::Mode { mode }) => Some(*mode),
                    _ => None,
                };
                let name = keep(work, &file.path)?;
                Original::Kept { name, mode }
            }
        };
        work.state.files.insert(file.path.clone(), original);
    }
    for (file, look) in &changes.modes {
        let original = Original::Mode { mode: look.mode };
        work.state
            .files
            .entry(file.path.clone())
            .or_insert(original);
    }
    for (file, _) in &changes.writes {
        let missing = missing_folders(work, &file.path)?;
        work.state.folders.extend(missing);
    }

    let paths = changes.paths();
    let pending = &mut work.state.pending;
    for service in services {
        let is_touched = |path: &String| paths.contains(path.as_str());
        // An agent that did not write causes down knows of none: whatever is taken away may have been one.
        let is_known = work.state.causes.contains_key(&service.name);
        let is_suspect = !is_known && !changes.drops.is_empty();
        // A file that is taken away stands among the earlier causes alone.
        let causes = work.state.causes.entry(service.name.clone()).or_default();
        causes.extend(service.restarted_by.iter().cloned());
        if is_suspect || causes.iter().any(is_touched) {
            pending.restarts.insert(service.name.clone());
        }
    }
    if !changes.drops.is_empty() {
        // Nobody knows any more which files a service read that is no longer named.
        let named = |name: &String| services.iter().any(|service| service.name == *name);
        for (name, before) in &work.state.services {
            if before.is_running && !named(name) {
                pending.restarts.insert(name.clone());
            }
        }
    }
    pending.reload |= paths.iter().any(|path| work.system.defines_service(path));
    pending.staged = changes
        .writes
        .iter()
        .map(|(file, _)| file.path.clone())
        .chain(changes.drops.iter().cloned())
        .collect();
    work.touch()
}

/// Keeps a twin of what is at a path; gives back its name.
fn keep(work: &Work<'_, '_>, path: &str) -> Result<String, AgentError> {
    let folder = state::originals(work.system);
    state::make_state_folder(work.system)?;
    work.system.make_folder(&folder, 0o700)?;
    // One name a path: a twin that a kill left half made is written over.
    let name = Sha256Digest::of(path.as_bytes()).as_str()[..32].to_owned();
    work.system.twin(path, &format!("{folder}/{name}"))?;
    Ok(name)
}

/// The folders above a path that do not exist, the uppermost first.
pub(super) fn missing_folders(work: &Work<'_, '_>, path: &str) -> Result<Vec<String>, AgentError> {
    // On Windows every user may let a folder lead elsewhere, and go on to change where to.
    let is_windows = work.system.family() == Family::Windows;
    let mut missing = Vec::new();
    let mut folder = parent(path);
    while let Some(path) = folder {
        match work.system.look(path)? {
            Some(look) if is_windows && look.kind == Kind::Link && look.owner == Owner::Other => {
                return Err(AgentError::OfStranger {
                    path: path.to_owned(),
                    kind: look.kind,
                });
            }
            // What is above it may lead elsewhere still.
            Some(look) if is_windows && matches!(look.kind, Kind::Folder | Kind::Link) => {}
            Some(look) if matches!(look.kind, Kind::Folder | Kind::Link) => break,
            Some(_) => {
                return Err(AgentError::InTheWay {
                    path: path.to_owned(),
                    what: "no folder",
                });
            }
            None => missing.push(path.to_owned()),
        }
        folder = parent(path);
    }
    missing.reverse();
    Ok(missing)
}

/// Writes a file beside its place, and reads it back.
fn stage(work: &mut Work<'_, '_>, file: &File) -> Result<(), AgentError> {
    for folder in missing_folders(work, &file.path)? {
        work.system.make_folder(&folder, 0o755)?;
    }
    let staged = staged(&file.path);
    let wanted = file.content.sha256();
    match &file.content {
        Content::Text(text) => work.system.write(&staged, text.as_bytes(), file.mode)?,
        Content::Stored { sha256, size } => {
            let found = content::find(work, sha256, *size)?;
            let found = found.ok_or_else(|| AgentError::NoContent {
                path: file.path.clone(),
                sha256: sha256.clone(),
            })?;
            work.system.copy(&found, &staged, file.mode)?;
        }
    }
    let found = work.system.digest(&staged)?;
    if found == wanted {
        return Ok(());
    }
    work.system.remove(&staged)?;
    Err(AgentError::Damaged {
        path: file.path.clone(),
        wanted,
        found,
    })
}

/// Puts a staged file in its place.
fn swap(work: &mut Work<'_, '_>, file: &File) -> Result<(), AgentError> {
    work.system.rename(&staged(&file.path), &file.path)?;
    if let Some(look) = work.system.look(&file.path)? {
        work.digests
            .remember(&file.path, &look, file.content.sha256());
    }
    work.report.applied(Change::File(file.path.clone()));
    Ok(())
}

/// Takes away what was staged and is not wanted any more.
pub(crate) fn remove_staged(work: &Work<'_, '_>) -> Result<(), SystemError> {
    for path in &work.state.pending.staged {
        work.system.remove(&staged(path))?;
    }
    Ok(())
}
