//! Every rule of the error catalogue is broken by its own example, and no file makes the judging panic.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Lookup, Surroundings, Verdict};
use mullion_spec::finding::Severity;
use mullion_spec::networks::Settled;
use mullion_spec::render::{Colour, render};
use mullion_spec::rules::{self, Rule};
use mullion_spec::source::Source;
use proptest::prelude::*;

fn judge(text: &str) -> Verdict {
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    Catalog::builtin().judge(draft).verdict
}

fn codes(verdict: &Verdict) -> BTreeSet<&'static str> {
    verdict
        .findings
        .iter()
        .map(|located| located.finding.rule.code)
        .collect()
}

/// Rules about what cannot be said in a file's text: the file itself, this computer, a running cluster.
const WITHOUT_EXAMPLE: [&str; 7] = [
    "E0101", "E0102", "E0103", "E0104", "E0113", "E0413", "E0420",
];

fn is_without_example(rule: &Rule) -> bool {
    WITHOUT_EXAMPLE.contains(&rule.code) || rule.name == "version-skew"
}

#[test]
fn every_example_breaks_its_rule_and_names_a_place() {
    for rule in rules::all() {
        let Some(example) = rule.example else {
            assert!(is_without_example(rule), "{} lacks an example", rule.code);
            continue;
        };
        let verdict = judge(example);
        let found = verdict
            .findings
            .iter()
            .find(|located| located.finding.rule.code == rule.code);
        let found = found.unwrap_or_else(|| {
            panic!(
                "{} is not broken by its example, but {:?}",
                rule.code,
                codes(&verdict)
            )
        });
        assert_eq!(found.finding.severity, rule.severity, "{}", rule.code);
        assert!(
            found.position.is_some() || rule.code == "E0111",
            "{} has no place",
            rule.code
        );
    }
}

/// An example shows one mistake, so that a reader sees which; where a second one cannot be avoided it is named here.
#[test]
fn an_example_breaks_no_other_rule() {
    let inseparable = [
        ("E0409", "E0902"),
        ("E0506", "E0902"),
        ("E0611", "E0612"),
        ("E0610", "E0612"),
        ("E0314", "E0903"),
        // No driver of this release installs updates.
        ("E0509", "E0904"),
        // Every driver that installs Windows comes later.
        ("E0603", "E0901"),
        ("E0610", "E0901"),
        ("E0611", "E0901"),
        ("E0612", "E0901"),
        ("E0616", "E0901"),
    ];
    for rule in rules::all() {
        let Some(example) = rule.example else {
            continue;
        };
        let mut codes = codes(&judge(example));
        codes.remove(rule.code);
        codes.retain(|other| !inseparable.contains(&(rule.code, other)));
        assert!(codes.is_empty(), "{} also breaks {codes:?}", rule.code);
    }
}

#[test]
fn what_upstream_calls_unsupported_is_a_warning_for_who_asks() {
    let file = |allow: &str| {
        format!(
            "kubernetes: {{version: \"1.36\"{allow}}}\n\
             machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, version: \"2019\"}}\n"
        )
    };
    let refused = judge(&file(""));
    assert_eq!(refused.count(Severity::Error), 1);
    let finding = &refused.findings[0].finding;
    assert!(
        finding.message.contains("1.34"),
        "names the last good version: {}",
        finding.message
    );
    let allowed = judge(&file(", allowUnsupported: true"));
    assert_eq!(allowed.count(Severity::Error), 0);
    assert_eq!(allowed.count(Severity::Warning), 1);
}

#[test]
fn a_time_zone_that_is_never_set_is_not_looked_up() {
    let found = |group: &str| {
        let verdict = judge(&format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, {group}}}\n\
             windows: {{timezone: Europe/Atlantis}}\n"
        ));
        let is_it = |code: &str| code == "E0510";
        let mut found = verdict.findings.iter();
        let found = found.find(|located| is_it(located.finding.rule.code));
        found.map(|located| located.finding.severity)
    };
    let made = "driver: qemu, template: golden";
    assert_eq!(found(made), Some(Severity::Error));
    assert_eq!(found("driver: wine"), None);
    assert_eq!(found("addresses: [192.0.2.9]"), Some(Severity::Error));
}

