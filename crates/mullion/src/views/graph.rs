//! A plan as a picture: one row a machine, from left to right what waits for what.
//!
//! Plain SVG text without scripts or fonts of its own: it opens in any browser and compares well.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_plan::{Plan, STAGES, Stage, Step};

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

/// Where a step is drawn.
struct Spot {
    x: usize,
    y: usize,
}

/// The picture.
pub fn svg(plan: &Plan) -> String {
    let steps = plan.steps();
    let position: BTreeMap<_, _> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| (&step.id, at))
        .collect();
    let needs: Vec<Vec<usize>> = steps
        .iter()
        .map(|step| {
            step.needs
                .iter()
                .filter_map(|need| position.get(need).copied())
                .collect()
        })
        .collect();
    let columns = columns(&needs);
    let (lanes, spots, height) = lay_out(steps, &columns);
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
        steps.len()
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
    for (at, needs) in needs.iter().enumerate() {
        for need in needs {
            edge(&mut out, &spots[*need], &spots[at]);
        }
    }
    for (step, spot) in steps.iter().zip(&spots) {
        draw(&mut out, step, spot);
    }
    legend(&mut out, steps);
    out.push_str("</svg>\n");
    out
}

/// How far to the right each step stands: one column behind the last of its needs.
fn columns(needs: &[Vec<usize>]) -> Vec<usize> {
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
fn lay_out<'a>(steps: &'a [Step], columns: &[usize]) -> (Vec<Lane<'a>>, Vec<Spot>, usize) {
    let mut lanes: Vec<&str> = Vec::new();
    let mut lane_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut filled: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut heights: Vec<usize> = Vec::new();
    let mut cells = Vec::with_capacity(steps.len());
    for (step, column) in steps.iter().zip(columns) {
        let name = step
            .machine
            .as_ref()
            .map_or("cluster", |name| name.as_str());
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

fn draw(out: &mut String, step: &Step, spot: &Spot) {
    let _ = writeln!(
        out,
        "<g><title>{}: {}</title><rect x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"4\" \
         fill=\"{}\" stroke=\"#7b8794\"/><text x=\"{}\" y=\"{}\">{}</text>\
         <text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#52606d\">{}</text></g>",
        escaped(&step.title),
        escaped(&step.reason),
        spot.x,
        spot.y,
        colour(step.stage),
        spot.x + 8,
        spot.y + 15,
        escaped(&shortened(&step.title)),
        spot.x + 8,
        spot.y + 28,
        STAGES
            .iter()
            .find(|row| row.stage == step.stage)
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
    const FITS: usize = 29;
    if title.chars().count() <= FITS {
        return title.to_owned();
    }
    let kept: String = title.chars().take(FITS - 1).collect();
    format!("{kept}…")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_the_file_cannot_become_markup() {
        assert_eq!(
            escaped("<script>\"a\" & b"),
            "&lt;script&gt;&quot;a&quot; &amp; b"
        );
        assert_eq!(shortened(&"ä".repeat(40)).chars().count(), 29);
    }

    #[test]
    fn every_stage_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<_> =
            STAGES.iter().map(|row| colour(row.stage)).collect();
        assert_eq!(colours.len(), STAGES.len());
    }

    #[test]
    fn a_step_stands_behind_the_last_of_its_needs() {
        assert_eq!(
            columns(&[vec![], vec![0], vec![0], vec![1, 2], vec![]]),
            [0, 1, 1, 2, 0]
        );
    }
}
