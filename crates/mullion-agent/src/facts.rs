//! What a machine is and has.

use mullion_wire::{Facts, KubeadmPhase, Sha256Digest};

use crate::apply::{definitions, plain, windows};
use crate::certificates::certificates;
use crate::failure::AgentError;
use crate::kubeadm::was_started;
use crate::pem::{certificate_digest, common_name, expiry};
use crate::state::Applied;
use crate::system::registry::awaited_renames;
use crate::system::{Activity, FirewallState, Kind, Program, System};
use crate::work::Work;

/// Programs whose versions are asked for on Windows, where no package tells them.
const PROGRAMS: &[&str] = &["containerd", "flanneld", "kube-proxy", "kubelet"];

/// The name in a kubelet's certificate begins so; its node's name follows.
const NODE_USER: &str = "system:node:";

/// Everything that is known of the machine. Changes nothing, save what is remembered of large files.
pub(crate) fn facts(work: &mut Work<'_, '_>) -> Result<Facts, AgentError> {
    let mut facts = work.system.describe()?;
    facts.version = mullion_wire::VERSION;
    facts.reboot_pending = work.restart_pending();
    facts.reboot_of_system = facts.reboot_pending.is_some() && !work.awaits_restart();
    facts.next_start = awaited_renames(|key, name| work.system.value(key, name).ok().flatten());
    facts.ran.clone_from(&work.state.ran);
    if let Some(applied) = work.state.applied.clone() {
        facts.drift = drift(work, &applied)?;
        if facts.drift.is_empty() {
            facts.blueprint = Some(applied.blueprint);
            facts.mark = Some(applied.mark);
        }
    }
    facts.claim.clone_from(&work.state.claim);
    facts.kubeadm = work.state.kubeadm.as_ref().map(|record| record.phase);
    let is_half_made = matches!(
        facts.kubeadm,
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting)
    );
    if !is_half_made {
        facts.joined = authority(work.system)?;
        describe_certificate(work.system, &mut facts)?;
    }
    facts.control_plane = has_control_plane(work.system)?;
    if facts.control_plane && !is_half_made {
        let found = certificates(work.system, work.state.renewal.is_some())?;
        facts.certificates = found.map(Box::new);
    }
    facts.kubelet = version(work, "kubelet")?;
    if let Some(windows) = &mut facts.windows {
        for name in PROGRAMS {
            let version = version(work, name)?;
            windows
                .programs
                .extend(version.map(|version| ((*name).to_owned(), version)));
        }
    }
    work.digests.save(work.system)?;
    Ok(facts)
}

/// The digest of the authority of the cluster that kubelet belongs to.
pub(crate) fn authority(system: &dyn System) -> Result<Option<Sha256Digest>, AgentError> {
    let folder = &system.paths().kubernetes;
    if system.look(&format!("{folder}/kubelet.conf"))?.is_none() {
        return Ok(None);
    }
    let authority = system.read(&format!("{folder}/pki/ca.crt"))?;
    Ok(authority.and_then(|pem| certificate_digest(&String::from_utf8_lossy(&pem))))
}

/// Whose kubelet's certificate is, and until when it is good. Kubelet renews it while it runs, and one whose machine was
/// off for longer than that is let in nowhere. Whether it is so is the controller's to say: this machine's clock may be
/// wrong.
fn describe_certificate(system: &dyn System, facts: &mut Facts) -> Result<(), AgentError> {
    let path = format!("{}/pki/kubelet-client-current.pem", system.paths().kubelet);
    if let Some(pem) = system.read(&path)? {
        let pem = String::from_utf8_lossy(&pem);
        facts.certificate_expires = expiry(&pem);
        let name = common_name(&pem);
        facts.node = name.and_then(|name| Some(name.strip_prefix(NODE_USER)?.to_owned()));
    }
    Ok(())
}

/// Whether a control plane was begun here.
pub(crate) fn has_control_plane(system: &dyn System) -> Result<bool, AgentError> {
    let paths = system.paths();
    let manifest = format!("{}/manifests/kube-apiserver.yaml", paths.kubernetes);
    // Its folder alone says nothing: it may be a mount that was made for it.
    let data = format!("{}/member", paths.etcd);
    Ok(system.look(&manifest)?.is_some() || system.look(&data)?.is_some())
}

