//! Builds for real, from Go's module proxy and the distribution's packages.
//!
//! Slow the first time, and in need of a way to the package registries, a Go or the means to fetch one, `gcc`,
//! `mmdebstrap` and root. The cache lies below cargo's target folder and is kept between runs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; these take minutes and tell where they are"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use fs_err as fs;
use mullion_artifacts::{
    Distribution, GoCaches, GoSource, Item, Origin, RootWish, Sources, Store, Variant, part_of,
    supply, supply_root,
};
use mullion_catalog::{
    ArtifactRef, ArtifactWish, Build, Catalog, GoBuild, Patch, PatchSubject, Purpose,
};
use mullion_plan::{Attend, News, Part, PartKind};
use mullion_spec::words::{Cni, Os};

mod containers;
mod full;
mod programs;
mod roots;
mod trust;

/// Prints what it hears.
pub(crate) struct Loud(Mutex<Option<u64>>);

impl Loud {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }
}

impl Attend for Loud {
    fn hear(&self, news: News) {
        match news {
            News::Line(line) if line.contains(' ') => eprintln!("  {line}"),
            News::Amount { total, .. } => *self.0.lock().unwrap() = total,
            _ => {}
        }
    }
    fn is_called_off(&self) -> bool {
        false
    }
}

pub(crate) fn store() -> Store {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("artifacts");
    Store::open(&folder).unwrap()
}

pub(crate) fn sources() -> Sources {
    let path = std::env::var("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("go"));
    Sources {
        go: GoSource {
            program: found.into_iter().find(|program| program.exists()),
            module_proxy: None,
            caches: GoCaches::Users,
        },
        environment: std::env::vars().collect(),
        ..Sources::default()
    }
}

/// What a Linux cluster of the newest tried release needs.
pub(crate) fn artifacts() -> Vec<ArtifactRef> {
    artifacts_for(Os::Linux)
}

/// What machines of one system need for it.
pub(crate) fn artifacts_for(os: Os) -> Vec<ArtifactRef> {
    artifacts_of("1.36.4", os)
}

pub(crate) fn artifacts_of(kubernetes: &str, os: Os) -> Vec<ArtifactRef> {
    let catalog = Catalog::builtin();
    let release = catalog
        .resolve_kubernetes(kubernetes.parse().unwrap())
        .unwrap();
    let wish = ArtifactWish {
        cni: Cni::Flannel,
        network_policy: true,
        systems: BTreeSet::from([os]),
        windows: BTreeSet::new(),
        runs_windows: os == Os::Windows,
        stands_in: os == Os::Windows,
        purposes: BTreeSet::from([Purpose::Cluster]),
    };
    catalog.artifacts_for(release, &wish)
}

pub(crate) fn part(name: &str, kind: PartKind) -> Part {
    let all = artifacts();
    let mut parts = all.iter().filter_map(part_of);
    parts
        .find(|part| part.name == name && part.kind == kind)
        .unwrap()
}

pub(crate) fn hash(path: &Path) -> String {
    mullion_wire::Sha256Digest::of_reader(fs::File::open(path).unwrap())
        .unwrap()
        .0
        .to_string()
}

/// Supplies a part and tells how long it took.
pub(crate) fn timed(store: &Store, part: &Part) -> PathBuf {
    let begun = Instant::now();
    let path = supply(store, &artifacts(), part, &sources(), &Loud::new())
        .unwrap_or_else(|error| panic!("{:#?}", error.to_step_error()));
    eprintln!(
        "{part}: {:.1} s, {}",
        begun.elapsed().as_secs_f64(),
        path.display()
    );
    path
}
