//! Older states of a template, removed when a newer one is there.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_plan::TemplateId;

use crate::error::TemplateError;
use crate::{Templates, lock, partial_name, read_record};

/// A template of the same name as another, made earlier from other parts or in another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderTemplate {
    /// Which template it is.
    pub id: TemplateId,
    /// Its folder.
    pub path: PathBuf,
    /// The room that it takes, in bytes.
    pub room: u64,
    /// When it was made, in seconds since 1970.
    pub made: u64,
}

impl Templates {
    /// Removes the older templates of a template's name, save the newest of them, and gives those that went.
    ///
    /// - **What may go:** `is_free` says that nobody uses it nor is about to. It is asked twice, the second time when
    ///   nobody can find the template any more: who began in between is seen then, and gets it back.
    /// - **Concurrency:** one that somebody builds or removes is left to them.
    /// - **Cancellation:** one whose removal is cut off is swept by the next build of whatever template.
    pub fn remove_older(
        &self,
        newest: &TemplateId,
        is_free: &dyn Fn(&OlderTemplate) -> bool,
    ) -> Result<Vec<OlderTemplate>, TemplateError> {
        let _rights = mullion_rights::as_root();
        let mut older = self.older(newest)?;
        older.sort_by(|a, b| (a.made, &a.path).cmp(&(b.made, &b.path)));
        // Whoever goes back and forth between two states builds neither again.
        older.pop();
        let mut gone = Vec::new();
        for mut template in older {
            if is_free(&template) && self.remove_if(&mut template, is_free)? {
                gone.push(template);
            }
        }
        Ok(gone)
    }

    fn older(&self, newest: &TemplateId) -> Result<Vec<OlderTemplate>, TemplateError> {
        let own = self.path(newest);
        let mut older = Vec::new();
        for entry in fs_err::read_dir(&self.place)? {
            let path = entry?.path();
            if path == own || crate::is_partial(&path) {
                continue;
            }
            let record = read_record(&path)?;
            if let Some(record) = record.filter(|record| record.id.name == newest.name) {
                older.push(OlderTemplate {
                    id: record.id,
                    made: record.made,
                    room: 0,
                    path,
                });
            }
        }
        Ok(older)
    }

    /// Removes one; `false` where somebody works on it or needs it after all.
    fn remove_if(
        &self,
        template: &mut OlderTemplate,
        is_free: &dyn Fn(&OlderTemplate) -> bool,
    ) -> Result<bool, TemplateError> {
        let name = template.path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let Some(_lock) = lock::Lock::try_now(&self.place, &name)? else {
            return Ok(false);
        };
        let hidden = self.place.join(partial_name(&name));
        fs_err::rename(&template.path, &hidden)?;
        if !is_free(template) {
            fs_err::rename(&hidden, &template.path)?;
            return Ok(false);
        }
        template.room = room(&hidden, &mut BTreeSet::new());
        lock::remove_tree(&hidden)?;
        Ok(true)
    }
}

