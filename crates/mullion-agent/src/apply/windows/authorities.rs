//! Root authorities that the machine trusts: certificates of files that the blueprint lays down.

use std::collections::{BTreeMap, BTreeSet};

use mullion_wire::{Sha256Digest, Windows};

use super::{failed, not_done, tell};
use crate::change::Change;
use crate::failure::AgentError;
use crate::pem::certificates;
use crate::system::{Removed, System, SystemError};
use crate::work::Work;

/// The certificates of a file; none where it has none, or cannot be read as such.
fn of_file(system: &dyn System, path: &str) -> Result<Vec<Vec<u8>>, SystemError> {
    let text = system.read(path)?.unwrap_or_default();
    Ok(certificates(&String::from_utf8_lossy(&text)).unwrap_or_default())
}

/// Every certificate that is to be trusted, by its digest. A file that has none is passed over: where somebody changed
/// it, that is told of the file itself.
pub(super) fn wanted(
    system: &dyn System,
    windows: &Windows,
) -> Result<BTreeMap<Sha256Digest, Vec<u8>>, SystemError> {
    let mut wanted = BTreeMap::new();
    for path in &windows.authorities {
        let found = of_file(system, path)?.into_iter();
        wanted.extend(found.map(|bytes| (Sha256Digest::of(&bytes), bytes)));
    }
    Ok(wanted)
}

/// Refuses files without a certificate: whoever names them believes that they have one.
pub(super) fn check(system: &dyn System, windows: &Windows) -> Result<(), AgentError> {
    for path in &windows.authorities {
        if of_file(system, path)?.is_empty() {
            let words = "it has no certificate in PEM, or a broken one".to_owned();
            let what = format!("trust in {path}");
            return Err(not_done(what)(SystemError::Nonsense(words)));
        }
    }
    Ok(())
}

/// Takes out what was added and is not wanted any more.
pub(super) fn give_back(
    work: &mut Work<'_, '_>,
    wanted: Option<&Windows>,
) -> Result<(), AgentError> {
    let wanted: BTreeSet<_> = match wanted {
        Some(wanted) => self::wanted(work.system, wanted)?.into_keys().collect(),
        None => BTreeSet::new(),
    };
    let added = work.state.windows.authorities.clone();
    for certificate in added.difference(&wanted) {
        work.touch()?;
        let change = Change::Authority(certificate.clone());
        let removed = work.system.distrust(certificate);
        let removed: Removed = removed.map_err(failed(&change))?;
        work.state.windows.authorities.remove(certificate);
        tell(work, removed, change);
    }
    Ok(())
}
