//! What a machine cannot do to the computer that carries it.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mullion_machines::nspawn::{DiskLimit, Nspawn, disk_limit};
use mullion_machines::{Cgroup, Driver as _, Hosts, Init, MachineWish, NetworkWish, Stop, quirks};
use mullion_plan::{Attend, Fingerprint, News, Size, TemplateId, Unattended};
use mullion_spec::value::ByteSize;
use mullion_spec::words::MachineAccess;

use crate::ground::{Ground, apart, login};

/// Capabilities that a machine must not have, by their bits: `CAP_LINUX_IMMUTABLE`, `CAP_SYS_RAWIO`, `CAP_SYS_PACCT`,
/// `CAP_SYS_TIME`, `CAP_MAC_OVERRIDE`, `CAP_MAC_ADMIN`, `CAP_WAKE_ALARM`, `CAP_BLOCK_SUSPEND`, `CAP_AUDIT_READ`.
const GONE: [u32; 9] = [9, 17, 20, 25, 32, 33, 35, 36, 37];

/// Capabilities that nodes need: `CAP_NET_ADMIN`, `CAP_SYS_MODULE`, `CAP_SYS_CHROOT`, `CAP_SYS_PTRACE`,
/// `CAP_SYS_ADMIN`, `CAP_SYS_BOOT`, `CAP_MKNOD`, `CAP_SYSLOG`.
const KEPT: [u32; 8] = [12, 16, 18, 19, 21, 22, 27, 34];

/// System calls that a machine must not make, by their numbers.
const CALLS: &[(&str, u32)] = if cfg!(target_arch = "aarch64") {
    &[
        ("acct", 89),
        ("clock_settime", 112),
        ("delete_module", 106),
        ("finit_module", 273),
        ("init_module", 105),
        ("kexec_load", 104),
        ("open_by_handle_at", 265),
        ("quotactl", 60),
        ("settimeofday", 170),
        ("swapoff", 225),
        ("swapon", 224),
        ("syslog", 116),
    ]
} else {
    &[
        ("acct", 163),
        ("clock_settime", 227),
        ("delete_module", 176),
        ("finit_module", 313),
        ("init_module", 175),
        ("ioperm", 173),
        ("iopl", 172),
        ("kexec_load", 246),
        ("open_by_handle_at", 304),
        ("quotactl", 179),
        ("settimeofday", 164),
        ("swapoff", 168),
        ("swapon", 167),
        ("syslog", 103),
    ]
};

