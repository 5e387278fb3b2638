//! How a machine differs from a blueprint: what an apply of it would change.
//!
//! The apply is rehearsed, so that there is one judge of what has to be changed. Each change that it reports is then
//! looked at twice: as the machine has it, and as the rehearsal left it.

use mullion_wire::{Blueprint, Difference, LONGEST_DIFFERENCES, Mark};

use crate::apply::{self, content};
use crate::failure::AgentError;
use crate::report::Report;
use crate::state::State;
use crate::system::{Rehearsal, System};
use crate::work::Work;
use mullion_wire::mask_output;

mod contents;
mod definitions;
mod sides;

use sides::Sides;

/// Everything that an apply of the blueprint would change, in its order. Changes nothing, save what is remembered of
/// large files.
pub(crate) fn differences(
    work: &mut Work<'_, '_>,
    blueprint: &Blueprint,
) -> Result<Vec<Difference>, AgentError> {
    let system = work.system;
    remember_digests(work, blueprint)?;
    let rehearsal = Rehearsal::new(system, blueprint);
    let mut unheard = std::io::sink();
    let mut report = Report::new(&mut unheard);
    let mut after = rehearse(&rehearsal, &mut report, blueprint)?;
    let before_restart = report.changes().len();
    if after.applied.is_none() {
        // What is left waits for a start of the machine.
        rehearsal.restart();
        after = rehearse(&rehearsal, &mut report, blueprint)?;
    }
    let mut sides = Sides {
        now: system,
        after: &rehearsal,
        state_now: &work.state,
        state_after: &after,
        blueprint,
        digests: &mut work.digests,
    };
    let mut differences = Vec::new();
    for (index, change) in report.changes().iter().enumerate() {
        let (now, after) = sides.of(change)?;
        differences.push(Difference {
            kind: change.kind(),
            name: mask_output(&change.name()).into_owned(),
            what: mask_output(&change.what()).into_owned(),
            now,
            after,
            after_restart: index >= before_restart,
        });
    }
    Ok(differences)
}

/// Differences in parts that are sent as one line each; one part without any where nothing differs.
pub(crate) fn parts(differences: Vec<Difference>) -> Vec<Vec<Difference>> {
    let mut parts = vec![Vec::new()];
    let mut length = 0;
    for difference in differences {
        // What is written as JSON was made of text and numbers: that cannot fail.
        let more = serde_json::to_string(&difference).map_or(0, |text| text.len());
        if length + more > LONGEST_DIFFERENCES && length > 0 {
            parts.push(Vec::new());
            length = 0;
        }
        length += more;
        if let Some(part) = parts.last_mut() {
            part.push(difference);
        }
    }
    parts
}

/// Keeps the digests of large files that the rehearsal asks for. Those that it takes itself are not kept: some are of
/// files that are not there yet.
fn remember_digests(work: &mut Work<'_, '_>, blueprint: &Blueprint) -> Result<(), AgentError> {
    // What cannot be is refused by the rehearsal, in the words of an apply.
    if apply::check(work, blueprint).is_ok() {
        for file in &blueprint.files {
            let _ = content::compare(work, file);
        }
        work.digests.save(work.system)?;
    }
    Ok(())
}

/// Applies the blueprint in a rehearsal; gives back what the agent would remember then.
fn rehearse(
    rehearsal: &Rehearsal<'_>,
    report: &mut Report<'_>,
    blueprint: &Blueprint,
) -> Result<State, AgentError> {
    let system: &dyn System = rehearsal;
    let mut work = Work::begin(system, report)?;
    apply::apply(&mut work, blueprint, &Mark(serde_json::Value::Null))?;
    Ok(work.state)
}
