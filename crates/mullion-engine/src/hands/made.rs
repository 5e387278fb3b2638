//! Machines in memory, for tests.

use mullion_machines::memory::Memory;
use mullion_machines::{Driver as _, Hosts, Look as _, MachineWish, NetworkWish};
use mullion_plan::{Fingerprint, Size, TemplateId, Unattended};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::MachineAccess;

pub(super) fn id(name: &str) -> TemplateId {
    TemplateId {
        name: name.into(),
        fingerprint: Fingerprint::of(&name),
    }
}

/// Makes a cluster's network and a machine in it, at the next address.
pub(super) fn make(computer: &Memory, cluster: &str, network: &str, name: &str, template: &str) {
    let cluster: ClusterName = cluster.parse().unwrap();
    let name: MachineName = name.parse().unwrap();
    let network: ipnet::Ipv4Net = network.parse().unwrap();
    let wish = NetworkWish {
        cluster: cluster.clone(),
        network,
        access: MachineAccess::Host,
        identity: None,
    };
    computer.make_network(&wish, &Unattended).unwrap();
    let number = computer.find(&cluster).unwrap().machines.len() + 1;
    let wish = MachineWish {
        cluster,
        name,
        template: id(template),
        template_path: "/templates".into(),
        size: Size {
            cpus: 1,
            memory: "1GiB".parse().unwrap(),
            disk: "1GiB".parse().unwrap(),
        },
        address: network.hosts().nth(number).unwrap(),
        network,
        authorized_keys: Vec::new(),
        hosts: Hosts::default(),
        dns: Vec::new(),
        autostart: true,
        identity: None,
    };
    computer.make(&wish, &Unattended).unwrap();
}
