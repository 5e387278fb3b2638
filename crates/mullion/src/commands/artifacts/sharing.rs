//! `artifacts import`, `key` and `adopt`: what comes from other computers, and what it is held to.

use std::path::Path;
use std::sync::atomic::Ordering;

use mullion_artifacts::bundle::{self, BundleError, Vouch};
use mullion_artifacts::{DigestList, Ledger, PublicKey};

use super::super::kubectl::unusable;
use super::stock::Stock;
use super::{INTERRUPTED, Quiet, listen};
use crate::console::{Console, Format, GOOD};
use crate::failure::{Class, Failure};
use crate::views::artifacts::{AdoptDocument, ImportDocument, KeyDocument};
use crate::views::findings::plural;

/// The public key that this computer signs bundles with.
pub(super) fn public_key(stock: &Stock<'_>) -> Result<Option<PublicKey>, Failure> {
    let key = stock.store.ledger().map(Ledger::own_key).transpose();
    let key = key.map_err(|error| {
        Failure::new(
            Class::ThisComputer,
            "the key of this computer cannot be read",
        )
        .because(&error)
    })?;
    Ok(key.flatten())
}

/// Prints the public key.
pub(super) fn key(console: &mut Console<'_>, stock: &Stock<'_>) -> Result<u8, Failure> {
    let Some(key) = public_key(stock)? else {
        let what = "this computer has signed nothing yet, and has no key";
        return Err(Failure::new(Class::ThisComputer, what)
            .hint("`mullion artifacts bundle FILE` makes one and signs the bundle with it"));
    };
    let document = KeyDocument {
        key: key.to_string(),
    };
    match console.format {
        Format::Json => console.json("BundleKey", &document)?,
        Format::Text => writeln!(console.out, "{}", document.key)?,
    }
    Ok(0)
}

/// Makes the cache count that the file names.
pub(super) fn adopt(console: &mut Console<'_>, stock: &Stock<'_>) -> Result<u8, Failure> {
    let store = &stock.store;
    store
        .adopt()
        .map_err(|error| unusable(store.folder(), &error))?;
    let document = AdoptDocument {
        cache: stock.folder(),
        artifacts: store.list().len(),
    };
    if console.format == Format::Json {
        console.json("Adopt", &document)?;
        return Ok(0);
    }
    let count = plural(document.artifacts, "artifact");
    writeln!(
        console.err,
        "{} counts as a cache of this computer: {count} in it",
        document.cache
    )?;
    Ok(0)
}

/// What a bundle is held to, as the arguments say.
pub(super) fn vouch(key: Option<&PublicKey>, digests: Option<&Path>) -> Result<Vouch, Failure> {
    match (key, digests) {
        (Some(key), _) => Ok(Vouch::Key(key.clone())),
        (None, Some(file)) => {
            let list = DigestList::read(file).map_err(|error| {
                let what = format!("the list of digests `{}` cannot be read", file.display());
                Failure::new(Class::Usage, what).because(&error)
            })?;
            Ok(Vouch::Digests(list))
        }
        (None, None) => Ok(Vouch::Known),
    }
}

/// Puts everything in a bundle into the cache.
pub(super) fn import(
    console: &mut Console<'_>,
    stock: &Stock<'_>,
    file: &Path,
    vouch: &Vouch,
) -> Result<u8, Failure> {
    let store = &stock.store;
    store
        .check_use()
        .map_err(|error| unusable(store.folder(), &error))?;
    let off = listen()?;
    let imported = bundle::import(store, file, vouch, &Quiet(std::sync::Arc::clone(&off)));
    let index = match imported {
        Ok(index) => index,
        Err(BundleError::CalledOff) => return Ok(INTERRUPTED),
        Err(_) if off.load(Ordering::Relaxed) => return Ok(INTERRUPTED),
        Err(error) => {
            let class = match &error {
                BundleError::Io { .. } => Class::ThisComputer,
                _ => Class::Check,
            };
            let what = format!("the bundle `{}` was not imported", file.display());
            let failure = Failure::new(class, what).because(&error);
            return Err(error.hints().into_iter().fold(failure, Failure::hint));
        }
    };
    let document = ImportDocument {
        cache: stock.folder(),
        file: file.display().to_string(),
        artifacts: (index.items.iter())
            .map(|record| record.item.to_string())
            .collect(),
    };
    if console.format == Format::Json {
        console.json("Import", &document)?;
        return Ok(0);
    }
    let done = console.styled_err(GOOD, "imported");
    let count = plural(document.artifacts.len(), "artifact");
    writeln!(console.err, "{done}: {count} into {}", document.cache)?;
    Ok(0)
}
