//! Makes a Linux template: root file system, programs, services, images.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err::File;
use mullion_plan::{Attend, News, TemplateId};
use mullion_rights::Opened;
use mullion_wire::{KNOWN_FILES, KnownFile, KnownFiles, Sha256Digest};

use crate::error::TemplateError;
use crate::{RECORD, Record, RecordVersion, dress, images, lock, unpack};

/// The Linux template to make.
#[derive(Debug, Clone)]
pub struct LinuxTemplate {
    /// Which one it is.
    pub id: TemplateId,
    /// The distribution's root file system, as an uncompressed tar file.
    pub root_tar: PathBuf,
    /// Programs to put in place.
    pub programs: Vec<Program>,
    /// Image archives for the store; `containerd` and `ctr` are among the programs where there are any.
    pub images: Vec<Opened>,
}

/// A program for a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What it is called there.
    pub name: String,
    /// The file on this computer.
    pub source: PathBuf,
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
    pub fn new(name: impl Into<String>, source: impl Into<PathBuf>) -> Self {
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
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let root = lay_root(folder, &wish.root_tar, &wish.programs, attendant)?;
    write_digests(&root, &wish.programs)?;
    finish(folder, wish, attendant)
}

/// Lays down the distribution's root file system, made a machine's, with the programs in place, and gives its folder.
pub(crate) fn lay_root(
    folder: &Path,
    root_tar: &Path,
    programs: &[Program],
    attendant: &dyn Attend,
) -> Result<PathBuf, TemplateError> {
    let root = folder.join("root");
    fs_err::create_dir_all(&root)?;
    tell(attendant, "unpacking the root file system");
    unpack::unpack(root_tar, &root, attendant)?;
    if let Some(missing) = dress::missing(&root) {
        return Err(TemplateError::NotBootable {
            path: root_tar.to_owned(),
            missing,
        });
    }
    dress::dress(&root)?;
    tell(attendant, "putting the programs in place");
    for program in programs {
        if attendant.is_called_off() {
            return Err(TemplateError::CalledOff);
        }
        put(&program.source, &root.join(program.place()))?;
    }
    Ok(root)
}

/// Fills the image store, and makes the folder a template.
pub(crate) fn finish(
    folder: &Path,
    wish: &LinuxTemplate,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let images = images::fill(folder, &wish.images, attendant)?;
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
/// must not change under the machines. A copy shares the blocks where the disk can; on ext4 the 300 MB of a default
/// cluster took 0.2 s to copy and as long again to reach the disk, of the 11 s that the template takes.
fn put(source: &Path, target: &Path) -> Result<(), TemplateError> {
    if let Some(folder) = target.parent() {
        fs_err::create_dir_all(folder)?;
    }
    match fs_err::remove_file(target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    copy(source, target)?;
    fs_err::set_permissions(target, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Copies a file of the cache. The cache is the invoking user's: what they could not read is not copied for them.
pub(crate) fn copy(source: &Path, target: &Path) -> Result<(), TemplateError> {
    let opened = Opened::by_default(source).map_err(|cause| TemplateError::Input {
        path: source.to_owned(),
        cause,
    })?;
    fs_err::copy(opened.address(), target)?;
    Ok(())
}

/// The agent's state folder, without the leading slash.
const AGENT_STATE: &str = "var/lib/mullion";

/// Writes down the programs' digests where the agent keeps what it knows: else every machine would read all of them
/// once. They look the same in each, since a machine lies over the very files.
fn write_digests(root: &Path, programs: &[Program]) -> Result<(), TemplateError> {
    let mut known = KnownFiles::default();
    for program in programs {
        let place = program.place();
        let file = File::open(root.join(&place))?;
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
    let folder = root.join(AGENT_STATE);
    fs_err::create_dir_all(&folder)?;
    fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
    let text = serde_json::to_vec(&known).map_err(std::io::Error::from)?;
    let path = folder.join(KNOWN_FILES);
    fs_err::write(&path, text)?;
    Ok(fs_err::set_permissions(
        path,
        std::fs::Permissions::from_mode(0o600),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_templates_digests_are_those_of_its_programs() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("cache");
        fs_err::write(&source, "program").unwrap();
        let programs = [Program::new("kubelet", &source)];
        let target = root.path().join("usr/local/bin/kubelet");
        put(&source, &target).unwrap();
        write_digests(root.path(), &programs).unwrap();
        let path = root.path().join(AGENT_STATE).join(KNOWN_FILES);
        assert_eq!(fs_err::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let known: KnownFiles = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
        let kubelet = &known.files["/usr/local/bin/kubelet"];
        assert_eq!(kubelet.sha256, Some(Sha256Digest::of(b"program")));
        assert_eq!(kubelet.number, fs_err::metadata(&target).unwrap().ino());
    }

    #[test]
    fn network_plugins_have_a_folder_of_their_own() {
        let place = |name: &str| Program::new(name, "/x").place();
        assert_eq!(place("bridge"), Path::new("opt/cni/bin/bridge"));
        assert_eq!(place("kubelet"), Path::new("usr/local/bin/kubelet"));
    }

    #[test]
    fn a_program_that_is_not_executable_yet_becomes_one_in_the_template_only() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("cache");
        fs_err::write(&source, "program").unwrap();
        fs_err::set_permissions(&source, std::fs::Permissions::from_mode(0o644)).unwrap();
        let target = folder.path().join("root/usr/local/bin/program");
        for _ in 0..2 {
            put(&source, &target).unwrap();
        }
        assert_eq!(fs_err::metadata(&target).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs_err::metadata(&source).unwrap().mode() & 0o777, 0o644);
        assert_eq!(fs_err::read_to_string(&target).unwrap(), "program");
    }

    #[test]
    fn a_program_shares_no_file_with_the_cache_whoever_may_write_it() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o555, 0o755, 0o777] {
            let source = folder.path().join(format!("cache-{mode:o}"));
            fs_err::write(&source, "program").unwrap();
            fs_err::set_permissions(&source, std::fs::Permissions::from_mode(mode)).unwrap();
            let target = folder.path().join(format!("program-{mode:o}"));
            put(&source, &target).unwrap();
            let inode = |path: &Path| fs_err::metadata(path).unwrap().ino();
            assert_ne!(inode(&source), inode(&target), "{mode:o}");
        }
    }
}
