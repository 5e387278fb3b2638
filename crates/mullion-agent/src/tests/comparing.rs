//! What a comparison tells is what an apply then does.

use mullion_wire::{
    Blueprint, Content, Difference, DifferenceKind, Event, Folder, Holding, Request, Side,
};

use super::fixtures::*;
use super::windows;
use crate::system::memory::{Memory, Node};
use crate::system::{Activity, Family, Files as _, Owner, Services as _, System as _};

/// Asks how the machine differs, and that asking changes nothing.
pub(super) fn compare(machine: &Memory, blueprint: &Blueprint) -> Vec<Difference> {
    let (seen, operations) = (see(machine), machine.log().len());
    let request = Request::Compare {
        blueprint: blueprint.clone(),
    };
    let (changed, events) = ask_well(machine, &request);
    assert_eq!(changed, 0);
    assert_eq!(see(machine), seen, "asking changes nothing");
    let is_memory = |line: &String| line.contains("/digests.json");
    let log = machine.log();
    let done: Vec<_> = log[operations..]
        .iter()
        .filter(|line| !is_memory(line))
        .collect();
    assert!(done.is_empty(), "asking does nothing: {done:#?}");
    let Some((Event::Done { .. }, parts)) = events.split_last() else {
        panic!("{events:#?}");
    };
    assert!(!parts.is_empty(), "it answers where nothing differs, too");
    let parts = parts.iter().map(|event| match event {
        Event::Differences { differences } => differences.clone(),
        other => panic!("{other:?}"),
    });
    parts.flatten().collect()
}

/// What an apply says that it changed.
fn changed(machine: &Memory, blueprint: &Blueprint) -> Vec<String> {
    let (_, events) = ask_well(machine, &apply(blueprint));
    let whats = events.into_iter().filter_map(|event| match event {
        Event::Changed { what } => Some(what),
        _ => None,
    });
    whats.collect()
}

fn words(differences: &[Difference], after_restart: bool) -> Vec<String> {
    let picked = differences.iter();
    let picked = picked.filter(|difference| difference.after_restart == after_restart);
    picked.map(|difference| difference.what.clone()).collect()
}

/// A comparison tells what an apply then does, in its order, and afterwards nothing.
pub(super) fn check_told(machine: &Memory, blueprint: &Blueprint) -> Vec<Difference> {
    let differences = compare(machine, blueprint);
    let before = see(machine);
    assert_eq!(words(&differences, false), changed(machine, blueprint));
    let later = words(&differences, true);
    if !later.is_empty() {
        machine.restart_machine();
        assert_eq!(later, changed(machine, blueprint));
    }
    check_named(machine, &before, &differences);
    assert_eq!(compare(machine, blueprint), []);
    differences
}

/// Every path that is another now was named, save the agent's own and folders above.
fn check_named(machine: &Memory, before: &Seen, differences: &[Difference]) {
    let after = see(machine);
    let own = &machine.paths().state;
    let text = |seen: &Seen, path: &String| seen.nodes.get(path).map(|(text, _)| text.clone());
    for path in before.nodes.keys().chain(after.nodes.keys()) {
        let is_staged = path.contains(".mullion-");
        let is_own = is_staged || path.starts_with(own) || *path == machine.paths().lock;
        if is_own || before.nodes.get(path) == after.nodes.get(path) {
            continue;
        }
        let found = [text(before, path), text(&after, path)];
        let is_folder = |text: &Option<String>| text.as_deref().is_none_or(|is| is == "(folder)");
        // A folder that comes with a file, or goes with it, is not told.
        if found.iter().all(is_folder) && found.contains(&None) {
            continue;
        }
        let is_named = |difference: &Difference| difference.name.eq_ignore_ascii_case(path);
        assert!(differences.iter().any(is_named), "{path} was not told");
    }
}

fn of<'a>(differences: &'a [Difference], name: &str) -> &'a Difference {
    let found = differences
        .iter()
        .find(|difference| difference.name == name);
    found.unwrap_or_else(|| panic!("{name}: {differences:#?}"))
}

fn held(side: Option<&Side>) -> Option<&str> {
    match &side?.holds {
        Holding::Text(text) => Some(text),
        Holding::State(words) => Some(words),
        _ => None,
    }
}

