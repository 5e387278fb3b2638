//! Files of one subject each, and exactly what is found in them: the limits of rules, and that one
//! mistake is not told as two.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod networks;

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings, Verdict};
use mullion_spec::finding::{Finding, Severity};
use mullion_spec::source::Source;

fn judge(text: &str) -> Verdict {
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    Catalog::builtin().judge(draft).verdict
}

/// The codes that a file breaks, in their order.
fn codes(text: &str) -> Vec<&'static str> {
    let mut codes: Vec<_> = judge(text)
        .findings
        .iter()
        .map(|located| located.finding.rule.code)
        .collect();
    codes.sort_unstable();
    codes
}

/// The messages and remedies of a file's findings, as one text.
fn told(text: &str) -> String {
    let verdict = judge(text);
    let lines = verdict.findings.iter().map(|located| {
        let finding = &located.finding;
        let label = finding.label.clone().unwrap_or_default();
        format!(
            "{} | {label} | {}",
            finding.message,
            finding.remedies().join(" | ")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn found(text: &str, expected: &[&str]) {
    assert_eq!(codes(text), expected, "{text}\n{}", told(text));
}

/// A cluster of one group with addresses, and what the group says beside them.
fn existing(fields: &str) -> String {
    let hosts = if fields.contains("host: h1") {
        "[{name: h1, address: 192.0.2.1}]"
    } else {
        "[]"
    };
    format!(
        "hosts: {hosts}\nmachines:\n  - {{name: cp, role: control-plane}}\n  - {{name: old, driver: ssh, addresses: [192.0.2.10], {fields}}}\n"
    )
}

#[test]
fn what_would_be_ignored_on_existing_machines_is_reported() {
    found(&existing("media: {iso: x}"), &["E0602"]);
    found(&existing("template: y"), &["E0602"]);
    found(&existing("host: h1"), &["E0606", "E0904"]);
    found(&existing("host: nosuch"), &["E0313"]);
    found(
        &existing("media: {iso: x}, template: y, host: nosuch"),
        &["E0313", "E0602", "E0602"],
    );
    found(
        &existing("os: windows, edition: standard, desktop: true"),
        &["E0615", "E0615"],
    );
    // Where the driver makes machines, the addresses are what is wrong.
    found(
        "machines:\n  - {name: cp, role: control-plane, driver: qemu, addresses: [192.0.2.10], template: y}\n",
        &["E0605", "E0901"],
    );
    found(
        "machines:\n  - {name: cp, role: control-plane, driver: nspawn, addresses: [192.0.2.10], host: nosuch}\n",
        &["E0313", "E0605"],
    );
}

#[test]
fn a_control_plane_has_two_processors_and_a_worker_may_have_one() {
    found(
        "machines:\n  - {name: cp, role: control-plane, cpus: 1}\n",
        &["E0614"],
    );
    found(
        "machines:\n  - {name: cp, role: control-plane, cpus: 2}\n  - {name: lin, cpus: 1}\n",
        &[],
    );
    // The load balancer has one, and is no control plane.
    found(
        "machines:\n  - {name: cp, role: control-plane, count: 3}\n",
        &[],
    );
}

#[test]
fn a_machine_s_name_is_a_dns_label_with_its_number() {
    let file = |letters: usize, count: u32| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: {}, count: {count}}}\n",
            "a".repeat(letters)
        )
    };
    found(&file(62, 9), &[]);
    found(&file(62, 10), &["E0301"]);
    found(&file(63, 1), &["E0301"]);
    found(&file(63, 0), &[]);
}

#[test]
fn a_licence_is_a_word_or_a_reference() {
    let file = |licence: &str| format!("machines: {{linux: 1}}\nwindows: {{licence: {licence}}}\n");
    found(&file("evalution"), &["E0203"]);
    assert!(told(&file("evalution")).contains("did you mean `evaluation`?"));
    let key = "AAAAA-BBBBB-CCCCC-DDDDD-EEEEE";
    found(&file(key), &["E0206"]);
    assert!(told(&file(key)).contains("`{key: {env: NAME}}`"));
    assert!(!told(&file(key)).contains(key));
}