#[test]
fn the_smallest_file_is_sound() {
    let verdict = judge("machines: {linux: 1, windows: 1}");
    assert_eq!(codes(&verdict), BTreeSet::new());
    let draft = Draft::read(
        Source::new("f", "machines: {linux: 1, windows: 1}"),
        &Surroundings::default(),
    );
    let model = Catalog::builtin().judge(draft).model.unwrap();
    let names: Vec<_> = model
        .cluster()
        .machines()
        .map(|machine| machine.name.to_string())
        .collect();
    assert_eq!(names, ["cp1", "lin1", "win1"]);
    assert_eq!(model.kubernetes().version.to_string(), "1.36.4");
    assert!(!model.artifacts().is_empty());
}

#[test]
fn the_file_and_the_catalog_agree_on_the_default_version() {
    let draft = Draft::read(
        Source::new("f", "machines: {linux: 1}"),
        &Surroundings::default(),
    );
    let model = Catalog::builtin().judge(draft).model.unwrap();
    assert_eq!(
        model.kubernetes().version,
        Catalog::builtin().default_kubernetes()
    );
}

/// What is found about a file on a computer that reaches a network: rules and severities, and the cluster's networks.
fn beside(text: &str, taken: &[&str], kept: Settled) -> (Vec<(&'static str, Severity)>, String) {
    let networks = taken
        .iter()
        .map(|net| (net.parse().unwrap(), "eth0".into()));
    let surroundings = Surroundings {
        networks: networks.collect(),
        kept,
        ..Surroundings::default()
    };
    let draft = Draft::read(Source::new("f", text), &surroundings);
    let network = &draft.provisional().unwrap().network;
    let networks = [network.machines, Some(network.pods), Some(network.services)];
    let networks = networks.map(|net| net.map_or("none".into(), |net| net.to_string()));
    let verdict = Catalog::builtin().judge(draft).verdict;
    let findings = verdict.findings.iter();
    let findings = findings.map(|located| (located.finding.rule.name, located.finding.severity));
    (findings.collect(), networks.join(" "))
}

#[test]
fn a_network_that_the_file_names_is_in_the_way_by_how_much_others_would_lose() {
    let text = "machines: {linux: 1}\nnetwork: {machineCIDR: 10.99.0.0/24, podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/16}\n";
    let found = |taken: &[&str]| {
        let (found, networks) = beside(text, taken, Settled::default());
        assert_eq!(networks, "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16");
        let severities = found.into_iter().map(|(rule, severity)| {
            assert_eq!(rule, "network-taken");
            severity
        });
        severities.collect::<Vec<_>>()
    };
    assert_eq!(found(&["192.168.0.0/24", "0.0.0.0/1", "0.0.0.0/0"]), []);
    assert_eq!(
        found(&["10.99.0.7/32", "10.99.0.0/24"]),
        [Severity::Error],
        "the machine network itself, said once"
    );
    assert_eq!(
        found(&["10.244.7.0/24"]),
        [Severity::Error],
        "a part of the pod network"
    );
    assert_eq!(
        found(&["10.0.0.0/8"]),
        [Severity::Warning; 3],
        "a wide route, as of a VPN"
    );
}

#[test]
fn networks_that_the_file_leaves_out_move_once_and_stay() {
    let usual = "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16";
    let note = [("network-chosen", Severity::Note)];
    let vpn = ["10.0.0.0/8", "172.16.0.0/12"];
    for text in [
        "machines: {linux: 1}\n",
        "machines: {linux: 1}\nnetwork: {machineCIDR: null}\n",
    ] {
        let fresh = |taken: &[&str]| beside(text, taken, Settled::default());
        assert_eq!(fresh(&[]), (vec![], usual.into()));
        assert_eq!(fresh(&["192.168.1.0/24"]), (vec![], usual.into()));
        let behind_vpn = "172.30.0.0/24 172.29.0.0/16 172.28.0.0/16";
        assert_eq!(fresh(&vpn[..1]), (note.to_vec(), behind_vpn.into()));
        let moved = "192.168.0.0/24 100.127.0.0/16 100.126.0.0/16";
        assert_eq!(fresh(&vpn), (note.to_vec(), moved.into()));
        // What was chosen once stays, with other routes too.
        let nets: Vec<_> = moved.split(' ').map(|net| net.parse().ok()).collect();
        let kept = Settled {
            machines: nets[0],
            pods: nets[1],
            services: nets[2],
        };
        for taken in [[].as_slice(), &vpn, &["192.168.0.0/16"]] {
            assert_eq!(beside(text, taken, kept), (note.to_vec(), moved.into()));
        }
        // Pods that have their network keep it; only the machine network is made on this computer.
        let (found, networks) = beside(text, &["100.127.3.0/24"], kept);
        assert_eq!(networks, moved);
        assert_eq!(found[0], ("network-taken", Severity::Warning));
        // A cluster of an earlier version does not move either.
        let earlier = Settled {
            machines: "10.99.0.0/24".parse().ok(),
            pods: "10.244.0.0/16".parse().ok(),
            services: "10.96.0.0/16".parse().ok(),
        };
        assert_eq!(beside(text, &vpn, earlier), (vec![], usual.into()));
        let all = [&vpn[..], &["192.168.0.0/16", "100.64.0.0/10"]].concat();
        let (found, _) = fresh(&all);
        assert_eq!(found, [("no-free-network", Severity::Error); 3]);
    }
    // Only what the file leaves out moves.
    let text = "machines: {linux: 1}\nnetwork: {podCIDR: 10.96.0.0/16}\n";
    let (found, networks) = beside(text, &[], Settled::default());
    assert_eq!(found, note);
    assert_eq!(networks, "10.99.0.0/24 10.96.0.0/16 172.30.0.0/16");
}

#[test]
fn a_machine_network_that_is_kept_stays_beside_what_came_later_while_its_bridge_is_up() {
    const NETWORK: &str = "192.168.0.0/24";
    let judged = |field: &str, bridge: Option<&str>| {
        let surroundings = Surroundings {
            networks: vec![(NETWORK.parse().unwrap(), "eth0".into())],
            kept: Settled {
                machines: NETWORK.parse().ok(),
                ..Settled::default()
            },
            bridge: bridge.map(|network| network.parse().unwrap()),
            ..Surroundings::default()
        };
        let text = format!("machines: {{linux: 1}}\nnetwork: {{{field}}}\n");
        let draft = Draft::read(Source::new("f", text), &surroundings);
        let verdict = Catalog::builtin().judge(draft).verdict;
        let mut findings = verdict.findings.iter();
        let found = findings.find(|located| located.finding.rule.name == "network-taken");
        let found = found.unwrap();
        let remedies = found.finding.remedies().join(" | ");
        (found.finding.severity, remedies)
    };
    for (field, free) in [
        ("", "`mullion up`, which chooses a free network"),
        (
            "machineCIDR: 192.168.0.0/24",
            "`mullion up`, with another `machineCIDR`",
        ),
    ] {
        let (severity, _) = judged(field, Some(NETWORK));
        assert_eq!(severity, Severity::Warning);
        // After a restart of the computer there is no bridge, as in a network that is not the cluster's.
        for bridge in [None, Some("192.168.7.0/24")] {
            let (severity, remedies) = judged(field, bridge);
            assert_eq!(severity, Severity::Error, "{field}");
            assert!(remedies.contains("disconnect `eth0`"), "{remedies}");
            assert!(remedies.contains(free), "{remedies}");
        }
    }
}

#[test]
fn machines_get_no_network_of_another_cluster() {
    let reserved = ["10.99.0.0/24", "10.244.0.0/16", "10.99.1.0/24"];
    let surroundings = Surroundings {
        reserved: reserved.map(|net| net.parse().unwrap()).into(),
        ..Surroundings::default()
    };
    let draft = Draft::read(Source::new("f", "machines: {linux: 1}\n"), &surroundings);
    let network = &draft.provisional().unwrap().network;
    assert_eq!(network.machines, "10.99.2.0/24".parse().ok());
    // Pods of two clusters never meet: both may have the same network.
    assert_eq!(network.pods, "10.244.0.0/16".parse().unwrap());
}

#[test]
fn networks_are_chosen_apart_from_computers_that_the_file_names() {
    let text = "machines:\n  - {name: cp, role: control-plane}\n  \
        - {name: old, driver: ssh, addresses: [10.99.0.7, 10.244.3.4]}\n\
        network: {machineAccess: lan, upstreamDNS: [10.96.0.10]}\n";
    let (_, networks) = beside(text, &[], Settled::default());
    assert_eq!(networks, "10.99.1.0/24 172.30.0.0/16 172.29.0.0/16");
    // Where no machine is made, no network is needed for them and none is chosen.
    let text =
        "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [10.99.0.7]}\n";
    let (found, networks) = beside(text, &["10.99.0.0/24"], Settled::default());
    assert!(
        !found.iter().any(|(rule, _)| rule.starts_with("network-")),
        "{found:?}"
    );
    assert_eq!(networks, "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16");
}

#[test]
fn networks_are_chosen_apart_from_proxies_mirrors_jump_hosts_and_dns_servers() {
    let usual = "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16";
    let text = |rest: &str| format!("machines: {{linux: 1}}\n{rest}\n");
    for (rest, networks) in [
        ("proxy: {http: \"http://proxy.example:3128\"}", usual),
        (
            "proxy: {http: \"http://10.99.0.9:3128\"}",
            "10.99.1.0/24 10.244.0.0/16 10.96.0.0/16",
        ),
        (
            "proxy: {https: \"http://10.244.1.1:3128\"}",
            "10.99.0.0/24 172.30.0.0/16 10.96.0.0/16",
        ),
        (
            "artifacts: {mirror: \"https://10.96.0.9/files\"}",
            "10.99.0.0/24 10.244.0.0/16 172.30.0.0/16",
        ),
        (
            "network: {upstreamDNS: [10.99.0.53]}",
            "10.99.1.0/24 10.244.0.0/16 10.96.0.0/16",
        ),
        (
            "network: {upstreamDNS: [10.244.0.53, 10.96.0.53, \"fd00::53\"]}",
            "10.99.0.0/24 172.30.0.0/16 172.29.0.0/16",
        ),
    ] {
        let (_, found) = beside(&text(rest), &[], Settled::default());
        assert_eq!(found, networks, "{rest}");
    }
    let jump = "machines:\n  - {name: cp, role: control-plane}\n  \
        - {name: old, driver: ssh, addresses: [old.example], ssh: {jump: root@10.244.7.7}}\n";
    let (_, found) = beside(jump, &[], Settled::default());
    assert_eq!(found, "10.99.0.0/24 172.30.0.0/16 10.96.0.0/16");
    let surroundings = Surroundings {
        resolvers: vec![[10, 96, 0, 53].into(), [127, 0, 0, 53].into()],
        ..Surroundings::default()
    };
    let draft = Draft::read(Source::new("f", text("")), &surroundings);
    let services = draft.provisional().unwrap().network.services;
    assert_eq!(services, "172.30.0.0/16".parse().unwrap());
    let verdict = Catalog::builtin().judge(draft).verdict;
    let shown = render(&verdict, Colour::Plain);
    let why = "since this computer asks the DNS server 10.96.0.53";
    assert!(shown.contains(why), "{shown}");
}

#[test]
fn networks_are_chosen_apart_from_the_proxies_of_this_computer() {
    let usual = "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16";
    for (proxy, networks) in [
        ([192, 0, 2, 9], usual),
        ([10, 99, 0, 9], "10.99.1.0/24 10.244.0.0/16 10.96.0.0/16"),
        ([10, 244, 0, 9], "10.99.0.0/24 172.30.0.0/16 10.96.0.0/16"),
        ([10, 96, 0, 9], "10.99.0.0/24 10.244.0.0/16 172.30.0.0/16"),
    ] {
        let surroundings = Surroundings {
            proxies: vec![proxy.into()],
            ..Surroundings::default()
        };
        let draft = Draft::read(Source::new("f", "machines: {linux: 1}\n"), &surroundings);
        let network = &draft.provisional().unwrap().network;
        let machines = network.machines.unwrap();
        let chosen = format!("{machines} {} {}", network.pods, network.services);
        assert_eq!(chosen, networks);
        let shown = render(&Catalog::builtin().judge(draft).verdict, Colour::Plain);
        let [a, b, c, d] = proxy;
        let why = format!("since this computer uses the proxy {a}.{b}.{c}.{d}");
        assert_eq!(shown.contains(&why), networks != usual, "{shown}");
    }
}

/// Names that a test's resolver knows.
const KNOWN: Lookup = Lookup(|names| {
    let known = [
        ("pods.example", vec![[10, 244, 3, 4]]),
        ("services.example", vec![[10, 96, 0, 10]]),
        ("machines.example", vec![[10, 99, 0, 7]]),
        ("outside.example", vec![[192, 0, 2, 10]]),
        // Steps take the first one. A node may have an address among pods besides.
        ("node.example", vec![[192, 0, 2, 11], [10, 244, 1, 1]]),
    ];
    let known = known.into_iter().filter(|(name, _)| names.contains(*name));
    let known = known.map(|(name, addresses)| {
        let addresses = addresses.into_iter().map(Into::into);
        (name.to_owned(), addresses.collect())
    });
    known.collect()
});

#[test]
fn a_machine_s_name_is_held_against_the_networks_by_the_address_that_it_leads_to() {
    let judged = |machine: &str, network: &str, lookup: Lookup| {
        let text = format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: old, driver: ssh, {machine}}}\n{network}"
        );
        let surroundings = Surroundings {
            lookup,
            ..Surroundings::default()
        };
        let draft = Draft::read(Source::new("f", text), &surroundings);
        let verdict = Catalog::builtin().judge(draft).verdict;
        let shown = render(&verdict, Colour::Plain);
        (codes(&verdict).into_iter().collect::<Vec<_>>(), shown)
    };
    let written =
        "network: {machineCIDR: 10.99.0.0/24, podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/16}\n";
    for (name, address, field) in [
        ("pods.example", "10.244.3.4", "podCIDR"),
        ("PODS.example", "10.244.3.4", "podCIDR"),
        ("services.example", "10.96.0.10", "serviceCIDR"),
        ("machines.example", "10.99.0.7", "machineCIDR"),
    ] {
        let machine = format!("addresses: [192.0.2.10, {name}]");
        let (codes, shown) = judged(&machine, written, KNOWN);
        assert_eq!(codes, ["E0414"], "{shown}");
        let name = name.to_lowercase();
        let message = format!("`{name}` has the address {address}, which lies inside `{field}`");
        assert!(shown.contains(&message), "{shown}");
        assert!(shown.contains("--> f:3:"), "{shown}");
        // Networks that the file leaves out move, as from a machine that is given by its address.
        let (codes, shown) = judged(&machine, "", KNOWN);
        assert_eq!(codes, ["E0419"], "{shown}");
        // Without a look-up, nothing is known of a name.
        assert_eq!(judged(&machine, written, Lookup::default()).0, [""; 0]);
    }
    for machine in [
        "addresses: [outside.example, node.example, unknown.example]",
        // The jump host looks it up.
        "addresses: [pods.example], ssh: {jump: root@192.0.2.1}",
    ] {
        let (codes, shown) = judged(machine, written, KNOWN);
        assert_eq!(codes, [""; 0], "{shown}");
    }
}

