//! The picture in the page: a row a machine, and one a stage for what is about no machine.

use std::fmt::Write as _;
use std::time::Duration;

use mullion_plan::Stage;
use mullion_spec::value::MachineName;

use super::{length, shown_ms, span, tries};
use crate::record::{RunRecord, StepRecord, StepState};
use mullion_wire::duration::shown;
use mullion_wire::text::markup;

const NAMES: i64 = 150;
const WIDTH: i64 = 1000;
const BAR: i64 = 16;
const GAP: i64 = 8;
const AXIS: i64 = 24;
/// The narrowest bar that the eye finds.
const NARROW: i64 = 2;
/// How many marks the axis has at most.
const MARKS: i64 = 12;
/// The distances between marks, in milliseconds.
const DISTANCES: [i64; 16] = [
    10, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000, 21_600_000,
];

/// Whose row it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Stage(Stage),
    Machine(MachineName),
}

/// A row, in as many tracks as steps went on at once.
struct Row<'a> {
    owner: Owner,
    tracks: Vec<Vec<&'a StepRecord>>,
}

pub(super) fn draw(out: &mut String, record: &RunRecord) {
    let rows = rows(record);
    let tracks: usize = rows.iter().map(|row| row.tracks.len()).sum();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX / 1_000);
    let height = AXIS + count(tracks) * BAR + count(rows.len()) * GAP + GAP;
    let total = length(record).max(1);
    let x = |at: i64| NAMES + at * WIDTH / total;
    let width = NAMES + WIDTH + 20;
    let _ = writeln!(
        out,
        "<div class=\"wide\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">"
    );
    let distance = DISTANCES
        .into_iter()
        .find(|distance| total / distance < MARKS)
        .unwrap_or(86_400_000);
    let mut mark = 0;
    while mark <= total {
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{0}\" y1=\"{AXIS}\" x2=\"{0}\" y2=\"{height}\"/>\
             <text class=\"soft\" x=\"{0}\" y=\"{1}\">{2}</text>",
            x(mark),
            AXIS - 8,
            shown(Duration::from_millis(u64::try_from(mark).unwrap_or(0)))
        );
        mark += distance;
    }
    let mut y = AXIS + GAP / 2;
    for row in &rows {
        let name = match &row.owner {
            Owner::Stage(stage) => stage.to_string(),
            Owner::Machine(machine) => machine.to_string(),
        };
        let weight = match row.owner {
            Owner::Stage(_) => " class=\"soft\"",
            Owner::Machine(_) => "",
        };
        let _ = writeln!(
            out,
            "<text{weight} x=\"0\" y=\"{}\">{}</text>",
            y + BAR - 4,
            markup(&name)
        );
        for track in &row.tracks {
            for step in track {
                bar(out, record, step, y, x);
            }
            y += BAR;
        }
        y += GAP;
    }
    out.push_str("</svg></div>\n<p class=\"soft\">");
    for state in ["done", "failed", "interrupted", "under-way"] {
        let _ = write!(
            out,
            "<i class=\"key\" style=\"background:var(--{state})\"></i> {state} "
        );
    }
    out.push_str("</p>\n");
}

fn bar(out: &mut String, record: &RunRecord, step: &StepRecord, y: i64, x: impl Fn(i64) -> i64) {
    let (begin, end) = span(record, step);
    let class = match step.state {
        StepState::Done => "done",
        StepState::Failed => "failed",
        StepState::Interrupted => "interrupted",
        StepState::UnderWay => "under-way",
    };
    let mut story = format!("{}\n{}: {class}", step.tag.title, shown_ms(end - begin));
    if step.attempts > 1 {
        let _ = write!(story, ", {}", tries(step.attempts));
    }
    if let Some(error) = &step.error {
        let _ = write!(story, "\n{}", error.words);
    }
    let width = (x(end) - x(begin) - 1).max(NARROW);
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"2\"><title>{}</title></rect>",
        x(begin),
        y + 1,
        BAR - 2,
        markup(&story)
    );
    for earlier in &step.tries {
        let at = x((earlier.at.as_millisecond() - record.started.as_millisecond()).max(0));
        let _ = writeln!(
            out,
            "<line class=\"try\" x1=\"{at}\" y1=\"{}\" x2=\"{at}\" y2=\"{}\"/>",
            y + 2,
            y + BAR - 2
        );
    }
}

/// The stages of what is about no machine, then the machines, each as they first had a step.
fn rows(record: &RunRecord) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for step in &record.steps {
        let machine = step.tag.machine.clone();
        let owner = machine.map_or(Owner::Stage(step.tag.stage), Owner::Machine);
        let place = rows
            .iter()
            .position(|row| row.owner == owner)
            .unwrap_or_else(|| {
                let tracks = Vec::new();
                rows.push(Row { owner, tracks });
                rows.len() - 1
            });
        let (begin, _) = span(record, step);
        let is_free = |track: &&mut Vec<&StepRecord>| {
            track
                .last()
                .is_none_or(|last| span(record, last).1 <= begin)
        };
        let tracks = &mut rows[place].tracks;
        match tracks.iter_mut().find(is_free) {
            Some(track) => track.push(step),
            None => tracks.push(vec![step]),
        }
    }
    rows.sort_by_key(|row| match row.owner {
        Owner::Stage(stage) => (0, Some(stage)),
        Owner::Machine(_) => (1, None),
    });
    rows
}
