//! Gives a machine the template's image store in no time: the same files, not copies of them.

use std::ffi::{CString, OsStr};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::DriverError;

/// Makes `target` a copy of the folder `source` whose files are hard links to the same files.
///
/// Databases are written in place and are copied; everything else in a containerd store is written once.
/// Where the two are on different file systems, all is copied.
pub(super) fn share(source: &Path, target: &Path) -> Result<(), DriverError> {
    fs_err::create_dir(target)?;
    for entry in fs_err::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            share(&from, &to)?;
        } else if kind.is_file() && from.extension() == Some(OsStr::new("db")) {
            fs_err::copy(&from, &to)?;
        } else if let Err(error) = fs_err::hard_link(&from, &to) {
            if kind.is_symlink() {
                fs_err::os::unix::fs::symlink(fs_err::read_link(&from)?, &to)?;
            } else if kind.is_file() {
                fs_err::copy(&from, &to)?;
                let meta = fs_err::symlink_metadata(&from)?;
                std::os::unix::fs::lchown(&to, Some(meta.uid()), Some(meta.gid()))?;
                // Changing the owner took the special bits away.
                fs_err::set_permissions(&to, meta.permissions())?;
                copy_attributes(&from, &to)?;
            } else {
                return Err(error.into());
            }
        }
    }
    let meta = fs_err::symlink_metadata(source)?;
    std::os::unix::fs::lchown(target, Some(meta.uid()), Some(meta.gid()))?;
    fs_err::set_permissions(
        target,
        std::fs::Permissions::from_mode(meta.mode() & 0o7777),
    )?;
    // An image's layer marks a folder that hides the one below it with an attribute.
    copy_attributes(source, target)
}

fn copy_attributes(source: &Path, target: &Path) -> Result<(), DriverError> {
    let mut list = vec![0_u8; 4096];
    let length = match rustix::fs::llistxattr(source, &mut list) {
        Ok(length) => length,
        // The file system has none.
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(std::io::Error::from(error).into()),
    };
    for name in list[..length].split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"security.") || name.starts_with(b"system.") {
            continue;
        }
        let name = CString::new(name).map_err(std::io::Error::from)?;
        let mut value = vec![0_u8; 64 * 1024];
        let length =
            rustix::fs::lgetxattr(source, &name, &mut value).map_err(std::io::Error::from)?;
        rustix::fs::lsetxattr(
            target,
            &name,
            &value[..length],
            rustix::fs::XattrFlags::empty(),
        )
        .map_err(std::io::Error::from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn files_are_shared_and_databases_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs_err::create_dir_all(source.join("blobs/deep")).unwrap();
        fs_err::write(source.join("blobs/deep/layer"), "layer").unwrap();
        fs_err::write(source.join("meta.db"), "database").unwrap();
        fs_err::os::unix::fs::symlink("layer", source.join("blobs/deep/link")).unwrap();
        fs_err::set_permissions(
            source.join("blobs"),
            std::fs::Permissions::from_mode(0o1711),
        )
        .unwrap();

        let target = folder.path().join("target");
        share(&source, &target).unwrap();

        let inode = |path: &Path| fs_err::symlink_metadata(path).unwrap().ino();
        let same = |path: &str| inode(&source.join(path)) == inode(&target.join(path));
        assert!(same("blobs/deep/layer"));
        assert!(!same("meta.db"));
        assert_eq!(
            fs_err::read_to_string(target.join("meta.db")).unwrap(),
            "database"
        );
        assert_eq!(
            fs_err::metadata(target.join("blobs")).unwrap().mode() & 0o7777,
            0o1711
        );
        assert_eq!(
            fs_err::read_link(target.join("blobs/deep/link"))
                .unwrap()
                .as_os_str()
                .as_bytes(),
            b"layer"
        );
    }
}
