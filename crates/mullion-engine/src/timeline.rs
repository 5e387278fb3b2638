//! A run as one page: when every machine did what, how long the stages took, and what failed.
//!
//! Self-contained HTML without scripts: it opens in any browser, from any folder, and compares well.

mod chart;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use mullion_plan::{STAGES, Stage};
use mullion_wire::text::markup;

use crate::record::{RunRecord, RunState, StepRecord, StepState};
use crate::report::RunOutcome;
use crate::stand_ins::stand_in_mark;
use crate::told::Failure;
use mullion_wire::duration::shown;

const STYLE: &str = "\
:root{--ink:#1d2329;--soft:#5c6770;--line:#e2e6ea;--paper:#fff;--done:#5a9a6e;--failed:#c8473d;--interrupted:#d9952f;\
--under-way:#7f8b96}\
@media(prefers-color-scheme:dark){:root{--ink:#e3e7ea;--soft:#9aa5ae;--line:#343b42;--paper:#15191d}}\
body{margin:2rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.2rem 0}.soft{color:var(--soft)}\
table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left;border-bottom:1px solid var(--line)}\
td.number,th.number{text-align:right}pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line)}\
svg text{fill:var(--ink);font-size:12px}svg .soft{fill:var(--soft)}svg .rule{stroke:var(--line)}\
.done{fill:var(--done)}.failed{fill:var(--failed)}.interrupted{fill:var(--interrupted)}.under-way{fill:var(--under-way)}\
.try{stroke:var(--paper);stroke-width:1.5}.wide{overflow-x:auto}.key{display:inline-block;width:.8em;height:.8em;border-radius:2px}";

/// The page of a run.
pub fn html(record: &RunRecord) -> String {
    let mut out = String::new();
    let title = format!("{} of cluster {}", record.run, record.cluster);
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        markup(&title)
    );
    head(&mut out, record);
    if record.steps.is_empty() {
        out.push_str("<p>No step was begun.</p>\n");
    } else {
        out.push_str("<h2>Timeline</h2>\n");
        chart::draw(&mut out, record);
        stages(&mut out, record);
    }
    troubles(&mut out, record);
    blocked(&mut out, record);
    out.push_str("</body>\n</html>\n");
    out
}

fn head(out: &mut String, record: &RunRecord) {
    let done = record
        .steps
        .iter()
        .filter(|step| step.state == StepState::Done)
        .count();
    let _ = write!(
        out,
        "<p><code>{}</code></p>\n<p><b>{}</b> after {}: {done} of {} steps done</p>\n\
         <p class=\"soft\">began {:.0}, mullion {}, plan {}</p>\n",
        markup(&record.command),
        state(record.state),
        shown_ms(length(record)),
        record.planned,
        record.started,
        markup(&record.mullion),
        markup(&record.plan),
    );
    if let Some(mark) = stand_in_mark(&record.stand_ins) {
        let _ = writeln!(out, "<p>{}</p>", markup(&mark));
    }
    if let Some(number) = record.not_started.filter(|number| *number > 0) {
        let _ = writeln!(out, "<p class=\"soft\">{number} steps were not begun</p>");
    }
}

const fn state(state: RunState) -> &'static str {
    match state {
        RunState::Running => "goes on",
        RunState::CutOff => "cut off",
        RunState::Ended(outcome) => match outcome {
            RunOutcome::Done => "done",
            RunOutcome::Failed => "failed",
            RunOutcome::Cancelled => "cancelled",
            RunOutcome::JournalLost => "ended without its journal",
            RunOutcome::Obstructed => "not begun",
        },
    }
}

fn stages(out: &mut String, record: &RunRecord) {
    let mut rows: BTreeMap<Stage, (usize, i64, i64, i64)> = BTreeMap::new();
    for step in &record.steps {
        let (begin, end) = span(record, step);
        let row = rows.entry(step.tag.stage).or_insert((0, begin, end, 0));
        row.0 += 1;
        row.1 = row.1.min(begin);
        row.2 = row.2.max(end);
        row.3 += end - begin;
    }
    out.push_str(
        "<h2>Stages</h2>\n<table>\n<tr><th>stage</th><th class=\"number\">steps</th>\
         <th class=\"number\">took</th><th class=\"number\">added up</th></tr>\n",
    );
    for row in &STAGES {
        if let Some((steps, begin, end, sum)) = rows.get(&row.stage) {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td class=\"number\">{steps}</td><td class=\"number\">{}</td>\
                 <td class=\"number\">{}</td></tr>",
                markup(row.title),
                shown_ms(end - begin),
                shown_ms(*sum),
            );
        }
    }
    out.push_str("</table>\n");
}

fn troubles(out: &mut String, record: &RunRecord) {
    for (state, heading) in [
        (StepState::Failed, "Failed"),
        (StepState::Interrupted, "Interrupted"),
        (StepState::UnderWay, "Under way"),
    ] {
        let steps: Vec<_> = record
            .steps
            .iter()
            .filter(|step| step.state == state)
            .collect();
        if steps.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2>{heading}</h2>");
        for step in steps {
            let _ = writeln!(
                out,
                "<p><b>{}</b> <span class=\"soft\">{}, {}</span></p>",
                markup(&step.tag.title),
                markup(step.tag.id.as_str()),
                tries(step.attempts),
            );
            if let Some(error) = &step.error {
                failure(out, error);
            }
        }
    }
}

fn failure(out: &mut String, error: &Failure) {
    let _ = writeln!(out, "<p>{}</p>", markup(&error.words));
    for cause in &error.causes {
        let _ = writeln!(out, "<p class=\"soft\">because: {}</p>", markup(cause));
    }
    for hint in &error.hints {
        let _ = writeln!(out, "<p>hint: {}</p>", markup(hint));
    }
    if !error.tail.is_empty() {
        let _ = writeln!(out, "<pre>{}</pre>", markup(&error.tail.join("\n")));
    }
    if let Some(log) = &error.log {
        let log = log.display().to_string();
        let _ = writeln!(out, "<p class=\"soft\">all of it: {}</p>", markup(&log));
    }
}

fn blocked(out: &mut String, record: &RunRecord) {
    if record.blocked.is_empty() {
        return;
    }
    out.push_str("<h2>Blocked</h2>\n<table>\n<tr><th>step</th><th>by</th></tr>\n");
    for step in &record.blocked {
        let by: Vec<_> = step.by.iter().map(mullion_plan::StepId::as_str).collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            markup(&step.tag.title),
            markup(&by.join(", "))
        );
    }
    out.push_str("</table>\n");
}

fn tries(number: u32) -> String {
    match number {
        1 => "1 try".into(),
        number => format!("{number} tries"),
    }
}

/// When a step was begun and ended, in milliseconds after the run. One without an end lasts to the run's.
fn span(record: &RunRecord, step: &StepRecord) -> (i64, i64) {
    let after = |at: jiff::Timestamp| at.as_millisecond() - record.started.as_millisecond();
    let begin = after(step.begun).max(0);
    (begin, after(step.ended.unwrap_or(record.ended)).max(begin))
}

/// How long the run took, in milliseconds.
fn length(record: &RunRecord) -> i64 {
    (record.ended.as_millisecond() - record.started.as_millisecond()).max(0)
}

fn shown_ms(number: i64) -> String {
    shown(Duration::from_millis(u64::try_from(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests;
