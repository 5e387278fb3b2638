//! Running kubeadm: init, join, the renewal of certificates, and the way back.
//!
//! How far it came is written down before and after, so that work which was killed in the middle is told from work that
//! is finished: the former is cleared and begun anew, the latter is left alone.

use std::collections::BTreeSet;
use std::time::Duration;

use mullion_wire::{Event, Kubeadm, KubeadmDone, KubeadmPhase, Secret, Sha256Digest};

use crate::facts::{authority, has_control_plane};
use crate::failure::{AgentError, How};
use crate::pem::authority_digest;
use crate::state::{KubeadmRecord, State};
use crate::system::{Family, Kind, Program, System, Tail};
use crate::work::Work;

mod authority;
mod log;
mod register;
mod renew;
mod reset;

/// The service that kubeadm starts, of those that are enabled alone.
const KUBELET: &str = "kubelet";

/// The folder of pods' volumes, in kubelet's.
const PODS: &str = "pods";

/// For what kubeadm does not end by itself. Longer than all of its own timeouts together, which grow with the same patience
/// ([`mullion_wire::KUBEADM_TIMEOUTS`]): kubeadm says what it waited for, and the agent cannot.
const DEADLINE: Duration = Duration::from_mins(25);
/// Where kubelet says that it is well.
const HEALTH: (u16, &str) = (10248, "/healthz");
/// So many lines of kubelet's are shown, out of so many.
const KUBELET_LINES: usize = 10;
const KUBELET_LOG: usize = 400;

/// Runs what is asked for.
pub(crate) fn run(work: &mut Work<'_, '_>, step: &Kubeadm) -> Result<KubeadmDone, AgentError> {
    match step {
        Kubeadm::Init {
            config,
            ignore,
            upload_certs,
            patches,
        } => {
            let mut args = vec!["init"];
            if *upload_certs {
                args.push("--upload-certs");
            }
            let call = Call::new(work, args, config, ignore, patches.as_deref())?;
            init(work, &call)
        }
        Kubeadm::Join {
            config,
            discovery,
            discovery_path,
            ignore,
            patches,
        } => {
            let mut call = Call::new(work, vec!["join"], config, ignore, patches.as_deref())?;
            call.secrets.push((discovery_path.clone(), discovery));
            join(work, &call, discovery)
        }
        Kubeadm::Reset => {
            reset::reset(work)?;
            Ok(KubeadmDone { admin: None })
        }
        Kubeadm::Register => {
            register::register(work)?;
            Ok(KubeadmDone { admin: None })
        }
        Kubeadm::Renew { expires } => renew::renew(work, *expires),
        Kubeadm::ReadAdmin => Ok(KubeadmDone {
            admin: Some(read_admin(work)?),
        }),
        Kubeadm::ReadAuthority => {
            let files = authority::read(work)?;
            work.report.tell(&Event::Authority { files });
            Ok(KubeadmDone { admin: None })
        }
        Kubeadm::HoldAuthority { files } => {
            authority::hold(work, files)?;
            Ok(KubeadmDone { admin: None })
        }
        _ => Err(AgentError::UnknownRequest {
            agent: crate::VERSION,
        }),
    }
}

/// One call of kubeadm.
struct Call<'a> {
    args: Vec<String>,
    /// Files that exist while it runs.
    secrets: Vec<(String, &'a Secret)>,
}

impl<'a> Call<'a> {
    fn new(
        work: &Work<'_, '_>,
        args: Vec<&str>,
        config: &'a Secret,
        ignore: &BTreeSet<String>,
        patches: Option<&str>,
    ) -> Result<Self, AgentError> {
        if let Some(all) = ignore.iter().find(|name| name.eq_ignore_ascii_case("all")) {
            return Err(AgentError::IgnoresAll(all.clone()));
        }
        if let Some(folder) = patches {
            check_patches(work, folder, config)?;
        }
        let path = format!("{}/kubeadm.yaml", work.system.paths().secrets);
        let mut args: Vec<_> = args.into_iter().map(str::to_owned).collect();
        args.extend(["--config".to_owned(), path.clone()]);
        if !ignore.is_empty() {
            let names: Vec<_> = ignore.iter().map(String::as_str).collect();
            args.push(format!("--ignore-preflight-errors={}", names.join(",")));
        }
        Ok(Self {
            args,
            secrets: vec![(path, config)],
        })
    }
}

/// kubeadm takes `--patches` only without `--config`, so the configuration itself has to name the folder; patches that
/// nobody applies would be found out much later.
fn check_patches(work: &Work<'_, '_>, folder: &str, config: &Secret) -> Result<(), AgentError> {
    let failed = |why| {
        Err(AgentError::Patches {
            folder: folder.to_owned(),
            why,
        })
    };
    if !config.reveal().contains(folder) {
        return failed("is not named by the configuration (`patches.directory`)");
    }
    let look = work.system.look(folder)?;
    if look.is_none_or(|look| look.kind != Kind::Folder) {
        return failed("is not there");
    }
    Ok(())
}

