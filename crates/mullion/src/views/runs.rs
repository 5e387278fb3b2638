//! Runs that were made: the list, and one with everything that it did.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use mullion_engine::{
    Listed, RunOutcome, RunRecord, RunState, StepRecord, StepState, stand_in_mark,
};
use mullion_wire::{duration, error_chain};
use schemars::JsonSchema;
use serde::Serialize;

use super::findings::plural;

/// The runs of a user, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunsDocument {
    /// The runs.
    pub runs: Vec<RunRow>,
}

/// A run in the list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// Its name.
    pub run: String,
    /// The cluster.
    pub cluster: Option<String>,
    /// What was typed.
    pub command: Option<String>,
    /// When it began.
    pub started: Option<String>,
    /// How long it took; of one that goes on or was cut off, until the last that is known of it.
    pub took_ms: Option<u64>,
    /// What became of it.
    pub state: Option<RunState>,
    /// How many steps it planned.
    pub planned: Option<usize>,
    /// How many of them it did.
    pub done: Option<usize>,
    /// Why nothing can be told of it.
    pub unreadable: Option<String>,
}

/// A run with everything that it did.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecordDocument<'a> {
    /// What it did.
    #[serde(flatten)]
    pub record: &'a RunRecord,
    /// The file of its journal.
    pub journal: String,
    /// The file of what was heard.
    pub log: String,
    /// The page that was written.
    pub page: Option<String>,
}

impl RunRow {
    /// The row of a run.
    pub fn new(listed: &Listed) -> Self {
        let record = listed.record.as_ref().ok();
        let trouble = listed.record.as_ref().err();
        Self {
            run: listed.id.to_string(),
            cluster: record.map(|record| record.cluster.clone()),
            command: record.map(|record| record.command.clone()),
            started: record.map(|record| moment(record.started)),
            took_ms: record.map(took_ms),
            state: record.map(|record| record.state),
            planned: record.map(|record| record.planned),
            done: record.map(done),
            unreadable: trouble.map(|error| error_chain(error).join(": ")),
        }
    }
}

fn moment(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn took_ms(record: &RunRecord) -> u64 {
    let length = record.ended.as_millisecond() - record.started.as_millisecond();
    u64::try_from(length).unwrap_or(0)
}

fn done(record: &RunRecord) -> usize {
    let steps = record.steps.iter();
    steps.filter(|step| step.state == StepState::Done).count()
}

/// What became of a run, in words.
pub const fn word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::CutOff => "cut off",
        RunState::Ended(outcome) => match outcome {
            RunOutcome::Done => "done",
            RunOutcome::Failed => "failed",
            RunOutcome::Cancelled => "called off",
            RunOutcome::JournalLost => "journal lost",
            RunOutcome::Obstructed => "obstructed",
            _ => "ended",
        },
    }
}

