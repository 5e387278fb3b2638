//! A port that performs steps in an in-memory world, watches how the engine orders them, and makes trouble.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use mullion_engine::{Cancel, VirtualClock};
use mullion_plan::{Attend, ErrorClass, News, Perform, Step, StepError, StepId};
use mullion_testkit::{Dice, World};

use crate::evidence::Memory;

/// What ends a run early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// Ctrl-C, once.
    Cancel,
    /// Ctrl-C, twice.
    CancelTwice,
    /// The process dies before a step has any effect, and with it everything that was not written.
    DeathBefore,
    /// The process dies after the step's effect.
    DeathAfter,
    /// A step can never work, as long as this run lasts.
    Poison,
}

/// Performs, watches, and makes trouble.
pub(crate) struct Witness<'a> {
    pub(crate) world: &'a World,
    pub(crate) clock: &'a VirtualClock,
    pub(crate) memory: Memory,
    pub(crate) cancel: Cancel,
    /// At the how-many-th performing something ends the run.
    pub(crate) kill: Option<(usize, Kill)>,
    /// In how many performings of a hundred something passes that a second try repairs.
    pub(crate) trouble: u64,
    state: Mutex<State>,
}

pub(crate) struct State {
    dice: Dice,
    performed: usize,
    done: BTreeSet<StepId>,
    /// How much of the journal was read, and what it says: the steps that were begun, and those that are done.
    read: usize,
    written_begun: BTreeSet<StepId>,
    written_done: BTreeSet<StepId>,
    poisoned: Option<StepId>,
    /// What was on the disk when the process died, and which step was under way.
    pub(crate) death: Option<(String, StepId)>,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(
        world: &'a World,
        clock: &'a VirtualClock,
        memory: Memory,
        seed: u64,
    ) -> Self {
        Self {
            world,
            clock,
            memory,
            cancel: Cancel::new(),
            kill: None,
            trouble: 0,
            state: Mutex::new(State {
                dice: Dice::new(seed),
                performed: 0,
                done: BTreeSet::new(),
                read: 0,
                written_begun: BTreeSet::new(),
                written_done: BTreeSet::new(),
                poisoned: None,
                death: None,
            }),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Reads what has reached the disk since the last time.
    fn read_on(&self, state: &mut State) {
        let new = self.memory.synced_after(state.read);
        state.read += new.len();
        for line in new.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(step) = line["step"].as_str().map(StepId::new) else {
                continue;
            };
            if line["line"] == "begin" {
                state.written_begun.insert(step);
            } else if line["outcome"] == "done" {
                state.written_done.insert(step);
            }
        }
    }

    fn die(&self, state: &mut State, step: &Step) -> StepError {
        state.death = Some((self.memory.synced(), step.id.clone()));
        dead()
    }

    /// Something that passes: before the step's effect, or after it, when only the answer is lost.
    fn passing(&self, state: &mut State) -> Option<(ErrorClass, bool)> {
        if state.dice.roll(100) >= self.trouble {
            return None;
        }
        Some(match state.dice.roll(4) {
            0 => (ErrorClass::Conflict, false),
            1 => (ErrorClass::Unreachable, false),
            2 => (ErrorClass::NotYet, false),
            _ => (ErrorClass::Unreachable, true),
        })
    }
}

fn dead() -> StepError {
    StepError::new(ErrorClass::Interrupted, "the process is dead")
}

impl Perform for Witness<'_> {
    fn perform(&self, step: &Step, attendant: &dyn Attend) -> Result<(), StepError> {
        let mut state = self.state();
        if state.death.is_some() {
            return Err(dead());
        }
        for need in &step.needs {
            assert!(
                state.done.contains(need),
                "{} is performed before {need} is done",
                step.id
            );
        }
        self.read_on(&mut state);
        assert!(
            state.written_begun.contains(&step.id),
            "{} is performed before it is written down",
            step.id
        );
        for need in &step.needs {
            assert!(
                state.written_done.contains(need),
                "{} is performed before the end of {need} is written down",
                step.id
            );
        }
        let now = state.performed;
        state.performed += 1;
        let pause = state.dice.roll(2_000);
        self.clock.advance(Duration::from_millis(pause));
        attendant.hear(News::Line(format!("performing {}", step.id)));
        if let Some((_, kill)) = self.kill.filter(|(at, _)| *at == now) {
            match kill {
                Kill::Cancel => drop(self.cancel.ask()),
                Kill::CancelTwice => {
                    self.cancel.ask();
                    self.cancel.ask();
                    assert!(attendant.is_called_off());
                }
                Kill::DeathBefore => return Err(self.die(&mut state, step)),
                Kill::DeathAfter => {
                    self.world.perform(step, attendant)?;
                    return Err(self.die(&mut state, step));
                }
                Kill::Poison => state.poisoned = Some(step.id.clone()),
            }
        }
        if state.poisoned.as_ref() == Some(&step.id) {
            return Err(StepError::new(ErrorClass::Refused, "it is poisoned"));
        }
        let passing = self.passing(&mut state);
        if let Some((class, false)) = passing {
            return Err(StepError::new(class, "a passing trouble"));
        }
        self.world.perform(step, attendant)?;
        if let Some((class, true)) = passing {
            return Err(StepError::new(class, "the answer was lost"));
        }
        state.done.insert(step.id.clone());
        Ok(())
    }
}
