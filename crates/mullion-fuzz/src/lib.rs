//! Fuzzing: hostile input for everything that reads what others wrote.
//!
//! # Flow
//!
//! A [`Target`] is a reader with what must hold of its answer. [`driver::run`] starts one process a target, so that a
//! crash, a stack overflow or a hang ends that process alone. The [`worker`] in it takes the committed corpus first and
//! then changes entries of it, by a seed: the same seed, corpus and number of inputs are the same run. An input whose
//! refusal has words that no other had is kept and changed further.
//!
//! # What must hold
//!
//! No target panics, takes longer than [`worker::SECONDS`] of the processor or more than [`worker::MEMORY`] for an input
//! of at most [`mutate::LONGEST`] bytes. Each adds what is cheap to check: what was read and written reads back, no name
//! leaves its folder, no control sequence is left.
//!
//! # Current limitations
//!
//! - Coverage is not measured: words of refusals stand in for it.
//! - Readers of Windows' own answers run on this computer as far as they are plain Rust.

pub mod archives;
pub mod corpus;
pub mod driver;
pub mod mutate;
pub mod targets;
pub mod worker;

/// A reader of what others wrote.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and its corpus' folder.
    pub name: &'static str,
    /// What it reads, and whose that is.
    pub about: &'static str,
    /// How many inputs an ordinary test run takes.
    pub inputs: u64,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Reads an input. A refusal is well, and says why; whatever must not be is a panic.
    pub read: fn(&[u8]) -> Result<(), String>,
}
