//! What tests of real machines stand on: a template that is made once, and a place that goes with the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mullion_machines::conform::Trial;
use mullion_machines::nspawn::Nspawn;
use mullion_machines::{Hosts, Look as _, MachineWish, NetworkWish};
use mullion_plan::{Fingerprint, Size, TemplateId, Unattended};
use mullion_spec::value::{ByteSize, ClusterName, MachineName};
use mullion_template::{LinuxTemplate, Program, Templates};

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// The template of all tests, made by the first that needs it; a later run of the tests finds it there.
fn template() -> &'static (TemplateId, PathBuf) {
    static TEMPLATE: OnceLock<(TemplateId, PathBuf)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let parts = std::env::var("MULLION_TEST_PARTS");
        let parts = PathBuf::from(parts.expect("MULLION_TEST_PARTS names the folder of parts"));
        let programs: Vec<_> = files(&parts.join("bin"))
            .into_iter()
            .map(|path| Program::new(path.file_name().unwrap().to_str().unwrap(), &path))
            .collect();
        let images = files(&parts.join("images"));
        let contents: Vec<_> = programs
            .iter()
            .map(|program| &program.source)
            .chain(&images)
            .map(|path| (path, fs_err::metadata(path).unwrap().len()))
            .collect();
        let id = TemplateId {
            name: "test".into(),
            fingerprint: Fingerprint::of(&contents),
        };
        let templates = Templates::new(parts.join("templates"));
        let wish = LinuxTemplate {
            id: id.clone(),
            root_tar: parts.join("root.tar"),
            programs,
            images,
        };
        let path = templates.build_linux(&wish, &Unattended).unwrap();
        (id, path)
    })
}

/// A cluster of a test, with a folder, a network and a login key of its own.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) cluster: ClusterName,
    number: u8,
    key: mullion_ssh::KeyPair,
}

impl Ground {
    /// The number makes the network one that no other test has.
    pub(crate) fn new(name: &str, number: u8) -> Self {
        let _ = template();
        let folder = tempfile::tempdir().unwrap();
        let key = mullion_ssh::generate_key().unwrap();
        let path = folder.path().join("key");
        fs_err::write(&path, key.private.reveal()).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs_err::set_permissions(&path, private).unwrap();
        Self {
            folder,
            cluster: format!("test-{name}-{}", std::process::id())
                .parse()
                .unwrap(),
            number,
            key,
        }
    }

    pub(crate) fn driver(&self) -> Nspawn {
        Nspawn::new(self.folder.path().join("place"))
    }

    pub(crate) fn network(&self) -> NetworkWish {
        NetworkWish {
            cluster: self.cluster.clone(),
            network: format!("10.213.{}.0/24", self.number).parse().unwrap(),
        }
    }

    pub(crate) fn wish(&self, name: &str, last: u8) -> MachineWish {
        let (id, path) = template();
        let address = [10, 213, self.number, last];
        MachineWish {
            cluster: self.cluster.clone(),
            name: name.parse().unwrap(),
            template: id.clone(),
            template_path: path.clone(),
            size: Size {
                cpus: 2,
                memory: ByteSize::gib(2),
                disk: ByteSize::gib(20),
            },
            address: address.into(),
            network: self.network().network,
            authorized_keys: vec![self.key.public.clone()],
            hosts: [(name, address)].into_iter().collect::<Hosts>(),
            dns: Vec::new(),
            environment: [("HTTP_PROXY".to_owned(), "http://proxy:3128".to_owned())].into(),
        }
    }

    pub(crate) fn trial(&self) -> Trial {
        Trial {
            network: self.network(),
            other: NetworkWish {
                cluster: format!("{}-other", self.cluster).parse().unwrap(),
                network: format!("10.214.{}.0/24", self.number).parse().unwrap(),
            },
            machines: [self.wish("cp1", 11), self.wish("lin1", 12)],
        }
    }
}

/// Runs a command on a machine over SSH with its host key pinned, as soon as it lets us in.
pub(crate) fn login(ground: &Ground, machine: &MachineName, command: &str) -> String {
    let door = ground.driver().door(&ground.cluster, machine).unwrap();
    let known = ground.folder.path().join(format!("known-{machine}"));
    let line = format!("{} {}\n", door.address, door.host_key.unwrap());
    fs_err::write(&known, line).unwrap();
    let begun = Instant::now();
    loop {
        let output = Command::new("ssh")
            .arg("-i")
            .arg(ground.folder.path().join("key"))
            .args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "ConnectTimeout=2", "-o", "LogLevel=ERROR"])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .arg(format!("{}@{}", door.user, door.address))
            .arg(command)
            .output()
            .unwrap();
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{output:?}\n{:?}",
            ground.driver().console_tail(&ground.cluster, machine, 20)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Everything that machines could leave behind on this computer: mounts, interfaces, rules, control groups,
/// processes, files.
pub(crate) fn traces() -> BTreeSet<String> {
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut found = BTreeSet::new();
    let mut add = |kind: &str, text: &str| {
        found.extend(text.lines().map(|line| format!("{kind} {}", line.trim())));
    };
    add(
        "mount",
        &fs_err::read_to_string("/proc/self/mounts").unwrap(),
    );
    add("link", &run("sh", &["-c", "ls /sys/class/net"]));
    add("address", &run("ip", &["-brief", "address"]));
    add("rules", &run("nft", &["list", "tables"]));
    add("forward", &run("iptables", &["-S", "FORWARD"]));
    add(
        "forwarding",
        &fs_err::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap(),
    );
    add(
        "group",
        &run("sh", &["-c", "find /sys/fs/cgroup -type d | grep mul"]),
    );
    add(
        "process",
        &run(
            "sh",
            &["-c", "ps -eo stat,args | grep '[n]spawn' | grep -v ^Z"],
        ),
    );
    add(
        "run",
        &run(
            "sh",
            &[
                "-c",
                "find /run -maxdepth 1 -name 'mullion*' ! -name '*.lock'; find /run/systemd/nspawn 2>/dev/null",
            ],
        ),
    );
    found
}

/// Nothing came and nothing went.
pub(crate) fn assert_same(after: &BTreeSet<String>, before: &BTreeSet<String>) {
    let come: Vec<_> = after.difference(before).collect();
    let gone: Vec<_> = before.difference(after).collect();
    assert!(
        come.is_empty() && gone.is_empty(),
        "left behind: {come:#?}, gone: {gone:#?}"
    );
}
