//! Files that a command writes for its user: whole or not at all.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt as _;

use mullion_rights::draft_of;

use crate::failure::{Class, Failure};

/// Whether a file that is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It may.
    Allowed,
    /// It is somebody's.
    Refused,
}

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone: plans and reports say much about a cluster.
    Owner,
    /// Whoever the user's own files are for.
    Usual,
}

/// Writes a file that the user names, with their rights. Its readers see what was there before, or all of the new text.
///
/// `path` begins in `folder`. A symbolic link on the way is refused: in somebody else's repository it may lead anywhere.
/// A stream of this process, such as `/dev/stdout`, and `/dev/null` are written to as they are. Every other pipe, device
/// and folder is refused.
pub fn write(
    folder: &Path,
    path: &Path,
    text: &str,
    replace: Replace,
    readers: Readers,
) -> io::Result<()> {
    let _rights = mullion_rights::as_invoker();
    let target = folder.join(path);
    if is_stream(&target) && !target.metadata().is_ok_and(|found| found.is_file()) {
        let mut options = fs_err::OpenOptions::new();
        let mut stream = options.write(true).open(&target)?;
        if stream.metadata()?.file_type().is_block_device() {
            return Err(io::Error::other("it is a disk"));
        }
        return stream.write_all(text.as_bytes());
    }
    if let Some(link) = link_on_the_way(folder, path) {
        let words = format!("`{}` is a symbolic link", link.display());
        // A file that is to be made new finds its place taken.
        let kind = match replace {
            Replace::Refused if link == target => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::Other,
        };
        return Err(io::Error::new(kind, words));
    }
    let old = target.symlink_metadata().ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(io::Error::other("it is there, and is no file"));
    }
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Usual => 0o666,
    };
    if replace == Replace::Refused {
        let mut options = fs_err::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(target)?;
        return file.write_all(text.as_bytes());
    }
    mullion_rights::replace(&target, &draft_of(&target), mode, |file| {
        file.write_all(text.as_bytes())?;
        match (readers, old) {
            // Others may read the file: it keeps the mode of the one that it replaces.
            (Readers::Usual, Some(old)) => file.set_permissions(old.permissions()),
            _ => Ok(()),
        }
    })
}

/// Whether a path is a stream of this process as the system names it, or a device that keeps nothing.
fn is_stream(path: &Path) -> bool {
    const STREAMS: [&str; 5] = [
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
        "/dev/null",
        "/dev/full",
    ];
    let is_number = |name: &OsStr| name.as_bytes().iter().all(u8::is_ascii_digit);
    let is_descriptor = ["/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|folder| path.parent() == Some(Path::new(folder)));
    STREAMS.iter().any(|stream| path == Path::new(stream))
        || is_descriptor && path.file_name().is_some_and(is_number)
}

/// The first symbolic link of a path that begins in a folder. Of an absolute path the user named every part themselves:
/// only its end is looked at.
pub(crate) fn link_on_the_way(folder: &Path, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return path.is_symlink().then(|| path.to_owned());
    }
    let mut so_far = folder.to_owned();
    path.components().find_map(|part| {
        so_far.push(part);
        so_far.is_symlink().then(|| so_far.clone())
    })
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

    fn mode(path: &Path) -> u32 {
        fs_err::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn promise_12_a_report_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs_err::write(&old, "old").unwrap();
        fs_err::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
        for path in [&new, &old] {
            write(
                folder.path(),
                path,
                "text",
                Replace::Allowed,
                Readers::Owner,
            )
            .unwrap();
            assert_eq!(fs_err::read_to_string(path).unwrap(), "text");
            assert_eq!(mode(path), 0o600);
        }
        let usual = Path::new("usual");
        write(folder.path(), usual, "a", Replace::Refused, Readers::Usual).unwrap();
        let path = folder.path().join(usual);
        let open = std::fs::Permissions::from_mode(0o640);
        fs_err::set_permissions(&path, open).unwrap();
        write(folder.path(), usual, "b", Replace::Allowed, Readers::Usual).unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn promise_03_no_file_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (folder.path().join("here"), folder.path().join("elsewhere"));
        fs_err::create_dir(&here).unwrap();
        fs_err::create_dir(&elsewhere).unwrap();
        fs_err::write(elsewhere.join("file"), "theirs").unwrap();
        fs_err::os::unix::fs::symlink("../elsewhere/file", here.join("link")).unwrap();
        fs_err::os::unix::fs::symlink("../elsewhere/none", here.join("dangling")).unwrap();
        fs_err::os::unix::fs::symlink("../elsewhere", here.join("folder")).unwrap();
        let absolute = here.join("link");
        for path in ["link", "dangling", "folder/new", absolute.to_str().unwrap()] {
            for replace in [Replace::Allowed, Replace::Refused] {
                let path = Path::new(path);
                let error = write(&here, path, "ours", replace, Readers::Owner).unwrap_err();
                assert!(error.to_string().contains("symbolic link"), "{error}");
            }
        }
        let theirs = fs_err::read_to_string(elsewhere.join("file")).unwrap();
        assert_eq!(theirs, "theirs");
        assert_eq!(fs_err::read_dir(&elsewhere).unwrap().count(), 1);
        assert_eq!(fs_err::read_dir(&here).unwrap().count(), 3);
    }

    #[test]
    fn promise_03_a_stream_is_written_to_and_no_other_pipe_or_device() {
        let to = |path: &Path| write(path, path, "text", Replace::Allowed, Readers::Owner);
        let error = to(Path::new("/dev/full")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!fs_err::metadata("/dev/full").unwrap().is_file());
        to(Path::new("/dev/null")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // By whatever way its path leads there: opening it would wait for a reader.
        let around = Path::new("/dev/..").join(pipe.strip_prefix("/").unwrap());
        for path in [&pipe, &around, Path::new("/dev/zero"), Path::new("/dev")] {
            let error = to(path).unwrap_err().to_string();
            assert!(error.contains("no file"), "{}: {error}", path.display());
        }
        for (path, is_one) in [
            ("/dev/stdout", true),
            ("/dev/fd/63", true),
            ("/proc/self/fd/1", true),
            ("/dev/fd/../loop0", false),
            ("/dev/fd/x", false),
            ("/dev/loop0", false),
            ("/dev/shm/plan.json", false),
        ] {
            assert_eq!(is_stream(Path::new(path)), is_one, "{path}");
        }
    }

    #[test]
    fn what_is_somebody_s_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let write = |text| {
            let name = Path::new("file");
            write(folder.path(), name, text, Replace::Refused, Readers::Usual)
        };
        write("first").unwrap();
        let error = write("second").unwrap_err();
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
