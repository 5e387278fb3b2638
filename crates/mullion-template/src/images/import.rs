//! Imports archives of images: first those of the cache, several at once, then the user's, one after another.

use std::collections::{BTreeMap, BTreeSet};
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

/// The digests of images, by their names.
type Digests = BTreeMap<String, BTreeSet<String>>;

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
        if users.is_empty() {
            return Ok(());
        }
        let mut before = self.digests()?;
        for (archive, number) in users.into_iter().zip(cached.len()..) {
            self.import_one(archive, number, attendant)?;
            let after = self.digests()?;
            check_replaced(archive, archives, &before, &after)?;
            before = after;
        }
        Ok(())
    }

    /// The digest of every image, by containerd's table. A name that several rows have has all their digests.
    fn digests(&self) -> Result<Digests, TemplateError> {
        let table = self.ask(&["images", "list"])?;
        let mut digests = Digests::new();
        for line in table.lines().skip(1) {
            // Name, type and digest.
            let mut words = line.split_whitespace();
            if let (Some(name), Some(digest)) = (words.next(), words.nth(1)) {
                let of_name = digests.entry(name.to_owned()).or_default();
                of_name.insert(digest.to_owned());
            }
        }
        Ok(digests)
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

/// Refuses an archive of the user's that replaced an image which the cluster file does not name with it. The template is
/// not finished then.
///
/// The names in the archive were checked before, by another reader than containerd's: this check does not depend on it.
fn check_replaced(
    archive: &Source,
    archives: &[Source],
    before: &Digests,
    after: &Digests,
) -> Result<(), TemplateError> {
    // The file may name several images with one archive.
    let same = |other: &&Source| other.is_users() && other.sha256 == archive.sha256;
    let named: BTreeSet<_> = archives
        .iter()
        .filter(same)
        .filter_map(Source::image)
        .collect();
    let mut replaced = before.iter().filter(|(name, digests)| {
        !named.contains(name.as_str()) && after.get(*name).is_some_and(|after| after != *digests)
    });
    replaced.next().map_or(Ok(()), |(image, _)| {
        Err(TemplateError::Replaced {
            path: archive.path.clone(),
            image: image.clone(),
        })
    })
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

    /// A `ctr` that writes down when each import begins and ends. The first line of an archive is its name, the others are
    /// names and digests of its images.
    const NOTING: &str = r#"#!/bin/sh
for copy; do :; done
if [ "$copy" = list ]; then
    echo "REF TYPE DIGEST SIZE PLATFORMS LABELS"
    cat rows-* 2> /dev/null
    exit 0
fi
read -r name < "$copy"
echo "begin $name" >> noted
sleep 0.2
sed 1d "$copy" | while read -r image digest; do
    echo "$image manifest $digest 1.0 MiB linux/amd64 -" > "rows-$image"
done
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
        archive_of(folder, name, "")
    }

    fn archive_of(folder: &Path, name: &str, rows: &str) -> (PathBuf, Sha256Digest) {
        let path = folder.join(format!("{name}.tar"));
        let text = format!("{name}\n{rows}");
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
    fn promise_10_an_archive_replaces_no_image_that_the_file_does_not_name_with_it() {
        let import = |named: &[&str], rows: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path();
            let rows_of_cached = "proxy sha256:good\npause sha256:one\n";
            let (cached, sha256) = archive_of(path, "cached", rows_of_cached);
            let mut archives = vec![Source::held_to(cached, sha256)];
            let (users, sha256) = archive_of(path, "users", rows);
            archives.extend(named.iter().map(|image| {
                let opened = Opened::by_thread(&users).unwrap();
                Source::planned(opened, sha256.clone()).naming(image)
            }));
            let containerd = containerd(path, noting(path), Patience::default());
            containerd.import(&archives, &Unattended)
        };
        import(&["app"], "app sha256:two\nother sha256:three\n").unwrap();
        import(&["app"], "app sha256:two\nproxy sha256:good\n").unwrap();
        let replacing = "app sha256:two\nproxy sha256:evil\n";
        import(&["app", "proxy"], replacing).unwrap();
        let error = import(&["app"], replacing).unwrap_err();
        assert!(
            matches!(&error, TemplateError::Replaced { image, .. } if image == "proxy"),
            "{error:?}"
        );
        assert!(error.hint().unwrap().contains("`ref: proxy`"), "{error:?}");
        assert_eq!(error.class(), mullion_plan::ErrorClass::Refused);
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
