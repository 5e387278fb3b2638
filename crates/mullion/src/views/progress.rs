//! A run while it goes on: a board with one line a machine, or plain lines where nobody can be shown a board.
//!
//! Pure: events and times in, text out. Whoever holds the terminal paints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use mullion_engine::{Event, NewsItem, Outcome};
use mullion_plan::{Stage, StepId};
use mullion_spec::value::MachineName;

/// How wide a bar is.
const BAR: usize = 20;
/// How often a plain line tells of an amount or a wait.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);

/// What is known of one line of the board.
#[derive(Debug, Clone)]
struct Row {
    stage: Stage,
    title: String,
    since: Timestamp,
    last: String,
    amount: Option<(u64, Option<u64>, &'static str)>,
    state: State,
    told: Timestamp,
}

/// How a line's machine fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Busy,
    Idle,
    Failed,
}

/// Who a line is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A machine, by its place in the plan.
    Machine(usize, String),
    /// A step that is about no machine.
    Step(StepId),
}

/// The state of a run, as its events tell it.
#[derive(Debug)]
pub struct Board {
    started: Timestamp,
    steps: usize,
    done: usize,
    machines: Vec<String>,
    rows: BTreeMap<Key, Row>,
}

impl Board {
    /// Of a run that begins at that time.
    pub fn new(started: Timestamp) -> Self {
        Self {
            started,
            steps: 0,
            done: 0,
            machines: Vec::new(),
            rows: BTreeMap::new(),
        }
    }

    fn key(&self, machine: Option<&str>, step: &StepId) -> Key {
        match machine {
            None => Key::Step(step.clone()),
            Some(name) => {
                let place = self.machines.iter().position(|known| known == name);
                Key::Machine(place.unwrap_or(usize::MAX), name.to_owned())
            }
        }
    }

    /// Takes an event; gives the plain lines that tell of it.
    pub fn see(&mut self, at: Timestamp, event: &Event) -> Vec<String> {
        match event {
            Event::RunStarted {
                steps, machines, ..
            } => {
                self.started = at;
                self.steps = *steps;
                self.machines = machines
                    .iter()
                    .map(|count| count.machine.to_string())
                    .collect();
                Vec::new()
            }
            Event::StepStarted { tag, .. } => {
                let key = self.key(tag.machine.as_ref().map(MachineName::as_str), &tag.id);
                let row = Row {
                    stage: tag.stage,
                    title: tag.title.clone(),
                    since: at,
                    last: String::new(),
                    amount: None,
                    state: State::Busy,
                    told: at,
                };
                self.rows.insert(key, row);
                Vec::new()
            }
            Event::StepNews {
                step,
                machine,
                news,
            } => self.hear(at, step, machine.as_ref().map(MachineName::as_str), news),
            Event::StepRetried { step, why, .. } => {
                vec![self.line(at, step.as_str(), &format!("tries again: {why}"))]
            }
            Event::Waiting {
                step,
                machine,
                gate,
                why,
                remaining_ms,
                ..
            } => {
                let words = format!("waiting for {gate}: {why}");
                let left = short(Duration::from_millis(*remaining_ms));
                let is_due = self.note(at, step, machine.as_ref().map(MachineName::as_str), &words);
                let line = || self.line(at, step.as_str(), &format!("{words} ({left} left)"));
                is_due.then(line).into_iter().collect()
            }
            Event::StepEnded {
                tag,
                outcome,
                took_ms,
            } => {
                let key = self.key(tag.machine.as_ref().map(MachineName::as_str), &tag.id);
                let took = short(Duration::from_millis(*took_ms));
                let verdict = match outcome {
                    Outcome::Done => {
                        self.done += 1;
                        format!("{} ({took})", tag.title)
                    }
                    Outcome::Failed { error } => format!("FAILED after {took}: {}: {}", tag.title, error.words),
                    _ => format!("not finished: {}", tag.title),
                };
                match (&key, self.rows.get_mut(&key)) {
                    (Key::Step(_), _) => {
                        self.rows.remove(&key);
                    }
                    (Key::Machine(..), Some(row)) => {
                        row.state = match outcome {
                            Outcome::Done => State::Idle,
                            _ => State::Failed,
                        };
                        row.amount = None;
                        row.last.clear();
                    }
                    (Key::Machine(..), None) => {}
                }
                let who = tag.machine.as_ref().map_or("-", MachineName::as_str);
                vec![self.line(at, who, &format!("{:<13} {verdict}", tag.stage))]
            }
            Event::Cancelling {
                under_way,
                called_off,
            } => {
                let how = if *called_off { "ending now" } else { "ending after" };
                let steps: Vec<_> = under_way.iter().map(StepId::as_str).collect();
                vec![self.line(at, "-", &format!("called off, {how}: {}", steps.join(", ")))]
            }
            _ => Vec::new(),
        }
    }

    fn hear(&mut self, at: Timestamp, step: &StepId, machine: Option<&str>, news: &NewsItem) -> Vec<String> {
        match news {
            NewsItem::Line { text } => {
                self.note(at, step, machine, text);
                Vec::new()
            }
            NewsItem::Amount { done, total, unit } => {
                let key = self.key(machine, step);
                let Some(row) = self.rows.get_mut(&key) else {
                    return Vec::new();
                };
                row.amount = Some((*done, *total, unit));
                let is_due = elapsed(row.told, at) >= PLAIN_PAUSE;
                if !is_due {
                    return Vec::new();
                }
                row.told = at;
                vec![self.line(at, step.as_str(), &amount(*done, *total, unit))]
            }
            _ => Vec::new(),
        }
    }

