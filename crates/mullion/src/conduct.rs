//! Conducting a run: the engine works on threads of its own, and this one draws.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use mullion_catalog::Catalog;
use mullion_engine::{
    Cancel, Cancelled, Event, Holder, Journal, Lock, LockError, Opening, Options, RealClock,
    Report, RunOutcome, Runs, Watch, patience_under, places, run, timings,
};
use mullion_live::Adapter;
use mullion_plan::{MachineKinds, Plan};
use mullion_wire::Mask;

use crate::arguments::Patience;
use crate::commands::artifacts::tell_notices;
use crate::console::{Console, Format, Presence};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::signals::Listening;
use crate::views::progress::{Progress, Talk};
use crate::views::run::INTERRUPTED;
use crate::workshop::reasons_for_root;

/// How often the board is painted while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// What a run is about.
#[derive(Debug)]
pub struct Errand {
    /// What was typed.
    pub command: String,
    /// What to type to go on.
    pub again: String,
    /// Whether everything that programs say is shown.
    pub is_verbose: bool,
    /// How patient it is, where that was said.
    pub patience: Option<Patience>,
}

/// The right to work on a cluster, and on its machines here.
#[derive(Debug)]
pub struct Locks {
    // Given back in this order.
    _here: Option<Lock>,
    _state: Lock,
}

/// Takes the locks of a cluster, or says who has them.
pub fn take_locks(
    environment: &Environment,
    adapter: &Adapter<'_>,
    command: &str,
) -> Result<Locks, Failure> {
    let holder = Holder::this_process(command, Timestamp::now());
    let cluster = adapter.cluster_name();
    let failed = |error: LockError| {
        let failure = Failure::new(
            Class::ThisComputer,
            format!("cluster `{cluster}` cannot be worked on now"),
        )
        .because(&error);
        match error {
            LockError::Held { .. } => {
                failure.hint("wait until that run has ended, or end it with Ctrl-C")
            }
            LockError::File { source, path } if source.kind() == ErrorKind::PermissionDenied => {
                let folder = path.parent().unwrap_or(&path);
                failure.hint(format!(
                    "make `{}`, and what is in it, yours: no one else may write there for you",
                    folder.display()
                ))
            }
            _ => failure,
        }
    };
    let state = Lock::take(&environment.state, cluster, &holder).map_err(failed)?;
    let is_here = !reasons_for_root(adapter.model(), environment).is_empty();
    let here = (is_here && rustix::process::geteuid().is_root())
        .then(|| Lock::take_here(&environment.place, cluster, &holder));
    Ok(Locks {
        _here: here.transpose().map_err(failed)?,
        _state: state,
    })
}

/// Sends events to whoever draws.
struct Relay(Mutex<Sender<(Timestamp, Event)>>);

impl Watch for Relay {
    fn see(&self, at: Timestamp, event: &Event) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody draws any more: the run goes on all the same.
        let _ = sender.send((at, event.clone()));
    }
}

