//! What is mounted, as the kernel tells it of a process.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One mount of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The file system's device: major and minor number.
    pub(super) device: (u32, u32),
    /// Where it is, as the process sees it.
    pub(super) at: PathBuf,
    /// The folder that an overlay writes into; nothing for other file systems.
    pub(super) upper: Option<PathBuf>,
}

/// The mounts of a process.
pub(super) fn of(pid: &str) -> io::Result<Vec<Mount>> {
    let text = fs_err::read(format!("/proc/{pid}/mountinfo"))?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(parse).collect())
}

/// Something that is mounted at a path or below it, here.
pub(super) fn inside(path: &Path) -> io::Result<Option<PathBuf>> {
    // The kernel tells names without links.
    let path = match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => fs_err::canonicalize(above)?.join(name),
        _ => path.to_owned(),
    };
    let mut mounts = of("self")?.into_iter().map(|mount| mount.at);
    Ok(mounts.find(|mount| mount.starts_with(&path)))
}

/// `36 35 98:0 /root /at options shared:1 - overlay source options`
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let at = decoded(fields.nth(1)?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = rest.next()?;
    let options = rest.nth(1)?;
    let upper = (kind == b"overlay").then(|| {
        let mut options = options.split(|byte| *byte == b',');
        options.find_map(|option| option.strip_prefix(b"upperdir="))
    });
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        at: at.into(),
        upper: upper.flatten().map(|upper| decoded(upper).into()),
    })
}

/// The kernel writes blanks, commas and backslashes in names as three octal digits.
fn decoded(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_its_device_and_an_overlays_upper_folder() {
        let line = b"36 35 0:98 / /a\\040b rw,noatime shared:1 master:2 - overlay mullion \
            rw,lowerdir=/t/root,upperdir=/p\\040q/disk/upper,workdir=/p/disk/work";
        assert_eq!(
            parse(line).unwrap(),
            Mount {
                device: (0, 98),
                at: "/a b".into(),
                upper: Some("/p q/disk/upper".into()),
            }
        );
        // An option of another file system is no proof.
        let other = b"36 35 0:98 / / rw - fuse.x y rw,upperdir=/p/disk/upper";
        assert_eq!(parse(other).unwrap().upper, None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 0:98 / / rw"), None);
    }

    #[test]
    fn a_mount_in_a_folder_is_seen_and_one_beside_it_is_not() {
        assert!(inside(Path::new("/proc")).unwrap().is_some());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(inside(folder.path()).unwrap(), None);
        assert_eq!(inside(Path::new("/pro")).unwrap(), None);
    }
}
