//! Networks, HNS and kube-proxy.

use mullion_catalog::{Catalog, LockedGate};
use mullion_render::{NETWORK_SETTINGS, discovery, objects};
use mullion_wire::AdapterChoice;

use crate::scene;
use crate::windows::{
    CONTAINERD, attended, blueprint, blueprints, definition, file, findings, json, model,
    network_config, text,
};

const KUBECONFIG: &str = "C:\\etc\\kubernetes\\kubelet.conf";

#[test]
fn mode_09_an_update_that_is_known_to_be_bad_is_warned_of() {
    let text = "machines: {linux: 1, windows: 1}\nnetwork: {cni: none, policy: false}\nverify: {after: []}\n";
    let bad = format!("{text}windows: {{updates: [KB5040437]}}\n");
    assert!(findings(&bad).contains(&"E0509"));
    let mended = format!("{text}windows: {{updates: [KB5040437, KB5044281]}}\n");
    assert!(!findings(&mended).contains(&"E0509"));
}

#[test]
fn mode_10_containerd_looks_where_the_plugins_and_their_configuration_are() {
    for (version, blueprint) in blueprints() {
        let config = text(&blueprint, CONTAINERD);
        assert!(
            config.contains("conf_dir = 'C:/etc/cni/net.d'"),
            "{version}: {config}"
        );
        assert!(config.contains("'C:/opt/cni/bin'"), "{version}: {config}");
        let plugin = "C:/opt/cni/bin/win-overlay.exe";
        assert!(blueprint.files.iter().any(|file| file.path == plugin));
        let written = &attended(&blueprint, "flanneld").files[0].path;
        assert!(written.starts_with("C:/etc/cni/net.d/"), "{written}");
    }
}

#[test]
fn mode_11_kube_proxy_is_told_the_network_s_own_name_and_waits_for_it() {
    let text = file("2022").replace("machines:", "network: {vni: 5000}\nmachines:");
    let model = scene::model(&text, "1.36");
    let blueprint = crate::windows::blueprint_of(&model);
    let proxy = attended(&blueprint, "kube-proxy").program;
    assert!(
        proxy
            .args
            .contains(&"--network-name=flannel.5000".to_owned())
    );
    assert_eq!(proxy.awaits.network.as_deref(), Some("flannel.5000"));
    assert_eq!(network_config(&blueprint)["name"], "flannel.5000");
}

#[test]
fn mode_12_an_overlay_has_a_source_address() {
    let args = attended(&blueprint(), "kube-proxy").program.args;
    assert!(
        args.contains(&"--source-vip=$(source-vip)".to_owned()),
        "{args:?}"
    );
}

#[test]
fn mode_13_no_gate_is_passed_that_is_locked() {
    for (version, blueprint) in blueprints() {
        let args = attended(&blueprint, "kube-proxy").program.args;
        let gates = args
            .iter()
            .find_map(|arg| arg.strip_prefix("--feature-gates="));
        let minor = model("2022", &version).kubernetes().version.minor;
        for gate in gates.into_iter().flat_map(|gates| gates.split(',')) {
            let name = gate.split('=').next().unwrap();
            let lock: Option<&LockedGate> = Catalog::builtin().locked_gate(name, minor);
            assert_eq!(lock, None, "{version}: {gate}");
        }
    }
    let gated =
        "kubernetes: {version: \"1.36\", featureGates: {WinDSR: false}}\nmachines: {linux: 1}\n";
    assert!(findings(gated).contains(&"E0507"));
}

#[test]
fn mode_16_kubelet_learns_of_the_network_when_that_is_there_again_after_a_start() {
    let blueprint = blueprint();
    let flanneld = attended(&blueprint, "flanneld");
    let config = &flanneld.files[0];
    assert_eq!(config.awaits.network.as_deref(), Some("flannel.4096"));
    // It is no file of the blueprint, which would outlast the network.
    assert!(blueprint.files.iter().all(|file| file.path != config.path));
}

