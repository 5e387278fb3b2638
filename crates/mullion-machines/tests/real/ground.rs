//! What tests of real machines stand on: a template that is made once, and a place that goes with the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mullion_machines::nspawn::Nspawn;
use mullion_machines::{Door, Driver as _, Hosts, Look as _, MachineWish, NetworkWish};
use mullion_plan::{ClusterUid, Fingerprint, Identity, Size, TemplateId, Unattended};
use mullion_spec::value::{ByteSize, ClusterName, MachineName};
use mullion_spec::words::MachineAccess;
use mullion_template::{LinuxTemplate, Program, Templates};
use mullion_testkit::driver::conform::{Spoil, Trial};

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
            .map(|path| Program::new(path.file_name().unwrap().to_str().unwrap(), path.as_path()))
            .collect();
        let layers = parts.join("layers.tar");
        if !layers.is_file() {
            write_layers(&parts.join("bin/ctr"), &layers);
        }
        let mut images = files(&parts.join("images"));
        images.push(layers);
        let contents: Vec<_> = programs
            .iter()
            .map(|program| &program.source.path)
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
            root_tar: parts.join("root.tar").into(),
            programs,
            images: images.into_iter().map(Into::into).collect(),
        };
        let path = templates.build_linux(&wish, &Unattended).unwrap();
        (id, path)
    })
}

/// An image of several layers.
pub(crate) const LAYERS: &str = "test.invalid/layers:1";

/// Writes an archive of an image whose layers hide each other's files: in the end `/etc` holds `c` alone.
fn write_layers(program: &Path, archive: &Path) {
    let program = fs_err::read(program).unwrap();
    let layers = [
        tarred(&[("ctr", &program), ("etc/a", b"a")]),
        tarred(&[("etc/.wh.a", b""), ("etc/b", b"b")]),
        tarred(&[("etc/.wh..wh..opq", b""), ("etc/c", b"c")]),
    ];
    let digests = layers.each_ref().map(|layer| {
        let digest = mullion_wire::Sha256Digest::of(layer);
        format!("sha256:{digest}")
    });
    let config = serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": { "Entrypoint": ["/ctr"] },
        "rootfs": { "type": "layers", "diff_ids": digests },
    });
    let manifest = serde_json::json!([{
        "Config": "config.json",
        "RepoTags": [LAYERS],
        "Layers": ["0.tar", "1.tar", "2.tar"],
    }]);
    let whole = tarred(&[
        ("config.json", config.to_string().as_bytes()),
        ("0.tar", &layers[0]),
        ("1.tar", &layers[1]),
        ("2.tar", &layers[2]),
        ("manifest.json", manifest.to_string().as_bytes()),
    ]);
    // Another process may look for it meanwhile.
    let draft = archive.with_extension(std::process::id().to_string());
    fs_err::write(&draft, whole).unwrap();
    fs_err::rename(&draft, archive).unwrap();
}