/// The fork bomb: small processes that wait, until no more can be made.
const BOMB: &str = "systemctl is-system-running --wait >/dev/null; \
    echo 'for (1..20000) { my $p = fork; last unless defined $p; unless ($p) { sleep 600; exit } } sleep 600' >/run/bomb; \
    systemd-run -q -p TasksMax=infinity perl /run/bomb";

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_13_a_machine_cannot_take_the_computers_tasks_clock_kernel_or_disks() {
    apart(|| {
        let ground = Ground::new("isolation", 31);
        let driver = ground.driver();
        let mut wish = ground.wish("lin1", 11);
        // Room for the bomb's processes: here tasks are what runs out.
        wish.size.memory = ByteSize::gib(4);
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        let (cluster, name) = (&wish.cluster, &wish.name);
        driver.start(cluster, name, &Unattended).unwrap();
        let inside = |command: &str| login(&ground, name, command);

        let sets = inside("grep -h ^CapBnd: /proc/1/status /proc/self/status | cut -f2");
        for set in sets.lines() {
            let set = u64::from_str_radix(set, 16).unwrap();
            let has = |bit: &u32| set & (1 << bit) != 0;
            assert!(!GONE.iter().any(has), "{set:x}");
            assert!(KEPT.iter().all(has), "{set:x}");
        }
        // With these arguments a call changes nothing, and without a filter most fail in another way.
        let one = |(call, number): &(&str, u32)| {
            format!(
                "syscall({number}, -1, -1, -1, -1, -1); print \"{call} $!\\n\" unless $!{{EPERM}};"
            )
        };
        let calls: String = CALLS.iter().map(one).collect();
        assert_eq!(inside(&format!("perl -e '{calls}'")), "");
        for file in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"] {
            if Path::new(file).exists() {
                let answer = inside(&format!(
                    "test -w {file} && echo writable || echo read-only"
                ));
                assert_eq!(answer, "read-only\n", "{file}");
            }
        }
        assert_eq!(inside("find /dev -type b"), "");
        devices(&ground, &wish);

        let limit = limit_of_tasks(&wish).unwrap();
        assert!((1..=8192).contains(&limit), "{limit}");
        inside(BOMB);
        let begun = Instant::now();
        // The kernel counts a task that it is about to refuse.
        while tasks(&wish).unwrap() + 8 < limit {
            assert!(
                begun.elapsed() < Duration::from_mins(1),
                "{:?}",
                tasks(&wish)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{limit} tasks after {:.1?}", begun.elapsed());
        assert!(tasks(&wish).unwrap() <= limit);
        assert!(Command::new("true").status().unwrap().success());
        let begun = Instant::now();
        driver
            .stop(cluster, name, Stop::AtOnce, &Unattended)
            .unwrap();
        println!("ended after {:.1?}", begun.elapsed());
        assert_eq!(tasks(&wish).unwrap_or_default(), 0);
        ground.remove_all();
    });
}

/// Where this computer can close its devices to machines, a machine does not open its disks.
fn devices(ground: &Ground, wish: &MachineWish) {
    let quirks = quirks().unwrap();
    if (quirks.init, quirks.cgroup) != (Init::Systemd, Cgroup::V2) {
        println!("devices stay open: that takes systemd and the unified hierarchy");
        return;
    }
    let partitions = fs_err::read_to_string("/proc/partitions").unwrap();
    let disk = partitions.lines().nth(2).unwrap();
    let numbers: Vec<_> = disk.split_whitespace().take(2).collect();
    let open = format!(
        "mknod /run/disk b {} && head -c1 /run/disk >/dev/null 2>&1 && echo open || echo closed",
        numbers.join(" ")
    );
    assert_eq!(login(ground, &wish.name, &open), "closed\n");
}

/// A file of the machine's control group, read from outside: within there may be no room for a login.
fn of_group(wish: &MachineWish, file: &str) -> Option<u64> {
    let name = format!("{}/{}", wish.cluster, wish.name);
    let digest = mullion_wire::Sha256Digest::of(name.as_bytes());
    let container = format!("mul{}", &digest.as_str()[..8]);
    let unit = format!("mullion-{}.{}.service", wish.cluster, wish.name);
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "("])
        .args(["-name", &container, "-o", "-name", &unit, ")"])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let read = |group: &str| fs_err::read_to_string(Path::new(group).join(file)).ok();
    found.lines().find_map(read)?.trim().parse().ok()
}

fn limit_of_tasks(wish: &MachineWish) -> Option<u64> {
    of_group(wish, "pids.max")
}

fn tasks(wish: &MachineWish) -> Option<u64> {
    of_group(wish, "pids.current")
}

/// Keeps what it hears.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Attend for Listener {
    fn hear(&self, news: News) {
        match news {
            News::Line(line) => self.0.lock().unwrap().push(line),
            News::Unlimited { what, why } => {
                let words = format!("{what} is not limited: {why}");
                self.0.lock().unwrap().push(words);
            }
            _ => {}
        }
    }

    fn is_called_off(&self) -> bool {
        false
    }
}

/// How much a machine of these tests may have, and how much it shares with its template.
const DISK: u64 = 16;
const SHARED: usize = 8 << 20;

/// A template as small as one can be, beside the machines.
fn template(folder: &Path) -> TemplateId {
    fs_err::create_dir_all(folder.join("root/etc")).unwrap();
    fs_err::create_dir_all(folder.join("containerd/blobs")).unwrap();
    fs_err::write(folder.join("root/etc/os-release"), "ID=test\n").unwrap();
    fs_err::write(folder.join("containerd/blobs/layer"), vec![7; SHARED]).unwrap();
    fs_err::write(folder.join("containerd/meta.db"), vec![7; 4096]).unwrap();
    fs_err::write(folder.join("template.json"), "{}").unwrap();
    TemplateId {
        name: "small".into(),
        fingerprint: Fingerprint::of(&"small"),
    }
}