/// Runs a plan, and draws it.
pub fn conduct(
    console: &mut Console<'_>,
    environment: &Environment,
    adapter: &Adapter<'_>,
    plan: &Plan,
    errand: &Errand,
) -> Result<Report, Failure> {
    let opening = Opening::new(
        adapter.cluster_name().as_str(),
        &errand.command,
        env!("CARGO_PKG_VERSION"),
        plan,
    )
    .standing_in(Catalog::builtin().stand_ins(adapter.model().cluster()));
    let mask = Mask::new();
    for secret in adapter.secrets() {
        mask.register(secret.reveal());
    }
    let journal =
        Journal::create(&environment.state, opening, mask, Timestamp::now()).map_err(|error| {
            Failure::new(Class::ThisComputer, "the run's journal cannot be written").because(&error)
        })?;
    let journal_path = journal.path();
    let patience = patience(console, errand)?;
    adapter.be_patient(patience);
    let mut options = Options::for_this_computer().patient(patience);
    options.places = places(adapter.model().cluster());
    options.builds = adapter.builds(plan);
    options.again.clone_from(&errand.again);
    let cancel = Cancel::new();
    let _listening = Listening::start(&cancel).map_err(|error| {
        Failure::new(Class::ThisComputer, "signals cannot be heard").because(&error)
    })?;
    let (sender, events) = mpsc::channel();
    let relay = Relay(Mutex::new(sender));
    let mut painter = Painter::new(console, errand.is_verbose);
    let report = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let report = run(
                plan,
                adapter,
                &options,
                &journal,
                &relay,
                &cancel,
                &RealClock::new(),
            );
            // The last sender: with it the drawing ends.
            drop(relay);
            adapter.forget_at_end();
            report
        });
        loop {
            let event = events.recv_timeout(TICK);
            // At once: the ledger has the digest already, so a run that is killed later never warns again.
            if !adapter.sources().notices.is_empty() {
                painter.clear(console);
                let _ = tell_notices(console, adapter.sources());
            }
            match event {
                Ok((at, event)) => {
                    painter.see(console, at, &event);
                    if let Event::RunEnded { report } = &event
                        && cancel.level() == Cancelled::Now
                    {
                        painter.clear(console);
                        let _ = tell_saved(console, &adapter.snapshots(), &adapter.take_notes());
                        end_now(console, report, &errand.again);
                    }
                }
                Err(RecvTimeoutError::Timeout) => painter.tick(console, Timestamp::now()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        painter.clear(console);
        worker.join()
    });
    let report = report.map_err(|_| {
        let failure = Failure::new(Class::OurBug, "the run ended by a mistake of ours");
        match &journal_path {
            Some(path) => failure.hint(format!(
                "please report it with the journal `{}`",
                path.display()
            )),
            None => failure,
        }
    })?;
    let mut report = report;
    if report.outcome == RunOutcome::Done
        && plan.steps().iter().all(|step| step.action.only_looks())
    {
        // Evidence of changes lasts longer when runs that changed nothing take no place. One that cannot be removed
        // harms nobody.
        if Runs::of(&environment.state).remove(journal.id()).is_ok() {
            report.journal = None;
        }
    }
    tell_saved(console, &adapter.snapshots(), &adapter.take_notes())?;
    // What later runs are estimated by; a run is not worse for lacking it.
    let kinds = MachineKinds::of(adapter.model().cluster());
    let _ = timings::remember(&environment.state, &report, &kinds);
    Ok(report)
}

/// Names the snapshots that a run saved, and what else the user must see. Standard error, so also where a document is
/// written.
fn tell_saved(
    console: &mut Console<'_>,
    snapshots: &[PathBuf],
    notes: &[String],
) -> Result<(), Failure> {
    for path in snapshots {
        let path = path.display();
        writeln!(console.err, "saved a snapshot of etcd: {path}")?;
    }
    for note in notes {
        writeln!(console.err, "{note}")?;
    }
    Ok(())
}

/// How patient a run is: as it was said, or as this computer is busy.
fn patience(console: &mut Console<'_>, errand: &Errand) -> Result<u32, Failure> {
    if let Some(Patience(hundredths)) = errand.patience {
        return Ok(hundredths);
    }
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    // Nobody is worse off without it.
    let load = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse().ok());
    let hundredths = patience_under(load.unwrap_or_default(), cores);
    if hundredths > 100 && console.format == Format::Text {
        writeln!(
            console.err,
            "this computer is busy: waiting up to {} times as long as usual before giving up",
            Patience(hundredths)
        )?;
    }
    Ok(hundredths)
}

/// Ends the process after a second Ctrl-C: the journal is closed, and a step that does not obey is not waited for.
#[expect(
    clippy::exit,
    reason = "threads cannot be ended from outside, and the next run takes up what they leave"
)]
fn end_now(console: &mut Console<'_>, report: &Report, again: &str) -> ! {
    let _ = writeln!(console.err, "ended at once; go on with: {again}");
    if let Some(journal) = &report.journal {
        let _ = writeln!(console.err, "journal: {}", journal.display());
    }
    let _ = console.err.flush();
    std::process::exit(i32::from(INTERRUPTED))
}

/// Paints the board where there is a terminal, and writes plain lines where there is none.
struct Painter {
    progress: Progress,
    style: Style,
    painted: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Style {
    Board,
    Lines,
    Silent,
}

impl Painter {
    fn new(console: &Console<'_>, is_verbose: bool) -> Self {
        let style = match (console.format, console.presence) {
            (Format::Json, _) => Style::Silent,
            // Without colours too: it has none.
            (Format::Text, Presence::Attended) if !is_verbose => Style::Board,
            _ => Style::Lines,
        };
        let talk = if is_verbose {
            Talk::Everything
        } else {
            Talk::Steps
        };
        Self {
            progress: Progress::new(Timestamp::now(), talk),
            style,
            painted: 0,
        }
    }

