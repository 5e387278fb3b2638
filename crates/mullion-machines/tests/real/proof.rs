//! Labels that cannot be read, processes that only look like a machine's, and clusters of one name.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion_machines::nspawn::Nspawn;
use mullion_machines::{Driver as _, DriverError, Hosts, Look as _, Stop};
use mullion_plan::{Power, Trouble, Unattended};
use mullion_spec::value::MachineName;
use mullion_testkit::driver::conform::Spoil;

use crate::ground::{Ground, apart, files, groups, login, members};
use crate::networks::{run, within};

/// Processes whose program is the container program, with the folder of a machine among their arguments.
fn containers(ground: &Ground, machine: &MachineName) -> Vec<i32> {
    let root = format!("--directory={}", ground.folder_of(machine).display());
    let entries = fs_err::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let program = fs_err::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&root) && program.ends_with("systemd-nspawn")
        })
        .collect()
}

fn kill(pid: i32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// A process that has the arguments of a machine's container program, and a child with the name of its first process.
///
/// The shell reads its text from standard input: its arguments are free.
fn look_alike(ground: &Ground, machine: &MachineName, user: u32) -> Child {
    let folder = tempfile::tempdir().unwrap();
    // A program called `systemd`, as any user can have one.
    let systemd = folder.path().join("systemd");
    fs_err::copy("/bin/sleep", &systemd).unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(folder.path(), all).unwrap();
    let text = format!("{} 300 & exec sleep 300", systemd.display());
    let child = Command::new("bash")
        .arg0("systemd-nspawn")
        .args(["-c", &text, "systemd-nspawn", "--quiet", "--boot"])
        .arg(format!(
            "--directory={}",
            ground.folder_of(machine).join("disk/root").display()
        ))
        .uid(user)
        .gid(user)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The program was read by then.
    std::thread::sleep(Duration::from_millis(300));
    child
}

fn end(mut child: Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-9", "--", &group]).status();
    let _ = child.wait();
}

fn stamp(path: &str) -> Option<(u64, std::time::SystemTime)> {
    let meta = fs_err::metadata(path).ok()?;
    Some((meta.len(), meta.modified().unwrap()))
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_06_a_machine_whose_label_is_damaged_or_newer_runs_on_and_is_not_removed() {
    apart(|| {
        let ground = Ground::new("spoilt", 31);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        for spoil in [Spoil::Newer, Spoil::Damaged] {
            ground.spoil(name, spoil);
            let seen = driver.find(cluster).unwrap().machines[name].clone();
            assert_eq!(seen.power, Power::On, "what runs is told as running");
            let file = ground.folder_of(name).join("machine.json");
            let file = file.display().to_string();
            let told = match seen.trouble {
                Some(Trouble::Newer { file, .. } | Trouble::Unreadable { file, .. }) => file,
                other => panic!("{other:?}"),
            };
            assert_eq!(told, file);
            let refused = driver.remove(cluster, name, &Unattended).unwrap_err();
            assert!(refused.to_string().contains(&file), "{refused}");
            assert!(refused.hint().is_some());
            assert!(driver.make(&wish, &Unattended).is_err());
        }
        ground.spoil(name, Spoil::Restored);
        assert_eq!(login(&ground, name, "hostname"), "lin1\n");
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_06_nothing_lives_on_of_a_machine_whose_container_program_was_killed() {
    apart(|| {
        let ground = Ground::new("orphans", 32);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        let processes = members(&ground, name);
        assert!(processes.len() > 3, "{processes:?}");
        for end in ["stop", "remove"] {
            // First what keeps it running, or it would be started again.
            for pid in containers(&ground, name) {
                let status = fs_err::read_to_string(format!("/proc/{pid}/status"));
                let parent = status.unwrap();
                let parent = parent.lines().find_map(|line| line.strip_prefix("PPid:"));
                let parent: i32 = parent.unwrap().trim().parse().unwrap();
                if parent > 1 {
                    kill(parent);
                }
                kill(pid);
            }
            std::thread::sleep(Duration::from_millis(200));
            let left = members(&ground, name);
            println!("{} processes after the kill", left.len());
            let power = driver.find(cluster).unwrap().machines[name].power;
            let expected = if left.is_empty() {
                Power::Off
            } else {
                Power::On
            };
            assert_eq!(power, expected, "what is left of it counts: {left:?}");
            if end == "stop" {
                driver
                    .stop(cluster, name, Stop::AtOnce, &Unattended)
                    .unwrap();
            } else {
                driver.remove(cluster, name, &Unattended).unwrap();
            }
            assert!(groups(&ground, name).is_empty());
            for pid in &left {
                let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let is_over = stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ");
                assert!(is_over, "{pid} lives on: {stat}");
            }
            if end == "stop" {
                driver.start(cluster, name, &Unattended).unwrap();
            }
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_06_a_machine_that_runs_without_its_folder_is_told_with_the_folder_and_how_it_ends() {
    apart(|| {
        let ground = Ground::new("homeless", 36);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        let (folder, aside) = (
            ground.folder_of(&wish.name),
            ground.folder.path().join("aside"),
        );
        fs_err::rename(&folder, &aside).unwrap();
        let found = driver.find(&wish.cluster).unwrap();
        match found.network_trouble {
            Some(Trouble::NoFolder { folder: told, end }) => {
                assert_eq!(told, folder.display().to_string());
                assert!(
                    end.starts_with("kill ") || end.starts_with("systemctl stop "),
                    "{end}"
                );
            }
            other => panic!("{other:?}"),
        }
        fs_err::rename(&aside, &folder).unwrap();
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_06_a_mount_in_a_machines_folder_keeps_it_from_being_removed() {
    apart(|| {
        let ground = Ground::new("mounted", 33);
        let driver = ground.driver();
        let wish = ground.wish("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        let data = ground.folder.path().join("data");
        fs_err::create_dir(&data).unwrap();
        fs_err::write(data.join("file"), "kept").unwrap();
        let target = ground.folder_of(name).join("disk/upper/data");
        fs_err::create_dir(&target).unwrap();
        let bind = Command::new("mount")
            .arg("--bind")
            .args([&data, &target])
            .status();
        assert!(bind.unwrap().success());
        let before = driver.find(cluster).unwrap();
        let refused = driver.remove(cluster, name, &Unattended).unwrap_err();
        assert!(
            matches!(&refused, DriverError::Mounted { mount, .. } if *mount == target),
            "{refused}"
        );
        assert_eq!(driver.find(cluster).unwrap(), before, "nothing was removed");
        let unmount = Command::new("umount").arg(&target).status();
        assert!(unmount.unwrap().success());
        ground.remove_all();
        assert_eq!(fs_err::read_to_string(data.join("file")).unwrap(), "kept");
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_07_a_process_that_looks_like_a_machine_leads_nobody_to_the_computers_own_files() {
    apart(|| {
        let ground = Ground::new("alike", 34);
        let driver = ground.driver();
        let wish = ground.wish("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        let own = ["/etc/hosts", "/root/.ssh/authorized_keys"];
        let before = own.map(stamp);
        // Nobody, and root itself in this computer's own name spaces.
        for user in [65534, 0] {
            let alike = look_alike(&ground, name, user);
            let pid = alike.id();
            let power = driver.find(cluster).unwrap().machines[name].power;
            assert_eq!(power, Power::New, "user {user}");
            let hosts: Hosts = [("intruder", [10, 213, 34, 66])].into_iter().collect();
            driver.set_hosts(cluster, name, &hosts).unwrap();
            let key = "ssh-ed25519 AAAAintruder somebody";
            driver.authorize(cluster, name, key).unwrap();
            assert_eq!(own.map(stamp), before, "user {user}");
            let upper = ground.folder_of(name).join("disk/upper");
            let text = fs_err::read_to_string(upper.join("etc/hosts")).unwrap();
            assert!(
                text.contains("intruder"),
                "it is the machine's file: {text}"
            );
            // Our key is one: another takes its place.
            driver
                .authorize(cluster, name, &wish.authorized_keys[0])
                .unwrap();
            // Nor is it ended in the machine's place.
            driver
                .stop(cluster, name, Stop::AtOnce, &Unattended)
                .unwrap();
            driver.start(cluster, name, &Unattended).unwrap();
            assert!(Path::new(&format!("/proc/{pid}")).exists());
            // With the real machine running beside it, the names go into the machine.
            driver.set_hosts(cluster, name, &hosts).unwrap();
            let text = login(&ground, name, "cat /etc/hosts");
            assert!(text.contains("intruder"), "{text}");
            driver.remove(cluster, name, &Unattended).unwrap();
            assert!(Path::new(&format!("/proc/{pid}")).exists());
            end(alike);
            driver.make(&wish, &Unattended).unwrap();
        }
        assert_eq!(own.map(stamp), before);
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_06_a_folder_that_cannot_be_a_machine_keeps_the_network() {
    apart(|| {
        let place = tempfile::tempdir().unwrap();
        let driver = Nspawn::new(place.path());
        let cluster = format!("strange-{}", std::process::id()).parse().unwrap();
        let machines = format!("clusters/{cluster}/machines");
        let folder = fs_err::canonicalize(place.path()).unwrap();
        let folder = folder.join(machines).join("LIN1");
        fs_err::create_dir_all(&folder).unwrap();
        let expected = Some(Trouble::StrangeFolder {
            folder: folder.display().to_string(),
        });
        assert_eq!(driver.find(&cluster).unwrap().network_trouble, expected);
        let refused = driver.remove_network(&cluster, &Unattended).unwrap_err();
        assert!(
            matches!(refused, DriverError::LeftAlone { .. }),
            "{refused}"
        );
        assert!(folder.is_dir());
        fs_err::remove_dir(&folder).unwrap();
        assert_eq!(driver.find(&cluster).unwrap().network_trouble, None);
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_09_another_place_does_not_end_the_machines_of_a_cluster_of_the_same_name() {
    apart(|| {
        let ground = Ground::new("twice", 35);
        let wish = ground.started("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        let other = Nspawn::new(ground.folder.path().join("other"));
        // It has no folder of a machine: nothing of the cluster is its own, and its network is in use.
        let found = other.find(cluster).unwrap();
        assert!(found.machines.is_empty());
        assert!(
            matches!(found.network_trouble, Some(Trouble::UsedElsewhere { .. })),
            "{found:?}"
        );
        other.remove(cluster, name, &Unattended).unwrap();
        let refused = other.remove_network(cluster, &Unattended).unwrap_err();
        assert!(
            matches!(refused, DriverError::LeftAlone { .. }),
            "{refused}"
        );
        // In a network namespace of its own it sees no network, and the machine all the same.
        run("ip netns add stranger");
        within("stranger", || {
            let found = other.find(cluster).unwrap();
            assert!(found.machines.is_empty() && found.network.is_none());
            let Some(Trouble::UsedElsewhere { by }) = found.network_trouble else {
                panic!("{found:?}");
            };
            let upper = ground.folder_of(name).join("disk/upper");
            assert!(by.contains(upper.to_str().unwrap()), "{by}");
            other.remove(cluster, name, &Unattended).unwrap();
            other.remove_network(cluster, &Unattended).unwrap();
            let own = ground.driver().find(cluster).unwrap();
            assert_eq!(own.network_trouble, None, "its own machine is none");
        });
        run("ip netns delete stranger");
        // With a folder of the same machine it still does not reach the one that runs.
        other.make(&wish, &Unattended).unwrap();
        let seen = other.find(cluster).unwrap().machines[name].clone();
        assert!(
            matches!(seen.trouble, Some(Trouble::UsedElsewhere { .. })),
            "{seen:?}"
        );
        let refused = [
            other.start(cluster, name, &Unattended),
            other.stop(cluster, name, Stop::AtOnce, &Unattended),
            other.set_hosts(cluster, name, &Hosts::default()),
            other.remove(cluster, name, &Unattended),
        ];
        for result in refused {
            assert!(
                matches!(result, Err(DriverError::LeftAlone { .. })),
                "{result:?}"
            );
        }
        let begun = Instant::now();
        assert_eq!(login(&ground, name, "hostname"), "lin1\n");
        assert!(begun.elapsed() < Duration::from_secs(5), "it never ended");
        ground.driver().remove(cluster, name, &Unattended).unwrap();
        other.remove(cluster, name, &Unattended).unwrap();
        ground
            .driver()
            .remove_network(cluster, &Unattended)
            .unwrap();
        assert!(files(&ground.folder.path().join("other/clusters")).is_empty());
    });
}
