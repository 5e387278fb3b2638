//! Bundles: one tar file with everything that a cluster needs, for a computer without a way out.
//!
//! # Layout
//!
//! ```text
//! mullion-bundle.json          the index: version, and a record of every item
//! <item's folder>/<file>       the items, in the order of the index
//! ```
//!
//! The index comes first, so that reading it reads no more; the digests in it are held against every file that is
//! taken out.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_plan::{Attend, News, Unit};
use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};

use crate::digest::{Asking, Hashing, is_stop};
use crate::error::SupplyError;
use crate::item::{Item, plain};
use crate::job::Job;
use crate::record::{Record, VERSION};
use crate::store::{Entry, Store, sync_folder};

const INDEX: &str = "mullion-bundle.json";
const INDEX_LIMIT: u64 = 64 << 20;

/// What a bundle says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Index {
    /// The version of the format.
    pub version: u32,
    /// Every item in it.
    pub items: Vec<Record>,
}

/// Why a bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It could not be opened, read or written.
    #[error("the bundle {} could not be used", file.display())]
    Io {
        /// The bundle.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not a bundle.
    #[error("{} is not a bundle: it has no index", file.display())]
    NotABundle {
        /// The file.
        file: PathBuf,
    },
    /// It was written by a newer mullion.
    #[error("the bundle {} has version {found}, and {VERSION} is the newest known here", file.display())]
    Newer {
        /// The bundle.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It ends too early.
    #[error("the bundle {} is cut off: it ends before {item}", file.display())]
    CutOff {
        /// The bundle.
        file: PathBuf,
        /// The first item that is not whole.
        item: Box<Item>,
    },
    /// A file in it is not what the index says.
    #[error("the bundle {} is damaged: {item} has the SHA-256 {found}, but {expected} is in its index", file.display())]
    Damaged {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
        /// The digest in the index.
        expected: Sha256Digest,
        /// The digest of what is there.
        found: Sha256Digest,
    },
    /// Something that should go into it is not in the cache.
    #[error("{item} is not in the cache, so it cannot go into a bundle")]
    Missing {
        /// The item.
        item: Box<Item>,
    },
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

/// What every version of the index has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

struct Bundle<'a>(&'a Path);

impl Bundle<'_> {
    fn io(&self, source: io::Error) -> BundleError {
        if is_stop(&source) {
            return BundleError::CalledOff;
        }
        BundleError::Io {
            file: self.0.to_owned(),
            source,
        }
    }

    fn open(&self) -> Result<Archive<fs::File>, BundleError> {
        let file = fs::File::open(self.0).map_err(|error| self.io(error))?;
        Ok(Archive::new(file))
    }

    /// Reads the index, and leaves the entries behind it to be read.
    fn index(
        &self,
        entry: Option<io::Result<tar::Entry<'_, fs::File>>>,
    ) -> Result<Index, BundleError> {
        let none = || BundleError::NotABundle {
            file: self.0.to_owned(),
        };
        let entry = entry.ok_or_else(none)?.map_err(|_| none())?;
        if entry.path().ok().as_deref() != Some(Path::new(INDEX)) {
            return Err(none());
        }
        let mut bytes = Vec::new();
        entry
            .take(INDEX_LIMIT)
            .read_to_end(&mut bytes)
            .map_err(|error| self.io(error))?;
        let Version { version } = serde_json::from_slice(&bytes).map_err(|_| none())?;
        if version > VERSION {
            return Err(BundleError::Newer {
                file: self.0.to_owned(),
                found: version,
            });
        }
        serde_json::from_slice(&bytes).map_err(|_| none())
    }
}

/// What is in a bundle, by its own word.
pub fn read_index(file: &Path) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    bundle.index(entries.next())
}

/// Reads a whole bundle and holds every file against the index.
pub fn verify(file: &Path, attendant: &dyn Attend) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    let index = bundle.index(entries.next())?;
    // The index says what it likes: sizes may add up to more than there is.
    let sizes = index.items.iter().map(|record| record.size);
    let total = sizes.fold(0_u64, u64::saturating_add);
    let mut done = 0_u64;
    for record in &index.items {
        let cut_off = || BundleError::CutOff {
            file: file.to_owned(),
            item: Box::new(record.item.clone()),
        };
        let entry = entries.next().ok_or_else(cut_off)?.map_err(|_| cut_off())?;
        let mut go_on = |read| {
            attendant.hear(News::Amount {
                done: done.saturating_add(read),
                total: Some(total),
                unit: Unit::Bytes,
            });
            !attendant.is_called_off()
        };
        copy_checked(&bundle, record, entry, io::sink(), &mut go_on)?;
        done = done.saturating_add(record.size);
    }
    Ok(index)
}

