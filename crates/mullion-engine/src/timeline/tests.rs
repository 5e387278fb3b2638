use super::*;
use crate::runs::Alive;

/// A run in which a machine failed, another waited, and a third was blocked.
const JOURNAL: &str = r#"{"line":"run","version":1,"run":"20260107-085730000-4f2a","started":"2026-01-07T08:57:30Z","pid":7,"cluster":"demo","command":"mullion up","mullion":"0.1.0","direction":"do","plan":"0123456789abcdef","steps":6}
{"line":"begin","at":"2026-01-07T08:57:30Z","step":"fetch/a","stage":"artifacts","title":"get kubelet 1.36.4 for linux","attempt":1}
{"line":"begin","at":"2026-01-07T08:57:30.5Z","step":"fetch/b","stage":"artifacts","title":"get kubeadm 1.36.4 for linux","attempt":1}
{"line":"end","at":"2026-01-07T08:57:32Z","step":"fetch/a","outcome":"done","tookMs":2000,"waitedMs":0,"attempts":1}
{"line":"end","at":"2026-01-07T08:57:33Z","step":"fetch/b","outcome":"done","tookMs":2500,"waitedMs":0,"attempts":1}
{"line":"begin","at":"2026-01-07T08:57:33Z","step":"make/lin1","stage":"machines","machine":"lin1","title":"make lin1","attempt":1}
{"line":"begin","at":"2026-01-07T08:57:33Z","step":"reach/lin2","stage":"machines","machine":"lin2","title":"wait for a login on lin2","attempt":1}
{"line":"retry","at":"2026-01-07T08:57:34Z","step":"make/lin1","attempt":1,"againInMs":500,"error":{"class":"unreachable","words":"no answer"}}
{"line":"begin","at":"2026-01-07T08:57:34.5Z","step":"make/lin1","stage":"machines","machine":"lin1","title":"make lin1","attempt":2}
{"line":"end","at":"2026-01-07T08:57:40Z","step":"make/lin1","outcome":"failed","tookMs":7000,"waitedMs":500,"attempts":2,"error":{"class":"refused","words":"no space left","causes":["disk full"],"hints":["make room"],"tail":["cp: error","<b>&"],"log":"runs/log.txt"}}
{"line":"end","at":"2026-01-07T08:57:45Z","step":"reach/lin2","outcome":"done","tookMs":12000,"waitedMs":11000,"attempts":1,"looks":20}
{"line":"blocked","step":"start/lin1","stage":"machines","machine":"lin1","title":"start lin1","by":["make/lin1"]}
{"line":"close","at":"2026-01-07T08:57:45Z","outcome":"failed","tookMs":15000,"notStarted":0}
"#;

#[test]
fn a_run_is_one_page_with_rows_stages_failures_and_what_was_blocked() {
    let record = RunRecord::parse(JOURNAL, Alive::No).unwrap();
    let page = html(&record);
    // The colours are of no interest here.
    let page = page.replace(STYLE, "…");
    insta::assert_snapshot!(page);
}

#[test]
fn a_run_that_was_cut_off_tells_what_was_under_way() {
    let cut = JOURNAL
        .find(r#"{"line":"end","at":"2026-01-07T08:57:45Z""#)
        .unwrap();
    let record = RunRecord::parse(&JOURNAL[..cut + 30], Alive::No).unwrap();
    let page = html(&record);
    assert!(page.contains("<b>cut off</b> after 10 s: 2 of 6 steps done"));
    assert!(page.contains("<h2>Under way</h2>\n<p><b>wait for a login on lin2</b>"));
    let none = JOURNAL.find("{\"line\":\"begin\"").unwrap();
    let record = RunRecord::parse(&JOURNAL[..none], Alive::Yes).unwrap();
    assert!(html(&record).contains("<p>No step was begun.</p>"));
}

#[test]
fn a_machine_that_stands_in_is_marked() {
    let mark = "<p>stand-in: win1, win2 (";
    let page = |journal: &str| html(&RunRecord::parse(journal, Alive::No).unwrap());
    assert!(!page(JOURNAL).contains(mark));
    let with = JOURNAL.replacen(r#""steps":6"#, r#""steps":6,"standIns":["win1","win2"]"#, 1);
    assert!(page(&with).contains(mark));
}

#[test]
fn nothing_in_a_journal_becomes_a_tag_or_leaves_an_attribute() {
    let evil = r#"<script>alert(1)</script>\" onload='x' & \u001b[31m"#;
    let mut journal = JOURNAL.to_owned();
    for old in [
        "mullion up",
        "0.1.0",
        "get kubelet 1.36.4 for linux",
        "no space left",
        "disk full",
        "make room",
        "cp: error",
        "runs/log.txt",
        "start lin1",
        "fetch/a",
        "demo",
    ] {
        assert!(journal.contains(old), "{old}");
        journal = journal.replace(old, evil);
    }
    let page = html(&RunRecord::parse(&journal, Alive::No).unwrap());
    assert!(!page.contains("<script"), "{page}");
    assert!(!page.contains('\u{1b}'));
    assert!(!page.contains("onload='"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x&#39; &amp; "));
    // Whatever is left that begins as a tag is one of ours.
    let ours = [
        "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "code",
        "div", "svg", "line", "text", "rect", "table", "tr", "th", "td", "span", "pre", "i",
    ];
    for tag in page.split('<').skip(1) {
        let name = tag.trim_start_matches('/');
        let name = name.split([' ', '>', '\n']).next().unwrap();
        assert!(ours.contains(&name), "{name}");
    }
}
