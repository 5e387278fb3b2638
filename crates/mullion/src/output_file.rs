//! Files that a command writes for its user: whole or not at all.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::{Class, Failure};

/// Whether a file that is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It may.
    Allowed,
    /// It is somebody's.
    Refused,
}

/// Writes a file. Its readers see what was there before, or all of the new text.
///
/// A link is followed, and what is no file (a terminal, a pipe, a device) is written to as it is: only
/// a file can be replaced.
pub fn write(target: &Path, text: &str, replace: Replace) -> io::Result<()> {
    if replace == Replace::Refused {
        let mut options = fs_err::OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(target)?;
        return file.write_all(text.as_bytes());
    }
    let target = fs_err::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    match fs_err::metadata(&target) {
        Ok(found) if !found.is_file() => {
            let mut options = fs_err::OpenOptions::new();
            return options
                .write(true)
                .open(&target)?
                .write_all(text.as_bytes());
        }
        _ => {}
    }
    let beside = beside(&target);
    let written = write_new(&beside, text, &target).and_then(|()| fs_err::rename(&beside, &target));
    if written.is_err() {
        // What is left of it is nobody's; that it may not even exist is no second failure.
        let _ = fs_err::remove_file(&beside);
    }
    written
}

fn write_new(beside: &Path, text: &str, target: &Path) -> io::Result<()> {
    fs_err::write(beside, text)?;
    if let Ok(found) = fs_err::metadata(target) {
        fs_err::set_permissions(beside, found.permissions())?;
    }
    Ok(())
}

/// A name of this process's own in the same folder, so that the rename is one move on one file system.
fn beside(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

/// Refuses targets that are one file, or that a command reads itself.
pub fn all_different(files: &[&Path]) -> Result<(), Failure> {
    let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    for (index, file) in files.iter().enumerate() {
        if files[..index].iter().any(|other| real(other) == real(file)) {
            return Err(Failure::new(
                Class::Usage,
                format!(
                    "`{}` is named twice, and would be overwritten",
                    file.display()
                ),
            )
            .hint("give each its own file"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs_err::write(&file, "old").unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        fs_err::set_permissions(&file, private).unwrap();
        fs_err::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, "new", Replace::Allowed).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "new");
        let mode = fs_err::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_device_is_written_to_and_stays_a_device() {
        let error = write(Path::new("/dev/full"), "text", Replace::Allowed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!fs_err::metadata("/dev/full").unwrap().is_file());
        write(Path::new("/dev/null"), "text", Replace::Allowed).unwrap();
    }

    #[test]
    fn what_is_somebody_s_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write(&file, "first", Replace::Refused).unwrap();
        let error = write(&file, "second", Replace::Refused).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "first");
    }

    #[test]
    fn one_file_by_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs_err::write(&file, "").unwrap();
        fs_err::os::unix::fs::symlink("file", &link).unwrap();
        assert!(all_different(&[&file, &link]).is_err());
        assert!(all_different(&[&file, &folder.path().join("other")]).is_ok());
    }
}
