//! Test doubles: a world in memory that carries out plans, and the suites that every implementation of a port passes.
//!
//! - [`World`] holds hosts, machines, agents and an API server in memory. It refuses what real ones refuse, and faults
//!   can be injected.
//! - [`ports::conforms`] holds an implementation of [`Discover`](mullion_plan::Discover) and
//!   [`Perform`](mullion_plan::Perform) to their contracts.
//! - [`driver`] and [`transport`] have a machine in memory each, and the suite for real and simulated ones.
//! - [`api`] and [`ssh`] have a server on loopback each. It records what a client asks.
//!
//! Crates use this one in their tests only.
//!
//! # Current limitations
//!
//! - The world in memory remembers a document, and takes the programs out of it: it does not apply files or services.

pub mod api;
mod documents;
pub mod driver;
mod machine;
pub mod ports;
pub mod ssh;
pub mod transport;
mod world;

pub use documents::{documents, plan, start};
pub use machine::running_machine;
pub use mullion_engine::Dice;
pub use world::{Blow, Fault, Outcome, Until, World, run};
