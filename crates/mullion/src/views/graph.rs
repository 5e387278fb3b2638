//! A plan as a picture: one row a machine, from left to right what waits for what.
//!
//! Plain SVG text without scripts or fonts of its own: it opens in any browser and compares well.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_plan::{Plan, STAGES, Stage, Step};
use mullion_wire::text::{markup, one_line};

const BOX_WIDTH: usize = 190;
const BOX_HEIGHT: usize = 34;
const GAP_X: usize = 46;
const GAP_Y: usize = 12;
const MARGIN: usize = 24;
const LANE_NAME: usize = 120;
const LEGEND: usize = 56;

/// Quiet colours, one a stage, told apart in print as well by the stage's word in each box.
const COLOURS: [&str; 13] = [
    "#dbe4f0", "#cfe3da", "#e6e0d0", "#d9e8f5", "#efe3c8", "#dfe8cf", "#e3d7ea", "#cfe0e8",
    "#f0dcd2", "#d5e3c8", "#e9dfe6", "#eed3d3", "#d8ded8",
];

/// Fewer steps than this are drawn one by one even where they are alike.
const ALIKE: usize = 4;

/// Where a box is drawn.
struct Spot {
    x: usize,
    y: usize,
}

/// What one box stands for: a step, or several of one kind that wait for the same and are waited for alike.
struct Sheaf<'a> {
    steps: Vec<&'a Step>,
    needs: Vec<usize>,
}

impl Sheaf<'_> {
    fn lane(&self) -> &str {
        self.steps[0]
            .machine
            .as_ref()
            .map_or("cluster", |name| name.as_str())
    }

    fn title(&self) -> String {
        match self.steps.as_slice() {
            [step] => step.title(),
            steps => format!("{} x {}", steps.len(), kind(steps[0])),
        }
    }

    /// What is shown on hovering.
    fn story(&self) -> String {
        let lines: Vec<_> = self
            .steps
            .iter()
            .map(|step| format!("{}: {}", step.title(), step.reason))
            .collect();
        lines.join("\n")
    }
}

/// The picture.
pub fn svg(plan: &Plan) -> String {
    let sheaves = sheaves(plan);
    let needs: Vec<&[usize]> = sheaves.iter().map(|sheaf| sheaf.needs.as_slice()).collect();
    let columns = columns(&needs);
    let (lanes, spots, height) = lay_out(&sheaves, &columns);
    let width = MARGIN * 2
        + LANE_NAME
        + (columns.iter().max().map_or(0, |last| last + 1)) * (BOX_WIDTH + GAP_X);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{} steps</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
        plan.steps().len()
    );
    for (name, top, bottom) in &lanes {
        let _ = writeln!(
            out,
            "<line x1=\"{MARGIN}\" y1=\"{bottom}\" x2=\"{}\" y2=\"{bottom}\" stroke=\"#e5e5e5\"/>\n\
             <text x=\"{MARGIN}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            width - MARGIN,
            top + BOX_HEIGHT / 2 + 4,
            escaped(name)
        );
    }
    for (at, sheaf) in sheaves.iter().enumerate() {
        for need in &sheaf.needs {
            edge(&mut out, &spots[*need], &spots[at]);
        }
    }
    for (sheaf, spot) in sheaves.iter().zip(&spots) {
        draw(&mut out, sheaf, spot);
    }
    legend(&mut out, plan.steps());
    out.push_str("</svg>\n");
    out
}

/// The first part of a step's id: what kind of step it is.
fn kind(step: &Step) -> &str {
    step.id.as_str().split('/').next().unwrap_or_default()
}

/// Binds steps together that nothing in the picture would tell apart.
fn sheaves(plan: &Plan) -> Vec<Sheaf<'_>> {
    let steps = plan.steps();
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let waiting: Vec<_> = plan.after(&step.id).map(|after| &after.id).collect();
        alike
            .entry((&step.machine, kind(step), &step.needs, waiting))
            .or_default()
            .push(at);
    }
    let mut bound: Vec<Vec<usize>> = alike
        .into_values()
        .flat_map(|members| {
            if members.len() < ALIKE {
                members.into_iter().map(|at| vec![at]).collect()
            } else {
                vec![members]
            }
        })
        .collect();
    bound.sort_unstable();
    let mut sheaf_of: BTreeMap<_, usize> = BTreeMap::new();
    for (number, members) in bound.iter().enumerate() {
        for at in members {
            sheaf_of.insert(&steps[*at].id, number);
        }
    }
    bound
        .iter()
        .map(|members| {
            let needs = steps[members[0]].needs.iter();
            let mut needs: Vec<_> = needs
                .filter_map(|need| sheaf_of.get(need).copied())
                .collect();
            needs.sort_unstable();
            needs.dedup();
            Sheaf {
                steps: members.iter().map(|at| &steps[*at]).collect(),
                needs,
            }
        })
        .collect()
}

