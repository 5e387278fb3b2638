//! The logic over a Windows in memory.

mod accounts;
mod authorities;
mod event_log;
mod firewall;
mod folders;
mod joining;
mod leaving;
mod letters;
mod restarts;
mod resuming;

use std::collections::BTreeMap;

use mullion_wire::{
    AdapterChoice, Blueprint, Definition, DynamicPorts, Event, Exclusions, Facts, Feature,
    Firewall, Folder, OpenPort, OverlayNetwork, PageFile, Protocol, Recovery, RegistryData,
    RegistryValue, Request, Service, ServiceState, Start, Windows,
};

use super::fixtures::{
    Seen, apply, ask, ask_badly, ask_well, check_services, program, see, service, stored, text,
};
use super::killed::outlive_every_kill;
use crate::system::memory::{Memory, Node};
use crate::system::registry::Value;
use crate::system::{Account, Activity, OnlyWindows as _, Services as _};

const STATE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\hns\State";
const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
const MEMORY: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management";
const SYSTEM_PATH: &str = r"%SystemRoot%\system32;C:\Tools";
const AUTHORITY: &str = "C:/trust/ours.crt";
/// A certificate is any bytes to the logic: `hello`.
const HELLO: &str = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
/// A file of somebody else's, which the blueprint closes.
const THEIRS: &str = "C:/ProgramData/ssh/theirs";
/// A folder of somebody else's, which the blueprint closes.
const THEIR_FOLDER: &str = "C:/etc/kubernetes";
const CONFIG: &str = "C:/Program Files/containerd/config.toml";

/// A machine with things of its own, some of which the blueprint will change.
fn machine() -> Memory {
    let machine = Memory::windows("WIN-ABC123");
    let expandable = |text: &str| Value::from(&RegistryData::Expandable(text.into()));
    machine.put_value(ENVIRONMENT, "Path", expandable(SYSTEM_PATH));
    machine.put_value(ENVIRONMENT, "NO_PROXY", Value::string("theirs"));
    machine.put_value(STATE, "EnableCompartmentNamespace", Value::dword(0));
    // Of a type that no blueprint has.
    let qword = Value {
        kind: 11,
        bytes: vec![1, 2, 3, 4, 5, 6, 7, 8],
    };
    machine.put_value(STATE, "Odd", qword);
    machine.put_value(MEMORY, "PagingFiles", chosen_by_windows());
    machine.put_feature("Containers", Feature::Enabled);
    machine.put_feature("Microsoft-Hyper-V", Feature::Disabled);
    machine.put_file(
        "C:/ProgramData/ssh/administrators_authorized_keys",
        b"theirs\n",
        0o644,
    );
    machine.put_file(THEIRS, b"theirs\n", 0o644);
    machine.put(THEIR_FOLDER, Node::Folder { mode: 0o750 });
    machine.put_defined("sshd", definition("sshd.exe"), Activity::Running);
    machine.put_service("wuauserv", true, Activity::Running);
    machine
}

/// Page files of which Windows chooses place and size itself.
fn chosen_by_windows() -> Value {
    Value::from(&RegistryData::MultiString(vec![r"?:\pagefile.sys".into()]))
}

fn bring(machine: &Memory, contents: &[Vec<u8>]) {
    machine.put("C:/Program Files/mullion", Node::Folder { mode: 0o700 });
    for bytes in contents {
        let digest = mullion_wire::Sha256Digest::of(bytes);
        machine.put_file(
            &format!("C:/Program Files/mullion/store/{digest}"),
            bytes,
            0o600,
        );
    }
}

pub(super) fn ready() -> Memory {
    let machine = machine();
    bring(&machine, &[program("c"), program("k"), program("l")]);
    machine
}

/// A machine whose feature is still to be enabled.
pub(super) fn fresh() -> Memory {
    let machine = ready();
    machine.put_feature("Containers", Feature::Disabled);
    machine
}