/// Copies one file out of a bundle and sees that it is what the index says.
fn copy_checked<W: io::Write>(
    bundle: &Bundle<'_>,
    record: &Record,
    entry: tar::Entry<'_, fs::File>,
    to: W,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<W, BundleError> {
    let mut writer = Hashing::new(to);
    let mut reader = Asking {
        inner: entry,
        go_on,
        done: 0,
        next: 0,
    };
    io::copy(&mut reader, &mut writer).map_err(|error| bundle.io(error))?;
    let (writer, found, size) = writer.finish().map_err(|error| bundle.io(error))?;
    if size < record.size {
        return Err(BundleError::CutOff {
            file: bundle.0.to_owned(),
            item: Box::new(record.item.clone()),
        });
    }
    if found != record.sha256 {
        return Err(BundleError::Damaged {
            file: bundle.0.to_owned(),
            item: Box::new(record.item.clone()),
            expected: record.sha256.clone(),
            found,
        });
    }
    Ok(writer)
}

/// Writes a bundle with these items of the cache. A half bundle never has its final name.
pub fn write(
    store: &Store,
    items: &BTreeSet<Item>,
    file: &Path,
    attendant: &dyn Attend,
) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut records = Vec::with_capacity(items.len());
    for item in items {
        let record = store.record(item).ok_or_else(|| BundleError::Missing {
            item: Box::new(item.clone()),
        })?;
        records.push(Record {
            modified: None,
            ..record
        });
    }
    let index = Index {
        version: VERSION,
        items: records,
    };
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let new = PathBuf::from(name);
    let result = write_new(store, &index, &bundle, &new, attendant);
    if result.is_err() {
        let _ = fs::remove_file(&new);
    }
    result?;
    fs::rename(&new, file).map_err(|error| bundle.io(error))?;
    if let Some(folder) = file.parent().filter(|path| !path.as_os_str().is_empty()) {
        sync_folder(folder).map_err(|error| bundle.io(error))?;
    }
    Ok(index)
}

fn write_new(
    store: &Store,
    index: &Index,
    bundle: &Bundle<'_>,
    new: &Path,
    attendant: &dyn Attend,
) -> Result<(), BundleError> {
    let failed = |error| bundle.io(error);
    let text = serde_json::to_vec_pretty(index).map_err(|error| failed(error.into()))?;
    let mut tar = Builder::new(BufWriter::new(fs::File::create(new).map_err(failed)?));
    let mut head = header(text.len() as u64);
    tar.append_data(&mut head, INDEX, text.as_slice())
        .map_err(failed)?;
    let sizes = index.items.iter().map(|record| record.size);
    let total = sizes.fold(0_u64, u64::saturating_add);
    let mut done = 0;
    for record in &index.items {
        let path = store.place(&record.item).join(&record.file);
        let mut go_on = |read| {
            attendant.hear(News::Amount {
                done: done + read,
                total: Some(total),
                unit: Unit::Bytes,
            });
            !attendant.is_called_off()
        };
        let reader = Asking {
            inner: fs::File::open(&path).map_err(failed)?,
            go_on: &mut go_on,
            done: 0,
            next: 0,
        };
        let mut head = header(record.size);
        let name = record.item.folder().join(&record.file);
        tar.append_data(&mut head, name, reader.take(record.size))
            .map_err(failed)?;
        done += record.size;
    }
    let mut file = tar.into_inner().map_err(failed)?;
    file.flush().map_err(failed)?;
    file.get_ref().sync_all().map_err(failed)
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    header
}

/// Takes an item out of the caller's bundle; none where there is no bundle, or it has no such item.
pub(crate) fn take(job: &Job<'_>, entry: &Entry<'_>) -> Result<Option<PathBuf>, SupplyError> {
    take_if(job, entry, &|_| true)
}

/// The same, where the record is to the caller's liking.
pub(crate) fn take_if(
    job: &Job<'_>,
    entry: &Entry<'_>,
    fits: &dyn Fn(&Record) -> bool,
) -> Result<Option<PathBuf>, SupplyError> {
    let Some(file) = &job.sources.bundle else {
        return Ok(None);
    };
    match take_inner(job, entry, &Bundle(file), fits) {
        Ok(None) => Ok(None),
        Ok(Some((new, record))) => Ok(Some(entry.keep(&new, record)?)),
        Err(BundleError::CalledOff) => Err(SupplyError::CalledOff),
        Err(source) => Err(SupplyError::Bundle {
            item: Box::new(entry.item.clone()),
            source,
        }),
    }
}

fn take_inner(
    job: &Job<'_>,
    entry: &Entry<'_>,
    bundle: &Bundle<'_>,
    fits: &dyn Fn(&Record) -> bool,
) -> Result<Option<(PathBuf, Record)>, BundleError> {
    let mut archive = bundle.open()?;
    // Seeking over what is not wanted: a bundle is some gigabytes long.
    let mut entries = archive
        .entries_with_seek()
        .map_err(|error| bundle.io(error))?;
    let index = bundle.index(entries.next())?;
    let wanted = index
        .items
        .into_iter()
        .find(|record| record.item == entry.item && record.file == plain(&record.file));
    let Some(mut record) = wanted.filter(|record| fits(record)) else {
        return Ok(None);
    };
    let cut_off = || BundleError::CutOff {
        file: bundle.0.to_owned(),
        item: Box::new(record.item.clone()),
    };
    let name = record.item.folder().join(&record.file);
    let found = loop {
        let next = entries.next().ok_or_else(cut_off)?.map_err(|_| cut_off())?;
        if next.path().ok().as_deref() == Some(&name) {
            break next;
        }
    };
    job.say(format!("taking {} out of the bundle", record.item));
    let new = entry
        .temporary(&record.file)
        .map_err(|error| bundle.io(io::Error::other(error)))?;
    let to = fs::File::create(&new).map_err(|error| bundle.io(error))?;
    let total = record.size;
    let mut go_on = |done| {
        job.attendant.hear(News::Amount {
            done,
            total: Some(total),
            unit: Unit::Bytes,
        });
        !job.attendant.is_called_off()
    };
    let result = copy_checked(bundle, &record, found, to, &mut go_on);
    if let Err(error) = result {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    record.carried_by = bundle
        .0
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Ok(Some((new, record)))
}
