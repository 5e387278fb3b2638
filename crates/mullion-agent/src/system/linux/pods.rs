//! Removing what pods and their network left: processes, links, rules, sets.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::super::{Files as _, Program, Programs as _, Removed, SystemError};
use super::Linux;
use super::rules::{is_pod_link, is_pod_set, without_pods};

const DEADLINE: Duration = Duration::from_secs(20);

/// The ways to iptables that a machine may have; rules of one are not seen by the others.
const TABLES: &[&str] = &[
    "iptables",
    "ip6tables",
    "iptables-nft",
    "ip6tables-nft",
    "iptables-legacy",
    "ip6tables-legacy",
];

/// Removes all of it. A part that fails is told and does not stop the others: a link that stays does less harm than a
/// reset that stops half way.
pub(super) fn clear(linux: &Linux, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
    end_containers(linux, on_line)?;
    remove_namespaces(linux, on_line)?;
    for name in linux.list("/sys/class/net")? {
        if is_pod_link(&name) {
            attempt(
                linux,
                &Program::new("ip", ["link", "delete", &name]),
                on_line,
            );
        }
    }
    for tables in TABLES {
        clear_rules(linux, tables, on_line);
    }
    for family in ["ip", "ip6"] {
        clear_table(linux, family, on_line);
    }
    clear_sets(linux, on_line);
    Ok(())
}

/// Where flannel says which addresses the node's pods have, and what is made of it for the container runtime. Without them
/// no pod gets a network until flannel has run again.
const OF_FLANNEL: [&str; 2] = [
    "/run/flannel/subnet.env",
    "/etc/cni/net.d/10-flannel.conflist",
];
/// The bridge that pods are on. It keeps its address, and pods of another network are not put on it.
const BRIDGE: &str = "cni0";
/// The program that holds a pod's network.
const PAUSE: &str = "pause";

/// Ends the networks of pods that the API server knows: kubelet makes them again. Where flannel does not run, the pods'
/// network is not ours, and the CNI that made it renews it.
pub(super) fn renew(linux: &Linux, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
    let mut has_flannel = false;
    // In this order: the second is made of the first.
    for path in OF_FLANNEL {
        has_flannel |= linux.remove(path)? == Removed::Gone;
    }
    if !has_flannel {
        return Ok(());
    }
    let mut count = 0;
    for name in linux.list("/proc")? {
        let Some(process) = name.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        let is_pause = linux.text(&format!("/proc/{name}/comm")).trim() == PAUSE;
        let groups = linux.text(&format!("/proc/{name}/cgroup"));
        if is_pause
            && groups.lines().any(is_of_known_pod)
            && kill_process(process, Signal::TERM).is_ok()
        {
            count += 1;
        }
    }
    on_line(&format!("{count} pods get their network again"));
    if linux.look(&format!("/sys/class/net/{BRIDGE}"))?.is_some() {
        let program = Program::new("ip", ["link", "delete", BRIDGE]);
        attempt(linux, &program, on_line);
    }
    Ok(())
}

/// Whether a line of `/proc/*/cgroup` is of a pod that the API server knows. Its identifier is a UUID, with `-` or, as a
/// part of a slice's name, with `_`. That of a static pod is a digest without either.
fn is_of_known_pod(line: &str) -> bool {
    pod(line).is_some_and(|uid| uid.len() == 36 && uid.contains(['-', '_']))
}

