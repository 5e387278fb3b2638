//! Certificates that the caller trusts, in the forms that tools want.

use std::io::Write as _;
use std::path::PathBuf;

use fs_err as fs;
use mullion_rights::{Opened, draft_of, replace};

use crate::build::BuildError;
use crate::job::Job;

/// No file of certificates is larger.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

/// The one file in [`folder`]: the system's certificates and the caller's.
pub(crate) const FILE: &str = "trust.pem";

/// A folder with one file of everything that is trusted; none where the caller adds nothing to the system's.
pub(crate) fn folder(job: &Job<'_>) -> Result<Option<PathBuf>, BuildError> {
    if job.sources.trust.is_empty() {
        return Ok(None);
    }
    let failed = |source| BuildError::io("collecting certificates", source);
    let mut all = fs::read("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
    for file in &job.sources.trust {
        let opened = Opened::by_invoker(file).map_err(failed)?;
        all.extend(opened.bytes(MOST_BYTES).map_err(failed)?);
        all.push(b'\n');
    }
    // A folder for each set: two calls with different ones may go on at once.
    let digest = mullion_wire::Sha256Digest::of(&all);
    let folder = job
        .store
        .work(&format!("trust-{}", &digest.as_str()[..16]))?;
    let path = folder.join(FILE);
    if !path.exists() {
        replace(&path, &draft_of(&path), 0o666, |file| file.write_all(&all)).map_err(failed)?;
    }
    Ok(Some(folder))
}