#[test]
fn a_plugin_of_which_no_windows_is_known_refuses_none() {
    found(
        "machines: {linux: 1, windows: 1}\nnetwork: {cni: antrea}\n",
        &["E0902"],
    );
}

#[test]
fn the_way_around_is_not_advised_to_who_took_it() {
    let file = |allow: bool, version: &str, network: &str| {
        format!(
            "kubernetes: {{allowUnsupported: {allow}}}\nmachines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, version: \"{version}\"}}\nnetwork: {{cni: {network}}}\n"
        )
    };
    for (version, network) in [("2019", "flannel"), ("2025", "calico")] {
        assert!(told(&file(false, version, network)).contains("allowUnsupported"));
        assert!(!told(&file(true, version, network)).contains("allowUnsupported"));
    }
}

#[test]
fn what_has_no_effect_is_told_and_defaults_are_not() {
    let old = "machines: [{name: cp, role: control-plane, addresses: [192.0.2.1]}]\n";
    let made =
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: a, os: windows, taint: none}\n";
    for (text, words) in [
        (
            format!("{old}network: {{machineAccess: lan}}\n"),
            "every machine exists already",
        ),
        (
            format!("{old}access: {{sshKey: {{file: ./id}}}}\n"),
            "every machine exists already",
        ),
        (
            "machines: {linux: 1}\nnetwork: {backend: host-gw, vni: 7}\n".into(),
            "`host-gw` has no VXLAN",
        ),
        (
            format!("{made}windows: {{taint: \"a=b:NoSchedule\"}}\n"),
            "has its own `taint`",
        ),
        (
            "machines:\n  - {name: cp, role: control-plane, before: [{run: hostname, os: windows}]}\n".into(),
            "no machine of the group runs windows",
        ),
    ] {
        found(&text, &["E0212"]);
        assert!(told(&text).contains(words), "{}", told(&text));
    }
    found(&format!("{old}network: {{machineAccess: host}}\n"), &[]);
    // Nodes reach the network without the proxy.
    let proxied =
        "network: {machineCIDR: 10.123.45.0/24}\nproxy: {http: \"http://proxy.example:3128\"}\n";
    found(&format!("{old}{proxied}"), &[]);
    found("machines: {linux: 1}\nwindows: {hyperv: false}\n", &[]);
    found(
        "machines: {windows: 1}\nwindows: {runtimeClasses: false}\n",
        &[],
    );
}

#[test]
fn patches_have_names_that_kubeadm_takes_each_once() {
    let file =
        |patches: &str| format!("machines: {{linux: 1}}\nkubernetes: {{patches: [{patches}]}}\n");
    found(&file("a/etcd.yaml, b/etcd1.yaml"), &[]);
    found(&file("a/etcd.yaml, b/etcd.yaml"), &["E0213"]);
    found(
        &file("kubelet.yaml, corednsdeployment.yaml"),
        &["E0213", "E0213"],
    );
}

#[test]
fn one_mistake_is_told_once() {
    found(
        "machines:\n  - {name: cp, role: controlplane}\n",
        &["E0203"],
    );
    found("machines: [linux, windows]\n", &["E0202", "E0202"]);
    found("machines: {linux: 30000}\n", &["E0209"]);
    found(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: widows, version: \"2022\", desktop: true}\n",
        &["E0203"],
    );
    let hosts = "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, driver: ssh, addresses: [192.0.2.10]}\n";
    found(
        &format!("{hosts}network: {{cni: none, backend: host-gw}}\n"),
        &["E0212"],
    );
    found(
        &format!("{hosts}network: {{cni: flanel, backend: host-gw}}\n"),
        &["E0203"],
    );
    found(
        &format!("{hosts}network: {{backend: host-gw}}\n"),
        &["E0407"],
    );
}

#[test]
fn a_tainted_control_plane_is_told_of_its_taint() {
    let file = "machines:\n  - {name: cp, role: control-plane, taints: [\"a=b:NoSchedule\"]}\n";
    found(file, &["E0307"]);
    let told = told(file);
    assert!(told.contains("`a=b:NoSchedule`"), "{told}");
    assert!(!told.contains("schedulable"), "{told}");
}

