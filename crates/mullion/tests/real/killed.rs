//! `up` is killed while it works: whoever types it again gets what was wanted.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::lab::{BUILT_IN, Lab, PATIENCE};
use crate::ran::Running;
use crate::trial::{Luck, Trial, is_slow, say};

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

/// A step may take some seconds: the kill comes somewhere within it.
const WITHIN: u64 = 2000;

/// So many changes of a label are tried: a proof takes a moment only, and a kill may come after it.
const CHANGES: u32 = 5;

/// So many clusters, each killed so often.
const SLOW: (u64, u64) = (10, 20);
const USUAL: (u64, u64) = (1, 3);

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_killed_up_goes_on() {
    let mut trial = Trial::begin("a_killed_up_goes_on");
    let mut luck = Luck::new();
    let (clusters, kills) = if is_slow() { SLOW } else { USUAL };
    let mut killed = 0;
    for _ in 0..clusters {
        // In a folder of its own: what a cluster that does not converge leaves is kept by the panic that tells of it.
        let lab = Lab::built_in("killed");
        killed += kill(&lab, &mut luck, kills);
        trial.lap(&format!("killed {killed} times so far"));
        // What changed was not proven since: the next run owes that, whatever it finds done.
        let plan = lab.run(&["plan", "--json"]).good().json();
        let steps = plan["steps"].as_array().unwrap();
        let is_proof = |step: &Value| step["id"].as_str().unwrap().starts_with("verify/");
        assert!(steps.iter().any(is_proof), "{plan:#}");
        let _ = lab.up();
        lab.is_up(&NODES);
        lab.all_pods_run();
        let _ = lab.has_nothing_to_do();
        crate::secrets::are_in_no_log(&lab, &NODES);
        trial.lap("up goes on, and all is Ready");
        a_killed_change_is_proven_again(&lab);
        trial.lap("a change that was killed is proven again");
        lab.serve(&NODES);
        crate::network::services_are_reached(&lab, &NODES);
        trial.lap("Services are reached");
        let _ = lab.down();
        trial.nothing_is_left();
        trial.lap("down leaves nothing");
    }
    assert!(killed >= clusters * kills, "killed {killed} times only");
}

/// The cluster was proven, and then a change of a label is killed between its end and the proof: the next plan has the
/// proof and nothing else. Puts the label back.
fn a_killed_change_is_proven_again(lab: &Lab) {
    let is_late = (0..CHANGES).all(|change| !is_killed_unproven(lab, change));
    assert!(!is_late, "every run had its proof before its kill");
    let plan = lab.run(&["plan", "--json"]).good().json();
    let steps = plan["steps"].as_array().unwrap();
    let is_proof = |step: &Value| step["id"].as_str().unwrap().starts_with("verify/");
    assert!(!steps.is_empty() && steps.iter().all(is_proof), "{plan:#}");
    // A run that only looks leaves no folder behind.
    let runs = lab.runs().len();
    let _ = lab.up();
    assert_eq!(lab.runs().len(), runs, "a run that changed nothing is kept");
    lab.write(BUILT_IN);
    let _ = lab.up();
    let _ = lab.has_nothing_to_do();
}

/// Gives a node another label, and kills `up` once the node has it. Says whether that came before the proof.
fn is_killed_unproven(lab: &Lab, change: u32) -> bool {
    let short = "machines: {linux: 1, windows: 1}";
    let long = format!(
        "machines:\n- {{name: cp, role: control-plane}}\n\
         - {{name: lin, labels: {{example.com/change: \"{change}\"}}}}\n- {{name: win, os: windows}}"
    );
    assert!(BUILT_IN.contains(short), "{BUILT_IN}");
    lab.write(&BUILT_IN.replace(short, &long));
    let mut up = lab.start(&["up"]);
    let pid = up.pid();
    let has_done = |kind: &str| {
        let lines = own_journal(lab, pid).unwrap_or_default();
        lines.iter().any(|line| {
            let is_of_kind = |step: &str| step.starts_with(kind);
            line["line"] == "end" && line["step"].as_str().is_some_and(is_of_kind)
        })
    };
    let end = Instant::now() + PATIENCE;
    while !has_done("mark/") && !up.has_ended() {
        assert!(Instant::now() < end, "no node is marked: {}", up.err());
        std::thread::sleep(Duration::from_millis(2));
    }
    if !up.has_ended() {
        up.signal(Signal::KILL);
    }
    let ran = lab.end(up);
    if ran.code == 0 {
        return false;
    }
    assert_eq!(ran.code, -9, "{ran}");
    is_cut_off(lab);
    // A kill may come between the proof and the journal's line about it: the plan knows.
    let plan = lab.run(&["plan", "--json"]).good().json();
    !plan["steps"].as_array().unwrap().is_empty()
}

