//! Writes and signs a bundle.

use std::collections::BTreeSet;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_plan::{Attend, News, Unit};
use mullion_rights::{as_invoker, sync_folder};
use tar::{Builder, EntryType, Header};

use super::seal::Seal;
use super::{Bundle, BundleError, INDEX, Index, SEAL, total};
use crate::digest::Asking;
use crate::item::Item;
use crate::ledger::Ledger;
use crate::record::{Record, VERSION};
use crate::store::Store;

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
