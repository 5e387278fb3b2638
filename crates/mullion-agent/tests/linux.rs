//! The adapter for Linux on a scratch folder: real files, real programs (small scripts in the folder), a real lock.
//! Needs no root and touches nothing outside the folder.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use mullion_agent::system::linux::Linux;
use mullion_agent::system::{
    Activity, Ended, Files as _, FirewallState, Kind, Module, PackageLists, Packages as _, Program,
    Programs as _, Removed, Services as _, Settings as _, System as _, SystemError,
};
use mullion_agent::{Outcome, serve};
use mullion_wire::{
    Blueprint, Content, Event, File, Firewall, Mark, OpenPort, Package, Patience, Protocol,
    Request, Service, ServiceState, Sha256Digest, read_event, write_line,
};

/// A machine in a folder, with scripts in place of programs that would change this computer.
struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in [
            "etc",
            "run",
            "bin",
            "usr/bin",
            "var/lib",
            "proc/sys/net/ipv4",
            "sys/module",
        ] {
            fs_err::create_dir_all(scratch.at(folder)).unwrap();
        }
        fs_err::write(scratch.at("proc/sys/net/ipv4/ip_forward"), "0\n").unwrap();
        // Every call is written down; services are files in a folder.
        scratch.script(
            "usr/bin/systemctl",
            r#"root=$(cd "$(dirname "$0")/../.." && pwd); s=$root/services; mkdir -p "$s"
echo "systemctl $*" >> "$root/calls"
while [ "${1#-}" != "$1" ]; do shift; done
verb=$1; shift
case $verb in
show) for u in "$@"; do case $u in -*) continue;; esac
        [ -e "$s/$u.active" ] && a=active || a=inactive
        [ -e "$s/$u.enabled" ] && e=enabled || e=disabled
        printf 'LoadState=loaded\nActiveState=%s\nUnitFileState=%s\n\n' $a $e; done;;
enable) for u in "$@"; do touch "$s/$u.enabled"; done;;
disable) for u in "$@"; do rm -f "$s/$u.enabled"; done;;
start|restart) touch "$s/$1.active";;
stop) rm -f "$s/$1.active";;
esac"#,
        );
        scratch
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.at(path);
        let mut file = fs_err::File::create(&path).unwrap();
        write!(file, "#!/bin/sh\n{text}\n").unwrap();
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn linux(&self) -> Linux {
        Linux::below(self.folder.path())
    }

    fn text(&self, path: &str) -> String {
        fs_err::read_to_string(self.at(path)).unwrap_or_default()
    }

    fn ask(&self, request: &Request) -> Vec<Event> {
        let mut out = Vec::new();
        let line = write_line(request).unwrap();
        let outcome = serve(
            &self.linux(),
            &mut line.as_bytes(),
            &mut out,
            Duration::ZERO,
        );
        let events: Vec<_> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| read_event(line).unwrap())
            .collect();
        assert_eq!(outcome, Outcome::Done, "{events:#?}");
        events
    }

    /// How the machine differs, in the words of an apply.
    fn differences(&self, blueprint: &Blueprint) -> Vec<String> {
        let request = Request::Compare {
            blueprint: blueprint.clone(),
        };
        match &self.ask(&request)[..] {
            [
                Event::Differences { differences },
                Event::Done { changed: 0, .. },
            ] => differences
                .iter()
                .map(|difference| difference.what.clone())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn changed(&self, request: &Request) -> u64 {
        match self.ask(request).last() {
            Some(Event::Done { changed, .. }) => *changed,
            other => panic!("{other:?}"),
        }
    }
}

fn run(linux: &Linux, program: &Program) -> (Result<Ended, SystemError>, Vec<String>) {
    let mut lines = Vec::new();
    let ended = linux.run(program, &mut |line| lines.push(line.to_owned()));
    (ended, lines)
}

fn shell(line: &str) -> (Scratch, Program) {
    let scratch = Scratch::new();
    symlink("/bin/sh", scratch.at("bin/sh")).unwrap();
    let program = scratch.linux().shell(line);
    (scratch, program)
}

fn mode(path: &Path) -> u32 {
    fs_err::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_are_written_with_their_mode_and_looked_at_without_following_links() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    linux.write("/etc/a", b"text", 0o640).unwrap();
    assert_eq!(
        (scratch.text("/etc/a").as_str(), mode(&scratch.at("/etc/a"))),
        ("text", 0o640)
    );
    let look = linux.look("/etc/a").unwrap().unwrap();
    assert_eq!((look.kind, look.size, look.mode), (Kind::File, 4, 0o640));
    assert_eq!(linux.digest("/etc/a").unwrap(), Sha256Digest::of(b"text"));
    symlink("a", scratch.at("/etc/link")).unwrap();
    assert_eq!(linux.look("/etc/link").unwrap().unwrap().kind, Kind::Link);
    assert_eq!(linux.read("/etc/link").unwrap().unwrap(), b"text");
    assert_eq!(linux.look("/etc/none").unwrap(), None);
    assert_eq!(linux.look("/etc/a/below-a-file").unwrap(), None);
    assert_eq!(linux.read("/etc/none").unwrap(), None);
    assert_eq!(linux.list("/etc").unwrap(), ["a", "link"]);
    assert!(linux.list("/none").unwrap().is_empty());
}

#[test]
fn writing_replaces_a_link_and_does_not_follow_it() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    linux.write("/etc/victim", b"mine", 0o600).unwrap();
    symlink(scratch.at("/etc/victim"), scratch.at("/etc/a.mullion-new")).unwrap();
    linux.write("/etc/a.mullion-new", b"staged", 0o644).unwrap();
    assert_eq!(scratch.text("/etc/victim"), "mine");
    assert_eq!(scratch.text("/etc/a.mullion-new"), "staged");
}

