//! What is tried again, when, and when it is enough: the only place that decides.
//!
//! Pure: the same step, seed and history give the same pause, on every computer.

use std::time::Duration;

use crate::dice::Dice;
use mullion_plan::{ErrorClass, Retry, Step, StepError};
use mullion_wire::duration::shown;

use crate::gates::{FIRST_PAUSE, Gate};

/// Pauses that grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
    /// Each is so many hundredths of the one before.
    pub growth: u32,
}

impl Backoff {
    /// The pause before the try after `turn` others that were paused for.
    pub fn pause(&self, turn: u32) -> Duration {
        let mut pause = self.first;
        for _ in 0..turn {
            if pause >= self.most {
                break;
            }
            pause = pause.saturating_mul(self.growth) / 100;
        }
        pause.min(self.most)
    }
}

/// How failures of steps that do something are met. How gates wait is in [`crate::gates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How often a step meets a conflict before it fails.
    pub conflicts: u32,
    /// How many of those are tried again at once; before the others there is a pause.
    pub conflicts_at_once: u32,
    /// The pauses before those.
    pub conflict: Backoff,
    /// The pauses while a machine or the API server is silent.
    pub silence: Backoff,
    /// How long one silence may last.
    pub silence_deadline: Duration,
    /// A try that heard something and went on for so long ends the silence before it: what follows is another one.
    /// The clock of a gate starts again at its end.
    pub steady: Duration,
    /// How many silences a step may meet; one more, and it fails. As often the clock of a gate starts again: a step
    /// that works and fails for ever must end.
    pub silences: u32,
    /// Pauses are longer or shorter by up to so many hundredths, so that many who failed together do not come
    /// back together.
    pub jitter: u32,
    /// Deadlines in hundredths of what the tables say: more on a slow computer.
    pub patience: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            conflicts: 10,
            conflicts_at_once: 3,
            conflict: Backoff {
                first: Duration::from_millis(50),
                most: Duration::from_secs(1),
                growth: 200,
            },
            silence: Backoff {
                first: Duration::from_millis(500),
                most: Duration::from_secs(10),
                growth: 200,
            },
            silence_deadline: Duration::from_mins(2),
            steady: Duration::from_secs(30),
            silences: 10,
            jitter: 25,
            patience: 100,
        }
    }
}

/// What is to become of a step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is looked again after a while: it waits, and nothing went wrong.
    Look {
        /// After this.
        after: Duration,
        /// How long it may still wait.
        remaining: Duration,
    },
    /// It is tried again.
    Retry {
        /// After this.
        after: Duration,
    },
    /// It failed, for this reason.
    Enough(StepError),
}

/// What a step has met so far.
#[derive(Debug, Clone)]
pub struct History {
    /// How often it was tried, looks of a gate counting as one.
    pub attempts: u32,
    /// How often a gate looked.
    pub looks: u32,
    conflicts: u32,
    /// How many silences there were before this one; of a gate, how often work started its clock again.
    silences_before: u32,
    /// How many pauses this silence had.
    silent_pauses: u32,
    silent_since: Option<Duration>,
    waiting_since: Option<Duration>,
    waits: u32,
    dice: Dice,
}

/// One try of a step that failed: when, and what was heard of it.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// When the step was first tried, on the same clock as `now`.
    pub begun: Duration,
    /// When this try began.
    pub since: Duration,
    /// When it failed.
    pub now: Duration,
    /// Whether anything was heard during this try.
    pub was_heard: bool,
    /// Whether this try asked the machine to start anew.
    pub restarts: bool,
}

impl History {
    /// Of a step that was not tried yet.
    pub fn new(step: &Step, seed: u64) -> Self {
        // FNV-1a: each step has dice of its own, so that the order of others does not change its pauses.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let id = step.id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        Self {
            attempts: 0,
            looks: 0,
            conflicts: 0,
            silences_before: 0,
            silent_pauses: 0,
            silent_since: None,
            waiting_since: None,
            waits: 0,
            dice: Dice::new(seed ^ id),
        }
    }

    fn end_silence(&mut self) {
        if self.silent_since.take().is_some() {
            self.silences_before += 1;
            self.silent_pauses = 0;
        }
    }

    /// Starts the clock of a wait again.
    fn wait_from(&mut self, now: Duration) {
        self.waiting_since = Some(now);
        self.waits = 0;
    }
}