fn shell(script: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Writes 64 MiB as a machine does, through the overlay that is its root, and gives how many bytes it got.
fn write_through_overlay(machine: &Path, template: &Path) -> u64 {
    let disk = machine.join("disk");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        template.join("root").display(),
        disk.join("upper").display(),
        disk.join("work").display()
    );
    let root = disk.join("root");
    let (_, said) = shell(&format!(
        "unshare --mount sh -c 'mount -t overlay o -o {options} {root} && \
         dd if=/dev/zero of={root}/big bs=1M count=64 conv=fsync'",
        root = root.display()
    ));
    let size = fs_err::metadata(disk.join("upper/big")).unwrap().len();
    println!("{size} bytes: {}", said.lines().next().unwrap_or_default());
    size
}

/// Whether this computer's kernel was built with what project quotas on ext4 need, where it tells.
fn kernel_has_quotas() -> bool {
    let (_, settings) = shell("zcat /proc/config.gz 2>/dev/null || cat /boot/config-$(uname -r)");
    ["CONFIG_QUOTA=y", "CONFIG_QFMT_V2=y", "CONFIG_EXT4_FS=y"]
        .iter()
        .all(|setting| settings.lines().any(|line| line == *setting))
}

/// Machines on a file system of that kind, in a file. False where this computer cannot mount one with project quotas.
fn holds_disks(kind: &str, make: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (image, mount) = (folder.path().join("image"), folder.path().join("mount"));
    fs_err::create_dir(&mount).unwrap();
    let (path, at) = (image.display(), mount.display());
    let (is_made, said) = shell(&format!("truncate -s 400M {path} && {make} {path}"));
    if !is_made {
        println!("{kind}: {said}");
        return false;
    }
    let (is_mounted, said) = shell(&format!("mount -t {kind} -o loop,prjquota {path} {at}"));
    if !is_mounted {
        // A computer that cannot mount files at all, such as a container, is no judge.
        let plain = format!("mount -t {kind} -o loop {path} {at} && umount {at}");
        let is_expected = kind == "ext4" && kernel_has_quotas() && shell(&plain).0;
        assert!(!is_expected, "this kernel has project quotas: {said}");
        println!("{kind} with project quotas cannot be mounted here: {said}");
        return false;
    }
    let place = mount.join("place");
    let driver = Nspawn::new(&place);
    let limit = disk_limit(&place).unwrap();
    assert!(!matches!(limit, DiskLimit::None { .. }), "{limit:?}");
    let template_path = mount.join("template");
    let template = template(&template_path);
    let network = NetworkWish {
        cluster: format!("test-{kind}-{}", std::process::id())
            .parse()
            .unwrap(),
        network: "10.213.32.0/24".parse().unwrap(),
        access: MachineAccess::Host,
        identity: None,
    };
    driver.make_network(&network, &Unattended).unwrap();
    let wish = |name: &str, last| MachineWish {
        cluster: network.cluster.clone(),
        name: name.parse().unwrap(),
        template: template.clone(),
        os: mullion_spec::words::Os::Linux,
        template_path: template_path.clone(),
        size: Size {
            cpus: 1,
            memory: ByteSize::gib(1),
            disk: ByteSize::mib(DISK),
        },
        address: [10, 213, 32, last].into(),
        network: network.network,
        authorized_keys: Vec::new(),
        identity: None,
        hosts: Hosts::default(),
        dns: vec![[10, 213, 32, 1].into()],
        autostart: true,
    };
    let machines = [wish("lin1", 11), wish("lin2", 12)];
    for machine in &machines {
        let listener = Listener::default();
        driver.make(machine, &listener).unwrap();
        let heard = listener.0.into_inner().unwrap();
        assert!(heard.is_empty(), "{heard:?}");
    }
    let home = |machine: &MachineWish| {
        let cluster = place.join("clusters").join(network.cluster.as_str());
        cluster.join("machines").join(machine.name.as_str())
    };
    let links =
        |path: &Path| std::os::unix::fs::MetadataExt::nlink(&fs_err::metadata(path).unwrap());
    assert_eq!(links(&template_path.join("containerd/blobs/layer")), 3);
    // What one has taken is not taken from the other, and what they share with the template counts for neither.
    for machine in &machines {
        let written = write_through_overlay(&home(machine), &template_path);
        let most = DISK << 20;
        assert!(written <= most && written > most / 2, "{written}");
    }
    // A pod's volume is no overlay, and a pod is without the capability to pass over limits.
    let volume = home(&machines[0]).join("disk/kubelet/volume");
    let (is_written, said) = shell(&format!(
        "setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource \
         dd if=/dev/zero of={} bs=1M count=64 conv=fsync",
        volume.display()
    ));
    assert!(!is_written, "{said}");
    let report = || shell(&format!("repquota -P -n -v {at}")).1;
    let limits = |report: &str| {
        let limit = |line: &str| line.split_whitespace().nth(4)?.parse::<u64>().ok();
        let ours = report.lines().filter(|line| line.starts_with('#'));
        ours.filter_map(limit).filter(|limit| *limit > 0).count()
    };
    assert_eq!(limits(&report()), 2, "{}", report());
    for machine in &machines {
        driver
            .remove(&machine.cluster, &machine.name, &Unattended)
            .unwrap();
    }
    driver
        .remove_network(&network.cluster, &Unattended)
        .unwrap();
    assert_eq!(limits(&report()), 0, "{}", report());
    let (is_gone, said) = shell(&format!("umount {at}"));
    assert!(is_gone, "{said}");
    true
}

