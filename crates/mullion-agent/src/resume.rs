//! Going on by itself after a start of the machine: an apply that waits for one is kept, and a task runs the agent, so
//! that the machine gets to its end whether or not the controller comes back.

use std::io::Write;
use std::time::Duration;

use mullion_wire::{Blueprint, Mark, Request, read_request, write_line};

use crate::failure::AgentError;
use crate::report::Report;
use crate::serve::{Outcome, conclude, fulfil_locked, take_lock};
use crate::state::{self, make_state_folder};
use crate::system::System;
use crate::work::Work;

/// What the task runs the agent with.
const COMMAND: &str = "resume";

/// Where the request is kept: in the agent's own folder, which only administrators may read, as a blueprint can hold
/// files that are private.
pub(crate) fn path(system: &dyn System) -> String {
    format!("{}/resume.json", system.paths().state)
}

/// Keeps the request and has the agent run at the next start. Where that cannot be, whoever listens is told: the
/// controller goes on after the start, as ever, and nobody else does.
pub(crate) fn schedule(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
    mark: &Mark,
) -> Result<(), AgentError> {
    let system = work.system;
    let Some(program) = system.own_program() else {
        tell_nobody(work, "the agent does not know where its program is");
        return Ok(());
    };
    let Some(line) = line(blueprint, mark) else {
        tell_nobody(work, "the request cannot be kept");
        return Ok(());
    };
    work.state.windows.is_scheduled = true;
    work.save()?;
    make_state_folder(system)?;
    let path = path(system);
    let new = format!("{path}.new");
    system.write(&new, line.as_bytes(), 0o600)?;
    system.rename(&new, &path)?;
    if let Err(error) = system.schedule_start(&program, COMMAND) {
        tell_nobody(work, &error.to_string());
        // An apply before this one may have scheduled it.
        unschedule(work)?;
        work.save()?;
    }
    Ok(())
}

fn tell_nobody(work: &mut Work<'_, '_>, why: &str) {
    let words = format!("nothing goes on by itself after the start: {why}");
    work.report.doing(words);
}

/// The request, as it came in; always there, since it did.
fn line(blueprint: &Blueprint, mark: &Mark) -> Option<String> {
    let request = Request::Apply {
        blueprint: blueprint.clone(),
        mark: mark.clone(),
    };
    write_line(&request).ok()
}

/// Takes away what was kept of another apply: this one takes its place, wherever it ends.
pub(crate) fn forget_other(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
    mark: &Mark,
) -> Result<(), AgentError> {
    if !work.state.windows.is_scheduled {
        return Ok(());
    }
    let kept = work.system.read(&path(work.system))?;
    if kept.is_some() && kept == line(blueprint, mark).map(String::into_bytes) {
        return Ok(());
    }
    unschedule(work)
}

/// Takes both away again. The next save keeps that they are gone.
///
/// A task that cannot be removed is told, remembered for the next time, and no reason to stop: without what was kept it
/// does nothing.
pub(crate) fn unschedule(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    if !work.state.windows.is_scheduled {
        return Ok(());
    }
    let removed = work.system.unschedule_start();
    let path = path(work.system);
    work.system.remove(&format!("{path}.new"))?;
    work.system.remove(&path)?;
    match removed {
        Ok(_) => work.state.windows.is_scheduled = false,
        Err(error) => work.report.doing(format!(
            "the task that goes on after a start stays, and does nothing: {error}"
        )),
    }
    Ok(())
}

/// Goes on with the request that was kept; done where there is none.
///
/// What is kept is read when the lock is held: whoever had it before may have gone to the end, or begun another apply.
pub fn resume(system: &dyn System, events: &mut dyn Write, wait: Duration) -> Outcome {
    let mut report = Report::new(events);
    match kept(system, &mut report, wait) {
        Ok(None) => Outcome::Done,
        Ok(Some(request)) => {
            let fulfilled = fulfil_locked(system, &request, &mut report);
            conclude(system, &request, &mut report, fulfilled)
        }
        Err(error) => {
            report.tell(&error.event());
            Outcome::Failed
        }
    }
}

/// Takes the lock, and gives what is kept.
fn kept(
    system: &dyn System,
    report: &mut Report<'_>,
    wait: Duration,
) -> Result<Option<Request>, AgentError> {
    let words = "going on after a start of the machine";
    take_lock(system, words, report, wait)?;
    let Some(kept) = system.read(&path(system))? else {
        if system.look(&state::path(system))?.is_none() {
            // A revert took away everything of ours: so does this.
            system.remove(&system.paths().lock)?;
        }
        return Ok(None);
    };
    let request = read_request(&String::from_utf8_lossy(&kept)).map_err(AgentError::Unreadable)?;
    Ok(Some(request))
}
