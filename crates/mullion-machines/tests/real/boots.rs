//! Machines that boot, are logged in to, carry containers, and end.

use std::time::Instant;

use mullion_machines::existing::Existing;
use mullion_machines::{Driver, DriverError, Hosts, Init, Look as _, MachineWish, Stop, quirks};
use mullion_plan::{Power, Unattended};
use mullion_spec::words::Os;
use mullion_testkit::driver::conform::{self, Trial};

use crate::ground::{Ground, LAYERS, apart, login, login_with};

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn one_machine_boots_and_can_be_logged_in_to() {
    apart(|| {
        let ground = Ground::new("vertical", 1);
        let driver = ground.driver();
        let wish = ground.wish("cp1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        driver.make_network(&ground.network(), &Unattended).unwrap();
        let time = Instant::now();
        driver.make(&wish, &Unattended).unwrap();
        println!("make {:.2?}", time.elapsed());

        let time = Instant::now();
        driver.start(cluster, name, &Unattended).unwrap();
        println!("start, until the login listens {:.2?}", time.elapsed());
        assert_eq!(login(&ground, name, "hostname"), "cp1\n");
        println!("start to login {:.2?}", time.elapsed());
        assert_eq!(
            login(&ground, name, "systemctl is-system-running --wait"),
            "running\n"
        );
        // Mounts are shared, control groups can be written, and the kernel shows the size that was asked for.
        assert_eq!(
            login(&ground, name, "findmnt -no PROPAGATION /"),
            "shared\n"
        );
        let limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null || true";
        if quirks().unwrap().init == Init::Other {
            assert_eq!(login(&ground, name, limit).trim(), "2147483648");
        }
        assert_ne!(login(&ground, name, "cat /etc/machine-id").trim(), "");

        let time = Instant::now();
        let found = driver.find(cluster).unwrap();
        println!("find {:.1?}", time.elapsed());
        assert_eq!(found.machines[name].power, Power::On);
        assert!(!driver.console_tail(cluster, name, 3).unwrap().is_empty());

        let service = "systemd-run -q -p ExecStop='touch /root/ended' sleep infinity";
        login(&ground, name, service);
        let time = Instant::now();
        driver
            .stop(cluster, name, Stop::Graceful, &Unattended)
            .unwrap();
        println!("graceful stop {:.2?}", time.elapsed());
        assert_eq!(
            driver.find(cluster).unwrap().machines[name].power,
            Power::Off
        );
        let time = Instant::now();
        driver.start(cluster, name, &Unattended).unwrap();
        login(&ground, name, "cat /root/ended");
        println!("second start to login {:.2?}", time.elapsed());

        let time = Instant::now();
        driver.remove(cluster, name, &Unattended).unwrap();
        println!("remove while it runs {:.2?}", time.elapsed());
        driver.remove_network(cluster, &Unattended).unwrap();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn the_driver_keeps_its_contract() {
    apart(|| {
        let ground = Ground::new("conform", 2);
        let spoiler = |_: &_, machine: &_, spoil| ground.spoil(machine, spoil);
        let mut trial = ground.trial();
        conform::conforms(&|| Box::new(ground.driver()), &spoiler, &trial).unwrap();
        trial
            .machines
            .iter_mut()
            .for_each(|wish| wish.os = Os::Windows);
        conform::conforms(&|| Box::new(ground.stand_ins()), &spoiler, &trial).unwrap();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn each_driver_sees_its_own_machines_alone() {
    apart(|| {
        let ground = Ground::new("guises", 10);
        let (linux, windows) = (ground.driver(), ground.stand_ins());
        let Trial { machines, .. } = ground.trial();
        linux.make_network(&ground.network(), &Unattended).unwrap();
        let (first, second) = (&machines[0], &machines[1]);
        linux.make(first, &Unattended).unwrap();
        let stand_in = MachineWish {
            os: Os::Windows,
            ..second.clone()
        };
        assert!(
            linux.make(&stand_in, &Unattended).is_err(),
            "it makes machines with Linux only"
        );
        windows.make(&stand_in, &Unattended).unwrap();
        let names = |driver: &dyn Driver| {
            let found = driver.find(&ground.cluster).unwrap();
            found.machines.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names(&linux), std::slice::from_ref(&first.name));
        assert_eq!(names(&windows), std::slice::from_ref(&second.name));
        let door = windows.door(&ground.cluster, &second.name).unwrap();
        assert_eq!(door.user, "Administrator");
        // One takes nothing of the other's away, and does not make a machine twice.
        linux
            .remove(&ground.cluster, &second.name, &Unattended)
            .unwrap();
        assert_eq!(names(&windows), std::slice::from_ref(&second.name));
        let twice = linux.make(second, &Unattended).unwrap_err();
        assert!(
            matches!(twice, DriverError::Different { what: "driver", .. }),
            "{twice}"
        );
        let in_use = linux.remove_network(&ground.cluster, &Unattended);
        assert!(
            matches!(in_use, Err(DriverError::NetworkInUse(_))),
            "{in_use:?}"
        );
        windows
            .remove(&ground.cluster, &second.name, &Unattended)
            .unwrap();
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn machines_that_we_made_can_be_taken_as_existing_ones() {
    apart(|| {
        let ground = Ground::new("existing", 3);
        let driver = ground.driver();
        let Trial { machines, .. } = ground.trial();
        driver.make_network(&ground.network(), &Unattended).unwrap();
        for wish in &machines {
            driver.make(wish, &Unattended).unwrap();
            driver
                .start(&wish.cluster, &wish.name, &Unattended)
                .unwrap();
        }
        let doors = machines.each_ref().map(|wish| {
            let door = driver.door(&wish.cluster, &wish.name).unwrap();
            (wish.name.clone(), door)
        });
        let existing = Existing::new(ground.cluster.clone(), doors);
        let none = |_: &_, _: &_, _| {};
        conform::conforms(&|| Box::new(existing.clone()), &none, &ground.trial()).unwrap();
        for wish in &machines {
            let door = existing.door(&ground.cluster, &wish.name).unwrap();
            let name = login_with(&ground, &door, &ground.key_path(), "hostname");
            assert_eq!(name, format!("{}\n", wish.name));
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_runs_containers_out_of_the_templates_store() {
    apart(|| {
        let ground = Ground::new("containers", 4);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        let script = "set -eu
        mkdir -p /etc/containerd
        printf 'version = 3\\n' > /etc/containerd/config.toml
        systemd-run -q --unit=containerd -p Delegate=yes -p KillMode=process /usr/local/bin/containerd
        for _ in $(seq 50); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
        pause=$(ctr -n k8s.io images ls -q | grep /pause: | head -1)
        ctr -n k8s.io run --detach $pause one
        ctr -n k8s.io tasks ls | grep -c RUNNING
        cat /proc/self/cgroup > /dev/null";
        let answer = login(&ground, &wish.name, script);
        assert_eq!(answer.trim(), "1", "{answer}");
        // Several layers, of which the upper ones take away what the lower ones have.
        let script = format!(
            "ctr -n k8s.io run --rm {LAYERS} two /ctr --version
            ctr -n k8s.io images mount {LAYERS} /mnt >/dev/null && ls /mnt/etc && umount /mnt"
        );
        let answer = login(&ground, &wish.name, &script);
        assert!(
            answer.starts_with("ctr ") && answer.ends_with("\nc\n"),
            "{answer}"
        );
        // A running container does not keep a machine from ending.
        driver
            .stop(&wish.cluster, &wish.name, Stop::Graceful, &Unattended)
            .unwrap();
        // What it changed in its store is its own: the template makes another machine as before.
        let second = ground.started("lin2", 12);
        let count =
            "ls /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots | wc -l";
        let pristine = login(&ground, &second.name, count);
        driver
            .start(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        assert_ne!(login(&ground, &wish.name, count), pristine);
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_that_restarts_itself_comes_back() {
    apart(|| {
        let ground = Ground::new("reboot", 5);
        let wish = ground.started("lin1", 11);
        let boot = "cat /proc/sys/kernel/random/boot_id >/dev/null; systemctl show -p UserspaceTimestampMonotonic";
        let first = login(&ground, &wish.name, boot);
        // The connection goes down with the machine.
        login(
            &ground,
            &wish.name,
            "systemd-run -q --on-active=0.1 systemctl reboot",
        );
        let begun = Instant::now();
        while login(&ground, &wish.name, boot) == first {
            assert!(begun.elapsed().as_secs() < 20, "it did not restart");
        }
        let found = ground.driver().find(&ground.cluster).unwrap();
        assert_eq!(found.machines[&wish.name].power, Power::On);
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn keys_and_names_reach_a_machine_whether_it_runs_or_not() {
    apart(|| {
        let ground = Ground::new("inside", 6);
        let driver = ground.driver();
        let wish = ground.started("lin1", 11);
        let (cluster, name) = (&wish.cluster, &wish.name);
        let door = driver.door(cluster, name).unwrap();
        let hosts: Hosts = [("win1", [10, 0, 0, 7])].into_iter().collect();

        // While it runs, as after the loss of a state folder.
        let (second, public) = ground.another_key("second");
        driver.authorize(cluster, name, &public).unwrap();
        driver.set_hosts(cluster, name, &hosts).unwrap();
        let server = "192.0.2.53";
        driver
            .set_dns(cluster, name, &[server.parse().unwrap()])
            .unwrap();
        let resolver = login_with(&ground, &door, &second, "cat /etc/resolv.conf");
        assert!(resolver.contains(server), "{resolver}");
        let names = login_with(&ground, &door, &second, "cat /etc/hosts");
        assert!(
            names.contains("10.0.0.7 win1") && !names.contains("lin1"),
            "{names}"
        );

        // While it does not.
        driver
            .stop(cluster, name, Stop::Graceful, &Unattended)
            .unwrap();
        let replaced = public;
        let (third, public) = ground.another_key("third");
        driver.authorize(cluster, name, &public).unwrap();
        driver.set_hosts(cluster, name, &wish.hosts).unwrap();
        driver.start(cluster, name, &Unattended).unwrap();
        let names = login_with(&ground, &door, &third, "cat /etc/hosts");
        assert!(names.contains("lin1") && !names.contains("win1"), "{names}");
        // The cluster has one key: those that it replaced open nothing any more.
        let keys = login_with(&ground, &door, &third, "cat /root/.ssh/authorized_keys");
        assert!(keys.contains(public.trim()), "{keys}");
        for former in [&replaced, &wish.authorized_keys[0]] {
            assert!(!keys.contains(former.trim()), "{keys}");
        }
        ground.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn clusters_live_side_by_side_with_machines_of_the_same_names() {
    apart(|| {
        let (one, two) = (Ground::new("left", 7), Ground::new("right", 8));
        std::thread::scope(|scope| {
            for ground in [&one, &two] {
                scope.spawn(|| {
                    let driver = ground.driver();
                    driver.make_network(&ground.network(), &Unattended).unwrap();
                    for (name, last) in [("cp1", 11), ("lin1", 12)] {
                        let wish = ground.wish(name, last);
                        driver.make(&wish, &Unattended).unwrap();
                        driver
                            .start(&wish.cluster, &wish.name, &Unattended)
                            .unwrap();
                    }
                });
            }
        });
        let name = "cp1".parse().unwrap();
        let address = "ip -brief -4 address show host0";
        assert!(login(&one, &name, address).contains("10.213.7.11"));
        assert!(login(&two, &name, address).contains("10.213.8.11"));
        let found = two.driver().find(&two.cluster).unwrap();
        assert!(found.foreign.contains(&one.network().network.into()));
        assert!(found.clusters.contains(&one.cluster));

        one.remove_all();
        assert!(login(&two, &name, address).contains("10.213.8.11"));
        let left = two.driver().find(&two.cluster).unwrap();
        assert_eq!(left.machines, found.machines);
        two.remove_all();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn nine_machines_are_made_started_and_removed_at_once() {
    apart(|| {
        let ground = Ground::new("nine", 9);
        let driver = ground.driver();
        driver.make_network(&ground.network(), &Unattended).unwrap();
        let names: Vec<_> = (1..=9).map(|number| format!("lin{number}")).collect();
        let at_once = |what: &str, verb: &(dyn Fn(&MachineWish) + Sync)| {
            let time = Instant::now();
            std::thread::scope(|scope| {
                for (name, last) in names.iter().zip(11..) {
                    let wish = ground.wish(name, last);
                    scope.spawn(move || verb(&wish));
                }
            });
            println!("{what} nine at once {:.2?}", time.elapsed());
        };
        at_once("make", &|wish| driver.make(wish, &Unattended).unwrap());
        at_once("start", &|wish| {
            let (cluster, name) = (&wish.cluster, &wish.name);
            driver.start(cluster, name, &Unattended).unwrap();
        });
        at_once("login", &|wish| {
            let name = format!("{}\n", wish.name);
            assert_eq!(login(&ground, &wish.name, "hostname"), name);
        });
        at_once("remove", &|wish| {
            let (cluster, name) = (&wish.cluster, &wish.name);
            driver.remove(cluster, name, &Unattended).unwrap();
        });
        driver.remove_network(&ground.cluster, &Unattended).unwrap();
    });
}
