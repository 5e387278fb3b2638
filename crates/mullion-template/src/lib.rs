//! Templates: what machines are cloned from, made once and used many times.
//!
//! ```text
//! root file system (tar) ─┐
//! programs of the cache ──┼─► Templates::build_linux ─► <place>/<name>-<fingerprint>-<form>/
//! image archives ─────────┘                              ├ root/          programs in place, services chosen
//!                                                        ├ containerd/    a store that holds the images already
//!                                                        └ template.json  which one it is, and what is in it
//! ```
//!
//! What holds always:
//! - a template is there whole or not at all: it grows in a folder `….partial-<process>` and gets its name
//!   when everything in it has reached the disk;
//! - two processes that want the same template make it once: the second waits, and finds it made;
//! - what a killed process left behind is removed by the next one that builds;
//! - of a template's older states the newest stays beside the new one, and so does every one that is used;
//! - nothing in a template tells machines apart: no machine id, no host keys, no login.
//!
//! A stand-in's template is a Linux one with Wine in it, whose prefix is initialised and says which Windows it is; what
//! lies on its drive `C:` is in place, and a login is as on Windows.
//!
//! A template is read-only from then on. Machines lie over `root/` and share the files of `containerd/`.
//!
//! # Current limitations
//!
//! - Linux, and stand-ins for Windows; Windows disks come with the drivers that carry Windows.
//! - Extended attributes of the root file system's files (file capabilities, such as those of `ping`) are not
//!   unpacked: inside a machine root has all of them anyway.
//! - Filling the image store needs root, since layers are unpacked as overlays.
//! - `setpriv` and `unshare` of util-linux must be there.

mod dress;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod images;
mod known_images;
mod linux;
mod lock;
mod older;
mod registry;
mod source;
mod stand_in;
mod tree;
mod twins;
mod unpack;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_plan::TemplateId;
use mullion_rights::{Opened, as_root, sync_folder};
use mullion_wire::{Patience, Sha256Digest};
use serde::{Deserialize, Serialize};

pub use error::TemplateError;
pub use linux::{LinuxTemplate, Program, ProgramFolder};
pub use older::OlderTemplate;
pub use source::Source;
pub use stand_in::{DriveContent, DriveFile, Face, KnownImage, StandInTemplate};

/// The folder that holds templates.
#[derive(Debug, Clone)]
pub struct Templates {
    place: PathBuf,
    form: String,
    patience: Patience,
}

/// The form of `template.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordVersion {
    /// The first.
    #[serde(rename = "mullion.dev/template/v1")]
    V1,
}

/// What a template says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The form of this document.
    pub version: RecordVersion,
    /// Which template it is.
    pub id: TemplateId,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// The programs in it, by name.
    pub programs: BTreeSet<String>,
    /// The container images in its store, by reference.
    pub images: BTreeSet<String>,
}

/// The file that a whole template has.
const RECORD: &str = "template.json";

/// No record is longer.
const MOST_RECORD: u64 = 64 << 20;

/// The form of what is in a template besides its parts: services, settings, folders. Another form is another
/// template, in a folder of its own, since machines may lie over the older one.
const FORM: &str = env!("TEMPLATE_FORM");

/// Marks a folder in which a template grows, or one that is on its way out.
const PARTIAL: &str = ".partial-";

impl Templates {
    /// The templates in that folder, which need not be there yet.
    pub fn new(place: impl Into<PathBuf>) -> Self {
        Self {
            place: place.into(),
            form: FORM.into(),
            patience: Patience::USUAL,
        }
    }

    /// The same for clusters whose files name these sources of programs and images; none where a file names none.
    ///
    /// What is in a template is as good as what vouched for it. So a template that was made of what a file's own mirror
    /// vouches for has a form of its own, and no other file gets machines over it.
    #[must_use]
    pub fn of_sources(mut self, sources: Option<&str>) -> Self {
        if let Some(sources) = sources {
            let both = Sha256Digest::of(format!("{FORM} {sources}").as_bytes());
            both.as_str()[..FORM.len()].clone_into(&mut self.form);
        }
        self
    }

