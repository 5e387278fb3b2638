//! The way back.

use mullion_wire::{Event, Request};

use super::fixtures::*;
use crate::system::memory::Memory;
use crate::system::{Activity, Kind};

/// The machine is as it was, save packages and modules.
pub(crate) fn check_untouched(reverted: &Memory) {
    let (seen, before) = (see(reverted), see(&machine()));
    assert_eq!(seen.nodes, before.nodes);
    assert_eq!(seen.services, before.services);
    assert_eq!(reverted.all_settings(), machine().all_settings());
    assert!(reverted.all_firewalls().is_empty());
    // A service that ran before has its own files again.
    let haproxy = &reverted.all_services()["haproxy"];
    assert_eq!(haproxy.activity, Activity::Running);
    if haproxy.starts > 0 {
        let path = "/etc/haproxy/haproxy.cfg";
        let now = reverted.file(path).unwrap().into_bytes();
        assert_eq!(haproxy.saw[path], now);
    }
}

#[test]
fn a_revert_restores_everything_and_forgets_it() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    bring(&machine, &[program("l")]);
    ask_well(&machine, &apply(&next_blueprint()));
    let (changed, _) = ask_well(&machine, &Request::Revert);
    assert!(changed > 10);
    check_untouched(&machine);
    let (_, packages) = machine.loaded_and_installed();
    assert!(packages.contains("conntrack"), "packages stay");
}

#[test]
fn a_second_revert_is_harmless() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    ask_well(&machine, &Request::Revert);
    let operations = machine.log().len();
    let (changed, _) = ask_well(&machine, &Request::Revert);
    assert_eq!(changed, 0);
    // Its own lock alone.
    assert_eq!(machine.log()[operations..], ["remove /run/mullion.lock"]);
}

#[test]
fn what_others_put_beside_our_files_stays() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    machine.put_file("/opt/new/theirs", b"mine", 0o644);
    machine.put_file("/var/lib/mullion/templates/theirs", b"mine", 0o644);
    ask_well(&machine, &Request::Revert);
    assert_eq!(
        machine.file("/var/lib/mullion/templates/theirs").unwrap(),
        "mine"
    );
    assert_eq!(
        crate::system::Files::list(&machine, "/var/lib/mullion").unwrap(),
        ["templates"]
    );
    assert_eq!(machine.file("/opt/new/theirs").unwrap(), "mine");
    let folder = crate::system::Files::look(&machine, "/opt/new/deep").unwrap();
    assert_eq!(folder.map(|look| look.kind), None::<Kind>);
}

#[test]
fn a_service_that_does_not_stop_is_ended_and_that_is_told() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    machine.make_stubborn("containerd");
    let (_, events) = ask_well(&machine, &Request::Revert);
    let told = events.iter().any(|event| {
        matches!(event, Event::Doing { words }
            if words == "service containerd did not stop in time: ended containerd (process 7)")
    });
    assert!(told, "{events:#?}");
}
