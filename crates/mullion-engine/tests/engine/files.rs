//! What runs leave on the disk, and who reads it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use mullion_engine::{
    Cancel, Holder, Journal, KEPT, KEPT_FAILURES, Lock, LockError, Opening, RealClock, RunId,
    RunOutcome, RunState, Runs, RunsError, StepState, Unwatched, run, timings,
};
use mullion_plan::{MachineKinds, News, Plan, Took};
use mullion_spec::value::ClusterName;
use mullion_wire::Mask;

use crate::evidence::under_way;
use crate::simulation::{noon, options};
use crate::stage_hand::{StageHand, refused, run_with, starts};

fn begin(state: &Path, plan: &Plan, at: &str) -> Journal {
    let opening = Opening::new("demo", "mullion up --yes", "0.1.0", plan);
    Journal::create(state, opening, Mask::new(), at.parse().unwrap()).unwrap()
}

const NOON: &str = "2026-01-07T12:00:00Z";

#[test]
fn a_run_leaves_a_journal_and_a_log_that_only_its_owner_reads() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let plan = starts(&["lin1", "lin2"]);
    let journal = begin(&state, &plan, NOON);
    let port = StageHand::new(|step, attendant| {
        attendant.hear(News::Line(format!("hello from {}", step.id)));
        if step.id.as_str() == "ready/lin2" {
            return refused("no such node");
        }
        Ok(())
    });
    let clock = noon();
    let options = options(1);
    let runs = Runs::of(&state);
    let cancel = Cancel::new();
    let report = run(
        &plan, &port, &options, &journal, &Unwatched, &cancel, &clock,
    );
    assert_eq!(report.journal, Some(runs.journal(journal.id())));
    let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(journal.folder().unwrap()), 0o700);
    assert_eq!(mode(&runs.journal(journal.id())), 0o600);
    assert_eq!(mode(&runs.log(journal.id())), 0o600);
    let log = fs_err::read_to_string(runs.log(journal.id())).unwrap();
    assert_eq!(log.lines().count(), 4);
    assert!(
        log.contains("2026-01-07T12:00:00.000Z ready/lin2: hello from ready/lin2"),
        "{log}"
    );

    let record = runs.read(journal.id()).unwrap();
    assert_eq!(record.run, *journal.id());
    assert_eq!(record.command, "mullion up --yes");
    assert_eq!(record.cluster, "demo");
    assert_eq!(record.planned, 4);
    assert_eq!(record.state, RunState::Ended(RunOutcome::Failed));
    let failed: Vec<_> = record.failed().collect();
    assert_eq!(failed[0].tag.title, "wait until lin2 is Ready");
    assert_eq!(failed[0].error.as_ref().unwrap().words, "no such node");
}

#[test]
fn a_run_that_goes_on_is_told_from_one_that_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1"]);
    let journal = begin(folder.path(), &plan, NOON);
    let runs = Runs::of(folder.path());
    let id = journal.id().clone();
    assert_eq!(runs.read(&id).unwrap().state, RunState::Running);
    drop(journal);
    assert_eq!(runs.read(&id).unwrap().state, RunState::CutOff);
    // A line that the end of the process tore.
    let mut options = fs_err::OpenOptions::new();
    let mut file = options.append(true).open(runs.journal(&id)).unwrap();
    let begin = r#"{"line":"begin","at":"2026-01-07T12:00:01Z","step":"start/lin1","stage":"machines","title":"start lin1","attempt":1}"#;
    write!(file, "{begin}\n{{\"line\":\"end\",\"at\":\"20\u{e9}").unwrap();
    let record = runs.read(&id).unwrap();
    assert_eq!(record.state, RunState::CutOff);
    assert_eq!(
        record.ended,
        "2026-01-07T12:00:01Z".parse::<Timestamp>().unwrap()
    );
    assert_eq!(under_way(&record), ["start/lin1"]);
    assert_eq!(record.steps[0].state, StepState::UnderWay);
}

