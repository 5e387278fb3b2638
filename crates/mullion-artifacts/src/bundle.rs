//! Bundles: one tar file with everything that a cluster needs, for a computer without a way out.
//!
//! # Layout
//!
//! ```text
//! mullion-bundle.json          the index: version, and a record of every item
//! mullion-bundle.sig           the signature of the index, and the key it was made with
//! <item's folder>/<file>       the items, in the order of the index
//! ```
//!
//! The index comes first, so that reading it reads no more; the digests in it are held against every file that is
//! taken out.
//!
//! A digest that comes with the file it is of proves nothing about who wrote both. An item is taken where this computer
//! signed the index, or one whose key the user trusts, or where its digest is known here by other ways. Otherwise the
//! user imports the bundle, and says what to hold it to: [`import`].

mod error;
mod import;
mod seal;
mod take;
mod write;

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_plan::{Attend, News, Unit};
use mullion_rights::Opened;
use mullion_tar::{TarEntries, TarEntry, TarReader};
use mullion_wire::Hashing;
use serde::{Deserialize, Serialize};

pub use self::error::BundleError;
pub use self::import::{Vouch, import};
use self::seal::Seal;
pub use self::seal::Signer;
pub(crate) use self::take::{take, take_if};
pub use self::write::write;
use crate::digest::{Asking, is_stop};
use crate::item::{Item, plain};
use crate::key::PublicKey;
use crate::ledger::Ledger;
use crate::record::{Origin, Record, VERSION};
use crate::store::{Entry, Store, is_own_file};

const INDEX: &str = "mullion-bundle.json";
const INDEX_LIMIT: u64 = 64 << 20;
const SEAL: &str = "mullion-bundle.sig";
const SEAL_LIMIT: u64 = 4096;

/// What a bundle says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Index {
    /// The version of the format.
    pub version: u32,
    /// Every item in it.
    pub items: Vec<Record>,
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

    fn open(&self) -> Result<TarReader<fs::File>, BundleError> {
        let opened = Opened::by_invoker(self.0).map_err(|error| self.io(error))?;
        let file = fs::File::open(opened.address()).map_err(|error| self.io(error))?;
        Ok(TarReader::new(file))
    }

    /// Reads the index, and leaves the entries behind it to be read. Gives its bytes, too.
    fn index(
        &self,
        entry: Option<io::Result<TarEntry<'_, fs::File>>>,
    ) -> Result<(Index, Vec<u8>), BundleError> {
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
        let index: Index = serde_json::from_slice(&bytes).map_err(|_| none())?;
        let is_ours = |name: &str| name == plain(name) && !is_own_file(name);
        if let Some(record) = index.items.iter().find(|record| !is_ours(&record.file)) {
            return Err(BundleError::Name {
                file: self.0.to_owned(),
                item: Box::new(record.item.clone()),
            });
        }
        // Two items in one folder: which of them is taken would depend on who takes it.
        let mut folders = BTreeSet::new();
        let mut items = index.items.iter();
        match items.find(|record| !folders.insert(record.item.folder())) {
            Some(record) => Err(BundleError::Twice {
                file: self.0.to_owned(),
                item: Box::new(record.item.clone()),
            }),
            None => Ok((index, bytes)),
        }
    }

    /// Reads the index and its signature, and gives the first entry behind them where that was read already.
    fn open_index<'e>(
        &self,
        entries: &mut TarEntries<'e, fs::File>,
    ) -> Result<(Index, Option<PublicKey>, FirstEntry<'e>), BundleError> {
        let (index, bytes) = self.index(entries.next())?;
        let Some(Ok(mut next)) = entries.next() else {
            return Ok((index, None, None));
        };
        if next.path().ok().as_deref() != Some(Path::new(SEAL)) {
            return Ok((index, None, Some(next)));
        }
        let mut text = Vec::new();
        next.by_ref()
            .take(SEAL_LIMIT)
            .read_to_end(&mut text)
            .map_err(|error| self.io(error))?;
        let seal: Option<Seal> = serde_json::from_slice(&text).ok();
        // A signature that does not fit is worse than none.
        let key = seal.and_then(|seal| seal.key(&bytes));
        let key = key.ok_or_else(|| BundleError::BadSignature {
            file: self.0.to_owned(),
        })?;
        Ok((index, Some(key), None))
    }

    fn signer(
        &self,
        key: Option<PublicKey>,
        ledger: Option<&Ledger>,
    ) -> Result<Signer, BundleError> {
        match key {
            None => Ok(Signer::Nobody),
            Some(key) => seal::signer(key, ledger).map_err(|error| self.io(error)),
        }
    }

    fn cut_off(&self, item: &Item) -> BundleError {
        BundleError::CutOff {
            file: self.0.to_owned(),
            item: Box::new(item.clone()),
        }
    }
}

