//! Windows itself.

use crate::windows::{blueprint, definition};

#[test]
fn mode_45_no_feature_asks_the_processor_for_virtual_machines() {
    let features = blueprint().windows.unwrap().features;
    assert_eq!(features, ["Containers".to_owned()].into());
}

#[test]
fn mode_53_the_login_s_port_is_open_in_every_network() {
    let open = blueprint().firewall.unwrap().open;
    let ssh = open.iter().find(|port| port.name == "ssh").unwrap();
    assert_eq!((ssh.first, ssh.last), (22, 22));
    assert!(
        open.iter()
            .any(|port| port.name == "kubelet" && port.first == 10250)
    );
}

#[test]
fn mode_54_whatever_stays_is_a_service() {
    let blueprint = blueprint();
    for name in ["containerd", "kubelet", "flanneld", "kube-proxy"] {
        assert!(!definition(&blueprint, name).command.is_empty());
    }
}

#[test]
fn mode_55_nothing_goes_through_powershell() {
    for service in blueprint().services {
        let command = service.definition.unwrap().command.to_lowercase();
        assert!(!command.contains("powershell"), "{command}");
        assert!(!command.contains("cmd.exe"), "{command}");
    }
}
