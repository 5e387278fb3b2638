//! What a cluster needs of artifacts, held against the cache.

use std::collections::{BTreeMap, BTreeSet};

use mullion_artifacts::{Item, RootWish, Sources, Store, SupplyError, supply, supply_root};
use mullion_catalog::{Catalog, Model};
use mullion_plan::{Attend, Wanted};
use mullion_spec::cluster::{Carrier, Origin, System};

use super::super::kubectl::store;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::views::artifacts::ArtifactRow;

/// What a cluster needs, and the cache that it should be in.
pub(super) struct Stock<'a> {
    model: &'a Model,
    pub(super) store: Store,
    pub(super) items: BTreeSet<Item>,
    roots: BTreeMap<Item, RootWish>,
}

impl<'a> Stock<'a> {
    pub(super) fn new(model: &'a Model, environment: &Environment) -> Result<Self, Failure> {
        let roots = roots(model).into_iter().map(|wish| (wish.item(), wish));
        let roots: BTreeMap<_, _> = roots.collect();
        let parts = Wanted::of(model).parts.into_iter().map(Item::Part);
        Ok(Self {
            store: store(model, environment)?,
            items: parts.chain(roots.keys().cloned()).collect(),
            roots,
            model,
        })
    }

    pub(super) fn cluster(&self) -> String {
        self.model.cluster().name.to_string()
    }

    pub(super) fn folder(&self) -> String {
        self.store.folder().display().to_string()
    }

    pub(super) fn row(&self, item: &Item) -> ArtifactRow {
        ArtifactRow::new(item, self.store.record(item).as_ref())
    }

    /// Why root is needed, where it is: root file systems hold files of many users.
    pub(super) fn needs_root(&self) -> Option<String> {
        let missing = self
            .roots
            .keys()
            .filter(|item| self.store.record(item).is_none());
        let missing: Vec<_> = missing
            .map(|item| ArtifactRow::new(item, None).name)
            .collect();
        (!missing.is_empty()).then(|| {
            format!(
                "put together the root file system of {}",
                missing.join(", ")
            )
        })
    }

    pub(super) fn get(
        &self,
        item: &Item,
        sources: &Sources,
        attendant: &dyn Attend,
    ) -> Result<(), SupplyError> {
        match item {
            Item::Part(part) => supply(
                &self.store,
                self.model.artifacts(),
                part,
                sources,
                attendant,
            )
            .map(|_| ()),
            other => match self.roots.get(other) {
                Some(wish) => supply_root(&self.store, wish, sources, attendant).map(|_| ()),
                None => Ok(()),
            },
        }
    }
}

/// The root file systems that the machines we make are made from.
fn roots(model: &Model) -> Vec<RootWish> {
    let catalog = Catalog::builtin();
    let releases: BTreeSet<_> = model
        .cluster()
        .groups
        .iter()
        .filter_map(|group| match (&group.system, &group.carrier) {
            (
                System::Linux { release },
                Carrier::Made {
                    origin: Origin::Packages,
                    ..
                },
            ) => Some(release.as_str()),
            _ => None,
        })
        .collect();
    let mut wishes: Vec<RootWish> = Vec::new();
    for release in releases
        .into_iter()
        .filter_map(|release| catalog.linux(release))
    {
        let wish = RootWish::linux(release);
        if !wishes.contains(&wish) {
            wishes.push(wish);
        }
    }
    let mut groups = model.cluster().groups.iter();
    if groups.any(|group| catalog.driver(group.carrier.driver()).stand_in) {
        wishes.push(RootWish::stand_in());
    }
    wishes
}

#[cfg(test)]
mod tests {
    use mullion_live::{Adapter, Agent, Outfit};
    use mullion_spec::draft::Surroundings;
    use mullion_spec::source::Source;

    use super::*;
    use crate::file;

    /// What `fetch` gets must be what `up` looks for.
    #[test]
    fn root_file_systems_are_those_that_templates_are_made_of() {
        let text = "machines:\n- {name: cp, role: control-plane}\n- {name: lin, version: \"12\"}\n\
                    - {name: ubuntu, version: \"24.04\"}\n- {name: old, addresses: [192.0.2.1]}\n\
                    - {name: win, os: windows, driver: wine}\n";
        let judgement = file::judge(Source::new("f", text), &Surroundings::default());
        let model = judgement.model.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let outfit = Outfit {
            state: folder.path().join("state"),
            cache: folder.path().join("cache"),
            custody: mullion_artifacts::Custody {
                ledger: mullion_artifacts::Ledger::new(folder.path().join("state/artifacts")),
                is_named: false,
                owner: None,
                claims: mullion_artifacts::Claims::default(),
            },
            place: folder.path().join("place"),
            agent: Agent::new(Vec::new().into(), "1"),
            windows: None,
            sources: Sources::default(),
            contents: BTreeMap::new(),
            images: Vec::new(),
            keys: BTreeMap::new(),
            given_key: None,
            existing: None,
            owner: 0,
        };
        let adapter = Adapter::new(&model, outfit, BTreeMap::new()).unwrap();
        let suites = adapter.suites();
        let theirs: BTreeSet<_> = suites
            .iter()
            .filter_map(|suite| Catalog::builtin().linux(suite))
            .map(|release| RootWish::linux(release).item())
            .chain([RootWish::stand_in().item()])
            .collect();
        let ours: BTreeSet<_> = roots(&model).iter().map(RootWish::item).collect();
        assert_eq!(ours, theirs);
        assert_eq!(ours.len(), 3);
    }
}