    fn see(&mut self, console: &mut Console<'_>, at: Timestamp, event: &Event) {
        let lines = self.progress.see(at, event);
        match self.style {
            Style::Lines => {
                let still = self.progress.still(at);
                for line in lines.into_iter().chain(still) {
                    let _ = writeln!(console.err, "{line}");
                }
                let _ = console.err.flush();
            }
            Style::Board => {
                // What went wrong stays; what went well is on the board.
                let bad = lines.iter().filter(|line| line.contains("FAILED"));
                let bad: Vec<_> = bad.cloned().collect();
                if !bad.is_empty() {
                    self.clear(console);
                    for line in bad {
                        let _ = writeln!(console.err, "{line}");
                    }
                }
                self.paint(console, at);
            }
            // Standard output stays the document: the answer to Ctrl-C goes to standard error.
            Style::Silent if matches!(event, Event::Cancelling { .. }) => {
                for line in lines {
                    let _ = writeln!(console.err, "{line}");
                }
                let _ = console.err.flush();
            }
            Style::Silent => {}
        }
    }

    /// Time goes by, and nothing happens.
    fn tick(&mut self, console: &mut Console<'_>, now: Timestamp) {
        match self.style {
            Style::Board => self.paint(console, now),
            Style::Lines => {
                let lines = self.progress.still(now);
                if !lines.is_empty() {
                    let _ = writeln!(console.err, "{}", lines.join("\n"));
                    let _ = console.err.flush();
                }
            }
            Style::Silent => {}
        }
    }

    fn paint(&mut self, console: &mut Console<'_>, now: Timestamp) {
        let (width, height) = terminal_size();
        let mut frame = self.progress.frame(now, width);
        frame.truncate(height.saturating_sub(1).max(1));
        self.clear(console);
        for line in &frame {
            let _ = writeln!(console.err, "{line}");
        }
        let _ = console.err.flush();
        self.painted = frame.len();
    }

    /// Takes the board off the terminal.
    fn clear(&mut self, console: &mut Console<'_>) {
        if self.painted > 0 {
            let _ = console.err.rewind(self.painted);
            self.painted = 0;
        }
    }
}

fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (100, 30),
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::render::Colour;

    use super::*;

    #[test]
    fn promise_04_snapshots_are_named_in_every_format() {
        for format in [Format::Text, Format::Json] {
            let mut err = Vec::new();
            let mut console = Console {
                out: &mut std::io::sink(),
                err: &mut err,
                format,
                out_colour: Colour::Plain,
                err_colour: Colour::Plain,
                presence: Presence::Unattended,
            };
            let saved = ["/state/snapshots/lab/1-before-cp1.db".into()];
            tell_saved(&mut console, &saved, &["a note".into()]).unwrap();
            let told = String::from_utf8(err).unwrap();
            assert_eq!(
                told,
                "saved a snapshot of etcd: /state/snapshots/lab/1-before-cp1.db\na note\n"
            );
        }
    }

    #[test]
    fn ctrl_c_is_answered_also_where_a_document_is_written() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            format: Format::Json,
            out_colour: Colour::Plain,
            err_colour: Colour::Plain,
            presence: Presence::Unattended,
        };
        let mut painter = Painter::new(&console, false);
        let event = Event::Cancelling {
            under_way: vec![mullion_plan::StepId::new("a")],
            called_off: false,
        };
        painter.see(&mut console, Timestamp::now(), &event);
        let err = String::from_utf8(err).unwrap();
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.contains("press Ctrl-C again to stop now"), "{err}");
        assert!(out.is_empty());
    }

    #[test]
    fn the_board_is_for_people_with_or_without_colours() {
        let style = |format, presence, err_colour, is_verbose| {
            let console = Console {
                out: &mut std::io::sink(),
                err: &mut std::io::sink(),
                format,
                out_colour: Colour::Plain,
                err_colour,
                presence,
            };
            Painter::new(&console, is_verbose).style
        };
        for colour in [Colour::Plain, Colour::Styled] {
            let board = style(Format::Text, Presence::Attended, colour, false);
            assert_eq!(board, Style::Board);
            let verbose = style(Format::Text, Presence::Attended, colour, true);
            assert_eq!(verbose, Style::Lines);
            let alone = style(Format::Text, Presence::Unattended, colour, false);
            assert_eq!(alone, Style::Lines);
            let json = style(Format::Json, Presence::Attended, colour, false);
            assert_eq!(json, Style::Silent);
        }
    }
}
