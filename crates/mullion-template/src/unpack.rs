//! Unpacks a root file system.

use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use mullion_plan::{Attend, News, Unit};
use mullion_tar::{TarEntry, TarReader};
use mullion_wire::Hashing;
use tar::EntryType;

use crate::error::TemplateError;
use crate::source::Source;
use crate::tree::{Traits, Tree, apply};

/// How many entries are unpacked between two words to the attendant.
const STRIDE: u64 = 512;

/// What all files of a root file system may take together. The largest that is made here takes 2 GiB; an archive may
/// claim sizes that no disk has.
const MOST: u64 = 64 << 30;

/// Unpacks a tar file as it is: owners, permissions, times, links.
///
/// Device nodes are left out: a machine gets its own `/dev` when it starts. The permissions of the root folder itself
/// stay as they are: nobody else looks into it while programs that run as root are laid down.
pub(crate) fn unpack(
    tar: &Source,
    into: &Tree,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let opened = tar.open()?;
    let total = opened.size();
    let hashing = Hashing::new(opened.reader());
    let reader = io::BufReader::with_capacity(1 << 20, hashing);
    let mut archive = TarReader::new(reader);
    unpack_all(&mut archive, tar, into, total, attendant)?;
    tar.check(archive.into_inner().into_inner())
}

fn unpack_all<R: Read>(
    archive: &mut TarReader<R>,
    tar: &Source,
    into: &Tree,
    total: u64,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let unpacking = |cause| TemplateError::Unpack {
        path: tar.path.clone(),
        cause,
    };
    let owns = rustix::process::geteuid().is_root();
    let mut room = MOST;
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
        room = room
            .checked_sub(entry.size())
            .ok_or_else(|| unpacking(io::Error::other("it claims to be larger than any disk")))?;
        lay(&mut entry, into, owns, &mut folders).map_err(unpacking)?;
    }
    // The deepest first: a parent's permissions may keep others out.
    while let Some((path, traits)) = folders.pop() {
        into.set_traits(&path, traits).map_err(unpacking)?;
    }
    Ok(())
}

/// Lays down one entry.
fn lay<R: Read>(
    entry: &mut TarEntry<'_, R>,
    into: &Tree,
    owns: bool,
    folders: &mut Vec<(PathBuf, Traits)>,
) -> io::Result<()> {
    let header = entry.header();
    let kind = header.entry_type();
    let number = |number: u64| u32::try_from(number).map_err(io::Error::other);
    let owner = if owns {
        Some((number(header.uid()?)?, number(header.gid()?)?))
    } else {
        None
    };
    let traits = Traits {
        mode: header.mode()?,
        owner,
        modified: i64::try_from(header.mtime()?).map_err(io::Error::other)?,
    };
    let path = entry.path()?.into_owned();
    match kind {
        EntryType::Char | EntryType::Block | EntryType::Fifo | EntryType::XGlobalHeader => Ok(()),
        EntryType::Directory => {
            into.make_folder(&path)?;
            if path.components().any(is_name) {
                folders.push((path, traits));
            }
            Ok(())
        }
        EntryType::Symlink => {
            into.link(target(entry)?, &path)?;
            into.set_link_traits(&path, traits)
        }
        EntryType::Link => into.hard_link(&target(entry)?, &path),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let mut file = into.create(&path, 0o600)?;
            io::copy(entry, &mut file)?;
            apply(file.as_fd(), traits)
        }
        other => {
            let words = format!("`{}` is an entry of the kind {other:?}", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, words))
        }
    }
}

fn is_name(part: std::path::Component<'_>) -> bool {
    matches!(part, std::path::Component::Normal(_))
}

fn target<R: Read>(entry: &TarEntry<'_, R>) -> io::Result<PathBuf> {
    let link = entry.link_name()?;
    let link = link.filter(|link| link.as_ref() != Path::new(""));
    let link = link.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "a link that leads to nothing")
    })?;
    Ok(link.into_owned())
}

#[cfg(test)]
mod tests;