#[test]
fn a_proxy_s_name_keeps_networks_away_from_where_it_leads() {
    let read = |text: &str| {
        let surroundings = Surroundings {
            lookup: KNOWN,
            ..Surroundings::default()
        };
        let text = format!("machines: {{linux: 1}}\n{text}\n");
        let draft = Draft::read(Source::new("f", text), &surroundings);
        let network = &draft.provisional().unwrap().network;
        let machines = network.machines.unwrap();
        format!("{machines} {} {}", network.pods, network.services)
    };
    let proxy = |host: &str| read(&format!("proxy: {{https: \"http://{host}:3128\"}}"));
    assert_eq!(
        proxy("pods.example"),
        "10.99.0.0/24 172.30.0.0/16 10.96.0.0/16"
    );
    assert_eq!(
        proxy("machines.example"),
        "10.99.1.0/24 10.244.0.0/16 10.96.0.0/16"
    );
    assert_eq!(
        read("artifacts: {mirror: \"https://services.example/files\"}"),
        "10.99.0.0/24 10.244.0.0/16 172.30.0.0/16"
    );
    assert_eq!(
        proxy("outside.example"),
        "10.99.0.0/24 10.244.0.0/16 10.96.0.0/16"
    );
}

/// Every message as a user sees it. Read the difference before accepting it.
#[test]
fn the_examples_read_well() {
    let mut text = String::new();
    for rule in rules::all() {
        let Some(example) = rule.example else {
            continue;
        };
        let mut verdict = judge(example);
        verdict
            .findings
            .retain(|located| located.finding.rule.code == rule.code);
        text.push_str(&render(&verdict, Colour::Plain));
    }
    insta::assert_snapshot!(text);
}

