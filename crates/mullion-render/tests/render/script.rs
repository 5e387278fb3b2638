//! The shell script beside flannel, run for real in a folder of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mullion_render::objects;
use serde_json::Value;

use crate::scene::{SMALL, container, model, setting};

/// The script's own process: ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, mtu: &str) -> Running {
    let model = model(SMALL, "1.36.4");
    let setting = setting(&model, container());
    let objects = objects(&setting, "network-flannel").unwrap().unwrap();
    let daemon = objects.last().unwrap();
    let container = &daemon["spec"]["template"]["spec"]["containers"][1];
    let command: Vec<_> = container["command"].as_array().unwrap().iter().collect();
    let mut words = command.iter().map(|word| word.as_str().unwrap());
    let child = Command::new(words.next().unwrap())
        .args(words)
        .env("SUBNET_FILE", folder.join("subnet.env"))
        .env("NETWORK_FOLDER", folder)
        .env("POD_MTU", mtu)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Running(child)
}

fn flannel_writes(folder: &Path, subnet: &str) {
    let text = format!(
        "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET={subnet}\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
    );
    fs_err::write(folder.join(".subnet.env"), text).unwrap();
    fs_err::rename(folder.join(".subnet.env"), folder.join("subnet.env")).unwrap();
}

/// The network that was written, once it has the wanted subnet.
fn network(folder: &Path, subnet: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let text = fs_err::read_to_string(folder.join("10-flannel.conflist")).unwrap_or_default();
        if text.contains(subnet) {
            return serde_json::from_str(&text).unwrap();
        }
        assert!(Instant::now() < deadline, "no {subnet} in `{text}`");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_network_follows_what_flannel_wrote_down() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = start(folder, "");
    sleep(Duration::from_millis(300));
    assert!(!folder.join("10-flannel.conflist").exists());
    flannel_writes(folder, "10.244.7.1/24");
    let written = network(folder, "10.244.7.0/24");
    let bridge = &written["plugins"][0];
    assert_eq!(bridge["mtu"], 1450);
    assert_eq!(bridge["ipam"]["routes"][0]["dst"], "10.244.0.0/16");
    assert_eq!(written["plugins"][1]["type"], "portmap");
    // A subnet that does not end at an octet.
    flannel_writes(folder, "10.244.9.129/25");
    assert_eq!(
        network(folder, "10.244.9.128/25")["plugins"][0]["ipam"]["ranges"][0][0]["subnet"],
        "10.244.9.128/25"
    );
    fs_err::remove_file(folder.join("10-flannel.conflist")).unwrap();
    network(folder, "10.244.9.128/25");
    drop(script);
}

#[test]
fn the_file_s_own_mtu_wins_and_the_script_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    flannel_writes(folder, "10.244.0.1/24");
    let mut script = start(folder, "1400");
    assert_eq!(network(folder, "10.244.0.0/24")["plugins"][0]["mtu"], 1400);
    let told = Instant::now();
    let id = script.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    assert!(script.0.wait().unwrap().success());
    assert!(
        told.elapsed() < Duration::from_secs(3),
        "{:?}",
        told.elapsed()
    );
}
