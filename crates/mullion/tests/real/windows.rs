//! A cluster of both systems, with a stand-in for Windows.

use std::time::{Duration, Instant};

use crate::computer::{processes_of, shown};
use crate::kube::{SETTLE, SPACE, pod_name};
use crate::lab::{BUILT_IN, Lab};
use crate::network::{http, kubelets_serve, policies_are_obeyed};
use crate::ran::tool;
use crate::trial::{Trial, until};
use crate::windows_deployment::two_pods_serve;
use crate::windows_pods::{
    fields_mean_what_they_do_on_windows, images_are_judged_as_on_windows, programs_are_talked_to,
    volumes_are_there,
};

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

/// A machine is measured so long after it is Ready, when what starts has started.
const MINUTE: Duration = Duration::from_mins(1);

/// What a stand-in takes less than, in MiB.
pub(crate) const LARGEST: u64 = 500;

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_mixed_cluster_comes_up_works_and_goes() {
    let mut trial = Trial::begin("a_mixed_cluster_comes_up_works_and_goes");
    let mut lab = Lab::new("mixed", &with_a_file());
    fs_err::write(lab.path("words"), WORDS).unwrap();
    // A lock of the caller's, which machines would keep if they were left what the program was given.
    let lock = lab.path("lock").display().to_string();
    lab.through = vec!["flock".into(), lock.clone()];
    let mark = "stand-in: win1 (";
    let _ = lab.up().says(&[mark]);
    let ready = Instant::now();
    lab.through.clear();
    tool("flock", &["--nonblock", &lock, "true"]);
    trial.lap("up");
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    let status = lab.status();
    assert_eq!(status["machines"][2]["standIn"], true, "{status:#}");
    let _ = lab.run(&["runs", "show"]).good().says(&[mark]);
    let words = lab.run(&["ssh", "win1", "--", r"type C:\Own\words"]).good();
    assert_eq!(words.out.trim(), WORDS, "{words}");
    is_windows(&lab, "win1", "Windows Server 2022 Datacenter", "10.0.20348");
    trial.lap("three nodes, the third says that it stands in");
    std::thread::sleep(MINUTE.saturating_sub(ready.elapsed()));
    let (taken, most) = memory(&lab, "win1");
    assert!(taken < LARGEST, "it takes {taken} MiB:\n{most}");
    trial.lap(&format!("it takes {taken} MiB"));

    lab.serve(&NODES);
    for (from, to) in [("lin1", "win1"), ("win1", "lin1")] {
        let pod = lab.get(&["pod", &pod_name(to), &format!("--namespace={SPACE}")]);
        let own = format!("{}:8080", pod["status"]["podIP"].as_str().unwrap());
        let service = format!("{}:80", lab.service(to).0);
        let name = format!("{}.{SPACE}.svc.cluster.local:80", pod_name(to));
        for address in [own, service, name] {
            until("a pod connects", SETTLE, || lab.connects(from, &address));
        }
    }
    let (_, port) = lab.service("win1");
    for through in NODES {
        let place = format!("{}:{port}", lab.address(through));
        let body = until("a node's port answers", SETTLE, || {
            http(&place, "/hostname")
        });
        assert_eq!(body, pod_name("win1"), "{place}");
    }
    trial.lap("pods of both systems reach each other");
    two_pods_serve(&lab);
    trial.lap("a Deployment of two for Windows serves, by selector and by class");
    kubelets_serve(&lab, &NODES);
    volumes_are_there(&lab);
    programs_are_talked_to(&lab);
    trial.lap("output, commands, ports, volumes and copies of a Windows pod");
    fields_mean_what_they_do_on_windows(&lab);
    images_are_judged_as_on_windows(&lab);
    trial.lap("fields and images as on Windows");
    policies_are_obeyed(&lab, ["lin1", "win1"]);
    policies_are_obeyed(&lab, ["win1", "lin1"]);
    trial.lap("policies are obeyed on both systems");

    a_killed_kubelet_is_started_again(&lab);
    trial.lap("its kubelet was killed, and `up` started it again");
    let before = identity(&lab, "win1");
    let _ = lab.run(&["node", "reboot", "win1", "--yes"]).good();
    until("it is Ready again", SETTLE, || {
        let is_ready = lab.ready_nodes().contains("win1");
        is_ready.then_some(()).ok_or_else(|| "not yet".to_owned())
    });
    until("it tells its start", SETTLE, || {
        let now = identity(&lab, "win1");
        if now.0 == before.0 && now.1 != before.1 {
            Ok(())
        } else {
            Err(format!("{before:?}, then {now:?}"))
        }
    });
    let console = lab.run(&["console", "win1"]).good().out;
    assert!(console.contains("mullion-standin: listens on"), "{console}");
    trial.lap("after another start it is a node again, and its console tells");
    it_is_reset_removed_and_added(&lab, &mut trial);
    let _ = lab.down().says(&["nothing is left"]);
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// What is in a file of the user's.
const WORDS: &str = "laid down by the file";

/// The built-in cluster, whose Windows machines get a file of the user's, at a path as Windows writes it.
fn with_a_file() -> String {
    let short = "machines: {linux: 1, windows: 1}";
    let long = r"machines:
- {name: cp, role: control-plane}
- {name: lin}
- {name: win, os: windows, files: [{from: ./words, to: 'C:\Own\words'}]}";
    assert!(BUILT_IN.contains(short), "{BUILT_IN}");
    BUILT_IN.replace(short, long)
}

/// A kubelet that was killed is told as a difference, and `up` starts it over the sockets that it left behind.
#[track_caller]
fn a_killed_kubelet_is_started_again(lab: &Lab) {
    let kill = "taskkill /F /IM kubelet.exe";
    let _ = lab.run(&["ssh", "win1", "--", kill]).good();
    let differences = &lab.status()["differences"];
    assert!(differences.to_string().contains("win1"), "{differences:#}");
    let _ = lab.up().says(&["win1"]);
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
}

/// A stand-in is emptied and joined anew, leaves with its machine, and comes back.
#[track_caller]
fn it_is_reset_removed_and_added(lab: &Lab, trial: &mut Trial) {
    let number = || lab.get(&["node", "win1"])["metadata"]["uid"].clone();
    let before = number();
    let _ = lab.run(&["node", "reset", "win1", "--yes"]).good();
    lab.is_up(&NODES);
    assert_ne!(number(), before, "the node is another one");
    trial.lap("node reset");
    let _ = lab.run(&["node", "remove", "win1", "--yes"]).good();
    lab.is_up(&NODES[..2]);
    lab.ready(&NODES[..2]);
    assert!(!lab.machine("win1").exists());
    let _ = lab.has_nothing_to_do();
    trial.lap("node remove");
    let _ = lab.run(&["node", "add", "win", "--yes"]).good();
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    trial.lap("node add");
}

/// The proportional share of this computer's memory that a machine's processes take, in MiB, and which take most of it.
pub(crate) fn memory(lab: &Lab, machine: &str) -> (u64, String) {
    let share = |pid: i32| -> (u64, String) {
        let text = shown(pid, "smaps_rollup");
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let command: String = shown(pid, "cmdline").chars().take(60).collect();
        (number.unwrap_or_default(), command)
    };
    let mut all: Vec<_> = processes_of(&lab.name, machine)
        .into_iter()
        .map(share)
        .collect();
    all.sort();
    let sum = all.iter().map(|(share, _)| share).sum::<u64>() / 1024;
    assert!(sum > 0, "{machine} has no processes");
    let most = all.iter().rev().take(12);
    let most = most.map(|(share, command)| format!("{:>6} MiB  {command}\n", share / 1024));
    (sum, most.collect())
}

/// Which machine a node is, and which of its starts, by the numbers that kubelet tells.
pub(crate) fn identity(lab: &Lab, node: &str) -> (String, String) {
    let node = lab.get(&["node", node]);
    let told = |what: &str| {
        node["status"]["nodeInfo"][what]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (told("systemUUID"), told("bootID"))
}

/// A node of that Windows.
#[track_caller]
pub(crate) fn is_windows(lab: &Lab, name: &str, image: &str, build: &str) {
    let node = lab.get(&["node", name]);
    let told = &node["status"]["nodeInfo"];
    assert_eq!(told["osImage"], image);
    let leader = lab.get(&["node", "cp1"]);
    let version = &leader["status"]["nodeInfo"]["kubeletVersion"];
    assert_eq!(&told["kubeletVersion"], version);
    let addresses = node["status"]["addresses"].as_array().unwrap();
    let address = serde_json::json!({"type": "InternalIP", "address": lab.address(name)});
    assert!(addresses.contains(&address), "{addresses:?}");
    let shown = lab.run(&["status"]).good();
    let is_marked = |line: &str| line.contains(name) && line.contains("stand-in");
    assert!(shown.out.lines().any(is_marked), "{shown}");
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/os"], "windows");
    assert_eq!(labels["node.kubernetes.io/windows-build"], build);
    assert_eq!(labels["mullion.dev/stand-in"], "wine");
}
