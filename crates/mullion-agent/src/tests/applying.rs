//! What an apply does, and what it leaves alone.

use mullion_wire::{Content, Event, Request, ServiceState, Sha256Digest};

use super::fixtures::*;
use crate::system::Activity;

#[test]
fn a_machine_becomes_what_its_blueprint_says() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    let seen = see(&machine);
    for file in &blueprint().files {
        let (bytes, mode) = &seen.nodes[&file.path];
        assert_eq!(
            Sha256Digest::of(bytes.as_bytes()),
            file.content.sha256(),
            "{}",
            file.path
        );
        assert_eq!(*mode, file.mode, "{}", file.path);
    }
    assert_eq!(seen.services["containerd"], (true, true));
    assert_eq!(
        seen.services["kubelet"],
        (true, false),
        "it is kubeadm that starts it"
    );
    assert_eq!(seen.services["haproxy"], (true, true));
    assert!(!seen.services.contains_key("noisy"));
    assert_eq!(machine.all_settings()["net.ipv4.ip_forward"], "1");
    assert!(machine.all_firewalls().contains_key("mullion"));
    let (modules, packages) = machine.loaded_and_installed();
    assert!(modules.contains("overlay") && packages.contains("conntrack"));
    assert_eq!(
        machine.file("/etc/modules-load.d/mullion.conf").unwrap(),
        "overlay"
    );
    assert!(
        !seen
            .nodes
            .keys()
            .any(|path| path.starts_with(&format!("{STORE}/")))
    );
    check_services(&machine, &blueprint());
    // 13 files, 1 package, 1 module, 1 setting, 1 firewall, 3 enabled or disabled, 3 started, stopped or restarted.
    assert_eq!(changed, 23);
}

#[test]
fn a_second_apply_changes_nothing_at_all() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let operations = machine.log().len();
    let (changed, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 0);
    assert_eq!(
        machine.log().len(),
        operations,
        "{:?}",
        &machine.log()[operations..]
    );
    assert_eq!(events.len(), 1, "{events:?}");
}

#[test]
fn a_changed_file_restarts_only_its_own_service() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let before = machine.all_services();
    let mut changed = blueprint();
    for file in &mut changed.files {
        if file.path == CONFIG {
            file.content = Content::Text("version = 3\n# more\n".into());
        }
    }
    let (count, events) = ask_well(&machine, &apply(&changed));
    assert_eq!(count, 2, "{events:?}");
    let after = machine.all_services();
    assert_eq!(after["containerd"].starts, before["containerd"].starts + 1);
    assert_eq!(after["haproxy"].starts, before["haproxy"].starts);
    assert_eq!(after["kubelet"].starts, 0);
    check_services(&machine, &changed);
}

#[test]
fn a_service_that_is_only_enabled_is_restarted_where_it_runs() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k"), program("l")]);
    ask_well(&machine, &apply(&blueprint()));
    crate::system::Services::start(&machine, "kubelet").unwrap();
    bring(&machine, &[program("l")]);
    let next = next_blueprint();
    ask_well(&machine, &apply(&next));
    assert_eq!(machine.all_services()["kubelet"].starts, 2);
    check_services(&machine, &next);
}

#[test]
fn a_stopped_service_is_started_and_nothing_else_happens() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let _ = crate::system::Services::stop(&machine, "containerd", &[].into()).unwrap();
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 1);
    assert_eq!(
        machine.all_services()["containerd"].activity,
        Activity::Running
    );
}

#[test]
fn what_the_next_blueprint_lacks_goes_and_what_was_there_before_comes_back() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    bring(&machine, &[program("l")]);
    let next = next_blueprint();
    ask_well(&machine, &apply(&next));
    let seen = see(&machine);
    assert_eq!(machine.file("/etc/motd").unwrap(), "welcome\n");
    assert_eq!(seen.nodes["/etc/moded"].1, 0o600);
    assert_eq!(seen.nodes["/etc/linked"].0, "-> /etc/target");
    assert!(!seen.nodes.contains_key("/opt/new/deep/file"));
    assert_eq!(seen.services["haproxy"], (true, true));
    assert_eq!(machine.all_settings()["net.ipv4.ip_forward"], "0");
    assert!(machine.all_firewalls().is_empty());
    check_services(&machine, &next);
    let (changed, _) = ask_well(&machine, &apply(&next));
    assert_eq!(changed, 0);
}

#[test]
fn a_service_whose_definition_goes_is_stopped_first() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let mut next = blueprint();
    next.services
        .retain(|service| !matches!(service.name.as_str(), "containerd" | "kubelet"));
    next.files.retain(|file| !file.path.ends_with(".service"));
    ask_well(&machine, &apply(&next));
    let seen = see(&machine);
    assert!(!seen.services.contains_key("containerd") && !seen.services.contains_key("kubelet"));
    let log = machine.log();
    let place = |words: &str| log.iter().rposition(|line| line == words).unwrap();
    assert!(place("stop containerd") < place("remove /etc/systemd/system/containerd.service"));
    assert!(place("remove /etc/systemd/system/containerd.service") < place("reload"));
}

