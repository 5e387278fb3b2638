//! Blueprints of Windows machines, and of what stands in for them.

use mullion_catalog::{BlueprintPart, Catalog};

use mullion_spec::words::Driver;
use mullion_wire::{Attended, AttendedLog, Blueprint, Content, RegistryData, ServiceState};

use crate::scene::{self, name};
use crate::scene::{join_config, windows_blueprint};

const REAL: &str = "machines:\n- {name: cp, role: control-plane}\n\
    - {name: win, os: windows, version: \"2022\", addresses: [192.0.2.9], ssh: {user: Administrator, hostKey: \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9pFwJ0rGDyzbGXQqYrVwqYZz0jv0mXqYp0wq5nYk3V\"}}\n";
const MADE: &str = "machines:\n- {name: cp, role: control-plane}\n\
    - {name: win, os: windows, version: \"2022\", driver: qemu, media: {iso: ./windows.iso}}\n";
const STAND_IN: &str = "machines: {linux: 1, windows: 1}\n";

fn text<'a>(blueprint: &'a Blueprint, path: &str) -> &'a str {
    let file = blueprint.files.iter().find(|file| file.path == path);
    match &file.unwrap_or_else(|| panic!("no {path}")).content {
        Content::Text(text) => text,
        Content::Stored { .. } => panic!("{path} is stored"),
    }
}

fn service<'a>(blueprint: &'a Blueprint, name: &str) -> &'a mullion_wire::Service {
    let mut services = blueprint.services.iter();
    services.find(|service| service.name == name).unwrap()
}

/// The same machine twice: as Windows, and as what stands in for it.
fn both() -> (Blueprint, Blueprint) {
    let render = |text: &str| {
        let model = scene::model(text, "1.36");
        let mut setting = scene::setting(&model, scene::container());
        for place in setting.machines.values_mut() {
            place.address = "192.0.2.9".parse().unwrap();
        }
        windows_blueprint(&setting, &name("win1")).unwrap()
    };
    (render(MADE), render(STAND_IN))
}

/// A stand-in's blueprint is Windows' own with the catalog's table applied: nothing else in it may be another.
#[test]
fn a_stand_in_differs_in_what_the_catalog_says_and_in_nothing_else() {
    let (mut expected, mut found) = both();
    // Its twin of kube-router is nothing that Windows has.
    let flags = found
        .files
        .extract_if(.., |file| file.path == "C:/etc/kube-router/flags");
    assert_eq!(flags.count(), 1);
    let differs = Catalog::builtin().driver(Driver::Wine).differs.as_ref();
    let differs = differs.unwrap();
    let windows = expected.windows.as_mut().unwrap();
    for part in &differs.without {
        match part {
            BlueprintPart::Authorities => windows.authorities = [].into(),
            BlueprintPart::DynamicPorts => windows.dynamic_ports = vec![],
            BlueprintPart::Features => windows.features = [].into(),
            BlueprintPart::Firewall => expected.firewall = None,
            BlueprintPart::HostName => windows.host_name = None,
            BlueprintPart::PageFile => windows.page_file = None,
            BlueprintPart::Restarts => {
                let values = windows.registry.iter_mut();
                let mut early = values.filter(|value| value.restart).peekable();
                assert!(early.peek().is_some(), "on Windows some wait for a start");
                early.for_each(|value| value.restart = false);
            }
            BlueprintPart::TimeZone => windows.time_zone = None,
            part => panic!("{part:?} is left out, and nobody says how"),
        }
    }
    for service in &mut expected.services {
        let definition = service.definition.as_mut().unwrap();
        if differs.carried.contains(&service.name) {
            service.state = ServiceState::Stopped;
        } else {
            definition
                .depends_on
                .retain(|name| !differs.carried.contains(name));
        }
        if service.name == "kubelet" {
            definition.command += " --container-runtime-endpoint=tcp://127.0.0.1:2376";
        }
    }
    assert_eq!(found.services, expected.services);
    assert_eq!(found.windows, expected.windows);
    assert_eq!(found.firewall, expected.firewall);
    assert_eq!(found.folders, expected.folders);
    let others: Vec<_> = expected
        .files
        .iter()
        .zip(&found.files)
        .filter(|(expected, found)| expected != found)
        .map(|(expected, found)| {
            assert_eq!((&expected.path, expected.mode), (&found.path, found.mode));
            found.path.as_str()
        })
        .collect();
    assert_eq!(
        others,
        [
            "C:/etc/kubernetes/patches/kubeletconfiguration!ground+merge.json",
            "C:/k/kubelet.exe",
        ]
    );
    assert_eq!(found.files.len(), expected.files.len());
    let patch = text(&found, others[0]);
    let patch: serde_json::Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["evictionHard"]["memory.available"], "100Mi");
    assert_eq!(patch["resolvConf"], "", "what Windows says stays");
}