#[test]
fn a_twin_has_bytes_mode_and_time_and_a_link_stays_a_link() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    linux.write("/etc/a", b"text", 0o4750).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    linux.twin("/etc/a", "/etc/b").unwrap();
    let (a, b) = (
        linux.look("/etc/a").unwrap().unwrap(),
        linux.look("/etc/b").unwrap().unwrap(),
    );
    assert_eq!((a.mode, a.modified, a.size), (b.mode, b.modified, b.size));
    assert_ne!(a.number, b.number);
    symlink("a", scratch.at("/etc/link")).unwrap();
    linux.twin("/etc/link", "/etc/b").unwrap();
    assert_eq!(
        fs_err::read_link(scratch.at("/etc/b")).unwrap(),
        Path::new("a")
    );
}

#[test]
fn removing_takes_folders_whole_and_empty_ones_only_where_asked() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    linux.make_folder("/etc/folder", 0o700).unwrap();
    linux.make_folder("/etc/folder", 0o700).unwrap();
    assert_eq!(mode(&scratch.at("/etc/folder")), 0o700);
    linux.write("/etc/folder/a", b"", 0o644).unwrap();
    assert_eq!(linux.remove_empty("/etc/folder").unwrap(), Removed::Nothing);
    assert_eq!(linux.remove("/etc/folder").unwrap(), Removed::Gone);
    assert_eq!(linux.remove("/etc/folder").unwrap(), Removed::Nothing);
    assert_eq!(linux.remove_empty("/etc/folder").unwrap(), Removed::Nothing);
}

#[test]
fn a_copy_of_many_megabytes_has_the_same_digest() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs_err::write(scratch.at("/var/lib/big"), &bytes).unwrap();
    linux.copy("/var/lib/big", "/usr/bin/big", 0o755).unwrap();
    assert_eq!(
        linux.digest("/usr/bin/big").unwrap(),
        Sha256Digest::of(&bytes)
    );
    assert_eq!(mode(&scratch.at("/usr/bin/big")), 0o755);
}

#[test]
fn two_agents_do_not_work_at_once() {
    let scratch = Scratch::new();
    let first = scratch.linux();
    first.lock("applying a blueprint", Duration::ZERO).unwrap();
    let second = scratch.linux();
    let begun = Instant::now();
    let wait = Duration::from_millis(200);
    let error = second.lock("running kubeadm", wait).unwrap_err();
    assert!(begun.elapsed() >= wait);
    let words = error.to_string();
    assert!(words.contains("applying a blueprint"), "{words}");
    assert!(words.contains(&std::process::id().to_string()), "{words}");
    drop(first);
    second.lock("running kubeadm", Duration::ZERO).unwrap();
}

#[test]
fn the_lock_of_a_removed_file_keeps_nobody_out() {
    let scratch = Scratch::new();
    let first = scratch.linux();
    first
        .lock("putting everything back", Duration::ZERO)
        .unwrap();
    first.remove("/run/mullion.lock").unwrap();
    let second = scratch.linux();
    second.lock("applying", Duration::ZERO).unwrap();
    let third = scratch.linux();
    assert!(third.lock("applying", Duration::ZERO).is_err());
}