type FirstEntry<'e> = Option<TarEntry<'e, fs::File>>;

/// The length of all items together, as the index claims it.
fn total(index: &Index) -> u64 {
    let sizes = index.items.iter().map(|record| record.size);
    sizes.fold(0, u64::saturating_add)
}

/// What is in a bundle, by its own word.
pub fn read_index(file: &Path) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    Ok(bundle.index(entries.next())?.0)
}

/// Who signed a bundle; an error where its signature is not of its index.
pub fn signer_of(file: &Path, ledger: Option<&Ledger>) -> Result<Signer, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    let (_, key, _) = bundle.open_index(&mut entries)?;
    bundle.signer(key, ledger)
}

/// Reads a whole bundle and holds every file against the index.
pub fn verify(file: &Path, attendant: &dyn Attend) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    let (index, _, first) = bundle.open_index(&mut entries)?;
    let mut entries = first.into_iter().map(Ok).chain(entries);
    let total = total(&index);
    let mut done = 0_u64;
    for record in &index.items {
        let cut_off = || bundle.cut_off(&record.item);
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

/// Records the digest of an item that the author of the bundle fetched.
fn note(store: &Store, bundle: &Bundle<'_>, record: &Record) -> io::Result<()> {
    let (Some(ledger), Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. }) =
        (store.ledger(), &record.origin)
    else {
        return Ok(());
    };
    let from = format!("the bundle {}", bundle.0.display());
    let scope = record.scope.clone();
    ledger.note(&record.item, &record.sha256, from, *witness, scope)
}

/// Copies one file out of a bundle and sees that it is what the index says.
fn copy_checked<W: io::Write>(
    bundle: &Bundle<'_>,
    record: &Record,
    entry: TarEntry<'_, fs::File>,
    to: W,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<W, BundleError> {
    if !entry.header().entry_type().is_file() {
        return Err(bundle.cut_off(&record.item));
    }
    let mut writer = Hashing::new(to);
    let mut reader = Asking {
        // An entry may claim to be larger than any disk.
        inner: entry.take(record.size.saturating_add(1)),
        go_on,
        done: 0,
        next: 0,
    };
    io::copy(&mut reader, &mut writer).map_err(|error| bundle.io(error))?;
    let (writer, found, size) = writer.finish();
    if size < record.size {
        return Err(bundle.cut_off(&record.item));
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

/// Takes one item out of a bundle, next to its place in the cache.
fn take_out(
    bundle: &Bundle<'_>,
    entry: &Entry<'_>,
    mut record: Record,
    found: TarEntry<'_, fs::File>,
    attendant: &dyn Attend,
) -> Result<(PathBuf, Record), BundleError> {
    let new = entry
        .temporary(&record.file)
        .map_err(|error| bundle.io(io::Error::other(error)))?;
    let to = fs::File::create_new(&new).map_err(|error| bundle.io(error))?;
    let total = record.size;
    let mut go_on = |done| {
        attendant.hear(News::Amount {
            done,
            total: Some(total),
            unit: Unit::Bytes,
        });
        !attendant.is_called_off()
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
    Ok((new, record))
}