#[test]
fn mode_18_services_do_not_use_up_the_ports() {
    let blueprint = blueprint();
    let args = attended(&blueprint, "kube-proxy").program.args;
    assert!(args.contains(&"--enable-dsr=true".to_owned()));
    let ports = blueprint.windows.unwrap().dynamic_ports;
    assert!(ports[0].count > 30_000, "{ports:?}");
}

#[test]
fn mode_20_a_kube_proxy_without_its_fixes_is_warned_of() {
    for (minor, bad, good) in [
        ("1.33", "1.33.7", "1.33.8"),
        ("1.34", "1.34.7", "1.34.8"),
        ("1.35", "1.35.4", "1.35.5"),
        ("1.36", "1.36.0", "1.36.1"),
    ] {
        let codes = |version: &str| {
            let line = format!("kubernetes: {{version: \"{version}\"}}\n");
            findings(&format!("{line}machines: {{linux: 1, windows: 1}}\n"))
        };
        assert!(codes(bad).contains(&"E0505"), "{minor}");
        assert!(!codes(good).contains(&"E0505"), "{minor}");
        assert!(
            !codes(minor).contains(&"E0505"),
            "{minor}: what is taken is good"
        );
    }
}

#[test]
fn mode_21_a_kube_proxy_that_trips_over_equal_addresses_is_warned_of() {
    let missing = |version: &str| {
        let found = Catalog::builtin().missing_fixes(version.parse().unwrap());
        let mut names = found.iter().map(|fix| fix.name.as_str());
        names.any(|name| name == "remote-endpoint-same-address")
    };
    assert!(missing("1.33.0") && missing("1.32.4"));
    assert!(!missing("1.33.1") && !missing("1.32.5"));
}

#[test]
fn mode_22_what_runs_on_the_machine_itself_asks_the_api_server_at_its_own_address() {
    for version in scene::versions() {
        let model = model("2022", &version);
        let blueprint = crate::windows::blueprint_of(&model);
        let arguments = |name: &str| attended(&blueprint, name).program.args;
        let kubelet = definition(&blueprint, "kubelet").command.split(' ');
        for (program, flag, given) in [
            ("flanneld", "--kubeconfig-file", arguments("flanneld")),
            ("kube-proxy", "--kubeconfig", arguments("kube-proxy")),
            (
                "kubelet",
                "--kubeconfig",
                kubelet.map(str::to_owned).collect(),
            ),
        ] {
            let own = format!("{flag}={KUBECONFIG}");
            assert!(given.contains(&own), "{version}: {program} {given:?}");
        }
        // None of them is told of a Service's address in another way.
        for service in &blueprint.services {
            let environment = &service.definition.as_ref().unwrap().environment;
            assert!(!environment.contains_key("KUBERNETES_SERVICE_HOST"));
        }
    }
    // kubelet's kubeconfig has the server of the discovery file, which is the machine's or the user's own.
    let model = model("2022", "1.36");
    let setting = scene::setting(&model, scene::container());
    let discovery = discovery(&setting, "AAAA");
    let mut servers = discovery.reveal().lines().map(str::trim);
    let server = servers.find_map(|line| line.strip_prefix("server: https://"));
    let control_plane = &setting.machines[&scene::name("cp1")];
    let expected = format!("{}:6443", control_plane.address);
    assert_eq!(server, Some(expected.as_str()));
    // Nor can the user give one that is a Service's.
    let with = |endpoint: &str| {
        format!(
            "controlPlane: {{endpoint: \"{endpoint}\"}}\nnetwork: {{serviceCIDR: 10.96.0.0/16}}\n{}",
            file("2022")
        )
    };
    let with = |endpoint: &str| findings(&with(endpoint).replace("VERSION", "\"1.36\""));
    assert!(
        with("10.96.0.1:443").contains(&"E0414"),
        "{:?}",
        with("10.96.0.1:443")
    );
    assert!(!with("192.0.2.20:6443").contains(&"E0414"));
}