/// A tar file of programs.
fn tarred(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// What the labels of these tests say beside the name.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity {
    id: ClusterUid::of(0x7e57),
    owner: 0,
});

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
        // A child that is killed leaves its folder in its parent's.
        let folder = match std::env::var_os("MULLION_TEST_FOLDER") {
            Some(parents) => tempfile::tempdir_in(parents),
            None => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let key = write_key(&folder.path().join("key"));
        let cluster: ClusterName = format!("test-{name}-{}", std::process::id())
            .parse()
            .unwrap();
        GROUNDS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(cluster.clone());
        Self {
            folder,
            cluster,
            number,
            key,
        }
    }

    pub(crate) fn stand_ins(&self) -> Nspawn {
        Nspawn::stand_ins(self.folder.path().join("place"))
    }

    pub(crate) fn driver(&self) -> Nspawn {
        Nspawn::new(self.folder.path().join("place"))
    }

    pub(crate) fn network(&self) -> NetworkWish {
        NetworkWish {
            cluster: self.cluster.clone(),
            network: format!("10.213.{}.0/24", self.number).parse().unwrap(),
            access: MachineAccess::Host,
            identity: Some(IDENTITY.clone()),
        }
    }

    pub(crate) fn wish(&self, name: &str, last: u8) -> MachineWish {
        let (id, path) = template();
        let address = [10, 213, self.number, last];
        MachineWish {
            cluster: self.cluster.clone(),
            name: name.parse().unwrap(),
            template: id.clone(),
            os: mullion_spec::words::Os::Linux,
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
            autostart: true,
            identity: Some(IDENTITY.clone()),
        }
    }

    /// The folder of a machine.
    pub(crate) fn folder_of(&self, machine: &MachineName) -> PathBuf {
        let clusters = self.folder.path().join("place/clusters");
        clusters
            .join(self.cluster.as_str())
            .join("machines")
            .join(machine.as_str())
    }

    /// Spoils the label of a machine, or restores it.
    pub(crate) fn spoil(&self, machine: &MachineName, spoil: Spoil) {
        let label = self.folder_of(machine).join("machine.json");
        let kept = self.folder.path().join(format!("kept-{machine}"));
        if !kept.exists() {
            fs_err::copy(&label, &kept).unwrap();
        }
        match spoil {
            Spoil::Damaged => fs_err::write(&label, "{\"version\":").unwrap(),
            Spoil::Newer => {
                fs_err::write(&label, r#"{"version":"mullion.dev/machine/v2"}"#).unwrap();
            }
            Spoil::Restored => fs_err::rename(&kept, &label).unwrap(),
        }
    }

    /// A machine of the cluster that runs.
    pub(crate) fn started(&self, name: &str, last: u8) -> MachineWish {
        let driver = self.driver();
        let wish = self.wish(name, last);
        driver.make_network(&self.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        driver
            .start(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        wish
    }

    /// Removes everything of the cluster.
    pub(crate) fn remove_all(&self) {
        let driver = self.driver();
        for driver in [&driver, &self.stand_ins()] {
            for machine in driver.find(&self.cluster).unwrap().machines.keys() {
                driver.remove(&self.cluster, machine, &Unattended).unwrap();
            }
        }
        driver.remove_network(&self.cluster, &Unattended).unwrap();
        assert!(files(&self.folder.path().join("place")).is_empty());
    }

    /// Where the private key is that every machine lets in.
    pub(crate) fn key_path(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// Another key: where the private one is, and the public one.
    pub(crate) fn another_key(&self, name: &str) -> (PathBuf, String) {
        let path = self.folder.path().join(name);
        (path.clone(), write_key(&path).public)
    }

    /// The cluster's bridge, found by its label.
    pub(crate) fn bridge(&self) -> String {
        let label = format!("mullion.dev/cluster={};", self.cluster);
        let links = files(Path::new("/sys/class/net"));
        let bridge = links.iter().find(|link| {
            let alias = fs_err::read_to_string(link.join("ifalias")).unwrap_or_default();
            alias.starts_with(&label)
        });
        let bridge = bridge.unwrap().file_name().unwrap();
        bridge.to_str().unwrap().to_owned()
    }

    pub(crate) fn trial(&self) -> Trial {
        Trial {
            network: self.network(),
            other: NetworkWish {
                cluster: format!("{}-other", self.cluster).parse().unwrap(),
                network: format!("10.214.{}.0/24", self.number).parse().unwrap(),
                access: MachineAccess::Host,
                identity: None,
            },
            machines: [self.wish("cp1", 11), self.wish("lin1", 12)],
        }
    }
}

impl Drop for Ground {
    /// A test that fails leaves nothing behind either.
    fn drop(&mut self) {
        for driver in [self.driver(), self.stand_ins()] {
            let found = driver.find(&self.cluster);
            for machine in found.iter().flat_map(|found| found.machines.keys()) {
                let _ = driver.remove(&self.cluster, machine, &Unattended);
            }
        }
        let _ = self.driver().remove_network(&self.cluster, &Unattended);
    }
}

/// Makes a key and writes the private one down.
fn write_key(path: &Path) -> mullion_ssh::KeyPair {
    let key = mullion_ssh::generate_key().unwrap();
    fs_err::write(path, key.private.reveal()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs_err::set_permissions(path, private).unwrap();
    key
}

/// Runs a command on a machine over SSH, as soon as it lets us in.
pub(crate) fn login(ground: &Ground, machine: &MachineName, command: &str) -> String {
    let door = ground.driver().door(&ground.cluster, machine).unwrap();
    login_with(ground, &door, &ground.key_path(), command)
}

/// Runs a command behind a door, with its host key pinned and another key of ours.
pub(crate) fn login_with(ground: &Ground, door: &Door, key: &Path, command: &str) -> String {
    let known = ground.folder.path().join(format!("known-{}", door.address));
    let line = format!("{} {}\n", door.address, door.host_key.as_ref().unwrap());
    fs_err::write(&known, line).unwrap();
    let begun = Instant::now();
    loop {
        let output = Command::new("ssh")
            .arg("-i")
            .arg(key)
            .args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "ConnectTimeout=2", "-o", "LogLevel=ERROR"])
            .args(["-o", "IdentitiesOnly=yes", "-o"])
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .arg(format!("{}@{}", door.user, door.address))
            .arg(command)
            .output()
            .unwrap();
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{output:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Every group of a machine in this computer's hierarchies.
pub(crate) fn groups(ground: &Ground, machine: &MachineName) -> Vec<String> {
    let name = format!("{}/{machine}", ground.cluster);
    let digest = mullion_wire::Sha256Digest::of(name.as_bytes());
    let name = format!("mul{}", &digest.as_str()[..8]);
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-path"])
        .arg(format!("*/mullion/{name}*"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// The processes in the groups of a machine.
pub(crate) fn members(ground: &Ground, machine: &MachineName) -> Vec<i32> {
    let mut pids: Vec<i32> = groups(ground, machine)
        .iter()
        .map(|group| fs_err::read_to_string(format!("{group}/cgroup.procs")).unwrap_or_default())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Tells a process that it has name spaces of its own.
const APART: &str = "MULLION_TEST_APART";

/// Gives a process interfaces, rules and a folder for what is in memory of its own, and a switch and a limit of the
/// kernel that only look real. Control groups stay the computer's.
const PREPARE: &str = "set -e
mount -t tmpfs none /run
mkdir /run/groups && mount --rbind /sys/fs/cgroup /run/groups
mount -t sysfs none /sys && mount --rbind /run/groups /sys/fs/cgroup
umount -R -l /run/groups && rmdir /run/groups
echo 128 > /run/instances && mount --bind /run/instances /proc/sys/fs/inotify/max_user_instances
ip link set lo up
echo 0 > /proc/sys/net/ipv4/ip_forward
exec \"$@\"";

/// Runs the test that calls it apart from whatever else goes on on this computer, and at its end nothing is
/// left: no mount, interface, rule, control group, process, setting or file.
///
/// The program starts itself again, in name spaces of its own, with this test alone.
pub(crate) fn apart(body: impl FnOnce()) {
    if std::env::var_os(APART).is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap();
        let output = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", PREPARE, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--include-ignored", "--nocapture"])
            .env(APART, "yes")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{errors}");
        assert!(said.contains("1 passed"), "{said}");
        println!("{said}");
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let before = traces();
    body();
    // A network name space goes a moment after its last process.
    let begun = Instant::now();
    loop {
        let after = traces();
        let come: Vec<_> = after.difference(&before).collect();
        let gone: Vec<_> = before.difference(&after).collect();
        if come.is_empty() && gone.is_empty() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "left behind: {come:#?}, gone: {gone:#?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Tells a process of these tests that it is a child of one, and where its parent's machines are.
pub(crate) const CHILD: &str = "MULLION_TEST_CHILD";

fn traces() -> BTreeSet<String> {
    let run = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut found = BTreeSet::new();
    for (kind, line) in [
        ("mount", "cat /proc/self/mounts"),
        ("address", "ip -brief address"),
        ("rule", "nft list ruleset"),
        ("filter", "iptables -S"),
        ("forwarding", "cat /proc/sys/net/ipv4/ip_forward"),
        ("watches", "cat /proc/sys/fs/inotify/max_user_instances"),
        (
            "file",
            "find /run ! -path '/run/systemd*' ! -path '/run/mount*'",
        ),
        ("file", "find /run/systemd/nspawn -mindepth 2 2>/dev/null"),
    ] {
        let text = run(line);
        // Where name spaces have names, made by tests that use some.
        let own = text.lines().filter(|line| !line.contains("/run/netns"));
        found.extend(own.map(|text| format!("{kind} {}", text.trim())));
    }
    // Others may have machines on this computer: of theirs nothing is told.
    for name in own_names() {
        let groups = format!("find /sys/fs/cgroup -type d -name {name}");
        found.extend(run(&groups).lines().map(|line| format!("group {line}")));
    }
    let processes = run("ps -eo stat,args | grep -v ^Z");
    let own = format!("-{}/machines/", std::process::id());
    let own = processes.lines().filter(|line| line.contains(&own));
    found.extend(own.map(|line| format!("process {line}")));
    found
}

/// What the kernel calls the machines of these tests.
fn own_names() -> Vec<String> {
    let grounds = GROUNDS.lock().unwrap_or_else(PoisonError::into_inner);
    let machines = grounds.iter().flat_map(|cluster| {
        ["cp1", "lin1", "lin2", "win1"].map(|machine| format!("{cluster}/{machine}"))
    });
    let short = |name: String| {
        let digest = mullion_wire::Sha256Digest::of(name.as_bytes());
        format!("mul{}", &digest.as_str()[..8])
    };
    machines.map(short).collect()
}

/// The clusters of these tests so far.
static GROUNDS: Mutex<Vec<ClusterName>> = Mutex::new(Vec::new());
