//! Upstream's own programs read what we write. They are looked for in the folder `MULLION_TEST_BIN`.

use std::path::{Path, PathBuf};
use std::process::Command;

use mullion_render::{DISCOVERY_PATH, discovery, objects};
use mullion_wire::{Content, Patience, Secret};

use crate::scene::{
    LARGE, SMALL, TRIO, computer, container, init_keys, join_keys, model, name, setting, versions,
};
use crate::scene::{init_config, join_config, node_blueprint};

pub(crate) fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("MULLION_TEST_BIN")
        .expect("MULLION_TEST_BIN names the folder with upstream's programs");
    Path::new(&folder).join(name)
}

/// What a program says; it must succeed, and have nothing to warn of.
pub(crate) fn say(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {told}{complaint}");
    assert!(
        !complaint.contains("unknown field"),
        "{command:?}: {complaint}"
    );
    told
}

fn validate(config: &Secret, folder: &Path) {
    // kubeadm deploys its own minor and the one before it: the fields of the others are read as if they were its own.
    let own = say(Command::new(program("kubeadm")).args(["version", "-o", "short"]));
    let text: Vec<_> = config
        .reveal()
        .lines()
        .map(|line| match line.split_once("\"kubernetesVersion\": ") {
            Some((before, _)) => format!("{before}\"kubernetesVersion\": \"{}\",", own.trim()),
            None => line.to_owned(),
        })
        .collect();
    // It looks whether the discovery file is there.
    let discovery = folder.join("discovery.conf");
    fs_err::write(&discovery, "").unwrap();
    let text = text.join("\n");
    let text = text.replace(DISCOVERY_PATH, discovery.to_str().unwrap());
    let file = folder.join("config.yaml");
    fs_err::write(&file, text).unwrap();
    say(Command::new(program("kubeadm"))
        .args(["config", "validate", "--config"])
        .arg(&file));
}

#[test]
#[ignore = "needs upstream's programs in MULLION_TEST_BIN; cargo xtask test --slow runs it"]
fn kubeadm_accepts_every_configuration() {
    let folder = tempfile::tempdir().unwrap();
    for version in versions() {
        for (text, ground) in [
            (SMALL, container()),
            (TRIO, computer()),
            (LARGE, computer()),
        ] {
            let model = model(text, &version);
            let setting = setting(&model, ground);
            for patience in [100, 250].map(Patience::of_hundredths) {
                let (mut begin, mut further) = (init_keys(), join_keys());
                begin.patience = patience;
                further.patience = patience;
                let config = init_config(&setting, &name("cp1"), &begin).unwrap();
                validate(&config, folder.path());
                for machine in ["cp2", "lin1", "app1"] {
                    if let Ok(config) = join_config(&setting, &name(machine), &further) {
                        validate(&config, folder.path());
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs upstream's programs in MULLION_TEST_BIN; cargo xtask test --slow runs it"]
fn containerd_reads_its_configuration_as_it_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    for (text, ground) in [(SMALL, container()), (LARGE, computer())] {
        let model = model(text, "1.36.4");
        let setting = setting(&model, ground);
        let blueprint = node_blueprint(&setting, &name("cp1")).unwrap();
        let file = blueprint
            .files
            .iter()
            .find(|file| file.path == "/etc/containerd/config.toml");
        let Content::Text(config) = &file.unwrap().content else {
            panic!("it is text");
        };
        let path = folder.path().join("config.toml");
        fs_err::write(&path, config).unwrap();
        let read = say(Command::new(program("containerd"))
            .arg("--config")
            .arg(&path)
            .args(["config", "dump"]));
        for meant in [
            "sandbox = 'registry.k8s.io/pause:3.10.2'",
            "bin_dirs = ['/opt/cni/bin']",
            &format!("restrict_oom_score_adj = {}", !ground.can_raise_limits),
        ] {
            assert!(read.contains(meant), "{meant}: {read}");
        }
        let is_large = text == LARGE;
        assert_eq!(read.contains("SystemdCgroup = true"), is_large, "{read}");
        assert_eq!(
            read.contains("config_path = '/etc/containerd/certs.d'"),
            is_large
        );
    }
}

#[test]
#[ignore = "needs upstream's programs in MULLION_TEST_BIN; cargo xtask test --slow runs it"]
fn kube_proxy_reads_its_configuration_as_it_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(SMALL, "1.36.4");
    let setting = setting(&model, container());
    let objects = objects(&setting, "service-proxy").unwrap().unwrap();
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap");
    let config = map.unwrap()["data"]["config.conf"].as_str().unwrap();
    let (given, read) = (folder.path().join("given"), folder.path().join("read"));
    fs_err::write(&given, config).unwrap();
    say(Command::new(program("kube-proxy"))
        .arg("--config")
        .arg(&given)
        .arg("--write-config-to")
        .arg(&read));
    let read = fs_err::read_to_string(&read).unwrap();
    for meant in [
        "clusterCIDR: 10.244.0.0/16",
        "maxPerCore: 0",
        "mode: iptables",
        "oomScoreAdj: 0",
    ] {
        assert!(read.contains(meant), "{meant}: {read}");
    }
}

#[test]
#[ignore = "needs upstream's programs in MULLION_TEST_BIN; cargo xtask test --slow runs it"]
fn kubectl_reads_the_discovery_file() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(TRIO, "1.36.4");
    let setting = setting(&model, container());
    let file = folder.path().join("discovery");
    fs_err::write(&file, discovery(&setting, "QUJD").reveal()).unwrap();
    let read = say(Command::new(program("kubectl"))
        .arg("--kubeconfig")
        .arg(&file)
        .args([
            "config",
            "view",
            "--output",
            "jsonpath={.clusters[0].cluster.server}",
        ]));
    // The load balancer is the last machine.
    assert_eq!(read, "https://10.99.0.14:6443");
}
