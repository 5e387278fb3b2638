//! A run while it goes on: a board with one line a machine, or plain lines where nobody can be shown a board.
//!
//! Pure: events and times in, text out. Whoever holds the terminal paints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use mullion_engine::{Board, Current, Event, NewsItem, Outcome};
use mullion_plan::StepId;
use mullion_spec::value::MachineName;
use mullion_wire::duration;

/// How wide a bar is.
const BAR: usize = 20;
/// How often a plain line tells of an amount or a wait, and after how long of a step that says nothing.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);
/// How often it is told again of a step that says nothing.
const SILENT_PAUSE: Duration = Duration::from_secs(30);
/// How many steps that say nothing are told of at once.
const SILENT_LINES: usize = 8;

/// What plain lines tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// What becomes of the steps.
    Steps,
    /// Besides, everything that programs say.
    Everything,
}

/// A run, as its events tell it.
#[derive(Debug)]
pub struct Progress {
    started: Timestamp,
    steps: usize,
    done: usize,
    board: Board,
    talk: Talk,
    /// The steps that are under way.
    told: BTreeMap<StepId, Told>,
    /// Whether the run ends before its plan does, and how.
    stopping: Option<Stopping>,
}

/// How a run ends after Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// Steps that are under way come to their end.
    AtStepEnds,
    /// Nobody waits for them.
    Now,
}

/// When a plain line last told of a step, and how long it may say nothing until the next.
#[derive(Debug)]
struct Told {
    at: Timestamp,
    pause: Duration,
}

impl Progress {
    /// Of a run that begins at that time.
    pub fn new(started: Timestamp, talk: Talk) -> Self {
        Self {
            started,
            steps: 0,
            done: 0,
            board: Board::new(),
            talk,
            told: BTreeMap::new(),
            stopping: None,
        }
    }

    /// Takes an event; gives the plain lines that tell of it.
    pub fn see(&mut self, at: Timestamp, event: &Event) -> Vec<String> {
        self.board.see(at, event);
        match event {
            Event::RunStarted { steps, .. } => {
                self.started = at;
                self.steps = *steps;
                Vec::new()
            }
            Event::StepStarted { tag, .. } => {
                let pause = PLAIN_PAUSE;
                self.told.insert(tag.id.clone(), Told { at, pause });
                Vec::new()
            }
            Event::StepNews {
                step,
                machine,
                news: NewsItem::Line { text },
            } if self.talk == Talk::Everything => {
                if let Some(told) = self.told.get_mut(step) {
                    told.at = at;
                }
                let who = machine.as_ref().map_or("-", MachineName::as_str);
                vec![self.line(at, who, &format!("| {}", text.trim_end()))]
            }
            Event::StepNews {
                step,
                news: NewsItem::Amount { done, total, unit },
                ..
            } => self.now_and_then(at, step, || amount(*done, *total, unit)),
            Event::StepRetried { step, why, .. } => {
                vec![self.line(at, step.as_str(), &format!("tries again: {why}"))]
            }
            Event::Waiting {
                step,
                gate,
                why,
                remaining_ms,
                ..
            } => {
                let left = duration::shown(Duration::from_millis(*remaining_ms));
                let words = || format!("waiting for {gate}: {why} ({left} left)");
                self.now_and_then(at, step, words)
            }
            Event::StepEnded {
                tag,
                outcome,
                took_ms,
            } => {
                self.told.remove(&tag.id);
                let took = duration::shown(Duration::from_millis(*took_ms));
                let verdict = match outcome {
                    Outcome::Done => {
                        self.done += 1;
                        format!("{} ({took})", tag.title)
                    }
                    Outcome::Failed { error } => {
                        format!("FAILED after {took}: {}: {}", tag.title, error.words)
                    }
                    _ => format!("not finished: {}", tag.title),
                };
                let who = tag.machine.as_ref().map_or("-", MachineName::as_str);
                vec![self.line(at, who, &format!("{:<13} {verdict}", tag.stage))]
            }
            Event::Cancelling {
                under_way,
                called_off,
            } => {
                let how = if *called_off {
                    Stopping::Now
                } else {
                    Stopping::AtStepEnds
                };
                self.stopping = Some(how);
                vec![self.line(at, "-", &stopping(how, under_way.len()))]
            }
            _ => Vec::new(),
        }
    }