/// The room that a folder takes; what cannot be looked at takes none.
fn room(folder: &Path, seen: &mut BTreeSet<u64>) -> u64 {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs_err::DirEntry| {
        let Ok(found) = fs_err::symlink_metadata(entry.path()) else {
            return 0;
        };
        // A file of several names is there once.
        let own = if seen.insert(found.ino()) {
            found.blocks() * 512
        } else {
            0
        };
        if found.is_dir() {
            own + room(&entry.path(), seen)
        } else {
            own
        }
    };
    entries.map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mullion_plan::{Fingerprint, Unattended};

    use super::*;
    use crate::{RECORD, Record, RecordVersion};

    fn id(name: &str, state: u32) -> TemplateId {
        TemplateId {
            name: name.into(),
            fingerprint: Fingerprint::of(&state),
        }
    }

    fn put(templates: &Templates, id: &TemplateId, made: u64) {
        let path = templates.path(id);
        fs_err::create_dir_all(path.join("root")).unwrap();
        fs_err::write(path.join("root/file"), vec![1; 100_000]).unwrap();
        let record = Record {
            version: RecordVersion::V1,
            id: id.clone(),
            made,
            programs: BTreeSet::new(),
            images: BTreeSet::new(),
        };
        fs_err::write(path.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
    }

    /// Four states of one template, the last of which is the new one, and another template.
    fn five(place: &Path) -> Templates {
        let templates = Templates::new(place);
        for state in 1..=4 {
            put(&templates, &id("a", state), u64::from(state));
        }
        put(&templates, &id("b", 1), 1);
        templates
    }

    fn ids(gone: &[OlderTemplate]) -> Vec<TemplateId> {
        gone.iter().map(|template| template.id.clone()).collect()
    }

    #[test]
    fn of_a_templates_older_states_the_newest_stays_and_others_names_do() {
        let folder = tempfile::tempdir().unwrap();
        let templates = five(folder.path());
        let gone = templates.remove_older(&id("a", 4), &|_| true).unwrap();
        assert_eq!(ids(&gone), [id("a", 1), id("a", 2)]);
        assert!(gone.iter().all(|template| template.room >= 100_000));
        let left = BTreeSet::from([id("a", 3), id("a", 4), id("b", 1)]);
        assert_eq!(templates.find().unwrap(), left);
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 3);
        let again = templates.remove_older(&id("a", 4), &|_| true).unwrap();
        assert!(again.is_empty());
    }

    #[test]
    fn one_of_another_form_is_an_older_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        for (form, made) in [("one", 1), ("two", 2)] {
            put(&templates, &id("a", 1), made);
            let path = templates.path(&id("a", 1));
            fs_err::rename(path, folder.path().join(form)).unwrap();
        }
        put(&templates, &id("a", 1), 3);
        let gone = templates.remove_older(&id("a", 1), &|_| true).unwrap();
        assert_eq!(gone.len(), 1);
        assert!(!folder.path().join("one").exists() && folder.path().join("two").exists());
    }

    #[test]
    fn one_that_is_used_or_worked_on_stays() {
        let folder = tempfile::tempdir().unwrap();
        let templates = five(folder.path());
        let used = |template: &OlderTemplate| template.id != id("a", 1);
        let name = templates.folder_name(&id("a", 2));
        let _builder = lock::Lock::try_now(folder.path(), &name).unwrap().unwrap();
        let gone = templates.remove_older(&id("a", 4), &used).unwrap();
        assert!(gone.is_empty());
        assert_eq!(templates.find().unwrap().len(), 5);
    }

    #[test]
    fn whoever_begins_to_use_one_while_it_goes_gets_it_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let templates = five(folder.path());
        let asked = Cell::new(0);
        let at_first = |template: &OlderTemplate| {
            asked.set(asked.get() + 1);
            // Who looks now, before the second answer, does not find it.
            let is_found = templates.find().unwrap().contains(&template.id);
            assert_eq!(is_found, asked.get() % 2 == 1);
            is_found
        };
        let gone = templates.remove_older(&id("a", 4), &at_first).unwrap();
        assert!(gone.is_empty());
        assert_eq!((asked.get(), templates.find().unwrap().len()), (4, 5));
        assert!(templates.path(&id("a", 1)).join("root/file").is_file());
    }

    #[test]
    fn one_that_went_half_is_swept_by_the_next_that_works_on_any() {
        let folder = tempfile::tempdir().unwrap();
        let templates = five(folder.path());
        let half = partial_name(&templates.folder_name(&id("a", 1)));
        fs_err::rename(templates.path(&id("a", 1)), folder.path().join(&half)).unwrap();
        let mut make = |folder: &Path| Ok(fs_err::create_dir(folder)?);
        templates
            .build(&id("c", 1), &Unattended, &mut make)
            .unwrap();
        assert!(!folder.path().join(half).exists());
    }
}
