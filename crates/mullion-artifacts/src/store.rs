//! The cache folder.
//!
//! # Layout
//!
//! ```text
//! mullion-cache.json                            marks the folder as a cache, with the version of this layout
//! parts/<os>/<kind>/<name>@<version>/<file>     a program, image or archive
//! parts/<os>/<kind>/<name>@<version>/record.json   its digest, size and origin
//! roots/<suite>-<fingerprint>/root.tar          a distribution's root file system, with its record
//! layers/<suite>-<fingerprint>/layer.tar        a layer that images share, with its record
//! toolchains/go<version>/                       a Go that was fetched
//! go-caches/                                    Go's own caches, where root builds for a user
//! locks/<item>.lock                             held while an item is being got; never removed
//! work/                                         wrapper modules and what is under way
//! ```
//!
//! - An item is there when its record is: the record is written last, and both by rename. What is under way ends in
//!   `.new`, or in `.partial` where a later run can go on with it.
//! - Whoever writes an item holds its lock (`flock`), so that processes and threads may share the folder: whoever
//!   waited finds it done.
//! - A folder becomes a cache when it is empty or not there yet, and carries the mark from then on. One that holds
//!   something else is refused: nothing is written to it, nothing in it counts, and nothing is removed from it. Looking
//!   writes nothing.
//! - What a marked folder holds besides what stands above is the user's: that is never touched.
//! - A file is trusted while its size and time are the recorded ones, and hashed again when they are not.

mod entry;
mod exposure;
mod mark;
mod purge;
mod removal;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fs_err as fs;
use mullion_plan::{Attend, News, Part, Unit};
use mullion_rights::{draft_of, replace};
use mullion_wire::Sha256Digest;

pub(crate) use self::entry::{Entry, Lock};
use self::mark::Standing;
use crate::claims::Claims;
use crate::digest::hash_file;
use crate::hold;
use crate::item::Item;
use crate::ledger::Ledger;
use crate::record::{Draft, Modified, Origin, Record, VERSION};

const PARTS: &str = "parts";
const ROOTS: &str = "roots";
const LAYERS: &str = "layers";
pub(crate) const TOOLCHAINS: &str = "toolchains";
pub(crate) const GO_CACHES: &str = "go-caches";
const LOCKS: &str = "locks";
const WORK: &str = "work";

const RECORD: &str = "record.json";
const NEW: &str = ".new";
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The cache folder. See the module's documentation for what lies where.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    custody: Option<Custody>,
    /// Set once the folder was seen to be a cache: it stays one.
    is_cache: Arc<OnceLock<()>>,
}

/// Who answers for what is in a cache.
#[derive(Debug, Clone)]
pub struct Custody {
    /// What this computer knows of artifacts.
    pub ledger: Ledger,
    /// Whether the cluster file names the folder. Such a file may come from elsewhere, and a cache with it: one that was
    /// not made here does not count until the user takes it over.
    pub is_named: bool,
    /// User and group of who asked for root, where that is how this process came to be root.
    pub owner: Option<(u32, u32)>,
    /// What the cluster file brings along to vouch for artifacts.
    pub claims: Claims,
}

/// Why the cache could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("the cache in {} could not be used", folder.display())]
    Io {
        /// The cache.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody is getting something into it.
    #[error("the cache in {} is being written to by another run", folder.display())]
    Busy {
        /// The cache.
        folder: PathBuf,
    },
    /// It is a folder with other things in it.
    #[error("{} is not a cache of Mullion's: `{found}` is in it, and it has no mark", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// The first thing in it that no cache has.
        found: String,
    },
    /// The file names it, and it was not made here.
    #[error("the cache in {} was not made on this computer", folder.display())]
    Elsewhere {
        /// The cache.
        folder: PathBuf,
    },
    /// Others can change what root would run.
    #[error(
        "the cache in {} is not used: users other than root and who asked for root can write to {}",
        folder.display(), place.display()
    )]
    Exposed {
        /// The cache.
        folder: PathBuf,
        /// The folder that they can write to: the cache, one in it, or one above it.
        place: PathBuf,
    },
    /// A newer version of the program made it.
    #[error("the cache in {} has the format {format}, which this version of mullion does not know", folder.display())]
    Newer {
        /// The cache.
        folder: PathBuf,
        /// Its format.
        format: String,
    },
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

