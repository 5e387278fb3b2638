use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::super::computer::{AcceleratorFound, CgroupVersion, Made};
use super::*;
use crate::surroundings::Route;

/// Programs that answer what a test says they answer, and remember what they were asked.
struct Told<'a> {
    answer: &'a dyn Fn(&str, &[String]) -> Answer,
    asked: RefCell<Vec<String>>,
}

impl Programs for Told<'_> {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let name = question
            .program
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        self.asked.borrow_mut().push(name.clone());
        (self.answer)(&name, question.arguments)
    }
}

fn said(status: i32, output: &str) -> Answer {
    Answer::Exited {
        status: Some(status),
        output: output.into(),
        complaint: "warning\nlast words\n\n".into(),
    }
}

fn silent(_: &str, _: &[String]) -> Answer {
    Answer::NotStarted("no".into())
}

/// A computer as a folder.
struct Fake(TempDir);

impl Fake {
    fn new(files: &[(&str, &str)]) -> Self {
        let fake = Self(TempDir::new().unwrap());
        for (path, text) in files {
            fake.write(path, text);
        }
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    fn install(&self, program: &str) {
        let path = format!("/usr/bin/{program}");
        self.write(&path, "");
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn look(&self, answer: &dyn Fn(&str, &[String]) -> Answer) -> Computer {
        let programs = Told {
            answer,
            asked: RefCell::default(),
        };
        let mut path = OsString::from("relative:");
        path.push(self.0.path().join("usr/bin"));
        let variables = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("http_proxy".to_owned(), "http://user:secret@proxy".into()),
            ("no_proxy".to_owned(), OsString::new()),
        ]);
        let place = Place {
            root: self.0.path(),
            variables: &variables,
            programs: &programs,
        };
        let belongings = Belongings {
            cache: &self.0.path().join("not/made/yet"),
            state: self.0.path(),
            machines: self.0.path(),
            media: &[self.0.path().join("server.iso"), self.0.path().to_owned()],
            toolchains: &BTreeMap::new(),
        };
        look(&place, Catalog::builtin(), &belongings)
    }
}

#[test]
fn an_empty_computer_is_looked_at_without_fault() {
    let computer = Fake::new(&[]).look(&silent);
    assert_eq!(computer.system.name, "Linux");
    assert!(!computer.user.is_root());
    assert_eq!(computer.cgroups.version, CgroupVersion::None);
    assert!(computer.programs.is_empty() && computer.memory.is_none());
    assert_eq!(computer.accelerators["kvm"], AcceleratorFound::Absent);
    assert!(computer.kernel.options.is_none() && computer.kernel.loadable.is_none());
    assert_eq!(computer.clock.synchronised, None);
}

#[test]
fn the_user_the_system_and_the_memory_are_read() {
    let computer = Fake::new(&[
        (
            "/etc/os-release",
            "PRETTY_NAME=\"Linux Mint 22\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
        ),
        (
            "/proc/self/status",
            "Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n",
        ),
        ("/proc/1/comm", "systemd\n"),
        (
            "/proc/meminfo",
            "MemTotal:       24682416 kB\nMemFree: 1 kB\nMemAvailable:   24299068 kB\n",
        ),
        ("/run/systemd/timesync/synchronized", ""),
        ("/server.iso", "1"),
    ])
    .look(&silent);
    assert_eq!(computer.system.name, "Linux Mint 22");
    assert_eq!(
        computer.system.family,
        Some(mullion_catalog::Family::Debian)
    );
    assert!(computer.user.is_root(), "the effective user counts");
    assert_eq!(computer.user.capabilities >> 24 & 1, 0);
    assert_eq!(computer.user.bounding >> 24 & 1, 1);
    assert_eq!(computer.first_process.as_deref(), Some("systemd"));
    assert_eq!(computer.memory.unwrap().total_mib, 24_103);
    assert_eq!(computer.clock.synchronised, Some(true));
    assert_eq!(
        computer.variables.iter().collect::<Vec<_>>(),
        ["PATH", "http_proxy"]
    );
    let sizes: Vec<_> = computer
        .media
        .iter()
        .map(|medium| medium.size_mib)
        .collect();
    assert_eq!(sizes, [Some(0), None], "a folder is no medium");
    assert!(computer.disks.iter().all(|disk| disk.free_mib.is_some()));
}

#[test]
fn a_feature_of_the_kernel_has_many_witnesses() {
    let fake = Fake::new(&[
        ("/proc/sys/kernel/osrelease", "6.1.0\n"),
        ("/proc/filesystems", "nodev\toverlay\n\text4\n"),
        ("/proc/modules", "vxlan 155648 0 - Live 0x0\n"),
        ("/sys/module/bridge/parameters/x", ""),
        (
            "/lib/modules/6.1.0/modules.dep",
            "kernel/drivers/net/veth.ko.zst:\nkernel/net/netfilter/nf-nat.ko: kernel/x.ko\n",
        ),
        (
            "/lib/modules/6.1.0/modules.builtin",
            "kernel/net/ip_set.ko\n",
        ),
        (
            "/boot/config-6.1.0",
            "CONFIG_TUN=m\n# CONFIG_VETH is not set\nCONFIG_IP_SET=n\n",
        ),
        ("/proc/self/ns/net", ""),
    ]);
    let kernel = fake.look(&silent).kernel;
    let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(list(&kernel.filesystems), "overlay");
    assert_eq!(list(&kernel.loaded), "bridge vxlan");
    assert_eq!(list(&kernel.loadable.unwrap()), "ip_set nf_nat veth");
    assert_eq!(
        kernel.options.unwrap(),
        BTreeMap::from([("CONFIG_TUN".to_owned(), Made::Module)])
    );
    assert_eq!(list(&kernel.namespaces), "net");
}