#[test]
fn a_program_that_outlives_its_agent_holds_the_lock() {
    // What runs in the background gets another standard input, so the lock is passed on beside it.
    let line = "exec 3<&0; sleep 3 >/dev/null 2>&1 &";
    let (scratch, program) = shell(line);
    let second = scratch.linux();
    for (program, is_held) in [(program.clone(), false), (program.holding_lock(), true)] {
        let first = scratch.linux();
        first.lock("running kubeadm", Duration::ZERO).unwrap();
        assert!(run(&first, &program).0.unwrap().is_well());
        // As a kill would end it, with what it started still running.
        drop(first);
        let probe = scratch.linux();
        assert_eq!(probe.lock("applying", Duration::ZERO).is_err(), is_held);
    }
    second.lock("applying", Duration::from_secs(10)).unwrap();
}

#[test]
fn lines_of_both_streams_are_heard_in_their_order() {
    let (scratch, program) = shell("echo one; echo two >&2; printf 'three\\rfour'; exit 7");
    let (ended, lines) = run(&scratch.linux(), &program);
    assert_eq!(ended.unwrap(), Ended::Status(7));
    assert_eq!(lines, ["one", "two", "three", "four"]);
}

#[test]
fn a_program_reads_what_it_is_given_and_nothing_otherwise() {
    let (scratch, program) = shell("cat");
    let (_, lines) = run(&scratch.linux(), &program.clone().reading("given\n"));
    assert_eq!(lines, ["given"]);
    let (ended, lines) = run(&scratch.linux(), &program.clone());
    assert!(ended.unwrap().is_well() && lines.is_empty());
    let linux = scratch.linux();
    linux.lock("reading", Duration::ZERO).unwrap();
    let (_, lines) = run(&linux, &program.holding_lock());
    assert!(lines.is_empty(), "the lock's file is not read: {lines:?}");
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_its_children() {
    let (scratch, program) = shell("echo begun; sleep 60 & sleep 60");
    let begun = Instant::now();
    let (ended, _) = run(
        &scratch.linux(),
        &program.within(Duration::from_millis(300)),
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    match ended.unwrap_err() {
        SystemError::TooLong { tail, .. } => assert_eq!(tail, ["begun"]),
        other => panic!("{other}"),
    }
}

#[test]
fn who_asks_with_patience_gives_programs_more_time() {
    let (scratch, program) = shell("sleep 0.6");
    let linux = scratch.linux();
    linux.be_patient(Patience::of_hundredths(10_000));
    let (ended, _) = run(&linux, &program.within(Duration::from_millis(300)));
    assert!(ended.unwrap().is_well());
}

#[test]
fn a_daemon_that_a_command_leaves_is_not_waited_for() {
    let (scratch, program) = shell("sleep 20 & echo started");
    let begun = Instant::now();
    let (ended, lines) = run(&scratch.linux(), &program);
    assert!(ended.unwrap().is_well());
    assert_eq!(lines, ["started"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_signal_is_not_a_status_and_an_absent_program_is_named() {
    let (scratch, program) = shell("kill -9 $$");
    assert_eq!(run(&scratch.linux(), &program).0.unwrap(), Ended::Signal(9));
    let absent = run(&scratch.linux(), &Program::new("no-such", [])).0;
    assert!(matches!(absent, Err(SystemError::NoProgram(name)) if name == "no-such"));
}

#[test]
fn settings_are_files_of_the_kernel() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    assert_eq!(linux.setting("net.ipv4.ip_forward").unwrap().unwrap(), "0");
    linux.set("net.ipv4.ip_forward", "1").unwrap();
    assert_eq!(linux.setting("net.ipv4.ip_forward").unwrap().unwrap(), "1");
    assert_eq!(linux.setting("net.bridge.none").unwrap(), None);
}

#[test]
fn a_module_is_usable_when_it_is_loaded_built_in_or_works() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    assert_eq!(linux.module("overlay").unwrap(), Module::Hidden);
    fs_err::write(
        scratch.at("/proc/filesystems"),
        "nodev\tproc\nnodev\toverlay\n",
    )
    .unwrap();
    assert_eq!(linux.module("overlay").unwrap(), Module::Usable);
    fs_err::create_dir(scratch.at("/sys/module/br_netfilter")).unwrap();
    assert_eq!(linux.module("br-netfilter").unwrap(), Module::Usable);

    let kernel = linux.describe().unwrap().kernel;
    let folder = scratch.at(&format!("/lib/modules/{kernel}"));
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("modules.dep"), "").unwrap();
    fs_err::write(
        folder.join("modules.builtin"),
        "kernel/drivers/net/vxlan/vxlan.ko\n",
    )
    .unwrap();
    assert_eq!(linux.module("vxlan").unwrap(), Module::Usable);
    assert_eq!(linux.module("ip_vs").unwrap(), Module::Unloaded);
    scratch.script("usr/bin/modprobe", "echo not found >&2; exit 1");
    assert!(linux.load_module("ip_vs").is_err());
    let trace = "mkdir -p \"$(dirname \"$0\")/../../sys/module/ip_vs\"; exit 1";
    scratch.script("usr/bin/modprobe", trace);
    linux.load_module("ip_vs").unwrap();
}

#[test]
fn packages_count_as_present_by_a_program_or_by_their_status() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    let package = |name: &str, program: Option<&str>| Package {
        name: name.into(),
        program: program.map(str::to_owned),
    };
    scratch.script("usr/bin/socat", "");
    scratch.script(
        "usr/bin/dpkg-query",
        "echo 'installed conntrack'; echo 'config-files ethtool'; echo 'no packages' >&2; exit 1",
    );
    let wanted = [
        package("socat", Some("socat")),
        package("conntrack", None),
        package("ethtool", None),
    ];
    assert_eq!(linux.missing(&wanted).unwrap(), ["ethtool"]);
    let error = linux.install(&["ethtool".into()], PackageLists::Kept, &mut |_| {});
    assert!(matches!(error, Err(SystemError::NoPackages(_))));
    scratch.script(
        "usr/bin/apt-get",
        "echo \"$DEBIAN_FRONTEND $*\" >> \"$(dirname \"$0\")/../../calls\"",
    );
    linux
        .install(&["ethtool".into()], PackageLists::Kept, &mut |_| {})
        .unwrap();
    let calls = scratch.text("calls");
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].ends_with(" update"), "there are no lists yet");
    assert!(calls[1].starts_with("noninteractive "));
    assert!(calls[1].contains("DPkg::Lock::Timeout="));
    assert!(calls[1].ends_with("install --yes --no-install-recommends ethtool"));
}