/// The two sides as text.
fn sides<'a>(differences: &'a [Difference], name: &str) -> (Option<&'a str>, Option<&'a str>) {
    let difference = of(differences, name);
    (
        held(difference.now.as_ref()),
        held(difference.after.as_ref()),
    )
}

/// Numbers that look random and are the same at every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn is_one_of(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// A blueprint with some of its parts dropped and some changed.
fn varied(mut blueprint: Blueprint, family: Family, numbers: &mut Numbers) -> Blueprint {
    let needed: Vec<_> = blueprint
        .windows
        .iter()
        .flat_map(|windows| windows.authorities.clone())
        .collect();
    let is_needed = |path: &String| needed.contains(path) || path.ends_with(".service");
    blueprint
        .files
        .retain(|file| is_needed(&file.path) || !numbers.is_one_of(5));
    for file in &mut blueprint.files {
        if needed.contains(&file.path) {
            continue;
        }
        if numbers.is_one_of(4)
            && let Content::Text(text) = &mut file.content
        {
            text.push_str("more\n");
        }
        if numbers.is_one_of(6) {
            file.mode = if file.mode == 0o600 { 0o644 } else { 0o600 };
        }
    }
    if numbers.is_one_of(3) {
        blueprint.services.retain(|_| !numbers.is_one_of(3));
        let names: Vec<_> = blueprint
            .services
            .iter()
            .map(|service| service.name.clone())
            .collect();
        for service in &mut blueprint.services {
            service.after.retain(|name| names.contains(name));
        }
    }
    for service in &mut blueprint.services {
        if numbers.is_one_of(6)
            && let Some(definition) = &mut service.definition
        {
            definition.command.push_str(" --v=9");
        }
    }
    if numbers.is_one_of(4) {
        blueprint.firewall = None;
    }
    match (family, &mut blueprint.windows) {
        (Family::Linux, _) => {
            if numbers.is_one_of(3) {
                blueprint.sysctls.pop_first();
            }
            if numbers.is_one_of(3) {
                let folder = Folder {
                    path: "/opt/folder/deep".into(),
                    mode: 0o700,
                };
                blueprint.folders = vec![folder];
            }
        }
        (Family::Windows, Some(windows)) => {
            windows.registry.retain(|_| !numbers.is_one_of(4));
            if numbers.is_one_of(3) {
                windows.environment.clear();
                windows.path.pop();
            }
            if numbers.is_one_of(4) {
                windows.host_name = None;
                windows.time_zone = None;
                windows.dynamic_ports.clear();
            }
            if numbers.is_one_of(4) {
                windows.network = None;
            } else if numbers.is_one_of(2)
                && let Some(network) = &mut windows.network
            {
                network.vsid = 5000;
            }
            if numbers.is_one_of(4) {
                windows.private_files.clear();
            }
        }
        (Family::Windows, None) => {}
    }
    blueprint
}

/// Changes some things of a machine behind the agent's back.
fn drift(machine: &Memory, blueprint: &Blueprint, numbers: &mut Numbers) {
    for file in &blueprint.files {
        if numbers.is_one_of(6) {
            machine.put_file(&file.path, b"somebody's\n", 0o640);
        } else if numbers.is_one_of(8) {
            machine.remove(&file.path).unwrap();
        }
    }
    for service in &blueprint.services {
        if numbers.is_one_of(5) {
            let _ = machine.stop(&service.name, &[].into());
        }
    }
}

/// Brings every content that some blueprint names.
fn bring_all(machine: &Memory) {
    for bytes in [program("c"), program("k"), program("l")] {
        let store = format!("{}/store", machine.paths().state);
        let path = format!("{store}/{}", mullion_wire::Sha256Digest::of(&bytes));
        machine.put_file(&path, &bytes, 0o600);
    }
}

/// Machines and blueprints of all kinds, one for each number.
fn check_many(begin: &dyn Fn() -> Memory, blueprints: &[Blueprint]) {
    for seed in 1..=30_u64 {
        let numbers = &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let machine = begin();
        for _ in 0..3 {
            let blueprint = blueprints[numbers.below(blueprints.len())].clone();
            let blueprint = varied(blueprint, machine.family(), numbers);
            bring_all(&machine);
            check_told(&machine, &blueprint);
            drift(&machine, &blueprint, numbers);
        }
    }
}