    /// The same, with programs that may take so much longer than usual while a template is built.
    #[must_use]
    pub const fn patient(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// The folder.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Where a template is, or would be: its folder holds `root`, `containerd` and `template.json`.
    pub fn path(&self, id: &TemplateId) -> PathBuf {
        self.place.join(self.folder_name(id))
    }

    /// The name of a template's folder. Names come from the file: what no folder may be called is written otherwise.
    fn folder_name(&self, id: &TemplateId) -> String {
        let safe = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let name: String = id
            .name
            .chars()
            .map(|letter| if safe(letter) { letter } else { '_' })
            .collect();
        format!("{name}-{}-{}", id.fingerprint, self.form)
    }

    /// Every whole template of this form. Nothing is changed; what is half made is not told.
    pub fn find(&self) -> Result<BTreeSet<TemplateId>, TemplateError> {
        self.list(|path, id| self.path(id) == path)
    }

    /// Every whole template of whatever form: machines may lie over each.
    pub fn all(&self) -> Result<BTreeSet<TemplateId>, TemplateError> {
        self.list(|_, _| true)
    }

    fn list(
        &self,
        is_wanted: impl Fn(&Path, &TemplateId) -> bool,
    ) -> Result<BTreeSet<TemplateId>, TemplateError> {
        let _rights = as_root();
        let entries = match fs_err::read_dir(&self.place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(error.into()),
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            let path = entry?.path();
            if is_partial(&path) {
                continue;
            }
            if let Some(record) = read_record(&path)?
                && is_wanted(&path, &record.id)
            {
                found.insert(record.id);
            }
        }
        Ok(found)
    }

    /// What a template says of itself; nothing where it is not there.
    pub fn record(&self, id: &TemplateId) -> Result<Option<Record>, TemplateError> {
        let _rights = as_root();
        read_record(&self.path(id))
    }

    /// Makes a Linux template, and gives its folder.
    ///
    /// - **Idempotent:** one that is there already is left as it is.
    /// - **Concurrency:** of two that make the same, the second waits for the first.
    /// - **Cancellation:** whenever it is cut off, no template of that name is there, and the next one that
    ///   builds removes the rest.
    pub fn build_linux(
        &self,
        wish: &LinuxTemplate,
        attendant: &dyn mullion_plan::Attend,
    ) -> Result<PathBuf, TemplateError> {
        self.build(&wish.id, attendant, &mut |folder| {
            linux::build(folder, wish, self.patience, attendant)
        })
    }

    /// Makes a template of stand-ins for Windows, and gives its folder. As [`Templates::build_linux`] otherwise.
    pub fn build_stand_in(
        &self,
        wish: &StandInTemplate,
        attendant: &dyn mullion_plan::Attend,
    ) -> Result<PathBuf, TemplateError> {
        self.build(&wish.linux.id, attendant, &mut |folder| {
            stand_in::build(folder, wish, self.patience, attendant)
        })
    }

    fn build(
        &self,
        id: &TemplateId,
        attendant: &dyn mullion_plan::Attend,
        make: &mut dyn FnMut(&Path) -> Result<(), TemplateError>,
    ) -> Result<PathBuf, TemplateError> {
        let _rights = as_root();
        fs_err::create_dir_all(&self.place)?;
        let path = self.path(id);
        if read_record(&path)?.is_some() {
            return Ok(path);
        }
        let lock = lock::Lock::wait(&self.place, &self.folder_name(id), attendant)?;
        self.sweep(&lock)?;
        if read_record(&path)?.is_none() {
            // A folder of that name without a record is not a template.
            lock::remove_tree(&path)?;
            let partial = self.place.join(partial_name(&self.folder_name(id)));
            let built = make(&partial).and_then(|()| Ok(fs_err::rename(&partial, &path)?));
            if let Err(error) = built {
                // The first error is the one to tell; what stays is swept by the next build.
                let _ = lock::remove_tree(&partial);
                return Err(error);
            }
            sync_folder(&self.place)?;
        }
        Ok(path)
    }

    /// Removes every template but those, of whatever form, and the folder itself where nothing stays in it. Gives the
    /// folders that stay because they are not templates that this user made: without a template's record, or another
    /// user's.
    ///
    /// Machines that lie over one that goes stop working: whoever calls this knows which have none.
    pub fn purge(
        &self,
        keep: &BTreeSet<TemplateId>,
        attendant: &dyn mullion_plan::Attend,
    ) -> Result<Vec<PathBuf>, TemplateError> {
        let _rights = as_root();
        let mut strange = Vec::new();
        let entries = match fs_err::read_dir(&self.place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(strange),
            Err(error) => return Err(error.into()),
        };
        let user = rustix::process::geteuid().as_raw();
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                strange.push(path);
                continue;
            };
            let Ok(found) = fs_err::symlink_metadata(&path) else {
                continue;
            };
            if found.uid() != user || found.is_symlink() {
                strange.push(path);
            } else if let Some(folder) = name.strip_suffix(".lock") {
                // The file of a dead holder goes with the lock.
                drop(lock::Lock::try_now(&self.place, folder)?);
            } else if let Some((folder, process)) = name.split_once(PARTIAL) {
                if !found.is_dir() || process.parse::<u32>().is_err() {
                    strange.push(path);
                } else if let Some(_lock) = lock::Lock::try_now(&self.place, folder)? {
                    lock::remove_tree(&path)?;
                }
            } else if found.is_dir() {
                let _lock = lock::Lock::wait(&self.place, name, attendant)?;
                match read_record(&path)? {
                    Some(record) if keep.contains(&record.id) => {}
                    Some(_) => remove_whole(&path)?,
                    // A build of an older version that was cut off.
                    None if is_template_name(name) => remove_whole(&path)?,
                    None => strange.push(path),
                }
            } else {
                strange.push(path);
            }
        }
        // One that is not empty stays.
        let _ = fs_err::remove_dir(&self.place);
        strange.sort();
        Ok(strange)
    }

    /// Removes what dead builds left: of the template whose lock is held, and of every other whose lock is free.
    fn sweep(&self, held: &lock::Lock) -> Result<(), TemplateError> {
        for entry in fs_err::read_dir(&self.place)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let Some((folder, _)) = name.split_once(PARTIAL) else {
                continue;
            };
            if held.is_of(folder) {
                lock::remove_tree(&path)?;
            } else if let Some(_lock) = lock::Lock::try_now(&self.place, folder)? {
                lock::remove_tree(&path)?;
            }
        }
        Ok(())
    }
}