#[test]
fn a_firewall_group_is_set_once_and_seen_again() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    let wanted = Firewall {
        group: "mullion".into(),
        open: vec![OpenPort {
            name: "API".into(),
            protocol: Protocol::Tcp,
            first: 6443,
            last: 6443,
        }],
    };
    assert_eq!(linux.firewall(&wanted).unwrap(), FirewallState::NoMeans);
    scratch.script(
        "usr/bin/nft",
        r#"t=$(dirname "$0")/../../table
case $1 in -f) cat > "$t";; list) cat "$t" 2>/dev/null;; delete) rm "$t";; esac"#,
    );
    assert_eq!(linux.firewall(&wanted).unwrap(), FirewallState::Different);
    linux.set_firewall(&wanted).unwrap();
    assert_eq!(linux.firewall(&wanted).unwrap(), FirewallState::Set);
    assert_eq!(linux.remove_firewall("mullion").unwrap(), Removed::Gone);
    assert_eq!(linux.remove_firewall("mullion").unwrap(), Removed::Nothing);
}

#[test]
fn services_are_asked_for_in_one_call() {
    let scratch = Scratch::new();
    let linux = scratch.linux();
    linux.enable(&["a", "b"]).unwrap();
    linux.start("a").unwrap();
    let found = linux.services(&["a", "b", "c"]).unwrap();
    assert_eq!(
        (found["a"].is_enabled, found["a"].activity),
        (true, Activity::Running)
    );
    assert_eq!(
        (found["b"].is_enabled, found["b"].activity),
        (true, Activity::Stopped)
    );
    assert!(!found["c"].is_enabled);
    let calls = scratch.text("calls");
    assert_eq!(
        calls.lines().filter(|call| call.contains(" show ")).count(),
        1
    );
}

#[test]
fn a_kubelet_that_is_not_there_is_not_well() {
    // Port 1 of this computer is nobody's.
    assert!(!Scratch::new().linux().answers(1, "/healthz"));
}