impl Policy {
    /// What is to become of a step whose try failed that way.
    pub fn judge(
        &self,
        step: &Step,
        history: &mut History,
        tried: Tried,
        error: StepError,
    ) -> Verdict {
        let Tried { begun, now, .. } = tried;
        let is_steady = tried.was_heard && now.saturating_sub(tried.since) >= self.steady;
        // Whoever refuses or asks for patience answers: the silence before is over.
        if is_steady || error.class != ErrorClass::Unreachable {
            history.end_silence();
        }
        let gate = Gate::of(step);
        if tried.restarts {
            history.wait_from(now);
        } else if is_steady && gate.is_some() && history.silences_before < self.silences {
            history.silences_before += 1;
            history.wait_from(now);
        }
        match error.class.retry() {
            Retry::Never => Verdict::Enough(error),
            Retry::Now => self.conflict(history, error),
            Retry::Later => match gate {
                Some(gate) => {
                    let since = *history.waiting_since.get_or_insert(begun);
                    self.wait(step, &gate, history, since, tried, error)
                }
                None if error.class == ErrorClass::NotYet => {
                    let since = *history.waiting_since.get_or_insert(now);
                    self.wait(step, &Gate::of_any(step), history, since, tried, error)
                }
                None => self.silence(history, now, error),
            },
        }
    }

    fn conflict(&self, history: &mut History, error: StepError) -> Verdict {
        history.conflicts += 1;
        if history.conflicts >= self.conflicts {
            let words = format!("{} ({} times in a row)", error.words, history.conflicts);
            return Verdict::Enough(StepError { words, ..error });
        }
        let after = match history.conflicts.checked_sub(self.conflicts_at_once + 1) {
            None => Duration::ZERO,
            Some(turn) => self.jittered(self.conflict.pause(turn), &mut history.dice),
        };
        Verdict::Retry { after }
    }

    fn silence(&self, history: &mut History, now: Duration, error: StepError) -> Verdict {
        if history.silences_before >= self.silences {
            let words = format!("{} (after {} outages)", error.words, self.silences);
            return Verdict::Enough(StepError { words, ..error });
        }
        let since = *history.silent_since.get_or_insert(now);
        let deadline = self.patient(self.silence_deadline);
        let silent = now.saturating_sub(since);
        if silent >= deadline {
            let words = format!("{} (for {})", error.words, shown(silent));
            return Verdict::Enough(StepError { words, ..error });
        }
        let pause = self.silence.pause(history.silent_pauses);
        let pause = self.jittered(pause, &mut history.dice);
        history.silent_pauses += 1;
        // The last try is made at the deadline, not past it.
        let after = pause.min(deadline.saturating_sub(silent));
        Verdict::Retry { after }
    }

    fn wait(
        &self,
        step: &Step,
        gate: &Gate,
        history: &mut History,
        since: Duration,
        tried: Tried,
        error: StepError,
    ) -> Verdict {
        let Tried { begun, now, .. } = tried;
        let deadline = self.patient(gate.deadline);
        let waited = now.saturating_sub(since);
        if waited >= deadline {
            let hint = gate.hint_for(step);
            // The clock may have started again since: a person counts from the first look.
            let took = shown(now.saturating_sub(begun));
            let mut causes = vec![error.words];
            causes.extend(error.causes);
            return Verdict::Enough(StepError {
                class: ErrorClass::NotYet,
                words: format!("timed out after {took} waiting for {}", gate.title),
                causes,
                hints: error.hints.into_iter().chain([hint]).collect(),
                tail: error.tail,
            });
        }
        let backoff = Backoff {
            first: FIRST_PAUSE,
            most: gate.pause,
            growth: 150,
        };
        let pause = self.jittered(backoff.pause(history.waits), &mut history.dice);
        history.waits += 1;
        let remaining = deadline.saturating_sub(waited);
        Verdict::Look {
            after: pause.min(remaining),
            remaining,
        }
    }

