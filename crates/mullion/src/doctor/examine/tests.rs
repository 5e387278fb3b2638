use mullion_catalog::Catalog;

use super::super::computer::{AcceleratorFound, CgroupVersion, Made, Medium};
use super::super::samples::{bare_debian, fedora_user, laptop, words};
use super::*;
use crate::surroundings::Route;

fn all(computer: &Computer) -> Vec<Diagnosis> {
    let catalog = Catalog::builtin();
    let activities = activities(catalog.activities(), &BTreeMap::new());
    examine(catalog.requirements(), &activities, computer)
}

fn find(computer: &Computer, id: &str) -> Diagnosis {
    let found = all(computer)
        .into_iter()
        .find(|found| found.requirement == id);
    found.unwrap_or_else(|| panic!("`{id}` is not judged"))
}

fn ids(computer: &Computer, state: State) -> Vec<String> {
    let found = all(computer)
        .into_iter()
        .filter(|found| found.state == state);
    found.map(|found| found.requirement).collect()
}

#[test]
fn a_computer_with_everything_lacks_nothing() {
    let well = all(&laptop());
    let bad: Vec<_> = well
        .iter()
        .filter(|found| found.state != State::Ok)
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(
        well.iter()
            .all(|found| found.remedy.is_none() && found.packages.is_empty())
    );
}

#[test]
fn a_bare_debian_lacks_programs_and_says_what_that_blocks() {
    let computer = bare_debian();
    assert_eq!(
        ids(&computer, State::Weak),
        ["cap-sys-resource", "systemd", "cgroups", "disk-limits"]
    );
    let starter = find(&computer, "machine-starter");
    assert_eq!(starter.blocks, ["linux-machines", "windows-stand-ins"]);
    assert_eq!(starter.packages, ["systemd-container"]);
    let kvm = find(&computer, "kvm");
    assert_eq!(kvm.blocks, ["windows-virtual-machines"]);
    assert_eq!(kvm.hampers, ["linux-virtual-machines"]);
}

#[test]
fn a_package_that_is_too_old_is_no_cure() {
    let mut computer = bare_debian();
    let go = find(&computer, "go");
    assert_eq!((go.state, go.packages.len()), (State::Missing, 0));
    assert!(go.remedy.unwrap().contains("Go 1.26 or newer"));
    computer
        .candidates
        .insert("golang-go".into(), "2:1.26~2".into());
    assert_eq!(find(&computer, "go").packages, ["golang-go"]);
}

#[test]
fn an_old_toolchain_is_as_good_as_none() {
    let mut computer = laptop();
    for (said, state) in [
        ("go version go1.19.8 linux/amd64", State::Missing),
        ("go version go1.26 linux/amd64", State::Ok),
        ("go version devel go1.27-abc123 linux/amd64", State::Ok),
        ("what?", State::NotProven),
    ] {
        computer.versions.insert("go".into(), said.into());
        assert_eq!(find(&computer, "go").state, state, "{said}");
    }
}

#[test]
fn an_ordinary_user_on_fedora_gets_that_familys_packages() {
    let computer = fedora_user();
    let root = find(&computer, "root");
    assert_eq!(
        (root.state, root.seen.as_str()),
        (State::Missing, "you are user 1000, not root")
    );
    assert_eq!(find(&computer, "ip").packages, ["iproute"]);
    assert_eq!(find(&computer, "wim-reader").packages, ["wimlib-utils"]);
    // What root may have is not judged by what the user has.
    assert_eq!(find(&computer, "cap-sys-resource").state, State::Ok);
}

#[test]
fn cgroups_are_judged_by_version_and_by_controllers() {
    let mut computer = laptop();
    assert_eq!(find(&computer, "cgroups").state, State::Ok);
    computer.cgroups.version = CgroupVersion::V1;
    assert_eq!(find(&computer, "cgroups").state, State::Weak);
    computer.cgroups.controllers.remove("memory");
    let found = find(&computer, "cgroups");
    assert_eq!(
        (found.state, found.seen.as_str()),
        (State::Missing, "version 1, without `memory`")
    );
    computer.cgroups.version = CgroupVersion::None;
    assert_eq!(find(&computer, "cgroups").state, State::Missing);
}

#[test]
fn an_accelerator_counts_only_when_a_virtual_machine_ran() {
    let mut computer = laptop();
    for (found, state) in [
        (AcceleratorFound::Absent, State::Missing),
        (
            AcceleratorFound::Refused("permission denied".into()),
            State::Missing,
        ),
        (AcceleratorFound::Opened, State::NotProven),
        (
            AcceleratorFound::Failed("failed to initialize kvm".into()),
            State::Missing,
        ),
        (AcceleratorFound::TooSlow(5), State::Missing),
        (AcceleratorFound::Proven, State::Ok),
    ] {
        computer.accelerators.insert("kvm".into(), found.clone());
        assert_eq!(find(&computer, "kvm").state, state, "{found:?}");
    }
}

#[test]
fn a_kernel_that_shows_nothing_proves_nothing() {
    let mut computer = laptop();
    computer.kernel.loaded.remove("vxlan");
    assert_eq!(
        find(&computer, "vxlan").state,
        State::Missing,
        "no such module on disk"
    );
    computer.kernel.loadable = Some(words(&["vxlan"]));
    assert_eq!(
        find(&computer, "vxlan").seen,
        "module `vxlan` can be loaded"
    );
    computer.kernel.loadable = None;
    assert_eq!(find(&computer, "vxlan").state, State::NotProven);
    computer.kernel.options = Some(BTreeMap::new());
    assert_eq!(find(&computer, "vxlan").state, State::Missing);
    computer.kernel.options = Some(BTreeMap::from([("CONFIG_VXLAN".to_owned(), Made::Module)]));
    assert_eq!(find(&computer, "vxlan").state, State::Ok);
    computer.kernel.loadable = Some(words(&[]));
    assert_eq!(
        find(&computer, "vxlan").state,
        State::Missing,
        "made as a module that is not installed"
    );
}