/// Whether a line of `/proc/*/cgroup` is of a static pod, whose identifier is a digest of its manifest.
pub(super) fn is_of_static_pod(line: &str) -> bool {
    pod(line).is_some_and(|uid| uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The identifier of the pod that a line of `/proc/*/cgroup` is of.
fn pod(line: &str) -> Option<&str> {
    let path = line.splitn(3, ':').nth(2).unwrap_or_default();
    let mut parts = path.split('/').skip_while(|part| !is_root(part)).skip(1);
    parts.find_map(|part| match part.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod").map(|(_, uid)| uid),
        None => part.strip_prefix("pod"),
    })
}

/// Whether a part of a cgroup's path is the one that all pods are below.
fn is_root(part: &str) -> bool {
    part == "kubepods" || part == "kubepods.slice"
}

/// Ends containers that run on though nobody watches them: containerd was gone when they should have been removed.
fn end_containers(linux: &Linux, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
    let mut count = 0;
    for name in linux.list("/proc")? {
        let Some(process) = name.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        let groups = linux.text(&format!("/proc/{name}/cgroup"));
        // It may end by itself this very moment.
        if groups.lines().any(is_of_pod) && kill_process(process, Signal::KILL).is_ok() {
            count += 1;
        }
    }
    if count > 0 {
        on_line(&format!("ended {count} processes of pods"));
    }
    Ok(())
}

/// Whether a line of `/proc/*/cgroup` is of a process inside a pod: `4:memory:/kubepods/burstable/pod…/…`.
fn is_of_pod(line: &str) -> bool {
    let path = line.splitn(3, ':').nth(2).unwrap_or_default();
    path.split('/').any(is_root)
}

fn remove_namespaces(linux: &Linux, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
    for name in linux.list("/run/netns")? {
        if name.starts_with("cni-") {
            attempt(
                linux,
                &Program::new("ip", ["netns", "delete", &name]),
                on_line,
            );
        }
    }
    Ok(())
}

fn clear_rules(linux: &Linux, tables: &str, on_line: &mut dyn FnMut(&str)) {
    let (save, restore) = (format!("{tables}-save"), format!("{tables}-restore"));
    let Some(saved) = read(linux, &Program::new(&save, [])) else {
        return;
    };
    if let Some(kept) = without_pods(&saved) {
        attempt(linux, &Program::new(&restore, []).reading(kept), on_line);
    }
}

/// kube-proxy's own table, where it works with nftables.
fn clear_table(linux: &Linux, family: &str, on_line: &mut dyn FnMut(&str)) {
    const TABLE: &str = "kube-proxy";
    if read(
        linux,
        &Program::new("nft", ["list", "table", family, TABLE]),
    )
    .is_some()
    {
        attempt(
            linux,
            &Program::new("nft", ["delete", "table", family, TABLE]),
            on_line,
        );
    }
}

fn clear_sets(linux: &Linux, on_line: &mut dyn FnMut(&str)) {
    let names = read(linux, &Program::new("ipset", ["list", "-n"])).unwrap_or_default();
    for name in names.lines().filter(|name| is_pod_set(name)) {
        attempt(linux, &Program::new("ipset", ["destroy", name]), on_line);
    }
}

/// What a program writes, where it is there and ends well.
fn read(linux: &Linux, program: &Program) -> Option<String> {
    linux.find_program(&program.name)?;
    let program = program.clone().within(DEADLINE);
    let mut output = String::new();
    let ended = linux.run(&program, &mut |line| {
        output.push_str(line);
        output.push('\n');
    });
    ended
        .is_ok_and(super::super::Ended::is_well)
        .then_some(output)
}

/// Runs a program; a failure is told.
fn attempt(linux: &Linux, program: &Program, on_line: &mut dyn FnMut(&str)) {
    let program = program.clone().within(DEADLINE);
    let words = || format!("{} {}", program.name, program.args.join(" "));
    match linux.run(&program, &mut |line| on_line(line)) {
        Ok(ended) if ended.is_well() => {}
        Ok(ended) => on_line(&format!("`{}` {ended}", words())),
        Err(error) => on_line(&format!("`{}`: {error}", words())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_04_static_pods_are_told_from_those_that_the_api_server_knows() {
        let known = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let of_slice = known.replace('-', "_");
        for line in [
            format!("4:memory:/kubepods/burstable/pod{known}/abc"),
            format!("0::/kubepods/pod{known}/abc"),
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{of_slice}.slice/cri-containerd-a.scope"
            ),
            format!("0::/machine/kubepods.slice/kubepods-pod{of_slice}.slice/x"),
        ] {
            assert!(is_of_known_pod(&line), "{line}");
            assert!(!is_of_static_pod(&line), "{line}");
        }
        let file = "d2b1a1e5c3f0479c8e0b7d7a1b2c3d4e";
        for line in [
            format!("0::/kubepods/burstable/pod{file}/abc"),
            format!("0::/kubepods.slice/kubepods-burstable-pod{file}.slice/x"),
        ] {
            assert!(is_of_static_pod(&line), "{line}");
            assert!(!is_of_known_pod(&line), "{line}");
        }
        for line in [
            format!("0::/system.slice/pod{known}/abc"),
            format!("0::/system.slice/pod{file}/abc"),
            "0::/kubepods".into(),
            "0::/".into(),
        ] {
            assert!(!is_of_known_pod(&line), "{line}");
            assert!(!is_of_static_pod(&line), "{line}");
        }
    }

    #[test]
    fn processes_of_pods_are_told_from_others() {
        assert!(is_of_pod("4:memory:/kubepods/burstable/pod1/abc"));
        assert!(is_of_pod(
            "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope"
        ));
        assert!(!is_of_pod("0::/system.slice/kubelet.service"));
        assert!(!is_of_pod("0::/"));
    }
}
