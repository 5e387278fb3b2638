//! What goes wrong on the way, how it is told, and that the next run goes on.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::computer::cut_power;
use crate::existing::Metal;
use crate::killed::journal;
use crate::lab::{Lab, PATIENCE};
use crate::ran::{Running, tool};
use crate::trial::{Trial, until};

const NODES: [&str; 2] = ["cp1", "lin1"];

/// Waits until a run has begun a step.
pub(crate) fn begun(lab: &Lab, up: &mut Running, step: &str) {
    until(step, PATIENCE, || {
        assert!(!up.has_ended(), "it ended before {step}: {}", up.err());
        let lines = lab
            .runs()
            .last()
            .map(|run| journal(run))
            .unwrap_or_default();
        let is_own = lines.first().is_some_and(|line| line["pid"] == up.pid());
        let has = lines
            .iter()
            .any(|line| line["line"] == "begin" && line["step"] == step);
        if is_own && has { Ok(()) } else { Err(up.err()) }
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_run_that_is_called_off_or_loses_a_machine_goes_on() {
    let mut trial = Trial::begin("a_run_that_is_called_off_or_loses_a_machine_goes_on");
    let lab = Lab::linux("off", 1);

    // Once: what was begun comes to its end, and nothing else is begun.
    let mut up = lab.start(&["up"]);
    begun(&lab, &mut up, "start/cp1");
    up.signal(Signal::INT);
    let ran = lab
        .end(up)
        .code(130)
        .says(&["called off", "go on with: mullion up"]);
    let lines = journal(lab.runs().last().unwrap());
    let of = |kind: &str| lines.iter().filter(|line| line["line"] == kind).count();
    assert_eq!(of("begin"), of("end"), "{ran}");
    let close = lines.last().unwrap();
    assert_eq!(close["outcome"], "cancelled", "{close:#}");
    assert!(close["notStarted"].as_u64().unwrap() > 10, "{close:#}");
    trial.lap("called off once: the step comes to its end");

    // Twice: at once, whatever is under way.
    let mut up = lab.start(&["up"]);
    begun(&lab, &mut up, "init/cp1");
    std::thread::sleep(Duration::from_millis(1500));
    up.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    up.signal(Signal::INT);
    let asked = Instant::now();
    let _ = lab.end(up).code(130).says(&["go on with: mullion up"]);
    let took = asked.elapsed();
    assert!(
        took < Duration::from_secs(5),
        "it ended after {took:?} only"
    );
    trial.lap("called off twice: at once");

    // A machine dies meanwhile: the others go on, and what needed it is told as blocked.
    let mut up = lab.start(&["up"]);
    begun(&lab, &mut up, "join/lin1");
    cut_power(&lab, "lin1");
    let ran = lab.end(up);
    if ran.code != 0 {
        let _ = ran.code(5).says(&["lin1", "go on with: mullion up"]);
        let lines = journal(lab.runs().last().unwrap());
        let ended = |step: &str| {
            let line = lines
                .iter()
                .find(|line| line["line"] == "end" && line["step"] == step);
            line.map_or(Value::Null, |line| line["outcome"].clone())
        };
        assert_eq!(ended("ready/cp1"), "done", "{lines:#?}");
    }
    trial.lap("a machine dies meanwhile: the other one comes up");

    let _ = lab.up();
    lab.is_up(&NODES);
    lab.all_pods_run();
    let _ = lab.has_nothing_to_do();
    trial.lap("up goes on, and all is Ready");
    let _ = lab.down();
    trial.nothing_is_left();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_login_that_fails_is_told_and_repaired() {
    let mut trial = Trial::begin("a_login_that_fails_is_told_and_repaired");
    let metal = Metal::new("logins");
    let (key, host_key) = (metal.key(), metal.host_key("cp1"));
    let other = metal.host_key("lin1");
    let right = metal.login("lin1");
    let lab = Lab::new("door", &metal.file(&metal.login("cp1"), &right));
    let stranger = lab.path("stranger").display().to_string();
    tool(
        "ssh-keygen",
        &["-q", "-t", "ed25519", "-N", "", "-f", &stranger],
    );
    let login = |key: &str, host_key: &str, rest: &str| {
        format!("{{user: root, key: {{file: {key}}}, hostKey: {host_key}{rest}}}")
    };
    let words = host_key.split(' ').nth(1).unwrap();
    let place = format!("{}:22", metal.lab.address("cp1"));
    let port = format!("{}:2", metal.lab.address("cp1"));
    for (what, login, said) in [
        (
            "a wrong host key",
            login(&key, &other, ""),
            [place.as_str(), "host key", words],
        ),
        (
            "a wrong key",
            login(&stranger, &host_key, ""),
            [&place, "stranger", "key"],
        ),
        (
            "a user who is not there",
            login(&key, &host_key, "").replace("root", "nobody"),
            [&place, "nobody", "key"],
        ),
        (
            "nobody who listens",
            login(&key, &host_key, ", port: 2"),
            [&port, "refused", "cp1"],
        ),
    ] {
        lab.write(&metal.file(&login, &right));
        let ran = lab.run(&["up", "--until", "inspect"]).code(5).says(&said);
        let _ = ran.says(&["journal: ", "go on with: mullion up"]);
        trial.lap(what);
    }
    let metal_file = metal.file(&metal.login("cp1"), &right);
    lab.write(&metal_file);
    // A machine whose clock is wrong, and one that is somebody else's node: told before anything is laid down.
    let _ = metal.root(
        "cp1",
        "printf '#!/bin/sh\\necho $(($(/usr/bin/date +%%s) + 7200))\\n' > /usr/local/bin/date && chmod 755 /usr/local/bin/date",
    );
    let _ = metal.root(
        "lin1",
        "mkdir -p /etc/kubernetes && touch /etc/kubernetes/kubelet.conf",
    );
    let ran = lab.run(&["up", "--until", "prepare"]).code(5);
    let _ = ran.says(&[
        "its clock is",
        "seconds off",
        "Kubernetes is on it already",
        "kubelet.conf",
    ]);
    let found = metal.root(
        "lin1",
        "ls /usr/local/lib/mullion /var/lib/mullion 2>&1; true",
    );
    assert!(
        !found.contains("agent") && !found.contains("state"),
        "{found}"
    );
    let _ = metal.root("cp1", "rm /usr/local/bin/date");
    let _ = metal.root("lin1", "rm -r /etc/kubernetes/kubelet.conf");
    trial.lap("a clock that is wrong, and Kubernetes of somebody else");
    let _ = metal.root(
        "cp1",
        "systemd-run --quiet --unit=squatter socat TCP-LISTEN:6443,fork,reuseaddr EXEC:cat",
    );
    let _ = lab
        .run(&["up", "--until", "control-plane"])
        .code(5)
        .says(&["cp1", "6443"]);
    trial.lap("with the right login it goes on, to a port that is taken");
    let _ = metal.root("cp1", "systemctl stop squatter");
    let _ = lab.run(&["up", "--until", "control-plane"]).good();
    let status = lab.status();
    assert_eq!(status["apiServer"], "answers", "{status:#}");
    trial.lap("with the port free it goes on");
    let _ = lab.down();
    drop(lab);
    let _ = metal.lab.down();
    trial.nothing_is_left();
}

/// An interface that is taken away with it.
struct Interface(&'static str);

impl Interface {
    fn new(name: &'static str, address: &str) -> Self {
        tool("ip", &["link", "add", name, "type", "bridge"]);
        let interface = Self(name);
        tool("ip", &["address", "add", address, "dev", name]);
        tool("ip", &["link", "set", name, "up"]);
        interface
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "delete", self.0]).status();
    }
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_network_that_is_taken_is_told() {
    let mut trial = Trial::begin("a_network_that_is_taken_is_told");
    let text =
        "metadata: {name: NAME}\nnetwork: {machineCIDR: 10.123.45.0/24}\nmachines: {linux: 1}\n";
    let lab = Lab::new("taken", text);
    {
        // What is not ours is in the file's way, which names it.
        let _taken = Interface::new("mtaken0", "10.123.45.1/24");
        let _ = lab
            .run(&["up"])
            .code(3)
            .says(&["10.123.45.0/24", "mtaken0", "machineCIDR"]);
        assert!(!lab.machine("").exists());
    }
    // So is the network of another cluster, until that cluster goes.
    let other = Lab::new("first", text);
    let _ = other.run(&["up", "--until", "hosts"]).good();
    let _ = lab
        .run(&["up"])
        .code(3)
        .says(&["10.123.45.0/24", "machineCIDR"]);
    assert!(!lab.machine("").exists());
    let _ = other.down();
    let _ = lab.run(&["up", "--until", "hosts"]).good();
    let _ = lab.down();
    trial.nothing_is_left();
    trial.lap("told, and free again");
}

/// A file system of that size, which goes with it.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Self { folder };
        tool(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size}"),
                "mullion-test",
                &disk.path(),
            ],
        );
        disk
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn resize(&self, size: &str) {
        tool(
            "mount",
            &["-o", &format!("remount,size={size}"), &self.path()],
        );
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.folder.path())
            .status();
    }
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_full_disk_is_told_and_recovered_from() {
    let mut trial = Trial::begin("a_full_disk_is_told_and_recovered_from");
    let (place, state) = (Disk::new("48m"), Disk::new("16k"));
    // Templates are as everybody's: only what is new must find room.
    let templates = crate::lab::place().join("templates");
    fs_err::os::unix::fs::symlink(templates, place.folder.path().join("templates")).unwrap();
    let mut lab = Lab::new(
        "full",
        "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines:\n- {name: cp, role: control-plane, count: 1}\n",
    );
    lab.environment.push(("MULLION_PLACE".into(), place.path()));
    let usual = lab.environment[0].clone();
    lab.environment
        .push(("XDG_STATE_HOME".into(), state.path()));
    // Whatever is left of the room after the first file is not enough for a journal.
    fs_err::write(state.folder.path().join("filler"), vec![0; 8 << 10]).unwrap();
    let _ = lab
        .run(&["up", "--until", "machines"])
        .code(4)
        .says(&["No space left"]);
    trial.lap("no room for the journal");
    state.resize("16m");
    let _ = lab
        .run(&["up", "--until", "machines"])
        .code(5)
        .says(&["cp1 could not be made", "No space left"]);
    trial.lap("no room for a machine");
    place.resize("8g");
    let _ = lab.run(&["up", "--until", "machines"]).good();
    let status = lab.status();
    assert_eq!(status["machines"][0]["machine"], "running", "{status:#}");
    trial.lap("with room it goes on");
    let _ = lab.down();
    lab.environment.push(usual);
    drop((place, state));
    trial.nothing_is_left();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn memory_that_runs_out_is_told_and_recovered_from() {
    let mut trial = Trial::begin("memory_that_runs_out_is_told_and_recovered_from");
    let text = |command: &str| {
        format!(
            "metadata: {{name: NAME}}\nnetwork: {{machineCIDR: null}}\nmachines:\n\
             - {{name: cp, role: control-plane, count: 1}}\n\
             - {{name: lin, role: worker, count: 1, memory: 2GiB, before: [{{run: {command}}}]}}\n"
        )
    };
    // It never finds an end of a line, and keeps all that it has read.
    let lab = Lab::new("hunger", &text("tail /dev/zero"));
    let ran = lab.run(&["up", "--until", "prepare"]).code(5).says(&[
        "memory ran out on lin1",
        "command 1 of `before`",
        "give lin1 more memory",
        "`memory` of its group",
        "go on with: mullion up",
    ]);
    assert!(!ran.err.contains("ran out on cp1"), "{ran}");
    let status = lab.status();
    for machine in status["machines"].as_array().unwrap() {
        assert_eq!(machine["machine"], "running", "{status:#}");
        assert_eq!(machine["answers"], true, "{status:#}");
    }
    trial.lap("a command eats the memory of its machine, which stays");
    lab.write(&text("echo well"));
    let _ = lab.run(&["up", "--until", "prepare"]).good();
    trial.lap("with another command it goes on");
    let _ = lab.down();
    trial.nothing_is_left();
}
