//! Puts everything in a bundle into the cache, held to what the user says.

use std::io;
use std::path::Path;

use mullion_plan::Attend;

use super::{Bundle, BundleError, Index, Signer, note, take_out};
use crate::digest_list::DigestList;
use crate::hold;
use crate::key::PublicKey;
use crate::record::{Origin, Record, Witness};
use crate::store::Store;

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
        let (new, mut record) = take_out(&bundle, &entry, record.clone(), found, attendant)?;
        // The user's word counts for every file.
        record.scope = None;
        // Nobody vouches for who else vouched for it, as the bundle says.
        if let (
            Vouch::Digests(_),
            false,
            Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. },
        ) = (vouch, signer.is_trusted(), &mut record.origin)
        {
            *witness = Witness::DigestList;
        }
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
        // What only a cluster file's own sources vouched for does not vouch for a bundle.
        Some(ledger) => ledger
            .pin(&record.item, None)
            .map_err(|error| bundle.io(error))?,
        None => None,
    };
    let is_known = pin.as_ref().is_some_and(|pin| pin.sha256 == record.sha256);
    let is_vouched = match vouch {
        _ if signer.is_trusted() || is_known => true,
        Vouch::Key(_) => true,
        // The bundle names its files: a line for one program does not vouch for another under its name.
        Vouch::Digests(list) => {
            let file = Some(record.file.clone()).filter(|file| record.item.may_be_called(file));
            let file = file.unwrap_or_else(|| record.item.default_file());
            let found = list.find(&record.item, &file, None);
            found.contains(&&record.sha256)
        }
        Vouch::Known => false,
    };
    if !is_vouched {
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
