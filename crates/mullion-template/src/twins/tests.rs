//! The script, with programs that only say how they were called, on a drive of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::Duration;

use super::{TWIN, write};
use crate::tree::Tree;

const NODE: &str = "etc/kubernetes/kubelet.conf";
const NETWORK: &str = "etc/kube-flannel/net-conf.json";
const FLAGS: &str = "etc/kube-router/flags";

/// Runs until it is told to end, and says so; `--cleanup-config` ends at once.
const PROGRAM: &str = "#!/bin/sh\necho \"${0##*/} $*\" >> LOG\n[ \"$*\" != --cleanup-config ] || exit 0\n\
                       trap 'echo \"${0##*/} ended\" >> LOG; exit 0' TERM\nwhile :; do sleep 0.05; done\n";

fn put(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let above = path.parent().unwrap();
    fs_err::create_dir_all(above)?;
    Tree::open(above)?.write(path.file_name().unwrap(), bytes, mode)
}

struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["etc/kubernetes", "etc/kube-flannel", "etc/kube-router"] {
            fs_err::create_dir_all(stage.path("drive").join(folder)).unwrap();
        }
        fs_err::create_dir_all(stage.path("bin")).unwrap();
        let program = PROGRAM.replace("LOG", &stage.text("log"));
        for name in ["flanneld", "kube-proxy", "kube-router", "write-network"] {
            put(&stage.path("bin").join(name), program.as_bytes(), 0o755).unwrap();
        }
        let script = TWIN
            .replace("/root/.wine/drive_c", &stage.text("drive"))
            .replace("/run/", &format!("{}/", stage.text("run")))
            .replace("/etc/cni/net.d", &stage.text("net.d"))
            .replace("/usr/local/lib/mullion", &stage.text("bin"));
        put(&stage.path("twin"), script.as_bytes(), 0o755).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn drive(&self, name: &str) -> PathBuf {
        self.path("drive").join(name)
    }

    fn lay(&self, name: &str, text: &str) {
        let file = self.drive(name);
        let partial = file.with_extension("partial");
        fs_err::write(&partial, text).unwrap();
        fs_err::rename(partial, file).unwrap();
    }

    fn start(&self, twin: &str) -> Running {
        let path = format!("{}:{}", self.text("bin"), std::env::var("PATH").unwrap());
        let mut command = Command::new("/bin/sh");
        command.arg(self.path("twin")).arg(twin).env("PATH", path);
        Running(command.spawn().unwrap())
    }

    fn log(&self) -> String {
        fs_err::read_to_string(self.path("log")).unwrap_or_default()
    }

    #[track_caller]
    fn says(&self, words: &str) {
        wait_for(|| self.log().contains(words).then_some(()), words);
    }
}

/// A script that is ended with this value, and its program with it.
struct Running(Child);

impl Running {
    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        wait_for(|| self.0.try_wait().unwrap(), "an end")
    }

    fn tell_to_end(&self) {
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            self.tell_to_end();
            let _ = self.0.wait();
        }
    }
}

#[track_caller]
fn wait_for<T>(mut found: impl FnMut() -> Option<T>, what: &str) -> T {
    for _ in 0..400 {
        if let Some(found) = found() {
            return found;
        }
        sleep(Duration::from_millis(25));
    }
    panic!("no {what}");
}

#[test]
fn one_without_its_file_waits_for_it_as_long_as_the_machine_is_a_node() {
    for (twin, file, words) in [
        ("flanneld", NETWORK, "flanneld --kube-subnet-mgr"),
        ("cni", NETWORK, "write-network"),
        ("kube-router", FLAGS, "--enable-cni=false"),
    ] {
        let stage = Stage::new();
        stage.lay(NODE, "");
        let mut waiting = stage.start(twin);
        sleep(Duration::from_millis(300));
        assert!(waiting.is_running(), "{twin}");
        assert_eq!(stage.log(), "", "{twin}");
        fs_err::remove_file(stage.drive(NODE)).unwrap();
        assert!(waiting.ends().success(), "{twin}");

        stage.lay(NODE, "");
        let mut running = stage.start(twin);
        stage.lay(file, "--enable-cni=false\n");
        stage.says(words);
        assert!(running.is_running(), "{twin}");
        running.tell_to_end();
        assert!(running.ends().success(), "{twin}");
        stage.says(" ended");
    }
}

