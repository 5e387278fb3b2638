//! Ways in which Windows nodes are known to fail that the agent prevents: each test is named after its number in
//! `docs/windows-failure-modes.md`.

use mullion_wire::{Kubeadm, Request};

use super::fixtures::{apply, ask_well};
use super::windows;
use crate::system::Activity;
use crate::system::memory::Memory;

#[test]
fn mode_08_what_an_earlier_join_left_is_cleared_and_no_service_makes_it_anew() {
    let machine = Memory::windows("win1");
    let left = [
        "C:/etc/kubernetes/kubelet.conf",
        "C:/etc/kubernetes/pki/ca.crt",
        "C:/etc/cni/net.d/10-flannel.conflist",
        "C:/run/flannel/subnet.env",
        "C:/var/lib/cni/networks/flannel.4096/10.244.3.3",
        "C:/var/lib/kubelet/config.yaml",
    ];
    for path in left {
        machine.put_file(path, b"", 0o600);
    }
    for name in ["containerd", "flanneld", "kube-proxy", "kubelet"] {
        machine.put_service(name, true, Activity::Running);
    }
    let request = Request::Kubeadm {
        step: Kubeadm::Reset,
    };
    ask_well(&machine, &request);
    for path in left {
        assert_eq!(machine.file(path), None, "{path}");
    }
    let services = machine.all_services();
    // kubelet holds the port that the next join wants free; the others wait for that join.
    assert_eq!(services["kubelet"].activity, Activity::Stopped);
    for name in ["flanneld", "kube-proxy"] {
        assert_eq!(services[name].activity, Activity::Running);
    }
    let log = machine.log();
    let at = |words: &str| log.iter().position(|line| line == words);
    assert!(at("stop kube-proxy") < at("stop flanneld"), "{log:?}");
    assert!(at("stop flanneld") < at("clear pods"), "{log:?}");
    assert!(at("clear pods") < at("start flanneld"), "{log:?}");
    assert!(at("start flanneld") < at("start kube-proxy"), "{log:?}");
}

#[test]
fn mode_14_a_service_that_is_a_user_s_becomes_the_system_s_own() {
    let (machine, blueprint) = (windows::ready(), windows::blueprint());
    ask_well(&machine, &apply(&blueprint));
    let before = machine.all_services()["containerd"].starts;
    machine.give_to("containerd", r".\builder");
    // Nothing else of it is another.
    let (changed, events) = ask_well(&machine, &apply(&blueprint));
    assert!(changed > 0, "{events:?}");
    let containerd = machine.all_services()["containerd"].clone();
    assert!(containerd.account.is_the_systems());
    assert_eq!(containerd.starts, before + 1, "it runs as the user no more");
    assert_eq!(ask_well(&machine, &apply(&blueprint)).0, 0);
}

#[test]
fn mode_54_an_apply_leaves_services_behind_and_no_program_of_its_own() {
    let (machine, blueprint) = (windows::ready(), windows::blueprint());
    ask_well(&machine, &apply(&blueprint));
    assert_eq!(
        machine.all_services()["containerd"].activity,
        Activity::Running
    );
    // Windows' SSH server ends those with the session.
    let left = machine.running_programs();
    assert!(left.is_empty(), "{left:?}");
}
