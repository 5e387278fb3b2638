//! Emptying a machine of Kubernetes, thoroughly: what `kubeadm reset` leaves behind breaks the next init or join.

use std::time::Duration;

use mullion_wire::KubeadmPhase;

use super::{KUBELET, PODS};
use crate::failure::AgentError;
use crate::state::KubeadmRecord;
use crate::system::{Activity, Family, Removed};
use crate::work::Work;

/// With containerd or the API server gone kubeadm waits for them; what it cannot do in this time is done without it.
const DEADLINE: Duration = Duration::from_mins(2);
/// The same on Windows, whose containers end slowly, and kubeadm ends one after the other.
const WINDOWS_DEADLINE: Duration = Duration::from_mins(10);

/// Files of kubelet that belong to the cluster. Its folder itself may be a mount, and pods' volumes below it may be
/// mounted still: only what is named here is removed.
const OF_KUBELET: &[&str] = &[
    "pki",
    "config.yaml",
    "instance-config.yaml",
    "kubeadm-flags.env",
    "cpu_manager_state",
    "memory_manager_state",
    "dra_manager_state",
];

/// Folders of kubelet with sockets. Where something stands in for sockets kubelet does not know one that was left behind,
/// and does not start again.
const SOCKETS_OF_KUBELET: &[&str] = &["device-plugins", "plugins_registry", "pod-resources"];

/// The services of the pods' network on Windows, in the order in which they are started.
const NETWORK: &[&str] = &["flanneld", "kube-proxy"];

/// Empties the machine of Kubernetes. Where nothing of it is there, nothing is done.
pub(super) fn reset(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    if work.state.kubeadm.is_none() && find_left(work)?.is_none() {
        return Ok(());
    }
    let authority = work
        .state
        .kubeadm
        .take()
        .and_then(|record| record.authority);
    work.state.kubeadm = Some(KubeadmRecord {
        phase: KubeadmPhase::Resetting,
        authority,
    });
    work.save()?;
    work.report.doing("kubeadm reset");
    start_containerd(work)?;
    run_kubeadm(work);
    stop_kubelet(work)?;
    let stopped = stop_network(work)?;
    {
        let report = &mut *work.report;
        // The blueprint's own network is not the pods'.
        let ours = work.state.windows.network.as_deref();
        work.system
            .clear_pods(ours, &mut |line| report.output(line))?;
    }
    remove_files(work)?;
    for name in stopped {
        // One that was deleted while it ran is gone once it was stopped.
        if !is_there(work, name)? {
            continue;
        }
        // They wait until the machine is a node again.
        let started = work.system.start(name);
        started.map_err(|source| crate::apply::service_failed(work, name, "started", source))?;
    }
    if let Some(path) = find_left(work)? {
        return Err(AgentError::LeftBehind(path));
    }
    work.state.kubeadm = None;
    work.state.renewal = None;
    work.save()?;
    work.report.changed("Kubernetes was removed");
    Ok(())
}

/// Whether something in kubeadm's folder belongs to the cluster: kubeconfigs and certificates do, patches do not.
fn is_of_cluster(name: &str) -> bool {
    name == "pki" || matches!(name.rsplit_once('.'), Some((_, "conf")))
}

