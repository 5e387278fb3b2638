//! Where the bytes of a file are: in place, in the store, or nowhere.

use std::collections::BTreeSet;

use mullion_wire::{Content, File, Sha256Digest};

use crate::failure::AgentError;
use crate::state;
use crate::system::{Kind, Look, Owner};
use crate::work::Work;

/// How a file compares with what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// It is so.
    Same,
    /// The bytes are right; mode or owner are not.
    OtherMode(Look),
    /// Something else is there.
    Different(Look),
    /// Nothing is there.
    Absent,
}

/// Compares a file with what it should be.
pub(crate) fn compare(work: &mut Work<'_, '_>, file: &File) -> Result<Comparison, AgentError> {
    let path = &file.path;
    let Some(look) = work.system.look(path)? else {
        return Ok(Comparison::Absent);
    };
    match look.kind {
        Kind::File => {}
        // What the link leads to belongs to somebody else.
        Kind::Link => return Ok(Comparison::Different(look)),
        Kind::Folder | Kind::Other => return Err(AgentError::InTheWay(path.clone())),
    }
    let size = match &file.content {
        Content::Text(text) => text.len() as u64,
        Content::Stored { size, .. } => *size,
    };
    // A file of another size need not be read.
    if look.size != size || work.digests.of(work.system, path, &look)? != file.content.sha256() {
        return Ok(Comparison::Different(look));
    }
    Ok(if look.mode == file.mode && look.owner == Owner::Agent {
        Comparison::Same
    } else {
        Comparison::OtherMode(look)
    })
}

/// Whether the store holds these bytes, whole.
pub(crate) fn is_stored(
    work: &mut Work<'_, '_>,
    sha256: &Sha256Digest,
    size: u64,
) -> Result<bool, AgentError> {
    let path = stored(work, sha256);
    let Some(look) = work.system.look(&path)? else {
        return Ok(false);
    };
    if look.kind != Kind::File || look.size != size {
        return Ok(false);
    }
    Ok(work.digests.of(work.system, &path, &look)? == *sha256)
}

/// The path of bytes in the store.
pub(crate) fn stored(work: &Work<'_, '_>, sha256: &Sha256Digest) -> String {
    format!("{}/{sha256}", state::store(work.system))
}

/// The contents that are neither in place nor in the store.
pub(crate) fn missing(
    work: &mut Work<'_, '_>,
    files: &[File],
) -> Result<BTreeSet<Sha256Digest>, AgentError> {
    let mut missing = BTreeSet::new();
    for file in files {
        let Content::Stored { sha256, size } = &file.content else {
            continue;
        };
        let is_in_place = matches!(
            compare(work, file)?,
            Comparison::Same | Comparison::OtherMode(_)
        );
        if !is_in_place && !is_stored(work, sha256, *size)? {
            missing.insert(sha256.clone());
        }
    }
    Ok(missing)
}