fn phase(work: &Work<'_, '_>) -> Option<KubeadmPhase> {
    work.state.kubeadm.as_ref().map(|record| record.phase)
}

fn init(work: &mut Work<'_, '_>, call: &Call<'_>) -> Result<KubeadmDone, AgentError> {
    let kubernetes = work.system.paths().kubernetes.clone();
    let parts = [
        "admin.conf",
        "kubelet.conf",
        "manifests/kube-apiserver.yaml",
    ]
    .map(|part| format!("{kubernetes}/{part}"));
    match phase(work) {
        Some(KubeadmPhase::Finished) => {
            // Its etcd holds a cluster: whatever is missing, nothing here is wiped.
            for part in parts {
                if work.system.look(&part)?.is_none() {
                    return Err(AgentError::Incomplete { missing: part });
                }
            }
            work.report.doing("the control plane is there already");
            let admin = Some(read_admin(work)?);
            return Ok(KubeadmDone { admin });
        }
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting) => clear(work)?,
        None => {
            refuse_strangers(work, &parts)?;
            if has_control_plane(work.system)? {
                return Err(AgentError::NotOurs {
                    found: work.system.paths().etcd.clone(),
                });
            }
        }
    }
    begin(work, call, None)?;
    run_kubeadm(work, "init", call)?;
    let admin = read_admin(work)?;
    finish(work)?;
    work.report.changed("control plane");
    Ok(KubeadmDone { admin: Some(admin) })
}

fn join(
    work: &mut Work<'_, '_>,
    call: &Call<'_>,
    discovery: &Secret,
) -> Result<KubeadmDone, AgentError> {
    let kubernetes = work.system.paths().kubernetes.clone();
    let kubelet = format!("{kubernetes}/kubelet.conf");
    let wanted = authority_digest(discovery.reveal());
    let found = authority(work.system)?;
    match phase(work) {
        Some(KubeadmPhase::Begun | KubeadmPhase::Resetting) => clear(work)?,
        Some(KubeadmPhase::Finished) => {
            return match found {
                None => Err(AgentError::Incomplete { missing: kubelet }),
                Some(found) if wanted.is_some() && wanted != Some(found.clone()) => {
                    Err(AgentError::OtherCluster { found })
                }
                Some(_) => Ok(already_joined(work)),
            };
        }
        None => {
            let is_node = wanted.is_some() && wanted == found && has_joined(work, &kubernetes)?;
            if is_node {
                // The agent's state was lost and the node was not: it is taken as it is.
                finish(work)?;
                return Ok(already_joined(work));
            }
            refuse_strangers(work, &[kubelet])?;
        }
    }
    begin(work, call, wanted)?;
    run_kubeadm(work, "join", call)?;
    finish(work)?;
    work.report.changed("node");
    Ok(KubeadmDone { admin: None })
}

fn already_joined(work: &mut Work<'_, '_>) -> KubeadmDone {
    work.report.doing("the machine is a node already");
    KubeadmDone { admin: None }
}

/// Whether a join came to its end: kubeadm removes the bootstrap's file, and kubelet is well.
fn has_joined(work: &Work<'_, '_>, kubernetes: &str) -> Result<bool, AgentError> {
    let bootstrap = format!("{kubernetes}/bootstrap-kubelet.conf");
    Ok(work.system.look(&bootstrap)?.is_none() && work.system.answers(HEALTH.0, HEALTH.1))
}

/// What the agent did not make it does not wipe.
fn refuse_strangers(work: &Work<'_, '_>, paths: &[String]) -> Result<(), AgentError> {
    for path in paths {
        if work.system.look(path)?.is_some() {
            return Err(AgentError::NotOurs {
                found: path.clone(),
            });
        }
    }
    Ok(())
}

/// Clears what a killed run left half made.
fn clear(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    work.report
        .doing("an earlier run was cut off: what it left is cleared first");
    reset::reset(work)
}

