//! Unpacks a root file system.

use std::io;
use std::path::{Component, Path, PathBuf};

use mullion_plan::{Attend, News, Unit};
use mullion_rights::Opened;
use tar::{Archive, EntryType};

use crate::error::TemplateError;

/// How many entries are unpacked between two words to the attendant.
const STRIDE: u64 = 512;

/// Unpacks a tar file as it is: owners, permissions, times, links.
///
/// Device nodes are left out: a machine gets its own `/dev` when it starts.
pub(crate) fn unpack(tar: &Path, into: &Path, attendant: &dyn Attend) -> Result<(), TemplateError> {
    let unpacking = |cause| TemplateError::Unpack {
        path: tar.to_owned(),
        cause,
    };
    let opened = Opened::by_default(tar).map_err(|cause| TemplateError::Input {
        path: tar.to_owned(),
        cause,
    })?;
    let total = opened.size();
    let mut archive = Archive::new(io::BufReader::with_capacity(1 << 20, opened.reader()));
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(true);
    archive.set_preserve_ownerships(rustix::process::geteuid().is_root());
    // A folder's own time and permissions are set last, or what is put into it would be refused or change them.
    let mut folders = Vec::new();
    for (number, entry) in archive.entries().map_err(unpacking)?.enumerate() {
        let mut entry = entry.map_err(unpacking)?;
        if attendant.is_called_off() {
            return Err(TemplateError::CalledOff);
        }
        if (number as u64).is_multiple_of(STRIDE) {
            attendant.hear(News::Amount {
                done: entry.raw_file_position(),
                total: Some(total),
                unit: Unit::Bytes,
            });
        }
        match entry.header().entry_type() {
            EntryType::Char | EntryType::Block | EntryType::Fifo => {}
            EntryType::Directory => {
                let path = inside(into, &entry.path().map_err(unpacking)?);
                fs_err::create_dir_all(&path)?;
                folders.push(entry);
            }
            _ => {
                let is_inside = entry.unpack_in(into).map_err(unpacking)?;
                if !is_inside {
                    let words = "an entry leads out of the root file system";
                    return Err(unpacking(io::Error::new(io::ErrorKind::InvalidData, words)));
                }
            }
        }
    }
    // The deepest first: a parent's permissions may keep others out.
    while let Some(mut folder) = folders.pop() {
        folder.unpack_in(into).map_err(unpacking)?;
    }
    Ok(())
}

/// A path of the archive below a folder, whatever it says about parents.
fn inside(folder: &Path, path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .fold(folder.to_owned(), |path, part| path.join(part))
}