#[test]
fn mode_23_the_machine_s_address_moves_to_its_virtual_switch_before_kubelet_runs() {
    let blueprint = blueprint();
    // An apply makes it before any service is started.
    let network = blueprint.windows.unwrap().network.unwrap();
    assert_eq!(network.name, "External");
    assert_ne!(network.vsid, 4096, "the pods' own");
    // Nor is it theirs where the file asks for the one that is usual here.
    let text = file("2022").replace(
        "machines:",
        &format!("network: {{vni: {}}}\nmachines:", network.vsid),
    );
    let moved = crate::windows::blueprint_of(&scene::model(&text, "1.36"));
    let theirs = json(&moved, NETWORK_SETTINGS)["Backend"]["VNI"].clone();
    assert_eq!(theirs, network.vsid);
    assert_ne!(moved.windows.unwrap().network.unwrap().vsid, network.vsid);
}

#[test]
fn mode_24_networks_are_made_over_the_adapter_that_has_the_node_s_address() {
    let blueprint = blueprint();
    let args = attended(&blueprint, "flanneld").program.args;
    assert!(args.contains(&"--iface=192.0.2.9".to_owned()), "{args:?}");
    let network = blueprint.windows.unwrap().network.unwrap();
    let address = AdapterChoice::Address("192.0.2.9".into());
    assert_eq!(network.adapter, address);
}

#[test]
fn mode_26_both_systems_carry_packets_alike_and_the_port_is_open() {
    let model = model("2022", "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = crate::windows::blueprint_of(&model);
    let linux = objects(&setting, "network-flannel").unwrap().unwrap();
    let mut linux = linux.iter();
    let linux = linux.find(|object| object["kind"] == "ConfigMap").unwrap();
    let linux = linux["data"]["net-conf.json"].as_str().unwrap();
    assert_eq!(linux, text(&blueprint, NETWORK_SETTINGS));
    let open = blueprint.firewall.unwrap().open;
    let port = json(&crate::windows::blueprint(), NETWORK_SETTINGS)["Backend"]["Port"].clone();
    assert!(
        open.iter()
            .any(|rule| rule.first == port && rule.last == port)
    );
}

#[test]
fn mode_29_kube_proxy_knows_its_node() {
    let args = attended(&blueprint(), "kube-proxy").program.args;
    assert!(args.contains(&"--hostname-override=win1".to_owned()));
}

#[test]
fn mode_32_the_network_s_number_and_port_are_those_that_windows_takes() {
    let settings = json(&blueprint(), NETWORK_SETTINGS);
    assert!(settings["Backend"]["VNI"].as_u64().unwrap() >= 4096);
    assert_eq!(settings["Backend"]["Port"], 4789);
    let with = |network: &str| {
        findings(&format!(
            "machines: {{linux: 1, windows: 1}}\nnetwork: {network}\n"
        ))
    };
    assert!(with("{vni: 1}").contains(&"E0405"));
    assert!(with("{port: 8472}").contains(&"E0406"));
}

#[test]
fn mode_33_pods_wait_until_flannel_has_written_the_machine_s_share_down() {
    let blueprint = blueprint();
    let flanneld = attended(&blueprint, "flanneld");
    assert_eq!(flanneld.share, "C:/run/flannel/subnet.env");
    assert!(flanneld.files[0].text.contains("$(share)"));
    let flag = "--subnet-file=C:\\run\\flannel\\subnet.env".to_owned();
    assert!(flanneld.program.args.contains(&flag));
}

#[test]
fn mode_61_what_crashes_leaves_a_dump_and_hns_takes_its_users_along() {
    let blueprint = blueprint();
    // Who is stopped and started in order takes along what depends on it; who crashes does not.
    for name in ["flanneld", "kube-proxy"] {
        let program = attended(&blueprint, name).program;
        assert_eq!(program.renewed_with.as_deref(), Some("hns"), "{name}");
    }
    assert!(
        definition(&blueprint, "flanneld")
            .depends_on
            .contains("hns")
    );
    assert!(
        definition(&blueprint, "kube-proxy")
            .depends_on
            .contains("flanneld")
    );
    let registry = &blueprint.windows.as_ref().unwrap().registry;
    let mut dumps = registry
        .iter()
        .filter(|value| value.key.contains("\\LocalDumps"));
    assert!(dumps.any(|value| value.name == "DumpFolder"));
    assert!(
        blueprint
            .folders
            .iter()
            .any(|folder| folder.path == "C:/var/log/dumps")
    );
}