    /// Notes the last words of a step; says whether a plain line is due.
    fn note(&mut self, at: Timestamp, step: &StepId, machine: Option<&str>, words: &str) -> bool {
        let key = self.key(machine, step);
        let Some(row) = self.rows.get_mut(&key) else {
            return false;
        };
        row.last = words.trim().to_owned();
        let is_due = elapsed(row.told, at) >= PLAIN_PAUSE;
        if is_due {
            row.told = at;
        }
        is_due
    }

    /// A plain line: when, who, what.
    fn line(&self, at: Timestamp, who: &str, words: &str) -> String {
        let time = short(elapsed(self.started, at));
        format!("{time:>8}  {who:<10} {words}")
    }

    /// The board: a heading, then a line for each machine and for each step that goes on besides.
    pub fn frame(&self, now: Timestamp, width: usize) -> Vec<String> {
        let time = short(elapsed(self.started, now));
        let mut lines = vec![format!("{time:>8}  {} of {} steps", self.done, self.steps)];
        for (key, row) in &self.rows {
            let (who, title) = match key {
                Key::Machine(_, name) => (name.as_str(), row.title.as_str()),
                Key::Step(_) => ("", row.title.as_str()),
            };
            let mut line = match row.state {
                State::Busy => {
                    let time = short(elapsed(row.since, now));
                    format!("{time:>8}  {who:<10} {:<13} {title}", row.stage)
                }
                State::Idle => format!("{:>8}  {who:<10} {:<13} {title}, done", "", row.stage),
                State::Failed => format!("{:>8}  {who:<10} {:<13} FAILED: {title}", "", row.stage),
            };
            if let Some((done, total, unit)) = row.amount {
                let _ = write!(line, "  {}", bar(done, total, unit));
            } else if !row.last.is_empty() {
                let _ = write!(line, "  {}", row.last);
            }
            lines.push(line);
        }
        for line in &mut lines {
            if let Some((end, _)) = line.char_indices().nth(width.saturating_sub(1)) {
                line.truncate(end);
            }
        }
        lines
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// `0.4 s`, `12 s`, `3 min 05 s`.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds >= 60 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else if seconds >= 10 {
        format!("{seconds} s")
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
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
    format!("[{}{}] {words}", "#".repeat(filled), ".".repeat(BAR - filled))
}

#[cfg(test)]
mod tests {
    use mullion_engine::{MachineCount, RunId, StepTag};

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

    fn board() -> Board {
        let mut board = Board::new(at(0));
        let count = |name: &str| MachineCount {
            machine: name.parse().unwrap(),
            steps: 1,
        };
        board.see(
            at(0),
            &Event::RunStarted {
                run: RunId::new(at(0), 7),
                cluster: "demo".into(),
                command: "mullion up".into(),
                steps: 3,
                stages: Vec::new(),
                machines: vec![count("lin1"), count("cp1")],
            },
        );
        for (step, machine) in [("apply/cp1", Some("cp1")), ("apply/lin1", Some("lin1")), ("fetch/kubelet", None)] {
            let tag = tag(step, machine);
            board.see(at(1), &Event::StepStarted { tag, attempt: 1 });
        }
        board
    }

    #[test]
    fn machines_stand_in_the_order_of_the_plan_with_elapsed_time_and_last_word() {
        let mut board = board();
        let news = NewsItem::Line {
            text: "containerd restarted".into(),
        };
        board.see(
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
        board.see(
            at(2),
            &Event::StepNews {
                step: StepId::new("fetch/kubelet"),
                machine: None,
                news: amount,
            },
        );
        assert_eq!(
            board.frame(at(4), 200),
            [
                "   4.0 s  0 of 3 steps",
                "   3.0 s  lin1       prepare       do apply/lin1",
                "   3.0 s  cp1        prepare       do apply/cp1  containerd restarted",
                "   3.0 s             prepare       do fetch/kubelet  [##########..........] 5 of 10 packages",
            ]
        );
        assert!(board.frame(at(4), 20).iter().all(|line| line.len() < 20));
    }

    #[test]
    fn an_ended_step_is_one_plain_line_and_leaves_the_board_if_it_has_no_machine() {
        let mut board = board();
        let ended = |step: &str, machine| Event::StepEnded {
            tag: tag(step, machine),
            outcome: Outcome::Done,
            took_ms: 1500,
        };
        let lines = board.see(at(3), &ended("fetch/kubelet", None));
        assert_eq!(lines, ["   3.0 s  -          prepare       do fetch/kubelet (1.5 s)"]);
        board.see(at(3), &ended("apply/cp1", Some("cp1")));
        let frame = board.frame(at(4), 200);
        assert_eq!(frame[0], "   4.0 s  2 of 3 steps");
        assert_eq!(frame.len(), 3);
        assert!(frame[2].ends_with("do apply/cp1, done"), "{}", frame[2]);
    }
}
