//! Ways in which Windows nodes are known to fail that the agent prevents: each test is named after its number in
//! `docs/windows-failure-modes.md`.

use mullion_wire::{Kubeadm, Request};

use super::fixtures::{apply, ask_well};
use super::windows;
use crate::system::Activity;
use crate::system::memory::{Memory, Node};

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
        let definition = windows::definition(&format!("{name}.exe"));
        machine.put_defined(name, definition, Activity::Running);
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
fn mode_23_the_network_is_made_before_any_service_is_started() {
    let (machine, blueprint) = (windows::ready(), windows::blueprint());
    let before = machine.log().len();
    ask_well(&machine, &apply(&blueprint));
    let log = machine.log().split_off(before);
    let network = log.iter().position(|line| line == "make network External");
    let is_of_service = |line: &String| line.starts_with("start ") || line.starts_with("enable ");
    let service = log.iter().position(is_of_service);
    assert!(network.is_some() && service.is_some(), "{log:?}");
    assert!(network < service, "{log:?}");
    // kubelet is started by a join, which comes after an apply.
    assert_eq!(machine.all_services()["kubelet"].starts, 0);
}

#[test]
fn mode_52_a_file_of_keys_is_closed_to_others_where_it_is_there() {
    let keys = "C:/ProgramData/ssh/administrators_authorized_keys";
    let mode = |machine: &Memory| match machine.nodes().get(keys) {
        Some(Node::File { mode, bytes, .. }) => (*mode, bytes.clone()),
        other => panic!("{other:?}"),
    };
    let mut blueprint = windows::blueprint();
    blueprint.files.retain(|file| file.path != keys);
    let settings = blueprint.windows.as_mut().unwrap();
    settings.private_files = [keys.to_owned(), "C:/ProgramData/ssh/none".to_owned()].into();
    // What is neither of Windows' two modes is not to be had again: that one stays closed.
    for (before, after) in [(0o644, 0o644), (0o640, 0o600), (0o600, 0o644)] {
        let machine = windows::ready();
        machine.put_file(keys, b"theirs\n", before);
        ask_well(&machine, &apply(&blueprint));
        assert_eq!(mode(&machine), (0o600, b"theirs\n".to_vec()));
        assert_eq!(ask_well(&machine, &apply(&blueprint)).0, 0);
        // Whoever adds a key with an editor may open it again.
        machine.put_file(keys, b"more\n", 0o644);
        let (changed, events) = ask_well(&machine, &apply(&blueprint));
        assert_eq!(changed, 1, "{events:?}");
        assert_eq!(mode(&machine), (0o600, b"more\n".to_vec()));
        ask_well(&machine, &Request::Revert);
        assert_eq!(mode(&machine), (after, b"more\n".to_vec()), "{before:o}");
    }
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
