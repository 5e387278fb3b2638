//! Mirrors: an address that is asked before upstream.
//!
//! A mirror may have any of three shapes, asked for in this order:
//!
//! 1. a cache folder that somebody serves over HTTP: `<mirror>/parts/linux/program/kubeadm@1.36.4/record.json` names
//!    the file beside it, its digest and its size; roots and layers lie there too;
//! 2. upstream's files below the name of their host: `<mirror>/dl.k8s.io/release/v1.36.4/…`, checksums too;
//! 3. a registry with repositories named after their registries: `<mirror>/v2/registry.k8s.io/pause/manifests/3.10.2`.

use std::path::PathBuf;

use mullion_catalog::ArtifactRef;
use mullion_wire::Sha256Digest;

use crate::checksum;
use crate::error::SupplyError;
use crate::fetch::{Expect, Fetch, FetchError};
use crate::hold::{self, Known};
use crate::item::plain;
use crate::job::Job;
use crate::record::{Origin, Record, VERSION, Witness};
use crate::store::{Entry, is_own_file};

const RECORD_LIMIT: u64 = 4 << 20;

/// Takes an item from a mirror that has the shape of a cache; none where it has not.
pub(crate) fn take(job: &Job<'_>, entry: &Entry<'_>) -> Result<Option<PathBuf>, SupplyError> {
    match ask(job, entry, None) {
        None => Ok(None),
        Some(Ok(path)) => Ok(Some(path)),
        Some(Err(SupplyError::Fetch { source, .. })) if source.is_absence() => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

/// The same, with what the mirror answered; none where there is no mirror.
pub(crate) fn ask(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: Option<&ArtifactRef>,
) -> Option<Result<PathBuf, SupplyError>> {
    let mirror = job.sources.mirror.as_deref()?;
    Some(take_from(job, entry, artifact, mirror))
}

/// That nothing vouches for what a mirror has.
pub(crate) fn unheld(mirror: &str) -> FetchError {
    FetchError::Unheld {
        address: crate::fetch::shown(mirror),
    }
}

/// The digest that upstream publishes of an artifact; none where it publishes none, or cannot be asked.
fn published(
    fetch: &Fetch<'_>,
    artifact: Option<&ArtifactRef>,
) -> Result<Option<(Sha256Digest, String)>, FetchError> {
    let Some((address, checksum)) =
        artifact.and_then(|artifact| artifact.address.as_ref().zip(artifact.checksum.as_ref()))
    else {
        return Ok(None);
    };
    match fetch.text(checksum, RECORD_LIMIT) {
        Ok(text) => {
            let file = address.rsplit('/').next().unwrap_or_default();
            Ok(checksum::find(&text, file).map(|digest| (digest, crate::fetch::shown(checksum))))
        }
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

fn take_from(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: Option<&ArtifactRef>,
    mirror: &str,
) -> Result<PathBuf, SupplyError> {
    let item = &entry.item;
    let failed = |source| SupplyError::fetch(item, source);
    let folder = format!(
        "{}/{}",
        mirror.trim_end_matches('/'),
        item.folder().display()
    );
    let fetch = Fetch::new(job.sources, job.attendant);
    let text = fetch
        .text(&format!("{folder}/record.json"), RECORD_LIMIT)
        .map_err(failed)?;
    let record: Option<Record> = serde_json::from_str(&text).ok();
    let record = record.filter(|record| {
        record.version == VERSION
            && record.item == *item
            && record.file == plain(&record.file)
            && !is_own_file(&record.file)
    });
    let Some(mut record) = record else {
        return Err(failed(FetchError::Unexpected {
            address: crate::fetch::shown(&folder),
            expected: "a record",
        }));
    };
    // What the mirror says of itself is held to what is known here, then to what upstream says.
    let mut known = hold::known(job, entry, artifact)?;
    if known.is_none()
        && let Some((sha256, by)) = published(&fetch, artifact).map_err(failed)?
    {
        known = Some(Known {
            sha256,
            witness: Witness::ChecksumFile,
            by,
            file: None,
            scope: None,
        });
    }
    match &known {
        Some(known) => known.hold(item, crate::fetch::shown(&folder), &record.sha256)?,
        None if hold::may_vouch(mirror) => {}
        None => return Err(failed(unheld(mirror))),
    }
    let address = format!("{folder}/{}", record.file);
    let partial = entry.partial(&record.file)?;
    let got = fetch
        .file(&address, &partial, &Expect::Sha256(record.sha256.clone()))
        .map_err(failed)?;
    record.size = got.size;
    let origin = Origin::Mirror {
        address: crate::fetch::shown(&got.address),
        witness: match &known {
            Some(known) => known.witness,
            None => Witness::MirrorRecord,
        },
    };
    // A mirror that says "built" or "taken out of an archive" proves neither.
    record.origin = origin.clone();
    // The mirror's own word for how it came there is of no use here.
    record.carried_by = None;
    if known.is_none() {
        hold::tell_first_use(job, item, mirror, &record.sha256);
    }
    hold::note(job, item, &record.sha256, &origin)?;
    Ok(entry.keep(&partial, record)?)
}

/// Where a mirror has what upstream has at an address.
pub(crate) fn address(mirror: &str, upstream: &str) -> Option<String> {
    let (_, rest) = upstream.split_once("://")?;
    Some(format!("{}/{rest}", mirror.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_lies_below_its_host() {
        assert_eq!(
            address(
                "https://m.example/files/",
                "https://dl.k8s.io/release/v1/kubeadm"
            )
            .unwrap(),
            "https://m.example/files/dl.k8s.io/release/v1/kubeadm"
        );
    }
}
