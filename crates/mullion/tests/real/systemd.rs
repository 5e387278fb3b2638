//! A computer whose first process is systemd, as it is for most people. Where it is another one here, the test makes
//! such a computer within this one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion::environment::Environment;

use crate::computer::hierarchies;
use crate::kube::SETTLE;
use crate::lab::{Lab, place, program};
use crate::ran::tool;
use crate::trial::{Trial, say, until};

/// What shows that systemd is the first process.
const MARK: &str = "/run/systemd/system";

/// How long a computer takes until its nodes are Ready.
const BOOT: Duration = Duration::from_mins(3);

/// The control group, in each hierarchy, in which the computer within is.
const GROUP: &str = "mullion-real-computer";

/// Becomes systemd as the first process of a computer that has this one's programs, a network of its own, and control
/// groups below ours. What is given is the same folder on both; everything else that it writes is in memory, but for
/// its unit files, which `UNITS` keeps from one start to the next.
///
/// It starts what is in that folder alone: this computer's services are none of its own.
const BECOME: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
for folder; do
  mkdir -p ".$folder"
  mount --rbind "$folder" ".$folder"
done
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
for folder in lib/systemd/system-generators lib/systemd/system/*.wants; do
  [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$folder"
done
mount --bind "$UNITS" etc/systemd/system
ip link set lo up
printf '[Unit]\nDefaultDependencies=no\nWants=multi-user.target\n' > etc/systemd/system/computer.target
groups=$(grep -E '^cgroup2? ' /proc/self/mounts)
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
echo "$groups" | while read -r _ at kind options _; do
  case $kind in
  cgroup) own=none,$(echo "$options" | tr , '\n' | grep -E '^name=' || true)
          [ "$own" != none, ] || own=$(echo "$options" | sed -E 's/^(rw|ro)(,(nosuid|nodev|noexec|relatime))*,//') ;;
  *) own=rw ;;
  esac
  mkdir -p ".$at"
  mount -t "$kind" -o "$own" "$kind" ".$at"
done
mkdir old
pivot_root . old
umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=computer.target --log-target=null
"#;

/// A computer within this one.
struct Within {
    outer: Child,
    first: String,
    /// Settings of the kernel that it shares with this computer. Its record of them goes with it, so the test keeps one.
    settings: Vec<(&'static str, String)>,
}

/// Limits that machines raise for the whole kernel.
const LIMITS: [&str; 2] = [
    "/proc/sys/fs/inotify/max_user_instances",
    "/proc/sys/fs/inotify/max_user_watches",
];

impl Within {
    /// Starts one that has these folders of ours, and these unit files.
    fn start(folders: &[&Path], units: &Path) -> Self {
        let mut groups = Vec::new();
        for hierarchy in hierarchies() {
            let group = hierarchy.join(GROUP);
            fs_err::create_dir_all(&group).unwrap();
            for file in ["cpuset.cpus", "cpuset.mems"] {
                // A group of this kind begins with none, and could hold no process.
                if let Ok(all) = fs_err::read(hierarchy.join(file)) {
                    fs_err::write(group.join(file), all).unwrap();
                }
            }
            groups.push(group.join("cgroup.procs").display().to_string());
        }
        let enter = format!(
            "for group in {}; do echo $$ > $group || exit; done
             exec unshare --mount --propagation=private --pid --fork --kill-child --uts --ipc --net --cgroup \
             bash -c \"$0\" computer \"$@\"",
            groups.join(" ")
        );
        let outer = Command::new("bash")
            .args(["-c", &enter, BECOME])
            .args(folders)
            .env("UNITS", units)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let parent = outer.id().to_string();
        let mut within = Self {
            outer,
            first: String::new(),
            settings: LIMITS
                .map(|path| (path, fs_err::read_to_string(path).unwrap()))
                .into(),
        };
        within.first = until("its first process is there", SETTLE, || {
            let found = Command::new("pgrep")
                .args(["-P", &parent, "-x", "systemd"])
                .output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            let first = found.trim().to_owned();
            (!first.is_empty()).then_some(first).ok_or("not yet".into())
        });
        until("systemd answers", SETTLE, || {
            let asked = ["systemctl", "is-active", "computer.target"];
            let words = Self::words(&within.first, Path::new("/"));
            let answer = Command::new(&words[0])
                .args(&words[1..])
                .args(asked)
                .output();
            let answer = String::from_utf8_lossy(&answer.unwrap().stdout).into_owned();
            (answer.trim() == "active").then_some(()).ok_or(answer)
        });
        within
    }

    /// What begins a command that is run there, in that folder.
    fn words(first: &str, folder: &Path) -> Vec<String> {
        let all = format!(
            "nsenter --target={first} --mount --uts --ipc --net --pid --cgroup --wdns={}",
            folder.display()
        );
        all.split(' ').map(str::to_owned).collect()
    }

    /// What a program of that computer wrote.
    fn tool(&self, words: &[&str]) -> String {
        let begin = Self::words(&self.first, Path::new("/"));
        let mut all: Vec<_> = begin[1..].iter().map(String::as_str).collect();
        all.extend(words);
        tool(&begin[0], &all)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = self.outer.kill();
        let _ = self.outer.wait();
        for (path, before) in &self.settings {
            // Also where its cluster was not taken down: nothing else would put it back.
            let _ = fs_err::write(path, before);
        }
        let patience = Instant::now() + Duration::from_secs(10);
        for hierarchy in hierarchies() {
            let group = hierarchy.join(GROUP);
            // The kernel lets go of a group's last process after its end, not with it.
            while group.exists() && Instant::now() < patience {
                let _ = Command::new("find")
                    .arg(&group)
                    .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn machines_are_services_where_systemd_is_the_first_process() {
    let mut trial = Trial::begin("machines_are_services_where_systemd_is_the_first_process");
    if Path::new(MARK).exists() {
        say("  it is here: every other test shows it");
        return;
    }
    let environment = Environment::new(".".into(), |name| std::env::var_os(name));
    fs_err::create_dir_all(place()).unwrap();
    let units = tempfile::tempdir().unwrap();
    let start = || {
        let program = program();
        let folders: [&Path; 4] = [
            &std::env::temp_dir(),
            &place(),
            &environment.cache,
            program.parent().unwrap(),
        ];
        Within::start(&folders, units.path())
    };
    let settings = crate::computer::settings();
    let mut within = start();
    let mut lab = Lab::linux("systemd", 1);
    lab.through = Within::words(&within.first, &lab.path(""));
    trial.lap("a computer within this one");
    let nodes = ["cp1", "lin1"];
    let _ = lab.up();
    lab.is_up(&nodes);
    let _ = lab.has_nothing_to_do();
    let unit = format!("mullion-{}.lin1.service", lab.name);
    let property = |within: &Within, name: &str| {
        let asked = format!("--property={name}");
        let told = within.tool(&["systemctl", "show", "--value", &asked, &unit]);
        told.trim().to_owned()
    };
    assert_eq!(property(&within, "ActiveState"), "active");
    trial.lap("up: machines are its services");

    drop(within);
    // The kernel goes on, unlike that of a computer which restarts.
    crate::computer::restore(&settings);
    within = start();
    lab.through = Within::words(&within.first, &lab.path(""));
    until(
        "systemd starts the machines with the computer",
        BOOT,
        || {
            let status = lab.status();
            let machines = status["machines"].as_array().unwrap();
            let is_up = machines
                .iter()
                .all(|machine| machine["node"]["ready"] == true);
            is_up.then_some(()).ok_or(format!("{status:#}"))
        },
    );
    lab.is_up(&nodes);
    let _ = lab.has_nothing_to_do();
    trial.lap("after a restart of the computer all is Ready without `up`");

    lab.write(&Lab::text(1).replace(
        "{linux: 1}",
        "[{name: cp, role: control-plane}, {name: lin, autostart: false}]",
    ));
    let plan = lab.run(&["plan"]).good();
    let _ = plan.says(&["no longer start lin1 when its host starts"]);
    let _ = lab.up();
    let wanted = units.path().join("multi-user.target.wants");
    let link = |machine: &str| wanted.join(format!("mullion-{}.{machine}.service", lab.name));
    let is_linked = |machine: &str| fs_err::symlink_metadata(link(machine)).is_ok();
    assert!(is_linked("cp1") && !is_linked("lin1"));
    assert_eq!(property(&within, "ActiveState"), "active");
    lab.is_up(&nodes);
    trial.lap("`autostart: false` takes the unit out of the start");

    let _ = lab.run(&["node", "reboot", "lin1", "--yes"]).good();
    // A reboot is a change: what was proven before it is proven again.
    let _ = lab.up();
    lab.is_up(&nodes);
    trial.lap("node reboot");
    let before = property(&within, "NRestarts");
    let _ = lab.run(&["ssh", "lin1", "--", "systemctl reboot"]);
    until("systemd starts it anew", SETTLE, || {
        let now = property(&within, "NRestarts");
        (now != before).then_some(()).ok_or(now)
    });
    lab.ready(&nodes);
    trial.lap("it started itself anew");
    let _ = within.tool(&["systemctl", "kill", "--signal=KILL", &unit]);
    until("its end is seen", SETTLE, || {
        let state = lab.status()["machines"][1]["machine"].clone();
        (state == "off").then_some(()).ok_or(state.to_string())
    });
    let _ = lab.up();
    lab.is_up(&nodes);
    trial.lap("killed, and repaired by `up`");
    let _ = lab.down().says(&["nothing is left"]);
    let loaded = within.tool(&["systemctl", "list-units", "--all", "--plain", "--no-legend"]);
    assert!(!loaded.contains("mullion-"), "{loaded}");
    for folder in [units.path(), wanted.as_path()] {
        let left = crate::computer::folder(folder);
        assert!(
            !left.iter().any(|name| name.contains("mullion")),
            "{left:?}"
        );
    }
    assert!(!place().join("boot").exists());
    lab.through.clear();
    drop(within);
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}
