//! Putting back everything that was changed, and forgetting it.
//!
//! Packages stay: others may use them by now, and removing them could take more with them than was brought.

use crate::apply::{
    bring_back_services, definitions, folders_back, remove_firewall, remove_staged,
    restart_released, restore, settings_back, windows, withdraw_services,
};
use crate::failure::AgentError;
use crate::state::State;
use crate::work::Work;
use crate::{images, resume};

/// Puts everything back. What is remembered goes last, so that a revert that was killed goes on.
pub(crate) fn revert(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    if !work.state.is_empty() {
        put_back(work)?;
        work.state = State::default();
        work.save()?;
    }
    forget(work)
}

fn put_back(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let names: Vec<_> = work.state.services.keys().cloned().collect();
    let ran_before: Vec<_> = work
        .state
        .services
        .iter()
        .filter(|(_, before)| before.is_running)
        .map(|(name, _)| name.clone())
        .collect();
    let paths: Vec<_> = work.state.files.keys().cloned().collect();
    if !paths.is_empty() {
        // Services that ran before us get their own files back, and read them.
        work.state.pending.restarts.extend(ran_before);
        work.state.pending.reload |= paths.iter().any(|path| work.system.defines_service(path));
        work.state.pending.staged.extend(paths.iter().cloned());
    }
    work.touch()?;

    resume::unschedule(work)?;
    images::remove(work)?;
    withdraw_services(work, &names)?;
    remove_staged(work)?;
    for path in &paths {
        restore::restore(work, path)?;
    }
    definitions::give_back(work)?;
    restore::remove_folders(work)?;
    folders_back(work)?;
    windows::give_back(work)?;
    let settings: Vec<_> = work.state.settings.keys().cloned().collect();
    for name in settings {
        settings_back(work, &name)?;
    }
    if let Some(group) = work.state.firewall.clone() {
        remove_firewall(work, &group)?;
    }
    if work.state.pending.reload {
        work.system.reload()?;
    }
    bring_back_services(work, &names)?;
    if !paths.is_empty() {
        restart_released(work)?;
    }
    if !work.state.packages.is_empty() {
        let names: Vec<_> = work.state.packages.iter().map(String::as_str).collect();
        work.report
            .doing(format!("packages stay installed: {}", names.join(", ")));
    }
    Ok(())
}

/// Removes the agent's own files, what is remembered last. The folder may hold what others put there: a computer that
/// carries machines keeps its templates in a folder of the same name.
fn forget(work: &Work<'_, '_>) -> Result<(), AgentError> {
    let system = work.system;
    let paths = system.paths();
    let state = crate::state::path(system);
    system.remove(&crate::state::store(system))?;
    system.remove(&crate::state::originals(system))?;
    crate::digests::remove(system)?;
    system.remove(&format!("{state}.new"))?;
    system.remove(&state)?;
    system.remove_empty(&paths.state)?;
    system.remove(&paths.secrets)?;
    // Ours until this process ends; whoever waits for it sees that it is gone and takes a new one.
    system.remove(&paths.lock)?;
    Ok(())
}
