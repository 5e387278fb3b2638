// tidy: long because writing, sealing, reading and importing a bundle share one layout
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

mod seal;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_catalog::ArtifactRef;
use mullion_plan::{Attend, News, Unit};
use mullion_rights::{Opened, as_invoker};
use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};

use self::seal::Seal;
pub use self::seal::Signer;
use crate::digest::{Asking, Hashing, is_stop};
use crate::digest_list::DigestList;
use crate::error::SupplyError;
use crate::hold::{self, Known};
use crate::item::{Item, plain};
use crate::job::Job;
use crate::key::PublicKey;
use crate::ledger::Ledger;
use crate::record::{Origin, Record, VERSION, Witness};
use crate::store::{Entry, Store, sync_folder};

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
    /// Its signature is not of its index.
    #[error("the bundle {} is damaged: its signature is not of its index", file.display())]
    BadSignature {
        /// The bundle.
        file: PathBuf,
    },
    /// Nothing vouches for what is in it.
    #[error("the bundle {} vouches for itself: it is {signer}, and no digest of {item} is known here", file.display())]
    Unvouched {
        /// The bundle.
        file: PathBuf,
        /// The first item that nothing vouches for.
        item: Box<Item>,
        /// Who signed it.
        signer: Box<Signer>,
    },
    /// Another key was given than the one that it is signed with.
    #[error("the bundle {} is {signer}, and not by the key that was given", file.display())]
    OtherKey {
        /// The bundle.
        file: PathBuf,
        /// Who signed it.
        signer: Box<Signer>,
    },
    /// An item has another digest than what is known of it.
    #[error("{item} in the bundle {} has the SHA-256 {found}, but {known} is known by {by}", file.display())]
    NewDigest {
        /// The bundle.
        file: PathBuf,
        /// The item.
        item: Box<Item>,
        /// Its digest.
        found: Sha256Digest,
        /// The one that is known.
        known: Sha256Digest,
        /// Who says so.
        by: String,
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

impl BundleError {
    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Unvouched { file, .. } | Self::OtherKey { file, .. } => {
                let file = file.display();
                vec![
                    format!(
                        "`mullion artifacts key` on the computer that wrote it prints its public key; then \
                         `mullion artifacts import {file} --bundle-key KEY`"
                    ),
                    format!("or hold it to a list of digests: `mullion artifacts import {file} --digests FILE`"),
                ]
            }
            Self::NewDigest { .. } => vec![
                "a version has one digest: do not use the bundle before you know why it has another".into(),
            ],
            _ => vec!["write the bundle again with `mullion artifacts bundle`".into()],
        }
    }
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
        let opened = Opened::by_invoker(self.0).map_err(|error| self.io(error))?;
        let file = fs::File::open(opened.address()).map_err(|error| self.io(error))?;
        Ok(Archive::new(file))
    }

    /// Reads the index, and leaves the entries behind it to be read. Gives its bytes, too.
    fn index(
        &self,
        entry: Option<io::Result<tar::Entry<'_, fs::File>>>,
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
        Ok((index, bytes))
    }

    /// Reads the index and its signature, and gives the first entry behind them where that was read already.
    fn open_index<'e>(
        &self,
        entries: &mut tar::Entries<'e, fs::File>,
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

type FirstEntry<'e> = Option<tar::Entry<'e, fs::File>>;

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

/// What an imported bundle is held to.
#[derive(Debug, Clone)]
pub enum Vouch {
    /// What is known here already.
    Known,
    /// The public key of the computer that wrote it. It is trusted from now on.
    Key(PublicKey),
    /// A list of digests.
    Digests(DigestList),
}