/// Whether a template grows in a folder, or what is left of one is on its way out.
fn is_partial(path: &Path) -> bool {
    let name = path.file_name();
    name.is_some_and(|name| name.to_string_lossy().contains(PARTIAL))
}

/// The name under which this process makes, or takes away, a template's folder.
fn partial_name(folder: &str) -> String {
    format!("{folder}{PARTIAL}{}", std::process::id())
}

/// Removes a template's folder.
fn remove_whole(path: &Path) -> Result<(), TemplateError> {
    // First it stops being a template, then it goes: a removal that is cut off leaves no half of one, and what it
    // leaves is swept by the next build.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = path.with_file_name(partial_name(&name));
    match fs_err::rename(path, &hidden) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        renamed => {
            renamed?;
            lock::remove_tree(&hidden)
        }
    }
}

/// Whether a folder's name is one that [`Templates::folder_name`] gives in any version: a name, a fingerprint, a form.
fn is_template_name(name: &str) -> bool {
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut parts = name.rsplitn(3, '-');
    let (form, fingerprint, name) = (parts.next(), parts.next(), parts.next());
    form.is_some_and(|form| is_hex(form, FORM.len()))
        && fingerprint.is_some_and(|fingerprint| is_hex(fingerprint, 16))
        && name.is_some_and(|name| !name.is_empty())
}