#[test]
fn a_journal_that_is_none_is_told_and_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1"]);
    let runs = Runs::of(folder.path());
    assert!(runs.list().unwrap().is_empty(), "no folder, no runs");
    let ids: Vec<_> = (0..4)
        .map(|hour| {
            let at = format!("2026-01-07T1{hour}:00:00Z");
            begin(folder.path(), &plan, &at).id().clone()
        })
        .collect();
    let newer = r#"{"line":"run","version":3,"everything":"is new"}"#;
    fs_err::write(runs.journal(&ids[0]), format!("{newer}\n")).unwrap();
    fs_err::write(runs.journal(&ids[1]), "no JSON\n{}\n").unwrap();
    fs_err::write(runs.journal(&ids[2]), "").unwrap();
    fs_err::create_dir_all(folder.path().join("runs/something else")).unwrap();
    let list = runs.list().unwrap();
    let newest_first: Vec<_> = ids.iter().rev().collect();
    assert_eq!(
        list.iter().map(|run| &run.id).collect::<Vec<_>>(),
        newest_first
    );
    assert!(list[0].record.is_ok());
    let causes: Vec<_> = list[1..]
        .iter()
        .map(|run| {
            let error = run.record.as_ref().unwrap_err();
            std::error::Error::source(error).unwrap().to_string()
        })
        .collect();
    assert_eq!(
        causes,
        [
            "the journal is empty",
            "line 1 of the journal cannot be read",
            "the journal has version 3, and this program knows 2"
        ]
    );
}

#[test]
fn a_run_is_found_by_the_beginning_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1"]);
    let runs = Runs::of(folder.path());
    let first = begin(folder.path(), &plan, "2026-01-07T12:00:00Z");
    let second = begin(folder.path(), &plan, "2026-01-07T13:00:00Z");
    assert_eq!(runs.find("20260107-13").unwrap(), *second.id());
    assert_eq!(runs.find(first.id().as_str()).unwrap(), *first.id());
    assert_eq!(runs.find("last").unwrap(), *second.id());
    assert!(matches!(
        runs.find("2026"),
        Err(RunsError::Ambiguous { found, .. }) if found.len() == 2
    ));
    for text in ["", "..", "2025"] {
        assert!(
            matches!(runs.find(text), Err(RunsError::Unknown(_))),
            "{text}"
        );
    }
}

/// A run of a cluster that ended that way.
fn ended(state: &Path, plan: &Plan, cluster: &str, at: &str, goes_well: bool) -> RunId {
    let opening = Opening::new(cluster, "mullion up --yes", "0.1.0", plan);
    let journal = Journal::create(state, opening, Mask::new(), at.parse().unwrap()).unwrap();
    let port = StageHand::new(|_, _| {
        if goes_well {
            Ok(())
        } else {
            refused("no such image")
        }
    });
    let (options, cancel) = (options(1), Cancel::new());
    let report = run(
        plan,
        &port,
        &options,
        &journal,
        &Unwatched,
        &cancel,
        &noon(),
    );
    assert_eq!(report.outcome == RunOutcome::Done, goes_well);
    journal.id().clone()
}

#[test]
fn the_oldest_runs_go_and_one_that_goes_on_stays() {
    let folder = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1"]);
    let runs = Runs::of(folder.path());
    let long = begin(folder.path(), &plan, "2026-01-01T00:00:00Z");
    for minute in 0..55 {
        let at = format!("2026-01-07T12:{minute:02}:00Z");
        ended(folder.path(), &plan, "demo", &at, true);
    }
    let ids = runs.ids().unwrap();
    assert_eq!(ids.len(), KEPT + 1);
    assert_eq!(ids.last(), Some(long.id()));
    assert!(ids[0].as_str().starts_with("20260107-1254"));
    assert_eq!(runs.prune(1).unwrap().len(), KEPT - 1);
}