#[test]
#[ignore = "needs root and file systems in files; cargo xtask test runs it"]
fn promise_13_a_disk_is_held_to_its_size_where_the_file_system_can() {
    apart(|| {
        let make = "mkfs.ext4 -q -O quota,project -E quotatype=prjquota";
        let ext4 = holds_disks("ext4", make);
        let xfs = holds_disks("xfs", "mkfs.xfs -q");
        println!("held by project quotas: ext4 {ext4}, xfs {xfs}");
        if std::env::var_os("MULLION_TEST_QUOTAS").is_some() {
            assert!(ext4, "this kernel was expected to have project quotas");
        }
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_13_a_disk_that_cannot_be_held_is_told() {
    apart(|| {
        let folder = tempfile::tempdir_in("/run").unwrap();
        let place = folder.path().join("place");
        let driver = Nspawn::new(&place);
        let network = NetworkWish {
            cluster: format!("test-told-{}", std::process::id()).parse().unwrap(),
            network: "10.213.33.0/24".parse().unwrap(),
            access: MachineAccess::Host,
            identity: None,
        };
        let template_path = folder.path().join("template");
        let template = template(&template_path);
        driver.make_network(&network, &Unattended).unwrap();
        let wish = MachineWish {
            cluster: network.cluster.clone(),
            name: "lin1".parse().unwrap(),
            template,
            os: mullion_spec::words::Os::Linux,
            template_path,
            size: Size {
                cpus: 1,
                memory: ByteSize::gib(1),
                disk: ByteSize::gib(20),
            },
            address: [10, 213, 33, 11].into(),
            network: network.network,
            authorized_keys: Vec::new(),
            identity: None,
            hosts: Hosts::default(),
            dns: vec![[10, 213, 33, 1].into()],
            autostart: true,
        };
        let listener = Listener::default();
        driver.make(&wish, &listener).unwrap();
        let heard = listener.0.into_inner().unwrap();
        let is_told = |line: &String| line.starts_with("disk is not limited: ");
        assert!(heard.iter().any(is_told), "{heard:?}");
        driver
            .remove(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        driver
            .remove_network(&network.cluster, &Unattended)
            .unwrap();
    });
}
