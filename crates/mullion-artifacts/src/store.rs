//! The cache folder.
//!
//! # Layout
//!
//! ```text
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
//! - The folder is the user's, and may hold more than what stands above: that is never touched.
//! - A file is trusted while its size and time are the recorded ones, and hashed again when they are not.

mod purge;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fs_err as fs;
use mullion_plan::{Attend, News, Part, Unit};
use mullion_wire::Sha256Digest;

use crate::digest::hash_file;
use crate::item::Item;
use crate::record::{Draft, Modified, Origin, Record, VERSION, Witness};

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
    /// Whether a look may write: see [`Store::keep_times`].
    keeps_times: Arc<AtomicBool>,
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
    /// The work was called off.
    #[error("called off")]
    CalledOff,
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
    /// The cache in that folder. Looking creates nothing: the first item that is got does.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            folder: folder.to_owned(),
            keeps_times: Arc::default(),
        })
    }

    /// From now on an item whose file has another time than recorded, and the recorded digest, is recorded with its new
    /// time, so that it is not hashed again. Commands that only look never call this.
    pub fn keep_times(&self) {
        self.keeps_times.store(true, Ordering::Relaxed);
    }

    /// Creates the folders that every cache has.
    fn create(&self) -> Result<(), StoreError> {
        for name in [PARTS, LOCKS, WORK] {
            fs::create_dir_all(self.folder.join(name)).map_err(|error| self.broken(error))?;
        }
        Ok(())
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

    /// Removes an item. One that is not there is no failure.
    pub fn remove(&self, item: &Item, attendant: &dyn Attend) -> Result<(), StoreError> {
        let entry = self.lock(item, attendant)?;
        match fs::remove_dir_all(&entry.folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.broken(error)),
        }
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
        self.create()?;
        let folder = self.folder.join(WORK).join(crate::item::plain(name));
        fs::create_dir_all(&folder).map_err(|error| self.broken(error))?;
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
        let folder = self.place(item);
        let mut record = read_record(&folder.join(RECORD))?;
        if record.item != *item {
            return None;
        }
        let path = folder.join(&record.file);
        let metadata = fs::metadata(&path).ok()?;
        if metadata.len() != record.size {
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
        if self.keeps_times.load(Ordering::Relaxed) {
            // Only saves hashing it the next time; a cache that may not be written is as good.
            let _ = write_record(&folder, &record);
        }
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
        self.create()?;
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

/// A lock that is held; it ends with this value, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs::File,
}

/// An item whose lock is held.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    store: &'a Store,
    pub(crate) folder: PathBuf,
    pub(crate) item: Item,
    _lock: Lock,
}

impl Entry<'_> {
    /// What is there already.
    pub(crate) fn current(&self) -> Option<Record> {
        self.store.sound(&self.item)
    }

    /// The digest of what was fetched here once, and what vouched for it, whatever became of the file since.
    pub(crate) fn pinned(&self) -> Option<(Sha256Digest, Witness)> {
        let record = read_record(&self.folder.join(RECORD))?;
        let (Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. }) = record.origin
        else {
            return None;
        };
        (record.item == self.item).then_some((record.sha256, witness))
    }

    /// Where a new file is written. The name is this process's own: a tool that outlived the process that started it
    /// may still be writing under another.
    pub(crate) fn temporary(&self, file: &str) -> Result<PathBuf, StoreError> {
        fs::create_dir_all(&self.folder).map_err(|error| self.store.broken(error))?;
        let ours = format!(".{}{NEW}", std::process::id());
        let path = self.folder.join(format!("{file}{ours}"));
        self.sweep(&ours);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.store.broken(error)),
            _ => Ok(path),
        }
    }

    /// Removes what other processes left half done. They do not hold the lock, so nobody waits for it.
    fn sweep(&self, ours: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(NEW) && !name.ends_with(ours) {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Where a download goes on.
    pub(crate) fn partial(&self, file: &str) -> Result<PathBuf, StoreError> {
        fs::create_dir_all(&self.folder).map_err(|error| self.store.broken(error))?;
        Ok(self.folder.join(format!("{file}.partial")))
    }

    /// Hashes a finished file and keeps it.
    pub(crate) fn hash_and_keep(
        &self,
        new: &Path,
        draft: Draft,
        attendant: &dyn Attend,
    ) -> Result<PathBuf, StoreError> {
        let (sha256, size) = hash_file(new, &mut |_| !attendant.is_called_off())
            .map_err(|error| self.store.broken(error))?
            .ok_or(StoreError::CalledOff)?;
        self.keep(new, draft.finish(sha256, size))
    }

    /// Gives a finished file its name, then writes its record.
    pub(crate) fn keep(&self, new: &Path, record: Record) -> Result<PathBuf, StoreError> {
        self.keep_inner(new, record)
            .map_err(|error| self.store.broken(error))
    }

    fn keep_inner(&self, new: &Path, mut record: Record) -> io::Result<PathBuf> {
        let path = self.folder.join(&record.file);
        if let Some(part) = record.item.part()
            && part.kind == mullion_plan::PartKind::Program
        {
            set_executable(new)?;
        }
        // An older record must not vouch for the new file, should this end between the two renames.
        match fs::remove_file(self.folder.join(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs::File::open(new)?;
        file.sync_all()?;
        fs::rename(new, &path)?;
        sync_folder(&self.folder)?;
        record.modified = Modified::of(&fs::metadata(&path)?);
        write_record(&self.folder, &record)?;
        Ok(path)
    }
}

fn set_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

fn read_record(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    // The file's name is joined to a path: nothing in it may lead elsewhere.
    (record.version == VERSION && record.file == crate::item::plain(&record.file)).then_some(record)
}

fn write_record(folder: &Path, record: &Record) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
    // Readers may refresh a record without the lock: each writes a file of its own.
    let thread = format!("{:?}", std::thread::current().id());
    let thread = crate::item::plain(&thread);
    let new = folder.join(format!("{RECORD}.{thread}.{}{NEW}", std::process::id()));
    let mut file = fs::File::create(&new)?;
    io::Write::write_all(&mut file, &text)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(RECORD))?;
    sync_folder(folder)
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