#[test]
fn a_blueprint_is_applied_twice_and_taken_back_on_real_files() {
    let scratch = Scratch::new();
    fs_err::create_dir(scratch.at("/etc/containerd")).unwrap();
    fs_err::write(scratch.at("/etc/containerd/config.toml"), "theirs\n").unwrap();
    let program = vec![7; 300_000];
    let sha256 = Sha256Digest::of(&program);
    let text = |path: &str, text: &str| File {
        path: path.into(),
        content: Content::Text(text.into()),
        mode: 0o644,
    };
    let unit = "/etc/systemd/system/containerd.service";
    let blueprint = Blueprint {
        version: mullion_wire::VERSION,
        machine: scratch.linux().host_name().unwrap(),
        packages: vec![],
        modules: std::collections::BTreeSet::new(),
        sysctls: [("net.ipv4.ip_forward".to_owned(), "1".to_owned())].into(),
        folders: vec![],
        files: vec![
            text("/etc/containerd/config.toml", "ours\n"),
            text(unit, "[Service]\n"),
            File {
                path: "/usr/local/bin/containerd".into(),
                content: Content::Stored {
                    sha256: sha256.clone(),
                    size: program.len() as u64,
                },
                mode: 0o755,
            },
        ],
        services: vec![Service {
            name: "containerd".into(),
            after: std::collections::BTreeSet::new(),
            restarted_by: [unit.to_owned(), "/etc/containerd/config.toml".to_owned()].into(),
            state: ServiceState::Running,
            definition: None,
        }],
        firewall: None,
        windows: None,
    };
    // Contents that are still to be brought differ, too; asking leaves nothing behind.
    let differences = scratch.differences(&blueprint);
    for gone in [unit, "/var/lib/mullion", "/run/mullion.lock"] {
        assert!(!scratch.at(gone).exists(), "{gone}");
    }
    let missing = Request::Missing {
        blueprint: blueprint.clone(),
    };
    match &scratch.ask(&missing)[0] {
        Event::Missing {
            sha256: missing,
            store,
        } => {
            assert_eq!(*missing, [sha256.clone()].into());
            fs_err::create_dir_all(scratch.at(store)).unwrap();
            fs_err::write(scratch.at(store).join(sha256.as_str()), &program).unwrap();
        }
        other => panic!("{other:?}"),
    }
    let apply = Request::Apply {
        blueprint: blueprint.clone(),
        mark: Mark(serde_json::Value::Null),
    };
    let events = scratch.ask(&apply);
    let changed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Changed { what } => Some(what.clone()),
            _ => None,
        })
        .collect();
    assert!(changed.len() >= 6, "{changed:?}");
    assert_eq!(differences, changed);
    assert_eq!(scratch.differences(&blueprint), [""; 0]);
    assert_eq!(scratch.text("/etc/containerd/config.toml"), "ours\n");
    assert_eq!(scratch.text("/proc/sys/net/ipv4/ip_forward"), "1");
    assert!(
        scratch
            .text("/etc/sysctl.d/90-mullion.conf")
            .contains("net.ipv4.ip_forward = 1\n")
    );
    assert!(scratch.text("calls").contains("daemon-reload"));
    assert_eq!(mode(&scratch.at("/var/lib/mullion/state.json")), 0o600);
    assert_eq!(mode(&scratch.at("/usr/local/bin/containerd")), 0o755);

    let calls = scratch
        .text("calls")
        .lines()
        .filter(|call| !call.contains(" show "))
        .count();
    assert_eq!(scratch.changed(&apply), 0);
    let again = scratch
        .text("calls")
        .lines()
        .filter(|call| !call.contains(" show "))
        .count();
    assert_eq!(calls, again, "{}", scratch.text("calls"));

    assert!(scratch.changed(&Request::Revert) > 3);
    assert_eq!(scratch.text("/etc/containerd/config.toml"), "theirs\n");
    assert_eq!(scratch.text("/proc/sys/net/ipv4/ip_forward"), "0");
    for gone in [
        "/usr/local/bin/containerd",
        unit,
        "/etc/sysctl.d",
        "/var/lib/mullion",
        "/run/mullion.lock",
    ] {
        assert!(!scratch.at(gone).exists(), "{gone}");
    }
    assert_eq!(scratch.changed(&Request::Revert), 0);
}