    /// A plain line of a step that takes long, unless one was written a moment ago.
    fn now_and_then(
        &mut self,
        at: Timestamp,
        step: &StepId,
        words: impl FnOnce() -> String,
    ) -> Vec<String> {
        match self.told.get_mut(step) {
            Some(told) if elapsed(told.at, at) >= PLAIN_PAUSE => told.at = at,
            _ => return Vec::new(),
        }
        vec![self.line(at, step.as_str(), &words())]
    }

    /// Plain lines of steps that go on and have said nothing for a while, so that nobody takes a run for dead.
    pub fn still(&mut self, now: Timestamp) -> Vec<String> {
        let mut silent = Vec::new();
        for row in &self.board.rows {
            for step in &row.current {
                if let Some(told) = self.told.get_mut(&step.id)
                    && elapsed(told.at, now) >= told.pause
                {
                    *told = Told {
                        at: now,
                        pause: SILENT_PAUSE,
                    };
                    silent.push((row.machine.as_ref(), step));
                }
            }
        }
        let mut lines: Vec<_> = silent
            .iter()
            .take(SILENT_LINES)
            .map(|(machine, step)| {
                let who = machine.map_or("-", MachineName::as_str);
                let time = duration::shown(elapsed(step.since, now));
                let heard = heard(step).map_or_else(String::new, |heard| format!(": {heard}"));
                let stage = step.stage.row().word;
                let words = format!("{stage:<13} still: {} ({time}){heard}", step.title);
                self.line(now, who, &words)
            })
            .collect();
        if silent.len() > SILENT_LINES {
            let more = silent.len() - SILENT_LINES;
            lines.push(self.line(now, "-", &format!("still: {more} more")));
        }
        lines
    }

    /// A plain line: when, who, what.
    fn line(&self, at: Timestamp, who: &str, words: &str) -> String {
        let time = duration::shown(elapsed(self.started, at));
        format!("{time:>8}  {who:<10} {words}")
    }

    /// The board: a heading, then a line for each machine and for each step that goes on besides.
    pub fn frame(&self, now: Timestamp, width: usize) -> Vec<String> {
        let time = duration::shown(elapsed(self.started, now));
        let mut lines = vec![format!("{time:>8}  {} of {} steps", self.done, self.steps)];
        lines.extend(self.stopping.map(|how| {
            let rows = self.board.rows.iter();
            let under_way = rows.map(|row| row.current.len()).sum();
            format!("{:>8}  {}", "", stopping(how, under_way))
        }));
        for row in &self.board.rows {
            let who = row.machine.as_ref().map_or("", MachineName::as_str);
            lines.extend(row.current.iter().map(|step| current(who, step, now)));
            if row.current.is_empty()
                && row.machine.is_some()
                && let Some(stage) = row.stage
            {
                let verdict = if row.has_failed {
                    "FAILED"
                } else {
                    "done so far"
                };
                let stage = stage.row().word;
                lines.push(format!("{:>8}  {who:<10} {stage:<13} {verdict}", ""));
            }
        }
        for line in &mut lines {
            if let Some((end, _)) = line.char_indices().nth(width.saturating_sub(1)) {
                line.truncate(end);
            }
        }
        lines
    }
}

