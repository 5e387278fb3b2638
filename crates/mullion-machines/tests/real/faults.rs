//! Machines, drivers and computers that are struck in the middle of what they do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mullion_machines::nspawn::Nspawn;
use mullion_machines::{Driver as _, DriverError, Look as _, MachineWish};
use mullion_plan::{Power, Unattended};
use mullion_spec::value::MachineName;

use crate::ground::{CHILD, Ground, apart, login, members};

/// Every process whose arguments hold a text, other than this one.
fn processes_with(text: &str) -> Vec<i32> {
    let entries = fs_err::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != i32::try_from(std::process::id()).unwrap())
        .filter(|pid| {
            let line = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}

fn kill(pid: i32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

fn root_of(ground: &Ground, machine: &MachineName) -> String {
    format!(
        "{}/place/clusters/{}/machines/{machine}/",
        ground.folder.path().display(),
        ground.cluster
    )
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_whose_container_program_is_killed_is_found_and_starts_again() {
    apart(|| {
        let ground = Ground::new("killed", 21);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        login(&ground, &wish.name, "echo kept > /root/file; sync");
        for pid in processes_with(&root_of(&ground, &wish.name)) {
            kill(pid);
        }
        std::thread::sleep(Duration::from_millis(200));
        let found = driver.find(&wish.cluster).unwrap();
        let power = if members(&ground, &wish.name).is_empty() {
            Power::Off
        } else {
            Power::On
        };
        assert_eq!(found.machines[&wish.name].power, power);
        driver
            .start(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        assert_eq!(login(&ground, &wish.name, "cat /root/file"), "kept\n");
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn after_a_restart_of_the_computer_everything_starts_again() {
    apart(|| {
        let ground = Ground::new("restart", 22);
        let driver = ground.driver();
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output().unwrap();
            assert!(output.status.success(), "{program} {args:?}: {output:?}");
        };
        // It looks like a way out: then there are rules.
        run("ip", &["route", "add", "default", "dev", "lo"]);
        let machines = [ground.started("cp1", 11), ground.started("lin1", 12)];
        for wish in &machines {
            login(&ground, &wish.name, "hostname > /root/file; sync");
        }
        // What a restart takes: processes, with them mounts and name spaces, interfaces, rules.
        for wish in &machines {
            for pid in processes_with(&root_of(&ground, &wish.name)) {
                kill(pid);
            }
            for pid in members(&ground, &wish.name) {
                // The first of them takes the others with it.
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        let bridge = ground.bridge();
        run("ip", &["link", "delete", &bridge]);
        run("nft", &["delete", "table", "ip", &bridge]);

        let found = driver.find(&ground.cluster).unwrap();
        assert_eq!(found.network, None);
        for wish in &machines {
            let seen = &found.machines[&wish.name];
            assert!(seen.whole && seen.power == Power::Off, "{seen:?}");
            let refused = driver.start(&wish.cluster, &wish.name, &Unattended);
            assert!(
                matches!(refused, Err(DriverError::NoNetwork(_))),
                "{refused:?}"
            );
        }
        driver.make_network(&ground.network(), &Unattended).unwrap();
        for wish in &machines {
            driver
                .start(&wish.cluster, &wish.name, &Unattended)
                .unwrap();
            let name = format!("{}\n", wish.name);
            assert_eq!(login(&ground, &wish.name, "cat /root/file"), name);
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_outlives_the_process_that_started_it() {
    apart(|| {
        let ground = Ground::new("outlive", 23);
        let wish = ground.wish("lin1", 11);
        if let Some(place) = std::env::var_os(CHILD) {
            let driver = Nspawn::new(place);
            // In the child the cluster is the parent's.
            let cluster = std::env::var("MULLION_TEST_CLUSTER")
                .unwrap()
                .parse()
                .unwrap();
            driver.start(&cluster, &wish.name, &Unattended).unwrap();
            return;
        }
        let driver = ground.driver();
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        let child = again(
            "faults::a_machine_outlives_the_process_that_started_it",
            &ground,
        )
        .output()
        .unwrap();
        assert!(child.status.success(), "{child:?}");
        let found = driver.find(&wish.cluster).unwrap();
        assert_eq!(found.machines[&wish.name].power, Power::On);
        assert_eq!(login(&ground, &wish.name, "hostname"), "lin1\n");
        ground.remove_all();
    });
}

/// This program again, with one test alone.
fn again(test: &str, ground: &Ground) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(CHILD, ground.folder.path().join("place"))
        .env("MULLION_TEST_CLUSTER", ground.cluster.as_str())
        .env("MULLION_TEST_FOLDER", ground.folder.path())
        .stdin(Stdio::null());
    command
}

/// A template that takes a while to be given to a machine: thousands of files in its store.
fn slow_template(folder: &Path) -> std::path::PathBuf {
    let template = folder.join("slow");
    fs_err::create_dir_all(template.join("root/etc")).unwrap();
    for number in 0..20_000 {
        let folder = template.join(format!("containerd/{}", number % 100));
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(number.to_string()), "").unwrap();
    }
    fs_err::write(template.join("template.json"), "{}").unwrap();
    template
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_driver_that_is_killed_while_it_makes_leaves_what_is_found_and_removed() {
    apart(|| {
        if std::env::var_os(CHILD).is_some() {
            let folder = std::env::var("MULLION_TEST_FOLDER").unwrap();
            let wish = killed_wish(&Ground::new("unused", 24), Path::new(&folder));
            let wish = MachineWish {
                cluster: std::env::var("MULLION_TEST_CLUSTER")
                    .unwrap()
                    .parse()
                    .unwrap(),
                ..wish
            };
            let driver = Nspawn::new(std::env::var_os(CHILD).unwrap());
            driver.make(&wish, &Unattended).unwrap();
            return;
        }
        let ground = Ground::new("cut", 24);
        slow_template(ground.folder.path());
        let driver = ground.driver();
        let wish = killed_wish(&ground, ground.folder.path());
        driver.make_network(&ground.network(), &Unattended).unwrap();
        let mut half_made = 0;
        for delay in [10, 20, 40, 60, 80, 100, 150, 200, 300, 400, 600] {
            let test =
                "faults::a_driver_that_is_killed_while_it_makes_leaves_what_is_found_and_removed";
            let mut child = again(test, &ground)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
            let found = driver.find(&wish.cluster).unwrap();
            if let Some(seen) = found.machines.get(&wish.name)
                && !seen.whole
            {
                half_made += 1;
                assert_eq!(seen.power, Power::New);
                let refused = driver.start(&wish.cluster, &wish.name, &Unattended);
                assert!(
                    matches!(refused, Err(DriverError::NotWhole { .. })),
                    "{refused:?}"
                );
                if half_made % 2 == 0 {
                    // It is made anew over what is left.
                    driver.make(&wish, &Unattended).unwrap();
                    assert!(driver.find(&wish.cluster).unwrap().machines[&wish.name].whole);
                }
            }
            driver
                .remove(&wish.cluster, &wish.name, &Unattended)
                .unwrap();
            assert!(driver.find(&wish.cluster).unwrap().machines.is_empty());
        }
        assert!(half_made > 0, "no attempt was cut off in the middle");
        driver.remove_network(&wish.cluster, &Unattended).unwrap();
        assert!(!ground.folder.path().join("place/clusters").exists());
    });
}

fn killed_wish(ground: &Ground, folder: &Path) -> MachineWish {
    MachineWish {
        template_path: folder.join("slow"),
        ..ground.wish("lin1", 11)
    }
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_driver_that_is_killed_while_it_starts_leaves_one_machine_at_most() {
    apart(|| {
        let ground = Ground::new("starting", 25);
        let wish = ground.wish("lin1", 11);
        if let Some(place) = std::env::var_os(CHILD) {
            let cluster = std::env::var("MULLION_TEST_CLUSTER")
                .unwrap()
                .parse()
                .unwrap();
            let driver = Nspawn::new(place);
            driver.start(&cluster, &wish.name, &Unattended).unwrap();
            return;
        }
        let driver = ground.driver();
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        for delay in [20, 60, 100, 150, 250] {
            let test = "faults::a_driver_that_is_killed_while_it_starts_leaves_one_machine_at_most";
            let mut child = again(test, &ground).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
            driver
                .start(&wish.cluster, &wish.name, &Unattended)
                .unwrap();
            assert_eq!(login(&ground, &wish.name, "hostname"), "lin1\n");
            let root = format!("--directory={}", root_of(&ground, &wish.name));
            // The one that keeps it running, and the container program.
            assert_eq!(processes_with(&root).len(), 2);
            let how = mullion_machines::Stop::AtOnce;
            driver
                .stop(&wish.cluster, &wish.name, how, &Unattended)
                .unwrap();
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_that_cannot_boot_says_so_with_its_last_words() {
    apart(|| {
        let ground = Ground::new("noboot", 26);
        let driver = ground.driver();
        let template = ground.folder.path().join("broken");
        fs_err::create_dir_all(template.join("root/etc")).unwrap();
        fs_err::create_dir_all(template.join("containerd")).unwrap();
        fs_err::write(template.join("template.json"), "{}").unwrap();
        let wish = MachineWish {
            template_path: template,
            ..ground.wish("lin1", 11)
        };
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        match driver.start(&wish.cluster, &wish.name, &Unattended) {
            Err(DriverError::Ended { tail, .. }) => assert!(!tail.is_empty()),
            other => panic!("{other:?}"),
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_full_disk_is_told_and_what_was_begun_is_removed() {
    apart(|| {
        let ground = Ground::new("full", 27);
        slow_template(ground.folder.path());
        let driver = ground.driver();
        let wish = killed_wish(&ground, ground.folder.path());
        let place = ground.folder.path().join("place");
        fs_err::create_dir(&place).unwrap();
        let mount = |args: &[&str]| {
            let status = Command::new(args[0]).args(&args[1..]).arg(&place).status();
            assert!(status.unwrap().success());
        };
        mount(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=1m,nr_inodes=2000",
            "none",
        ]);
        driver.make_network(&ground.network(), &Unattended).unwrap();
        let error = driver.make(&wish, &Unattended).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("No space left"), "{error}: {cause}");
        assert!(!driver.find(&wish.cluster).unwrap().machines[&wish.name].whole);
        driver
            .remove(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        assert!(driver.find(&wish.cluster).unwrap().machines.is_empty());
        driver.remove_network(&wish.cluster, &Unattended).unwrap();
        mount(&["umount"]);
    });
}
