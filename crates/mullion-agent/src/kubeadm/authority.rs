//! The cluster's authorities: read on one control plane, laid down on the next before it joins.

use std::collections::BTreeMap;

use mullion_wire::{KubeadmPhase, Secret};

use super::{clear, phase};
use crate::facts::has_control_plane;
use crate::failure::AgentError;
use crate::work::Work;

/// What kubeadm shares between control planes, below its folder of certificates.
const FILES: &[&str] = &[
    "ca.crt",
    "ca.key",
    "etcd/ca.crt",
    "etcd/ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
];

fn folder(work: &Work<'_, '_>) -> String {
    format!("{}/pki", work.system.paths().kubernetes)
}

/// Every one of them, on a control plane.
pub(super) fn read(work: &Work<'_, '_>) -> Result<BTreeMap<String, Secret>, AgentError> {
    let folder = folder(work);
    let mut files = BTreeMap::new();
    for name in FILES {
        let path = format!("{folder}/{name}");
        let bytes = work.system.read(&path)?.ok_or(AgentError::Absent(path))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        files.insert((*name).to_owned(), Secret::new(text));
    }
    Ok(files)
}

/// Lays them down for a join that follows. What belongs to a cluster already is left as it is.
pub(super) fn hold(
    work: &mut Work<'_, '_>,
    files: &BTreeMap<String, Secret>,
) -> Result<(), AgentError> {
    match phase(work) {
        Some(KubeadmPhase::Finished) => return Ok(()),
        // The join would clear what was cut off, and these with it.
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting) => clear(work)?,
        None => {}
    }
    let kubernetes = &work.system.paths().kubernetes;
    let kubelet = format!("{kubernetes}/kubelet.conf");
    if work.system.look(&kubelet)?.is_some() || has_control_plane(work.system)? {
        // Not made by this agent, or forgotten by it: the join that follows says what is to be done.
        return Ok(());
    }
    if work.system.look(kubernetes)?.is_none() {
        work.system.make_folder(kubernetes, 0o755)?;
    }
    let folder = folder(work);
    work.system.make_folder(&folder, 0o700)?;
    work.system.make_folder(&format!("{folder}/etcd"), 0o700)?;
    // Only what kubeadm knows: a name is never a way to another folder.
    for name in FILES {
        if let Some(text) = files.get(*name) {
            let is_public = matches!(name.rsplit_once('.'), Some((_, "crt" | "pub")));
            let mode = if is_public { 0o644 } else { 0o600 };
            work.system
                .write(&format!("{folder}/{name}"), text.reveal().as_bytes(), mode)?;
        }
    }
    work.report.doing("the cluster's authorities are laid down");
    Ok(())
}
