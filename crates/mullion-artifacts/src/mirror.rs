//! Mirrors: an address that is asked before upstream.
//!
//! A mirror may have any of three shapes, asked for in this order:
//!
//! 1. a cache folder that somebody serves over HTTP: `<mirror>/parts/linux/program/kubeadm@1.36.4/record.json` names
//!    the file beside it, its digest and its size; roots and layers lie there too;
//! 2. upstream's files below the name of their host: `<mirror>/dl.k8s.io/release/v1.36.4/…`, checksums too;
//! 3. a registry with repositories named after their registries: `<mirror>/v2/registry.k8s.io/pause/manifests/3.10.2`.

use std::path::PathBuf;

use crate::error::SupplyError;
use crate::fetch::{Expect, Fetch, FetchError};
use crate::item::plain;
use crate::job::Job;
use crate::record::{Origin, Record, VERSION, Witness};
use crate::store::Entry;

const RECORD_LIMIT: u64 = 4 << 20;

/// Takes an item from a mirror that has the shape of a cache; none where it has not.
pub(crate) fn take(job: &Job<'_>, entry: &Entry<'_>) -> Result<Option<PathBuf>, SupplyError> {
    match ask(job, entry) {
        None => Ok(None),
        Some(Ok(path)) => Ok(Some(path)),
        Some(Err(SupplyError::Fetch { source, .. })) if source.is_absence() => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

/// The same, with what the mirror answered; none where there is no mirror.
pub(crate) fn ask(job: &Job<'_>, entry: &Entry<'_>) -> Option<Result<PathBuf, SupplyError>> {
    let mirror = job.sources.mirror.as_deref()?;
    Some(take_from(job, entry, mirror))
}

fn take_from(job: &Job<'_>, entry: &Entry<'_>, mirror: &str) -> Result<PathBuf, SupplyError> {
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
        record.version == VERSION && record.item == *item && record.file == plain(&record.file)
    });
    let Some(mut record) = record else {
        return Err(failed(FetchError::Unexpected {
            address: crate::fetch::shown(&folder),
            expected: "a record",
        }));
    };
    if let Some((pinned, _)) = entry.pinned() {
        record.sha256 = pinned;
    }
    let address = format!("{folder}/{}", record.file);
    let partial = entry.partial(&record.file)?;
    let got = fetch
        .file(&address, &partial, &Expect::Sha256(record.sha256.clone()))
        .map_err(failed)?;
    record.size = got.size;
    // Where it was built is worth more than where it lay.
    if matches!(
        record.origin,
        Origin::Upstream { .. } | Origin::Mirror { .. } | Origin::Given
    ) {
        record.origin = Origin::Mirror {
            address: crate::fetch::shown(&got.address),
            witness: Witness::MirrorRecord,
        };
    }
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