/// Whom a set lets do what its pods do on Linux machines.
fn bound(text: &str, set: &str) -> Vec<String> {
    let model = scene::model(text, "1.36");
    let setting = scene::setting(&model, scene::container());
    let objects = mullion_render::objects(&setting, set).unwrap().unwrap();
    assert!(objects.iter().any(|object| object["kind"] == "DaemonSet"));
    let mut subjects = Vec::new();
    for object in &objects {
        for subject in object["subjects"].as_array().into_iter().flatten() {
            if subject["kind"] != "ServiceAccount" {
                assert_eq!(subject["apiGroup"], "rbac.authorization.k8s.io");
                subjects.push(format!("{} {}", subject["kind"], subject["name"]).replace('"', ""));
            }
        }
    }
    subjects
}

#[test]
fn windows_nodes_and_no_others_do_themselves_what_pods_do_on_linux() {
    let many = "machines:\n- {name: cp, role: control-plane}\n- {name: win, os: windows, count: 2}\n\
                - {name: app, os: windows}\n- {name: lin, count: 2}\n";
    let each = [
        "User system:node:app1",
        "User system:node:win1",
        "User system:node:win2",
    ];
    for set in ["network-flannel", "service-proxy", "policy"] {
        assert_eq!(bound(many, set), each, "{set}");
        assert!(bound(scene::SMALL, set).is_empty(), "{set}");
    }
    for set in ["network-flannel", "service-proxy"] {
        assert_eq!(bound(REAL, set), ["User system:node:win1"], "{set}");
    }
}

#[test]
fn nodes_see_network_policies_only_where_a_stand_in_enforces_them() {
    let real = REAL
        .lines()
        .last()
        .unwrap()
        .replace("name: win", "name: real");
    let both = format!(
        "machines:\n- {{name: cp, role: control-plane}}\n- {{name: win, os: windows}}\n{real}\n"
    );
    assert_eq!(bound(&both, "policy"), ["User system:node:win1"]);
    assert!(bound(REAL, "policy").is_empty());
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    let has_flags = |file: &mullion_wire::File| file.path.contains("kube-router");
    assert!(!blueprint.files.iter().any(has_flags));
}

#[test]
fn kubelet_on_windows_is_a_service_that_finds_its_files_whatever_drive_it_is_on() {
    let model = scene::model(STAND_IN, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    let kubelet = service(&blueprint, "kubelet");
    assert_eq!(kubelet.state, ServiceState::Enabled, "kubeadm starts it");
    let command = &kubelet.definition.as_ref().unwrap().command;
    for words in [
        // Graceful shutdown is ignored where it is no service of its own (failure 60), and it writes to no file.
        "C:\\k\\kube-log-runner.exe -log-file=C:\\var\\log\\kubelet\\kubelet.log",
        "C:\\k\\kubelet.exe --windows-service",
        // Without the drive the certificate is looked for elsewhere.
        "--cert-dir=C:\\var\\lib\\kubelet\\pki",
        "--hostname-override=win1",
        "--register-with-taints=os=windows:NoSchedule",
    ] {
        assert!(command.contains(words), "{words}: {command}");
    }
    let mut flags = command.split(' ').filter(|word| word.starts_with("--"));
    let without_drive = flags.find(|flag| flag.contains("=\\") || flag.contains("=/"));
    assert_eq!(without_drive, None, "{command}");
    let patch = text(
        &blueprint,
        "C:/etc/kubernetes/patches/kubeletconfiguration!ground+merge.json",
    );
    let patch: serde_json::Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["resolvConf"], "");
    assert_eq!(patch["cgroupsPerQOS"], false);
    // kubelet makes it without saying who may add to it: the folder above has to.
    let drivers = patch["volumePluginDir"].as_str().unwrap();
    let (above, _) = drivers.rsplit_once('/').unwrap();
    let mut folders = blueprint.folders.iter();
    let above = folders.find(|folder| folder.path == above);
    assert_eq!(above.map(|folder| folder.mode), Some(0o755));
}

