//! A join on Windows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use mullion_wire::{Kubeadm, Request, Secret};

use super::{apply, ask_well, blueprint, ready};
use crate::system::memory::{Memory, Node};
use crate::system::{Ended, Files as _, LockWhile, Proxy};

const KEYS: &str = "C:/var/lib/kubelet/pki";
const PODS: &str = "C:/var/lib/kubelet/pods";

fn mode(machine: &Memory, path: &str) -> Option<u32> {
    match machine.nodes().get(path) {
        Some(Node::Folder { mode }) => Some(*mode),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn join() -> Kubeadm {
    Kubeadm::Join {
        config: Secret::new("kind: JoinConfiguration\n"),
        discovery: Secret::new("clusters: []\n"),
        discovery_path: "C:/Program Files/mullion-secrets/discovery.conf".into(),
        ignore: std::collections::BTreeSet::new(),
        patches: None,
    }
}

#[test]
fn the_folder_of_kubelets_keys_is_private_before_kubelet_is_started_at_every_join() {
    let machine = ready();
    machine.put_program(
        "kubeadm",
        Rc::new(|machine, program, _| {
            if program.args[0] == "join" {
                // As kubelet: made where it is missing, open to whoever the folder above lets in.
                if machine.look(KEYS)?.is_none() {
                    machine.make_folder(KEYS, 0o755)?;
                }
                machine.write(&format!("{KEYS}/kubelet.key"), b"secret", 0o644)?;
            }
            Ok(Ended::Status(0))
        }),
    );
    let kubeadm = |step| {
        ask_well(&machine, &Request::Kubeadm { step });
    };
    let mut blueprint = blueprint();
    for folder in &mut blueprint.folders {
        folder.mode = 0o755;
    }
    ask_well(&machine, &apply(&blueprint));
    assert_eq!(mode(&machine, KEYS), None);
    for _ in 0..2 {
        kubeadm(join());
        assert_eq!(mode(&machine, KEYS), Some(0o700));
        // Users of containers write into an `emptyDir` as far as this folder lets everybody.
        assert_eq!(mode(&machine, PODS), Some(0o1777));
        kubeadm(Kubeadm::Reset);
        for path in [KEYS, PODS] {
            assert_eq!(mode(&machine, path), None, "it is of the cluster");
        }
    }
}

#[test]
fn kubeadm_has_the_time_that_containers_of_windows_take_to_end() {
    let machine = ready();
    machine.put_file("C:/etc/kubernetes/kubelet.conf", b"", 0o600);
    let given = Rc::new(Cell::new(Duration::ZERO));
    let told = Rc::clone(&given);
    machine.put_program(
        "kubeadm",
        Rc::new(move |_, program, _| {
            told.set(program.deadline);
            Ok(Ended::Status(0))
        }),
    );
    let step = Kubeadm::Reset;
    ask_well(&machine, &Request::Kubeadm { step });
    // Ten pods that take the half minute that each is given, and as long again.
    assert!(given.get() >= Duration::from_mins(10), "{given:?}");
}

#[test]
fn kubeadm_goes_with_its_agent_and_hears_of_no_proxy() {
    let machine = ready();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&seen);
    machine.put_program(
        "kubeadm",
        Rc::new(move |_, program, _| {
            assert_eq!(program.proxy, Proxy::Hidden);
            told.borrow_mut()
                .push((program.args[0].clone(), program.lock));
            Ok(Ended::Status(0))
        }),
    );
    ask_well(&machine, &apply(&blueprint()));
    for step in [join(), Kubeadm::Reset] {
        ask_well(&machine, &Request::Kubeadm { step });
    }
    let calls = seen.borrow();
    let calls: Vec<(&str, LockWhile)> = calls.iter().map(|(step, lock)| (&**step, *lock)).collect();
    let expected = ["join", "reset"].map(|step| (step, LockWhile::AgentLives));
    assert_eq!(calls, expected);
}
