//! Why a machine has to be started anew, and what waits for that.

use mullion_wire::{Event, Feature, RegistryData, Request};

use super::{STATE, Value, apply, ask_well, blueprint, check, facts, fresh, ready, value};
use crate::system::Activity;

/// Why a machine that was just changed has to be started anew.
fn reboot(events: &[Event]) -> Option<String> {
    match events.last() {
        Some(Event::Done { reboot, .. }) => reboot.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_restart_is_asked_for_and_not_made() {
    let machine = ready();
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    let words = reboot(&events).unwrap();
    for reason in ["page file", "host name"] {
        assert!(words.contains(reason), "{words}");
    }
    assert_eq!(machine.windows_parts().starts, 1);
    machine.restart_machine();
    assert_eq!(facts(&machine).host_name, "win1");
    assert_eq!(facts(&machine).reboot_pending, None);
    let (changed, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!((changed, reboot(&events)), (0, None));
}

#[test]
fn a_value_that_is_read_at_the_start_alone_waits_for_one() {
    let machine = ready();
    let mut wanted = blueprint();
    let windows = wanted.windows.as_mut().unwrap();
    // Neither a page file nor a host name waits beside it.
    (windows.page_file, windows.host_name) = (None, None);
    let (_, events) = ask_well(&machine, &apply(&wanted));
    assert_eq!(reboot(&events), None, "no value says so");
    let early = |number| mullion_wire::RegistryValue {
        restart: true,
        ..value(STATE, "HNSControlFlag", RegistryData::Dword(number))
    };
    let windows = wanted.windows.as_mut().unwrap();
    windows.registry.push(early(80));
    for changed_now in [1, 0] {
        let (changed, events) = ask_well(&machine, &apply(&wanted));
        assert_eq!(changed, changed_now);
        let words = reboot(&events).unwrap();
        assert_eq!(words, "the registry value HNSControlFlag changes");
        assert!(!facts(&machine).reboot_of_system, "it is for our sake");
    }
    machine.restart_machine();
    assert_eq!(facts(&machine).reboot_pending, None);
    let (changed, events) = ask_well(&machine, &apply(&wanted));
    assert_eq!((changed, reboot(&events)), (0, None));
    // What is given back is read as late.
    wanted.windows.as_mut().unwrap().registry.pop();
    let (_, events) = ask_well(&machine, &apply(&wanted));
    assert!(reboot(&events).unwrap().contains("HNSControlFlag"));
    machine.restart_machine();
    let (changed, events) = ask_well(&machine, &apply(&wanted));
    assert_eq!((changed, reboot(&events)), (0, None));
}

#[test]
fn a_start_that_windows_wants_is_told_from_one_that_we_want() {
    let machine = ready();
    machine.want_restart("updates were installed");
    let told = facts(&machine);
    assert_eq!(
        told.reboot_pending.as_deref(),
        Some("updates were installed")
    );
    assert!(told.reboot_of_system);
    // A page file and a host name wait as well.
    ask_well(&machine, &apply(&blueprint()));
    assert!(!facts(&machine).reboot_of_system);
    machine.restart_machine();
    assert!(!facts(&machine).reboot_of_system, "nothing waits");
    machine.want_restart("updates were installed");
    assert!(facts(&machine).reboot_of_system);
    // The host name alone is ours, too.
    let mut other = blueprint();
    let windows = other.windows.as_mut().unwrap();
    windows.host_name = Some("win2".into());
    ask_well(&machine, &apply(&other));
    assert!(!facts(&machine).reboot_of_system);
}

#[test]
fn files_that_wait_to_be_renamed_are_told_and_no_reason_for_a_restart() {
    let machine = ready();
    let manager = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager";
    let renames = |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Value::from(&RegistryData::MultiString(texts))
    };
    let name = "PendingFileRenameOperations";
    machine.put_value(manager, name, renames(&[]));
    assert_eq!(facts(&machine).next_start, None, "nothing is left of it");
    machine.put_value(manager, name, renames(&[r"\??\C:\old.dll", ""]));
    let told = facts(&machine);
    let words = told.next_start.unwrap();
    assert!(words.contains(r"`C:\old.dll`"), "{words}");
    assert_eq!(told.reboot_pending, None);
    // Not after a start that what we changed needed, either: an updater has left a file again.
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert!(reboot(&events).is_some());
    machine.restart_machine();
    let (changed, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!((changed, reboot(&events)), (0, None));
    assert!(facts(&machine).next_start.is_some());
}

#[test]
fn what_needs_a_feature_waits_for_the_start_that_brings_it() {
    let machine = fresh();
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    let words = reboot(&events).unwrap();
    assert!(words.contains("feature Containers"), "{words}");
    let parts = machine.windows_parts();
    assert_eq!(parts.features["Containers"], Feature::Pending);
    assert!(parts.networks.is_empty(), "there is no HNS yet");
    let services = machine.all_services();
    assert_eq!(services["containerd"].activity, Activity::Stopped);
    assert!(services["containerd"].definition.is_some());
    // Nothing more can be done before that start, and it is not called done.
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!((changed, facts(&machine).blueprint), (0, None));
    machine.restart_machine();
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(reboot(&events), None);
    assert_eq!(facts(&machine).blueprint, Some(blueprint().digest()));
    assert_eq!(machine.windows_parts().networks.len(), 1);
    check(blueprint())(&machine);
}

#[test]
fn a_feature_that_others_enable_is_waited_for_as_well() {
    let begin = || {
        let machine = fresh();
        // As a command of the user's leaves it: `dism /online /enable-feature /norestart`.
        machine.put_feature("Containers", Feature::Pending);
        machine
    };
    let enable = Request::Enable {
        features: ["Containers".to_owned()].into(),
    };
    let mut wanted = blueprint();
    // Neither a page file nor a host name waits beside it.
    let windows = wanted.windows.as_mut().unwrap();
    (windows.page_file, windows.host_name) = (None, None);
    for request in [enable, apply(&wanted)] {
        let machine = begin();
        let (_, events) = ask_well(&machine, &request);
        let words = reboot(&events).unwrap();
        assert!(words.contains("feature Containers"), "{words}");
        assert!(!facts(&machine).reboot_of_system, "it is for our sake");
        assert_eq!(facts(&machine).blueprint, None);
        machine.restart_machine();
        let (_, events) = ask_well(&machine, &apply(&wanted));
        assert_eq!(reboot(&events), None);
        assert_eq!(facts(&machine).blueprint, Some(wanted.digest()));
        check(wanted.clone())(&machine);
    }
}

#[test]
fn a_feature_that_one_start_does_not_bring_is_waited_for_again() {
    let machine = fresh();
    ask_well(&machine, &apply(&blueprint()));
    machine.restart_machine();
    machine.put_feature("Containers", Feature::Pending);
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    let words = reboot(&events).unwrap();
    assert!(words.contains("feature Containers"), "{words}");
    assert!(!facts(&machine).reboot_of_system);
    assert_eq!(facts(&machine).blueprint, None);
}

#[test]
fn features_can_be_had_before_a_blueprint_and_stay() {
    let machine = fresh();
    let enable = |name: &str| Request::Enable {
        features: [name.to_owned()].into(),
    };
    let (changed, events) = ask_well(&machine, &enable("Containers"));
    let words = reboot(&events).unwrap();
    // The source of the event log beside it.
    assert!(
        changed == 3 && words.contains("feature Containers"),
        "{words}"
    );
    assert!(!facts(&machine).reboot_of_system, "it is for our sake");
    let (changed, events) = ask_well(&machine, &enable("Containers"));
    assert!(changed == 0 && reboot(&events).is_some(), "it still waits");
    machine.restart_machine();
    let (changed, events) = ask_well(&machine, &enable("Containers"));
    assert_eq!((changed, reboot(&events)), (0, None));
    // What is applied stays so.
    ask_well(&machine, &apply(&blueprint()));
    machine.restart_machine();
    ask_well(&machine, &apply(&blueprint()));
    let (changed, _) = ask_well(&machine, &enable("Microsoft-Hyper-V"));
    assert_eq!(changed, 1);
    assert_eq!(facts(&machine).blueprint, Some(blueprint().digest()));
    ask_well(&machine, &Request::Revert);
    machine.restart_machine();
    let features = machine.windows_parts().features;
    assert_eq!(features["Containers"], Feature::Enabled);
    assert_eq!(features["Microsoft-Hyper-V"], Feature::Enabled);
}
