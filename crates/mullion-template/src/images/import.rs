//! Imports archives of images: first those of the cache, several at once, then the user's, one after another.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mullion_plan::Attend;
use mullion_program::{Ended, run_unless};

use super::{Containerd, ctr_not_started, last, lines_of, too_slow};
use crate::error::TemplateError;
use crate::linux::tell;
use crate::source::Source;

/// How long the import of one archive may take: a gigabyte takes a minute on a slow disk.
const IMPORTED_WITHIN: Duration = Duration::from_mins(30);

/// How many archives are imported at once: unpacking is work for the disk, checking for the processors.
const AT_ONCE: usize = 4;

impl Containerd {
    /// Imports every archive once. Where two archives hold one name, containerd keeps the image that it imports last: the
    /// user's archives come last, in the order of the cluster file.
    pub(super) fn import(
        &self,
        archives: &[Source],
        attendant: &dyn Attend,
    ) -> Result<(), TemplateError> {
        let (cached, users) = by_owner(archives);
        self.import_together(&cached, attendant)?;
        for (archive, number) in users.into_iter().zip(cached.len()..) {
            self.import_one(archive, number, attendant)?;
        }
        Ok(())
    }

    /// Imports several archives at once, in no order. After the first failure it begins no further import.
    fn import_together(
        &self,
        archives: &[&Source],
        attendant: &dyn Attend,
    ) -> Result<(), TemplateError> {
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let fail = |error| {
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        };
        let has_failed = || {
            let failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.is_some()
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(archives.len()) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(archive) = archives.get(number) else {
                            return;
                        };
                        if has_failed() {
                            return;
                        }
                        if let Err(error) = self.import_one(archive, number, attendant) {
                            return fail(error);
                        }
                    }
                });
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }

    /// Imports a copy that nobody else can write to, so that what was held to its digest is what is imported.
    fn import_one(
        &self,
        archive: &Source,
        number: usize,
        attendant: &dyn Attend,
    ) -> Result<(), TemplateError> {
        let name = archive.path.file_name().unwrap_or_default();
        tell(attendant, format!("importing {}", name.to_string_lossy()));
        let copy = self.runtime.join(format!("image-{number}.tar"));
        archive.copy(&mut fs_err::File::create_new(&copy)?)?;
        let mut command = self.ctr(&["images", "import"]);
        let is_cancelled = || attendant.is_called_off();
        let limit = self.patience.times(IMPORTED_WITHIN);
        let ended = run_unless(command.arg(&copy), b"", limit, &is_cancelled);
        fs_err::remove_file(copy)?;
        let tail = match ended.map_err(ctr_not_started)? {
            Ended::Exited(exited) if exited.status.success() => return Ok(()),
            Ended::Exited(exited) => last(&lines_of(&exited.stderr)),
            Ended::TooSlow(_) => {
                let what = format!("the import of {}", name.to_string_lossy());
                return Err(too_slow(what, limit, String::new()));
            }
            Ended::Cancelled => return Err(TemplateError::CalledOff),
        };
        Err(TemplateError::Image {
            path: archive.path.clone(),
            tail,
        })
    }
}

/// The archives of the cache and those of the user, each in their order and each digest once. An archive that is in both
/// counts as the user's, since theirs replace images of the same name.
fn by_owner(archives: &[Source]) -> (Vec<&Source>, Vec<&Source>) {
    let mut seen = BTreeSet::new();
    let mut first_seen = |of_user: bool| {
        let archives = archives.iter();
        let archives = archives.filter(|archive| archive.is_users() == of_user);
        let unseen = archives.filter(|archive| {
            let sha256 = archive.sha256.as_ref();
            sha256.is_none_or(|sha256| seen.insert(sha256))
        });
        unseen.collect::<Vec<_>>()
    };
    let users = first_seen(true);
    (first_seen(false), users)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use mullion_plan::Unattended;
    use mullion_rights::Opened;
    use mullion_wire::{Patience, Sha256Digest};

    use super::super::tests::containerd;
    use super::*;
    use crate::images::program;

    /// A `ctr` that writes down when each import begins and ends. An archive's only line is its name.
    const NOTING: &str = r#"#!/bin/sh
for copy; do :; done
read -r name < "$copy"
echo "begin $name" >> noted
sleep 0.2
echo "end $name" >> noted
"#;

    /// The program, written by another process: Linux starts no file that a process still has open for writing, and a
    /// test that runs beside this one may start a process that inherits the open file.
    fn noting(folder: &Path) -> PathBuf {
        let path = folder.join("ctr");
        let write = r#"printf %s "$1" > "$2" && chmod +x "$2""#;
        let mut command = program("sh");
        command.args(["-c", write, "sh", NOTING]).arg(&path);
        assert!(command.status().unwrap().success());
        path
    }

    fn archive(folder: &Path, name: &str) -> (PathBuf, Sha256Digest) {
        let path = folder.join(format!("{name}.tar"));
        let text = format!("{name}\n");
        fs_err::write(&path, &text).unwrap();
        (path, Sha256Digest::of(text.as_bytes()))
    }

    fn cached(folder: &Path, name: &str) -> Source {
        let (path, sha256) = archive(folder, name);
        Source::held_to(path, sha256)
    }

    fn users(folder: &Path, name: &str) -> Source {
        let (path, sha256) = archive(folder, name);
        Source::planned(Opened::by_thread(path).unwrap(), sha256)
    }

    /// When each import began and ended.
    fn noted(folder: &Path, archives: &[Source]) -> Vec<String> {
        let containerd = containerd(folder, noting(folder), Patience::default());
        containerd.import(archives, &Unattended).unwrap();
        let noted = fs_err::read_to_string(containerd.runtime.join("noted")).unwrap();
        noted.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_users_archive_is_imported_after_all_that_could_hold_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let archives = [
            cached(path, "proxy"),
            cached(path, "pause"),
            users(path, "mine"),
            users(path, "app"),
        ];
        let mut noted = noted(path, &archives);
        let last = noted.split_off(4);
        assert_eq!(last, ["begin mine", "end mine", "begin app", "end app"]);
        noted.sort();
        assert_eq!(
            noted,
            ["begin pause", "begin proxy", "end pause", "end proxy"]
        );
    }

    #[test]
    fn an_archive_that_serves_several_images_is_imported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let archives = [
            cached(path, "app"),
            cached(path, "proxy"),
            users(path, "both"),
            users(path, "app"),
            users(path, "both"),
        ];
        let noted = noted(path, &archives);
        let begun = noted.iter().filter(|line| line.starts_with("begin"));
        let begun: Vec<_> = begun.collect();
        assert_eq!(begun, ["begin proxy", "begin both", "begin app"]);
    }
}