/// Files as slips of the hand make them: characters and lines lost, doubled and exchanged.
#[derive(Debug, Clone)]
enum Slip {
    Lose(usize),
    Put(usize, char),
    DropLine(usize),
    DoubleLine(usize),
}

fn slip() -> impl Strategy<Value = Slip> {
    let place = 0..8_000_usize;
    let letter = proptest::char::any();
    prop_oneof![
        place.clone().prop_map(Slip::Lose),
        (place.clone(), letter).prop_map(|(at, letter)| Slip::Put(at, letter)),
        (
            place.clone(),
            proptest::sample::select(vec![
                ':', '-', '{', '[', '"', '#', '&', '\t', '\n', ' ', '0'
            ])
        )
            .prop_map(|(at, letter)| Slip::Put(at, letter)),
        place.clone().prop_map(Slip::DropLine),
        place.prop_map(Slip::DoubleLine),
    ]
}

fn slipped(text: &str, slips: &[Slip]) -> String {
    let mut text = text.to_owned();
    for slip in slips {
        let letters = text.chars().count().max(1);
        let lines: Vec<&str> = text.lines().collect();
        let count = lines.len().max(1);
        text = match slip {
            Slip::Lose(at) => {
                let lost = at % letters;
                text.chars()
                    .enumerate()
                    .filter(|(at, _)| *at != lost)
                    .map(|(_, letter)| letter)
                    .collect()
            }
            Slip::Put(at, letter) => {
                let mut all: Vec<char> = text.chars().collect();
                all.insert(at % letters, *letter);
                all.into_iter().collect()
            }
            Slip::DropLine(at) => {
                let kept = lines
                    .iter()
                    .enumerate()
                    .filter(|(line, _)| *line != at % count);
                kept.flat_map(|(_, line)| [*line, "\n"]).collect()
            }
            Slip::DoubleLine(at) => {
                let doubled = lines.iter().enumerate().map(|(line, text)| {
                    let times = if line == at % count { 2 } else { 1 };
                    format!("{text}\n").repeat(times)
                });
                doubled.collect()
            }
        };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_slip_makes_it_panic_and_every_finding_has_its_words(slips in proptest::collection::vec(slip(), 1..6)) {
        let text = slipped(&mullion_spec::reference::reference(), &slips);
        let verdict = judge(&text);
        render(&verdict, Colour::Styled);
        for located in &verdict.findings {
            prop_assert!(!located.finding.message.is_empty());
            prop_assert!(located.finding.remedies().iter().all(|remedy| !remedy.is_empty()));
            let lines = text.lines().count() + 1;
            prop_assert!(located.position.is_none_or(|position| position.line <= lines));
        }
    }
}

#[test]
fn a_file_with_an_error_gives_no_model() {
    let draft = Draft::read(
        Source::new("f", "machines: {linux: x}"),
        &Surroundings::default(),
    );
    assert!(Catalog::builtin().judge(draft).model.is_none());
}

#[test]
fn nothing_is_no_item_of_a_list() {
    for list in [
        "machines: [{name: cp, role: control-plane}, ~]\n",
        "machines: {linux: 1}\nhosts: [~]\n",
        "machines: {linux: 1}\nimages: [null]\n",
        "machines: {linux: 1}\ntrust:\n  -\n",
        "machines: [{name: cp, role: control-plane, before: [~]}]\n",
        "machines: {linux: 1}\naddons: [~]\n",
    ] {
        assert_eq!(codes(&judge(list)), BTreeSet::from(["E0202"]), "{list}");
    }
}

#[test]
fn a_file_that_is_no_mapping_is_one_mistake() {
    assert_eq!(codes(&judge("just words\n")), BTreeSet::from(["E0202"]));
    assert_eq!(codes(&judge("- a\n- b\n")), BTreeSet::from(["E0202"]));
}
