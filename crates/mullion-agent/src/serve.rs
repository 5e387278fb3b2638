//! One request in, events out.

use std::io::{BufRead, Read as _, Write};
use std::time::Duration;

use mullion_wire::{Event, Patience, Request, RequestError, read_patience, read_request};

use crate::entry::entry;
use crate::failure::AgentError;
use crate::report::Report;
use crate::state;
use crate::system::{LogEntry, System, SystemError};
use crate::work::Work;
use crate::{apply, commands, compare, facts, images, kubeadm, revert};

/// The longest request. Blueprints are some tens of kilobytes: large contents are in the store.
const LONGEST: u64 = 2 * 1024 * 1024;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The last event was [`Event::Done`].
    Done,
    /// The last event was [`Event::Failed`].
    Failed,
}

/// Reads one request, fulfils it, and writes events, the last of which says how it ended.
///
/// `wait` is how long another agent on this machine is waited for.
pub fn serve(
    system: &dyn System,
    requests: &mut dyn BufRead,
    events: &mut dyn Write,
    wait: Duration,
) -> Outcome {
    let mut report = Report::new(events);
    let request = match read(requests) {
        Ok((request, patience)) => {
            system.be_patient(patience);
            request
        }
        Err(error) => {
            report.tell(&error.event());
            return Outcome::Failed;
        }
    };
    let fulfilled = fulfil(system, &request, &mut report, wait);
    conclude(system, &request, &mut report, fulfilled)
}

/// Tells how a request ended, in the event log too.
pub(crate) fn conclude(
    system: &dyn System,
    request: &Request,
    report: &mut Report<'_>,
    fulfilled: Result<Option<String>, AgentError>,
) -> Outcome {
    let (end, outcome) = match fulfilled {
        Ok(reboot) => {
            let changed = report.count();
            (Event::Done { changed, reboot }, Outcome::Done)
        }
        Err(error) => (error.event(), Outcome::Failed),
    };
    if let Some((entry, words)) = entry(request, &end) {
        // Nobody could read it before the source is known. Once all is put back nobody can any more: it is the last one.
        if entry == LogEntry::PutBack || apply::windows::is_source_known(system) {
            // What was done is done, whether or not the log takes it.
            let _ = system.log_event(entry, &words);
        }
    }
    report.tell(&end);
    outcome
}

fn read(requests: &mut dyn BufRead) -> Result<(Request, Patience), AgentError> {
    let mut line = Vec::new();
    requests
        .take(LONGEST + 1)
        .read_until(b'\n', &mut line)
        .map_err(AgentError::NotReceived)?;
    if line.len() as u64 > LONGEST {
        return Err(AgentError::TooLong { limit: LONGEST });
    }
    let line = String::from_utf8_lossy(&line);
    if line.trim().is_empty() {
        return Err(AgentError::NoRequest);
    }
    let request = read_request(&line).map_err(|error| match error {
        RequestError::Newer { found, known } => AgentError::Newer {
            what: "request",
            found,
            known,
            agent: crate::VERSION,
        },
        error => AgentError::Unreadable(error),
    })?;
    Ok((request, read_patience(&line)))
}

/// Fulfils a request; gives back why the machine has to be started anew, where it has.
fn fulfil(
    system: &dyn System,
    request: &Request,
    report: &mut Report<'_>,
    wait: Duration,
) -> Result<Option<String>, AgentError> {
    if let Some(words) = changes_something(request)
        && take_lock(system, words, report, wait)? == Turn::Later
        && !report.is_heard("the other agent has ended")
    {
        // Who asked is gone, and others have had their turn since: a reset of then would take away what they made.
        return Err(AgentError::Deserted { what: words });
    }
    fulfil_locked(system, request, report)
}

/// Takes the lock, and tells whoever listens where that has to wait for another agent.
pub(crate) fn take_lock(
    system: &dyn System,
    words: &str,
    report: &mut Report<'_>,
    wait: Duration,
) -> Result<Turn, AgentError> {
    match system.lock(words, Duration::ZERO) {
        Err(SystemError::Busy { holder }) => {
            report.doing(format!(
                "another agent is at work here, and its end is waited for: {holder}"
            ));
            system.lock(words, wait)?;
            Ok(Turn::Later)
        }
        taken => taken.map(|()| Turn::AtOnce).map_err(AgentError::from),
    }
}

/// When a lock was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// When it was asked for.
    AtOnce,
    /// After another agent.
    Later,
}

/// Fulfils a request for which the lock is held where it needs it; a failure tells of memory that ran out meanwhile.
pub(crate) fn fulfil_locked(
    system: &dyn System,
    request: &Request,
    report: &mut Report<'_>,
) -> Result<Option<String>, AgentError> {
    let before = system.starved();
    work_on(system, request, report).map_err(|error| error.starved(system, &before))
}

fn work_on(
    system: &dyn System,
    request: &Request,
    report: &mut Report<'_>,
) -> Result<Option<String>, AgentError> {
    let mut work = Work::begin(system, report)?;
    if changes_something(request).is_some() {
        work.remove_secrets()?;
    }
    match request {
        Request::Facts => {
            let facts = Box::new(facts::facts(&mut work)?);
            work.report.tell(&Event::Facts { facts });
        }
        Request::Missing { blueprint } => {
            apply::check(&work, blueprint)?;
            let sha256 = apply::content::missing(&mut work, &blueprint.files)?;
            // The folder is made for what was just read: an apply follows, and reads none of it again.
            state::make_state_folder(system)?;
            work.digests.save(system)?;
            let store = state::store(system);
            work.report.tell(&Event::Missing { sha256, store });
        }
        Request::Compare { blueprint } => {
            let differences = compare::differences(&mut work, blueprint)?;
            for differences in compare::parts(differences) {
                work.report.tell(&Event::Differences { differences });
            }
        }
        Request::MissingImages { archives } => {
            let sha256 = images::missing(&mut work, archives)?;
            state::make_state_folder(system)?;
            let store = state::store(system);
            work.report.tell(&Event::Missing { sha256, store });
        }
        Request::Import { archives } => images::import(&mut work, archives)?,
        Request::Enable { features } => apply::enable(&mut work, features)?,
        Request::Apply { blueprint, mark } => apply::apply(&mut work, blueprint, mark)?,
        Request::Kubeadm { step } => {
            let done = kubeadm::run(&mut work, step)?;
            work.report.tell(&Event::Kubeadm { done });
        }
        Request::Run { commands, list } => commands::run(&mut work, list, commands)?,
        Request::KubeletLog => {
            for line in kubeadm::complaints(system) {
                work.report.output(&line);
            }
        }
        Request::Revert => revert::revert(&mut work)?,
        _ => {
            return Err(AgentError::UnknownRequest {
                agent: crate::VERSION,
            });
        }
    }
    Ok(work.restart_pending())
}

/// What others are told the lock is held for; nothing for requests that only look.
fn changes_something(request: &Request) -> Option<&'static str> {
    match request {
        Request::Facts
        | Request::Missing { .. }
        | Request::Compare { .. }
        | Request::MissingImages { .. }
        | Request::KubeletLog => None,
        Request::Import { .. } => Some("importing images"),
        Request::Enable { .. } => Some("turning on features"),
        Request::Apply { .. } => Some("applying a blueprint"),
        Request::Kubeadm { .. } => Some("running kubeadm"),
        Request::Run { .. } => Some("running the user's commands"),
        _ => Some("putting everything back"),
    }
}