    fn patient(&self, deadline: Duration) -> Duration {
        deadline.saturating_mul(self.patience) / 100
    }

    fn jittered(&self, pause: Duration, dice: &mut Dice) -> Duration {
        let jitter = self.jitter.min(100);
        let roll = u32::try_from(dice.roll(u64::from(2 * jitter + 1))).unwrap_or(jitter);
        pause.saturating_mul(100 - jitter + roll) / 100
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Action, Stage};

    use super::*;

    fn step(action: Action) -> Step {
        let machine = Some("lin1".parse().unwrap());
        Step::new(
            Stage::Machines,
            machine,
            action,
            "a test".into(),
            Vec::new(),
        )
    }

    fn error(class: ErrorClass) -> StepError {
        StepError::new(class, "it did not answer")
    }

    /// Fails that way at every try, as long as the policy lets it. Gives the pauses, and the end.
    fn endure(
        policy: &Policy,
        step: &Step,
        class: ErrorClass,
        seed: u64,
    ) -> (Vec<Duration>, StepError) {
        let mut history = History::new(step, seed);
        let mut now = Duration::from_secs(1000);
        let begun = now;
        let mut pauses = Vec::new();
        loop {
            let tried = Tried {
                begun,
                since: now,
                now,
                was_heard: false,
                restarts: false,
            };
            match policy.judge(step, &mut history, tried, error(class)) {
                Verdict::Look { after, .. } | Verdict::Retry { after } => {
                    pauses.push(after);
                    now += after;
                }
                Verdict::Enough(error) => return (pauses, error),
            }
            assert!(pauses.len() < 10_000, "it never ends");
        }
    }

    #[test]
    fn what_can_never_work_is_tried_once() {
        for class in [
            ErrorClass::Refused,
            ErrorClass::NotOurs,
            ErrorClass::Interrupted,
        ] {
            for action in [mullion_testkit::start(), Action::AwaitReady] {
                let (pauses, end) = endure(&Policy::default(), &step(action), class, 1);
                assert!(pauses.is_empty(), "{class:?}");
                assert_eq!(end, error(class));
            }
        }
    }

    #[test]
    fn a_conflict_is_tried_again_at_once_and_not_for_ever() {
        let policy = Policy::default();
        let (pauses, end) = endure(&policy, &step(Action::Drain), ErrorClass::Conflict, 1);
        assert_eq!(pauses.len(), 9, "ten tries have nine pauses");
        assert_eq!(pauses[..3], [Duration::ZERO; 3]);
        assert!(pauses[3..].iter().all(|pause| !pause.is_zero()));
        assert_eq!(end.words, "it did not answer (10 times in a row)");
    }

    #[test]
    fn silence_is_met_with_growing_pauses_until_the_deadline() {
        let policy = Policy::default();
        let (pauses, end) = endure(
            &policy,
            &step(mullion_testkit::start()),
            ErrorClass::Unreachable,
            1,
        );
        assert!(pauses[0] >= Duration::from_millis(375) && pauses[0] <= Duration::from_millis(625));
        assert!(
            pauses
                .iter()
                .all(|pause| *pause <= Duration::from_millis(12_500))
        );
        assert_eq!(pauses.iter().sum::<Duration>(), policy.silence_deadline);
        assert_eq!(end.class, ErrorClass::Unreachable);
        assert_eq!(end.words, "it did not answer (for 2 min)");
    }