#[test]
fn an_update_that_is_known_to_be_bad_is_told_with_its_remedy() {
    let file = |updates: &str, cni: &str| {
        format!(
            "machines: {{linux: 1, windows: 1}}\nnetwork: {{cni: {cni}}}\nwindows: {{updates: [{updates}]}}\n"
        )
    };
    let severity = |text: &str| {
        let verdict = judge(text);
        let found = verdict.findings.iter().map(|located| &located.finding);
        found
            .filter(|finding| finding.rule.code == "E0509")
            .map(|finding| finding.severity)
            .collect::<Vec<_>>()
    };
    assert_eq!(severity(&file("kb5040437", "calico")), [Severity::Warning]);
    assert_eq!(severity(&file("KB5040437", "none")), [Severity::Warning]);
    assert_eq!(severity(&file("KB5040437", "flannel")), [Severity::Note]);
    assert_eq!(severity(&file("KB5040437, KB5044281", "calico")), []);
    assert!(told(&file("KB5040437", "none")).contains("KB5044281"));
    found(
        "machines: {linux: 1}\nwindows: {updates: [KB5040437]}\n",
        &["E0212"],
    );
    // Two groups that share the list are told once; a group's own list is where its mistake stands.
    found(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: a, os: windows}\n  - {name: b, os: windows}\nnetwork: {cni: none}\nwindows: {updates: [KB5040437]}\n",
        &["E0509", "E0904", "E0904"],
    );
    let own = judge(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: a, os: windows, updates: [KB5040437]}\nnetwork: {cni: none}\n",
    );
    assert_eq!(
        own.findings[1].position.map(|position| position.line),
        Some(3)
    );
}

#[test]
fn a_feature_gate_has_a_name() {
    let file = |gate: &str| {
        format!("kubernetes: {{featureGates: {{{gate}: true}}}}\nmachines: {{linux: 1}}\n")
    };
    found(&file("WindowsHostNetwork"), &[]);
    for gate in ["\"\"", "a b", "\"A=true,B\"", "1st"] {
        found(&file(gate), &["E0208"]);
    }
}

#[test]
fn labels_that_kubernetes_sets_are_refused_and_others_are_free() {
    let file = |label: &str| {
        format!("machines:\n  - {{name: cp, role: control-plane, labels: {{{label}: x}}}}\n")
    };
    for label in [
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "node.kubernetes.io/windows-build",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "mullion.dev/cluster",
    ] {
        found(&file(label), &["E0318"]);
    }
    for label in [
        "node-role.kubernetes.io/worker",
        "example.com/zone",
        "node-restriction.kubernetes.io/a",
    ] {
        found(&file(label), &[]);
    }
}

#[test]
fn a_group_may_override_the_windows_taint() {
    let taints = |group: &str, windows: &str| {
        let text = format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows{group}}}\nwindows: {{{windows}}}\n"
        );
        let draft = Draft::read(Source::new("f", &text), &Surroundings::default());
        let model = Catalog::builtin().judge(draft).model.unwrap();
        let taints = model.cluster().groups[1].taints.iter();
        taints.map(ToString::to_string).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(taints("", ""), ["os=windows:NoSchedule"]);
    assert_eq!(taints(", taint: null", ""), ["os=windows:NoSchedule"]);
    assert_eq!(taints(", taint: none", ""), none);
    assert_eq!(taints("", "taint: null"), none);
    assert_eq!(taints("", "taint: none"), none);
    assert_eq!(taints(", taint: \"a=b:NoExecute\"", ""), ["a=b:NoExecute"]);
}