/// What is no longer as it was applied, for people.
fn drift(work: &mut Work<'_, '_>, applied: &Applied) -> Result<Vec<String>, AgentError> {
    let mut drift = Vec::new();
    for (path, laid) in &applied.files {
        match work.system.look(path)? {
            None => drift.push(format!("`{path}` is gone")),
            Some(look) if look.kind != Kind::File => drift.push(format!("`{path}` is no file")),
            Some(look) => {
                if work.digests.of(work.system, path, &look)? != laid.sha256 {
                    drift.push(format!("`{path}` was changed"));
                } else if look.mode != laid.mode {
                    drift.push(format!("the mode of `{path}` was changed"));
                }
            }
        }
    }
    for (name, value) in &applied.settings {
        let found = work.system.setting(name)?;
        if found.as_deref() != Some(plain(value).as_str()) {
            drift.push(format!("`{name}` is not `{value}`"));
        }
    }
    for path in &applied.folders {
        if work.system.look(path)?.is_none() {
            drift.push(format!("`{path}` is gone"));
        }
    }
    if let Some(wanted) = &applied.firewall {
        match work.system.firewall(wanted) {
            Ok(FirewallState::Different) => {
                let group = &wanted.group;
                drift.push(format!("the firewall group `{group}` is not as wanted"));
            }
            // Without means an apply could do nothing either.
            Ok(FirewallState::Set | FirewallState::Stopped | FirewallState::NoMeans) => {}
            Err(error) => drift.push(not_compared(&error)),
        }
    }
    if let Some(applied) = &applied.windows {
        let settings = windows::drift(work.system, &applied.settings);
        let definitions = definitions::drift(work.system, &applied.definitions);
        for found in [settings, definitions] {
            drift.extend(found.unwrap_or_else(|error| vec![not_compared(&error)]));
        }
    }
    let enabled = applied.enabled.iter();
    let started_by_kubeadm = enabled.filter(|name| was_started(&work.state, name));
    let names = applied.running.iter().chain(started_by_kubeadm);
    let names: Vec<_> = names.map(String::as_str).collect();
    if !names.is_empty() {
        // A service manager that does not answer is told by the next apply, not by a question for facts.
        let found = work.system.services(&names).unwrap_or_default();
        let stopped = found
            .iter()
            .filter(|(_, facts)| facts.activity == Activity::Stopped);
        drift.extend(stopped.map(|(name, _)| format!("the service `{name}` does not run")));
    }
    Ok(drift)
}

/// What cannot be asked any more is not as it was, and no reason to tell nothing at all.
fn not_compared(error: &impl std::fmt::Display) -> String {
    format!("not to be compared: {error}")
}

/// The version of a program, asked once for each that stands in its place.
fn version(work: &mut Work<'_, '_>, name: &str) -> Result<Option<String>, AgentError> {
    let Some(path) = work.system.find_program(name) else {
        return Ok(None);
    };
    let Some(look) = work.system.look(&path)? else {
        return Ok(None);
    };
    if let Some(version) = work.digests.version(&path, &look) {
        return Ok(Some(version.to_owned()));
    }
    let program = Program::new(&path, ["--version"]).within(std::time::Duration::from_secs(10));
    let mut version = None;
    // A program that cannot say its version is one without a version.
    let ended = work.system.run(&program, &mut |line| {
        version = version.take().or_else(|| version_in(line));
    });
    if !ended.is_ok_and(crate::system::Ended::is_well) {
        return Ok(None);
    }
    if let Some(version) = &version {
        work.digests.remember_version(&path, &look, version);
    }
    Ok(version)
}

/// The version in `Kubernetes v1.36.4`, or in `containerd github.com/containerd/containerd/v2 v2.2.2 1a2b3c4`.
fn version_in(line: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let number = word.strip_prefix('v').unwrap_or(word);
        let (first, rest) = number.split_once('.').unwrap_or_default();
        let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
        is_number && rest.starts_with(|sign: char| sign.is_ascii_digit())
    };
    line.split_whitespace()
        .find(is_version)
        .map(|word| word.trim_end_matches(',').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_their_versions_in_many_ways() {
        for (line, version) in [
            ("Kubernetes v1.36.4", Some("v1.36.4")),
            (
                "containerd github.com/containerd/containerd/v2 v2.2.2 1a2b3c4",
                Some("v2.2.2"),
            ),
            ("v0.28.0", Some("v0.28.0")),
            ("crictl version 1.36.0, built today", Some("1.36.0")),
            ("kubelet: no such flag", None),
            ("v1 and 2", None),
        ] {
            assert_eq!(version_in(line).as_deref(), version, "{line}");
        }
    }
}
