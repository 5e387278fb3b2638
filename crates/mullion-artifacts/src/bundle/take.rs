//! Takes one item out of the bundle that the cluster file names.

use std::path::PathBuf;

use mullion_catalog::ArtifactRef;

use super::{Bundle, BundleError, Signer, note, take_out};
use crate::error::SupplyError;
use crate::hold::{self, Known};
use crate::job::Job;
use crate::record::{Record, Witness};
use crate::store::Entry;

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
        .find(|record| record.item == entry.item);
    let Some(record) = wanted.filter(|record| fits(record)) else {
        return Ok(None);
    };
    let signer = bundle.signer(key, job.store.ledger())?;
    check_taken(bundle, &record, &signer, known)?;
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
    let (new, mut record) = take_out(bundle, entry, record, found, job.attendant)?;
    // What vouched for it was the signature, or else a digest that may count for this file alone.
    record.scope = match known {
        Some(known) if !signer.is_trusted() => known.scope.clone(),
        _ => None,
    };
    Ok(Some((new, record)))
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
