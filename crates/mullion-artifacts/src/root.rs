//! Root file systems that machines' templates are made of.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mullion_catalog::{Catalog, LinuxRelease};
use mullion_plan::Attend;

use crate::build::BuildError;
use crate::bundle;
use crate::distribution::{Bootstrap, Distribution, Variant};
use crate::error::SupplyError;
use crate::item::Item;
use crate::job::Job;
use crate::mirror;
use crate::record::{Draft, Origin};
use crate::sources::Sources;
use crate::store::Store;

/// A root file system that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootWish {
    /// Whose packages.
    pub distribution: Distribution,
    /// Of which suite.
    pub suite: String,
    /// Which packages, besides those that they need.
    pub packages: BTreeSet<String>,
    /// How much of them.
    pub variant: Variant,
}

impl RootWish {
    /// The root file system of machines of a Linux release.
    pub fn linux(release: &LinuxRelease) -> Self {
        let packages = &Catalog::builtin().root_packages().packages;
        Self {
            distribution: Distribution::of_release(&release.name).unwrap_or(Distribution::Debian),
            suite: release.suite.clone(),
            packages: packages.iter().cloned().collect(),
            variant: Variant::Minimal,
        }
    }

    /// The root file system of what stands in for Windows.
    pub fn stand_in() -> Self {
        let inside = Catalog::builtin().stand_in_root();
        Self {
            distribution: Distribution::Debian,
            suite: inside.suite.clone(),
            packages: inside.packages.iter().cloned().collect(),
            variant: Variant::Minimal,
        }
    }

    /// What the cache and bundles know it by.
    pub fn item(&self) -> Item {
        Item::Root {
            suite: self.suite.clone(),
            fingerprint: self.bootstrap().fingerprint(),
        }
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap {
            distribution: self.distribution,
            suite: self.suite.clone(),
            variant: self.variant,
            packages: self.packages.clone(),
        }
    }
}

/// Gives the path of a root file system as a tar file: out of the cache, the bundle, the mirror, or put together from
/// the distribution's packages. The same packages give the same bytes.
///
/// Keys of the login service and the machine's identity are not in it: whoever makes a machine of it makes those.
pub fn supply_root(
    store: &Store,
    wish: &RootWish,
    sources: &Sources,
    attendant: &dyn Attend,
) -> Result<PathBuf, SupplyError> {
    let job = Job {
        store,
        sources,
        artifacts: &[],
        attendant,
    };
    supply_bootstrap(&job, &wish.item(), &mut |job, entry| {
        let file = entry.item.default_file();
        let new = entry.temporary(&file)?;
        wish.bootstrap().write(job, &new)?;
        let draft = Draft::new(entry.item.clone(), file, Origin::Made);
        Ok(entry.hash_and_keep(&new, draft, job.attendant)?)
    })
}

/// What makes an item that nobody has.
pub(crate) type MakeItem<'a> =
    dyn FnMut(&Job<'_>, &crate::store::Entry<'_>) -> Result<PathBuf, BuildError> + 'a;

/// An item that only bundles, mirrors and our own hands can give.
pub(crate) fn supply_bootstrap(
    job: &Job<'_>,
    item: &Item,
    make: &mut MakeItem<'_>,
) -> Result<PathBuf, SupplyError> {
    if let Some(path) = job.store.item_path(item) {
        return Ok(path);
    }
    let entry = job.store.lock(item, job.attendant)?;
    if let Some(record) = entry.current() {
        return Ok(entry.folder.join(record.file));
    }
    if let Some(path) = bundle::take(job, &entry)? {
        return Ok(path);
    }
    if job.sources.offline {
        return Err(SupplyError::Offline {
            item: Box::new(item.clone()),
        });
    }
    if let Some(path) = mirror::take(job, &entry)? {
        return Ok(path);
    }
    make(job, &entry).map_err(|source| SupplyError::build(item, source))
}
