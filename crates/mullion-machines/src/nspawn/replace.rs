//! Replaces a file as a whole.

use std::io;
use std::path::Path;

use fs_err::File;
use fs_err::os::unix::fs::OpenOptionsExt as _;

use super::erase::erase;
use crate::error::DriverError;

/// Replaces a file with what `put` writes into `draft`, which is in the same folder. After a crash the old file or the
/// new one is there, never half of one.
pub(super) fn replace(
    path: &Path,
    draft: &Path,
    mode: u32,
    put: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), DriverError> {
    // A process that was killed may have left a draft, or it is a link that leads elsewhere.
    erase(draft)?;
    let mut options = fs_err::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(draft)?;
    put(&mut file)?;
    file.sync_all()?;
    fs_err::rename(draft, path)?;
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    Ok(File::open(folder)?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

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

        replace(&at("file"), &at("draft"), 0o600, |file| {
            file.write_all(b"new")
        })
        .unwrap();
        assert_eq!(
            (read("file"), read("others")),
            ("new".into(), "theirs".into())
        );
        assert!(!at("draft").exists());
        let mode = fs_err::metadata(at("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