#[test]
fn a_linux_machine_tells_what_an_apply_then_does() {
    check_many(&machine, &[blueprint(), next_blueprint()]);
}

#[test]
fn a_windows_machine_tells_what_an_apply_then_does() {
    let blueprints = [windows::blueprint(), windows::next_blueprint()];
    check_many(&windows::ready, &blueprints);
    check_many(&windows::fresh, &blueprints);
}

#[test]
fn what_a_killed_apply_left_to_do_is_told() {
    let families: [(&dyn Fn() -> Memory, [Blueprint; 2]); 2] = [
        (&machine, [blueprint(), next_blueprint()]),
        (
            &windows::ready,
            [windows::blueprint(), windows::next_blueprint()],
        ),
    ];
    for (begin, [first, second]) in families {
        for kill in 1.. {
            let machine = begin();
            bring_all(&machine);
            ask_well(&machine, &apply(&first));
            bring_all(&machine);
            machine.kill_at(kill);
            ask(&machine, &apply(&second));
            let was_killed = machine.is_dead();
            machine.revive();
            bring_all(&machine);
            check_told(&machine, &second);
            if !was_killed {
                break;
            }
        }
    }
}

#[test]
fn a_machine_that_waits_for_a_restart_tells_what_comes_after_it() {
    let machine = windows::fresh();
    let differences = check_told(&machine, &windows::blueprint());
    let later = words(&differences, true);
    assert!(later.contains(&"network External".to_owned()), "{later:?}");
    assert!(later.contains(&"service containerd started".to_owned()));
    assert!(words(&differences, false).contains(&"feature Containers".to_owned()));
}

#[test]
fn every_difference_has_what_is_there_and_what_will_be() {
    let machine = machine();
    let differences = compare(&machine, &blueprint());
    assert_eq!(
        sides(&differences, "/etc/motd"),
        (Some("welcome\n"), Some("a node\n"))
    );
    assert_eq!(
        sides(&differences, "/etc/linked"),
        (Some("a link"), Some("a file\n"))
    );
    assert_eq!(
        sides(&differences, "net.ipv4.ip_forward"),
        (Some("0"), Some("1"))
    );
    assert_eq!(
        sides(&differences, "mullion"),
        (None, Some("TCP 10250 kubelet\n"))
    );
    assert_eq!(sides(&differences, "conntrack"), (None, Some("installed")));
    assert_eq!(sides(&differences, "overlay"), (None, Some("loaded")));
    // A content that is still to be brought has its digest and its size.
    let kubelet = of(&differences, "/usr/local/bin/kubelet");
    assert_eq!(kubelet.kind, DifferenceKind::File);
    assert_eq!(kubelet.now, None);
    let program = program("k");
    assert_eq!(
        kubelet.after.as_ref().unwrap().holds,
        Holding::Bytes {
            sha256: mullion_wire::Sha256Digest::of(&program),
            size: program.len() as u64,
        }
    );
    let services: Vec<_> = differences
        .iter()
        .filter(|difference| difference.kind == DifferenceKind::Service)
        .map(|difference| difference.what.as_str())
        .collect();
    assert!(
        services.contains(&"service haproxy restarted"),
        "{services:?}"
    );
}

#[test]
fn what_windows_alone_has_is_shown_with_both_sides() {
    let machine = windows::ready();
    let differences = compare(&machine, &windows::blueprint());
    let state = r"HKLM\SYSTEM\CurrentControlSet\Services\hns\State";
    assert_eq!(
        sides(&differences, &format!(r"{state}\Odd")),
        (Some("type 11 01 02 03 04 05 06 07 08"), Some("REG_SZ even"))
    );
    assert_eq!(
        sides(&differences, "TCP"),
        (Some("49152-65535"), Some("34000-65535"))
    );
    assert_eq!(sides(&differences, "UTC").1, Some("UTC"));
    assert_eq!(
        sides(&differences, "External").1.unwrap().lines().nth(2),
        Some("vsid 9999")
    );
    ask_well(&machine, &apply(&windows::blueprint()));
    bring_all(&machine);
    let differences = compare(&machine, &windows::next_blueprint());
    let (now, after) = sides(&differences, "External");
    assert!(now.unwrap().contains("vsid 9999") && after.unwrap().contains("vsid 4096"));
    let (now, after) = sides(&differences, "containerd");
    let command = r#"command: "C:\Program Files\containerd\containerd.exe" --run-service"#;
    assert!(now.unwrap().contains(&format!("{command}\n")), "{now:?}");
    assert!(after.unwrap().contains(&format!("{command} --v=4\n")));
}