/// Something of Kubernetes that is on the machine.
fn find_left(work: &Work<'_, '_>) -> Result<Option<String>, AgentError> {
    let system = work.system;
    let paths = system.paths();
    for name in system.list(&paths.kubernetes)? {
        if is_of_cluster(&name) {
            return Ok(Some(format!("{}/{name}", paths.kubernetes)));
        }
    }
    let manifests = format!("{}/manifests", paths.kubernetes);
    if let Some(name) = system.list(&manifests)?.first() {
        return Ok(Some(format!("{manifests}/{name}")));
    }
    let of_kubelet = OF_KUBELET
        .iter()
        .map(|name| format!("{}/{name}", paths.kubelet));
    let etcd = format!("{}/member", paths.etcd);
    for path in of_kubelet.chain([etcd]) {
        if system.look(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// kubeadm removes containers through containerd, which may have been stopped.
fn start_containerd(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let found = work.system.services(&["containerd"])?;
    let is_stopped = found
        .get("containerd")
        .is_some_and(|facts| facts.is_enabled && facts.activity == Activity::Stopped);
    if is_stopped && let Err(error) = work.system.start("containerd") {
        work.report
            .doing(format!("containerd does not start, so it is left: {error}"));
    }
    Ok(())
}

/// Runs `kubeadm reset`; what it does not manage is told and then done without it.
fn run_kubeadm(work: &mut Work<'_, '_>) {
    if work.system.find_program("kubeadm").is_none() {
        return;
    }
    let socket = work.system.paths().container_socket.clone();
    let deadline = match work.system.family() {
        Family::Linux => DEADLINE,
        Family::Windows => WINDOWS_DEADLINE,
    };
    let args = ["reset", "--force", "--cri-socket", &socket];
    let program = super::program(work.system, args, deadline);
    let report = &mut *work.report;
    match work.system.run(&program, &mut |line| report.output(line)) {
        Ok(ended) if ended.is_well() => {}
        Ok(ended) => report.doing(format!(
            "`kubeadm reset` {ended}: the rest is done without it"
        )),
        Err(error) => report.doing(format!("{error}: the rest is done without it")),
    }
}

pub(super) fn stop_kubelet(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let found = work.system.services(&[KUBELET])?;
    let runs = found
        .get(KUBELET)
        .is_some_and(|facts| facts.activity != Activity::Stopped);
    if runs {
        stop(work, KUBELET)?;
    }
    Ok(())
}

fn stop(work: &mut Work<'_, '_>, name: &str) -> Result<(), AgentError> {
    let stopped = work.system.stop(name, &work.defined());
    let stopped =
        stopped.map_err(|source| crate::apply::service_failed(work, name, "stopped", source))?;
    crate::apply::tell_ended(work, name, stopped);
    Ok(())
}

/// Stops what would make the pods' network anew while it is removed; gives back what ran. On Linux pods do that.
pub(super) fn stop_network(work: &mut Work<'_, '_>) -> Result<Vec<&'static str>, AgentError> {
    if work.system.family() != Family::Windows {
        return Ok(Vec::new());
    }
    let found = work.system.services(NETWORK)?;
    let runs = |name: &str| {
        let facts = found.get(name);
        facts.is_some_and(|facts| facts.activity != Activity::Stopped)
    };
    // A reset that was cut off has stopped those that the blueprint has running.
    let applied = work.state.applied.as_ref();
    let is_wanted = |name: &str| applied.is_some_and(|applied| applied.running.contains(name));
    let mut names = Vec::new();
    for name in NETWORK.iter().copied() {
        // What somebody deleted is no reason to fail: the next apply defines it anew.
        if (runs(name) || is_wanted(name)) && is_there(work, name)? {
            names.push(name);
        }
    }
    // The last first.
    for name in names.iter().rev() {
        stop(work, name)?;
    }
    Ok(names)
}

/// Whether Windows knows a service: one that it does not know can be neither stopped nor started.
fn is_there(work: &Work<'_, '_>, name: &str) -> Result<bool, AgentError> {
    Ok(work.system.definition(name)?.is_some())
}

fn remove_files(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    let system = work.system;
    let paths = system.paths();
    let mut doomed = Vec::new();
    for name in system.list(&paths.kubernetes)? {
        if is_of_cluster(&name) || name == "tmp" {
            doomed.push(format!("{}/{name}", paths.kubernetes));
        }
    }
    // These folders may be mounts or come from the blueprint: they stay, and what is in them goes.
    let manifests = format!("{}/manifests", paths.kubernetes);
    let applied = work.state.applied.as_ref();
    let is_of_blueprint = |path: &&String| {
        work.state.folders.contains(*path)
            || applied.is_some_and(|applied| applied.folders.contains(*path))
    };
    let (kept, gone): (Vec<_>, Vec<_>) = paths.network_state.iter().partition(is_of_blueprint);
    for folder in [&manifests, &paths.network].into_iter().chain(kept) {
        let names = system.list(folder)?;
        doomed.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
    }
    let of_kubelet = OF_KUBELET.iter().chain(SOCKETS_OF_KUBELET);
    doomed.extend(of_kubelet.map(|name| format!("{}/{name}", paths.kubelet)));
    doomed.push(format!("{}/member", paths.etcd));
    doomed.extend(gone.into_iter().cloned());
    for path in doomed {
        if system.remove(&path)? == Removed::Gone {
            work.report.doing(format!("removed `{path}`"));
        }
    }
    if system.family() == Family::Windows {
        system.remove_empty(&format!("{}/{PODS}", paths.kubelet))?;
    }
    Ok(())
}