/// Writes down that it is begun, and which secrets will lie where.
fn begin(
    work: &mut Work<'_, '_>,
    call: &Call<'_>,
    authority: Option<Sha256Digest>,
) -> Result<(), AgentError> {
    work.state.kubeadm = Some(KubeadmRecord {
        phase: KubeadmPhase::Begun,
        authority,
    });
    work.state.secrets = call.secrets.iter().map(|(path, _)| path.clone()).collect();
    // kubeadm makes this folder and leaves it behind.
    let manifests = format!("{}/manifests", work.system.paths().kubernetes);
    if work.system.look(&manifests)?.is_none() {
        work.state.folders.insert(manifests);
    }
    work.save()?;
    let kubelet = work.system.paths().kubelet.clone();
    if work.system.family() == Family::Windows && work.system.look(&kubelet)?.is_some() {
        // kubelet makes both without saying who may open them, and they would be as their folder is: open to every user
        // who wants to read its keys, and closed to the users of containers, who write into volumes that kubelet gives
        // no permissions of their own either.
        work.system.make_folder(&format!("{kubelet}/pki"), 0o700)?;
        work.system
            .make_folder(&format!("{kubelet}/{PODS}"), 0o1777)?;
    }
    Ok(())
}

/// Whether kubeadm has started a service: it has to run from then on.
pub(crate) fn was_started(state: &State, service: &str) -> bool {
    service == KUBELET && state.is_of_cluster()
}

/// Writes down that it is finished.
fn finish(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    work.state.kubeadm = Some(KubeadmRecord {
        phase: KubeadmPhase::Finished,
        authority: authority(work.system)?,
    });
    work.save()
}

fn read_admin(work: &Work<'_, '_>) -> Result<Secret, AgentError> {
    let path = format!("{}/admin.conf", work.system.paths().kubernetes);
    let bytes = work.system.read(&path)?.ok_or(AgentError::Absent(path))?;
    Ok(Secret::new(String::from_utf8_lossy(&bytes)))
}

/// What kubelet complained of last.
pub(crate) fn complaints(system: &dyn System) -> Vec<String> {
    let log = system.service_log(KUBELET, KUBELET_LOG);
    let lines = log::telling(&log, KUBELET_LINES);
    let told = lines.into_iter().map(|line| format!("kubelet: {line}"));
    told.collect()
}

/// Runs kubeadm with its secrets in place, and takes them away again, whatever happens.
fn run_kubeadm(
    work: &mut Work<'_, '_>,
    step: &'static str,
    call: &Call<'_>,
) -> Result<(), AgentError> {
    let outcome = lay_secrets(work, call).and_then(|()| watch_kubeadm(work, step, call));
    let removed = work.remove_secrets();
    outcome.and(removed)
}

fn lay_secrets(work: &Work<'_, '_>, call: &Call<'_>) -> Result<(), AgentError> {
    work.system
        .make_folder(&work.system.paths().secrets, 0o700)?;
    for (path, secret) in &call.secrets {
        work.system.write(path, secret.reveal().as_bytes(), 0o600)?;
    }
    Ok(())
}

/// kubeadm with these arguments.
///
/// Where the agent is killed, a kubeadm on Linux goes on, and the next agent waits for it. On Windows it goes with its
/// agent: there one that had lost its agent was seen to hang for good, on a stand-in. What it leaves is cleared either way.
fn program<'a>(
    system: &dyn System,
    args: impl IntoIterator<Item = &'a str>,
    deadline: Duration,
) -> Program {
    // It would write the proxy into the control plane's pods, where it stays, and everybody reads a password that the
    // machine's own may have. What it speaks to itself is near.
    let program = Program::new("kubeadm", args)
        .within(deadline)
        .without_proxy();
    match system.family() {
        Family::Linux => program.holding_lock(),
        Family::Windows => program,
    }
}

fn watch_kubeadm(
    work: &mut Work<'_, '_>,
    step: &'static str,
    call: &Call<'_>,
) -> Result<(), AgentError> {
    work.report.doing(format!("kubeadm {step}"));
    let args = call.args.iter().map(String::as_str);
    let program = program(work.system, args, DEADLINE);
    let mut tail = Tail::default();
    let report = &mut *work.report;
    let ended = work.system.run(&program, &mut |line| {
        tail.push(line);
        report.output(line);
    });
    let Some(how) = How::of(ended)? else {
        return Ok(());
    };
    let mut tail = tail.into_lines();
    // A kubelet that kubeadm waited for may be well and still not bring any pod up.
    let has_started = tail.iter().any(|line| line.contains("[kubelet-start]"));
    if has_started || !work.system.answers(HEALTH.0, HEALTH.1) {
        tail.extend(complaints(work.system));
    }
    Err(AgentError::Kubeadm { step, how, tail })
}

#[cfg(test)]
mod tests {
    use mullion_wire::{KUBEADM_TIMEOUTS, Patience};

    use super::*;

    #[test]
    fn the_deadline_of_the_agent_is_longer_than_all_timeouts_of_kubeadm_together() {
        for patience in [100, 200, 10_000].map(Patience::of_hundredths) {
            let timeouts = KUBEADM_TIMEOUTS.map(|(_, usual)| patience.times(usual));
            assert!(patience.times(DEADLINE) > timeouts.iter().sum());
        }
    }
}
