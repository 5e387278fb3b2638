//! What an item must be, by everything that is known here before any source is believed.

use std::path::PathBuf;

use mullion_catalog::{ArtifactRef, Digest};
use mullion_wire::Sha256Digest;

use crate::digest_list::DigestList;
use crate::error::SupplyError;
use crate::fetch::FetchError;
use crate::item::Item;
use crate::job::Job;
use crate::record::{Origin, Record, Witness};
use crate::store::Entry;

/// The digest that an item must have.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) sha256: Sha256Digest,
    pub(crate) witness: Witness,
    /// Who says so.
    pub(crate) by: String,
    /// The file to remove where the user knows better.
    pub(crate) file: Option<PathBuf>,
    /// The sources of the cluster file that it depends on.
    pub(crate) scope: Option<String>,
}

/// The digest that an item must have: the catalog's, the one that it had when it was fetched before, or the one of the
/// user's list. None where nobody knows one.
pub(crate) fn known(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: Option<&ArtifactRef>,
) -> Result<Option<Known>, SupplyError> {
    let item = &entry.item;
    if let Some(artifact) = artifact
        && let Digest::Sha256(pinned) = &artifact.digest
    {
        let sha256 = pinned.parse().map_err(|_| {
            SupplyError::fetch(
                item,
                FetchError::Unexpected {
                    address: artifact.name.clone(),
                    expected: "a digest in the catalog",
                },
            )
        })?;
        return Ok(Some(Known {
            sha256,
            witness: Witness::Catalog,
            by: "the catalog".into(),
            file: None,
            scope: None,
        }));
    }
    let pinned = pinned(job, entry)?;
    let Some(listed) = listed(job, item, artifact)? else {
        return Ok(pinned);
    };
    match pinned {
        Some(pinned) if pinned.sha256 != listed.sha256 => {
            Err(pinned.refuse(item, listed.by, listed.sha256))
        }
        Some(pinned) => Ok(Some(pinned)),
        None => Ok(Some(listed)),
    }
}

/// The digest of what was fetched before.
fn pinned(job: &Job<'_>, entry: &Entry<'_>) -> Result<Option<Known>, SupplyError> {
    if let Some(ledger) = job.store.ledger() {
        // What counts for every file counts first.
        let scopes = job.store.scopes().into_iter().map(Some);
        for scope in std::iter::once(None).chain(scopes) {
            let pin = ledger
                .pin(&entry.item, scope.as_deref())
                .map_err(|source| SupplyError::Ledger { source })?;
            if let Some(pin) = pin {
                return Ok(Some(Known {
                    sha256: pin.sha256,
                    witness: pin.witness,
                    by: format!("what came from {} before", pin.from),
                    file: Some(ledger.pin_path(&entry.item, scope.as_deref())),
                    scope,
                }));
            }
        }
    }
    Ok(entry.pinned().map(|record| Known {
        sha256: record.sha256,
        witness: record.witness,
        by: format!("what came from {} before", record.from),
        file: Some(entry.record_path()),
        scope: record.scope,
    }))
}

fn listed(
    job: &Job<'_>,
    item: &Item,
    artifact: Option<&ArtifactRef>,
) -> Result<Option<Known>, SupplyError> {
    let Some(file) = &job.sources.digests else {
        return Ok(None);
    };
    let list = DigestList::read(file).map_err(|source| SupplyError::Digests {
        file: file.clone(),
        source,
    })?;
    let name = artifact.and_then(|artifact| artifact.file.clone());
    let name = name.unwrap_or_else(|| item.default_file());
    let address = artifact.and_then(|artifact| artifact.address.as_deref());
    // Of two that it may be, neither vouches for it.
    match list.find(item, &name, address)[..] {
        [sha256] => Ok(Some(Known {
            sha256: sha256.clone(),
            witness: Witness::DigestList,
            by: format!("the list {}", file.display()),
            file: None,
            scope: job.store.scope(&Origin::Mirror {
                address: String::new(),
                witness: Witness::DigestList,
            }),
        })),
        _ => Ok(None),
    }
}

impl Known {
    /// That a source has something else.
    pub(crate) fn refuse(
        &self,
        item: &Item,
        from: impl Into<String>,
        found: Sha256Digest,
    ) -> SupplyError {
        SupplyError::NewDigest {
            item: Box::new(item.clone()),
            from: from.into().into_boxed_str(),
            found,
            known: self.sha256.clone(),
            by: self.by.as_str().into(),
            file: self.file.clone(),
        }
    }

    /// Refuses what a source has where it is something else.
    pub(crate) fn hold(
        &self,
        item: &Item,
        from: impl Into<String>,
        found: &Sha256Digest,
    ) -> Result<(), SupplyError> {
        if self.sha256 == *found {
            Ok(())
        } else {
            Err(self.refuse(item, from, found.clone()))
        }
    }
}

/// Whether something was fetched, and so has the same digest wherever it comes from. What is built or put together may
/// differ from computer to computer.
pub(crate) const fn is_fetched(record: &Record) -> bool {
    matches!(
        record.origin,
        Origin::Upstream { .. } | Origin::Mirror { .. }
    )
}

/// Notes the digest of what was just fetched, so that it is the same the next time, whatever becomes of the cache.
pub(crate) fn note(
    job: &Job<'_>,
    item: &Item,
    sha256: &Sha256Digest,
    origin: &Origin,
) -> Result<(), SupplyError> {
    let (Some(ledger), Origin::Upstream { address, witness } | Origin::Mirror { address, witness }) =
        (job.store.ledger(), origin)
    else {
        return Ok(());
    };
    let (from, scope) = (address.clone(), job.store.scope(origin));
    ledger
        .note(item, sha256, from, *witness, scope)
        .map_err(|source| SupplyError::Ledger { source })
}

/// Whether what a mirror says of itself counts at the first use. Over plain HTTP anybody on the way could say it.
pub(crate) fn may_vouch(mirror: &str) -> bool {
    mirror.starts_with("https://")
}

/// Tells that nothing but the mirror vouches for something.
pub(crate) fn tell_first_use(job: &Job<'_>, item: &Item, mirror: &str, sha256: &Sha256Digest) {
    let line = format!(
        "{item}: only the mirror {} vouches for sha256:{sha256}; it is trusted at this first use, and must be the same \
         from now on",
        crate::fetch::shown(mirror)
    );
    job.say(line.clone());
    job.sources.notices.add(line);
}