#[test]
fn a_packed_configuration_is_unpacked() {
    let fake = Fake::new(&[("/proc/config.gz", "")]);
    fake.install("gzip");
    let answer = |name: &str, arguments: &[String]| match name {
        "gzip" if arguments[0] == "-dc" => said(0, "CONFIG_VXLAN=y\n"),
        _ => silent(name, arguments),
    };
    assert_eq!(
        fake.look(&answer).kernel.options.unwrap(),
        BTreeMap::from([("CONFIG_VXLAN".to_owned(), Made::BuiltIn)])
    );
}

#[test]
fn cgroups_of_every_kind_are_told_apart() {
    let version_two = Fake::new(&[(
        "/sys/fs/cgroup/cgroup.controllers",
        "cpuset cpu memory pids\n",
    )]);
    let cgroups = version_two.look(&silent).cgroups;
    assert_eq!(
        (cgroups.version, cgroups.controllers.len()),
        (CgroupVersion::V2, 4)
    );
    let mixed = Fake::new(&[
        ("/sys/fs/cgroup/cpu,cpuacct/tasks", ""),
        ("/sys/fs/cgroup/memory/tasks", ""),
    ]);
    let cgroups = mixed.look(&silent).cgroups;
    assert_eq!(cgroups.version, CgroupVersion::V1);
    assert_eq!(
        cgroups.controllers.iter().collect::<Vec<_>>(),
        ["cpu", "cpuacct", "memory"]
    );
    mixed.write("/sys/fs/cgroup/unified/cgroup.procs", "");
    assert_eq!(mixed.look(&silent).cgroups.version, CgroupVersion::Hybrid);
}

#[test]
fn routes_and_ports_are_read_from_the_kernels_tables() {
    let computer = Fake::new(&[
        (
            "/proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
             eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             br0\t0000630A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
        ),
        (
            "/proc/net/udp",
            "  sl  local_address\n  1: 0100007F:0035 00000000:0000 07\n",
        ),
        (
            "/proc/net/udp6",
            "  sl  local_address\n  1: 00000000000000000000000000000000:12B5 0:0 07\n",
        ),
    ])
    .look(&silent);
    let network = "10.99.0.0/24".parse().unwrap();
    assert_eq!(
        computer.routes,
        [Route {
            network,
            interface: "br0".into()
        }]
    );
    assert_eq!(computer.udp_ports.iter().collect::<Vec<_>>(), [&53, &4789]);
}

#[test]
fn programs_are_found_where_they_can_be_run_and_asked_for_their_version() {
    let fake = Fake::new(&[
        ("/usr/bin/xorriso", "not executable"),
        ("/etc/os-release", "ID=debian\n"),
    ]);
    for program in ["go", "apt-cache", "timedatectl"] {
        fake.install(program);
    }
    let answer = |name: &str, arguments: &[String]| match (name, arguments) {
        ("go", [version]) if version == "version" => said(0, "go version go1.19.8 linux/amd64\n"),
        ("apt-cache", [.., policy, package]) if policy == "policy" => said(
            0,
            &format!("{package}:\n  Installed: (none)\n  Candidate: 2:1.19~1\n"),
        ),
        ("timedatectl", _) => said(0, "no\n"),
        _ => silent(name, arguments),
    };
    let computer = fake.look(&answer);
    assert_eq!(
        computer.programs.keys().collect::<Vec<_>>(),
        ["go", "timedatectl"]
    );
    assert_eq!(computer.versions["go"], "go version go1.19.8 linux/amd64");
    assert_eq!(computer.candidates["golang-go"], "2:1.19~1");
    assert_eq!(computer.clock.synchronised, Some(false));
}

#[test]
fn an_accelerator_is_proven_by_a_virtual_machine_alone() {
    let fake = Fake::new(&[("/dev/kvm", "")]);
    assert_eq!(
        fake.look(&silent).accelerators["kvm"],
        AcceleratorFound::Opened
    );
    fake.install("qemu-system-x86_64");
    for (answer, found) in [
        (said(33, ""), AcceleratorFound::Proven),
        (said(1, ""), AcceleratorFound::Failed("last words".into())),
        (Answer::TooSlow, AcceleratorFound::TooSlow(5)),
        (
            Answer::NotStarted("broken".into()),
            AcceleratorFound::Failed("broken".into()),
        ),
    ] {
        let tell = |_: &str, arguments: &[String]| {
            let place = arguments
                .iter()
                .position(|argument| argument == "-bios")
                .unwrap();
            let firmware = fs_err::read(&arguments[place + 1]).unwrap();
            assert_eq!(firmware.len(), 0x1_0000);
            answer.clone()
        };
        assert_eq!(fake.look(&tell).accelerators["kvm"], found);
    }
}
