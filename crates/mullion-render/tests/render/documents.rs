//! Every document of two clusters, as it is.

use mullion_render::{discovery, objects};
use mullion_wire::{Patience, Secret};
use serde_json::{Value, json};

use crate::scene::{
    LARGE, SMALL, TRIO, computer, container, init_keys, join_keys, model, name, setting, show,
    versions,
};
use crate::scene::{init_config, join_config, load_balancer_blueprint, node_blueprint};

fn yaml_like(objects: &[Value]) -> String {
    let texts: Vec<_> = objects
        .iter()
        .map(|object| format!("{object:#}\n"))
        .collect();
    texts.join("---\n")
}

#[test]
fn a_node_in_a_system_container() {
    let model = model(SMALL, "1.36.4");
    let setting = setting(&model, container());
    insta::assert_snapshot!(
        "small-worker",
        show(&node_blueprint(&setting, &name("lin1")).unwrap())
    );
}

#[test]
fn nodes_on_machines_of_the_user_s() {
    let model = model(LARGE, "1.36.4");
    let setting = setting(&model, computer());
    for machine in ["cp1", "app1"] {
        insta::assert_snapshot!(
            format!("large-{machine}"),
            show(&node_blueprint(&setting, &name(machine)).unwrap())
        );
    }
}

#[test]
fn the_load_balancer_before_three_control_planes() {
    let model = model(TRIO, "1.36.4");
    let mut setting = setting(&model, computer());
    let blueprint = |setting: &_| show(&load_balancer_blueprint(setting, &name("lb1")).unwrap());
    insta::assert_snapshot!("trio-lb1", blueprint(&setting));
    for place in setting.machines.values_mut() {
        place.ground.as_mut().unwrap().can_raise_limits = false;
    }
    assert!(blueprint(&setting).contains("no strict-limits"));
}

#[test]
fn configurations_of_kubeadm() {
    let small = model(SMALL, "1.36.4");
    let small = setting(&small, container());
    let large = model(LARGE, "1.36.4");
    let large = setting(&large, computer());
    let config = init_config(&small, &name("cp1"), &{
        let mut keys = init_keys();
        keys.certificate_key = None;
        keys
    });
    insta::assert_snapshot!("small-init", config.unwrap().reveal());
    let config = init_config(&large, &name("cp1"), &init_keys());
    insta::assert_snapshot!("large-init", config.unwrap().reveal());
    for machine in ["cp2", "app1"] {
        let config = join_config(&large, &name(machine), &join_keys());
        insta::assert_snapshot!(format!("large-join-{machine}"), config.unwrap().reveal());
    }
    insta::assert_snapshot!("large-discovery", discovery(&large, "QUJD").reveal());
}

/// The first document of a configuration, and the rest of its text.
fn first(config: &Secret) -> (Value, String) {
    let (first, rest) = config
        .reveal()
        .split_once("---\n")
        .unwrap_or((config.reveal(), ""));
    (serde_json::from_str(first).unwrap(), rest.to_owned())
}

#[test]
fn a_patient_run_scales_the_timeouts_of_kubeadm_and_nothing_else() {
    for version in versions() {
        let model = model(LARGE, &version);
        let setting = setting(&model, computer());
        let configs = |hundredths| {
            let patience = Patience::of_hundredths(hundredths);
            let (mut begin, mut further) = (init_keys(), join_keys());
            begin.patience = patience;
            further.patience = patience;
            let join = |machine| join_config(&setting, &name(machine), &further).unwrap();
            let init = init_config(&setting, &name("cp1"), &begin).unwrap();
            [init, join("cp2"), join("app1")]
        };
        let usual = configs(100);
        for config in &usual {
            assert!(!config.reveal().contains("timeouts"));
        }
        // kubeadm's defaults are the least.
        assert_eq!(configs(50), usual);
        for (config, usual) in configs(500).iter().zip(&usual) {
            let (mut document, rest) = first(config);
            let timeouts = document.as_object_mut().unwrap().remove("timeouts");
            let scaled = json!({
                "controlPlaneComponentHealthCheck": "1200s",
                "discovery": "1500s",
                "etcdAPICall": "600s",
                "kubeletHealthCheck": "1200s",
                "kubernetesAPICall": "300s",
                "tlsBootstrap": "1500s",
            });
            assert_eq!(timeouts, Some(scaled));
            assert_eq!((document, rest), first(usual));
        }
    }
}

#[test]
fn sets_of_objects() {
    let small = model(SMALL, "1.36.4");
    let small = setting(&small, container());
    let large = model(LARGE, "1.36.4");
    let large = setting(&large, computer());
    for (cluster, setting) in [("small", &small), ("large", &large)] {
        for set in ["network-flannel", "service-proxy", "policy", "dns"] {
            let objects = objects(setting, set).unwrap().unwrap();
            insta::assert_snapshot!(format!("{cluster}-{set}"), yaml_like(&objects));
        }
    }
}

#[test]
fn runtime_classes_of_windows_builds() {
    let text = "
machines: {linux: 1, windows: 1}
verify: {after: []}
";
    let model = model(text, "1.36.4");
    let setting = setting(&model, container());
    let objects = objects(&setting, "runtime-classes").unwrap().unwrap();
    insta::assert_snapshot!("runtime-classes", yaml_like(&objects));
}

/// What changes from minor to minor: versions, tags, containerd's keys.
#[test]
fn every_minor_has_its_documents() {
    for version in versions() {
        let model = model(SMALL, &version);
        let setting = setting(&model, container());
        let blueprint = node_blueprint(&setting, &name("cp1")).unwrap();
        let init = init_config(&setting, &name("cp1"), &init_keys()).unwrap();
        let shown = show(&blueprint);
        let mut files = shown.split("\nfile ");
        let config = files.find(|file| file.starts_with("/etc/containerd/config.toml"));
        let mut told = vec![config.unwrap().to_owned()];
        told.extend(
            init.reveal()
                .lines()
                .filter(|line| line.contains("apiVersion") || line.contains("kubernetesVersion"))
                .map(str::to_owned),
        );
        for set in ["network-flannel", "service-proxy", "policy", "dns"] {
            let objects = yaml_like(&objects(&setting, set).unwrap().unwrap());
            told.extend(
                objects
                    .lines()
                    .filter(|line| line.contains("\"image\""))
                    .map(|line| line.trim().to_owned()),
            );
        }
        let (minor, _) = version.rsplit_once('.').unwrap();
        insta::assert_snapshot!(format!("minor-{minor}"), told.join("\n"));
    }
}
