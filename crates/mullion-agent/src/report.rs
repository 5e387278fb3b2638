//! What the controller hears: events, one a line, without secrets.

use std::io::Write;

use mullion_wire::{Event, mask_output, write_line};

use crate::change::Change;

/// Tells the controller what happens, and counts what was changed.
///
/// A controller that is gone is no reason to stop: a machine that is half changed helps nobody, and the next
/// controller finds the work done. It is one not to begin: see [`Report::is_heard`].
pub(crate) struct Report<'a> {
    out: &'a mut dyn Write,
    changed: u64,
    changes: Vec<Change>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            changed: 0,
            changes: Vec::new(),
        }
    }

    /// Says what is being done.
    pub(crate) fn doing(&mut self, words: impl AsRef<str>) {
        let words = mask_output(words.as_ref()).into_owned();
        self.tell(&Event::Doing { words });
    }

    /// Says that something was changed.
    pub(crate) fn changed(&mut self, what: impl AsRef<str>) {
        self.changed += 1;
        let what = mask_output(what.as_ref()).into_owned();
        self.tell(&Event::Changed { what });
    }

    /// Says that something of a blueprint was made so.
    pub(crate) fn applied(&mut self, change: Change) {
        self.changed(change.what());
        self.changes.push(change);
    }

    /// Everything of a blueprint that was made so, in its order.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Passes on a line of a program.
    pub(crate) fn output(&mut self, line: &str) {
        let line = mask_output(line).into_owned();
        self.tell(&Event::Output { line });
    }

    /// How many things were changed.
    pub(crate) fn count(&self) -> u64 {
        self.changed
    }

    /// Says what is about to be done; whether anybody hears it.
    pub(crate) fn is_heard(&mut self, words: &str) -> bool {
        let words = words.to_owned();
        write_line(&Event::Doing { words }).is_ok_and(|line| {
            let wrote = self.out.write_all(line.as_bytes());
            wrote.and_then(|()| self.out.flush()).is_ok()
        })
    }

    /// Sends an event as it is: an answer, which may be a secret, or the end.
    pub(crate) fn tell(&mut self, event: &Event) {
        // What the agent says can always be written as JSON, and a controller that is gone hears nothing.
        if let Ok(line) = write_line(event) {
            let _ = self.out.write_all(line.as_bytes());
            let _ = self.out.flush();
        }
    }
}