#[test]
fn taints_are_apart_by_key_and_effect() {
    let linux = |taints: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: lin}}\n  - {{name: b, taints: [{taints}]}}\n"
        )
    };
    found(&linux("\"a=b:NoSchedule\", \"a=b:NoExecute\""), &[]);
    found(&linux("\"a=b:NoSchedule\", \"a=c:NoSchedule\""), &["E0320"]);
    found(&linux("\"a=b:NoSchedule\", \"a=b:NoSchedule\""), &["E0320"]);
    let windows = |fields: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, {fields}}}\n"
        )
    };
    found(&windows("taints: [\"os=windows:NoSchedule\"]"), &[]);
    found(&windows("taints: [\"os=other:NoSchedule\"]"), &["E0320"]);
    found(
        &windows("taints: [\"os=other:NoSchedule\"], taint: none"),
        &[],
    );
    found(&windows("taint: nonsense"), &["E0208"]);
    found(
        "machines: {linux: 1}\nwindows: {taint: nonsense}\n",
        &["E0208"],
    );
    found(
        "machines:\n  - {name: cp, role: control-plane, taint: \"a=b:NoSchedule\"}\n",
        &["E0316"],
    );
}

#[test]
fn files_go_to_whole_paths_and_modes_are_linux_s() {
    let file = |os: &str, fields: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: a, os: {os}, files: [{{from: ./x, {fields}}}]}}\n"
        )
    };
    found(&file("linux", "to: /etc/x, mode: \"0644\""), &[]);
    found(&file("linux", "to: etc/x"), &["E0208"]);
    found(&file("linux", "to: 'C:\\x'"), &["E0208"]);
    found(&file("windows", "to: 'C:\\x'"), &[]);
    found(&file("windows", "to: 'C:x'"), &["E0208"]);
    found(&file("windows", "to: /etc/x"), &["E0208"]);
    let backward = told(&file("windows", "to: 'etc\\x'"));
    assert!(
        backward.contains("`etc\\x`"),
        "as it was written: {backward}"
    );
    found(&file("windows", "to: 'C:\\x', mode: \"0644\""), &["E0316"]);
}

#[test]
fn a_group_without_machines_needs_no_driver_that_can_carry_it() {
    found(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, driver: qemu, count: 0}\n",
        &[],
    );
}

#[test]
fn a_shared_setting_is_refused_where_it_acts_on_no_group() {
    let stand_in = "  - {name: a, os: windows}\n";
    let existing = "  - {name: b, os: windows, addresses: [192.0.2.10]}\n";
    let file = |groups: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n{groups}windows: {{rdp: true}}\nnetwork: {{machineAccess: lan}}\n"
        )
    };
    let severities = |groups: &str| {
        let verdict = judge(&file(groups));
        let found = verdict.findings.iter().map(|located| &located.finding);
        let found = found.filter(|finding| finding.rule.code == "E0904");
        found.map(|finding| finding.severity).collect::<Vec<_>>()
    };
    assert_eq!(severities(stand_in), [Severity::Error]);
    assert_eq!(severities(existing), []);
    let both = format!("{stand_in}{existing}");
    assert_eq!(severities(&both), [Severity::Warning]);
    assert!(told(&file(&both)).contains("`rdp` does nothing on machines of `a`"));
    // A stand-in has no Defender that would leave something alone.
    let defender = format!(
        "machines: [{{name: cp, role: control-plane}}, {{name: a, os: windows}}]\n{}",
        "windows: {defenderExclusions: false}\n"
    );
    found(&defender, &["E0904"]);
    assert!(told(&defender).contains("a stand-in has no Defender"));
    // A group's own setting is refused whatever other groups do with theirs.
    let own = format!("  - {{name: a, os: windows, rdp: true}}\n{existing}");
    assert_eq!(severities(&own), [Severity::Error]);
    // The default value says nothing.
    found(
        "machines: {windows: 1}\nwindows: {rdp: false, locale: en-US, licence: evaluation}\n",
        &[],
    );
}