/// The differences as they are sent.
fn sent(differences: &[Difference]) -> String {
    serde_json::to_string(differences).unwrap()
}

#[test]
fn contents_of_private_files_do_not_leave_the_machine() {
    let machine = machine();
    bring_all(&machine);
    machine.put_file("/etc/opened", b"secret one\n", 0o640);
    machine.put_file("/etc/closed", b"secret two\n", 0o644);
    machine.put("/etc/keys", Node::Folder { mode: 0o700 });
    machine.put_file("/etc/keys/theirs", b"secret three\n", 0o644);
    machine.put_file(
        "/etc/key.pem",
        b"-----BEGIN RSA PRIVATE KEY-----\nsecret four\n-----END RSA PRIVATE KEY-----\n",
        0o644,
    );
    machine.put_file(
        "/etc/proxy",
        b"http://user:secretfive@proxy:3128\n# same\n",
        0o644,
    );
    let mut wanted = blueprint();
    let mut closed = text("/etc/closed", "now private\n");
    closed.mode = 0o600;
    wanted.files.extend([
        text("/etc/opened", "public\n"),
        closed,
        text("/etc/keys/theirs", "ours\n"),
        text("/etc/keys/new", "new and ours\n"),
        text("/etc/key.pem", "no key\n"),
        text("/etc/proxy", "http://user:secretsix@proxy:3128\n# same\n"),
    ]);
    let differences = compare(&machine, &wanted);
    for name in [
        "/etc/opened",
        "/etc/closed",
        "/etc/keys/theirs",
        "/etc/key.pem",
    ] {
        let difference = of(&differences, name);
        for side in [&difference.now, &difference.after] {
            assert_eq!(side.as_ref().unwrap().holds, Holding::Private, "{name}");
        }
    }
    let modes = of(&differences, "/etc/closed");
    let mode = |side: &Option<Side>| side.as_ref().unwrap().mode;
    assert_eq!(
        (mode(&modes.now), mode(&modes.after)),
        (Some(0o644), Some(0o600))
    );
    let proxy = "http://[masked]@proxy:3128\n# same\n";
    assert_eq!(
        sides(&differences, "/etc/proxy"),
        (Some(proxy), Some(proxy))
    );
    assert_eq!(
        sides(&differences, "/etc/keys/new"),
        (None, Some("new and ours\n"))
    );
    // Nor once they are ours, and go again.
    let all = sent(&differences);
    check_told(&machine, &wanted);
    bring_all(&machine);
    let all = all + &sent(&compare(&machine, &blueprint()));
    assert!(!all.contains("secret"), "{all}");
    assert!(
        !all.contains("now private") && !all.contains("no key"),
        "{all}"
    );
}

#[test]
fn a_large_or_binary_file_is_told_by_its_digest() {
    let machine = machine();
    bring_all(&machine);
    machine.put_file("/etc/binary", &[0, 1, 2], 0o644);
    machine.put_file("/etc/large", "a line\n".repeat(50_000).as_bytes(), 0o644);
    let mut wanted = blueprint();
    wanted
        .files
        .extend([text("/etc/binary", "text\n"), text("/etc/large", "short\n")]);
    let differences = check_told(&machine, &wanted);
    for (name, length) in [("/etc/binary", 3), ("/etc/large", 350_000)] {
        let now = of(&differences, name).now.as_ref().unwrap();
        assert!(
            matches!(now.holds, Holding::Bytes { size, .. } if size == length),
            "{now:?}"
        );
    }
}

