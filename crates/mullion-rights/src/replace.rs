//! Writes files whole or not at all, and folders and files that only their owner can read.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err::File;
use fs_err::os::unix::fs::OpenOptionsExt as _;

/// The mode of a file that only its owner can read.
const PRIVATE: u32 = 0o600;

/// Replaces a file with what `put` writes, or creates it. Only its owner can read it.
///
/// Creates the folders above it where they are missing. After a crash the old file or the new one is there.
pub fn replace_private(
    path: &Path,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        private_folder(folder)?;
    }
    replace(path, &draft_of(path), PRIVATE, put)
}

/// Replaces a file with what `put` writes into `draft`, which is in the same folder. After a crash the old file or the
/// new one is there.
///
/// `put` may change the mode and the owner of the new file. Where it fails, the old file stays and the draft is removed.
pub fn replace(
    path: &Path,
    draft: &Path,
    mode: u32,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let replaced = write_draft(draft, mode, put).and_then(|()| fs_err::rename(draft, path));
    if replaced.is_err() {
        // The draft may not exist: that is not a second failure.
        let _ = fs_err::remove_file(draft);
        return replaced;
    }
    path.parent().map_or(Ok(()), sync_folder)
}

/// Writes a new file that only its owner can read, and returns its path: [`draft_of`] that path. The caller links or
/// renames it.
pub fn private_draft(
    path: &Path,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let draft = draft_of(path);
    if let Err(error) = write_draft(&draft, PRIVATE, put) {
        let _ = fs_err::remove_file(&draft);
        return Err(error);
    }
    Ok(draft)
}

fn write_draft(
    draft: &Path,
    mode: u32,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // A killed process may have left a draft, which would keep its mode. Or the draft is a link that leads elsewhere.
    match fs_err::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs_err::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(draft)?;
    put(&mut file)?;
    file.sync_all()
}

/// A name in the folder of `path` that no other thread and no other process uses. It ends in `.new`.
pub fn draft_of(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}.{}.new", std::process::id()));
    name.into()
}

/// Creates a folder that only its owner can read, and those above it, where they are missing.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| {
            let words = format!("cannot create the folder `{}`: {error}", folder.display());
            io::Error::new(error.kind(), words)
        })
}

/// Waits until the names in a folder are on the disk, where that can be asked for.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // The parent of a relative path may be empty: that is the working folder.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // The user may write into the folder and not read it, or its file system syncs no folders, as that of VirtualBox.
        Err(error) if is_no_loss(&error) => Ok(()),
        synced => synced,
    }
}

fn is_no_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs_err::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs_err::write(at("file"), "old").unwrap();
        fs_err::write(at("others"), "theirs").unwrap();
        symlink(at("others"), at("draft")).unwrap();
        let read = |name: &str| fs_err::read_to_string(at(name)).unwrap();

        let half = |file: &mut File| {
            file.write_all(b"n")?;
            Err(io::Error::other("no room"))
        };
        assert!(replace(&at("file"), &at("draft"), 0o600, half).is_err());
        assert_eq!(read("file"), "old");
        assert!(!at("draft").exists(), "a failure leaves no draft");

        symlink(at("others"), at("draft")).unwrap();
        replace(&at("file"), &at("draft"), 0o640, |file| {
            file.write_all(b"new")
        })
        .unwrap();
        assert_eq!(
            (read("file"), read("others")),
            ("new".into(), "theirs".into())
        );
        assert!(!at("draft").exists());
        assert_eq!(mode(&at("file")), 0o640);
    }

    #[test]
    fn a_private_file_and_its_folders_are_readable_by_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file");
        for text in ["old", "new"] {
            replace_private(&path, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs_err::read_to_string(&path).unwrap(), text);
            assert_eq!(mode(&path), 0o600);
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        let names = fs_err::read_dir(folder.path().join("a/b")).unwrap();
        assert_eq!(names.count(), 1, "no draft is left");
        assert_ne!(draft_of(&path), draft_of(&path));
    }

    #[test]
    fn a_draft_that_cannot_be_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let half = |file: &mut File| {
            file.write_all(b"half a key")?;
            Err(io::Error::other("no room"))
        };
        assert!(private_draft(&folder.path().join("key"), half).is_err());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0);
    }
}
