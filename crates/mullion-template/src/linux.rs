//! Makes a Linux template: root file system, programs, services, images.

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err::File;
use mullion_plan::{Attend, News, TemplateId};
use mullion_wire::{KNOWN_FILES, KnownFile, KnownFiles, Patience, Sha256Digest};

use crate::error::TemplateError;
use crate::source::Source;
use crate::tree::Tree;
use crate::{RECORD, Record, RecordVersion, dress, images, lock, unpack};

/// The Linux template to make.
#[derive(Debug, Clone)]
pub struct LinuxTemplate {
    /// Which one it is.
    pub id: TemplateId,
    /// The distribution's root file system, as an uncompressed tar file.
    pub root_tar: Source,
    /// Programs to put in place.
    pub programs: Vec<Program>,
    /// Image archives for the store; `containerd` and `ctr` are among the programs where there are any. The user's own
    /// among them ([`Source::planned`]) replace the images that they name ([`Source::naming`]), and no others.
    pub images: Vec<Source>,
}

/// A program for a template.
#[derive(Debug, Clone)]
pub struct Program {
    /// What it is called there.
    pub name: String,
    /// The file on this computer.
    pub source: Source,
    /// Where it goes.
    pub folder: ProgramFolder,
}

/// Where a machine has a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramFolder {
    /// `/usr/local/bin`.
    Local,
    /// `/opt/cni/bin`.
    Cni,
}

/// The network plugins that containerd starts by their names.
const CNI_PLUGINS: &[&str] = &["bridge", "host-local", "loopback", "portmap"];

impl Program {
    /// The program of that name: network plugins go to their own folder.
    pub fn new(name: impl Into<String>, source: impl Into<Source>) -> Self {
        let name = name.into();
        let folder = if CNI_PLUGINS.contains(&name.as_str()) {
            ProgramFolder::Cni
        } else {
            ProgramFolder::Local
        };
        Self {
            name,
            source: source.into(),
            folder,
        }
    }

    /// Where it is in a root file system, without the leading slash.
    fn place(&self) -> PathBuf {
        let folder = match self.folder {
            ProgramFolder::Local => "usr/local/bin",
            ProgramFolder::Cni => "opt/cni/bin",
        };
        Path::new(folder).join(&self.name)
    }
}

/// Makes the template in a folder that is not there yet.
pub(crate) fn build(
    folder: &Path,
    wish: &LinuxTemplate,
    patience: Patience,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let root = lay_root(folder, &wish.root_tar, &wish.programs, attendant)?;
    write_digests(&root, &wish.programs)?;
    finish(folder, wish, patience, attendant)
}

/// Lays down the distribution's root file system, made a machine's, with the programs in place, and gives it.
pub(crate) fn lay_root(
    folder: &Path,
    root_tar: &Source,
    programs: &[Program],
    attendant: &dyn Attend,
) -> Result<Tree, TemplateError> {
    let root = folder.join("root");
    fs_err::create_dir_all(folder)?;
    // Nobody else gets at the programs in it that run as root, from the first one on.
    std::fs::DirBuilder::new().mode(0o700).create(&root)?;
    let root = Tree::open(&root)?;
    tell(attendant, "unpacking the root file system");
    unpack::unpack(root_tar, &root, attendant)?;
    if let Some(missing) = dress::missing(&root) {
        return Err(TemplateError::NotBootable {
            path: root_tar.path.clone(),
            missing,
        });
    }
    dress::dress(&root)?;
    tell(attendant, "putting the programs in place");
    for program in programs {
        if attendant.is_called_off() {
            return Err(TemplateError::CalledOff);
        }
        put(&program.source, &root, &program.place())?;
    }
    Ok(root)
}

/// Fills the image store, and makes the folder a template.
pub(crate) fn finish(
    folder: &Path,
    wish: &LinuxTemplate,
    patience: Patience,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let images = images::fill(folder, &wish.images, patience, attendant)?;
    let record = Record {
        version: RecordVersion::V1,
        id: wish.id.clone(),
        made: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        programs: wish
            .programs
            .iter()
            .map(|program| program.name.clone())
            .collect::<BTreeSet<_>>(),
        images,
    };
    let text = serde_json::to_vec_pretty(&record).map_err(std::io::Error::from)?;
    tell(attendant, "writing the template to the disk");
    lock::sync_everything(folder)?;
    let mut file = File::create_new(folder.join(RECORD))?;
    std::io::Write::write_all(&mut file, &text)?;
    Ok(file.sync_all()?)
}

pub(crate) fn tell(attendant: &dyn Attend, words: impl Into<String>) {
    attendant.hear(News::Line(words.into()));
}

/// Puts a copy of a program in place.
///
/// Never a link, whoever the file is of: the cache may be given to another user later, and what lies in a template
/// must not change under the machines. It is held to its digest on the way.
pub(crate) fn put(source: &Source, root: &Tree, target: &Path) -> Result<(), TemplateError> {
    source.copy(&mut root.create(target, 0o755)?)
}