    #[test]
    fn two_outages_with_work_between_them_are_two() {
        let (policy, step) = (Policy::default(), step(Action::RemoveMachine));
        let mut history = History::new(&step, 1);
        let mut meet = |tried| {
            let silent = error(ErrorClass::Unreachable);
            policy.judge(&step, &mut history, tried, silent)
        };
        assert!(matches!(meet(tried(0, 1, false)), Verdict::Retry { .. }));
        // Five minutes of work, then a second outage: it has its own two minutes, and its pauses begin anew.
        let Verdict::Retry { after } = meet(tried(2, 302, true)) else {
            panic!("the second outage counts as the first");
        };
        assert!(after <= Duration::from_millis(625), "{after:?}");
        assert!(matches!(meet(tried(420, 421, true)), Verdict::Retry { .. }));
        // A machine that says a word and is gone again is not back.
        let Verdict::Enough(end) = meet(tried(422, 423, true)) else {
            panic!("a silence of two minutes does not end");
        };
        assert_eq!(end.words, "it did not answer (for 2 min 1 s)");
    }

    /// A try of a step that began at zero.
    fn tried(since: u64, now: u64, was_heard: bool) -> Tried {
        Tried {
            begun: Duration::ZERO,
            since: Duration::from_secs(since),
            now: Duration::from_secs(now),
            was_heard,
            restarts: false,
        }
    }

    #[test]
    fn the_clock_of_a_gate_starts_again_after_work() {
        let before = mullion_plan::SnapshotBefore::Reset;
        for action in [Action::SaveEtcd { before }, Action::Drain] {
            let (policy, step) = (Policy::default(), step(action));
            let deadline = Gate::of(&step).unwrap().deadline.as_secs();
            let mut history = History::new(&step, 1);
            let mut meet = |tried, class| policy.judge(&step, &mut history, tried, error(class));
            // Work that lasts longer than the deadline, then an outage: the whole deadline is left, and the first
            // pause is a short one.
            let worked = deadline + 10;
            let Verdict::Look { after, remaining } =
                meet(tried(0, worked, true), ErrorClass::Unreachable)
            else {
                panic!("work counts as an outage");
            };
            assert!(after <= Duration::from_millis(125), "{after:?}");
            assert_eq!(remaining.as_secs(), deadline);
            // A conflict after work is tried again at once, and the outage after it counts from the work, too.
            let worked = 2 * worked;
            let conflict = meet(tried(worked - 40, worked, true), ErrorClass::Conflict);
            assert!(matches!(conflict, Verdict::Retry { .. }));
            // Neither a word nor a long silence is work.
            for (since, was_heard) in [(worked + 40, true), (worked + 1, false)] {
                let looked = meet(
                    tried(since, worked + 41, was_heard),
                    ErrorClass::Unreachable,
                );
                assert!(
                    matches!(looked, Verdict::Look { remaining, .. } if remaining.as_secs() == deadline - 41)
                );
            }
            let late = worked + deadline;
            let end = meet(tried(late, late, true), ErrorClass::NotYet);
            assert!(matches!(end, Verdict::Enough(_)));
        }
    }

