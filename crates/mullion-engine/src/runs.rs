//! The runs of a state folder: which there are, and what each did.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use mullion_rights::{open_record, read_record};
use rustix::fs::{FlockOperation, flock};

use crate::line::Line;
use crate::record::{RecordError, RunRecord};
use crate::report::RunOutcome;
use crate::run_id::RunId;

/// The folder of runs in a state folder.
pub(crate) const RUNS: &str = "runs";
/// The journal in a run's folder.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// What was heard, in a run's folder.
pub(crate) const LOG: &str = "log.txt";
/// How many runs are kept, whatever came of them.
pub const KEPT: usize = 50;
/// How many older runs of each cluster are kept that did not end well: they are what somebody looks for later.
pub const KEPT_FAILURES: usize = 20;

/// Why a run cannot be told of.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The folder of runs cannot be read.
    #[error("the runs in `{}` cannot be read", folder.display())]
    Read {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A run's journal cannot be read.
    #[error("the journal of run `{id}` cannot be read")]
    Journal {
        /// The run.
        id: RunId,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A run's journal is not one.
    #[error("the journal of run `{id}` is damaged")]
    Damaged {
        /// The run.
        id: RunId,
        /// How.
        #[source]
        source: RecordError,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    Unknown(String),
    /// Several runs begin that way.
    #[error("{} runs begin with `{text}`", found.len())]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// The runs.
        found: Vec<RunId>,
    },
}

/// Whether the process that makes a run is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alive {
    /// It is.
    Yes,
    /// It ended, or was killed.
    No,
}

/// A run in a list.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub id: RunId,
    /// What it did, or why that cannot be told.
    pub record: Result<RunRecord, RunsError>,
}

/// The runs of a state folder.
#[derive(Debug, Clone)]
pub struct Runs {
    folder: PathBuf,
}

impl Runs {
    /// The runs of that state folder.
    pub fn of(state: &Path) -> Self {
        Self {
            folder: state.join(RUNS),
        }
    }