/// The list as a table.
pub fn list(document: &RunsDocument) -> String {
    let head = [
        "RUN", "CLUSTER", "STARTED", "TOOK", "OUTCOME", "STEPS", "COMMAND",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for run in &document.runs {
        let dash = || "-".to_owned();
        let steps = run.done.zip(run.planned);
        rows.push([
            run.run.clone(),
            run.cluster.clone().unwrap_or_else(dash),
            run.started.clone().unwrap_or_else(dash),
            run.took_ms
                .map_or_else(dash, |took| duration::shown(Duration::from_millis(took))),
            run.state.map_or("unreadable", word).to_owned(),
            steps.map_or_else(dash, |(done, planned)| format!("{done}/{planned}")),
            match &run.unreadable {
                Some(words) => words.clone(),
                None => run.command.clone().unwrap_or_default(),
            },
        ]);
    }
    table(&rows)
}

/// Rows in columns that are as wide as they must be.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// One run, with its steps and what failed.
pub fn show(document: &RunRecordDocument<'_>) -> String {
    let record = document.record;
    let mut out = String::new();
    let _ = writeln!(out, "run {}: {}", record.run, record.command);
    let took = duration::shown(Duration::from_millis(took_ms(record)));
    let after = if record.state == RunState::Running {
        "for"
    } else {
        "after"
    };
    let _ = writeln!(
        out,
        "cluster `{}`, began {}, {} {after} {took}: {} of {} done",
        record.cluster,
        moment(record.started),
        word(record.state),
        done(record),
        plural(record.planned, "step"),
    );
    if let Some(mark) = stand_in_mark(&record.stand_ins) {
        let _ = writeln!(out, "{mark}");
    }
    if record.state == RunState::CutOff {
        let _ = writeln!(
            out,
            "it ended without a word, killed or by loss of power: `mullion up` goes on where it stopped"
        );
    }
    if !record.steps.is_empty() {
        let head = ["STEP", "STAGE", "STATE", "BEGAN", "TOOK", "TRIES"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(record.steps.iter().map(|step| row(record, step)));
        let _ = write!(out, "\n{}", table(&rows));
    }
    for step in &record.steps {
        failure(&mut out, step);
    }
    if !record.blocked.is_empty() {
        let _ = writeln!(out, "\nnot begun because of others:");
        for blocked in &record.blocked {
            let by: Vec<_> = blocked.by.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "  {}, because of {}", blocked.tag.id, by.join(", "));
        }
    }
    if let Some(number) = record.not_started.filter(|number| *number > 0) {
        let _ = writeln!(
            out,
            "\n{} not begun, since the run ended before",
            plural(number, "step")
        );
    }
    let _ = writeln!(
        out,
        "\njournal: {}\nlog: {}",
        document.journal, document.log
    );
    out
}

fn row(record: &RunRecord, step: &StepRecord) -> [String; 6] {
    let began = step.begun.as_millisecond() - record.started.as_millisecond();
    let began = Duration::from_millis(u64::try_from(began).unwrap_or(0));
    [
        step.tag.id.to_string(),
        step.tag.stage.to_string(),
        match step.state {
            StepState::UnderWay if record.state == RunState::Running => "under way",
            StepState::UnderWay => "cut off",
            StepState::Done => "done",
            StepState::Failed => "failed",
            StepState::Interrupted => "called off",
        }
        .to_owned(),
        format!("+{}", duration::shown(began)),
        step.took_ms.map_or_else(
            || "-".into(),
            |took| duration::shown(Duration::from_millis(took)),
        ),
        step.attempts.to_string(),
    ]
}

fn failure(out: &mut String, step: &StepRecord) {
    for earlier in &step.tries {
        let _ = writeln!(
            out,
            "\n{} was tried again: {}",
            step.tag.id, earlier.error.words
        );
    }
    let Some(error) = &step.error else { return };
    let _ = writeln!(
        out,
        "\n{} ({}): {}",
        step.tag.id, step.tag.title, error.words
    );
    for cause in &error.causes {
        let _ = writeln!(out, "  because: {cause}");
    }
    if !error.tail.is_empty() {
        let _ = writeln!(out, "  last lines:");
        for line in &error.tail {
            let _ = writeln!(out, "    {line}");
        }
    }
    for hint in &error.hints {
        let _ = writeln!(out, "  hint: {hint}");
    }
    if let Some(log) = &error.log {
        let _ = writeln!(out, "  log: {}", log.display());
    }
}

#[cfg(test)]
mod tests {
    use mullion_engine::Alive;

    use super::*;

    /// Two steps of a run: one done, one failed at its second try.
    pub(crate) const JOURNAL: &str = concat!(
        r#"{"line":"run","version":1,"run":"20260107-085730123-4f2a","started":"2026-01-07T08:57:30.123Z","pid":7,"cluster":"demo","command":"mullion up","mullion":"0.1.0","direction":"do","plan":"0123456789abcdef","steps":3}"#,
        "\n",
        r#"{"line":"begin","at":"2026-01-07T08:57:31Z","step":"start/lin1","stage":"machines","machine":"lin1","title":"start lin1","attempt":1}"#,
        "\n",
        r#"{"line":"end","at":"2026-01-07T08:57:33Z","step":"start/lin1","outcome":"done","tookMs":2000,"waitedMs":0,"attempts":1}"#,
        "\n",
        r#"{"line":"begin","at":"2026-01-07T08:57:33Z","step":"reach/lin1","stage":"machines","machine":"lin1","title":"reach lin1","attempt":1}"#,
        "\n",
    );
    const FAILED: &str = concat!(
        r#"{"line":"end","at":"2026-01-07T08:57:40Z","step":"reach/lin1","outcome":"failed","tookMs":7000,"waitedMs":0,"attempts":1,"error":{"class":"unreachable","words":"lin1 does not answer","causes":["no route"],"hints":["look at it"],"tail":["last line"]}}"#,
        "\n",
        r#"{"line":"blocked","step":"join/lin1","stage":"join","machine":"lin1","title":"join lin1","by":["reach/lin1"]}"#,
        "\n",
        r#"{"line":"close","at":"2026-01-07T08:57:40Z","outcome":"failed","tookMs":9877,"notStarted":0}"#,
        "\n",
    );

    fn text(journal: &str, alive: Alive) -> String {
        let record = RunRecord::parse(journal, alive).unwrap();
        show(&RunRecordDocument {
            record: &record,
            journal: "/runs/journal.jsonl".into(),
            log: "/runs/log.txt".into(),
            page: None,
        })
    }

    #[test]
    fn a_run_that_was_killed_is_cut_off_and_one_that_goes_on_is_not() {
        let killed = text(JOURNAL, Alive::No);
        assert!(killed.contains("cut off after"), "{killed}");
        assert!(killed.contains("`mullion up` goes on"), "{killed}");
        let goes_on = text(JOURNAL, Alive::Yes);
        assert!(
            goes_on.contains("running for") && goes_on.contains("under way"),
            "{goes_on}"
        );
    }

    #[test]
    fn a_failure_is_told_with_cause_last_lines_remedy_and_what_it_kept_back() {
        let failed = text(&format!("{JOURNAL}{FAILED}"), Alive::No);
        insta::assert_snapshot!(failed, @r"
        run 20260107-085730123-4f2a: mullion up
        cluster `demo`, began 2026-01-07T08:57:30Z, failed after 9.9 s: 1 of 3 steps done

        STEP        STAGE     STATE   BEGAN   TOOK  TRIES
        start/lin1  machines  done    +0.9 s  2 s   1
        reach/lin1  machines  failed  +2.9 s  7 s   1

        reach/lin1 (reach lin1): lin1 does not answer
          because: no route
          last lines:
            last line
          hint: look at it

        not begun because of others:
          join/lin1, because of reach/lin1

        journal: /runs/journal.jsonl
        log: /runs/log.txt
        ");
    }
}
