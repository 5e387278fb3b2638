//! Programs whose time comes only once the machine is a node.

use std::cell::Cell;
use std::time::Duration;

use mullion_wire::{
    AdapterChoice, Attended, AttendedFile, AttendedProgram, Awaited, OverlayNetwork,
};

use crate::system::memory::{Memory, Node};
use crate::system::{Ended, Files as _, OnlyWindows as _, ServiceEnd};
use crate::{Attendance, Standing, attend};

const FILE: &str = "C:/etc/kube-flannel/attended.json";
const NODE: &str = "C:/etc/kubernetes/kubelet.conf";
const SHARE: &str = "C:/run/flannel/subnet.env";
const CONFIG: &str = "C:/etc/cni/net.d/10-flannel.conflist";

/// A program that needs everything, and a file that needs the network alone.
fn attended() -> Attended {
    Attended {
        version: mullion_wire::VERSION,
        service: "kube-proxy".into(),
        share: SHARE.into(),
        program: AttendedProgram {
            awaits: Awaited {
                files: vec![NODE.into()],
                network: Some("flannel.4096".into()),
            },
            renewed_with: Some("hns".into()),
            path: "C:/k/kube-proxy.exe".into(),
            args: vec!["--source-vip=$(source-vip)".into()],
        },
        files: vec![AttendedFile {
            awaits: Awaited {
                files: vec![],
                network: Some("flannel.4096".into()),
            },
            path: CONFIG.into(),
            text: "{\"subnet\": \"$(share)\"}".into(),
        }],
        logs: vec![],
    }
}

fn machine() -> Memory {
    let system = Memory::windows("win1");
    let text = serde_json::to_vec(&attended()).unwrap();
    system.put_file(FILE, &text, 0o644);
    system.put("C:/etc/cni/net.d", Node::Folder { mode: 0o755 });
    system
}

/// A machine that has everything.
fn node() -> Memory {
    let system = machine();
    system.put_file(NODE, b"", 0o600);
    system.put_file(SHARE, b"FLANNEL_SUBNET=10.244.3.1/24\n", 0o644);
    system.make_network(&network()).unwrap();
    system
}

fn network() -> OverlayNetwork {
    OverlayNetwork {
        name: "flannel.4096".into(),
        subnet: "10.244.3.0/24".into(),
        gateway: "10.244.3.1".into(),
        vsid: 4096,
        port: 4789,
        adapter: AdapterChoice::Outward,
    }
}

fn lines(system: &Memory) -> Vec<String> {
    let running = system.running_programs();
    running.iter().map(|program| program.line.clone()).collect()
}

#[test]
fn mode_61_a_program_is_started_anew_when_hns_was() {
    let system = node();
    system.put_started("hns", Some(7));
    let mut attendance = Attendance::read(&system, FILE).unwrap();
    let mut look = || {
        let standing = attendance.look(&mut |_| {}).unwrap();
        assert_eq!(standing, Standing::Runs);
        let running = system.running_programs();
        assert_eq!(running.len(), 1);
        running[0].clone()
    };
    let is_same = std::rc::Rc::ptr_eq;
    let first = look();
    assert!(is_same(&first, &look()));
    // It crashed, and nobody has started it yet.
    system.put_started("hns", None);
    assert!(is_same(&first, &look()));
    system.put_started("hns", Some(8));
    let second = look();
    assert!(!is_same(&first, &second));
    assert!(is_same(&second, &look()), "once is enough");
}

#[test]
fn a_program_is_started_when_all_it_needs_is_there_and_ended_when_that_goes() {
    let system = machine();
    // What an earlier start of the machine left goes before anybody reads it.
    system.put_file(CONFIG, b"of another network", 0o644);
    let mut attendance = Attendance::read(&system, FILE).unwrap();
    let mut look = || attendance.look(&mut |_| {}).unwrap();
    assert_eq!(look(), Standing::Waits);
    assert_eq!(system.file(CONFIG), None);
    system.put_file(NODE, b"", 0o600);
    system.put_file(SHARE, b"FLANNEL_SUBNET=10.244.3.1/24\n", 0o644);
    assert_eq!(look(), Standing::Waits, "there is no network yet");
    system.make_network(&network()).unwrap();
    assert_eq!(look(), Standing::Runs);
    assert_eq!(
        lines(&system),
        ["C:/k/kube-proxy.exe --source-vip=10.244.3.2"]
    );
    assert_eq!(
        system.file(CONFIG).as_deref(),
        Some("{\"subnet\": \"10.244.3.0/24\"}")
    );
    let before = system.log().len();
    assert_eq!(look(), Standing::Runs);
    assert_eq!(system.log().len(), before, "nothing is done twice");

    // Another share is another address.
    system.put_file(SHARE, b"FLANNEL_SUBNET=10.244.7.1/24\n", 0o644);
    assert_eq!(look(), Standing::Runs);
    assert_eq!(
        lines(&system),
        ["C:/k/kube-proxy.exe --source-vip=10.244.7.2"]
    );

    // The machine is a node no more, and HNS was emptied.
    system.remove(NODE).unwrap();
    system.remove_network("flannel.4096").unwrap();
    assert_eq!(look(), Standing::Waits);
    assert!(lines(&system).is_empty());
    assert_eq!(system.file(CONFIG), None);
}

#[test]
fn a_program_that_ends_by_itself_ends_its_service_which_windows_starts_anew() {
    let system = node();
    let looks = Cell::new(0);
    let is_told_to_stop = || {
        looks.set(looks.get() + 1);
        if looks.get() == 3 {
            system.running_programs()[0].break_off(Ended::Status(2));
        }
        looks.get() == 10
    };
    let mut said = Vec::new();
    let on_line = &mut |line: &str| said.push(line.to_owned());
    let end = attend(&system, FILE, Duration::ZERO, &is_told_to_stop, on_line);
    assert_eq!(end, ServiceEnd::Failed);
    assert_eq!(said.last().unwrap(), "it ended with status 2");
    assert_eq!(looks.get(), 3);
}

#[test]
fn a_service_that_is_told_to_stop_ends_its_program() {
    let system = node();
    let looks = Cell::new(0);
    let is_told_to_stop = || {
        looks.set(looks.get() + 1);
        assert!(looks.get() < 10, "it never starts");
        !system.running_programs().is_empty()
    };
    let end = attend(&system, FILE, Duration::ZERO, &is_told_to_stop, &mut |_| {});
    assert_eq!(end, ServiceEnd::Told);
    assert!(system.running_programs().is_empty());
    assert_eq!(system.file(CONFIG), None, "the next start finds none");
    let nothing = attend(&system, "C:/none", Duration::ZERO, &|| false, &mut |_| {});
    assert_eq!(nothing, ServiceEnd::Failed);
}