    /// The names of all runs, the newest first.
    pub fn ids(&self) -> Result<Vec<RunId>, RunsError> {
        let read = |source| RunsError::Read {
            folder: self.folder.clone(),
            source,
        };
        let entries = match fs_err::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(read)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            // What has another name is not ours.
            let name = entry.map_err(read)?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse::<RunId>().ok()));
        }
        ids.sort_unstable_by(|one, other| other.cmp(one));
        Ok(ids)
    }

    /// Every run, the newest first; a journal that cannot be read is told beside the others.
    pub fn list(&self) -> Result<Vec<Listed>, RunsError> {
        let ids = self.ids()?.into_iter();
        Ok(ids
            .map(|id| {
                let record = self.read(&id);
                Listed { id, record }
            })
            .collect())
    }

    /// What a run did.
    pub fn read(&self, id: &RunId) -> Result<RunRecord, RunsError> {
        let path = self.journal(id);
        let journal = |source: io::Error| RunsError::Journal {
            id: id.clone(),
            source,
        };
        // Asked before reading: a run that ends in between has written its last line by then.
        let alive = is_alive(&path);
        let bytes = read_record(&path).map_err(journal)?;
        let bytes = bytes.ok_or_else(|| RunsError::Unknown(id.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        RunRecord::parse(&text, alive).map_err(|source| RunsError::Damaged {
            id: id.clone(),
            source,
        })
    }

    /// The run of that name, of the only name that begins so, or the newest where the text is `last`.
    pub fn find(&self, text: &str) -> Result<RunId, RunsError> {
        let ids = self.ids()?;
        let unknown = || RunsError::Unknown(text.into());
        if text == "last" {
            return ids.into_iter().next().ok_or_else(unknown);
        }
        let mut found: Vec<_> = ids
            .into_iter()
            .filter(|id| !text.is_empty() && id.as_str().starts_with(text))
            .collect();
        match found.len() {
            0 => Err(unknown()),
            1 => Ok(found.swap_remove(0)),
            _ => Err(RunsError::Ambiguous {
                text: text.into(),
                found,
            }),
        }
    }

    /// Removes old runs. The newest `keep` stay, and of the older ones the newest [`KEPT_FAILURES`] of each cluster
    /// that did not end well. A run that still goes on stays whatever its age.
    pub fn prune(&self, keep: usize) -> Result<Vec<RunId>, RunsError> {
        let mut removed = Vec::new();
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for id in self.ids()?.into_iter().skip(keep) {
            let cluster = match End::of(&self.journal(&id)) {
                End::None => continue,
                End::Good => None,
                End::Bad { cluster } => Some(cluster),
            };
            if let Some(cluster) = cluster {
                let count = failures.entry(cluster).or_default();
                *count += 1;
                if *count <= KEPT_FAILURES {
                    continue;
                }
            }
            if self.remove(&id)? {
                removed.push(id);
            }
        }
        Ok(removed)
    }

    /// Removes what a run left; false where another run removed it before.
    pub fn remove(&self, id: &RunId) -> Result<bool, RunsError> {
        let folder = self.folder.join(id.as_str());
        match fs_err::remove_dir_all(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(RunsError::Read { folder, source }),
            Ok(()) => Ok(true),
        }
    }

    /// The journal's file.
    pub fn journal(&self, id: &RunId) -> PathBuf {
        self.folder.join(id.as_str()).join(JOURNAL)
    }

    /// The file of what was heard.
    pub fn log(&self, id: &RunId) -> PathBuf {
        self.folder.join(id.as_str()).join(LOG)
    }
}

/// Whether somebody keeps that journal: a run holds its lock as long as it lives.
fn is_alive(journal: &Path) -> Alive {
    match open_record(journal) {
        Ok(Some(file)) if is_held(&file) => Alive::Yes,
        _ => Alive::No,
    }
}

fn is_held(journal: &fs_err::File) -> bool {
    let lock = flock(journal, FlockOperation::NonBlockingLockShared);
    lock == Err(rustix::io::Errno::WOULDBLOCK)
}

/// The longest first line: it names the machines that stand in for Windows.
const LONGEST_FIRST: u64 = 4 << 20;
/// More than the longest last line.
const LAST: u64 = 4 << 10;

/// How a run ended, as far as pruning asks.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It goes on.
    None,
    /// Everything was done.
    Good,
    /// It failed or was cut off. The cluster of a journal that cannot be read is unknown; such runs are counted
    /// together.
    Bad { cluster: String },
}

impl End {
    /// By the first line of a journal and the last: between them a long run has megabytes.
    fn of(journal: &Path) -> Self {
        let unknown = Self::Bad {
            cluster: String::new(),
        };
        let Ok(Some(mut file)) = open_record(journal) else {
            return unknown;
        };
        if is_held(&file) {
            return Self::None;
        }
        let Ok((first, last)) = first_and_last(&mut file) else {
            return unknown;
        };
        match (
            serde_json::from_slice(&first),
            serde_json::from_slice(&last),
        ) {
            (
                Ok(Line::Run { .. }),
                Ok(Line::Close {
                    outcome: RunOutcome::Done,
                    ..
                }),
            ) => Self::Good,
            (Ok(Line::Run { opening, .. }), _) => Self::Bad {
                cluster: opening.cluster,
            },
            _ => unknown,
        }
    }
}

/// The first line of a file and the last; the last is empty where it was torn.
fn first_and_last(file: &mut fs_err::File) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut first = Vec::new();
    let mut begin = BufReader::new(&mut *file).take(LONGEST_FIRST);
    begin.read_until(b'\n', &mut first)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST)))?;
    let mut end = Vec::new();
    file.take(LAST).read_to_end(&mut end)?;
    let whole = end.strip_suffix(b"\n").unwrap_or_default();
    let last = whole.rsplit(|byte| *byte == b'\n').next();
    Ok((first, last.unwrap_or_default().to_vec()))
}
