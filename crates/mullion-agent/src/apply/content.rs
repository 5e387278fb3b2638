//! Where the bytes of a file are: in place, in the store, in the agent itself, or nowhere.

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
        Kind::Folder | Kind::Other => {
            return Err(AgentError::InTheWay {
                path: path.clone(),
                what: "neither a file nor a link",
            });
        }
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

/// Where these bytes are, whole: in the store, or in the agent's own program.
pub(crate) fn find(
    work: &mut Work<'_, '_>,
    sha256: &Sha256Digest,
    size: u64,
) -> Result<Option<String>, AgentError> {
    let stored = format!("{}/{sha256}", state::store(work.system));
    for path in [Some(stored), work.system.own_program()]
        .into_iter()
        .flatten()
    {
        let Some(look) = work.system.look(&path)? else {
            continue;
        };
        if look.kind == Kind::File
            && look.size == size
            && work.digests.of(work.system, &path, &look)? == *sha256
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
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
        if !is_in_place && find(work, sha256, *size)?.is_none() {
            missing.insert(sha256.clone());
        }
    }
    Ok(missing)
}