/// What a person reads after Ctrl-C.
fn stopping(how: Stopping, under_way: usize) -> String {
    let steps = match under_way {
        0 => return "stopping".to_owned(),
        1 => "1 running step".to_owned(),
        number => format!("{number} running steps"),
    };
    match how {
        Stopping::AtStepEnds => {
            format!("stopping: waiting for {steps}; press Ctrl-C again to stop now")
        }
        Stopping::Now => format!("stopping now: {steps} cannot finish"),
    }
}

/// The line of a step that goes on.
fn current(who: &str, step: &Current, now: Timestamp) -> String {
    let time = duration::shown(elapsed(step.since, now));
    let stage = step.stage.row().word;
    let mut line = format!("{time:>8}  {who:<10} {stage:<13} {}", step.title);
    if let Some((done, total, unit)) = step.amount {
        let _ = write!(line, "  {}", bar(done, total, unit));
    } else if let Some(last) = &step.last {
        let _ = write!(line, "  {}", last.trim());
    }
    line
}

/// What was heard last of a step that goes on.
fn heard(step: &Current) -> Option<String> {
    let amount = step.amount;
    let amount = amount.map(|(done, total, unit)| self::amount(done, total, unit));
    amount.or_else(|| Some(step.last.as_ref()?.trim().to_owned()))
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn amount(done: u64, total: Option<u64>, unit: &str) -> String {
    let number = |count: u64| match unit {
        "bytes" => format!("{} MiB", count >> 20),
        _ => count.to_string(),
    };
    let noun = if unit == "bytes" { "" } else { " packages" };
    match total {
        Some(total) => format!("{} of {}{noun}", number(done), number(total)),
        None => format!("{}{noun}", number(done)),
    }
}

fn bar(done: u64, total: Option<u64>, unit: &str) -> String {
    let words = amount(done, total, unit);
    let Some(total) = total.filter(|total| *total > 0) else {
        return words;
    };
    let filled = usize::try_from(done.min(total) * BAR as u64 / total).unwrap_or(BAR);
    format!(
        "[{}{}] {words}",
        "#".repeat(filled),
        ".".repeat(BAR - filled)
    )
}

#[cfg(test)]
mod tests {
    use mullion_engine::{MachineCount, RunId, StepTag};
    use mullion_plan::Stage;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn tag(step: &str, machine: Option<&str>) -> StepTag {
        StepTag {
            id: StepId::new(step),
            stage: Stage::Prepare,
            machine: machine.map(|name| name.parse().unwrap()),
            title: format!("do {step}"),
        }
    }

    fn progress() -> Progress {
        let mut progress = Progress::new(at(0), Talk::Steps);
        let count = |name: &str| MachineCount {
            machine: name.parse().unwrap(),
            steps: 1,
        };
        progress.see(
            at(0),
            &Event::RunStarted {
                run: RunId::new(at(0)),
                cluster: "demo".into(),
                command: "mullion up".into(),
                steps: 3,
                stages: Vec::new(),
                machines: vec![count("lin1"), count("cp1")],
            },
        );
        for (step, machine) in [
            ("apply/cp1", Some("cp1")),
            ("apply/lin1", Some("lin1")),
            ("fetch/kubelet", None),
        ] {
            let tag = tag(step, machine);
            progress.see(at(1), &Event::StepStarted { tag, attempt: 1 });
        }
        progress
    }

    #[test]
    fn ctrl_c_is_shown_on_the_board_and_in_lines() {
        let mut progress = progress();
        let mut ask = |called_off| {
            let lines = progress.see(
                at(2),
                &Event::Cancelling {
                    under_way: vec![StepId::new("apply/cp1"), StepId::new("apply/lin1")],
                    called_off,
                },
            );
            (lines.join("\n"), progress.frame(at(2), 100)[1].clone())
        };
        let words = "waiting for 2 running steps; press Ctrl-C again to stop now";
        let (line, board) = ask(false);
        assert!(line.ends_with(&format!("stopping: {words}")), "{line}");
        // The board counts for itself: fewer are left with each moment.
        let words = "stopping: waiting for 3 running steps; press Ctrl-C again to stop now";
        assert_eq!(board.trim(), words);
        let (line, _) = ask(true);
        assert!(
            line.ends_with("stopping now: 2 running steps cannot finish"),
            "{line}"
        );
    }

    #[test]
    fn machines_stand_in_the_order_of_the_plan_with_elapsed_time_and_last_word() {
        let mut progress = progress();
        let news = NewsItem::Line {
            text: "containerd restarted".into(),
        };
        progress.see(
            at(2),
            &Event::StepNews {
                step: StepId::new("apply/cp1"),
                machine: Some("cp1".parse().unwrap()),
                news,
            },
        );
        let amount = NewsItem::Amount {
            done: 5,
            total: Some(10),
            unit: "packages",
        };
        progress.see(
            at(2),
            &Event::StepNews {
                step: StepId::new("fetch/kubelet"),
                machine: None,
                news: amount,
            },
        );
        assert_eq!(
            progress.frame(at(4), 200),
            [
                "     4 s  0 of 3 steps",
                "     3 s             prepare       do fetch/kubelet  [##########..........] 5 of 10 packages",
                "     3 s  lin1       prepare       do apply/lin1",
                "     3 s  cp1        prepare       do apply/cp1  containerd restarted",
            ]
        );
        assert!(progress.frame(at(4), 20).iter().all(|line| line.len() < 20));
    }

    #[test]
    fn an_ended_step_is_one_plain_line_and_leaves_the_board() {
        let mut progress = progress();
        let ended = |step: &str, machine| Event::StepEnded {
            tag: tag(step, machine),
            outcome: Outcome::Done,
            took_ms: 1500,
        };
        let lines = progress.see(at(3), &ended("fetch/kubelet", None));
        assert_eq!(
            lines,
            ["     3 s  -          prepare       do fetch/kubelet (1.5 s)"]
        );
        progress.see(at(3), &ended("apply/cp1", Some("cp1")));
        let frame = progress.frame(at(4), 200);
        assert_eq!(frame[0], "     4 s  2 of 3 steps");
        assert_eq!(frame.len(), 3);
        assert!(
            frame[2].ends_with("cp1        prepare       done so far"),
            "{}",
            frame[2]
        );
    }

    fn says(text: &str) -> Event {
        Event::StepNews {
            step: StepId::new("apply/cp1"),
            machine: Some("cp1".parse().unwrap()),
            news: NewsItem::Line { text: text.into() },
        }
    }

    #[test]
    fn what_programs_say_is_told_where_that_was_asked_for() {
        let mut progress = progress();
        assert!(progress.see(at(2), &says("pulling")).is_empty());
        progress.talk = Talk::Everything;
        assert_eq!(
            progress.see(at(3), &says("unpacking\n")),
            ["     3 s  cp1        | unpacking"]
        );
    }

    #[test]
    fn a_step_that_takes_long_is_told_of_at_growing_intervals() {
        let mut progress = progress();
        progress.see(at(2), &says("pulling"));
        let told: Vec<_> = (1..=80)
            .filter(|second| !progress.still(at(*second)).is_empty())
            .collect();
        // All three began after one second.
        assert_eq!(told, [11, 41, 71]);
        let lines = progress.still(at(101));
        assert_eq!(
            lines,
            [
                "1 min 41 s  -          prepare       still: do fetch/kubelet (1 min 40 s)",
                "1 min 41 s  lin1       prepare       still: do apply/lin1 (1 min 40 s)",
                "1 min 41 s  cp1        prepare       still: do apply/cp1 (1 min 40 s): pulling",
            ]
        );
        let ended = Event::StepEnded {
            tag: tag("apply/cp1", Some("cp1")),
            outcome: Outcome::Done,
            took_ms: 1,
        };
        progress.see(at(102), &ended);
        assert_eq!(progress.still(at(140)).len(), 2);
    }
}