#[test]
fn the_files_patches_reach_a_windows_kubelet_after_our_own() {
    for machines in [REAL, STAND_IN] {
        let text =
            format!("kubernetes: {{patches: [own/kubeletconfiguration+merge.yaml]}}\n{machines}");
        let model = scene::model(&text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let config = join_config(&setting, &name("win1"), &scene::join_keys()).unwrap();
        let config: serde_json::Value = serde_json::from_str(config.reveal()).unwrap();
        let folder = config["patches"]["directory"].as_str().unwrap();
        let patches: Vec<_> = blueprint
            .files
            .iter()
            .filter_map(|file| file.path.strip_prefix(folder))
            .collect();
        // kubeadm takes them in the order of their names, and the later one wins.
        assert_eq!(
            patches,
            [
                "/kubeletconfiguration!ground+merge.json",
                "/kubeletconfiguration+merge.yaml",
                "/kubeletconfiguration~windows+merge.json",
            ]
        );
        let own = format!("{folder}{}", patches[1]);
        assert_eq!(
            self::text(&blueprint, &own),
            "what is in own/kubeletconfiguration+merge.yaml\n"
        );
    }
}

#[test]
fn containerd_on_windows_has_one_place_for_plugins_and_a_log() {
    let model = scene::model(STAND_IN, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    let config = text(&blueprint, "C:/Program Files/containerd/config.toml");
    // Failure 36: both keys at once; failure 37: a backslash in double quotes.
    assert_eq!(config.matches("bin_dir").count(), 1, "{config}");
    assert!(!config.contains('"'), "{config}");
    assert!(config.contains("conf_dir = 'C:/etc/cni/net.d'"), "{config}");
    let containerd = service(&blueprint, "containerd")
        .definition
        .as_ref()
        .unwrap();
    // Failure 38: without it nothing is logged.
    assert!(
        containerd
            .command
            .contains(" --log-file C:\\var\\log\\containerd\\containerd.log "),
        "{}",
        containerd.command
    );
    // Failure 32: the network's settings are those that Windows takes.
    let network = text(&blueprint, mullion_render::NETWORK_SETTINGS);
    let network: serde_json::Value = serde_json::from_str(network).unwrap();
    assert_eq!(network["Backend"]["VNI"], 4096);
    assert_eq!(network["Backend"]["Port"], 4789);
}

#[test]
fn a_real_windows_has_its_own_runtime_and_features() {
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    assert_eq!(
        service(&blueprint, "containerd").state,
        ServiceState::Running
    );
    let kubelet = service(&blueprint, "kubelet").definition.as_ref().unwrap();
    assert!(kubelet.depends_on.contains("containerd"));
    assert!(!kubelet.command.contains("tcp://"), "{}", kubelet.command);
    let windows = blueprint.windows.as_ref().unwrap();
    assert!(windows.features.contains("Containers"));
    // Failures 39 and 42: Defender looks into layers while they are unpacked.
    assert!(
        windows
            .exclusions
            .paths
            .contains("C:\\ProgramData\\containerd")
    );
}

/// What the agent is told of a program that it attends to.
fn attended(blueprint: &Blueprint, service: &str) -> Attended {
    serde_json::from_str(text(blueprint, &format!("C:/etc/mullion/{service}.json"))).unwrap()
}

#[test]
fn flannel_and_kube_proxy_are_services_that_wait_for_the_node_and_its_network() {
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    for (service, needs) in [("flanneld", "hns"), ("kube-proxy", "flanneld")] {
        let service = self::service(&blueprint, service);
        assert_eq!(service.state, ServiceState::Running);
        let definition = service.definition.as_ref().unwrap();
        assert!(definition.depends_on.contains(needs), "{definition:?}");
        let name = &service.name;
        let command = format!(
            "C:\\k\\kube-log-runner.exe -log-file=C:\\var\\log\\{name}\\{name}.log -log-file-size=50M \
             -log-file-age=168h C:\\k\\mullion-agent.exe attend C:\\etc\\mullion\\{name}.json"
        );
        assert_eq!(definition.command, command);
        for file in &service.restarted_by {
            let mut files = blueprint.files.iter();
            assert!(files.any(|laid| laid.path == *file), "{file} is not there");
        }
    }
    let flanneld = attended(&blueprint, "flanneld");
    let conf = "C:/etc/kubernetes/kubelet.conf".to_owned();
    assert!(flanneld.program.awaits.files.contains(&conf));
    assert_eq!(flanneld.program.awaits.network, None, "it makes it");
    assert_eq!(
        flanneld.files[0].awaits.network.as_deref(),
        Some("flannel.4096")
    );
    let definition = service(&blueprint, "flanneld").definition.as_ref().unwrap();
    assert_eq!(definition.environment["NODE_NAME"], "win1");
    let proxy = attended(&blueprint, "kube-proxy");
    assert_eq!(
        proxy.program.awaits.network.as_deref(),
        Some("flannel.4096")
    );
    assert_eq!(
        proxy.program.args,
        [
            "--kubeconfig=C:\\etc\\kubernetes\\kubelet.conf",
            "--proxy-mode=kernelspace",
            "--hostname-override=win1",
            "--network-name=flannel.4096",
            "--enable-dsr=true",
            "--source-vip=$(source-vip)",
        ]
    );
}

#[test]
fn the_configuration_of_pods_keeps_kube_proxy_s_address_from_them() {
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    let config = &attended(&blueprint, "flanneld").files[0];
    assert_eq!(config.path, "C:/etc/cni/net.d/10-flannel.conflist");
    let config: serde_json::Value = serde_json::from_str(&config.text).unwrap();
    assert_eq!(config["name"], "flannel.4096", "the network's own name");
    let plugin = &config["plugins"][0];
    assert_eq!(plugin["type"], "win-overlay");
    assert_eq!(plugin["ipam"]["subnet"], "$(share)");
    // The second address is kube-proxy's, the third the first pod's.
    assert_eq!(plugin["ipam"]["rangeStart"], "$(first-pod)");
    let policies = plugin["policies"].as_array().unwrap();
    let settings = |kind: &str| {
        let mut found = policies.iter().map(|policy| &policy["value"]);
        found.find(|value| value["Type"] == kind).unwrap()["Settings"].clone()
    };
    let inside = serde_json::json!(["10.244.0.0/16", "10.96.0.0/16"]);
    assert_eq!(settings("OutBoundNAT")["Exceptions"], inside);
    assert_eq!(settings("SDNRoute")["DestinationPrefix"], inside[1]);
    assert_eq!(settings("ProviderAddress")["ProviderAddress"], "192.0.2.9");
}

#[test]
fn without_an_overlay_there_is_no_source_address_and_no_network_beforehand() {
    let text = format!("network: {{backend: host-gw}}\n{MADE}");
    let model = scene::model(&text, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    assert_eq!(blueprint.windows.as_ref().unwrap().network, None);
    let args = attended(&blueprint, "kube-proxy").program.args;
    assert!(args.contains(&"--network-name=cbr0".to_owned()), "{args:?}");
    assert!(
        args.contains(&"--root-hnsendpoint-name=cbr0_ep".to_owned()),
        "{args:?}"
    );
    assert!(
        !args.iter().any(|flag| flag.starts_with("--source-vip")),
        "{args:?}"
    );
    let config = &attended(&blueprint, "flanneld").files[0].text;
    assert!(config.contains("win-bridge"), "{config}");
}

#[test]
fn every_minor_gets_its_own_flags() {
    for version in scene::versions() {
        let file = format!("kubernetes: {{version: VERSION}}\n{REAL}");
        let model = scene::model(&file, &version);
        let setting = scene::setting(&model, scene::container());
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let minor = model.kubernetes().version.minor;
        let rotates = Catalog::builtin()
            .kubernetes_minor(minor)
            .unwrap()
            .log_runner_rotates;
        for service in ["kubelet", "flanneld", "kube-proxy"] {
            let definition = self::service(&blueprint, service)
                .definition
                .as_ref()
                .unwrap();
            let command = &definition.command;
            let flags = " -log-file-size=50M -log-file-age=168h ";
            assert_eq!(command.contains(flags), rotates, "{version}: {command}");
            let log = format!(" -log-file=C:\\var\\log\\{service}\\{service}.log ");
            assert!(command.contains(&log), "{version}: {command}");
        }
        // Who does not begin a new log by itself is helped, and by one service alone.
        let logs = attended(&blueprint, "flanneld").logs;
        let paths: Vec<_> = logs.iter().map(|log| log.path.as_str()).collect();
        let mut expected = vec!["C:/var/log/containerd/containerd.log"];
        if !rotates {
            expected.extend([
                "C:/var/log/flanneld/flanneld.log",
                "C:/var/log/kube-proxy/kube-proxy.log",
                "C:/var/log/kubelet/kubelet.log",
            ]);
        }
        assert_eq!(paths, expected, "{version}");
        let is_as_ever =
            |log: &AttendedLog| (log.aside_from, log.removed_after_s) == (50_000_000, 604_800);
        assert!(logs.iter().all(is_as_ever), "{logs:?}");
        assert_eq!(attended(&blueprint, "kube-proxy").logs, []);
        let args = attended(&blueprint, "kube-proxy").program.args;
        let gates = args.iter().find(|flag| flag.starts_with("--feature-gates"));
        let expected = version
            .starts_with("1.32")
            .then_some("--feature-gates=WinDSR=true");
        assert_eq!(gates.map(String::as_str), expected, "{version}");
        let config = text(&blueprint, "C:/Program Files/containerd/config.toml");
        assert!(
            config.contains("default_runtime_name = 'runhcs-wcow-process'"),
            "{config}"
        );
        assert!(
            config.contains("image_pull_progress_timeout = '30m'"),
            "{config}"
        );
    }
}

#[test]
fn behind_a_proxy_and_a_mirror_containerd_knows_both() {
    let text = format!(
        "proxy: {{https: \"http://proxy.example:3128\"}}\ntrust: [{{file: ca.pem}}]\n\
         artifacts: {{mirror: \"https://mirror.example\"}}\n{REAL}"
    );
    let model = scene::model(&text, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    for name in ["containerd", "kubelet"] {
        let definition = service(&blueprint, name).definition.as_ref().unwrap();
        assert_eq!(
            definition.environment["HTTPS_PROXY"],
            "http://proxy.example:3128"
        );
        assert!(definition.environment["NO_PROXY"].contains("192.0.2.9"));
    }
    let config = self::text(&blueprint, "C:/Program Files/containerd/config.toml");
    let folder = "config_path = 'C:/Program Files/containerd/certs.d'";
    assert!(config.contains(folder), "{config}");
    let hosts = "C:/Program Files/containerd/certs.d/registry.k8s.io/hosts.toml";
    let hosts = self::text(&blueprint, hosts);
    assert!(
        hosts.contains("https://mirror.example/v2/registry.k8s.io"),
        "{hosts}"
    );
    assert_eq!(
        hosts.matches("containerd/trust/mullion-1.crt").count(),
        2,
        "{hosts}"
    );
    // The whole machine trusts it as well: not only containerd asks the mirror.
    let trusted = "C:/Program Files/containerd/trust/mullion-1.crt";
    assert!(blueprint.files.iter().any(|file| file.path == trusted));
    let authorities = blueprint.windows.unwrap().authorities;
    assert_eq!(authorities, [trusted.to_owned()].into());
}

#[test]
fn only_machines_that_we_make_get_a_name_and_a_zone_and_page_file_by_default() {
    let (made, _) = both();
    let windows = made.windows.unwrap();
    assert_eq!(windows.host_name.as_deref(), Some("win1"));
    assert_eq!(windows.time_zone.as_deref(), Some("UTC"));
    let page_file = windows.page_file.unwrap();
    assert_eq!((page_file.first_mib, page_file.most_mib), (4096, 4096));
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let windows = windows_blueprint(&setting, &name("win1"))
        .unwrap()
        .windows
        .unwrap();
    assert_eq!((windows.host_name, windows.time_zone), (None, None));
    assert_eq!(windows.page_file, None);
}

#[test]
fn a_zone_and_a_page_file_that_the_file_sets_reach_existing_machines() {
    let of = |text: &str| {
        let model = scene::model(text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let windows = windows_blueprint(&setting, &name("win1")).unwrap().windows;
        let windows = windows.unwrap();
        assert_eq!(windows.host_name, None);
        (
            windows.time_zone,
            windows.page_file.map(|file| file.most_mib),
        )
    };
    let shared = |fields: &str| of(&format!("windows: {{{fields}}}\n{REAL}"));
    let own = |fields: &str| of(&REAL.replace("ssh:", &format!("{fields}, ssh:")));
    for set in [&shared as &dyn Fn(&str) -> _, &own] {
        let berlin = Some("W. Europe Standard Time".to_owned());
        assert_eq!(set("timezone: Europe/Berlin"), (berlin, None));
        assert_eq!(set("pageFile: 8GiB"), (None, Some(8192)));
        // The defaults, where the user wrote them.
        let utc = Some("UTC".to_owned());
        assert_eq!(set("timezone: UTC, pageFile: 4GiB"), (utc, Some(4096)));
    }
    assert_eq!(shared("rdp: true"), (None, None));
}

#[test]
fn remote_desktop_of_an_existing_machine_is_switched_as_the_file_says() {
    let of = |text: &str| {
        let model = scene::model(text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let opens = blueprint
            .firewall
            .unwrap()
            .open
            .iter()
            .any(|port| port.name == "rdp");
        let registry = blueprint.windows.unwrap().registry.into_iter();
        let mut switches = registry.filter(|value| value.name == "fDenyTSConnections");
        let data = switches.next().map(|value| value.data);
        assert_eq!(switches.next(), None);
        (data, opens)
    };
    let shared = |field: &str| of(&format!("windows: {{{field}}}\n{REAL}"));
    let own = |field: &str| of(&REAL.replace("ssh:", &format!("{field}, ssh:")));
    for set in [&shared as &dyn Fn(&str) -> _, &own] {
        assert_eq!(set("rdp: true"), (Some(RegistryData::Dword(0)), true));
        assert_eq!(set("rdp: false"), (Some(RegistryData::Dword(1)), false));
    }
    assert_eq!(of(REAL), (None, false), "a default changes nothing");
}

#[test]
fn a_time_zone_is_written_as_windows_calls_it() {
    for (zone, windows) in [
        ("Europe/Vienna", "W. Europe Standard Time"),
        ("America/New_York", "Eastern Standard Time"),
        ("Tokyo Standard Time", "Tokyo Standard Time"),
    ] {
        let model = scene::model(&format!("windows: {{timezone: {zone}}}\n{MADE}"), "1.36");
        let setting = scene::setting(&model, scene::container());
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let found = blueprint.windows.unwrap().time_zone;
        assert_eq!(found.as_deref(), Some(windows));
    }
}

#[test]
fn what_every_program_of_a_machine_feels_is_set_where_we_made_it() {
    let keys = |blueprint: Blueprint| -> Vec<String> {
        let registry = blueprint.windows.unwrap().registry;
        registry.into_iter().map(|value| value.key).collect()
    };
    let has = |keys: &[String], end: &str| keys.iter().any(|key| key.ends_with(end));
    let model = scene::model(REAL, "1.36");
    let setting = scene::setting(&model, scene::container());
    let existing = keys(windows_blueprint(&setting, &name("win1")).unwrap());
    let made = keys(both().0);
    for everybodys in [r"\WindowsUpdate\AU", r"\LocalDumps"] {
        assert!(has(&made, everybodys), "{made:?}");
        assert!(!has(&existing, everybodys), "{existing:?}");
    }
    assert!(has(&existing, r"\LocalDumps\kubelet.exe"), "{existing:?}");
    assert!(has(&existing, r"\hns\State"), "{existing:?}");
}

#[test]
fn a_file_of_the_user_s_is_not_one_of_ours_whatever_its_letters_and_signs() {
    for path in ["C:/K/Kubelet.exe", r"C:\k\kubelet.exe"] {
        let text = REAL.replace("ssh:", &format!("files: [{{from: x, to: '{path}'}}], ssh:"));
        let model = scene::model(&text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let error = windows_blueprint(&setting, &name("win1")).unwrap_err();
        assert!(error.to_string().contains("two files would be"), "{error}");
    }
}

#[test]
fn a_path_as_windows_writes_it_is_laid_down_as_the_agent_does() {
    let own = r"files: [{from: ./x, to: 'C:\Tools\x'}], ssh:";
    let model = scene::model(&REAL.replace("ssh:", own), "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    let mut files = blueprint.files.iter();
    let copied = files.find(|file| file.path == "C:/Tools/x").unwrap();
    let digest = mullion_wire::Sha256Digest::of(b"what is in ./x\n");
    assert_eq!(copied.content.sha256(), digest);
    let mut paths = blueprint.files.iter().map(|file| &file.path);
    assert!(paths.all(|path| !path.contains('\\')));
}

#[test]
fn a_windows_machine_joins_by_a_pipe_and_a_file_that_is_no_url() {
    let model = scene::model(STAND_IN, "1.36");
    let setting = scene::setting(&model, scene::container());
    let config = join_config(&setting, &name("win1"), &scene::join_keys()).unwrap();
    let config: serde_json::Value = serde_json::from_str(config.reveal()).unwrap();
    let registration = &config["nodeRegistration"];
    assert_eq!(
        registration["criSocket"],
        "npipe:////./pipe/containerd-containerd"
    );
    let discovery = &config["discovery"]["file"]["kubeConfigPath"];
    assert_eq!(
        discovery,
        "\\Program Files\\mullion-secrets\\discovery.conf"
    );
}

#[test]
fn folders_of_keys_are_private_and_those_of_the_cluster_are_not_the_blueprint_s() {
    let (real, stand_in) = both();
    for blueprint in [real, stand_in] {
        let mode = |path: &str| {
            let mut folders = blueprint.folders.iter();
            folders
                .find(|folder| folder.path == path)
                .map(|found| found.mode)
        };
        // Kubeconfigs and `pki` come to be in it.
        assert_eq!(mode("C:/etc/kubernetes"), Some(0o700));
        assert_eq!(mode("C:/var/log/dumps"), Some(0o700));
        // Programs that the system runs, and what it starts them with: `C:/` would let every user add to them.
        for path in [
            "C:/k",
            "C:/opt/cni/bin",
            "C:/etc/mullion",
            "C:/var/lib/cni",
            "C:/var/lib/kubelet",
        ] {
            assert_eq!(mode(path), Some(0o755), "{path}");
        }
        // The agent makes them at every join; were they the blueprint's, a reset would break the blueprint.
        for name in ["pki", "pods"] {
            assert_eq!(mode(&format!("C:/var/lib/kubelet/{name}")), None);
        }
    }
}

#[test]
fn nothing_is_in_a_folder_that_every_user_may_add_to() {
    let (real, _) = both();
    let folders = real.folders.iter();
    let closed: Vec<_> = folders.map(|folder| (&*folder.path, folder.mode)).collect();
    let files = real.files.iter().map(|file| file.path.as_str());
    for path in files.chain(closed.iter().map(|(path, _)| *path)) {
        let (above, _) = path.rsplit_once('/').unwrap();
        // Only administrators add anything to programs, and to the drive and its data we add folders alone.
        let is_windows_own = above.starts_with("C:/Program Files/")
            || (["C:", "C:/ProgramData"].contains(&above)
                && closed.iter().any(|(folder, _)| *folder == path));
        let is_closed = |(folder, mode): &(&str, u32)| {
            above == *folder || (*mode == 0o700 && above.starts_with(&format!("{folder}/")))
        };
        assert!(is_windows_own || closed.iter().any(is_closed), "{path}");
    }
}

#[test]
fn the_user_s_own_file_of_keys_is_private_too() {
    let keys = "C:/ProgramData/ssh/Administrators_Authorized_Keys";
    for path in [keys.to_owned(), keys.replace('/', "\\")] {
        let text = REAL.replace("ssh:", &format!("files: [{{from: x, to: '{path}'}}], ssh:"));
        let model = scene::model(&text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let mut files = blueprint.files.iter();
        let file = files.find(|file| file.path == keys).unwrap();
        assert_eq!(file.mode, 0o600);
        assert!(blueprint.windows.unwrap().private_files.is_empty());
    }
}