    #[test]
    fn a_gate_that_works_and_fails_for_ever_ends() {
        let (policy, step) = (Policy::default(), step(Action::Drain));
        let mut history = History::new(&step, 1);
        let classes = [ErrorClass::NotYet, ErrorClass::Unreachable];
        for (minute, class) in (0..100).zip(classes.into_iter().cycle()) {
            let since = minute * 60;
            let tried = tried(since, since + 40, true);
            if let Verdict::Enough(end) = policy.judge(&step, &mut history, tried, error(class)) {
                assert_eq!(
                    end.words,
                    "timed out after 14 min 40 s waiting for the node's pods to move away"
                );
                // Ten times work, then the deadline of five minutes.
                assert_eq!(since, 14 * 60);
                return;
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn a_gate_that_restarts_its_machine_waits_from_then() {
        let (policy, step) = (Policy::default(), step(Action::Reboot));
        let deadline = Gate::of(&step).unwrap().deadline;
        let mut history = History::new(&step, 1);
        let late = deadline.as_secs() - 1;
        let asked = Tried {
            restarts: true,
            ..tried(late, late, true)
        };
        let looked = policy.judge(&step, &mut history, asked, error(ErrorClass::NotYet));
        assert!(matches!(looked, Verdict::Look { remaining, .. } if remaining == deadline));
    }

    #[test]
    fn outages_without_end_are_told() {
        let (policy, step) = (Policy::default(), step(Action::RemoveMachine));
        let mut history = History::new(&step, 1);
        let mut times = 0;
        let end = loop {
            times += 1;
            assert!(times < 100, "it never ends");
            let minute = Duration::from_mins(times);
            let tried = Tried {
                begun: Duration::ZERO,
                since: minute,
                now: minute + Duration::from_secs(40),
                was_heard: true,
                restarts: false,
            };
            let silent = error(ErrorClass::Unreachable);
            if let Verdict::Enough(end) = policy.judge(&step, &mut history, tried, silent) {
                break end;
            }
        };
        assert_eq!(end.words, "it did not answer (after 10 outages)");
        assert_eq!(times, 11);
    }

    #[test]
    fn each_restart_has_its_own_deadline() {
        let (policy, step) = (Policy::default(), step(Action::RemoveMachine));
        let deadline = Gate::of_any(&step).deadline;
        let mut history = History::new(&step, 1);
        let mut meet = |now: Duration, restarts| {
            let tried = Tried {
                begun: Duration::ZERO,
                since: now,
                now,
                was_heard: true,
                restarts,
            };
            policy.judge(&step, &mut history, tried, error(ErrorClass::NotYet))
        };
        let second = Duration::from_secs(1);
        assert!(matches!(meet(second, true), Verdict::Look { .. }));
        let late = deadline.saturating_sub(second);
        assert!(
            matches!(meet(late, true), Verdict::Look { remaining, .. } if remaining == deadline)
        );
        assert!(matches!(
            meet(deadline + second, false),
            Verdict::Look { .. }
        ));
        assert!(matches!(meet(late + deadline, false), Verdict::Enough(_)));
    }

    #[test]
    fn a_gate_looks_often_and_fails_at_its_deadline_with_its_hint() {
        let policy = Policy::default();
        for class in [ErrorClass::NotYet, ErrorClass::Unreachable] {
            let (pauses, end) = endure(&policy, &step(Action::AwaitReady), class, 1);
            assert!(pauses[0] <= Duration::from_millis(125));
            assert_eq!(pauses.iter().sum::<Duration>(), Duration::from_mins(5));
            assert!(pauses.len() > 300, "it looks a few times a second");
            assert_eq!(end.class, ErrorClass::NotYet);
            assert_eq!(
                end.words,
                "timed out after 5 min waiting for the node to be Ready"
            );
            assert_eq!(end.causes, ["it did not answer"]);
            assert_eq!(
                end.hints,
                ["see why with `mullion kubectl describe node lin1`"]
            );
        }
    }

    #[test]
    fn another_step_that_says_not_yet_waits_too() {
        let (pauses, end) = endure(
            &Policy::default(),
            &step(mullion_testkit::start()),
            ErrorClass::NotYet,
            1,
        );
        assert_eq!(
            pauses.iter().sum::<Duration>(),
            crate::gates::OTHER.deadline
        );
        assert_eq!(end.words, "timed out after 2 min waiting for the step");
    }

    #[test]
    fn a_slow_computer_is_given_more_time() {
        let policy = Policy {
            patience: 300,
            ..Policy::default()
        };
        let (pauses, _) = endure(&policy, &step(Action::AwaitReady), ErrorClass::NotYet, 1);
        assert_eq!(pauses.iter().sum::<Duration>(), Duration::from_mins(15));
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses_and_each_step_has_its_own() {
        let policy = Policy::default();
        let pauses = |action, seed| endure(&policy, &step(action), ErrorClass::Unreachable, seed).0;
        assert_eq!(
            pauses(mullion_testkit::start(), 7),
            pauses(mullion_testkit::start(), 7)
        );
        assert_ne!(
            pauses(mullion_testkit::start(), 7),
            pauses(mullion_testkit::start(), 8)
        );
        assert_ne!(
            pauses(mullion_testkit::start(), 7),
            pauses(Action::Drain, 7)
        );
    }
}
