//! The two ways through a plan: forwards, and back.
use std::thread;

use mullion_plan::{Perform, Plan};

use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::crew::{Alone, Threads};
use crate::desk::Desk;
use crate::drive::Drive;
use crate::journal::Journal;
use crate::options::{Options, Workers};
use crate::report::Report;
use crate::watch::Watch;

/// Runs a plan, and nothing but the plan.
///
/// - A step is begun when all that it needs is done, its machine does nothing else, and its lane has a place.
/// - A step that fails for good stops only what waits for it.
/// - Called off once, the run begins nothing new and ends its waits; called off twice, it tells its steps to end and
///   waits [`Options::grace`] for them. Then it closes the journal and tells [`crate::Event::RunEnded`]. It comes back when
///   its threads have ended: whoever does not want to wait for a step that does not obey ends the process.
/// - The journal is closed at the end: one journal is for one run.
pub fn run<P: Perform + Sync>(
    plan: &Plan,
    port: &P,
    options: &Options,
    journal: &Journal,
    watcher: &dyn Watch,
    cancel: &Cancel,
    clock: &dyn Clock,
) -> Report {
    let desk = Desk {
        options,
        journal,
        watcher,
        cancel,
        clock,
    };
    let drive = Drive::new(desk, plan);
    match options.workers {
        Workers::One => drive.run(&mut Alone::new(desk, port)),
        Workers::Many(most) => {
            thread::scope(|scope| drive.run(&mut Threads::new(scope, desk, port, most.get())))
        }
    }
}
