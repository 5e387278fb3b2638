//! A join on Windows.

use std::rc::Rc;

use mullion_wire::{Kubeadm, Request, Secret};

use super::{apply, ask_well, blueprint, ready};
use crate::system::memory::{Memory, Node};
use crate::system::{Ended, Files as _};

const KEYS: &str = "C:/var/lib/kubelet/pki";

fn mode(machine: &Memory) -> Option<u32> {
    match machine.nodes().get(KEYS) {
        Some(Node::Folder { mode }) => Some(*mode),
        None => None,
        other => panic!("{other:?}"),
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
    let join = || Kubeadm::Join {
        config: Secret::new("kind: JoinConfiguration\n"),
        discovery: Secret::new("clusters: []\n"),
        discovery_path: "C:/Program Files/mullion-secrets/discovery.conf".into(),
        ignore: std::collections::BTreeSet::new(),
        patches: None,
    };
    let mut blueprint = blueprint();
    for folder in &mut blueprint.folders {
        folder.mode = 0o755;
    }
    ask_well(&machine, &apply(&blueprint));
    assert_eq!(mode(&machine), None);
    for _ in 0..2 {
        kubeadm(join());
        assert_eq!(mode(&machine), Some(0o700));
        kubeadm(Kubeadm::Reset);
        assert_eq!(mode(&machine), None, "it is of the cluster");
    }
}
