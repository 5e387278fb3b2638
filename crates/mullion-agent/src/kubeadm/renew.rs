//! Renews the certificates of a control plane, and restarts its static pods so that they use the new ones.
//!
//! kubelet starts a container of a static pod again when its process ends, so the processes are asked to end, one program
//! after another. The manifests stay where they are: an agent that is killed here leaves a control plane that runs.

use std::time::Duration;

use mullion_wire::{KubeadmDone, KubeadmPhase};

use super::{Call, HEALTH, KUBELET, phase, read_admin, watch_kubeadm};
use crate::certificates::certificates;
use crate::facts::has_control_plane;
use crate::failure::AgentError;
use crate::state::Renewal;
use crate::work::Work;

/// The programs of the static pods, in the order of their restart: those that need others first. A scheduler or a
/// controller manager that loses the API server ends by itself, and kubelet lets it wait before it starts again.
const PROGRAMS: &[&str] = &[
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
];

/// kubelet lets a container wait for up to five minutes that failed again and again, as with certificates that have
/// expired. One that was restarted has forgotten that.
const BEFORE_RESTART: Duration = Duration::from_secs(15);

/// So long has kubelet to start a program again.
const PATIENCE: Duration = Duration::from_mins(3);

/// Renews the certificates where one ends at that time or before, or where a renewal was cut off.
pub(super) fn renew(work: &mut Work<'_, '_>, expires: u64) -> Result<KubeadmDone, AgentError> {
    let is_half_made = matches!(
        phase(work),
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting)
    );
    if is_half_made || !has_control_plane(work.system)? {
        let missing = format!(
            "{}/manifests/kube-apiserver.yaml",
            work.system.paths().kubernetes
        );
        return Err(AgentError::Incomplete { missing });
    }
    if work.state.renewal.is_none() {
        if earliest(work)? > expires {
            work.report.doing("the certificates are renewed already");
            return done(work);
        }
        work.state.renewal = Some(Renewal {
            expires,
            is_issued: false,
        });
        work.save()?;
    }
    issue(work)?;
    restart(work)?;
    work.state.renewal = None;
    work.save()?;
    work.report.changed("the certificates of the control plane");
    done(work)
}

fn done(work: &Work<'_, '_>) -> Result<KubeadmDone, AgentError> {
    let admin = Some(read_admin(work)?);
    Ok(KubeadmDone { admin })
}

/// When the first certificate ends.
fn earliest(work: &Work<'_, '_>) -> Result<u64, AgentError> {
    let found = certificates(work.system, true)?;
    // One that nobody can read is renewed.
    Ok(found.map_or(0, |found| found.first.expires))
}

/// Lets kubeadm issue new certificates, unless it came to the end of that.
fn issue(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let Some(renewal) = work.state.renewal.clone() else {
        return Ok(());
    };
    if renewal.is_issued {
        return Ok(());
    }
    let call = Call {
        args: ["certs", "renew", "all"].map(str::to_owned).into(),
        secrets: Vec::new(),
    };
    watch_kubeadm(work, "certs renew", &call)?;
    // kubeadm renews nothing and is content where it does not hold the authority's key.
    if earliest(work)? <= renewal.expires {
        let found = certificates(work.system, true)?;
        let file = found.map_or_else(|| "pki".to_owned(), |found| found.first.file);
        let path = format!("{}/{file}", work.system.paths().kubernetes);
        return Err(AgentError::NotRenewed(path));
    }
    work.state.renewal = Some(Renewal {
        is_issued: true,
        ..renewal
    });
    work.save()
}

/// Restarts the static pods, and kubelet where it does not bring them back.
fn restart(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    if !work.system.answers(HEALTH.0, HEALTH.1) {
        // Nobody would start again what is ended here.
        restart_kubelet(work)?;
    }
    for program in PROGRAMS {
        work.report.doing(format!(
            "restart {program}, which uses the new certificates"
        ));
        work.system.end_static_pod(program)?;
        if work.system.await_static_pod(program, BEFORE_RESTART)? {
            continue;
        }
        restart_kubelet(work)?;
        let patience = work.system.patience().times(PATIENCE);
        if !work.system.await_static_pod(program, patience)? {
            return Err(AgentError::StaticPod {
                program,
                tail: super::complaints(work.system),
            });
        }
    }
    Ok(())
}

fn restart_kubelet(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    work.report
        .doing("restart kubelet, which starts what does not run");
    let stopped = work.system.restart(KUBELET, &work.defined());
    let stopped = stopped
        .map_err(|source| crate::apply::service_failed(work, KUBELET, "restarted", source))?;
    crate::apply::tell_ended(work, KUBELET, stopped);
    Ok(())
}
