//! Whose a place is, and whether a path leads there straight.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::{as_invoker, as_root};

/// What makes a path lead elsewhere than it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Detour {
    /// It goes up.
    #[error("the path contains `..`")]
    Up,
    /// A symbolic link lies on the way.
    #[error("`{}` is a symbolic link", .0.display())]
    Link(PathBuf),
}

/// Refuses a path that goes up, or that leads over a symbolic link behind `start`.
pub fn no_detour(start: &Path, path: &Path) -> Result<(), Detour> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Detour::Up);
    }
    let mut so_far = start.to_owned();
    for part in path.components() {
        so_far.push(part);
        if so_far.is_symlink() {
            return Err(Detour::Link(so_far));
        }
    }
    Ok(())
}

/// Whether the invoking user can write to a folder, or create it.
pub fn can_use(folder: &Path) -> bool {
    let _rights = as_invoker();
    let around = folder.ancestors().find(|around| {
        // What cannot be looked at is there, and cannot be used either.
        !matches!(around.metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
    });
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    around.is_some_and(|around| accessat(CWD, around, wanted, AtFlags::EACCESS).is_ok())
}

/// Whether a folder, as far as it is there, is root's, and no one else could have put it there or replace it.
pub fn belongs_to_root(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let _rights = as_root();
    let mut around: Vec<_> = folder.ancestors().collect();
    around.reverse();
    for place in around {
        let found = match place.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return true,
            Err(_) => return false,
        };
        let is_open = found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0;
        if !found.is_dir() || found.uid() != 0 || is_open {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_01_a_path_that_goes_up_or_over_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let start = folder.path();
        fs_err::create_dir(start.join("real")).unwrap();
        fs_err::os::unix::fs::symlink("real", start.join("link")).unwrap();
        fs_err::os::unix::fs::symlink("nowhere", start.join("dangling")).unwrap();
        for good in ["real", "real/below/not/there", "./real", ""] {
            assert_eq!(no_detour(start, Path::new(good)), Ok(()), "{good}");
        }
        for up in ["../x", "real/../real", "../../../etc", "not-there/.."] {
            assert_eq!(no_detour(start, Path::new(up)), Err(Detour::Up), "{up}");
        }
        for over in ["link", "link/below", "dangling", "dangling/x"] {
            let refused = no_detour(start, Path::new(over));
            assert!(matches!(refused, Err(Detour::Link(_))), "{over}");
        }
        // An absolute path is looked at from the root on.
        let absolute = start.join("link/below");
        let refused = no_detour(Path::new("/elsewhere"), &absolute);
        assert_eq!(refused, Err(Detour::Link(start.join("link"))));
    }

    #[test]
    fn promise_01_a_folder_is_usable_where_it_could_be_created() {
        let folder = tempfile::tempdir().unwrap();
        assert!(can_use(folder.path()));
        assert!(can_use(&folder.path().join("a/b/c")));
        fs_err::write(folder.path().join("file"), "").unwrap();
        assert!(
            !can_use(Path::new("/proc/self/none")),
            "nothing can be made there"
        );
    }
}