/// Puts everything in a bundle into the cache. Everything in it is vouched for before anything is taken.
pub fn import(
    store: &Store,
    file: &Path,
    vouch: &Vouch,
    attendant: &dyn Attend,
) -> Result<Index, BundleError> {
    let bundle = Bundle(file);
    let mut archive = bundle.open()?;
    let mut entries = archive.entries().map_err(|error| bundle.io(error))?;
    let (index, key, first) = bundle.open_index(&mut entries)?;
    let signer = bundle.signer(key, store.ledger())?;
    if let Vouch::Key(given) = vouch
        && signer.key() != Some(given)
    {
        return Err(BundleError::OtherKey {
            file: file.to_owned(),
            signer: Box::new(signer),
        });
    }
    for record in &index.items {
        check_import(store, &bundle, record, &signer, vouch)?;
    }
    let mut entries = first.into_iter().map(Ok).chain(entries);
    let used = |error| bundle.io(io::Error::other(error));
    for record in &index.items {
        let cut_off = || bundle.cut_off(&record.item);
        let found = entries.next().ok_or_else(cut_off)?.map_err(|_| cut_off())?;
        let entry = store.lock(&record.item, attendant).map_err(used)?;
        if entry
            .current()
            .is_some_and(|there| there.sha256 == record.sha256)
        {
            continue;
        }
        let (new, record) = take_out(&bundle, &entry, record.clone(), found, attendant)?;
        note(store, &bundle, &record).map_err(|error| bundle.io(error))?;
        entry.keep(&new, record).map_err(used)?;
    }
    if let (Vouch::Key(key), Some(ledger)) = (vouch, store.ledger()) {
        ledger.trust(key).map_err(|error| bundle.io(error))?;
    }
    Ok(index)
}

/// Sees that something vouches for an item, and that nothing speaks against it.
fn check_import(
    store: &Store,
    bundle: &Bundle<'_>,
    record: &Record,
    signer: &Signer,
    vouch: &Vouch,
) -> Result<(), BundleError> {
    let pin = match store.ledger() {
        Some(ledger) => ledger.pin(&record.item).map_err(|error| bundle.io(error))?,
        None => None,
    };
    let is_known = pin.as_ref().is_some_and(|pin| pin.sha256 == record.sha256);
    let is_vouched = match vouch {
        _ if signer.is_trusted() || is_known => true,
        Vouch::Key(_) => true,
        Vouch::Digests(list) => list
            .find(&record.item, &record.file, None)
            .contains(&&record.sha256),
        Vouch::Known => false,
    };
    if !is_vouched || record.file != plain(&record.file) {
        return Err(BundleError::Unvouched {
            file: bundle.0.to_owned(),
            item: Box::new(record.item.clone()),
            signer: Box::new(signer.clone()),
        });
    }
    match pin {
        Some(pin) if hold::is_fetched(record) && pin.sha256 != record.sha256 => {
            Err(BundleError::NewDigest {
                file: bundle.0.to_owned(),
                item: Box::new(record.item.clone()),
                found: record.sha256.clone(),
                known: pin.sha256,
                by: format!("what came from {} before", pin.from),
            })
        }
        _ => Ok(()),
    }
}

/// Records the digest of an item that the author of the bundle fetched.
fn note(store: &Store, bundle: &Bundle<'_>, record: &Record) -> io::Result<()> {
    let (Some(ledger), Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. }) =
        (store.ledger(), &record.origin)
    else {
        return Ok(());
    };
    let from = format!("the bundle {}", bundle.0.display());
    ledger.note(&record.item, &record.sha256, from, *witness)
}

/// Copies one file out of a bundle and sees that it is what the index says.
fn copy_checked<W: io::Write>(
    bundle: &Bundle<'_>,
    record: &Record,
    entry: tar::Entry<'_, fs::File>,
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
    let (writer, found, size) = writer.finish().map_err(|error| bundle.io(error))?;
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
        let _rights = as_invoker();
        let _ = fs::remove_file(&new);
    }
    result?;
    let _rights = as_invoker();
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
    let key = store.ledger().map(Ledger::signing_key).transpose();
    let key = key.map_err(failed)?;
    // The user names the file: it is created with their rights.
    let created = {
        let _rights = as_invoker();
        fs::File::create(new).map_err(failed)?
    };
    let mut tar = Builder::new(BufWriter::new(created));
    let mut head = header(text.len() as u64);
    tar.append_data(&mut head, INDEX, text.as_slice())
        .map_err(failed)?;
    if let Some(key) = key {
        let seal = serde_json::to_vec(&Seal::new(&key, &text));
        let seal = seal.map_err(|error| failed(error.into()))?;
        let mut head = header(seal.len() as u64);
        tar.append_data(&mut head, SEAL, seal.as_slice())
            .map_err(failed)?;
    }
    let total = total(index);
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
    take_if(job, entry, None, &|_| true)
}

