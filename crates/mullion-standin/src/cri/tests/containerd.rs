//! A real containerd for a test, with everything that it makes.
//!
//! It has mounts, processes and a network of its own, which go with it. Its programs are the parts of a Linux template.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cri::groups::{self, PODS, ROOT};

/// The pods that tests make: their groups are removed whatever happens.
pub(super) const PODS_OF_TESTS: [&str; 2] = ["web", "agent"];

/// Without a network for itself nothing of this computer's is touched; a loopback it has, as every machine.
const START: &str = r#"
mount -t tmpfs none /run && mount -t proc proc /proc && ip link set lo up || exit 1
exec "$1/bin/containerd" --config "$1/config.toml"
"#;

fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/socket"
[ttrpc]
address = "{folder}/socket.ttrpc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "registry.k8s.io/pause:3.10.2"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{folder}/bin"]
conf_dir = "{folder}/network"
"#
    )
}

const NETWORK: &str = r#"{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"bridge","bridge":"cni0",
"isDefaultGateway":true,"ipam":{"type":"host-local","dataDir":"/run/cni","ranges":[[{"subnet":"10.77.0.0/24"}]]}}]}"#;

/// A containerd that goes with this value.
pub(super) struct Containerd {
    child: Child,
    folder: PathBuf,
}

impl Containerd {
    pub(super) fn start(parts: &Path, folder: &Path) -> Self {
        let bin = folder.join("bin");
        for made in ["bin", "network", "drive/config"] {
            fs_err::create_dir_all(folder.join(made)).unwrap();
        }
        for name in [
            "containerd",
            "containerd-shim-runc-v2",
            "ctr",
            "bridge",
            "host-local",
            "loopback",
        ] {
            let program = fs_err::canonicalize(parts.join("bin").join(name)).unwrap();
            std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        }
        let unpacked = Command::new("tar")
            .args(["--strip-components=3", "-xf"])
            .arg(parts.join("root.tar"))
            .arg("-C")
            .arg(&bin)
            .arg("./usr/sbin/runc")
            .status();
        assert!(unpacked.unwrap().success());
        fs_err::write(folder.join("config.toml"), settings(folder)).unwrap();
        fs_err::write(folder.join("network/10-test.conflist"), NETWORK).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        let child = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--net",
                "--pid",
            ])
            .args(["--fork", "--kill-child", "sh", "-c", START, "sh"])
            .arg(folder)
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut started = Self {
            child,
            folder: folder.to_owned(),
        };
        for _ in 0..600 {
            if started.ctr(&["version"]).is_ok() {
                return started;
            }
            assert!(
                started.child.try_wait().unwrap().is_none(),
                "{}",
                started.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("containerd does not answer: {}", started.log());
    }

    fn log(&self) -> String {
        fs_err::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(super) fn ctr(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new(self.folder.join("bin/ctr"))
            .arg("--address")
            .arg(self.folder.join("socket"))
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What a test that failed left running has ended with it, and its groups are empty now or soon.
        for _ in 0..50 {
            let left = groups_of_pods();
            if left.is_empty() {
                break;
            }
            for group in left {
                let inner = fs_err::read_dir(&group).into_iter().flatten().flatten();
                for inner in inner.filter(|entry| entry.path().is_dir()) {
                    let _ = fs_err::remove_dir(inner.path());
                }
                let _ = fs_err::remove_dir(group);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        for hierarchy in hierarchies() {
            let _ = fs_err::remove_dir(hierarchy.join(PODS.trim_start_matches('/')));
        }
    }
}

/// The places that control groups begin at.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    let below = fs_err::read_dir(&root).into_iter().flatten().flatten();
    below
        .map(|entry| entry.path())
        .chain([root.clone()])
        .collect()
}

/// The groups of this test's pods that there are.
pub(super) fn groups_of_pods() -> Vec<PathBuf> {
    let of_pod = |hierarchy: PathBuf| {
        PODS_OF_TESTS.map(|name| {
            let group = groups::of_pod(&number(name)).unwrap();
            hierarchy.join(group.trim_start_matches('/'))
        })
    };
    let all = hierarchies().into_iter().flat_map(of_pod);
    all.filter(|group| group.exists()).collect()
}

/// A pod's number, this run's own.
pub(super) fn number(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}