#[test]
fn runs_that_did_not_end_well_outlast_those_that_did() {
    let folder = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1"]);
    let runs = Runs::of(folder.path());
    let at = |day: u32, minute: usize| format!("2026-01-{day:02}T12:{minute:02}:00Z");
    let failed = ended(folder.path(), &plan, "one", &at(1, 0), false);
    // Killed: nothing tells its end.
    let cut_off = begin(folder.path(), &plan, &at(1, 1)).id().clone();
    let damaged = ended(folder.path(), &plan, "one", &at(1, 2), true);
    fs_err::write(runs.journal(&damaged), "no JSON\n{}\n").unwrap();
    let well = ended(folder.path(), &plan, "one", &at(1, 3), true);
    // Only the first line and the last are read: a long run has megabytes between them.
    let text = fs_err::read_to_string(runs.journal(&well)).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let long = "no JSON\n".repeat(10_000);
    fs_err::write(runs.journal(&well), format!("{first}\n{long}{rest}")).unwrap();
    for minute in 0..KEPT {
        ended(folder.path(), &plan, "two", &at(2, minute), true);
    }
    let ids = runs.ids().unwrap();
    for kept in [&failed, &cut_off, &damaged] {
        assert!(ids.contains(kept), "{kept}");
    }
    assert!(!ids.contains(&well), "{well}");
    // Failures do not pile up for ever, and those of one cluster push out none of another's.
    for minute in 0..=KEPT_FAILURES {
        ended(folder.path(), &plan, "two", &at(3, minute), false);
    }
    runs.prune(0).unwrap();
    let ids = runs.ids().unwrap();
    assert!(ids.contains(&failed));
    let oldest = ids.iter().filter(|id| id.as_str().starts_with("20260103"));
    assert_eq!(oldest.count(), KEPT_FAILURES);
}

#[test]
fn durations_are_kept_for_the_next_plan() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let plan = starts(&["lin1", "lin2", "lin3"]);
    let clock = noon();
    let took = || -> Took {
        let text = fs_err::read_to_string(state.join("timings.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let once = |seconds: [u64; 3]| {
        let port = StageHand::new(|step, _| {
            let slow = ["start/lin1", "start/lin2", "start/lin3"];
            if let Some(place) = slow.iter().position(|id| *id == step.id.as_str()) {
                clock.advance(Duration::from_secs(seconds[place]));
            }
            Ok(())
        });
        let (report, ..) = run_with(&plan, &port, &options(1), &clock);
        timings::remember(&state, &report, &MachineKinds::default()).unwrap();
    };
    once([8, 600, 7]);
    let kinds = MachineKinds::default();
    let start = |took: &Took| took.about(&plan.steps()[0], &kinds);
    assert_eq!(start(&took()), Some(Duration::from_secs(8)), "the median");
    once([16, 16, 16]);
    assert_eq!(
        start(&took()),
        Some(Duration::from_secs(10)),
        "a quarter of the newest"
    );
    assert_eq!(
        fs_err::read_dir(&state).unwrap().count(),
        1,
        "nothing else is left"
    );
    // What cannot be read is written anew.
    fs_err::write(state.join("timings.json"), "{torn").unwrap();
    once([4, 4, 4]);
    assert_eq!(start(&took()), Some(Duration::from_secs(4)));
}

#[test]
fn the_lock_of_a_process_that_was_killed_is_free() {
    let state = tempfile::tempdir().unwrap();
    let cluster: ClusterName = "demo".parse().unwrap();
    let holder = Holder::this_process("mullion up", NOON.parse().unwrap());
    drop(Lock::take(state.path(), &cluster, &holder).unwrap());
    let file = state.path().join("locks/demo.lock");
    let mut other = Command::new("sh")
        .args(["-c", "exec 9<>\"$0\"; flock -x 9; echo held; read line"])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "held\n");
    assert!(matches!(
        Lock::take(state.path(), &cluster, &holder),
        Err(LockError::Held { holder: None, .. })
    ));
    other.kill().unwrap();
    other.wait().unwrap();
    Lock::take(state.path(), &cluster, &holder).unwrap();
}

/// The journal's syncs are not for nothing, and not for much.
#[test]
fn a_hundred_steps_on_a_real_disk_take_seconds_not_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<_> = (1..=50).map(|number| format!("lin{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let plan = starts(&names);
    let journal = begin(folder.path(), &plan, NOON);
    let port = StageHand::new(|_, _| Ok(()));
    let options = mullion_engine::Options::for_this_computer();
    let clock = RealClock::new();
    let cancel = Cancel::new();
    let report = run(
        &plan, &port, &options, &journal, &Unwatched, &cancel, &clock,
    );
    assert_eq!(report.outcome, RunOutcome::Done);
    assert!(report.took_ms < 60_000, "{} ms", report.took_ms);
}
