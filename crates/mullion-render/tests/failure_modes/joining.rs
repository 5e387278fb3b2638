//! Joining, and kubelet.

use mullion_catalog::Catalog;
use mullion_render::objects;
use mullion_wire::{Blueprint, Content, ServiceState};
use serde_json::{Map, Value, json};

use crate::scene::{self, name};
use crate::scene::{init_config, join_config, windows_blueprint};
use crate::windows::{
    CONTAINERD, blueprint, blueprints, definition, file, json as read, model, text,
};

const PIPE: &str = "npipe:////./pipe/containerd-containerd";
const GROUND_PATCH: &str = "C:/etc/kubernetes/patches/kubeletconfiguration!ground+merge.json";

#[test]
fn mode_01_no_flag_names_the_pause_image() {
    for (version, blueprint) in blueprints() {
        let command = &definition(&blueprint, "kubelet").command;
        assert!(!command.contains("pod-infra"), "{version}: {command}");
        let config = text(&blueprint, CONTAINERD);
        assert!(config.contains("/pause:"), "{version}: {config}");
    }
}

#[test]
fn mode_02_kubelet_is_windows_own_service_with_its_runtime_before_it_and_a_log() {
    let blueprint = blueprint();
    let kubelet = definition(&blueprint, "kubelet");
    assert!(kubelet.depends_on.contains("containerd"));
    assert!(
        kubelet
            .command
            .contains("-log-file=C:\\var\\log\\kubelet\\kubelet.log")
    );
    assert!(!kubelet.recovery.restart_after_ms.is_empty());
    let mut services = blueprint.services.iter();
    let service = services.find(|service| service.name == "kubelet").unwrap();
    assert_eq!(service.state, ServiceState::Enabled, "kubeadm starts it");
}

#[test]
fn mode_03_there_are_no_control_groups_to_ask_for() {
    for (version, blueprint) in blueprints() {
        let config = read(&blueprint, GROUND_PATCH);
        assert_eq!(config["cgroupsPerQOS"], false, "{version}");
        assert_eq!(config["enforceNodeAllocatable"], json!([]));
    }
}

#[test]
fn mode_04_what_all_kubelets_share_stops_none_on_windows() {
    for version in scene::versions() {
        let model = model("2022", &version);
        let setting = scene::setting(&model, scene::container());
        let config = init_config(&setting, &name("cp1"), &scene::init_keys()).unwrap();
        let minor = model.kubernetes().version.minor;
        let minor = Catalog::builtin().kubernetes_minor(minor).unwrap();
        assert!(!minor.windows_fatal_fields.is_empty());
        for field in &minor.windows_fatal_fields {
            assert!(
                !config.reveal().contains(field.as_str()),
                "{version}: {field}"
            );
        }
    }
}

#[test]
fn mode_04_nor_does_what_the_user_patches_for_linux() {
    for version in scene::versions() {
        let name_of_theirs = "kubeletconfiguration+merge.yaml";
        let own = format!("VERSION, patches: [{name_of_theirs}]");
        let model = scene::model(&file("2022").replace("VERSION", &own), &version);
        let minor = model.kubernetes().version.minor;
        let minor = Catalog::builtin().kubernetes_minor(minor).unwrap();
        let mut theirs: Map<_, _> = [("maxPods".to_owned(), json!(50))].into_iter().collect();
        let fatal = minor.windows_fatal_fields.iter();
        theirs.extend(fatal.map(|field| (field.clone(), json!(true))));
        let mut setting = scene::setting(&model, scene::computer());
        let theirs = Content::Text(Value::Object(theirs).to_string());
        setting.contents.insert(name_of_theirs.into(), theirs);
        let blueprint = windows_blueprint(&setting, &name("win1")).unwrap();
        let config = patched(&blueprint);
        assert_eq!(config["maxPods"], 50, "{version}: {config:?}");
        for field in &minor.windows_fatal_fields {
            assert!(!config.contains_key(field), "{version}: {config:?}");
        }
    }
    let without = blueprint();
    let mut paths = without.files.iter().map(|file| &file.path);
    assert!(paths.all(|path| !path.contains('~')), "nothing to take out");
}

/// What kubeadm makes of an empty configuration: it takes patches in the order of their names, and a merge removes what
/// is null.
fn patched(blueprint: &Blueprint) -> Map<String, Value> {
    let mut paths: Vec<_> = blueprint.files.iter().map(|file| &file.path).collect();
    paths.retain(|path| path.starts_with("C:/etc/kubernetes/patches/"));
    paths.sort();
    let mut config = Map::new();
    for path in paths {
        assert!(path.contains("+merge."), "{path}");
        for (field, value) in read(blueprint, path).as_object().unwrap().clone() {
            match value {
                Value::Null => config.remove(&field),
                value => config.insert(field, value),
            };
        }
    }
    config
}

#[test]
fn mode_05_the_pause_image_has_a_variant_for_the_build() {
    let pause = |windows: &str, kubernetes: &str| {
        let model = model(windows, kubernetes);
        let config = text(&crate::windows::blueprint_of(&model), CONTAINERD).to_owned();
        let line = config.lines().find(|line| line.contains("/pause:"));
        line.unwrap().to_owned()
    };
    assert!(pause("2022", "1.35").ends_with("/pause:3.10.1'"));
    assert!(pause("2025", "1.35").ends_with("/pause:3.10.2'"));
    assert!(pause("2025", "1.36").ends_with("/pause:3.10.2'"));
}

#[test]
fn mode_06_a_class_leads_a_pod_to_machines_of_its_build() {
    let model = model("2025", "1.36");
    let setting = scene::setting(&model, scene::container());
    let classes = objects(&setting, "runtime-classes").unwrap().unwrap();
    let selector = &classes[0]["scheduling"]["nodeSelector"];
    assert_eq!(selector["node.kubernetes.io/windows-build"], "10.0.26100");
    assert_eq!(classes[0]["handler"], "runhcs-wcow-process");
}

#[test]
fn mode_07_the_runtime_is_named_with_its_scheme() {
    let model = model("2022", "1.36");
    let setting = scene::setting(&model, scene::container());
    let config = join_config(&setting, &name("win1"), &scene::join_keys()).unwrap();
    let config: serde_json::Value = serde_json::from_str(config.reveal()).unwrap();
    let socket = &config["nodeRegistration"]["criSocket"];
    assert_eq!(socket, PIPE);
    // Nor does kubelet look for it in a file that nothing reads here.
    for (version, blueprint) in blueprints() {
        let config = read(&blueprint, GROUND_PATCH);
        assert_eq!(config["containerRuntimeEndpoint"], PIPE, "{version}");
    }
}

#[test]
fn mode_60_kubelet_hears_of_a_shutdown_since_it_is_a_service_itself() {
    for (version, blueprint) in blueprints() {
        let command = &definition(&blueprint, "kubelet").command;
        let flag = "C:\\k\\kubelet.exe --windows-service";
        assert!(command.contains(flag), "{version}: {command}");
    }
}
