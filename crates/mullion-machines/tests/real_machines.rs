//! Real machines on this computer, held to the drivers' contract and to more.
//!
//! `MULLION_TEST_PARTS` names a folder with `root.tar`, programs in `bin/` and image archives in `images/`.
//! Everything is made below a temporary folder, for clusters whose names nobody has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ground;

use std::time::Instant;

use ground::{Ground, login, traces};
use mullion_machines::{Driver as _, Look as _, Stop, conform};
use mullion_plan::{Power, Unattended};

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn one_machine_boots_and_can_be_logged_in_to() {
    let before = traces();
    let ground = Ground::new("vertical", 1);
    let driver = ground.driver();
    let wish = ground.wish("cp1", 11);
    driver.make_network(&ground.network(), &Unattended).unwrap();
    let time = Instant::now();
    driver.make(&wish, &Unattended).unwrap();
    println!("make {:.1?}", time.elapsed());
    let time = Instant::now();
    driver
        .start(&wish.cluster, &wish.name, &Unattended)
        .unwrap();
    println!("start {:.1?}", time.elapsed());
    let answer = login(
        &ground,
        &wish.name,
        "hostname; cat /etc/hosts; findmnt -no PROPAGATION /; touch /sys/fs/cgroup/memory/cgroup.procs; systemctl is-system-running --wait",
    );
    println!("boot to login {:.1?}: {answer}", time.elapsed());
    assert!(answer.starts_with("cp1\n"), "{answer}");
    let time = Instant::now();
    driver
        .stop(&wish.cluster, &wish.name, Stop::Graceful, &Unattended)
        .unwrap();
    println!("graceful stop {:.1?}", time.elapsed());
    let time = Instant::now();
    driver
        .start(&wish.cluster, &wish.name, &Unattended)
        .unwrap();
    login(&ground, &wish.name, "true");
    println!("second boot to login {:.1?}", time.elapsed());
    assert_eq!(
        driver.find(&wish.cluster).unwrap().machines[&wish.name].power,
        Power::On
    );
    let time = Instant::now();
    driver
        .remove(&wish.cluster, &wish.name, &Unattended)
        .unwrap();
    println!("remove while it runs {:.1?}", time.elapsed());
    driver.remove_network(&wish.cluster, &Unattended).unwrap();
    ground::assert_same(&traces(), &before);
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn the_driver_keeps_its_contract() {
    let before = traces();
    let ground = Ground::new("conform", 2);
    conform::conforms(&|| Box::new(ground.driver()), &ground.trial()).unwrap();
    ground::assert_same(&traces(), &before);
}
