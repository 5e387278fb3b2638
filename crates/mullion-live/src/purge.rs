//! What the clusters of this computer share, removed as far as no other one lies over it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use mullion_artifacts::StoreError;
use mullion_machines::DriverError;
use mullion_plan::{Attend, News, StepError, TemplateId, Trouble, Unattended};
use mullion_spec::value::ClusterName;
use mullion_template::{OlderTemplate, TemplateError};

use super::Adapter;
use super::drivers::Drivers;
use mullion_engine::Lock;

/// A template that stays, because machines lie over it, or soon will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTemplate {
    /// The template.
    pub template: TemplateId,
    /// The clusters whose machines do.
    pub clusters: BTreeSet<ClusterName>,
    /// The folders that may hold such machines: no cluster can have their names.
    pub folders: BTreeSet<String>,
}

/// The folders that a purge removes things from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedFolders {
    /// The cache.
    pub cache: PathBuf,
    /// The templates.
    pub templates: PathBuf,
}

/// What a purge left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purged {
    /// Templates that are used.
    pub kept: Vec<KeptTemplate>,
    /// What Mullion did not make.
    pub strange: Vec<PathBuf>,
}

/// Why not everything could be removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// The machines of some cluster cannot be looked at.
    #[error("it cannot be seen which templates are used")]
    Machines(#[from] DriverError),
    /// The templates.
    #[error("the templates could not be removed")]
    Templates(#[from] TemplateError),
    /// The cache.
    #[error("the cache could not be emptied")]
    Store(#[from] StoreError),
}

impl PurgeError {
    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

impl Adapter<'_> {
    /// The folders that [`Adapter::purge`] removes things from; refused where one of them is not Mullion's. Changes nothing.
    pub fn purged_folders(&self) -> Result<PurgedFolders, PurgeError> {
        self.store.check_purge()?;
        Ok(PurgedFolders {
            cache: self.store.folder().to_owned(),
            templates: self.templates.place().to_owned(),
        })
    }

    /// Removes every template that no machine of any cluster lies over, and everything of ours from the cache.
    pub fn purge(&self) -> Result<Purged, PurgeError> {
        self.store.check_purge()?;
        let mut uses = Uses::find(&self.drivers, self.cluster_name())?;
        let mut running = Lock::held(&self.outfit.place);
        running.remove(self.cluster_name());
        uses.unknown.extend(running);
        // A machine whose label nobody can read may lie over a template of whatever form.
        let kept = uses.kept(self.templates.all()?);
        let keep = kept.iter().map(|kept| kept.template.clone()).collect();
        let mut strange = Vec::new();
        if self.has_own_templates() {
            strange.extend(self.templates.purge(&keep, &Unattended)?);
        }
        strange.extend(self.store.purge()?);
        Ok(Purged { kept, strange })
    }

    /// Whether the templates may be removed from here: those that are another place's, by a link, may be under machines
    /// that nobody sees from here.
    fn has_own_templates(&self) -> bool {
        !self.templates.place().is_symlink()
    }

    /// Removes what is left of a template's older states, as far as nobody uses them, and tells what that gave.
    ///
    /// What cannot be removed now is no fault of a template that was built: the next one's turn takes it.
    pub(super) fn remove_older_templates(&self, id: &TemplateId, attendant: &dyn Attend) {
        if !self.has_own_templates() {
            return;
        }
        let own = self.wanted().templates();
        let strange = RefCell::default();
        let is_free = |older: &OlderTemplate| {
            // Another run may be about to make machines of what it found.
            let mut running = Lock::held(&self.outfit.place);
            running.remove(self.cluster_name());
            let is_own = own.contains(&older.id) && self.templates.path(&older.id) == older.path;
            let uses = Uses::find(&self.drivers, self.cluster_name());
            let Ok(uses) = uses else {
                return false;
            };
            let is_free = running.is_empty() && !is_own && uses.is_free(older);
            strange.replace(uses.strange);
            is_free
        };
        let mut lines: Vec<_> = match self.templates.remove_older(id, &is_free) {
            Ok(gone) => gone.iter().map(told).collect(),
            Err(error) => {
                let why = StepError::new(error.class(), "older templates stay").because(&error);
                vec![format!("{}: {}", why.words, why.causes.join(": "))]
            }
        };
        let strange = strange.into_inner();
        lines.extend(strange.iter().map(|folder| {
            format!("kept older templates: `{folder}` may hold machines that use them")
        }));
        for line in lines {
            attendant.hear(News::Line(line));
        }
    }
}

/// That an older template went.
fn told(older: &OlderTemplate) -> String {
    let mib = older.room.div_ceil(1 << 20);
    let id = &older.id;
    format!("removed the older template {id}, which nothing uses: {mib} MiB")
}

/// Which clusters' machines lie over which template.
#[derive(Debug, Default)]
struct Uses {
    known: BTreeMap<TemplateId, BTreeSet<ClusterName>>,
    /// The clusters of which it is not known: a machine's label cannot be read, a folder may be a machine's, or a run of it
    /// goes on, which may just have built the template of a machine to come.
    unknown: BTreeSet<ClusterName>,
    /// The folders that may be a cluster's, and have a name that no cluster can have.
    strange: BTreeSet<String>,
    /// The folders of those templates, by their names: one template may be there in several forms.
    folders: BTreeSet<OsString>,
}

impl Uses {
    fn find(drivers: &Drivers, cluster: &ClusterName) -> Result<Self, DriverError> {
        let mut uses = Self::default();
        for (_, driver) in drivers.all() {
            if !driver.capabilities().makes_machines {
                continue;
            }
            let here = driver.find(cluster)?;
            uses.strange.extend(here.strange_clusters);
            for cluster in here.clusters {
                let found = driver.find(&cluster)?;
                if found.network_trouble.as_ref().is_some_and(hides_a_machine) {
                    uses.unknown.insert(cluster.clone());
                }
                for sighting in found.machines.into_values() {
                    let over = match sighting.template {
                        Some(template) => uses.known.entry(template).or_default(),
                        None => &mut uses.unknown,
                    };
                    over.insert(cluster.clone());
                    let folder = sighting.template_path.as_deref().and_then(Path::file_name);
                    uses.folders.extend(folder.map(OsStr::to_owned));
                }
            }
        }
        Ok(uses)
    }

    /// Whether no machine of any cluster lies over an older template.
    fn is_free(&self, older: &OlderTemplate) -> bool {
        let folder = older.path.file_name();
        let is_known = self.unknown.is_empty() && self.strange.is_empty();
        is_known && folder.is_some_and(|name| !self.folders.contains(name))
    }

    /// The templates that stay: also one of an older form, which is not among those that are there for new machines.
    fn kept(&self, there: BTreeSet<TemplateId>) -> Vec<KeptTemplate> {
        let all = there.into_iter().chain(self.known.keys().cloned());
        let all: BTreeSet<_> = all.collect();
        let kept = all.into_iter().map(|template| {
            let known = self.known.get(&template).into_iter().flatten();
            let clusters = known.chain(&self.unknown).cloned().collect();
            KeptTemplate {
                template,
                clusters,
                folders: self.strange.clone(),
            }
        });
        kept.filter(|kept| !kept.clusters.is_empty() || !kept.folders.is_empty())
            .collect()
    }
}

/// Whether there may be a machine of this computer that is not among those that were found.
const fn hides_a_machine(trouble: &Trouble) -> bool {
    matches!(
        trouble,
        Trouble::StrangeFolder { .. } | Trouble::NoFolder { .. }
    )
}

#[cfg(test)]
mod tests {
    use mullion_spec::words;
    use mullion_testkit::driver::memory::Memory;

    use super::super::made::{id, make};
    use super::*;

    fn told(kept: &[KeptTemplate]) -> Vec<String> {
        let told = kept.iter().map(|kept| {
            let clusters: Vec<_> = kept.clusters.iter().map(ClusterName::as_str).collect();
            format!("{} by {}", kept.template.name, clusters.join(" "))
        });
        told.collect()
    }

    #[test]
    fn an_older_template_is_free_once_no_machine_of_any_cluster_lies_over_that_form_of_it() {
        let computer = Memory::new();
        make(&computer, "a", "10.1.0.0/24", "lin1", "shared");
        let drivers = [(words::Driver::Nspawn, Box::new(computer) as _)];
        let drivers = Drivers::new(drivers.into());
        let mut uses = Uses::find(&drivers, &"b".parse().unwrap()).unwrap();
        let older = |folder: &str| OlderTemplate {
            id: id("shared"),
            path: Path::new("/elsewhere").join(folder),
            room: 0,
            made: 1,
        };
        assert!(!uses.is_free(&older("templates")));
        assert!(uses.is_free(&older("of-another-form")));
        uses.unknown.insert("c".parse().unwrap());
        assert!(!uses.is_free(&older("of-another-form")));
    }

    #[test]
    fn promise_06_a_folder_that_may_be_a_machine_keeps_templates() {
        let folder = || "/place/clusters/dev/machines/LIN1".to_owned();
        assert!(hides_a_machine(&Trouble::StrangeFolder {
            folder: folder()
        }));
        let end = "kill 1".to_owned();
        let folder = folder();
        assert!(hides_a_machine(&Trouble::NoFolder { folder, end }));
        // Templates of another place are not removed here.
        let by = "a machine of another place".to_owned();
        assert!(!hides_a_machine(&Trouble::UsedElsewhere { by }));
    }

    #[test]
    fn promise_06_a_folder_that_may_be_a_clusters_keeps_every_template() {
        let computer = Memory::new();
        make(&computer, "a", "10.1.0.0/24", "lin1", "shared");
        make(&computer, "demo", "10.2.0.0/24", "lin1", "own");
        let folder = "/place/clusters/demo.bak";
        computer.rename(&"demo".parse().unwrap(), folder);
        let drivers = [(words::Driver::Nspawn, Box::new(computer) as _)];
        let uses = Uses::find(&Drivers::new(drivers.into()), &"a".parse().unwrap()).unwrap();
        let kept = uses.kept([id("shared"), id("own")].into());
        assert_eq!(told(&kept), ["own by ", "shared by a"]);
        for kept in kept {
            assert_eq!(kept.folders, [folder.to_owned()].into(), "{kept:?}");
        }
        let older = OlderTemplate {
            id: id("own"),
            path: "/templates/own".into(),
            room: 0,
            made: 1,
        };
        assert!(!uses.is_free(&older));
    }

    #[test]
    fn a_template_that_machines_of_any_cluster_lie_over_stays() {
        let computer = Memory::new();
        make(&computer, "a", "10.1.0.0/24", "lin1", "shared");
        make(&computer, "b", "10.2.0.0/24", "lin1", "shared");
        make(&computer, "c", "10.3.0.0/24", "lin1", "own");
        let drivers = [(words::Driver::Nspawn, Box::new(computer) as _)];
        let drivers = Drivers::new(drivers.into());
        // A cluster that has nothing any more, as after its `down`.
        let mut uses = Uses::find(&drivers, &"gone".parse().unwrap()).unwrap();
        let there = || [id("shared"), id("own"), id("unused")].into();
        assert_eq!(told(&uses.kept(there())), ["own by c", "shared by a b"]);
        // A machine whose label cannot be read may lie over any.
        uses.unknown.insert("d".parse().unwrap());
        assert_eq!(
            told(&uses.kept(there())),
            ["own by c d", "shared by a b d", "unused by d"]
        );
    }
}
