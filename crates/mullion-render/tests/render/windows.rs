//! Blueprints of Windows machines, and of what stands in for them.

use mullion_render::{join_config, windows_blueprint};
use mullion_wire::{Blueprint, Content, ServiceState};

use crate::scene::{self, name};

const REAL: &str = "machines:\n- {name: cp, role: control-plane}\n\
    - {name: win, os: windows, version: \"2022\", addresses: [192.0.2.9], ssh: {user: Administrator, hostKey: \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9pFwJ0rGDyzbGXQqYrVwqYZz0jv0mXqYp0wq5nYk3V\"}}\n";
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

#[test]
fn a_stand_in_differs_in_what_the_catalog_says_and_in_nothing_else() {
    let model = scene::model(STAND_IN, "1.36");
    let setting = scene::setting(&model, scene::container());
    let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
    // Carried: laid down, not started.
    assert_eq!(
        service(&blueprint, "containerd").state,
        ServiceState::Stopped
    );
    let kubelet = service(&blueprint, "kubelet").definition.as_ref().unwrap();
    assert!(
        kubelet
            .command
            .contains("--container-runtime-endpoint=tcp://127.0.0.1:2376")
    );
    assert!(
        kubelet.depends_on.is_empty(),
        "what it would wait for never runs"
    );
    let windows = blueprint.windows.as_ref().unwrap();
    assert!(windows.features.is_empty(), "there is nothing to enable");
    assert_eq!(windows.time_zone, None, "setting one ends the agent there");
    let programs = |file: &&mullion_wire::File| file.path.ends_with("/kubelet.exe");
    let kubelet = blueprint.files.iter().find(programs).unwrap();
    let stored = &setting.windows_programs["kubelet-stand-in"];
    assert_eq!(kubelet.content.sha256(), stored.sha256);
    let flags = text(&blueprint, "C:/etc/kube-router/flags");
    assert!(flags.starts_with("--run-firewall=true\n"), "{flags}");
}

#[test]
fn nodes_see_network_policies_only_where_a_stand_in_enforces_them() {
    let is_bound = |text: &str| {
        let model = scene::model(text, "1.36");
        let setting = scene::setting(&model, scene::container());
        let objects = mullion_render::objects(&setting, "policy")
            .unwrap()
            .unwrap();
        let text = format!("{objects:?}");
        assert!(text.contains("DaemonSet"), "{text}");
        text.contains("mullion:stand-in-policy")
    };
    assert!(is_bound(STAND_IN) && !is_bound(REAL));
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
        containerd.command.contains("--log-file"),
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