impl StoreError {
    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Foreign { .. } => vec![
                "name a folder in `artifacts.cache` that is empty or does not exist yet, or leave the field out".into(),
            ],
            Self::Elsewhere { .. } => vec![
                "if you trust everything in it, `mullion artifacts adopt` takes it over; else name another folder in \
                 `artifacts.cache`"
                    .into(),
            ],
            Self::Exposed { place, .. } => vec![format!(
                "take the right to write from others: `chmod go-w {0}`, and `chown` where it is another user's; or name \
                 another folder in `artifacts.cache`",
                place.display()
            )],
            Self::Newer { .. } => vec!["use the mullion that made it, or name another folder".into()],
            _ => Vec::new(),
        }
    }
}

/// What a second look at every item gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The item, as its record says.
    pub item: Item,
    /// How it stands.
    pub state: Soundness,
}

/// How a file of the cache stands against its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Soundness {
    /// As recorded.
    Sound,
    /// Its content is another.
    Changed,
    /// Its file is gone.
    Missing,
}

impl Store {
    /// The cache in that folder. Nothing is written yet: the folder is made and marked with the first item.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let store = Self {
            folder: folder.to_owned(),
            custody: None,
            is_cache: Arc::default(),
        };
        store.standing()?;
        Ok(store)
    }

    /// The same, held to what this computer knows.
    pub fn open_with(folder: &Path, custody: Custody) -> Result<Self, StoreError> {
        let mut store = Self::open(folder)?;
        store.custody = Some(custody);
        Ok(store)
    }

    /// What this computer knows of artifacts, where the caller gave it.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.custody.as_ref().map(|custody| &custody.ledger)
    }

    /// The sources of the cluster file that something of this origin depends on.
    pub(crate) fn scope(&self, origin: &Origin) -> Option<String> {
        self.custody.as_ref()?.claims.scope(origin)
    }

    /// Every scope that counts for this file.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let custody = self.custody.as_ref();
        custody.map_or_else(Vec::new, |custody| custody.claims.scopes())
    }

    /// Whether what vouched for something counts for this file.
    pub(crate) fn is_in_scope(&self, record: &Record) -> bool {
        let scope = record.scope.as_ref();
        scope.is_none_or(|scope| self.scopes().contains(scope))
    }

    /// Makes a cache count that was not made here: the user trusts what is in it.
    pub fn adopt(&self) -> Result<(), StoreError> {
        match self.check_use() {
            Err(StoreError::Elsewhere { .. }) | Ok(()) => {}
            refused => return refused,
        }
        self.make_cache()
    }

    /// Whether items may be put here and taken from here. Changes nothing.
    pub fn check_use(&self) -> Result<(), StoreError> {
        let folder = self.folder.clone();
        match self.standing()? {
            Standing::Unused => Ok(()),
            standing @ (Standing::Marked(_) | Standing::Unmarked(_)) => match self.exposed()? {
                Some(place) => Err(StoreError::Exposed { folder, place }),
                None if self.counts(&standing) => Ok(()),
                None => Err(StoreError::Elsewhere { folder }),
            },
            Standing::Newer(format) => Err(StoreError::Newer { folder, format }),
            Standing::Foreign(found) => Err(StoreError::Foreign { folder, found }),
        }
    }

    fn standing(&self) -> Result<Standing, StoreError> {
        mark::standing(&self.folder).map_err(|error| self.broken(error))
    }

    /// Whether a cache is one of this computer's: it is in the user's own place, or was made or taken over here.
    fn counts(&self, standing: &Standing) -> bool {
        let Some(custody) = self.custody.as_ref().filter(|custody| custody.is_named) else {
            return true;
        };
        match standing {
            Standing::Marked(id) => custody.ledger.knows_cache(id, &self.folder),
            // Older versions made the folders also where nothing was put into them.
            Standing::Unmarked(content) => *content == mark::Content::None,
            _ => false,
        }
    }

    /// The folder that others than root and who asked for root can change, where this process is root.
    fn exposed(&self) -> Result<Option<PathBuf>, StoreError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let owner = self.custody.as_ref().and_then(|custody| custody.owner);
        exposure::find(&self.folder, owner).map_err(|error| self.broken(error))
    }

    /// Whether this process is root, and another user can change what is in the folder: who asked for root.
    pub(crate) fn is_written_by_others(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        rustix::process::geteuid().is_root()
            && fs::metadata(&self.folder).is_ok_and(|found| found.uid() != 0)
    }

    /// Whether records in the folder count.
    fn is_cache(&self) -> bool {
        let is_cache = self.is_cache.get().is_some()
            || self.standing().is_ok_and(|standing| {
                matches!(standing, Standing::Marked(_) | Standing::Unmarked(_))
                    && self.check_use().is_ok()
            });
        if is_cache {
            let _ = self.is_cache.set(());
        }
        is_cache
    }

    /// Makes the folder a cache before something is written to it.
    fn prepare(&self) -> Result<(), StoreError> {
        self.check_use()?;
        self.make_cache()
    }

    fn make_cache(&self) -> Result<(), StoreError> {
        let make = || {
            make_folder(&self.folder)?;
            let id = match mark::standing(&self.folder)? {
                Standing::Marked(id) => id,
                _ => self.mark()?,
            };
            if let Some(ledger) = self.ledger()
                && !ledger.knows_cache(&id, &self.folder)
            {
                ledger.note_cache(&id, &self.folder)?;
            }
            for name in [PARTS, LOCKS, WORK] {
                make_folder(&self.folder.join(name))?;
            }
            Ok(())
        };
        make().map_err(|error| self.broken(error))
    }

    /// Marks the folder, and gives the id of its mark.
    fn mark(&self) -> io::Result<String> {
        let id = crate::key::random_id()?;
        // Before the mark is there: other threads and runs look its id up as soon as they see it.
        if let Some(ledger) = self.ledger() {
            ledger.note_cache(&id, &self.folder)?;
        }
        let marked = mark::mark(&self.folder, &id)?;
        if let Some(ledger) = self.ledger().filter(|_| marked != id) {
            ledger.forget_cache(&id)?;
        }
        Ok(marked)
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a part is there.
    pub fn has(&self, part: &Part) -> bool {
        self.path(part).is_some()
    }

    /// The file of a part, where it is there and as recorded.
    pub fn path(&self, part: &Part) -> Option<PathBuf> {
        self.item_path(&Item::Part(part.clone()))
    }

    /// The digest of a part that is there.
    pub fn digest(&self, part: &Part) -> Option<Sha256Digest> {
        self.sound(&Item::Part(part.clone()))
            .map(|record| record.sha256)
    }

    /// Every part that is there.
    pub fn parts(&self) -> BTreeSet<Part> {
        let items = self.list().into_iter();
        items
            .filter_map(|record| record.item.part().cloned())
            .filter(|part| self.has(part))
            .collect()
    }

    /// The file of an item, where it is there and as recorded.
    pub fn item_path(&self, item: &Item) -> Option<PathBuf> {
        let record = self.sound(item)?;
        Some(self.place(item).join(record.file))
    }

    /// What is recorded of an item whose file is there and as recorded.
    pub fn record(&self, item: &Item) -> Option<Record> {
        self.sound(item)
    }

    /// What is recorded, in order; nothing is looked at but the records.
    pub fn list(&self) -> Vec<Record> {
        let mut found = Vec::new();
        if !self.is_cache() {
            return found;
        }
        for (top, depth) in [(PARTS, 3), (ROOTS, 1), (LAYERS, 1)] {
            gather(&self.folder.join(top), depth, &mut found);
        }
        found.sort_by(|a: &Record, b| a.item.cmp(&b.item));
        found
    }

    /// Hashes every file anew and says how each stands.
    pub fn verify(&self, attendant: &dyn Attend) -> Result<Vec<Verdict>, StoreError> {
        let records = self.list();
        let total = records.iter().map(|record| record.size).sum();
        let mut done = 0;
        let mut verdicts = Vec::with_capacity(records.len());
        for record in records {
            let path = self.place(&record.item).join(&record.file);
            let state = if path.exists() {
                let mut hear = |read| {
                    attendant.hear(News::Amount {
                        done: done + read,
                        total: Some(total),
                        unit: Unit::Bytes,
                    });
                    !attendant.is_called_off()
                };
                match hash_file(&path, &mut hear).map_err(|error| self.broken(error))? {
                    None => return Err(StoreError::CalledOff),
                    Some((sha256, size)) if sha256 == record.sha256 && size == record.size => {
                        Soundness::Sound
                    }
                    Some(_) => Soundness::Changed,
                }
            } else {
                Soundness::Missing
            };
            done += record.size;
            verdicts.push(Verdict {
                item: record.item,
                state,
            });
        }
        Ok(verdicts)
    }

    /// Puts a file that the caller made into the cache, and gives its place there.
    pub fn put(
        &self,
        item: &Item,
        source: &Path,
        attendant: &dyn Attend,
    ) -> Result<PathBuf, StoreError> {
        let entry = self.lock(item, attendant)?;
        let name = source.file_name().map_or_else(
            || item.default_file(),
            |name| crate::item::plain(&name.to_string_lossy()),
        );
        let (sha256, size) = hash_file(source, &mut |_| !attendant.is_called_off())
            .map_err(|error| self.broken(error))?
            .ok_or(StoreError::CalledOff)?;
        if let Some(record) = entry.current()
            && record.sha256 == sha256
        {
            return Ok(entry.folder.join(record.file));
        }
        let new = entry.temporary(&name)?;
        fs::copy(source, &new).map_err(|error| self.broken(error))?;
        let draft = Draft::new(item.clone(), name, Origin::Given);
        entry.keep(&new, draft.finish(sha256, size))
    }

    /// The folder of an item.
    pub(crate) fn place(&self, item: &Item) -> PathBuf {
        self.folder.join(item.folder())
    }

    /// A folder for work under way; it survives, so that what is half done goes on.
    pub(crate) fn work(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.prepare()?;
        let folder = self.folder.join(WORK).join(crate::item::plain(name));
        make_folder(&folder).map_err(|error| self.broken(error))?;
        Ok(folder)
    }

    pub(crate) fn broken(&self, source: io::Error) -> StoreError {
        StoreError::Io {
            folder: self.folder.clone(),
            source,
        }
    }

    /// The record of an item, where its file is as recorded.
    fn sound(&self, item: &Item) -> Option<Record> {
        if !self.is_cache() {
            return None;
        }
        let folder = self.place(item);
        let mut record = read_record(&folder.join(RECORD))?;
        if record.item != *item || !self.is_in_scope(&record) {
            return None;
        }
        // What was fetched before is the same now. A ledger that cannot be read vouches for nothing.
        if let Some(ledger) = self.ledger().filter(|_| hold::is_fetched(&record)) {
            for scope in [None, record.scope.as_deref()] {
                let pin = ledger.pin(item, scope).ok()?;
                if pin.is_some_and(|pin| pin.sha256 != record.sha256) {
                    return None;
                }
            }
        }
        let path = folder.join(&record.file);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() != record.size {
            return None;
        }
        let modified = Modified::of(&metadata);
        if modified.is_some() && modified == record.modified {
            return Some(record);
        }
        // The time is another: a cache that was copied, or a file that was changed.
        let (sha256, _) = hash_file(&path, &mut |_| true).ok()??;
        if sha256 != record.sha256 {
            return None;
        }
        record.modified = modified;
        Some(record)
    }

    /// Takes an item's lock, waiting for whoever holds it.
    pub(crate) fn lock(
        &self,
        item: &Item,
        attendant: &dyn Attend,
    ) -> Result<Entry<'_>, StoreError> {
        let lock = self.lock_named(&item.lock_name(), &item.to_string(), attendant)?;
        Ok(Entry {
            store: self,
            folder: self.place(item),
            item: item.clone(),
            _lock: lock,
        })
    }

    /// Takes the lock of that name.
    pub(crate) fn lock_named(
        &self,
        name: &str,
        what: &str,
        attendant: &dyn Attend,
    ) -> Result<Lock, StoreError> {
        self.prepare()?;
        let name = format!("{}.lock", crate::item::plain(name));
        let path = self.folder.join(LOCKS).join(name);
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| self.broken(error))?;
        let mut told = false;
        loop {
            match file.file().try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(std::fs::TryLockError::WouldBlock) => {}
                Err(std::fs::TryLockError::Error(error)) => return Err(self.broken(error)),
            }
            if attendant.is_called_off() {
                return Err(StoreError::CalledOff);
            }
            if !told {
                told = true;
                attendant.hear(News::Line(format!("waiting for whoever is getting {what}")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Makes a folder that others may read and nobody else may write to, whatever the caller's mask says.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
}

/// More than any record has.
const RECORD_LIMIT: u64 = 4 << 20;

/// Reads a small file of a cache. A cache may come with somebody's repository: links, pipes and devices are not read.
pub(crate) fn read_small(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.len() <= RECORD_LIMIT).then(|| fs::read(path).ok())?
}

/// Whether a file of that name in an item's folder is the store's own, and no item's.
pub(crate) fn is_own_file(name: &str) -> bool {
    name == RECORD || mark::is_under_way(name)
}

fn read_record(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&read_small(path)?).ok()?;
    // The file's name is joined to a path: nothing in it may lead elsewhere.
    let is_plain = record.file == crate::item::plain(&record.file) && !is_own_file(&record.file);
    (record.version == VERSION && is_plain).then_some(record)
}

fn write_record(folder: &Path, record: &Record) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
    // Readers may refresh a record without the lock: each writes a draft of its own.
    let path = folder.join(RECORD);
    replace(&path, &draft_of(&path), 0o666, |file| file.write_all(&text))
}

fn gather(folder: &Path, depth: usize, found: &mut Vec<Record>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if depth > 1 {
            gather(&path, depth - 1, found);
        } else if let Some(record) = read_record(&path.join(RECORD))
            && path.ends_with(record.item.folder())
        {
            found.push(record);
        }
    }
}
