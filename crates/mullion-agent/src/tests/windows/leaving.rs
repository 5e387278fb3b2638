//! A machine that leaves its cluster.

use mullion_wire::{Folder, Kubeadm, Request, Service, ServiceState};

use super::{apply, ask_well, blueprint, definition, facts, ready, service};
use crate::system::memory::Memory;
use crate::system::{Activity, Files as _, OnlyWindows as _, Removed, Services as _};

/// By which a machine is seen to be of a cluster.
const KUBECONFIG: &str = "C:/etc/kubernetes/kubelet.conf";

fn reset(machine: &Memory) {
    let step = Kubeadm::Reset;
    ask_well(machine, &Request::Kubeadm { step });
}

#[test]
fn a_service_that_somebody_deleted_keeps_no_reset_from_going_on() {
    let machine = ready();
    let mut wanted = blueprint();
    let network = ["flanneld", "kube-proxy"];
    wanted
        .services
        .retain(|service| !network.contains(&service.name.as_str()));
    wanted.services.extend(network.map(|name| Service {
        definition: Some(definition(&format!(r"C:\k\{name}.exe"))),
        ..service(name, ServiceState::Running, &[])
    }));
    ask_well(&machine, &apply(&wanted));
    let _ = machine.stop("flanneld", &[].into()).unwrap();
    assert_eq!(machine.undefine("flanneld").unwrap(), Removed::Gone);
    machine.put_file(KUBECONFIG, b"", 0o600);
    let before = machine.log().len();
    reset(&machine);
    let log = machine.log().split_off(before);
    assert!(!log.iter().any(|line| line.contains("flanneld")), "{log:?}");
    for line in ["stop kube-proxy", "start kube-proxy"] {
        assert!(log.iter().any(|found| found == line), "{log:?}");
    }
    let drift = facts(&machine).drift.join("\n");
    assert!(drift.contains("the service `flanneld` is gone"), "{drift}");
    ask_well(&machine, &apply(&wanted));
    for name in network {
        let activity = machine.all_services()[name].activity;
        assert_eq!(activity, Activity::Running, "{name}");
    }
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
}

#[test]
fn a_folder_that_a_reset_empties_stays_the_blueprint_s() {
    let machine = ready();
    let mut wanted = blueprint();
    let state = "C:/var/lib/cni";
    wanted.folders.push(Folder {
        path: state.into(),
        mode: 0o755,
    });
    ask_well(&machine, &apply(&wanted));
    let lease = format!("{state}/networks/flannel.4096/10.244.3.3");
    for path in [lease.as_str(), KUBECONFIG] {
        machine.put_file(path, b"", 0o600);
    }
    reset(&machine);
    assert_eq!(machine.look(&lease).unwrap(), None);
    assert_eq!(machine.list(state).unwrap(), Vec::<String>::new());
    assert_eq!(machine.look(state).unwrap().unwrap().mode, 0o755);
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
}