/// The same, where the record is to the caller's liking.
pub(crate) fn take_if(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: Option<&ArtifactRef>,
    fits: &dyn Fn(&Record) -> bool,
) -> Result<Option<PathBuf>, SupplyError> {
    let Some(file) = &job.sources.bundle else {
        return Ok(None);
    };
    let bundle = Bundle(file);
    let known = hold::known(job, entry, artifact)?;
    match take_inner(job, entry, &bundle, known.as_ref(), fits) {
        Ok(None) => Ok(None),
        Ok(Some((new, record))) => {
            note(job.store, &bundle, &record).map_err(|source| SupplyError::Ledger { source })?;
            Ok(Some(entry.keep(&new, record)?))
        }
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
    known: Option<&Known>,
    fits: &dyn Fn(&Record) -> bool,
) -> Result<Option<(PathBuf, Record)>, BundleError> {
    let mut archive = bundle.open()?;
    // Seeking over what is not wanted: a bundle is some gigabytes long.
    let mut entries = archive
        .entries_with_seek()
        .map_err(|error| bundle.io(error))?;
    let (index, key, first) = bundle.open_index(&mut entries)?;
    let wanted = index
        .items
        .into_iter()
        .find(|record| record.item == entry.item && record.file == plain(&record.file));
    let Some(record) = wanted.filter(|record| fits(record)) else {
        return Ok(None);
    };
    check_taken(
        bundle,
        &record,
        &bundle.signer(key, job.store.ledger())?,
        known,
    )?;
    let cut_off = || bundle.cut_off(&record.item);
    let name = record.item.folder().join(&record.file);
    let mut entries = first.into_iter().map(Ok).chain(entries);
    let found = loop {
        let next = entries.next().ok_or_else(cut_off)?.map_err(|_| cut_off())?;
        if next.path().ok().as_deref() == Some(&name) {
            break next;
        }
    };
    job.say(format!("taking {} out of the bundle", record.item));
    take_out(bundle, entry, record, found, job.attendant).map(Some)
}

/// Sees that something vouches for an item of a bundle that the file names, and that nothing speaks against it.
fn check_taken(
    bundle: &Bundle<'_>,
    record: &Record,
    signer: &Signer,
    known: Option<&Known>,
) -> Result<(), BundleError> {
    // What a computer that is trusted built has its own digest.
    let is_built = signer.is_trusted() && !hold::is_fetched(record);
    match known {
        // The user's list is of mirrors: the file that names the bundle names it as well, and may come with both.
        Some(known) if known.witness != Witness::DigestList => {
            if known.sha256 == record.sha256 || is_built {
                return Ok(());
            }
            Err(BundleError::NewDigest {
                file: bundle.0.to_owned(),
                item: Box::new(record.item.clone()),
                found: record.sha256.clone(),
                known: known.sha256.clone(),
                by: known.by.clone(),
            })
        }
        _ if signer.is_trusted() => Ok(()),
        _ => Err(BundleError::Unvouched {
            file: bundle.0.to_owned(),
            item: Box::new(record.item.clone()),
            signer: Box::new(signer.clone()),
        }),
    }
}

/// Takes one item out of a bundle, next to its place in the cache.
fn take_out(
    bundle: &Bundle<'_>,
    entry: &Entry<'_>,
    mut record: Record,
    found: tar::Entry<'_, fs::File>,
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