/// The agent's state folder, without the leading slash.
const AGENT_STATE: &str = "var/lib/mullion";

/// Writes down the programs' digests where the agent keeps what it knows: else every machine would read all of them
/// once. They look the same in each, since a machine lies over the very files.
fn write_digests(root: &Tree, programs: &[Program]) -> Result<(), TemplateError> {
    let mut known = KnownFiles::default();
    for program in programs {
        let place = program.place();
        let file = root.open_file(&place)?;
        let found = file.metadata()?;
        let (sha256, size) = Sha256Digest::of_reader(file)?;
        let seconds = found.mtime().saturating_mul(1_000_000_000);
        let entry = KnownFile {
            size,
            modified: seconds.saturating_add(found.mtime_nsec()),
            number: found.ino(),
            sha256: Some(sha256),
            version: None,
        };
        known.files.insert(format!("/{}", place.display()), entry);
    }
    root.make_folder(AGENT_STATE)?;
    root.set_mode(AGENT_STATE, 0o700)?;
    let text = serde_json::to_vec(&known).map_err(std::io::Error::from)?;
    Ok(root.write(Path::new(AGENT_STATE).join(KNOWN_FILES), text, 0o600)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A file of a cache, and a tree to put it into.
    struct Stage {
        folder: tempfile::TempDir,
        root: Tree,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs_err::create_dir(folder.path().join("root")).unwrap();
            let root = Tree::open(&folder.path().join("root")).unwrap();
            Self { folder, root }
        }

        fn cached(&self, mode: u32) -> PathBuf {
            let path = self.folder.path().join(format!("cache-{mode:o}"));
            fs_err::write(&path, "program").unwrap();
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn put(&self, source: &Source) -> Result<PathBuf, TemplateError> {
            let place = Path::new("usr/local/bin/program");
            put(source, &self.root, place)?;
            Ok(self.folder.path().join("root").join(place))
        }
    }

    #[test]
    fn a_templates_digests_are_those_of_its_programs() {
        let stage = Stage::new();
        let programs = [Program::new("kubelet", stage.cached(0o644))];
        let place = Path::new("usr/local/bin/kubelet");
        put(&programs[0].source, &stage.root, place).unwrap();
        write_digests(&stage.root, &programs).unwrap();
        let root = stage.folder.path().join("root");
        let path = root.join(AGENT_STATE).join(KNOWN_FILES);
        assert_eq!(fs_err::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let known: KnownFiles = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
        let kubelet = &known.files["/usr/local/bin/kubelet"];
        assert_eq!(kubelet.sha256, Some(Sha256Digest::of(b"program")));
        let there = fs_err::metadata(root.join(place)).unwrap();
        assert_eq!(kubelet.number, there.ino());
    }

    #[test]
    fn network_plugins_have_a_folder_of_their_own() {
        let place = |name: &str| Program::new(name, Path::new("/x")).place();
        assert_eq!(place("bridge"), Path::new("opt/cni/bin/bridge"));
        assert_eq!(place("kubelet"), Path::new("usr/local/bin/kubelet"));
    }

    #[test]
    fn a_program_that_is_not_executable_yet_becomes_one_in_the_template_only() {
        let stage = Stage::new();
        let source = stage.cached(0o644);
        for _ in 0..2 {
            let target = stage.put(&source.clone().into()).unwrap();
            assert_eq!(fs_err::metadata(&target).unwrap().mode() & 0o777, 0o755);
            assert_eq!(fs_err::read_to_string(&target).unwrap(), "program");
        }
        assert_eq!(fs_err::metadata(&source).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn a_program_shares_no_file_with_the_cache_whoever_may_write_it() {
        let stage = Stage::new();
        for mode in [0o555, 0o755, 0o777] {
            let source = stage.cached(mode);
            let target = stage.put(&source.clone().into()).unwrap();
            let inode = |path: &Path| fs_err::metadata(path).unwrap().ino();
            assert_ne!(inode(&source), inode(&target), "{mode:o}");
        }
    }

    #[test]
    fn promise_10_a_program_that_was_changed_in_the_cache_is_not_taken() {
        let stage = Stage::new();
        let path = stage.cached(0o777);
        let recorded = Sha256Digest::of(b"program");
        stage
            .put(&Source::held_to(&path, recorded.clone()))
            .unwrap();
        // As long as the recorded one, and as old.
        let before = fs_err::metadata(&path).unwrap().modified().unwrap();
        fs_err::write(&path, "rootkit").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(before).unwrap();
        let error = stage.put(&Source::held_to(&path, recorded)).unwrap_err();
        assert!(matches!(error, TemplateError::Changed { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("artifacts verify"));
    }
}
