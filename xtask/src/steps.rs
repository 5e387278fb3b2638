//! Named steps of a long command, each with a heading and its time.

use std::time::{Duration, Instant};

use crate::XtaskError;
use crate::table::{self, Align};

/// How a step that did not fail ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It did what its name says.
    Done,
    /// It could not be done here, and that is no failure. Holds the reason.
    Skipped(String),
}

/// Runs steps one after the other and remembers how each ended and how long it took.
#[derive(Debug, Default)]
pub struct Steps {
    ended: Vec<(&'static str, Outcome, Duration)>,
}

impl Steps {
    /// Runs one step. Its failure comes back with its name and its time, and is the end of the command.
    pub fn run(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<Outcome, XtaskError>,
    ) -> Result<(), XtaskError> {
        println!("== {name}");
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        let outcome = result.map_err(|cause| XtaskError::Step {
            name,
            took,
            cause: Box::new(cause),
        })?;
        match &outcome {
            Outcome::Done => println!("   {}", seconds(took)),
            Outcome::Skipped(reason) => println!("   skipped: {reason}"),
        }
        self.ended.push((name, outcome, took));
        Ok(())
    }

    /// The steps that ran, with their times and the sum.
    pub fn summary(&self) -> String {
        let mut rows: Vec<Vec<String>> = self
            .ended
            .iter()
            .map(|(name, outcome, took)| {
                let note = match outcome {
                    Outcome::Done => String::new(),
                    Outcome::Skipped(_) => "skipped".into(),
                };
                vec![(*name).into(), seconds(*took), note]
            })
            .collect();
        let sum = self.ended.iter().map(|(_, _, took)| *took).sum();
        rows.push(vec!["in all".into(), seconds(sum)]);
        table::render(&[Align::Left, Align::Right, Align::Left], &rows)
    }
}

/// A duration as people read it in a table: seconds, one digit after the point.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_was_skipped() {
        let steps = Steps {
            ended: vec![
                ("format", Outcome::Done, Duration::from_millis(430)),
                (
                    "advisories",
                    Outcome::Skipped("no network".into()),
                    Duration::from_millis(70),
                ),
            ],
        };
        assert_eq!(
            steps.summary(),
            "\x20 format      0.4 s\n\
             \x20 advisories  0.1 s  skipped\n\
             \x20 in all      0.5 s\n"
        );
    }

    #[test]
    fn a_failed_step_comes_back_with_its_name_and_is_not_in_the_summary() {
        let mut steps = Steps::default();
        steps.run("first", || Ok(Outcome::Done)).unwrap();
        let error = steps
            .run("second", || Err(XtaskError::NoCargoHome))
            .unwrap_err();
        assert!(matches!(error, XtaskError::Step { name: "second", .. }));
        assert!(!steps.summary().contains("second"));
    }
}