pub(super) fn definition(command: &str) -> Definition {
    Definition {
        display_name: "A service".into(),
        command: command.into(),
        depends_on: [].into(),
        start: Start::Automatic,
        recovery: Recovery {
            restart_after_ms: vec![10_000],
            reset_after_s: 86_400,
        },
        environment: [].into(),
    }
}

fn exe(path: &str, bytes: &[u8]) -> mullion_wire::File {
    mullion_wire::File {
        mode: 0o644,
        ..stored(path, bytes)
    }
}

fn value(key: &str, name: &str, data: RegistryData) -> RegistryValue {
    RegistryValue {
        key: key.into(),
        name: name.into(),
        data,
        restart: false,
    }
}

pub(super) fn blueprint() -> Blueprint {
    let defined = |name: &str, state, restarted_by: &[&str], command: &str| Service {
        definition: Some(definition(command)),
        ..service(name, state, restarted_by)
    };
    let mut kubelet = defined(
        "kubelet",
        ServiceState::Enabled,
        &["C:/k/kubelet.exe"],
        r"C:\k\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe --windows-service",
    );
    kubelet.after.insert("containerd".into());
    let mut proxy = defined(
        "kube-proxy",
        ServiceState::Stopped,
        &[],
        r"C:\k\kube-proxy.exe",
    );
    if let Some(definition) = &mut proxy.definition {
        definition.depends_on.insert("kubelet".into());
        definition.start = Start::Delayed;
        let network = ("KUBE_NETWORK".to_owned(), "flannel.4096".to_owned());
        definition.environment = [network].into();
    }
    let mut keys = text(
        "C:/ProgramData/ssh/administrators_authorized_keys",
        "ours\n",
    );
    keys.mode = 0o600;
    Blueprint {
        version: mullion_wire::VERSION,
        machine: "win1".into(),
        packages: vec![],
        modules: [].into(),
        sysctls: BTreeMap::new(),
        folders: vec![
            Folder {
                path: "C:/var/log/kubelet".into(),
                mode: 0o755,
            },
            Folder {
                path: "C:/var/lib/kubelet".into(),
                mode: 0o700,
            },
            Folder {
                path: THEIR_FOLDER.into(),
                mode: 0o700,
            },
        ],
        files: vec![
            exe("C:/Program Files/containerd/containerd.exe", &program("c")),
            exe("C:/k/kubelet.exe", &program("k")),
            text(CONFIG, "version = 3\n"),
            keys,
            text(AUTHORITY, HELLO),
        ],
        services: vec![
            kubelet,
            proxy,
            defined(
                "containerd",
                ServiceState::Running,
                &[CONFIG, "C:/Program Files/containerd/containerd.exe"],
                r#""C:\Program Files\containerd\containerd.exe" --run-service"#,
            ),
            service(
                "sshd",
                ServiceState::Running,
                &["C:/ProgramData/ssh/administrators_authorized_keys"],
            ),
            service("wuauserv", ServiceState::Stopped, &[]),
        ],
        firewall: Some(Firewall {
            group: "mullion".into(),
            open: vec![OpenPort {
                name: "kubelet".into(),
                protocol: Protocol::Tcp,
                first: 10250,
                last: 10250,
            }],
        }),
        windows: Some(Windows {
            features: ["Containers".to_owned()].into(),
            registry: vec![
                value(STATE, "EnableCompartmentNamespace", RegistryData::Dword(1)),
                value(STATE, "Odd", RegistryData::String("even".into())),
                value(
                    r"HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU",
                    "NoAutoUpdate",
                    RegistryData::Dword(1),
                ),
            ],
            environment: [("NO_PROXY".to_owned(), ".svc".to_owned())].into(),
            path: vec![r"C:\k".into(), r"c:\tools\".into()],
            authorities: [AUTHORITY.to_owned()].into(),
            private_files: [THEIRS.to_owned()].into(),
            exclusions: Exclusions {
                paths: [r"C:\ProgramData\containerd".to_owned()].into(),
                processes: [r"C:\k\kubelet.exe".to_owned()].into(),
            },
            host_name: Some("win1".into()),
            time_zone: Some("UTC".into()),
            page_file: Some(PageFile {
                path: r"C:\pagefile.sys".into(),
                first_mib: 4096,
                most_mib: 4096,
            }),
            dynamic_ports: vec![DynamicPorts {
                protocol: Protocol::Tcp,
                first: 34_000,
                count: 31_536,
            }],
            network: Some(OverlayNetwork {
                name: "External".into(),
                subnet: "192.168.255.0/30".into(),
                gateway: "192.168.255.1".into(),
                vsid: 9999,
                port: 4789,
                adapter: AdapterChoice::Outward,
            }),
        }),
    }
}

/// The next blueprint: of each kind something changed and something dropped.
pub(super) fn next_blueprint() -> Blueprint {
    let mut next = blueprint();
    next.folders.remove(0);
    next.files[1] = exe("C:/k/kubelet.exe", &program("l"));
    next.files.truncate(3);
    next.services
        .retain(|service| !["kube-proxy", "sshd", "wuauserv"].contains(&service.name.as_str()));
    for service in &mut next.services {
        if let Some(definition) = &mut service.definition {
            definition.command.push_str(" --v=4");
        }
    }
    let windows = next.windows.as_mut().unwrap();
    windows.registry = vec![value(STATE, "Odd", RegistryData::Dword(3))];
    windows.environment.clear();
    windows.path = vec![r"C:\cni".into()];
    windows.authorities.clear();
    windows.private_files.clear();
    windows.exclusions.paths.clear();
    windows.host_name = None;
    windows.time_zone = None;
    windows.dynamic_ports.clear();
    if let Some(network) = &mut windows.network {
        network.vsid = 4096;
    }
    next
}

fn applied() -> Memory {
    let machine = ready();
    ask_well(&machine, &apply(&blueprint()));
    // kubelet runs by now, as after a join.
    machine.start("kubelet").unwrap();
    bring(&machine, &[program("l")]);
    machine
}

fn facts(machine: &Memory) -> Facts {
    let (_, events) = ask_well(machine, &Request::Facts);
    match &events[0] {
        Event::Facts { facts } => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

/// Everything that a Windows shows, without the features, which stay.
fn seen(machine: &Memory) -> (Seen, BTreeMap<String, Option<Definition>>) {
    let mut seen = see(machine);
    seen.windows.features.clear();
    let definitions = machine
        .all_services()
        .into_iter()
        .map(|(name, service)| (name, service.definition))
        .collect();
    (seen, definitions)
}

fn check_untouched(reverted: &Memory) {
    assert_eq!(seen(reverted), seen(&machine()));
}

/// Services run as they are defined now, and a further apply changes nothing.
fn check(blueprint: Blueprint) -> impl Fn(&Memory) {
    move |machine| {
        check_services(machine, &blueprint);
        for (name, service) in machine.all_services() {
            if service.activity == Activity::Running {
                assert_eq!(service.ran_as, service.definition, "{name}");
            }
        }
        let (changed, events) = ask_well(machine, &apply(&blueprint));
        assert_eq!(changed, 0, "a further apply changes nothing: {events:#?}");
        assert_eq!(facts(machine).drift, Vec::<String>::new());
    }
}

#[test]
fn an_apply_makes_all_of_it_so() {
    let machine = ready();
    ask_well(&machine, &apply(&blueprint()));
    let parts = machine.windows_parts();
    assert_eq!(parts.features["Microsoft-Hyper-V"], Feature::Disabled);
    assert_eq!(parts.time_zone, "UTC");
    assert_eq!(parts.ports[&Protocol::Tcp], (34_000, 31_536));
    assert_eq!(parts.networks["External"].vsid, 9999);
    let read = |key: &str, name: &str| machine.value(key, name).unwrap().unwrap();
    let path = read(ENVIRONMENT, "Path");
    assert_eq!(path.kind, 2, "variables stay variables");
    assert_eq!(path.text().unwrap(), format!(r"{SYSTEM_PATH};C:\k"));
    assert_eq!(read(STATE, "EnableCompartmentNamespace").number(), Some(1));
    let services = machine.all_services();
    assert_eq!(services["containerd"].activity, Activity::Running);
    assert_eq!(services["kubelet"].activity, Activity::Stopped);
    assert!(services["kubelet"].is_enabled);
    let proxy = services["kube-proxy"].definition.as_ref().unwrap();
    assert_eq!(proxy.start, Start::OnDemand, "it is to be stopped");
}

#[test]
fn only_what_changed_restarts_its_service() {
    let machine = applied();
    let mut next = blueprint();
    next.files[2] = text(CONFIG, "version = 3 # new\n");
    let before = machine.all_services();
    ask_well(&machine, &apply(&next));
    let after = machine.all_services();
    assert_eq!(after["containerd"].starts, before["containerd"].starts + 1);
    assert_eq!(after["kubelet"].starts, before["kubelet"].starts);
    // Another command line is a change as well.
    next.services[0]
        .definition
        .as_mut()
        .unwrap()
        .command
        .push_str(" --v=2");
    ask_well(&machine, &apply(&next));
    let last = machine.all_services();
    assert_eq!(last["containerd"].starts, after["containerd"].starts);
    assert_eq!(last["kubelet"].starts, after["kubelet"].starts + 1);
}

#[test]
fn a_zone_and_a_page_file_come_and_what_was_there_comes_back() {
    let machine = ready();
    let page_files = || machine.value(MEMORY, "PagingFiles").unwrap().unwrap();
    let mut wanted = blueprint();
    ask_well(&machine, &apply(&wanted));
    assert_eq!(page_files().texts(), [r"C:\pagefile.sys 4096 4096"]);
    assert_eq!(machine.windows_parts().time_zone, "UTC");
    // The file says nothing of them any more.
    let windows = wanted.windows.as_mut().unwrap();
    (windows.time_zone, windows.page_file) = (None, None);
    ask_well(&machine, &apply(&wanted));
    assert_eq!(page_files(), chosen_by_windows());
    assert_eq!(machine.windows_parts().time_zone, "Pacific Standard Time");
}

#[test]
fn a_page_file_that_the_disk_has_no_room_for_is_refused() {
    let machine = ready();
    let mut wanted = blueprint();
    let with = |mib| {
        Some(PageFile {
            path: r"C:\pagefile.sys".into(),
            first_mib: mib,
            most_mib: mib,
        })
    };
    wanted.windows.as_mut().unwrap().page_file = with(16 * 1024 + 1);
    let failed = ask_badly(&machine, &apply(&wanted));
    assert!(failed.contains("room for 16384 MiB"), "{failed}");
    let page_files = machine.value(MEMORY, "PagingFiles").unwrap();
    assert_eq!(page_files, Some(chosen_by_windows()));
    wanted.windows.as_mut().unwrap().page_file = with(16 * 1024);
    ask_well(&machine, &apply(&wanted));
}

#[test]
fn everything_that_others_change_is_told() {
    let machine = applied();
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
    machine.put_value(STATE, "Odd", Value::dword(9));
    machine.set_time_zone("Tokyo Standard Time").unwrap();
    machine.remove_network("External").unwrap();
    machine.put_feature("Containers", Feature::Disabled);
    let other = definition("other.exe");
    machine
        .define("kubelet", &other, &Account::system())
        .unwrap();
    crate::system::Files::remove(&machine, "C:/var/log/kubelet").unwrap();
    let drift = facts(&machine).drift.join("\n");
    for word in [
        r"hns\State\Odd",
        "time zone UTC",
        "network External",
        "feature Containers",
        "`kubelet` is defined otherwise",
        "`C:/var/log/kubelet` is gone",
    ] {
        assert!(drift.contains(word), "{word}: {drift}");
    }
    assert_eq!(drift.lines().count(), 6, "{drift}");
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
}

#[test]
fn a_machine_that_leaves_its_cluster_keeps_what_its_blueprint_made() {
    let machine = applied();
    machine.put_file("C:/etc/kubernetes/kubelet.conf", b"", 0o600);
    let pods = mullion_wire::OverlayNetwork {
        name: "flannel.4096".into(),
        ..machine.windows_parts().networks["External"].clone()
    };
    machine.make_network(&pods).unwrap();
    let step = mullion_wire::Kubeadm::Reset;
    ask_well(&machine, &Request::Kubeadm { step });
    let parts = machine.windows_parts();
    let networks: Vec<_> = parts.networks.keys().collect();
    assert_eq!(networks, ["External"]);
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
}

#[test]
fn a_feature_that_this_windows_does_not_have_is_named() {
    let machine = ready();
    let mut other = blueprint();
    other.windows.as_mut().unwrap().features = ["Container".to_owned()].into();
    let words = ask_badly(&machine, &apply(&other));
    assert!(words.contains("no feature `Container`"), "{words}");
}

#[test]
fn a_blueprint_for_the_other_system_is_refused_before_anything_is_touched() {
    let windows = ready();
    let words = ask_badly(&windows, &apply(&super::fixtures::blueprint()));
    assert!(words.contains("for a Linux machine"), "{words}");
    let linux = super::fixtures::machine();
    let words = ask_badly(&linux, &apply(&blueprint()));
    assert!(words.contains("for a Windows machine"), "{words}");
    assert!(windows.log().is_empty() && linux.log().is_empty());
    let mut odd = blueprint();
    odd.files[0].mode = 0o755;
    let words = ask_badly(&windows, &apply(&odd));
    assert!(words.contains("0600 or 0644"), "{words}");
}

#[test]
fn a_revert_restores_everything_and_twice_is_harmless() {
    let machine = applied();
    ask_well(&machine, &apply(&next_blueprint()));
    // Somebody else's folder in the Path stays.
    let path = machine.value(ENVIRONMENT, "Path").unwrap().unwrap();
    let longer = format!(r"{};D:\theirs", path.text().unwrap());
    let longer = Value::from(&RegistryData::Expandable(longer));
    machine.put_value(ENVIRONMENT, "Path", longer);
    ask_well(&machine, &Request::Revert);
    let path = machine.value(ENVIRONMENT, "Path").unwrap().unwrap();
    assert_eq!(path.text().unwrap(), format!(r"{SYSTEM_PATH};D:\theirs"));
    let bare = Value::from(&RegistryData::Expandable(SYSTEM_PATH.into()));
    machine.put_value(ENVIRONMENT, "Path", bare);
    check_untouched(&machine);
    let operations = machine.log().len();
    let (changed, _) = ask_well(&machine, &Request::Revert);
    assert_eq!(changed, 0);
    // Its own lock alone.
    assert_eq!(
        machine.log()[operations..],
        ["remove C:/Program Files/mullion.lock"]
    );
}

#[test]
fn a_first_apply_outlives_every_kill() {
    outlive_every_kill(&ready, &apply(&blueprint()), &check(blueprint()));
}

#[test]
fn an_apply_that_has_to_wait_outlives_every_kill() {
    let check = |machine: &Memory| {
        let (changed, _) = ask_well(machine, &apply(&blueprint()));
        assert_eq!(changed, 0, "nothing more can be done before a start");
    };
    outlive_every_kill(&fresh, &apply(&blueprint()), &check);
    let begin = || {
        let machine = fresh();
        ask_well(&machine, &apply(&blueprint()));
        machine.restart_machine();
        machine
    };
    outlive_every_kill(&begin, &apply(&blueprint()), &self::check(blueprint()));
}

#[test]
fn a_later_apply_outlives_every_kill() {
    outlive_every_kill(
        &applied,
        &apply(&next_blueprint()),
        &check(next_blueprint()),
    );
}

#[test]
fn a_revert_outlives_every_kill() {
    outlive_every_kill(&applied, &Request::Revert, &check_untouched);
}

#[test]
fn a_revert_of_a_killed_apply_leaves_nothing() {
    for kill in 1.. {
        let machine = fresh();
        machine.kill_at(kill);
        ask(&machine, &apply(&blueprint()));
        let was_killed = machine.is_dead();
        machine.revive();
        ask_well(&machine, &Request::Revert);
        check_untouched(&machine);
        if !was_killed {
            break;
        }
    }
}
