//! The journal of a run: every transition before and after it happens, one line of JSON each.
//!
//! ```text
//! <state>/runs/<id>/journal.jsonl   run, begin, retry, end, blocked, close; synced before and after a step
//!                   log.txt         what was heard of the steps; not synced
//! ```
//!
//! What holds: a step is performed only after its `begin` has reached the disk; whatever waits for a step is
//! performed only after that step's `end` has. A journal that cannot be written any more lets no step begin.

use std::fmt::Debug;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use mullion_rights::{private_folder, sync_folder};
use mullion_wire::Mask;
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::line::{JOURNAL_VERSION, Line, Opening, masked};
use crate::private::{new_private_file, new_private_folder};
use crate::run_id::RunId;
use crate::runs::{JOURNAL, KEPT, LOG, RUNS, Runs};

/// Why a journal cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Its folder or files cannot be made.
    #[error("the journal cannot be made in `{}`", folder.display())]
    Make {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line cannot be written.
    #[error("the journal cannot be written")]
    Write {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was closed, or could not be written before.
    #[error("the journal is closed")]
    Closed,
}

/// Where the lines of a journal go.
pub trait Sink: Debug + Send + Sync {
    /// Adds a whole line.
    fn append(&self, line: &[u8]) -> io::Result<()>;
    /// Comes back when everything that was added before has reached the disk.
    fn sync(&self) -> io::Result<()>;
}

/// Keeps the journal of one run. Shared by the threads of the run.
#[derive(Debug)]
pub struct Journal {
    id: RunId,
    opening: Opening,
    folder: Option<PathBuf>,
    mask: Mask,
    sink: Box<dyn Sink>,
    log: Mutex<Option<fs_err::File>>,
    trouble: OnceLock<String>,
    is_closed: AtomicBool,
}

impl Journal {
    /// Begins the journal of a run in a state folder, and removes old runs there; see [`Runs::prune`].
    pub fn create(
        state: &Path,
        opening: Opening,
        mask: Mask,
        now: Timestamp,
    ) -> Result<Self, JournalError> {
        let runs = state.join(RUNS);
        let make = |source| JournalError::Make {
            folder: runs.clone(),
            source,
        };
        private_folder(&runs).map_err(make)?;
        let (id, folder) = new_folder(&runs, now).map_err(make)?;
        let file = new_private_file(&folder.join(JOURNAL)).map_err(make)?;
        // Held as long as the run lives, so that a reader can tell a run from one that was killed.
        retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
            .map_err(|error| make(error.into()))?;
        let log = new_private_file(&folder.join(LOG)).map_err(make)?;
        let sink = FileSink {
            file,
            turn: Mutex::new(()),
        };
        let journal = Self {
            folder: Some(folder.clone()),
            log: Mutex::new(Some(log)),
            ..Self::with_sink(id, opening, mask, Box::new(sink))
        };
        journal.open(now)?;
        // The names in the folders have to last as well as the lines.
        for folder in [&folder, &runs] {
            sync_folder(folder).map_err(make)?;
        }
        // What is old and cannot be removed is in nobody's way.
        let _ = Runs::of(state).prune(KEPT);
        Ok(journal)
    }

    /// A journal whose lines go somewhere else.
    pub fn on(
        opening: Opening,
        mask: Mask,
        now: Timestamp,
        sink: Box<dyn Sink>,
    ) -> Result<Self, JournalError> {
        let journal = Self::with_sink(RunId::new(now), opening, mask, sink);
        journal.open(now)?;
        Ok(journal)
    }

    fn with_sink(id: RunId, mut opening: Opening, mask: Mask, sink: Box<dyn Sink>) -> Self {
        opening.command = mask.apply(&opening.command).into_owned();
        Self {
            id,
            opening,
            folder: None,
            mask,
            sink,
            log: Mutex::new(None),
            trouble: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    fn open(&self, now: Timestamp) -> Result<(), JournalError> {
        self.write(&Line::Run {
            version: JOURNAL_VERSION,
            run: self.id.clone(),
            started: now,
            pid: std::process::id(),
            opening: self.opening.clone(),
        })?;
        self.sync()
    }

    /// The run's name.
    pub const fn id(&self) -> &RunId {
        &self.id
    }

    /// What the journal began with.
    pub const fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The secrets that no line holds.
    pub const fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The folder of the run, for files that belong to it.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The journal's file.
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(JOURNAL))
    }

    /// Why it cannot be written any more, where it cannot.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    /// Adds a line.
    pub(crate) fn write(&self, line: &Line) -> Result<(), JournalError> {
        if self.is_closed.load(Ordering::SeqCst) || self.trouble.get().is_some() {
            return Err(JournalError::Closed);
        }
        let written = masked(line, &self.mask)
            .map_err(io::Error::from)
            .and_then(|text| self.sink.append(text.as_bytes()));
        written.map_err(|source| self.lost(source))
    }

    /// Comes back when every line has reached the disk.
    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        self.sink.sync().map_err(|source| self.lost(source))
    }

    fn lost(&self, source: io::Error) -> JournalError {
        // The first trouble is the one to tell.
        let _ = self.trouble.set(source.to_string());
        JournalError::Write { source }
    }

    /// Adds a line to the log. Whoever hears a step does not fail because the log does.
    pub(crate) fn log(&self, at: Timestamp, step: &str, text: &str) {
        if let Some(log) = lock(&self.log).as_mut() {
            let _ = log.write_all(format!("{at:.3} {step}: {text}\n").as_bytes());
        }
    }

    /// Adds the last lines.
    pub(crate) fn close(&self, lines: &[Line]) -> Result<(), JournalError> {
        for line in lines {
            self.write(line)?;
        }
        // Steps that nobody waits for any more have nothing to add.
        self.is_closed.store(true, Ordering::SeqCst);
        self.sync()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct FileSink {
    file: fs_err::File,
    turn: Mutex<()>,
}

impl Sink for FileSink {
    fn append(&self, line: &[u8]) -> io::Result<()> {
        let _turn = lock(&self.turn);
        (&self.file).write_all(line)
    }

    fn sync(&self) -> io::Result<()> {
        // Outside of the turn: many who sync at once are served by one write to the disk.
        self.file.sync_data()
    }
}

/// A new folder for a run of its own name.
fn new_folder(runs: &Path, now: Timestamp) -> io::Result<(RunId, PathBuf)> {
    loop {
        let id = RunId::new(now);
        let folder = runs.join(id.as_str());
        match new_private_folder(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok((id, folder)),
        }
    }
}