/// The record in a folder; nothing where there is none that we can read.
///
/// A link, a pipe or a folder of its name is an error: machines may lie over the template, and one without a record is
/// built again.
fn read_record(folder: &Path) -> Result<Option<Record>, TemplateError> {
    let path = folder.join(RECORD);
    if fs_err::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        let words = format!("`{}` is a link", path.display());
        return Err(std::io::Error::other(words).into());
    }
    match Opened::by_thread(&path).and_then(|file| file.bytes(MOST_RECORD)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => {
            let words = format!("`{}` cannot be read: {error}", path.display());
            Err(std::io::Error::new(error.kind(), words).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Fingerprint, Unattended};

    use super::*;

    fn id(name: &str) -> TemplateId {
        TemplateId {
            name: name.into(),
            fingerprint: Fingerprint::of(&name),
        }
    }

    fn whole(templates: &Templates, id: &TemplateId) {
        let path = templates.path(id);
        fs_err::create_dir_all(path.join("root")).unwrap();
        let record = Record {
            version: RecordVersion::V1,
            id: id.clone(),
            made: 1,
            programs: BTreeSet::new(),
            images: BTreeSet::new(),
        };
        fs_err::write(path.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
    }

    fn build(templates: &Templates, id: &TemplateId) {
        let mut make = |folder: &Path| Ok(fs_err::create_dir(folder)?);
        templates.build(id, &Unattended, &mut make).unwrap();
    }

    #[test]
    fn a_place_that_is_not_there_holds_no_templates() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path().join("none"));
        assert!(templates.find().unwrap().is_empty());
    }

    #[test]
    fn only_whole_templates_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        whole(&templates, &id("a"));
        fs_err::create_dir_all(folder.path().join("b-00.partial-1/root")).unwrap();
        fs_err::create_dir_all(templates.path(&id("c")).join("root")).unwrap();
        fs_err::write(folder.path().join("stray"), "").unwrap();
        assert_eq!(templates.find().unwrap(), BTreeSet::from([id("a")]));
        // One that was moved under another's name is nobody's.
        fs_err::rename(templates.path(&id("a")), templates.path(&id("d"))).unwrap();
        assert!(templates.find().unwrap().is_empty());
    }

    #[test]
    fn promise_06_a_record_that_is_no_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        let path = templates.path(&id("a"));
        fs_err::create_dir_all(path.join("root")).unwrap();
        let record = path.join(RECORD);
        for make in ["mkfifo", "mkdir"] {
            let made = std::process::Command::new(make).arg(&record).status();
            assert!(made.unwrap().success());
            // It would wait for a writer of the pipe for ever.
            let error = templates.find().unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let told = format!("{error}: {}", cause.unwrap_or_default());
            assert!(told.contains("template.json"), "{told}");
            let _ = fs_err::remove_file(&record).or_else(|_| fs_err::remove_dir(&record));
        }
    }

    #[test]
    fn a_build_sweeps_every_dead_build_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        whole(&templates, &id("a"));
        whole(&templates, &id("b"));
        for dead in ["a", "c"] {
            let name = format!("{}{PARTIAL}77", templates.folder_name(&id(dead)));
            fs_err::create_dir_all(folder.path().join(name).join("root")).unwrap();
        }
        build(&templates, &id("d"));
        let mut left: Vec<_> = fs_err::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let whole = ["a", "b", "d"].map(|name| templates.folder_name(&id(name)));
        assert_eq!(left, whole);
    }

    #[test]
    fn a_purge_leaves_what_is_kept_in_whatever_form_and_then_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path().join("templates"));
        let older = templates.place().join("a-of-an-older-form");
        whole(&templates, &id("a"));
        fs_err::rename(templates.path(&id("a")), &older).unwrap();
        for name in ["a", "b"] {
            whole(&templates, &id(name));
        }
        let half = templates.path(&id("c"));
        fs_err::create_dir_all(half.join("root")).unwrap();
        templates.purge(&[id("a")].into(), &Unattended).unwrap();
        assert!(older.is_dir());
        assert_eq!(templates.find().unwrap(), BTreeSet::from([id("a")]));
        assert!(!templates.path(&id("b")).exists() && !half.exists());
        // What killed builds leave.
        let dead = templates.place().join(format!("d{PARTIAL}77"));
        fs_err::create_dir_all(dead.join("root")).unwrap();
        fs_err::write(templates.place().join("d.lock"), "").unwrap();
        templates.purge(&BTreeSet::new(), &Unattended).unwrap();
        assert!(!templates.place().exists());
        templates.purge(&BTreeSet::new(), &Unattended).unwrap();
    }

    #[test]
    fn a_template_of_another_form_is_among_all_and_not_among_those_for_new_machines() {
        let place = tempfile::tempdir().unwrap();
        let open = |sources| Templates::new(place.path()).of_sources(sources);
        whole(&open(None), &id("a"));
        whole(&open(Some("mirror")), &id("b"));
        assert_eq!(open(None).find().unwrap(), [id("a")].into());
        assert_eq!(open(None).all().unwrap(), [id("a"), id("b")].into());
    }

    #[test]
    fn promise_05_a_purge_leaves_folders_that_are_no_templates_and_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path().join("templates"));
        whole(&templates, &id("a"));
        let users = ["thesis", "a-b-c", "notes.partial-x"].map(|name| templates.place().join(name));
        for path in &users {
            fs_err::create_dir_all(path.join("years/of/work")).unwrap();
        }
        let outside = folder.path().join("outside");
        fs_err::create_dir(&outside).unwrap();
        fs_err::write(outside.join(RECORD), "").unwrap();
        let link = templates.place().join(templates.folder_name(&id("linked")));
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let stays = templates.purge(&BTreeSet::new(), &Unattended).unwrap();
        let mut expected = users.to_vec();
        expected.push(link);
        expected.sort();
        assert_eq!(stays, expected);
        assert!(!templates.path(&id("a")).exists());
        assert!(users.iter().all(|path| path.join("years/of/work").is_dir()));
        assert!(outside.join(RECORD).exists());
    }

    #[test]
    fn promise_06_a_record_that_is_no_file_is_an_error_and_the_template_stays() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        let path = templates.path(&id("a"));
        fs_err::create_dir_all(path.join("root")).unwrap();
        let record = path.join(RECORD);
        let pipe = |path: &Path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        };
        let link = |path: &Path| std::os::unix::fs::symlink("nowhere", path).unwrap();
        let own = |path: &Path| fs_err::create_dir(path).unwrap();
        for make in [&pipe as &dyn Fn(&Path), &link, &own] {
            make(&record);
            let built = templates.build(&id("a"), &Unattended, &mut |_| Ok(()));
            for error in [
                templates.find().unwrap_err(),
                templates.record(&id("a")).unwrap_err(),
                templates.purge(&BTreeSet::new(), &Unattended).unwrap_err(),
                built.unwrap_err(),
            ] {
                let words = format!("{error:?}");
                assert!(words.contains(RECORD), "{words}");
            }
            assert!(path.join("root").is_dir());
            let _ = fs_err::remove_file(&record).or_else(|_| fs_err::remove_dir(&record));
        }
    }

    #[test]
    fn promise_10_a_template_of_one_files_own_sources_is_no_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let open = |sources: Option<&str>| Templates::new(folder.path()).of_sources(sources);
        let theirs = open(Some("mirror https://hostile.example"));
        whole(&theirs, &id("a"));
        assert_eq!(theirs.find().unwrap(), BTreeSet::from([id("a")]));
        for other in [None, Some("mirror https://m.example")] {
            assert!(open(other).find().unwrap().is_empty(), "{other:?}");
            assert_eq!(open(other).record(&id("a")).unwrap(), None);
        }
        // A purge knows it all the same.
        open(None).purge(&BTreeSet::new(), &Unattended).unwrap();
        assert!(!theirs.path(&id("a")).exists());
    }

    #[test]
    fn a_build_that_is_going_on_is_not_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        let templates = Templates::new(folder.path());
        whole(&templates, &id("a"));
        let busy = templates.folder_name(&id("busy"));
        let partial = folder.path().join(format!("{busy}{PARTIAL}77"));
        fs_err::create_dir_all(&partial).unwrap();
        let lock = lock::Lock::try_now(folder.path(), &busy).unwrap().unwrap();
        build(&templates, &id("b"));
        assert!(partial.is_dir());
        drop(lock);
        build(&templates, &id("c"));
        assert!(!partial.exists());
    }

    #[test]
    fn a_name_out_of_the_file_never_leaves_the_place() {
        let templates = Templates::new("/place");
        let path = templates.path(&id("../a/b"));
        assert_eq!(path.parent(), Some(Path::new("/place")));
        assert!(path.to_string_lossy().starts_with("/place/___a_b-"));
    }
}
