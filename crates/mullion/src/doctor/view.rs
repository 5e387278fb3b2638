//! What a person reads: first what can be done here, then what stands in its way, then what to type.

use std::fmt::Write as _;
use std::io;

use anstyle::Style;

use super::examine::{Diagnosis, State};
use super::report::{ActivityReport, DoctorReport, Readiness};
use crate::console::{BAD, Console, FAINT, Format, GOOD, STRONG, WARN};

/// How wide the list of what is well may get.
const WIDTH: usize = 100;

/// Shows a report in the console's form.
pub(super) fn show(console: &mut Console<'_>, report: &DoctorReport) -> io::Result<()> {
    match console.format {
        Format::Json => console.json("Doctor", report),
        Format::Text => {
            let paint = |style: Style, text: &str| console.styled(style, text);
            let text = text(report, &paint);
            console.out.write_all(text.as_bytes())
        }
    }
}

/// Puts a text in a style, or leaves it plain.
type Paint<'a> = &'a dyn Fn(Style, &str) -> String;

fn text(report: &DoctorReport, paint: Paint<'_>) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    let computer = &report.computer;
    line(&format!(
        "This computer: {}, kernel {}",
        computer.system.name, computer.kernel.release
    ));
    line("");
    for activity in &report.activities {
        line(&readiness(activity, report, paint));
    }
    for state in [State::Missing, State::Weak, State::NotProven] {
        let found: Vec<_> = report
            .diagnoses
            .iter()
            .filter(|found| found.state == state)
            .collect();
        for diagnosis in &found {
            line("");
            for text in details(diagnosis, report, paint) {
                line(&text);
            }
        }
    }
    let well = report
        .diagnoses
        .iter()
        .filter(|found| found.state == State::Ok);
    let well: Vec<_> = well.map(|found| found.title.as_str()).collect();
    if !well.is_empty() {
        line("");
        for text in wrapped(&format!("{}: {}", paint(GOOD, "ok"), well.join(", "))) {
            line(&text);
        }
    }
    if !report.commands.is_empty() {
        line("");
        line("These commands install what is missing:");
        for command in &report.commands {
            line(&format!("    {command}"));
        }
    }
    for (place, next) in report.next.iter().enumerate() {
        if place == 0 {
            line("");
            line(&paint(STRONG, "Next:"));
        }
        line(&format!("  - {next}"));
    }
    out
}

fn readiness(activity: &ActivityReport, report: &DoctorReport, paint: Paint<'_>) -> String {
    let titles: Vec<_> = activity
        .because
        .iter()
        .filter_map(|id| title(id, report))
        .collect();
    let titles = titles.join(", ");
    let answer = match activity.readiness {
        Readiness::Ready => paint(GOOD, "ready"),
        Readiness::NotProven => format!(
            "{}; not proven: {titles}",
            paint(WARN, "ready as far as can be told")
        ),
        Readiness::NotReady => format!("{}, lacking {titles}", paint(BAD, "not ready")),
    };
    // Said only of some: a list in which all are marked marks none.
    let is_optional = !activity.is_wanted && report.activities.iter().any(|other| other.is_wanted);
    let note = match (is_optional, activity.readiness) {
        (true, Readiness::NotReady) => paint(FAINT, " (not needed now)"),
        (_, Readiness::Ready | Readiness::NotProven | Readiness::NotReady) => String::new(),
    };
    format!("{}: {answer}{note}", paint(STRONG, &activity.title))
}

fn title<'a>(id: &str, report: &'a DoctorReport) -> Option<&'a str> {
    let found = report
        .diagnoses
        .iter()
        .find(|found| found.requirement == id)?;
    Some(&found.title)
}

fn details(found: &Diagnosis, report: &DoctorReport, paint: Paint<'_>) -> Vec<String> {
    let word = match found.state {
        State::Missing if found.blocks.is_empty() => paint(WARN, "missing"),
        State::Missing => paint(BAD, "missing"),
        State::Weak => paint(WARN, "weak"),
        State::NotProven => paint(WARN, "not proven"),
        State::Ok => paint(GOOD, "ok"),
    };
    let mut lines = vec![format!(
        "{word}: {} ({})",
        paint(STRONG, &found.title),
        found.purpose
    )];
    let mut detail = |name: &str, text: &str| {
        let mut line = String::new();
        // A String takes whatever is written to it.
        let _ = write!(line, "  {name:8} {text}");
        lines.push(line);
    };
    let activities = |ids: &[String]| {
        let about = report
            .activities
            .iter()
            .filter(|activity| ids.contains(&activity.id));
        about
            .map(|activity| activity.title.as_str())
            .collect::<Vec<_>>()
            .join("; ")
    };
    detail("seen:", &found.seen);
    if !found.blocks.is_empty() {
        detail("blocks:", &activities(&found.blocks));
    }
    if !found.hampers.is_empty() {
        detail("hampers:", &activities(&found.hampers));
    }
    if let Some(remedy) = &found.remedy {
        detail("remedy:", remedy);
    }
    lines
}

/// Breaks a list at its blanks, the later lines indented.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
