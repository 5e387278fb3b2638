//! What holds for every document, of every cluster here.

use std::collections::BTreeSet;

use mullion_catalog::{ArtifactKind, Model};
use mullion_render::{
    Cgroups, Footing, Ground, RenderError, Setting, expected_preflight_errors, login_variables,
    objects,
};
use mullion_spec::version::Minor;
use mullion_wire::{Content, Kubeadm, Secret};
use serde_json::Value;

use crate::scene::{
    KEY, LARGE, SMALL, TOKEN, TRIO, computer, container, init_keys, join_keys, model, name,
    setting, versions,
};
use crate::scene::{init, join, load_balancer_blueprint, node_blueprint};

const SETS: [&str; 5] = [
    "network-flannel",
    "service-proxy",
    "policy",
    "dns",
    "runtime-classes",
];

/// Runs a check on every cluster of every minor, on every ground.
fn everywhere(check: impl Fn(&Setting<'_>)) {
    for version in versions() {
        for text in [SMALL, TRIO, LARGE] {
            let model = model(text, &version);
            for ground in grounds() {
                check(&setting(&model, ground));
            }
        }
    }
}

fn grounds() -> Vec<Ground> {
    let mut grounds = Vec::new();
    for footing in [Footing::Computer, Footing::SystemContainer] {
        for cgroups in [Cgroups::V1, Cgroups::Hybrid, Cgroups::V2] {
            for bits in 0..8 {
                grounds.push(Ground {
                    footing,
                    cgroups,
                    can_raise_limits: bits & 1 != 0,
                    has_swap: bits & 2 != 0,
                    has_resolver: bits & 4 != 0,
                });
            }
        }
    }
    grounds
}

fn all_objects(setting: &Setting<'_>) -> Vec<Value> {
    let sets = SETS.iter();
    sets.filter_map(|set| objects(setting, set).unwrap())
        .flatten()
        .collect()
}

/// Every value of a key, however deep.
fn values<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == key {
                    found.push(value);
                }
                values(value, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| values(item, key, found)),
        _ => {}
    }
}

#[test]
fn every_image_is_an_artifact_of_the_model() {
    everywhere(|setting| {
        let known: BTreeSet<_> = setting
            .model
            .artifacts()
            .iter()
            .filter(|artifact| artifact.kind == ArtifactKind::Image)
            .filter_map(|artifact| artifact.address.as_deref())
            .collect();
        let objects = all_objects(setting);
        let mut images = Vec::new();
        for object in &objects {
            values(object, "image", &mut images);
        }
        assert!(images.len() >= 5, "{images:?}");
        for image in images {
            assert!(known.contains(image.as_str().unwrap()), "{image}");
        }
    });
}

#[test]
fn every_daemon_and_deployment_stays_on_linux_and_pulls_only_what_is_missing() {
    everywhere(|setting| {
        for object in all_objects(setting) {
            let kind = object["kind"].as_str().unwrap();
            if !["DaemonSet", "Deployment"].contains(&kind) {
                continue;
            }
            let pod = &object["spec"]["template"]["spec"];
            assert_eq!(pod["nodeSelector"]["kubernetes.io/os"], "linux", "{object}");
            if kind == "DaemonSet" {
                assert_eq!(
                    pod["tolerations"],
                    serde_json::json!([{"operator": "Exists"}])
                );
                assert_eq!(pod["priorityClassName"], "system-node-critical");
            }
            for container in pod["containers"].as_array().unwrap() {
                assert_eq!(container["imagePullPolicy"], "IfNotPresent");
            }
            let labels = &object["spec"]["template"]["metadata"]["labels"];
            assert_eq!(&object["spec"]["selector"]["matchLabels"], labels);
        }
    });
}

#[test]
fn every_object_is_labelled_as_ours_and_stands_once() {
    everywhere(|setting| {
        let mut seen = BTreeSet::new();
        for object in all_objects(setting) {
            let metadata = &object["metadata"];
            assert_eq!(
                metadata["labels"]["app.kubernetes.io/managed-by"],
                "mullion"
            );
            let key = format!(
                "{} {} {}",
                object["kind"], metadata["namespace"], metadata["name"]
            );
            assert!(seen.insert(key.clone()), "{key}");
        }
    });
}

