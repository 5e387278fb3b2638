//! Every driver that needs nothing of this computer is held to the drivers' contract.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use mullion_machines::existing::Existing;
use mullion_machines::{
    Door, Driver as _, DriverError, Hosts, Look as _, MachineWish, NetworkWish,
};
use mullion_plan::{
    ClusterUid, Fingerprint, Identity, Power, Size, TemplateId, Trouble, Unattended,
};
use mullion_spec::value::{ByteSize, ClusterName, MachineName};
use mullion_spec::words::MachineAccess;
use mullion_testkit::driver::conform::{Spoil, Trial, conforms};
use mullion_testkit::driver::memory::Memory;

fn wish(name: &str, last: u8) -> MachineWish {
    MachineWish {
        cluster: "dev".parse().unwrap(),
        name: name.parse().unwrap(),
        template: TemplateId {
            name: "linux".into(),
            fingerprint: Fingerprint::of(&"linux"),
        },
        os: mullion_spec::words::Os::Linux,
        template_path: "/nowhere".into(),
        size: Size {
            cpus: 2,
            memory: ByteSize::gib(2),
            disk: ByteSize::gib(20),
        },
        address: [10, 9, 0, last].into(),
        network: "10.9.0.0/24".parse().unwrap(),
        authorized_keys: vec!["ssh-ed25519 AAAA cluster".into()],
        hosts: Hosts::default(),
        dns: Vec::new(),
        autostart: true,
        identity: Some(identity()),
    }
}

fn identity() -> Identity {
    Identity {
        id: ClusterUid::of(7),
        owner: 1000,
    }
}

/// Spoils labels in memory.
fn spoiler(memory: &Memory) -> impl Fn(&ClusterName, &MachineName, Spoil) + Sync {
    move |cluster, machine, spoil| {
        let file = "machine.json".to_owned();
        let trouble = match spoil {
            Spoil::Damaged => Some(Trouble::Unreadable {
                file,
                why: "is damaged".into(),
            }),
            Spoil::Newer => Some(Trouble::Newer {
                file,
                version: "v2".into(),
            }),
            Spoil::Restored => None,
        };
        memory.spoil(cluster, machine, trouble);
    }
}

fn trial() -> Trial {
    Trial {
        network: NetworkWish {
            cluster: "dev".parse().unwrap(),
            network: "10.9.0.0/24".parse().unwrap(),
            access: MachineAccess::Host,
            identity: Some(identity()),
        },
        other: NetworkWish {
            cluster: "other".parse().unwrap(),
            network: "10.8.0.0/24".parse().unwrap(),
            access: MachineAccess::Host,
            identity: None,
        },
        machines: [wish("cp1", 11), wish("lin1", 12)],
    }
}

#[test]
fn promise_06_and_09_machines_in_memory_keep_the_contract() {
    let memory = Memory::new();
    let factory = || Box::new(memory.clone()) as _;
    conforms(&factory, &spoiler(&memory), &trial()).unwrap();
}

#[test]
fn machines_that_exist_already_keep_the_contract() {
    let door = |address: &str| Door {
        address: address.into(),
        port: 2222,
        user: "admin".into(),
        host_key: None,
    };
    let existing = Existing::new(
        "dev".parse().unwrap(),
        [
            ("cp1".parse().unwrap(), door("192.0.2.7")),
            ("lin1".parse().unwrap(), door("node.example.org")),
        ],
    );
    conforms(&|| Box::new(existing.clone()), &|_, _, _| {}, &trial()).unwrap();
    let found = existing.find(&"dev".parse().unwrap()).unwrap();
    let address = |name: &str| found.machines[&name.parse().unwrap()].address;
    assert_eq!(address("cp1"), Some([192, 0, 2, 7].into()));
    assert_eq!(address("lin1"), None);
}

#[test]
fn a_suite_that_a_driver_breaks_says_which_promise() {
    let memory = Memory::new();
    let [one, _] = trial().machines;
    memory.make_network(&trial().network, &Unattended).unwrap();
    memory.make(&one, &Unattended).unwrap();
    let factory = || Box::new(memory.clone()) as _;
    let breach = conforms(&factory, &spoiler(&memory), &trial()).unwrap_err();
    assert_eq!(breach.contract, "the suite begins in an empty world");
}

#[test]
fn what_was_cut_off_is_found_as_not_whole_and_made_anew() {
    let memory = Memory::new();
    let [one, _] = trial().machines;
    memory.make_network(&trial().network, &Unattended).unwrap();
    memory.make(&one, &Unattended).unwrap();
    memory.cut_off(&one.cluster, &one.name);
    assert!(!memory.find(&one.cluster).unwrap().machines[&one.name].whole);
    let refused = memory.start(&one.cluster, &one.name, &Unattended);
    assert!(matches!(refused, Err(DriverError::NotWhole { .. })));
    memory.make(&one, &Unattended).unwrap();
    assert!(memory.find(&one.cluster).unwrap().machines[&one.name].whole);
}

#[test]
fn after_a_restart_of_the_computer_machines_are_off_and_need_their_network() {
    let memory = Memory::new();
    let [one, _] = trial().machines;
    memory.make_network(&trial().network, &Unattended).unwrap();
    memory.make(&one, &Unattended).unwrap();
    memory.start(&one.cluster, &one.name, &Unattended).unwrap();
    memory.restart();
    let found = memory.find(&one.cluster).unwrap();
    assert_eq!(found.network, None);
    assert_eq!(found.machines[&one.name].power, Power::Off);
    assert!(memory.start(&one.cluster, &one.name, &Unattended).is_err());
    memory.make_network(&trial().network, &Unattended).unwrap();
    memory.start(&one.cluster, &one.name, &Unattended).unwrap();
}
