//! The folder of the machine that is drive `C:`.
//!
//! Names are looked up as Windows does, without regard to case; where two names differ by case only, the one that is
//! written alike is meant. Links are followed while they stay on the drive: nothing here gives a path outside it.

use std::path::{Path, PathBuf};

use crate::path::{DrivePath, PathError};

/// The drive.
#[derive(Debug, Clone)]
pub struct Drive {
    folder: PathBuf,
}

impl Drive {
    /// A drive in a folder that exists.
    pub fn open(folder: &Path) -> std::io::Result<Self> {
        Ok(Self {
            folder: fs_err::canonicalize(folder)?,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a path is on the machine. What does not exist yet is named as it was written. A link at the very end is
    /// followed as well.
    pub fn locate(&self, path: &DrivePath) -> Result<PathBuf, PathError> {
        self.walk(path, path.parts())
    }

    /// As [`Drive::locate`], but a link at the end is named itself: for what removes or renames it.
    pub fn locate_entry(&self, path: &DrivePath) -> Result<PathBuf, PathError> {
        match path.parts() {
            [] => Ok(self.folder.clone()),
            [folders @ .., name] => {
                let folder = self.walk(path, folders)?;
                Ok(match present(&folder, name) {
                    Some(found) => folder.join(found),
                    None => folder.join(name),
                })
            }
        }
    }

    fn walk(&self, whole: &DrivePath, parts: &[String]) -> Result<PathBuf, PathError> {
        let mut place = self.folder.clone();
        for part in parts {
            let Some(found) = present(&place, part) else {
                place.push(part);
                continue;
            };
            place.push(found);
            let is_link = place
                .symlink_metadata()
                .is_ok_and(|found| found.file_type().is_symlink());
            if is_link {
                place = self.follow(whole, &place)?;
            }
        }
        Ok(place)
    }

    /// The end of a link, if it is on the drive.
    fn follow(&self, whole: &DrivePath, link: &Path) -> Result<PathBuf, PathError> {
        let end = fs_err::canonicalize(link).map_err(|cause| PathError::Unreadable {
            path: whole.windows(),
            cause: cause.kind().to_string(),
        })?;
        if end.starts_with(&self.folder) {
            Ok(end)
        } else {
            Err(PathError::LinkOut(whole.windows()))
        }
    }
}

/// The name under which a folder holds a name: the same, or one that differs by case only.
fn present(folder: &Path, name: &str) -> Option<String> {
    if folder.join(name).symlink_metadata().is_ok() {
        return Some(name.to_owned());
    }
    let wanted = name.to_lowercase();
    let mut alike: Vec<_> = fs_err::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|found| found.to_lowercase() == wanted)
        .collect();
    alike.sort();
    alike.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn drive() -> (tempfile::TempDir, Drive) {
        let folder = tempfile::tempdir().unwrap();
        let drive = Drive::open(folder.path()).unwrap();
        fs_err::create_dir_all(folder.path().join("Program Files/Über")).unwrap();
        fs_err::create_dir_all(folder.path().join("windows")).unwrap();
        (folder, drive)
    }

    fn located(drive: &Drive, text: &str) -> Result<String, PathError> {
        let place = drive.locate(&DrivePath::parse(text).unwrap())?;
        let rest = place.strip_prefix(drive.folder()).unwrap();
        Ok(rest.display().to_string())
    }

    #[test]
    fn names_are_found_whatever_their_case() {
        let (_folder, drive) = drive();
        for (text, expected) in [
            (r"C:\PROGRAM files\übER", "Program Files/Über"),
            (r"C:\Windows\New Folder\x", "windows/New Folder/x"),
            (r"c:\", ""),
        ] {
            assert_eq!(located(&drive, text).as_deref(), Ok(expected), "{text}");
        }
        fs_err::write(drive.folder().join("A"), "").unwrap();
        fs_err::write(drive.folder().join("a"), "").unwrap();
        assert_eq!(located(&drive, r"C:\a").as_deref(), Ok("a"));
        assert_eq!(located(&drive, r"C:\A").as_deref(), Ok("A"));
    }

    #[test]
    fn links_are_followed_on_the_drive_and_never_out_of_it() {
        let (_folder, drive) = drive();
        let outside = tempfile::tempdir().unwrap();
        fs_err::create_dir(outside.path().join("deep")).unwrap();
        symlink("windows", drive.folder().join("inner")).unwrap();
        symlink(outside.path(), drive.folder().join("outer")).unwrap();
        symlink("/no/such/file", drive.folder().join("broken")).unwrap();
        assert_eq!(located(&drive, r"C:\inner\x").as_deref(), Ok("windows/x"));
        for text in [r"C:\outer", r"C:\outer\deep", r"C:\OUTER\deep\x"] {
            assert!(
                matches!(located(&drive, text), Err(PathError::LinkOut(_))),
                "{text}"
            );
        }
        assert!(matches!(
            located(&drive, r"C:\broken"),
            Err(PathError::Unreadable { .. })
        ));
        let entry = drive
            .locate_entry(&DrivePath::parse(r"C:\outer").unwrap())
            .unwrap();
        assert_eq!(entry, drive.folder().join("outer"), "the link itself");
        assert!(
            drive
                .locate_entry(&DrivePath::parse(r"C:\outer\deep").unwrap())
                .is_err()
        );
    }
}