#[test]
fn one_whose_file_goes_takes_along_what_it_wrote_down() {
    let stage = Stage::new();
    stage.lay(NODE, "");
    let [subnet, network] = ["run/flannel/subnet.env", "net.d/10-flannel.conflist"];
    for made in [subnet, network] {
        put(&stage.path(made), b"", 0o644).unwrap();
    }
    for (twin, file, left) in [
        ("flanneld", NETWORK, Some(subnet)),
        ("cni", NETWORK, Some(network)),
        ("kube-router", FLAGS, None),
    ] {
        stage.lay(file, "--some");
        let mut running = stage.start(twin);
        wait_for(|| (!stage.log().is_empty()).then_some(()), twin);
        fs_err::remove_file(stage.drive(file)).unwrap();
        assert!(running.ends().success(), "{twin}");
        stage.says(" ended");
        if let Some(left) = left {
            assert!(!stage.path(left).exists(), "{left}");
        } else {
            stage.says("kube-router --cleanup-config");
        }
        fs_err::remove_file(stage.path("log")).unwrap();
    }
}

#[test]
fn one_whose_file_changes_ends_to_be_started_anew() {
    for (twin, file) in [
        ("flanneld", NETWORK),
        ("kube-proxy", NETWORK),
        ("kube-router", FLAGS),
    ] {
        let stage = Stage::new();
        stage.lay(NODE, "");
        stage.lay(file, "--before");
        let mut running = stage.start(twin);
        stage.says(twin);
        stage.lay(file, "--after");
        assert!(running.ends().success(), "{twin}");
        stage.says(" ended");
        assert!(!stage.log().contains("--cleanup-config"), "{twin}");
    }
}

#[test]
fn services_are_there_without_flannel_and_end_with_the_node() {
    let stage = Stage::new();
    stage.lay(
        NODE,
        "    client-certificate: C:\\var\\lib\\kubelet\\pki\\kubelet.pem\n",
    );
    let mut running = stage.start("kube-proxy");
    stage.says("--proxy-mode=iptables --conntrack");
    let kubeconfig = stage.path("run/mullion/kubeconfig.kube-proxy");
    let expected = format!(
        "    client-certificate: {}\n",
        stage.text("drive/var/lib/kubelet/pki/kubelet.pem")
    );
    assert_eq!(fs_err::read_to_string(&kubeconfig).unwrap(), expected);
    fs_err::remove_file(stage.drive(NODE)).unwrap();
    assert!(running.ends().success());
    stage.says(" ended");
    assert!(!kubeconfig.exists());
}

/// What starts a unit and what a unit asks for are the same: it would be started without end otherwise.
#[test]
fn a_unit_asks_for_what_starts_it_and_for_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("etc/systemd/system");
    fs_err::create_dir_all(units.join("multi-user.target.wants")).unwrap();
    write(&Tree::open(root.path()).unwrap(), "").unwrap();
    let paths = |path: &Path| -> Vec<String> {
        let text = fs_err::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| line.contains("Path"));
        let ends = lines.filter_map(|line| line.split_once("PathExists="));
        ends.map(|(_, path)| path.to_owned()).collect()
    };
    for twin in ["flanneld", "cni", "kube-proxy", "kube-router"] {
        let unit = units.join(format!("mullion-{twin}.service"));
        let asked = paths(&unit);
        assert_eq!(asked.len(), 1, "{twin}: {asked:?}");
        assert_eq!(asked, paths(&unit.with_extension("path")), "{twin}");
    }
}
