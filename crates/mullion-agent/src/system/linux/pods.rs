//! Removing what pods and their network left: processes, links, rules, sets.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::super::{Files as _, Program, Programs as _, SystemError};
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
    path.split('/')
        .any(|part| part == "kubepods" || part == "kubepods.slice")
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
    fn processes_of_pods_are_told_from_others() {
        assert!(is_of_pod("4:memory:/kubepods/burstable/pod1/abc"));
        assert!(is_of_pod(
            "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope"
        ));
        assert!(!is_of_pod("0::/system.slice/kubelet.service"));
        assert!(!is_of_pod("0::/"));
    }
}