#[test]
fn sets_that_the_cluster_has_not_are_none() {
    let text = SMALL.replace("10.99.0.0/24", "10.99.0.0/24, policy: false");
    let model = model(&text, "1.36.4");
    let setting = setting(&model, container());
    for set in ["policy", "network-calico", "admission", "addon-x", ""] {
        assert_eq!(objects(&setting, set).unwrap(), None, "{set}");
    }
}

#[test]
fn no_preflight_error_is_let_pass_but_the_one_that_is_explained() {
    for ground in grounds() {
        for minor in 30..50 {
            for name in expected_preflight_errors(ground, Minor::one(minor)) {
                assert_eq!(name, "SystemVerification");
            }
        }
    }
    everywhere(|setting| {
        let step = init(setting, &name("cp1"), &init_keys()).unwrap();
        let Kubeadm::Init {
            config,
            ignore,
            patches,
            ..
        } = &step
        else {
            panic!("{step:?}");
        };
        assert!(!ignore.contains("all"));
        // kubeadm takes no flag for patches beside its file, so the file names them.
        let folder = patches.as_deref().unwrap();
        assert!(
            config
                .reveal()
                .contains(&format!("\"directory\": \"{folder}\""))
        );
    });
}

#[test]
fn a_secret_is_in_its_configuration_and_in_no_debug_text() {
    let secrets = [TOKEN, KEY, "QUJD"];
    let model = model(TRIO, "1.36.4");
    let setting = setting(&model, computer());
    let begin = init(&setting, &name("cp1"), &init_keys()).unwrap();
    let file = mullion_render::discovery(&setting, "QUJD");
    let further = join(&setting, &name("cp2"), &join_keys(), file).unwrap();
    for shown in [
        format!("{begin:?}"),
        format!("{further:?}"),
        format!("{:?} {:?}", init_keys(), join_keys()),
        format!("{setting:?}"),
    ] {
        for secret in secrets {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let (
        Kubeadm::Init { config: first, .. },
        Kubeadm::Join {
            config: second,
            discovery,
            ..
        },
    ) = (&begin, &further)
    else {
        panic!("{begin:?}");
    };
    for config in [first, second] {
        assert!(config.reveal().contains(TOKEN) && config.reveal().contains(KEY));
    }
    assert!(discovery.reveal().contains("QUJD"));
    assert_eq!(format!("{:?}", Secret::new("a")), "Secret(…)");
}

#[test]
fn the_proxy_is_not_asked_for_the_cluster_s_own_networks() {
    let large = model(LARGE, "1.36.4");
    let large = setting(&large, computer());
    let variables = "/etc/default/mullion-proxy";
    let list = text_of(&large, "cp1", variables).unwrap();
    for own in [
        "registry.example",
        "localhost",
        "127.0.0.1",
        "10.128.0.0/14",
        "172.30.0.0/16",
        "api.large.example",
        ".svc",
        ".large.example",
    ] {
        let is_there = list.split(['"', ',']).any(|item| item == own);
        assert!(is_there, "{own}: {list}");
    }
    let trio = model(TRIO, "1.36.4");
    let mut trio = setting(&trio, container());
    let text = text_of(&trio, "cp1", variables).unwrap();
    assert!(text.contains("10.244.0.0/16,10.96.0.0/16,10.99.0.0/24"));
    trio.machine_network = Some("10.99.7.0/24".parse().unwrap());
    let text = text_of(&trio, "cp1", variables).unwrap();
    assert!(text.contains("HTTPS_PROXY=\"http://proxy.example:3128\"\n"));
    assert!(!text.contains("HTTP_PROXY="));
    assert!(text.contains("10.244.0.0/16,10.96.0.0/16,10.99.7.0/24"));
    for service in ["containerd", "kubelet"] {
        let path = format!("/etc/systemd/system/{service}.service.d/10-proxy.conf");
        let text = text_of(&trio, "cp1", &path).unwrap();
        let read = format!("EnvironmentFile={variables}\n");
        assert!(text.contains(&read), "{text}");
    }
    let told = login_variables(&trio, &name("cp1")).unwrap();
    let way = "http://proxy.example:3128".to_owned();
    let both = ["https_proxy", "HTTPS_PROXY"].map(|name| (name.to_owned(), way.clone()));
    assert!(told.starts_with(&both), "{told:?}");
    let small = model(SMALL, "1.36.4");
    let small = setting(&small, container());
    assert!(login_variables(&small, &name("cp1")).unwrap().is_empty());
    let blueprint = node_blueprint(&small, &name("cp1")).unwrap();
    assert!(
        !blueprint
            .files
            .iter()
            .any(|file| file.path.contains("proxy"))
    );
}

fn text_of(setting: &Setting<'_>, machine: &str, path: &str) -> Option<String> {
    let blueprint = node_blueprint(setting, &name(machine)).unwrap();
    let file = blueprint.files.into_iter().find(|file| file.path == path)?;
    match file.content {
        Content::Text(text) => Some(text),
        Content::Stored { .. } => None,
    }
}

#[test]
fn a_blueprint_has_one_digest_however_often_it_is_made() {
    everywhere(|setting| {
        let digest = || node_blueprint(setting, &name("cp1")).unwrap().digest();
        assert_eq!(digest(), digest());
    });
}

#[test]
fn a_node_s_blueprint_does_not_change_when_another_machine_comes() {
    let before = |text: &str| model(text, "1.36.4");
    let few = before(SMALL);
    let many = before(&SMALL.replace("linux: 1", "linux: 5"));
    let digest = |model: &Model, machine: &str| {
        let setting = setting(model, container());
        node_blueprint(&setting, &name(machine)).unwrap().digest()
    };
    for machine in ["cp1", "lin1"] {
        assert_eq!(digest(&few, machine), digest(&many, machine));
    }
    assert_ne!(digest(&few, "cp1"), digest(&few, "lin1"));
}

#[test]
fn services_name_files_and_services_of_their_blueprint() {
    everywhere(|setting| {
        for machine in setting.machines.keys() {
            let blueprint = node_blueprint(setting, machine)
                .or_else(|_| load_balancer_blueprint(setting, machine))
                .unwrap();
            let files: BTreeSet<_> = blueprint.files.iter().map(|file| &file.path).collect();
            let services = blueprint.services.iter();
            let names: BTreeSet<_> = services.map(|service| &service.name).collect();
            for service in &blueprint.services {
                for path in &service.restarted_by {
                    assert!(files.contains(path), "{path}");
                }
                for after in &service.after {
                    assert!(names.contains(after), "{after}");
                }
            }
            for file in &blueprint.files {
                assert!(file.path.starts_with('/'), "{}", file.path);
            }
        }
    });
}

#[test]
fn a_system_container_changes_nothing_of_its_computer_s_kernel_but_watchers() {
    let model = model(SMALL, "1.36.4");
    let setting = setting(&model, container());
    let blueprint = node_blueprint(&setting, &name("lin1")).unwrap();
    assert!(blueprint.modules.is_empty() && blueprint.packages.is_empty());
    for key in blueprint.sysctls.keys() {
        assert!(
            key.starts_with("net.") || key.starts_with("fs.inotify."),
            "{key}"
        );
    }
}

#[test]
fn what_is_missing_is_named() {
    let model = model(LARGE, "1.36.4");
    let whole = setting(&model, computer());
    let blueprint = |setting: &Setting<'_>, machine: &str| node_blueprint(setting, &name(machine));
    let mut lacking = whole.clone();
    lacking.programs.remove("kubelet");
    assert_eq!(
        blueprint(&lacking, "cp1"),
        Err(RenderError::NoProgram("kubelet".into()))
    );
    for path in ["files/motd", "patches/kube-apiserver+json.yaml", "ca.pem"] {
        let mut lacking = whole.clone();
        lacking.contents.remove(std::path::Path::new(path));
        let error = blueprint(&lacking, "app1").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the contents of `{path}` were not given")
        );
    }
    assert_eq!(
        blueprint(&whole, "cp9"),
        Err(RenderError::UnknownMachine(name("cp9")))
    );
    let mut keys = join_keys();
    keys.certificate_key = None;
    for machine in ["cp2", "app1"] {
        assert!(join(&whole, &name(machine), &keys, Secret::new("")).is_ok());
    }
    let error = init(&whole, &name("app1"), &init_keys()).unwrap_err();
    assert!(matches!(error, RenderError::OtherDuty { .. }), "{error}");
}

#[test]
fn a_file_of_the_user_s_does_not_take_the_place_of_ours() {
    let text = LARGE.replace("/etc/motd", "/etc/crictl.yaml");
    let model = model(&text, "1.36.4");
    let setting = setting(&model, computer());
    let error = node_blueprint(&setting, &name("app1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two files would be `/etc/crictl.yaml` on machine `app1`"
    );
}