#[test]
fn an_answer_of_any_length_comes_in_lines_that_transports_hand_on() {
    let machine = machine();
    bring_all(&machine);
    let mut wanted = blueprint();
    for number in 0..10 {
        let path = format!("/etc/long-{number}");
        machine.put_file(&path, "a line\n".repeat(30_000).as_bytes(), 0o644);
        wanted.files.push(text(&path, &"another\n".repeat(10_000)));
    }
    // Six letters each in JSON.
    machine.put_file("/etc/bells", "\u{7}".repeat(200_000).as_bytes(), 0o644);
    wanted.files.push(text("/etc/bells", "\n"));
    let request = Request::Compare {
        blueprint: wanted.clone(),
    };
    let (_, events) = ask_well(&machine, &request);
    assert!(events.len() > 3, "{}", events.len());
    for event in &events {
        assert!(mullion_wire::write_line(event).unwrap().len() < 1024 * 1024);
    }
    let differences = check_told(&machine, &wanted);
    let bells = of(&differences, "/etc/bells").now.as_ref().unwrap();
    assert!(matches!(bells.holds, Holding::Bytes { size: 200_000, .. }));
    let long = of(&differences, "/etc/long-9").now.as_ref();
    assert_eq!(held(long).unwrap().len(), 210_000);
}

#[test]
fn what_is_of_others_and_only_changes_hands_is_told() {
    let machine = machine();
    bring_all(&machine);
    machine.put(
        "/etc/theirs",
        Node::File {
            bytes: b"same\n".to_vec(),
            mode: 0o644,
            owner: Owner::Other,
            modified: 0,
            number: 998,
        },
    );
    let mut wanted = blueprint();
    wanted.files.push(text("/etc/theirs", "same\n"));
    let differences = check_told(&machine, &wanted);
    let same = (Some("same\n"), Some("same\n"));
    assert_eq!(sides(&differences, "/etc/theirs"), same);
}

#[test]
fn a_comparison_waits_for_nobody_and_leaves_no_trace_on_a_new_machine() {
    let machine = machine();
    machine.hold_lock("process 7, applying a blueprint");
    compare(&machine, &blueprint());
    assert_eq!(machine.look(&machine.paths().state).unwrap(), None);
    assert_eq!(machine.look(&machine.paths().lock).unwrap(), None);
}

#[test]
fn what_an_apply_refuses_a_comparison_refuses_in_the_same_words() {
    let machine = machine();
    bring_all(&machine);
    ask_well(&machine, &apply(&blueprint()));
    bring_all(&machine);
    let mut cases = vec![windows::blueprint()];
    let mut other = blueprint();
    other.machine = "lin2".into();
    cases.push(other);
    let mut newer = blueprint();
    newer.version = 7;
    cases.push(newer);
    let mut in_the_way = blueprint();
    in_the_way.files.push(text("/etc/haproxy", "no folder\n"));
    cases.push(in_the_way);
    let mut unknown = blueprint();
    unknown.sysctls.insert("vm.odd".into(), "1".into());
    cases.push(unknown);
    for blueprint in cases {
        let request = Request::Compare {
            blueprint: blueprint.clone(),
        };
        let refused = ask_badly(&machine, &request);
        assert_eq!(refused, ask_badly(&machine, &apply(&blueprint)));
    }
}

#[test]
fn a_running_service_whose_file_goes_is_told_to_be_restarted() {
    let machine = machine();
    bring_all(&machine);
    ask_well(&machine, &apply(&blueprint()));
    machine.start("kubelet").unwrap();
    bring_all(&machine);
    let differences = check_told(&machine, &next_blueprint());
    let told = words(&differences, false);
    assert!(
        told.contains(&"service kubelet restarted".to_owned()),
        "{told:?}"
    );
    assert_eq!(
        machine.all_services()["kubelet"].activity,
        Activity::Running
    );
}

#[test]
fn an_agent_that_does_not_know_a_request_says_so_in_words_that_the_wire_knows() {
    let (_, events) = ask_line(&machine(), "{\"version\":1,\"ask\":\"dance\",\"to\":1}\n");
    let (words, causes, hint, _) = failed(&events);
    assert!(mullion_wire::is_unknown_request("dance", &words, &causes));
    assert!(!mullion_wire::is_unknown_request("facts", &words, &causes));
    assert!(hint.is_empty() || hint.contains("mullion up"), "{hint}");
}