/// How far to the right each box stands: one column behind the last of its needs.
fn columns(needs: &[&[usize]]) -> Vec<usize> {
    let mut columns = Vec::with_capacity(needs.len());
    for needs in needs {
        // A plan's order puts needs first, so their columns are known here.
        let column = needs
            .iter()
            .map(|need| columns[*need] + 1)
            .max()
            .unwrap_or(0);
        columns.push(column);
    }
    columns
}

type Lane<'a> = (&'a str, usize, usize);

/// Gives each machine a lane that is as high as its fullest column.
fn lay_out<'a>(sheaves: &'a [Sheaf<'_>], columns: &[usize]) -> (Vec<Lane<'a>>, Vec<Spot>, usize) {
    let mut lanes: Vec<&str> = Vec::new();
    let mut lane_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut filled: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut heights: Vec<usize> = Vec::new();
    let mut cells = Vec::with_capacity(sheaves.len());
    for (sheaf, column) in sheaves.iter().zip(columns) {
        let name = sheaf.lane();
        let lane = *lane_of.entry(name).or_insert_with(|| {
            lanes.push(name);
            heights.push(0);
            lanes.len() - 1
        });
        let row = filled.entry((lane, *column)).or_default();
        cells.push((lane, *row));
        *row += 1;
        heights[lane] = heights[lane].max(*row);
    }
    let mut top = MARGIN + LEGEND;
    let mut tops = Vec::with_capacity(lanes.len());
    let mut drawn = Vec::with_capacity(lanes.len());
    for (name, height) in lanes.iter().zip(&heights) {
        let bottom = top + height * (BOX_HEIGHT + GAP_Y);
        tops.push(top);
        drawn.push((*name, top, bottom));
        top = bottom + GAP_Y;
    }
    let spots = cells
        .iter()
        .zip(columns)
        .map(|((lane, row), column)| Spot {
            x: MARGIN + LANE_NAME + column * (BOX_WIDTH + GAP_X),
            y: tops[*lane] + row * (BOX_HEIGHT + GAP_Y),
        })
        .collect();
    (drawn, spots, top + MARGIN)
}

fn edge(out: &mut String, from: &Spot, to: &Spot) {
    let (x1, y1) = (from.x + BOX_WIDTH, from.y + BOX_HEIGHT / 2);
    let (x2, y2) = (to.x, to.y + BOX_HEIGHT / 2);
    let bend = GAP_X / 2;
    let _ = writeln!(
        out,
        "<path d=\"M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#9aa5b1\" stroke-opacity=\"0.6\"/>",
        x1 + bend,
        x2.saturating_sub(bend)
    );
}

fn draw(out: &mut String, sheaf: &Sheaf<'_>, spot: &Spot) {
    let stage = sheaf.steps[0].stage;
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"4\" \
         fill=\"{}\" stroke=\"#7b8794\"/><text x=\"{}\" y=\"{}\">{}</text>\
         <text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#52606d\">{}</text></g>",
        escaped(&sheaf.story()),
        spot.x,
        spot.y,
        colour(stage),
        spot.x + 8,
        spot.y + 15,
        escaped(&shortened(&sheaf.title())),
        spot.x + 8,
        spot.y + 28,
        STAGES
            .iter()
            .find(|row| row.stage == stage)
            .map_or("", |row| row.word),
    );
}

fn legend(out: &mut String, steps: &[Step]) {
    let mut x = MARGIN;
    for row in STAGES
        .iter()
        .filter(|row| steps.iter().any(|step| step.stage == row.stage))
    {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{MARGIN}\" width=\"12\" height=\"12\" fill=\"{}\" stroke=\"#7b8794\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            colour(row.stage),
            x + 18,
            MARGIN + 11,
            row.word
        );
        x += 40 + row.word.len() * 8;
    }
}

fn colour(stage: Stage) -> &'static str {
    STAGES
        .iter()
        .position(|row| row.stage == stage)
        .and_then(|at| COLOURS.get(at))
        .unwrap_or(&"#eeeeee")
}

/// What fits into a box; the whole title is shown on hovering.
fn shortened(title: &str) -> String {
    const FITS: usize = 26;
    if title.chars().count() <= FITS {
        return title.to_owned();
    }
    let kept: String = title.chars().take(FITS - 1).collect();
    format!("{kept}…")
}

fn escaped(text: &str) -> String {
    markup(&one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_12_text_from_the_file_cannot_become_markup_or_break_it() {
        assert_eq!(escaped("a\u{1b}[2J\u{202e}\u{0}b"), "ab");
        assert_eq!(
            escaped("<script>\"a\" & b"),
            "&lt;script&gt;&quot;a&quot; &amp; b"
        );
        assert_eq!(shortened(&"ä".repeat(40)).chars().count(), 26);
    }

    #[test]
    fn every_stage_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<_> =
            STAGES.iter().map(|row| colour(row.stage)).collect();
        assert_eq!(colours.len(), STAGES.len());
    }

    #[test]
    fn a_step_stands_behind_the_last_of_its_needs() {
        assert_eq!(columns(&[&[], &[0], &[0], &[1, 2], &[]]), [0, 1, 1, 2, 0]);
    }
}