/// Kills `up` so often, at random moments; the last run always. Gives how often a kill came in time, which is at least so
/// often: a run that was through before its kill does not count.
fn kill(lab: &Lab, luck: &mut Luck, kills: u64) -> u64 {
    let mut killed = 0;
    let mut turn = 0;
    let mut is_last_killed = false;
    while killed < kills || !is_last_killed {
        assert!(
            turn < 3 * kills + 10,
            "killed {killed} times in {turn} runs: most were through before"
        );
        turn += 1;
        let mut up = lab.start(&["up"]);
        let Some(planned) = planned(lab, &mut up) else {
            // Nothing was left to do: what is left of the kills is spent on a new cluster.
            let _ = lab.end(up).good();
            let _ = lab.down();
            continue;
        };
        // Each takes its share of what is left, so that the last ones come late.
        let left = kills.saturating_sub(killed).max(1);
        let steps = luck.below(latest(planned, left) + 1);
        let pause = Duration::from_millis(luck.below(WITHIN));
        let begun = wait_for(lab, &mut up, steps, pause);
        if !up.has_ended() {
            up.signal(Signal::KILL);
        }
        let ran = lab.end(up);
        is_last_killed = ran.code != 0;
        if ran.code == 0 {
            say(&format!("            {turn}: it was through before"));
            continue;
        }
        assert_eq!(ran.code, -9, "{ran}");
        killed += 1;
        say(&format!(
            "            {turn}: killed after {:.1} s, {begun} of {planned} steps begun, the last {}",
            ran.took.as_secs_f32(),
            last_begun(lab)
        ));
        is_cut_off(lab);
    }
    killed
}

/// The newest run is known to be cut off. A child that `up` had just forked holds the journal's lock until its own program
/// begins: that takes a moment on a loaded computer.
fn is_cut_off(lab: &Lab) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let runs = lab.run(&["runs", "--json"]).good().json();
        let state = &runs["runs"][0]["state"];
        if state == "cut-off" {
            return;
        }
        assert!(state == "running" && Instant::now() < end, "{runs:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many of so many steps a kill waits for at most, where so many kills are to come: each has its share, and the last
/// one leaves enough to do that it does not come too late.
fn latest(planned: u64, left: u64) -> u64 {
    let share = 2 * planned / (left + 1);
    share.min(planned * 3 / 4)
}

/// How many steps its run has; nothing where it has none.
fn planned(lab: &Lab, up: &mut Running) -> Option<u64> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(line) = own_journal(lab, up.pid()).and_then(|lines| lines.into_iter().next()) {
            return line["steps"].as_u64();
        }
        if up.has_ended() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no run was begun: {}", up.err());
}

/// Waits until so many steps were begun, and a while; says how many that came to.
fn wait_for(lab: &Lab, up: &mut Running, steps: u64, pause: Duration) -> u64 {
    let count = |lines: &[Value]| {
        let begun = lines.iter().filter(|line| line["line"] == "begin");
        begun.count() as u64
    };
    let end = Instant::now() + PATIENCE;
    let mut is_time = None;
    loop {
        let begun = count(&own_journal(lab, up.pid()).unwrap_or_default());
        let now = Instant::now();
        if begun >= steps && is_time.is_none() {
            is_time = Some(now + pause);
        }
        if is_time.is_some_and(|time| now >= time) || up.has_ended() {
            return begun;
        }
        assert!(now < end, "the run does not go on: {}", up.err());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The journal that a process keeps.
fn own_journal(lab: &Lab, pid: u32) -> Option<Vec<Value>> {
    let lines = journal(lab.runs().last()?);
    (lines.first()?["pid"] == pid).then_some(lines)
}

/// The whole lines of a run's journal.
pub(crate) fn journal(run: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.collect()
}

fn last_begun(lab: &Lab) -> String {
    let lines = lab
        .runs()
        .last()
        .map(|run| journal(run))
        .unwrap_or_default();
    let begun = lines.iter().rev().find(|line| line["line"] == "begin");
    begun.map_or_else(|| "none".into(), |line| line["step"].to_string())
}
