//! `runs`: what earlier runs left in the state folder.

use crate::Bench;
use crate::json::document;

const FIRST: &str = "20260107-085730123-4f2a";
const SECOND: &str = "20260108-085730123-0001";

fn opening(id: &str, command: &str) -> String {
    format!(
        "{{\"line\":\"run\",\"version\":1,\"run\":\"{id}\",\"started\":\"2026-01-07T08:57:30Z\",\"pid\":7,\"cluster\":\"demo\",\
         \"command\":\"{command}\",\"mullion\":\"0.1.0\",\"direction\":\"do\",\"plan\":\"{}\",\"steps\":2}}\n",
        "0".repeat(64)
    )
}

const STEPS: &str = concat!(
    r#"{"line":"begin","at":"2026-01-07T08:57:31Z","step":"start/lin1","stage":"machines","machine":"lin1","title":"start lin1","attempt":1}"#,
    "\n",
    r#"{"line":"end","at":"2026-01-07T08:57:33Z","step":"start/lin1","outcome":"done","tookMs":2000,"waitedMs":0,"attempts":1}"#,
    "\n",
    r#"{"line":"begin","at":"2026-01-07T08:57:33Z","step":"reach/lin1","stage":"machines","machine":"lin1","title":"reach lin1","attempt":1}"#,
    "\n",
);
const CLOSE: &str = concat!(
    r#"{"line":"end","at":"2026-01-07T08:57:40Z","step":"reach/lin1","outcome":"failed","tookMs":7000,"waitedMs":0,"attempts":1,"error":{"class":"unreachable","words":"lin1 does not answer","hints":["look at it"]}}"#,
    "\n",
    r#"{"line":"close","at":"2026-01-07T08:57:40Z","outcome":"failed","tookMs":9877,"notStarted":0}"#,
    "\n",
);

fn keep(bench: &Bench, id: &str, journal: &str) {
    let folder = bench.path().join(".local/state/mullion/runs").join(id);
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("journal.jsonl"), journal).unwrap();
}

#[test]
fn without_a_run_there_is_a_hint_and_an_empty_list() {
    let bench = Bench::new();
    for arguments in [&["runs"][..], &["runs", "list"]] {
        let ran = bench.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
        assert!(ran.err.contains("mullion up"), "{}", ran.err);
    }
    let list = document(&bench.run(&["runs", "--json"]).out, "Runs");
    assert_eq!(list["runs"].as_array().unwrap().len(), 0);
    let ran = bench.run(&["runs", "show"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("mullion up"), "{}", ran.err);
}

#[test]
fn runs_are_listed_newest_first_and_a_broken_journal_hides_none() {
    let bench = Bench::new();
    keep(
        &bench,
        FIRST,
        &format!("{}{STEPS}", opening(FIRST, "mullion up")),
    );
    keep(
        &bench,
        SECOND,
        &format!(
            "{}{STEPS}{CLOSE}",
            opening(SECOND, "mullion up --only lin1")
        ),
    );
    keep(&bench, "20260109-085730123-0002", "nonsense\n");
    let ran = bench.run(&["runs"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.out);
    assert!(
        lines[1].contains("unreadable") && lines[1].contains("damaged"),
        "{}",
        ran.out
    );
    assert!(
        lines[2].contains(SECOND) && lines[2].contains("failed"),
        "{}",
        ran.out
    );
    assert!(
        lines[3].contains(FIRST) && lines[3].contains("cut off"),
        "{}",
        ran.out
    );
    let list = document(&bench.run(&["runs", "--json"]).out, "Runs");
    assert_eq!(list["runs"][1]["state"], "failed");
    assert_eq!(list["runs"][2]["state"], "cut-off");
    assert!(list["runs"][0]["unreadable"].is_string());
}

#[test]
fn a_run_is_shown_by_the_beginning_of_its_name_or_as_the_newest() {
    let bench = Bench::new();
    keep(
        &bench,
        FIRST,
        &format!("{}{STEPS}", opening(FIRST, "mullion up")),
    );
    keep(
        &bench,
        SECOND,
        &format!("{}{STEPS}{CLOSE}", opening(SECOND, "mullion down")),
    );
    let newest = bench.run(&["runs", "show"]);
    assert!(
        newest.out.contains("mullion down") && newest.out.contains("lin1 does not answer"),
        "{}",
        newest.out
    );
    let first = bench.run(&["runs", "show", "20260107"]);
    assert!(first.out.contains("cut off after"), "{}", first.out);
    let shown = document(
        &bench.run(&["runs", "show", "20260107", "--json"]).out,
        "RunRecord",
    );
    assert_eq!(shown["steps"][1]["state"], "under-way");
    for (name, word) in [("2026", SECOND), ("1999", "mullion runs")] {
        let ran = bench.run(&["runs", "show", name]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(word), "{}", ran.err);
    }
}

#[test]
fn a_run_becomes_a_page() {
    let bench = Bench::new();
    keep(
        &bench,
        FIRST,
        &format!("{}{STEPS}{CLOSE}", opening(FIRST, "mullion up")),
    );
    let ran = bench.run(&["runs", "show", "--html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let usual = format!("run-{FIRST}.html");
    assert!(ran.out.contains(&usual), "{}", ran.out);
    assert!(bench.read(&usual).contains("lin1 does not answer"));
    let ran = bench.run(&["runs", "show", FIRST, "--html", "mine.html", "--json"]);
    assert_eq!(document(&ran.out, "RunRecord")["page"], "mine.html");
    assert!(bench.read("mine.html").starts_with("<!DOCTYPE html>"));
    let ran = bench.run(&["runs", "show", "--html", "no/such/folder.html"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("no/such/folder.html"), "{}", ran.err);
}