#[test]
fn memory_that_is_taken_is_weak_and_memory_that_is_not_there_is_missing() {
    let mut computer = laptop();
    let memory = computer.memory.as_mut().unwrap();
    memory.available_mib = 3000;
    assert_eq!(ids(&computer, State::Weak), ["memory", "windows-memory"]);
    computer.memory.as_mut().unwrap().total_mib = 8000;
    let found = find(&computer, "windows-memory");
    assert_eq!(
        (found.state, found.seen.as_str()),
        (State::Missing, "7.8 GiB in all, and 10 GiB are needed")
    );
    computer.memory = None;
    assert_eq!(find(&computer, "memory").state, State::NotProven);
}

#[test]
fn the_smaller_disk_decides() {
    let mut computer = laptop();
    computer.disks[1].free_mib = Some(20 << 10);
    assert_eq!(ids(&computer, State::Missing), ["windows-disk"]);
    computer.disks[1].free_mib = None;
    assert_eq!(ids(&computer, State::NotProven), ["disk", "windows-disk"]);
}

#[test]
fn networks_ports_and_proxies_in_the_way_are_weak() {
    let mut computer = laptop();
    computer.udp_ports.insert(4789);
    let route = |network: &str, interface: &str| Route {
        network: network.parse().unwrap(),
        interface: interface.into(),
    };
    computer.routes = vec![
        route("10.99.0.0/24", "mul0"),
        route("192.168.1.0/24", "eth0"),
    ];
    computer.variables.insert("https_proxy".into());
    assert_eq!(ids(&computer, State::Weak), ["vxlan-port", "proxy"]);
    computer.routes.push(route("10.0.0.0/8", "vpn0"));
    computer.variables.insert("no_proxy".into());
    assert_eq!(ids(&computer, State::Weak), ["vxlan-port"]);
    assert_eq!(
        find(&computer, "machine-network").seen,
        "10.99.0.0/24, the default, overlaps 10.0.0.0/8 on `vpn0`; a new cluster takes 172.30.0.0/24 instead"
    );
    for network in ["172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"] {
        computer.routes.push(route(network, "vpn0"));
    }
    assert_eq!(
        ids(&computer, State::Weak),
        ["machine-network", "vxlan-port"]
    );
    assert!(
        find(&computer, "machine-network")
            .seen
            .contains("no network is free")
    );
}

#[test]
fn a_clock_of_another_age_is_wrong() {
    let mut computer = laptop();
    computer.clock.synchronised = None;
    assert_eq!(find(&computer, "clock").state, State::NotProven);
    for (seconds, seen) in [
        (0, "it shows the year 1970"),
        (1_767_225_599, "it shows the year 2025"),
        (u64::MAX, "it shows the year 10000"),
    ] {
        computer.clock.unix_seconds = seconds;
        let found = find(&computer, "clock");
        assert_eq!((found.state, found.seen.as_str()), (State::Missing, seen));
    }
    computer.clock.unix_seconds = 1_767_225_600;
    assert_eq!(
        find(&computer, "clock").seen,
        "it shows the year 2026; nothing here tells whether it is right"
    );
}

#[test]
fn media_are_judged_only_where_a_cluster_names_them() {
    let mut computer = laptop();
    assert!(
        all(&computer)
            .iter()
            .all(|found| found.requirement != "windows-media")
    );
    let medium = |path: &str, size_mib| Medium {
        path: path.into(),
        size_mib,
    };
    computer.media = vec![medium("server.iso", Some(5000))];
    assert_eq!(find(&computer, "windows-media").state, State::Ok);
    computer
        .media
        .extend([medium("gone.iso", None), medium("part.iso", Some(12))]);
    let found = find(&computer, "windows-media");
    assert_eq!(found.state, State::Missing);
    assert_eq!(
        found.seen,
        "no file `gone.iso`; `part.iso` has 12 MiB, too few for Windows"
    );
}

#[test]
fn a_cluster_is_judged_by_its_own_machines() {
    let catalog = Catalog::builtin();
    let machines = BTreeMap::from([(Driver::Ssh, BTreeSet::from([Os::Windows]))]);
    let activities = activities(catalog.activities(), &machines);
    let shown: Vec<_> = activities
        .iter()
        .map(|(activity, weight)| (activity.id.as_str(), *weight))
        .collect();
    assert_eq!(
        shown,
        [
            ("existing-machines", Weight::Decides),
            ("builds", Weight::Informs)
        ]
    );
    let found = examine(catalog.requirements(), &activities, &bare_debian());
    assert!(
        found
            .iter()
            .all(|found| found.requirement != "emulator" && found.requirement != "root")
    );
}

#[test]
fn promise_13_doctor_tells_whether_disks_of_machines_are_limited() {
    let mut computer = laptop();
    assert!(ids(&computer, State::Weak).is_empty());
    computer.programs.remove("setquota");
    assert_eq!(ids(&computer, State::Missing), ["disk-limits"]);
    computer.disk_limits.available = false;
    assert_eq!(ids(&computer, State::Weak), ["disk-limits"]);
}