#[test]
fn package_sources_are_laid_down_before_packages_and_the_rest_after() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let log = machine.log();
    let place = |words: &str| log.iter().position(|line| line.starts_with(words)).unwrap();
    assert!(
        place("rename /etc/apt/apt.conf.d/90proxy.mullion-new") < place("update package lists")
    );
    assert!(place("update package lists") < place("install conntrack"));
    assert!(place("install conntrack") < place("rename /etc/motd.mullion-new"));
}

#[test]
fn every_file_is_staged_before_the_first_is_swapped() {
    let machine = machine();
    let mut blueprint = blueprint();
    blueprint.packages.clear();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint));
    let log = machine.log();
    let last_staged = log
        .iter()
        .rposition(|line| line.starts_with("write ") && line.contains(".mullion-new"));
    let first_swapped = log
        .iter()
        .position(|line| line.starts_with("rename ") && line.contains(".mullion-new"));
    assert!(last_staged < first_swapped, "{log:#?}");
}

#[test]
fn services_start_in_their_order() {
    let machine = machine();
    let mut blueprint = blueprint();
    for service in &mut blueprint.services {
        match service.name.as_str() {
            "kubelet" => service.state = ServiceState::Running,
            "containerd" => service.after = ["haproxy".to_owned()].into(),
            _ => {}
        }
    }
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint));
    let log = machine.log();
    let place = |words: &str| log.iter().position(|line| line == words).unwrap();
    assert!(place("restart haproxy") < place("start containerd"));
    assert!(place("start containerd") < place("start kubelet"));
}

#[test]
fn a_damaged_content_stops_everything_before_any_file_is_changed() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    let path = format!("{STORE}/{}", Sha256Digest::of(&program("k")));
    machine.put_file(&path, &program("x"), 0o600);
    let mut blueprint = blueprint();
    blueprint.packages.clear();
    let before = see(&machine).nodes;
    let words = ask_badly(&machine, &apply(&blueprint));
    assert!(
        words.starts_with("the content of `/usr/local/bin/kubelet`"),
        "{words}"
    );
    let after = see(&machine).nodes;
    let changed = after
        .iter()
        .filter(|(path, node)| {
            !path.starts_with("/var/lib/mullion")
                && *path != "/run/mullion.lock"
                && before.get(*path) != Some(*node)
        })
        .count();
    assert_eq!(changed, 0);
}

#[test]
fn a_service_that_does_not_come_up_is_told_with_its_last_lines_and_tried_again() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    machine.break_service("containerd");
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(
        words.starts_with("the service `containerd` could not be started"),
        "{words}"
    );
    assert!(words.contains("line 10 of containerd"), "{words}");
    machine.mend_service("containerd");
    ask_well(&machine, &apply(&blueprint()));
    check_services(&machine, &blueprint());
    // One that was brought up before the failure is not restarted for it again.
    assert_eq!(machine.all_services()["haproxy"].starts, 1);
}

#[test]
fn missing_names_what_is_neither_in_place_nor_whole_in_the_store() {
    let machine = machine();
    let missing = |machine: &_| {
        let request = Request::Missing {
            blueprint: blueprint(),
        };
        let (_, events) = ask_well(machine, &request);
        match &events[0] {
            Event::Missing { sha256, store } => {
                assert_eq!(store, STORE);
                sha256.iter().cloned().collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let (c, k) = (
        Sha256Digest::of(&program("c")),
        Sha256Digest::of(&program("k")),
    );
    assert_eq!(missing(&machine).len(), 2);
    bring(&machine, &[program("c")]);
    assert_eq!(missing(&machine), std::slice::from_ref(&k));
    // Half of an upload does not count.
    machine.put_file(&format!("{STORE}/{k}"), b"kkk", 0o600);
    assert_eq!(missing(&machine), [k]);
    // A program that a template brought is in place, whatever its mode.
    machine.put_file("/usr/local/bin/kubelet", &program("k"), 0o600);
    assert!(missing(&machine).is_empty());
    machine.put_file(&format!("{STORE}/{c}"), &program("C"), 0o600);
    assert_eq!(missing(&machine), [c]);
}

#[test]
fn a_program_that_came_with_a_template_only_gets_its_mode() {
    let machine = machine();
    bring(&machine, &[program("c")]);
    machine.put_file("/usr/local/bin/kubelet", &program("k"), 0o600);
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(see(&machine).nodes["/usr/local/bin/kubelet"].1, 0o755);
    ask_well(&machine, &Request::Revert);
    assert_eq!(see(&machine).nodes["/usr/local/bin/kubelet"].1, 0o600);
}

#[test]
fn a_service_is_restarted_when_a_file_of_its_own_is_taken_away() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    let addition = "/etc/default/mullion-proxy";
    let mut with = blueprint();
    with.files.push(text(addition, "HTTP_PROXY=x\n"));
    let mut services = with.services.iter_mut();
    let containerd = services.find(|service| service.name == "containerd");
    containerd.unwrap().restarted_by.insert(addition.into());
    ask_well(&machine, &apply(&with));
    let before = machine.all_services();
    // The file, and the service.
    let (changed, events) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 2, "{events:?}");
    let after = machine.all_services();
    assert_eq!(after["containerd"].starts, before["containerd"].starts + 1);
    assert_eq!(after["haproxy"].starts, before["haproxy"].starts);
    assert_eq!(ask_well(&machine, &apply(&blueprint())).0, 0);
}