#[test]
fn a_setting_that_is_refused_is_a_warning_while_its_group_has_no_machines() {
    // How many errors and warnings there are, and what is found.
    let judged = |groups: &str, rest: &str| {
        let control_plane = "{name: cp, role: control-plane}";
        let verdict = judge(&format!("machines: [{control_plane}, {groups}]\n{rest}"));
        let findings = verdict.findings.iter().map(|located| {
            let Finding {
                rule,
                place,
                message,
                hints,
                ..
            } = &located.finding;
            (rule.code, place.clone(), message.clone(), hints.clone())
        });
        let counts = [Severity::Error, Severity::Warning].map(|kind| verdict.count(kind));
        (counts, findings.collect::<Vec<_>>())
    };
    let shared = "windows: {locale: de-DE}\n";
    let (made, existing) = ("count: 1", "addresses: [192.0.2.10]");
    for (group, with_machines, rest) in [
        ("name: win, os: windows", made, shared),
        ("name: win, os: windows, locale: de-DE", made, ""),
        (
            "name: win, os: windows, defenderExclusions: false",
            made,
            "",
        ),
        ("name: win, os: windows, driver: ssh", existing, shared),
    ] {
        let with = |machines: &str| judged(&format!("{{{group}, {machines}}}"), rest);
        let (counts, findings) = with("count: 0");
        assert_eq!(counts, [0, 1], "{group}: {findings:?}");
        assert_eq!(with(with_machines), ([1, 0], findings), "{group}");
    }
    // The next machine has what its driver does not refuse.
    let acts = judged(
        "{name: win, os: windows, driver: ssh, count: 0}",
        "windows: {defenderExclusions: false}\n",
    );
    assert_eq!(acts, ([0, 0], vec![]));
    // That a setting would act on machines that do not exist makes it no better for those that do.
    let groups = "{name: a, os: windows}, {name: b, os: windows, driver: ssh, count: 0}";
    let rdp = "windows: {rdp: true}\nnetwork: {machineAccess: lan}\n";
    assert_eq!(judged(groups, rdp).0, [1, 0]);
}

#[test]
fn settings_of_an_installation_are_refused_on_existing_windows_with_what_to_do_there() {
    for (field, by_hand) in [
        ("locale: de-DE", "Set-WinSystemLocale"),
        ("licence: {key: {env: K}}", "slmgr /ipk"),
        ("administratorPassword: {env: P}", "net user"),
        ("updates: [KB5044281]", "Windows Update"),
        // Nothing makes an existing machine as a default says, either.
        ("locale: en-US", "Set-WinSystemLocale"),
        ("licence: evaluation", "slmgr /ipk"),
        ("administratorPassword: generated", "net user"),
    ] {
        let own = existing(&format!("os: windows, {field}"));
        let shared = format!("windows: {{{field}}}\n{}", existing("os: windows"));
        for text in [own, shared] {
            found(&text, &["E0615"]);
            assert!(told(&text).contains(by_hand), "{}", told(&text));
            assert!(told(&text).contains("on machines of `old`: their owner"));
        }
    }
    for acts in [
        "timezone: Europe/Berlin",
        "pageFile: 8GiB",
        "rdp: false",
        "hyperv: false",
        "updates: []",
    ] {
        found(&existing(&format!("os: windows, {acts}")), &[]);
    }
}

#[test]
fn a_page_file_has_a_size_that_windows_takes() {
    for (size, expected) in [
        ("15MiB", &["E0209"] as &[_]),
        ("16MiB", &[]),
        ("16384GiB", &[]),
        ("16385GiB", &["E0209"]),
    ] {
        found(
            &existing(&format!("os: windows, pageFile: {size}")),
            expected,
        );
    }
}

#[test]
fn a_page_file_is_smaller_than_its_disk() {
    let file = |page: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: win, os: windows, driver: qemu, template: golden, licence: {{key: {{env: K}}}}}}\nwindows: {{pageFile: {page}}}\n"
        )
    };
    found(&file("59GiB"), &["E0901"]);
    found(&file("60GiB"), &["E0616", "E0901"]);
}

#[test]
fn numbers_and_versions_have_no_leading_zeros() {
    found("machines: {linux: 017}\n", &["E0202"]);
    assert!(told("machines: {linux: 017}\n").contains("write 17, without leading zeros"));
    found(
        "machines: {linux: 1}\nkubernetes: {version: \"01.036\"}\n",
        &["E0208"],
    );
}

#[test]
fn the_ssh_key_may_come_from_a_file_or_a_variable() {
    for key in ["generated", "{file: ./key}", "{env: SSH_KEY}"] {
        found(
            &format!("machines: {{linux: 1}}\naccess: {{sshKey: {key}}}\n"),
            &[],
        );
    }
}
