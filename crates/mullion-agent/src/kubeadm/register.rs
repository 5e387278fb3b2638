//! Lets kubelet register its node again, after somebody deleted the Node object.
//!
//! A kubelet registers when it starts, and at no other time. The new Node object may get other addresses for pods than
//! the old one had, so pods get their network again. Static pods use the machine's network and are left alone: etcd and
//! the API server run on.

use mullion_wire::KubeadmPhase;

use super::{KUBELET, reset};
use crate::facts::authority;
use crate::failure::AgentError;
use crate::work::Work;

/// Restarts kubelet on a machine that is a node.
pub(super) fn register(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let is_half_made = matches!(
        super::phase(work),
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting)
    );
    if is_half_made || authority(work.system)?.is_none() {
        let missing = format!("{}/kubelet.conf", work.system.paths().kubernetes);
        return Err(AgentError::Incomplete { missing });
    }
    work.report
        .doing("restart kubelet, which registers its node");
    reset::stop_kubelet(work)?;
    let stopped = reset::stop_network(work)?;
    {
        let report = &mut *work.report;
        let ours = work.state.windows.network.as_deref();
        work.system
            .renew_pods(ours, &mut |line| report.output(line))?;
    }
    for name in stopped.into_iter().chain([KUBELET]) {
        let started = work.system.start(name);
        started.map_err(|source| crate::apply::service_failed(work, name, "started", source))?;
    }
    work.report.changed("kubelet was restarted");
    Ok(())
}
